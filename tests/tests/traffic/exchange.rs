//! What the tests share.

use e810::{Data, Mtu, Op, SendFlags, SendWr, WcStatus};
use e810_sim::Sim;
use e810_tests::traffic::{End, Kind, Pair, Transfer, pattern};

pub(crate) const A: End = End { side: 0, qp: 0 };
pub(crate) const B: End = End { side: 1, qp: 0 };
pub(crate) const KINDS: [Kind; 3] = [Kind::Send, Kind::Write, Kind::Read];
pub(crate) const MTUS: [Mtu; 5] = [
    Mtu::Mtu256,
    Mtu::Mtu512,
    Mtu::Mtu1024,
    Mtu::Mtu2048,
    Mtu::Mtu4096,
];

pub(crate) fn sim(seed: u64) -> Sim {
    Sim::builder().functions(2).seed(seed).build()
}

/// All three operations, at sizes around one packet, both ways.
pub(crate) fn around(mtu: usize, pair: &mut Pair<impl e810::Platform>, ends: [End; 2]) {
    for size in [0, 1, mtu - 1, mtu, mtu + 1] {
        for kind in KINDS {
            for from in ends {
                pair.transfer(from, &Transfer::new(kind, size));
            }
        }
    }
}

/// Posts one SEND of a part of the outgoing half.
pub(crate) fn send(
    pair: &mut Pair<impl e810::Platform>,
    from: End,
    wr_id: u64,
    offset: usize,
    size: usize,
    signaled: bool,
) {
    let side = pair.side(from.side);
    let sge = side.sge(offset, size);
    let request = SendWr {
        wr_id,
        op: Op::Send {
            data: Data::Sges(&[sge]),
            imm: None,
        },
        flags: match signaled {
            true => SendFlags::SIGNALED,
            false => SendFlags::empty(),
        },
    };
    side.post_send(from.qp, &[request]).unwrap();
}

/// Many messages through small queues: every ring wraps many times. Of `every`
/// sends one is signaled.
pub(crate) fn many(pair: &mut Pair<impl e810::Platform>, messages: u64, every: u64) {
    const SLOT: usize = 1024;
    const AHEAD: u64 = 48;
    let incoming = pair.sides[1].incoming();
    let (mut posted, mut sent, mut received) = (0u64, 0u64, 0u64);
    let size = |n: u64| 1 + (n * 37 % SLOT as u64) as usize;
    let offset = |n: u64| (n % AHEAD) as usize * SLOT;
    pair.until("all messages", |pair| {
        while posted < messages && posted < sent.min(received) + AHEAD {
            let n = posted;
            let sge = pair.sides[1].sge(incoming + offset(n), SLOT);
            pair.sides[1].post_recv(0, n, &[sge]).unwrap();
            let bytes = pattern(n, size(n));
            pair.sides[0].buffer.write(offset(n), &bytes);
            let signaled = n % every == every - 1 || n + 1 == messages;
            send(pair, A, n, offset(n), size(n), signaled);
            posted += 1;
        }
        for wc in pair.side(0).take() {
            assert_eq!(wc.status, WcStatus::Success);
            assert!(wc.wr_id % every == every - 1 || wc.wr_id + 1 == messages);
            assert!(wc.wr_id >= sent, "in order, each once");
            sent = wc.wr_id + 1;
        }
        for wc in pair.side(1).take() {
            assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, received));
            assert_eq!(wc.byte_len as usize, size(received));
            let arrived = pair.sides[1]
                .buffer
                .read(incoming + offset(received), size(received));
            assert!(arrived == pattern(received, size(received)), "{received}");
            received += 1;
        }
        sent == messages && received == messages
    });
}
