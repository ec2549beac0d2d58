//! Receives.

use e810_datapath::{PostError, QpType, RecvWr, Sge};
use e810_peer::Library;
use e810_peer::generate::Rng;

use crate::trio::{Shape, Trio, fill, rings};

fn sges(rng: &mut Rng, count: u32) -> Vec<Sge> {
    (0..count)
        .map(|_| Sge {
            addr: rng.bits(),
            lkey: rng.word(),
            length: rng.word() >> 8,
        })
        .collect()
}

/// Posts one receive to all three; whether it was taken.
fn post(trio: &mut Trio, wr_id: u64, sges: &[Sge]) -> bool {
    let [first, second] = &trio.theirs;
    fill(first.qp.rq(), second.qp.rq(), trio.ours.rq_ring);
    let answers = [first, second].map(|them| them.qp.post_recv(&trio.calls, wr_id, sges));
    let code = match trio.ours.recv.post_recv(&[RecvWr { wr_id, sges }]) {
        Ok(()) => 0,
        Err(refused) => match refused.error {
            PostError::Full { .. } => libc::ENOMEM,
            _ => libc::EINVAL,
        },
    };
    assert_eq!(answers, [code; 2], "{sges:?}");
    let [first, second] = &trio.theirs;
    let written = rings(first.qp.rq(), second.qp.rq(), trio.ours.rq_ring);
    assert_eq!(written > 0, code == 0);
    code == 0
}

/// The device completes the receive in `slot`: one of the forms that data-path
/// 4.1 and 4.2 have.
fn complete(trio: &mut Trio, rng: &mut Rng, qp_type: QpType, slot: u64) {
    let shift = trio.theirs[0].qp.rq_shift;
    let index = slot << shift << 32;
    let length = u64::from(rng.word());
    let source = u64::from(rng.word() >> 8);
    let immediate = [u64::from(rng.word()), 0, 0, 1 << 62];
    match (qp_type, rng.below(4)) {
        // SEND ONLY; UD names its sender.
        (QpType::Ud, 0) => trio.complete(length, source, 0x04 << 56 | index, Some(immediate)),
        (QpType::Ud, _) => trio.complete(length, source, 0x04 << 56 | index, None),
        (_, 0) => trio.complete(length, 0, 0x05 << 56 | index, Some(immediate)),
        // RDMA WRITE ONLY with immediate data.
        (_, 1) => trio.complete(length, 0, 0x0b << 56 | index, Some(immediate)),
        // SEND ONLY with invalidate.
        (_, 2) => trio.complete(length, source, 0x17 << 56 | 1 << 53 | index, None),
        _ => trio.complete(length, 0, 0x04 << 56 | index, None),
    };
}

#[test]
#[cfg_attr(
    provider_missing,
    ignore = "NOT RUN: ibverbs-providers is missing; tests/peer/run fetches it"
)]
fn the_library_writes_the_same_receives() {
    let mut rng = Rng(9);
    for (qp_type, sges_most) in [
        (QpType::Rc, 1),
        (QpType::Rc, 3),
        (QpType::Rc, 13),
        (QpType::Ud, 2),
    ] {
        let shape = Shape {
            qp_type,
            send_wr: 8,
            recv_wr: 30,
            sges: sges_most,
            inline: 0,
        };
        let Some(library) = Library::load_or_tell() else {
            return;
        };
        let mut trio = Trio::new(&library, shape);
        let slots = u64::from(trio.theirs[0].qp.cap.max_recv_wr) + 1;
        let (mut taken, mut refused, mut completed) = (0u64, 0, 0u64);
        for wr_id in 0..1500 {
            // None at all is another matter: the library then writes the first
            // SGE of the receive before (docs/hardware-notes.md).
            let beyond = u32::from(rng.one_in(20));
            let count = 1 + rng.below(sges_most + beyond);
            let list = sges(&mut rng, count);
            if post(&mut trio, wr_id, &list) {
                taken += 1;
            } else {
                refused += 1;
            }
            while completed < taken && rng.below(20) < 9 {
                complete(&mut trio, &mut rng, qp_type, completed % slots);
                completed += 1;
            }
        }
        println!(
            "{qp_type}, {sges_most} SGEs: {taken} receives equal, {refused} refused alike, \
             {completed} completions read alike"
        );
        assert!(taken > 700 && refused > 10 && completed > 700);
    }
}

#[test]
#[cfg_attr(
    provider_missing,
    ignore = "NOT RUN: ibverbs-providers is missing; tests/peer/run fetches it"
)]
fn a_receive_of_nothing_is_the_one_before_to_the_library() {
    let Some(library) = Library::load_or_tell() else {
        return;
    };
    let shape = Shape {
        qp_type: QpType::Rc,
        send_wr: 8,
        recv_wr: 30,
        sges: 1,
        inline: 0,
    };
    let trio = Trio::new(&library, shape);
    let qp = &trio.theirs[0].qp;
    let before = [Sge {
        addr: 0x1234_5000,
        length: 64,
        lkey: 0x700,
    }];
    for list in [&before[..], &[]] {
        assert_eq!(qp.post_recv(&trio.calls, 0, list), 0);
    }
    let words: Vec<u64> = qp.rq().iter().map(e810_hal::DmaWord::get).collect();
    assert_eq!(words[4..8], words[..4], "the SGE of the receive before");
}
