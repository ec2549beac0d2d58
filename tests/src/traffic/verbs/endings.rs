//! Queue pairs that end with nothing to flush: from every state, by their program
//! and by a failure. A card may have nothing to say to that, or a failure that
//! means nothing.

use e810::{AccessFlags, Data, Op, Platform, QpAttr, QpState, Remote, SendFlags, SendWr, WcStatus};
use e810_hal::Ns;

use super::super::scenarios::{A, B, KINDS};
use super::super::{Pair, Transfer};

/// A key that was never given: the highest index there can be.
const NO_KEY: u32 = 0x00FF_F000 << 8 | 1;

/// Ended in RESET, in INIT with receives and without, in RTS by the program, and in
/// RTS by a peer that does what it may not.
pub fn with_nothing_posted(pair: &mut Pair<impl Platform>) {
    let to_init = QpAttr::to_init(AccessFlags::empty());
    let to_error = QpAttr::to_error();
    for (begun, receives, ended) in [
        (false, 0, false),
        (true, 0, false),
        (true, 2, false),
        (true, 0, true),
        (true, 2, true),
    ] {
        let side = pair.side(0);
        side.add_qp();
        let mut qp = side.qps.pop().expect("the new one");
        if begun {
            side.control.modify_qp(&mut qp, &to_init).expect("to INIT");
        }
        side.qps.push(qp);
        let last = side.qps.len() - 1;
        for id in 0..receives {
            let sge = side.sge(side.incoming(), 64);
            side.post_recv(last, id, &[sge]).expect("posted");
        }
        if ended {
            let qp = side.qps.last_mut().expect("the new one");
            side.control.modify_qp(qp, &to_error).expect("to ERR");
            let done = pair.completions(0, receives as usize);
            assert!(done.iter().all(|wc| wc.status == WcStatus::WrFlushErr));
        }
        let side = pair.side(0);
        let qp = side.qps.pop().expect("the new one");
        let discarded = side.control.destroy_qp(qp).map_err(|(_, e)| e);
        let left = if ended { 0 } else { receives as u32 };
        assert_eq!(discarded.expect("destroyed").receives, left);
    }
    // The peer of one that ended has nothing posted when it fails.
    let side = pair.side(1);
    let remote = Remote {
        addr: side.mr.address(),
        rkey: NO_KEY,
    };
    let sge = pair.side(0).sge(0, 64);
    let request = SendWr {
        wr_id: 1,
        op: Op::Write {
            data: Data::Sges(std::slice::from_ref(&sge)),
            remote,
            imm: None,
        },
        flags: SendFlags::SIGNALED,
    };
    pair.side(0).post_send(0, &[request]).expect("posted");
    let done = pair.completions(0, 1);
    assert!(done.iter().all(|wc| wc.status == WcStatus::RemAccessErr));
    pair.until("a failure of the peer", |pair| {
        let qp = pair.side(1).qps.first();
        qp.is_some_and(|qp| qp.state() == QpState::Err)
    });
    pair.during(Ns::from_ms(30));
    for end in [A, B] {
        let side = pair.side(end.side);
        assert_eq!(side.failed, [], "nothing that matters");
        assert_eq!(side.take(), []);
        side.reported.clear();
        // Again changes nothing.
        let qp = side.qps.first_mut().expect("a QP");
        side.control.modify_qp(qp, &to_error).expect("in ERR");
        pair.renew(end);
    }
    for end in [A, B] {
        pair.connect(end);
    }
    for kind in KINDS {
        pair.transfer(A, &Transfer::new(kind, 3000));
        pair.transfer(B, &Transfer::new(kind, 3000));
    }
}
