//! Every error that a request can end with, and who is told: the requester by its
//! completion, the responder by that of its receive, both, or one of them.

use e810::{
    AccessFlags, AsyncEvent, Data, Mr, Op, Platform, QpState, Remote, SendFlags, SendWr, Sge,
    WcStatus, WorkQueue,
};
use e810_hal::Ns;

use super::super::scenarios::{A, B};
use super::super::{Kind, Pair, Room, Setup, Transfer};
use super::signaled;

/// What is wrong, and where the request meets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// A local key that was never given.
    LocalKey,
    /// An SGE that ends behind its region.
    LocalBounds,
    /// A READ into a region without LOCAL_WRITE.
    LocalRight,
    /// A remote key that was never given.
    RemoteKey,
    /// A WRITE that ends behind the peer's region.
    RemoteBounds,
    /// A WRITE to a region without REMOTE_WRITE.
    RemoteWriteRight,
    /// A READ of a region without REMOTE_READ.
    RemoteReadRight,
    /// A SEND longer than its receive.
    ShortReceive,
    /// A receive with a key that was never given.
    ReceiveKey,
    /// A receive whose SGE ends behind its region.
    ReceiveBounds,
    /// A receive into a region without LOCAL_WRITE.
    ReceiveRight,
    /// A SEND to a peer that has no receive, too often.
    NoReceive,
    /// A SEND to nobody.
    NoPeer,
    /// An invalidation of a key that was never given.
    InvalidateKey,
}

/// All of them: status of the request, and of the receive it consumes, if the
/// responder fails too.
pub const ALL: [(Wrong, WcStatus, Option<WcStatus>); 14] = [
    // Detected by the requester alone: the peer never hears of it.
    (Wrong::LocalKey, WcStatus::LocProtErr, None),
    (Wrong::LocalBounds, WcStatus::LocProtErr, None),
    // Where the device meets this one is not in the sources. In the response, the event's source is
    // the same as that of a peer's WRITE (control-path 7.4), so no request can be blamed and the
    // cause is in the event only; if the event blames the send queue, the request has it.
    (Wrong::LocalRight, WcStatus::WrFlushErr, None),
    (Wrong::InvalidateKey, WcStatus::LocProtErr, None),
    (Wrong::NoReceive, WcStatus::RnrRetryExcErr, None),
    (Wrong::NoPeer, WcStatus::RetryExcErr, None),
    // Detected by the responder, told to the requester by a NAK; the responder's
    // queue pair stops as well, and its receives are flushed.
    (
        Wrong::RemoteKey,
        WcStatus::RemAccessErr,
        Some(WcStatus::WrFlushErr),
    ),
    (
        Wrong::RemoteBounds,
        WcStatus::RemAccessErr,
        Some(WcStatus::WrFlushErr),
    ),
    (
        Wrong::RemoteWriteRight,
        WcStatus::RemAccessErr,
        Some(WcStatus::WrFlushErr),
    ),
    (
        Wrong::RemoteReadRight,
        WcStatus::RemAccessErr,
        Some(WcStatus::WrFlushErr),
    ),
    // Detected by the responder in its own receive: both are told, each its side.
    (
        Wrong::ShortReceive,
        WcStatus::RemInvReqErr,
        Some(WcStatus::LocLenErr),
    ),
    (
        Wrong::ReceiveKey,
        WcStatus::RemOpErr,
        Some(WcStatus::LocProtErr),
    ),
    (
        Wrong::ReceiveBounds,
        WcStatus::RemOpErr,
        Some(WcStatus::LocProtErr),
    ),
    (
        Wrong::ReceiveRight,
        WcStatus::RemOpErr,
        Some(WcStatus::LocProtErr),
    ),
];

/// A key that was never given: the highest index there can be.
const NO_KEY: u32 = 0x00FF_F000 << 8 | 1;
/// Receives posted by the responder.
const RECEIVES: u64 = 3;

/// Little patience, so that exhaustion is soon.
#[must_use]
pub fn setup() -> Setup {
    Setup {
        retry_cnt: 1,
        rnr_retry: 1,
        ..Setup::default()
    }
}

/// Each of them by turns, on queue pairs that are made anew in between.
pub fn every_completion_error<P: Room>(pair: &mut Pair<P>) {
    for (wrong, status, receive) in ALL {
        fails(pair, wrong, status, receive);
    }
}

fn closed<P: Room>(pair: &mut Pair<P>, side: usize) -> Mr<P> {
    let memory = pair.side(side).platform.room(4096);
    let side = pair.side(side);
    // Local reading only.
    let mr = side
        .control
        .reg_mr(&side.pd, memory.bytes(), AccessFlags::empty());
    mr.expect("a region")
}

fn sge_of<P: Platform>(mr: &Mr<P>, length: u32) -> Sge {
    Sge {
        addr: mr.address(),
        length,
        lkey: mr.lkey(),
    }
}

