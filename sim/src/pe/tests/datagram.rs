//! UD queue pairs: address handles, the GRH area, Q_Keys, and errors that stop a sender.

use super::engine_pair::{ALL_RIGHTS, BYTES, PD, VA};
use super::qp::{FLUSH_RQ, FLUSH_SQ, TestQp, mac};
use super::test_driver::{GOOD, TestDriver};
use crate::pe::Config;
use crate::variation::{FlushStyle, Variation};

const QKEY: u64 = 0x1111_2222;
/// Address handle 2 of the sender.
const AH: u64 = 2;

/// Two functions, each with a UD QP 3 in RTS and a region.
struct EnginePair {
    rigs: [TestDriver; 2],
    qps: [TestQp; 2],
    regions: [(u32, u64); 2],
}

impl EnginePair {
    fn new() -> Self {
        Self::with_key(QKEY)
    }

    /// Both QPs have this Q_Key in their context.
    fn with_key(qkey: u64) -> Self {
        let mut rigs = [0, 1].map(|pf| {
            let variation = Variation {
                flush: FlushStyle::PerWqe,
                ..Variation::default()
            };
            TestDriver::ready(Config {
                pf,
                variation,
                ..Config::default()
            })
        });
        let [a, b] = &mut rigs;
        let regions = [
            a.register(9, PD, VA, BYTES, ALL_RIGHTS),
            b.register(9, PD, VA, BYTES, ALL_RIGHTS),
        ];
        let qps = [
            TestQp::create_ud(a, 3, PD, 1),
            TestQp::create_ud(b, 3, PD, 0),
        ];
        for (driver, qp) in [(&mut *a, &qps[0]), (&mut *b, &qps[1])] {
            let word = driver.env.word(qp.context + 64);
            driver.env.set_word(qp.context + 64, word | qkey << 32);
            qp.connect(driver);
        }
        // MAC, PD, TTL 64 and ARP entry 3; IPv4.
        let handle = [
            mac(0) << 16,
            PD << 48,
            64 << 32 | 3 << 48,
            1 << 59 | AH,
            0x0a00_0002,
            0,
            0x0a00_0001,
            0,
        ];
        assert_eq!(a.command(0x1c, handle), GOOD);
        Self { rigs, qps, regions }
    }

    /// A signaled send of `bytes` bytes to QP 3 through an address handle.
    fn send(&mut self, bytes: u64, ah: u64, qkey: u64) {
        let stag = u64::from(self.regions[0].0);
        let header = 1 << 62 | 3 << 32 | ah;
        self.qps[0].put(
            &mut self.rigs[0],
            [VA, bytes << 32 | stag, 3 << 32 | qkey, header],
            true,
        );
        self.qps[0].doorbell(&mut self.rigs[0]);
        let [a, b] = &mut self.rigs;
        for frame in std::mem::take(&mut a.env.frames) {
            b.engine.receive(&frame, &mut b.env);
        }
        b.settle();
    }

    /// The code of the sender's event.
    fn stopped_by(&self) -> u64 {
        let (code, id, source, state, ..) = self.rigs[0].aeqe(0).unwrap();
        assert_eq!((id, source, state), (3, 5, 6));
        code
    }
}

#[test]
fn a_datagram_arrives_behind_its_ip_header() {
    let mut pair = EnginePair::new();
    let data: Vec<u8> = (0..500_u32).map(|n| (n * 3) as u8).collect();
    pair.rigs[0].env.poke(pair.regions[0].1, &data);
    let (stag, memory) = pair.regions[1];
    for _ in 0..2 {
        pair.qps[1].post_receive(&mut pair.rigs[1], VA, 1000, stag);
    }
    // A datagram with a wrong Q_Key is not for this QP.
    pair.send(500, AH, 7);
    assert!(pair.qps[1].receive.poll(&mut pair.rigs[1].env).is_none());
    pair.send(500, AH, QKEY);
    let (cqe, extension) = pair.qps[1].receive.poll(&mut pair.rigs[1].env).unwrap();
    // PAYLDLEN with the 40 bytes, source QP 3, IPv4 [53], slot 0, wire opcode 0x64 in six bits.
    assert_eq!((cqe[0] as u32, cqe[2]), (540, 3 | 3 << 32));
    assert_eq!(
        (cqe[3] >> 53 & 1, cqe[3] >> 32 & 0x7FFF, cqe[3] >> 56 & 0x3F),
        (1, 0, 0x24)
    );
    // The source MAC, and that it is valid.
    let extension = extension.unwrap();
    assert_eq!((extension[2], extension[3] >> 61 & 1), (mac(0), 1));
    let mut received = [0; 540];
    pair.rigs[1].env.peek(memory, &mut received);
    assert_eq!(received[40..], data);
    // Version and header length, then the addresses at the end.
    assert_eq!(
        (received[20], &received[32..40]),
        (0x45, &[10, 0, 0, 1, 10, 0, 0, 2][..])
    );
    for _ in 0..2 {
        assert!(pair.qps[0].send.poll(&mut pair.rigs[0].env).is_some());
    }
    // Longer than the receive: the datagram is dropped, and the receive stays.
    pair.send(961, AH, QKEY);
    assert!(pair.qps[1].receive.poll(&mut pair.rigs[1].env).is_none());
    pair.send(960, AH, QKEY);
    assert!(pair.qps[1].receive.poll(&mut pair.rigs[1].env).is_some());
    assert_eq!((pair.rigs[0].aeqe(0), pair.rigs[1].aeqe(0)), (None, None));
    for driver in &pair.rigs {
        assert_eq!(driver.env.findings, []);
    }
}

