//! Packets that cause a lint, and packets that are only counted.

use super::engine_pair::{ALL_RIGHTS, PD, VA};
use super::qp::TestQp;
use super::test_driver::TestDriver;
use crate::findings::Class;
use crate::pe::Config;
use crate::wire::{Addresses, Bth, Deth, Frame, Headers, Opcode, Path, Reth};

const QKEY: u32 = 0x1111_2222;
/// P_Key of the contexts that the tests write.
const PKEY: u16 = 0xFFFF;

fn path() -> Path {
    Path {
        src_mac: [2, 0xe8, 0x10, 0, 0, 1],
        dst_mac: [2, 0xe8, 0x10, 0, 0, 0],
        ip: Addresses::V4 {
            src: [10, 0, 0, 2].into(),
            dst: [10, 0, 0, 1].into(),
        },
        ..Path::default()
    }
}

fn frame(path: &Path, headers: &Headers) -> Vec<u8> {
    Frame::new(path, headers, 16).unwrap().seal()
}

/// A datagram for QP 3.
fn datagram() -> Headers {
    let mut headers = Headers::new(Bth::new(Opcode::UD_SEND_ONLY, 3, 0));
    headers.deth = Some(Deth {
        qkey: QKEY,
        src_qp: 5,
    });
    headers
}

/// A function with a datagram QP 3 that has receives.
fn datagrams() -> (TestDriver, TestQp) {
    let mut driver = TestDriver::ready(Config::default());
    let (stag, _) = driver.register(9, PD, VA, 1000, ALL_RIGHTS);
    let mut qp = TestQp::create_ud(&mut driver, 3, PD, 1);
    let word = driver.env.word(qp.context + 64);
    let qkey = u64::from(QKEY);
    driver.env.set_word(qp.context + 64, word | qkey << 32);
    qp.connect(&mut driver);
    for _ in 0..4 {
        qp.post_receive(&mut driver, VA, 500, stag);
    }
    (driver, qp)
}

/// Receives a frame; returns whether it filled a receive, and the kinds of the findings.
fn takes(driver: &mut TestDriver, qp: &mut TestQp, frame: &[u8]) -> (bool, Vec<&'static str>) {
    driver.engine.receive(frame, &mut driver.env);
    driver.settle();
    let filled = qp.receive.poll(&mut driver.env).is_some();
    let found = std::mem::take(&mut driver.env.findings);
    (filled, found.iter().map(|finding| finding.1).collect())
}

#[test]
fn datagrams_of_another_partition_or_version_are_dropped() {
    let (mut driver, mut qp) = datagrams();
    let mut taken = |headers: &Headers| takes(&mut driver, &mut qp, &frame(&path(), headers));
    let lint = vec!["wire-bits"];
    let mut headers = datagram();
    assert_eq!(taken(&headers), (true, vec![]));
    headers.bth.pkey = PKEY & 0x7FFF;
    assert_eq!(taken(&headers), (true, vec![]));
    headers.bth.pkey = 0x8001;
    assert_eq!(taken(&headers), (false, lint.clone()));
    headers.bth.pkey = PKEY;
    headers.bth.version = 1;
    assert_eq!(taken(&headers), (false, lint.clone()));
    headers.bth.version = 0;
    // Accepted in any case.
    headers.bth.migration = false;
    assert_eq!(taken(&headers), (true, lint));
    // A wrong Q_Key is the peer's mistake.
    let mut other = datagram();
    other.deth = Some(Deth { qkey: 7, src_qp: 5 });
    assert_eq!(taken(&other), (false, vec![]));
}

#[test]
fn requests_of_another_partition_are_dropped() {
    let (mut driver, mut qp) = connection(false);
    let mut headers = Headers::new(Bth::new(Opcode::SEND_ONLY, 3, 0x101));
    headers.bth.pkey = 0x8001;
    let frame = frame(&path(), &headers);
    assert_eq!(
        takes(&mut driver, &mut qp, &frame),
        (false, vec!["wire-bits"])
    );
}