fn fails<P: Room>(
    pair: &mut Pair<P>,
    wrong: Wrong,
    status: WcStatus,
    receive_status: Option<WcStatus>,
) {
    let here_closed = closed(pair, 0);
    let there_closed = closed(pair, 1);
    let there = pair.side(1);
    let incoming = there.sge(there.incoming(), 4096);
    let receive = match wrong {
        Wrong::ShortReceive => Sge {
            length: 63,
            ..incoming
        },
        Wrong::ReceiveKey => Sge {
            lkey: NO_KEY,
            ..incoming
        },
        Wrong::ReceiveBounds => Sge {
            addr: there.mr.address() + there.mr.len() as u64 - 63,
            ..incoming
        },
        Wrong::ReceiveRight => sge_of(&there_closed, 4096),
        _ => incoming,
    };
    if !matches!(wrong, Wrong::NoReceive | Wrong::NoPeer) {
        for n in 0..RECEIVES {
            there.post_recv(0, 100 + n, &[receive]).expect("posted");
        }
    }
    if wrong == Wrong::NoPeer {
        let qp = there.qps.remove(0);
        let gone = there.control.destroy_qp(qp);
        gone.map_err(|(_, error)| error).expect("destroyed");
    }
    let region = Remote {
        addr: there.mr.address(),
        rkey: there.mr.rkey(),
    };
    let beyond = Remote {
        addr: there.mr.address() + there.mr.len() as u64 - 63,
        ..region
    };
    let forbidden = Remote {
        addr: there_closed.address(),
        rkey: there_closed.rkey(),
    };
    let here = pair.side(0);
    let good = here.sge(0, 64);
    let local = match wrong {
        Wrong::LocalKey => Sge {
            lkey: NO_KEY,
            ..good
        },
        Wrong::LocalBounds => Sge {
            addr: here.mr.address() + here.mr.len() as u64 - 63,
            ..good
        },
        Wrong::LocalRight => sge_of(&here_closed, 64),
        _ => good,
    };
    let (sges, imm) = ([local], None);
    let data = Data::Sges(&sges);
    let write = |remote| Op::Write { data, remote, imm };
    let read = |remote| Op::Read {
        into: &sges,
        remote,
    };
    let op = match wrong {
        Wrong::LocalRight => read(region),
        Wrong::RemoteKey => write(Remote {
            rkey: NO_KEY,
            ..region
        }),
        Wrong::RemoteBounds => write(beyond),
        Wrong::RemoteWriteRight => write(forbidden),
        Wrong::RemoteReadRight => read(forbidden),
        Wrong::InvalidateKey => Op::LocalInv { stag: NO_KEY },
        _ => Op::Send { data, imm },
    };
    // The bad one, and one behind it that is flushed: fenced, because a SEND does
    // not wait for the answer of a READ.
    let fenced = SendWr {
        flags: SendFlags::SIGNALED | SendFlags::FENCE,
        ..signaled(2, Op::Send { data, imm: None })
    };
    let list = [signaled(1, op), fenced];
    here.post_send(0, &list).expect("posted");
    let reported = pair.completions(0, 2);
    let ended: Vec<_> = reported.iter().map(|wc| (wc.wr_id, wc.status)).collect();
    let of_sends = |event: &AsyncEvent| event.blamed == Some(WorkQueue::Send);
    let status = match wrong {
        Wrong::LocalRight if pair.side(0).reported.iter().any(of_sends) => WcStatus::LocProtErr,
        _ => status,
    };
    let expected = [(1, status), (2, WcStatus::WrFlushErr)];
    assert_eq!(ended, expected, "{wrong:?}: {:?}", pair.side(0).reported);
    assert_eq!(pair.side(0).qps[0].state(), QpState::Err, "{wrong:?}");
    match receive_status {
        Some(first) => {
            let reported = pair.completions(1, RECEIVES as usize);
            let ended: Vec<_> = reported.iter().map(|wc| (wc.wr_id, wc.status)).collect();
            let mut expected: Vec<_> = (100..100 + RECEIVES)
                .map(|n| (n, WcStatus::WrFlushErr))
                .collect();
            expected[0].1 = first;
            assert_eq!(ended, expected, "{wrong:?}: {:?}", pair.side(1).reported);
            assert_eq!(pair.side(1).qps[0].state(), QpState::Err, "{wrong:?}");
        }
        None => {
            pair.during(Ns::from_ms(2));
            assert_eq!(pair.side(1).take(), [], "{wrong:?}");
            if wrong != Wrong::NoPeer {
                assert_eq!(pair.side(1).qps[0].state(), QpState::Rts, "{wrong:?}");
            }
        }
    }
    // The control path has done with both before they are made anew.
    pair.during(Ns::from_ms(50));
    pair.renew(A);
    if wrong == Wrong::NoPeer {
        pair.side(1).add_qp();
    } else {
        pair.renew(B);
    }
    for end in [A, B] {
        pair.connect(end);
        let side = pair.side(end.side);
        side.take();
        side.reported.clear();
    }
    for (side, mr) in [(0, here_closed), (1, there_closed)] {
        let given = pair.side(side).control.dereg_mr(mr);
        given.map_err(|(_, error)| error).expect("given back");
    }
    pair.transfer(A, &Transfer::new(Kind::Send, 200));
    pair.transfer(B, &Transfer::new(Kind::Read, 200));
}