#[test]
fn a_request_with_a_privileged_key_carries_the_queue_pairs_own() {
    // What Linux' MAD layer posts on QP 1, whose own Q_Key is the second one.
    for (posted, own) in [
        (0x8000_0000, 0x8001_0000),
        (0x8001_0000, 0x8001_0000),
        (0xFFFF_FFFF, QKEY),
    ] {
        let mut pair = EnginePair::with_key(own);
        let (stag, _) = pair.regions[1];
        pair.qps[1].post_receive(&mut pair.rigs[1], VA, 1000, stag);
        pair.send(8, AH, posted);
        assert!(
            pair.qps[1].receive.poll(&mut pair.rigs[1].env).is_some(),
            "{posted:#x} through a QP with {own:#x}"
        );
    }
    // Without that bit the request's key is sent, whatever the QP's own is.
    let mut pair = EnginePair::with_key(0x8001_0000);
    let (stag, _) = pair.regions[1];
    pair.qps[1].post_receive(&mut pair.rigs[1], VA, 1000, stag);
    pair.send(8, AH, 0x0001_0000);
    assert!(pair.qps[1].receive.poll(&mut pair.rigs[1].env).is_none());
}

#[test]
fn what_stops_a_sender() {
    for (bytes, ah, pd, code) in [
        (8, 5, PD, 0x0406),
        (8, 99, PD, 0x0406),
        (8, AH, PD + 1, 0x0133),
        (1025, AH, PD, 0x0132),
        // L4LEN [45:42].
        (8, AH | 5 << 42, PD, 0x0135),
    ] {
        let mut pair = EnginePair::new();
        if pd != PD {
            let handle = [0, pd << 48, 3 << 48, 1 << 59 | AH, 0, 0, 0, 0];
            pair.rigs[0].good(0x1d, handle);
        }
        pair.send(bytes, ah, QKEY);
        assert_eq!(pair.stopped_by(), code);
        assert!(pair.qps[0].send.poll(&mut pair.rigs[0].env).is_none());
    }
    let mut pair = EnginePair::new();
    pair.rigs[0].good(0x0f, [0, 0, 0, 3, 0, 0, 0, 0]);
    pair.send(8, AH, QKEY);
    assert_eq!(pair.stopped_by(), 0x0401);
    // Datagram QPs do not write.
    let mut pair = EnginePair::new();
    let stag = pair.regions[0].0;
    pair.qps[0].post(&mut pair.rigs[0], 0, (VA, 8, stag), (VA, stag));
    pair.qps[0].doorbell(&mut pair.rigs[0]);
    assert_eq!(pair.stopped_by(), 0x020A);
}

#[test]
fn datagram_queues_are_flushed_like_others() {
    let mut pair = EnginePair::new();
    let (stag, driver) = (pair.regions[0].0, &mut pair.rigs[0]);
    let qp = &mut pair.qps[0];
    qp.post_receive(driver, VA, 100, stag);
    qp.to_error(driver);
    qp.post(driver, 3, (VA, 8, stag), (0, 0));
    let done = qp.flush(driver, FLUSH_SQ | FLUSH_RQ);
    assert!(!done.error && !matches!(done.minor, 0 | 2 | 3));
    assert!(qp.send.poll(&mut driver.env).is_some() && qp.receive.poll(&mut driver.env).is_some());
    assert_eq!(qp.destroy(driver), GOOD);
}

#[test]
fn sqd_of_a_datagram_qp_ends_at_once() {
    let mut pair = EnginePair::new();
    assert_eq!(pair.qps[0].modify(&mut pair.rigs[0], 3, 0), GOOD);
    assert_eq!(pair.rigs[0].aeqe(0).map(|event| event.0), Some(0x0900));
}