/// A packet uses a receive that has an undefined bit set: it is reported at that moment.
#[test]
fn receives_with_ignored_bits_are_used() {
    let text = |ring: &str| format!("QP 3: {ring} queue entry 0: [\"word 2 not zero\"]");
    let (mut driver, qp) = datagrams();
    driver.env.set_word(qp.rq + 16, 1);
    driver
        .engine
        .receive(&frame(&path(), &datagram()), &mut driver.env);
    let lint = (Class::Lint, "wqe-bits", text("receive"));
    assert_eq!(driver.env.findings, [lint]);
    let (mut driver, mut qp) = connection(false);
    let (stag, _) = driver.register(9, PD, VA, 1000, ALL_RIGHTS);
    qp.post_receive(&mut driver, VA, 500, stag);
    driver.env.set_word(qp.rq + 16, 1);
    let headers = Headers::new(Bth::new(Opcode::SEND_ONLY, 3, 0x101));
    driver
        .engine
        .receive(&frame(&path(), &headers), &mut driver.env);
    let lint = (Class::Lint, "wqe-bits", text("Receive"));
    assert_eq!(driver.env.findings, [lint]);
}

/// A connected QP 3, with DCQCNENABLE or without.
fn connection(handles_congestion: bool) -> (TestDriver, TestQp) {
    let mut driver = TestDriver::ready(Config::default());
    let qp = TestQp::create(&mut driver, 3, PD, 1);
    let word = driver.env.word(qp.context + 160);
    let bit = u64::from(handles_congestion) << 22;
    driver.env.set_word(qp.context + 160, word | bit);
    qp.connect(&mut driver);
    (driver, qp)
}

#[test]
fn a_solicited_event_needs_a_receive_that_ends() {
    let (mut driver, mut qp) = connection(false);
    let solicited = |opcode| {
        // From the past, so that the state of the connection does not matter.
        let mut headers = Headers::new(Bth::new(opcode, 3, 0x50));
        headers.bth.solicited = true;
        headers.reth = opcode.has_reth().then(Reth::default);
        headers.immediate = opcode.has_immediate().then_some(1);
        headers
    };
    for (opcode, kinds) in [
        (Opcode::WRITE_ONLY, vec!["wire-bits"]),
        (Opcode::SEND_FIRST, vec!["wire-bits"]),
        (Opcode::SEND_ONLY, vec![]),
        (Opcode::WRITE_ONLY_IMM, vec![]),
    ] {
        let frame = frame(&path(), &solicited(opcode));
        assert_eq!(takes(&mut driver, &mut qp, &frame), (false, kinds));
    }
}

/// Words of the counters.
fn counters(driver: &mut TestDriver) -> Vec<u64> {
    let buffer = driver.env.alloc(1024, 64);
    driver.good(0x2e, [0, 0, 0, 0, buffer, 0, 0, 0]);
    (0..128).map(|n| driver.env.word(buffer + 8 * n)).collect()
}

#[test]
fn congestion_and_other_vlans_are_counted() {
    for handled in [false, true] {
        let (mut driver, mut qp) = connection(handled);
        let cnp = Headers::new(Bth::new(Opcode::CNP, 3, 0));
        for _ in 0..3 {
            takes(&mut driver, &mut qp, &frame(&path(), &cnp));
        }
        let tagged = Path {
            vlan: Some(0x2005),
            ..path()
        };
        let request = Headers::new(Bth::new(Opcode::SEND_ONLY, 3, 0x101));
        takes(&mut driver, &mut qp, &frame(&tagged, &request));
        let marked = Path {
            tos: 0x6B,
            ..path()
        };
        takes(&mut driver, &mut qp, &frame(&marked, &request));
        // ECN-capable, and not marked.
        let able = Path {
            tos: 0x6A,
            ..path()
        };
        takes(&mut driver, &mut qp, &frame(&able, &request));
        let counters = counters(&mut driver);
        let at = |offset: usize| counters[offset / 8];
        assert_eq!(at(312), if handled { 3 } else { 3 << 32 });
        assert_eq!((at(304), at(0), at(320)), (1, 1 << 32, 0));
    }
}
