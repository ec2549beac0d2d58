//! What is refused, what fails, and what is left afterwards, in virtual time.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, like the tests"
)]

use e810::{
    AccessFlags, Data, Mtu, Object, Op, QpAttr, QpCaps, QpInit, QpState, Remote, SendFlags, SendWr,
    Sge, Wc, WcOpcode, WcStatus,
};
use e810_ceq::aeqe::Object as AeObject;
use e810_datapath::error::{PostError, Queue, Refused};
use e810_datapath::state::{AttrMask, TransitionError};
use e810_hal::Ns;
use e810_sim::Sim;
use e810_sim::link::Verdict;
use e810_sim::pe::{CqpErrors, FlushStyle};
use e810_tests::traffic::{Buffer, End, Kind, Pair, Setup, Transfer};

const A: End = End { side: 0, qp: 0 };
const B: End = End { side: 1, qp: 0 };

fn sim(seed: u64) -> Sim {
    Sim::builder().functions(2).seed(seed).build()
}

/// A WRITE of `sges` to the peer.
fn write<'a>(wr_id: u64, sges: &'a [Sge], remote: Remote) -> SendWr<'a> {
    SendWr {
        wr_id,
        op: Op::Write {
            data: Data::Sges(sges),
            remote,
            imm: None,
        },
        flags: SendFlags::SIGNALED,
    }
}

fn send(wr_id: u64, sges: &[Sge]) -> SendWr<'_> {
    SendWr {
        wr_id,
        op: Op::Send {
            data: Data::Sges(sges),
            imm: None,
        },
        flags: SendFlags::SIGNALED,
    }
}

fn refused(error: PostError) -> Result<(), Refused> {
    Err(Refused { posted: 0, error })
}

#[test]
fn posts_outside_the_limits() {
    let sim = sim(1);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let remote = pair.remote(A, 0);
    let side = &mut pair.sides[0];
    let sge = side.sge(0, 8);
    let five = [sge; 5];
    let too_many = |queue| PostError::TooManySges {
        queue,
        got: 5,
        limit: 4,
    };
    assert_eq!(
        side.post_send(0, &[send(1, &five)]),
        refused(too_many(Queue::Send))
    );
    assert_eq!(side.post_recv(0, 1, &five), refused(too_many(Queue::Recv)));
    let long = Sge {
        length: 1 << 31,
        ..sge
    };
    let sge_too_long = PostError::SgeTooLong {
        index: 1,
        length: 1 << 31,
        limit: (1 << 31) - 1,
    };
    assert_eq!(
        side.post_send(0, &[write(1, &[sge, long], remote)]),
        refused(sge_too_long)
    );
    assert_eq!(side.post_recv(0, 1, &[sge, long]), refused(sge_too_long));
    let half = Sge {
        length: 1 << 30,
        ..sge
    };
    let message_too_long = PostError::MessageTooLong {
        bytes: 1 << 31,
        limit: (1 << 31) - 1,
    };
    assert_eq!(
        side.post_send(0, &[send(1, &[half, half])]),
        refused(message_too_long)
    );
    let bytes = [7; 102];
    let inline = SendWr {
        wr_id: 1,
        op: Op::Send {
            data: Data::Inline(&[&bytes]),
            imm: None,
        },
        flags: SendFlags::SIGNALED,
    };
    let inline_too_long = PostError::InlineTooLong {
        got: 102,
        limit: 101,
    };
    assert_eq!(side.post_send(0, &[inline]), refused(inline_too_long));
    // Of a list, those before the refused one are posted, and they alone.
    let incoming = side.incoming();
    let remote = pair.remote(A, incoming);
    let one = [sge];
    let good = write(5, &one, remote);
    let list = [good, send(6, &five), good];
    assert_eq!(
        pair.sides[0].post_send(0, &list),
        Err(Refused {
            posted: 1,
            error: too_many(Queue::Send)
        })
    );
    let done = pair.completions(0, 1);
    assert_eq!((done[0].wr_id, done[0].status), (5, WcStatus::Success));
    pair.during(Ns::from_ms(1));
    assert_eq!(pair.sides[0].done, []);
    pair.transfer(A, &Transfer::new(Kind::Send, 5000));
    pair.transfer(B, &Transfer::new(Kind::Send, 5000));
    pair.finish(&sim);
}

#[test]
fn queues_hold_exactly_what_was_granted() {
    let sim = sim(2);
    let setup = Setup {
        retry_cnt: 7,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    let caps = pair.sides[0].qps[0].caps();
    assert!(caps.max_send_wr >= 64 && caps.max_recv_wr >= 64);
    // No answer for now, so nothing leaves the send queue.
    sim.set_link_hook(Some(Box::new(|_| Verdict::Drop)));
    let incoming = pair.sides[0].incoming();
    let remote = pair.remote(A, incoming);
    let bytes = [9; 101];
    let pieces: [&[u8]; 1] = [&bytes];
    let side = &mut pair.sides[0];
    let request = |wr_id| SendWr {
        wr_id,
        op: Op::Write {
            data: Data::Inline(&pieces),
            remote,
            imm: None,
        },
        flags: SendFlags::SIGNALED,
    };
    let mut sends = 0;
    let full = loop {
        match side.post_send(0, &[request(sends)]) {
            Ok(()) => sends += 1,
            Err(refused) => break refused.error,
        }
    };
    assert_eq!(sends, u64::from(caps.max_send_wr));
    assert!(matches!(full, PostError::Full { queue: Queue::Send, needed: 4, free } if free < 4));
    let mut receives = 0;
    let sge = side.sge(incoming, 4);
    let full = loop {
        match side.post_recv(0, 1000 + receives, &[sge]) {
            Ok(()) => receives += 1,
            Err(refused) => break refused.error,
        }
    };
    assert_eq!(receives, u64::from(caps.max_recv_wr));
    assert_eq!(
        full,
        PostError::Full {
            queue: Queue::Recv,
            needed: 1,
            free: 0
        }
    );
    sim.set_link_hook(None);
    let done = pair.completions(0, sends as usize);
    assert!((0..).zip(&done).all(|(id, wc)| wc.wr_id == id));
    assert!(done.iter().all(|wc| wc.status == WcStatus::Success));
    // There is room again.
    pair.transfer(A, &Transfer::new(Kind::Write, 5000));
    pair.finish(&sim);
}

#[test]
fn states_that_take_no_requests() {
    let sim = sim(3);
    let mut pair = Pair::simulated(&sim, Setup::default());
    pair.renew(A);
    let steps = pair.steps(A);
    let side = &mut pair.sides[0];
    let sge = side.sge(0, 8);
    let wrong = |queue, state| refused(PostError::WrongState { queue, state });
    assert_eq!(
        side.post_recv(0, 1, &[sge]),
        wrong(Queue::Recv, QpState::Reset)
    );
    for (state, step) in [QpState::Reset, QpState::Init, QpState::Rtr]
        .into_iter()
        .zip(&steps)
    {
        assert_eq!(side.qps[0].state(), state);
        assert_eq!(
            side.post_send(0, &[send(1, &[sge])]),
            wrong(Queue::Send, state)
        );
        side.control.modify_qp(&mut side.qps[0], step).unwrap();
    }
    // Connected at last, it works; the peer is to know the new number.
    pair.renew(B);
    let number = pair.number(B);
    assert!(number > 0);
    pair.connect(B);
    pair.renew(A);
    pair.connect(A);
    assert_eq!(pair.sides[0].qps[0].state(), QpState::Rts);
    pair.finish(&sim);
}

#[test]
fn objects_outside_the_limits() {
    let sim = sim(4);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let side = &mut pair.sides[0];
    let commands = side.control.commands();
    for cqe in [0, 1_048_575, u32::MAX] {
        let error = side.control.create_cq(cqe, 0).unwrap_err();
        let e810::Error::Datapath(e810_datapath::Error::Size(size)) = error else {
            panic!("{error}");
        };
        assert_eq!((size.field, size.value), ("cqe", cqe.into()));
    }
    let good = Setup::default().caps;
    for (field, caps) in [
        (
            "max_send_wr",
            QpCaps {
                max_send_wr: 32_769,
                ..good
            },
        ),
        (
            "max_send_wr",
            QpCaps {
                max_send_wr: u32::MAX,
                ..good
            },
        ),
        (
            "max_recv_wr",
            QpCaps {
                max_recv_wr: 32_769,
                ..good
            },
        ),
        (
            "max_recv_wr",
            QpCaps {
                max_recv_wr: u32::MAX,
                ..good
            },
        ),
        (
            "max_send_sge",
            QpCaps {
                max_send_sge: 14,
                ..good
            },
        ),
        (
            "max_recv_sge",
            QpCaps {
                max_recv_sge: 14,
                ..good
            },
        ),
        (
            "max_inline_data",
            QpCaps {
                max_inline: 102,
                ..good
            },
        ),
    ] {
        let init = QpInit {
            send_cq: &side.cqs[0],
            recv_cq: &side.cqs[0],
            caps,
        };
        let error = side.control.create_qp(&side.pd, &init).unwrap_err();
        let e810::Error::Datapath(e810_datapath::Error::Size(size)) = error else {
            panic!("{field}: {error}");
        };
        assert_eq!(size.field, field);
    }
    // No memory, no right that goes with it.
    let buffer = Buffer::new(4096);
    let nothing = buffer.bytes().window(0, 0).unwrap();
    let access = AccessFlags::LOCAL_WRITE;
    let empty = side.control.reg_mr(&side.pd, nothing, access);
    assert!(
        matches!(empty, Err(e810::Error::OutOfRange { .. })),
        "{empty:?}"
    );
    let remote = AccessFlags::REMOTE_WRITE;
    let error = side.control.reg_mr(&side.pd, buffer.bytes(), remote);
    assert!(matches!(error, Err(e810::Error::Invalid { .. })));
    assert_eq!(
        side.control.commands(),
        commands,
        "nothing was asked of the device"
    );
    pair.transfer(A, &Transfer::new(Kind::Read, 5000));
    pair.finish(&sim);
}

#[test]
fn transitions_outside_the_table() {
    let sim = sim(5);
    let setup = Setup {
        queue_pairs: 1,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    pair.sides[0].add_qp();
    pair.sides[1].add_qp();
    let end = End { side: 0, qp: 1 };
    let steps = pair.steps(end);
    let Pair { sides, .. } = &mut pair;
    let side = &mut sides[0];
    for (number, good) in steps.iter().enumerate() {
        let before = side.qps[1].state();
        let commands = side.control.commands();
        let mut bad = Vec::new();
        // Missing, one attribute at a time.
        let missing: [fn(&mut QpAttr); 13] = [
            |attr| attr.access = None,
            |attr| attr.pkey_index = None,
            |attr| attr.port = None,
            |attr| attr.path = None,
            |attr| attr.path_mtu = None,
            |attr| attr.dest_qpn = None,
            |attr| attr.rq_psn = None,
            |attr| attr.sq_psn = None,
            |attr| attr.max_dest_rd_atomic = None,
            |attr| attr.max_rd_atomic = None,
            |attr| attr.min_rnr_timer = None,
            |attr| attr.timeout = None,
            |attr| attr.rnr_retry = None,
        ];
        for take in missing {
            let mut attr = *good;
            take(&mut attr);
            if attr != *good {
                bad.push((attr, "missing"));
            }
        }
        // Out of range, where the attribute belongs to the step.
        let out_of_range: [fn(&mut QpAttr); 10] = [
            |attr| attr.pkey_index = attr.pkey_index.and(Some(1)),
            |attr| attr.port = attr.port.and(Some(2)),
            |attr| attr.port = attr.port.and(Some(0)),
            |attr| attr.rq_psn = attr.rq_psn.and(Some(1 << 24)),
            |attr| attr.sq_psn = attr.sq_psn.and(Some(1 << 24)),
            |attr| attr.max_dest_rd_atomic = attr.max_dest_rd_atomic.and(Some(128)),
            |attr| attr.min_rnr_timer = attr.min_rnr_timer.and(Some(32)),
            |attr| attr.timeout = attr.timeout.and(Some(32)),
            |attr| attr.retry_cnt = attr.retry_cnt.and(Some(8)),
            |attr| attr.rnr_retry = attr.rnr_retry.and(Some(8)),
        ];
        for change in out_of_range {
            let mut attr = *good;
            change(&mut attr);
            if attr != *good {
                bad.push((attr, "range"));
            }
        }
        // What belongs to another step.
        let mut attr = *good;
        match number {
            0 => attr.sq_psn = Some(1),
            1 => attr.timeout = Some(1),
            _ => attr.path_mtu = Some(Mtu::Mtu512),
        }
        bad.push((attr, "forbidden"));
        for state in [QpState::Rts, QpState::Rtr, QpState::Sqd, QpState::Sqe] {
            if Some(state) != good.state && state != before {
                let attr = QpAttr {
                    state: Some(state),
                    ..*good
                };
                bad.push((attr, "state"));
            }
        }
        for (attr, why) in bad {
            let error = side.control.modify_qp(&mut side.qps[1], &attr).unwrap_err();
            let fits = match error {
                e810::Error::Datapath(e810_datapath::Error::Transition(error)) => match error {
                    TransitionError::Missing { missing, .. } => {
                        why == "missing" && missing != AttrMask::empty()
                    }
                    TransitionError::Forbidden { .. } => why == "forbidden",
                    TransitionError::NotPossible { .. } => why == "state",
                    _ => false,
                },
                e810::Error::OutOfRange { .. } => why == "range",
                _ => false,
            };
            assert!(fits, "{why}: {error} for {attr:?}");
            assert_eq!(side.qps[1].state(), before);
        }
        assert_eq!(side.control.commands(), commands, "{number}");
        side.control.modify_qp(&mut side.qps[1], good).unwrap();
    }
    let other = End { side: 1, qp: 1 };
    pair.connect(other);
    pair.transfer(end, &Transfer::new(Kind::Write, 3000));
    pair.transfer(other, &Transfer::new(Kind::Send, 3000));
    pair.finish(&sim);
}

#[test]
fn a_path_that_does_not_fit() {
    let sim = sim(6);
    let mut pair = Pair::simulated(&sim, Setup::default());
    pair.renew(A);
    pair.renew(B);
    let [to_init, to_rtr, to_rts] = pair.steps(A);
    let side = &mut pair.sides[0];
    side.control.modify_qp(&mut side.qps[0], &to_init).unwrap();
    let path = to_rtr.path.unwrap();
    let vlan = |id, priority| Some(e810::Vlan { id, priority });
    for bad in [
        e810::Path {
            source: "fe80::1".parse().unwrap(),
            ..path
        },
        e810::Path {
            vlan: vlan(0, 0),
            ..path
        },
        e810::Path {
            vlan: vlan(4095, 0),
            ..path
        },
        e810::Path {
            vlan: vlan(1, 8),
            ..path
        },
    ] {
        let attr = QpAttr {
            path: Some(bad),
            ..to_rtr
        };
        let commands = side.control.commands();
        let error = side.control.modify_qp(&mut side.qps[0], &attr).unwrap_err();
        assert!(
            matches!(
                error,
                e810::Error::Invalid { .. } | e810::Error::OutOfRange { .. }
            ),
            "{error}"
        );
        assert_eq!(side.control.commands(), commands);
        assert_eq!(side.qps[0].state(), QpState::Init);
    }
    for attr in [to_rtr, to_rts] {
        side.control.modify_qp(&mut side.qps[0], &attr).unwrap();
    }
    pair.connect(B);
    pair.transfer(A, &Transfer::new(Kind::Read, 3000));
    pair.finish(&sim);
}

#[test]
fn objects_of_another_device() {
    let sim = sim(7);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let (first, second) = pair.sides.split_at_mut(1);
    let (here, there) = (&mut first[0], &mut second[0]);
    let foreign = |error: e810::Error, wanted| {
        assert!(
            matches!(error, e810::Error::Foreign { object, .. } if object == wanted),
            "{error}"
        );
    };
    let commands = here.control.commands();
    let caps = Setup::default().caps;
    let own = QpInit {
        send_cq: &here.cqs[0],
        recv_cq: &here.cqs[0],
        caps,
    };
    foreign(
        here.control.create_qp(&there.pd, &own).unwrap_err(),
        Object::Pd,
    );
    for (send_cq, recv_cq) in [(&there.cqs[0], &here.cqs[0]), (&here.cqs[0], &there.cqs[0])] {
        let init = QpInit {
            send_cq,
            recv_cq,
            caps,
        };
        let error = here.control.create_qp(&here.pd, &init).unwrap_err();
        foreign(error, Object::Cq);
    }
    let buffer = Buffer::new(4096);
    let error = here
        .control
        .reg_mr(&there.pd, buffer.bytes(), AccessFlags::empty())
        .unwrap_err();
    foreign(error, Object::Pd);
    let error = here
        .control
        .modify_qp(&mut there.qps[0], &QpAttr::to_error())
        .unwrap_err();
    foreign(error, Object::Qp);
    let (qp, error) = here.control.destroy_qp(there.qps.remove(0)).unwrap_err();
    foreign(error, Object::Qp);
    there.qps.push(qp);
    let (cq, error) = here.control.destroy_cq(there.cqs.remove(0)).unwrap_err();
    foreign(error, Object::Cq);
    there.cqs.push(cq);
    let mr = there
        .control
        .reg_mr(&there.pd, buffer.bytes(), AccessFlags::empty())
        .unwrap();
    let (mr, error) = here.control.dereg_mr(mr).unwrap_err();
    foreign(error, Object::Mr);
    there.control.dereg_mr(mr).unwrap();
    let pd = there.control.alloc_pd().unwrap();
    let (pd, error) = here.control.dealloc_pd(pd).unwrap_err();
    foreign(error, Object::Pd);
    there.control.dealloc_pd(pd).unwrap();
    assert_eq!(here.control.commands(), commands);
    pair.transfer(A, &Transfer::new(Kind::Send, 3000));
    pair.finish(&sim);
}

#[test]
fn objects_in_use_stay() {
    let sim = sim(8);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let side = &mut pair.sides[0];
    let (cq, error) = side.control.destroy_cq(side.cqs.remove(0)).unwrap_err();
    assert!(matches!(
        error,
        e810::Error::InUse {
            object: Object::Cq,
            users: 2,
            ..
        }
    ));
    side.cqs.push(cq);
    let pd = side.control.alloc_pd().unwrap();
    let buffer = Buffer::new(4096);
    let mr = side
        .control
        .reg_mr(&pd, buffer.bytes(), AccessFlags::empty())
        .unwrap();
    let (pd, error) = side.control.dealloc_pd(pd).unwrap_err();
    assert!(matches!(
        error,
        e810::Error::InUse {
            object: Object::Pd,
            users: 1,
            ..
        }
    ));
    side.control.dereg_mr(mr).unwrap();
    side.control.dealloc_pd(pd).unwrap();
    pair.transfer(A, &Transfer::new(Kind::Send, 3000));
    pair.finish(&sim);
}

// ---- Failures that the device reports -------------------------------------

/// What is done wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    RemoteKey,
    RemoteRight,
    LocalKey,
    ShortReceive,
    NoPeer,
    NoReceive,
}

const RECEIVES: u64 = 5;
const AFTER: u64 = 3;

struct Expected {
    /// Status of the request at fault.
    status: WcStatus,
    /// Event on the side that asked.
    event: &'static str,
    /// Event on the other side, if it fails too, and status of its receive.
    peer: Option<(&'static str, WcStatus)>,
}

const FLUSH: WcStatus = WcStatus::WrFlushErr;

fn expected(wrong: Wrong) -> Expected {
    let (status, event, peer) = match wrong {
        Wrong::RemoteKey => (
            WcStatus::RemAccessErr,
            "IB_REMOTE_ACCESS_ERROR",
            Some(("AMP_BAD_STAG_INDEX", FLUSH)),
        ),
        Wrong::RemoteRight => (
            WcStatus::RemAccessErr,
            "IB_REMOTE_ACCESS_ERROR",
            Some(("AMP_RIGHTS_VIOLATION", FLUSH)),
        ),
        Wrong::LocalKey => (WcStatus::LocProtErr, "AMP_BAD_STAG_INDEX", None),
        Wrong::ShortReceive => (
            WcStatus::RemInvReqErr,
            "IB_INVALID_REQUEST",
            Some((
                "DDP_UBE_DDP_MESSAGE_TOO_LONG_FOR_AVAILABLE_BUFFER",
                WcStatus::LocLenErr,
            )),
        ),
        Wrong::NoPeer => (WcStatus::RetryExcErr, "LLP_TOO_MANY_RETRIES", None),
        Wrong::NoReceive => (WcStatus::RnrRetryExcErr, "LLP_TOO_MANY_RNRS", None),
    };
    Expected {
        status,
        event,
        peer,
    }
}

/// Status and `wr_id` of the completions of one queue.
fn of_queue(done: &[Wc], receives: bool) -> Vec<(u64, WcStatus)> {
    let is_receive = |wc: &&Wc| (wc.wr_id >= 100) == receives;
    done.iter()
        .filter(is_receive)
        .map(|wc| (wc.wr_id, wc.status))
        .collect()
}

/// `first` for the first id, a flush for the others.
fn flushed(first: WcStatus, ids: impl Iterator<Item = u64>) -> Vec<(u64, WcStatus)> {
    ids.enumerate()
        .map(|(n, id)| (id, if n == 0 { first } else { FLUSH }))
        .collect()
}

fn fails(wrong: Wrong, style: FlushStyle, seed: u64) {
    let sim = Sim::builder()
        .functions(2)
        .seed(seed)
        .engine(move |_, config| config.flush = Some(style))
        .build();
    let setup = Setup {
        retry_cnt: 2,
        rnr_retry: 2,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    pair.transfer(A, &Transfer::new(Kind::Send, 100));
    let Expected {
        status,
        event,
        peer,
    } = expected(wrong);

    let there = &mut pair.sides[1];
    let closed = Buffer::new(4096);
    let access = AccessFlags::LOCAL_WRITE;
    let closed_mr = there
        .control
        .reg_mr(&there.pd, closed.bytes(), access)
        .unwrap();
    let incoming = there.incoming();
    let length = if wrong == Wrong::ShortReceive {
        10
    } else {
        4096
    };
    let receives = match wrong {
        Wrong::NoReceive | Wrong::NoPeer => 0,
        _ => RECEIVES,
    };
    let sge = there.sge(incoming, length);
    for id in 0..receives {
        there.post_recv(0, 200 + id, &[sge]).unwrap();
    }
    if wrong == Wrong::NoPeer {
        let qp = there.qps.remove(0);
        there.control.destroy_qp(qp).unwrap();
    }
    let remote = {
        let mr = &pair.sides[1].mr;
        let good = Remote {
            addr: mr.address(),
            rkey: mr.rkey(),
        };
        match wrong {
            Wrong::RemoteKey => Remote {
                rkey: 0x00FF_F000 << 8 | 1,
                ..good
            },
            Wrong::RemoteRight => Remote {
                addr: closed_mr.address(),
                rkey: closed_mr.rkey(),
            },
            _ => good,
        }
    };
    let here = &mut pair.sides[0];
    for id in 0..RECEIVES {
        let sge = here.sge(here.incoming(), 4096);
        here.post_recv(0, 100 + id, &[sge]).unwrap();
    }
    let good = here.sge(0, 100);
    let bad_key = Sge {
        lkey: 0x00FF_F000 << 8 | 1,
        ..good
    };
    let first = match wrong {
        Wrong::RemoteKey | Wrong::RemoteRight => write(0, std::slice::from_ref(&good), remote),
        Wrong::LocalKey => write(0, std::slice::from_ref(&bad_key), remote),
        _ => send(0, std::slice::from_ref(&good)),
    };
    here.post_send(0, &[first]).unwrap();
    for id in 1..=AFTER {
        let request = send(id, std::slice::from_ref(&good));
        here.post_send(0, &[request]).unwrap();
    }

    let here_wants = 1 + AFTER + RECEIVES;
    let there_wants = if peer.is_some() { receives } else { 0 };
    pair.until(&format!("{wrong:?}, {style:?}"), |pair| {
        pair.sides[0].done.len() as u64 >= here_wants
            && pair.sides[1].done.len() as u64 >= there_wants
    });
    assert_eq!(pair.sides[0].qps[0].state(), QpState::Err);
    // What is posted now is flushed as well.
    pair.sides[0].post_send(0, &[send(50, &[good])]).unwrap();
    pair.sides[0].post_recv(0, 150, &[good]).unwrap();
    pair.during(Ns::from_ms(60));

    let done = pair.sides[0].take();
    let sends = flushed(status, (0..=AFTER).chain([50]));
    assert_eq!(of_queue(&done, false), sends, "{wrong:?}, {style:?}");
    let receives_here = flushed(FLUSH, (100..100 + RECEIVES).chain([150]));
    assert_eq!(of_queue(&done, true), receives_here, "{wrong:?}, {style:?}");
    let names: Vec<&str> = pair.sides[0].told.iter().map(|told| told.name()).collect();
    assert_eq!(names, [event], "{wrong:?}");

    let done = pair.sides[1].take();
    let names: Vec<&str> = pair.sides[1].told.iter().map(|told| told.name()).collect();
    match peer {
        Some((event, status)) => {
            assert_eq!(names, [event], "{wrong:?}");
            let wanted = flushed(status, 200..200 + receives);
            assert_eq!(of_queue(&done, true), wanted, "{wrong:?}, {style:?}");
        }
        None => {
            assert_eq!(names, [""; 0], "{wrong:?}");
            assert_eq!(done, [], "{wrong:?}");
        }
    }

    // New ones work.
    pair.renew(A);
    if wrong == Wrong::NoPeer {
        pair.sides[1].add_qp();
    } else {
        pair.renew(B);
    }
    for end in [A, B] {
        pair.connect(end);
    }
    for kind in [Kind::Send, Kind::Write, Kind::Read] {
        pair.transfer(A, &Transfer::new(kind, 3000));
        pair.transfer(B, &Transfer::new(kind, 3000));
    }
    let there = &mut pair.sides[1];
    there.control.dereg_mr(closed_mr).unwrap();
    pair.finish(&sim);
}

fn fails_in_both_styles(wrong: Wrong) {
    for seed in 0..4 {
        for style in [FlushStyle::PerQueue, FlushStyle::PerWqe] {
            fails(wrong, style, 100 + seed);
        }
    }
}

#[test]
fn a_key_the_peer_does_not_have() {
    fails_in_both_styles(Wrong::RemoteKey);
}

#[test]
fn a_region_that_peers_may_not_write() {
    fails_in_both_styles(Wrong::RemoteRight);
}

#[test]
fn a_local_key_that_is_none() {
    fails_in_both_styles(Wrong::LocalKey);
}

#[test]
fn a_receive_that_is_too_short() {
    fails_in_both_styles(Wrong::ShortReceive);
}

#[test]
fn a_peer_that_is_gone() {
    fails_in_both_styles(Wrong::NoPeer);
}

#[test]
fn a_peer_without_receives() {
    fails_in_both_styles(Wrong::NoReceive);
}

#[test]
fn an_error_that_the_program_asks_for() {
    for (seed, style) in (300..).zip([FlushStyle::PerQueue, FlushStyle::PerWqe]) {
        let sim = Sim::builder()
            .functions(2)
            .seed(seed)
            .engine(move |_, config| config.flush = Some(style))
            .build();
        let mut pair = Pair::simulated(&sim, Setup::default());
        sim.set_link_hook(Some(Box::new(|_| Verdict::Drop)));
        let side = &mut pair.sides[0];
        let sge = side.sge(0, 100);
        for id in 0..10 {
            side.post_send(0, &[send(id, &[sge])]).unwrap();
            side.post_recv(0, 100 + id, &[sge]).unwrap();
        }
        let to_error = QpAttr::to_error();
        side.control.modify_qp(&mut side.qps[0], &to_error).unwrap();
        assert_eq!(side.qps[0].state(), QpState::Err);
        side.post_send(0, &[send(10, &[sge])]).unwrap();
        side.post_recv(0, 110, &[sge]).unwrap();
        pair.during(Ns::from_ms(60));
        let done = pair.sides[0].take();
        assert_eq!(of_queue(&done, false), flushed(FLUSH, 0..11), "{style:?}");
        assert_eq!(of_queue(&done, true), flushed(FLUSH, 100..111), "{style:?}");
        assert!(
            done.iter()
                .all(|wc| matches!(wc.opcode, WcOpcode::Send | WcOpcode::Recv))
        );
        // Once more changes nothing.
        let side = &mut pair.sides[0];
        side.control.modify_qp(&mut side.qps[0], &to_error).unwrap();
        sim.set_link_hook(None);
        for end in [A, B] {
            pair.renew(end);
        }
        for end in [A, B] {
            pair.connect(end);
        }
        pair.transfer(A, &Transfer::new(Kind::Send, 3000));
        pair.finish(&sim);
    }
}

#[test]
fn a_device_that_cannot_flush() {
    for opcode in [
        // MODIFY_QP, FLUSH_WQES (control-path 4.2).
        0x01, 0x22,
    ] {
        let sim = sim(10);
        let mut pair = Pair::simulated(&sim, Setup::default());
        sim.configure_engine(0, |config| config.cqp_errors = CqpErrors::Opcode(opcode));
        sim.set_link_hook(Some(Box::new(|_| Verdict::Drop)));
        let side = &mut pair.sides[0];
        let sge = side.sge(0, 100);
        for id in 0..10 {
            side.post_send(0, &[send(id, &[sge])]).unwrap();
            side.post_recv(0, 100 + id, &[sge]).unwrap();
        }
        let to_error = QpAttr::to_error();
        let error = side.control.modify_qp(&mut side.qps[0], &to_error);
        assert!(matches!(error, Err(e810::Error::Cqp(_))), "{error:?}");
        pair.during(Ns::from_ms(60));
        let done = pair.sides[0].take();
        assert_eq!(of_queue(&done, false), flushed(FLUSH, 0..10));
        assert_eq!(of_queue(&done, true), flushed(FLUSH, 100..110));
        let side = &mut pair.sides[0];
        let qp = side.qps.remove(0);
        side.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
        side.add_qp();
        sim.configure_engine(0, |config| config.cqp_errors = CqpErrors::None);
        sim.set_link_hook(None);
        pair.renew(B);
        for end in [A, B] {
            pair.connect(end);
        }
        pair.transfer(A, &Transfer::new(Kind::Send, 3000));
        let lints: Vec<_> = sim
            .take_findings()
            .into_iter()
            .filter(|finding| finding.kind != "flush-state")
            .collect();
        assert_eq!(lints, []);
        pair.finish(&sim);
    }
}

#[test]
fn a_cq_that_overflows() {
    let sim = sim(9);
    let setup = Setup {
        cqe: 4,
        separate_cqs: true,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    let remote = pair.remote(A, 0);
    let side = &mut pair.sides[0];
    side.polling = false;
    let sge = side.sge(0, 8);
    for id in 0..40 {
        side.post_send(0, &[write(id, &[sge], remote)]).unwrap();
    }
    pair.during(Ns::from_ms(2));
    let side = &mut pair.sides[0];
    // What cannot be completed any more cannot be flushed either: said once.
    assert!(side.failed.len() <= 1, "{:?}", side.failed);
    side.failed.clear();
    let told: Vec<_> = side
        .told
        .iter()
        .map(|told| (told.name(), told.object))
        .collect();
    let send_cq = side.cqs[0].number();
    let overflow = ("CQ_OPERATION_ERROR", AeObject::Cq(send_cq));
    assert!(told.contains(&overflow), "{told:?}");
    assert!(side.cqs[0].has_failed());
    assert!(!side.cqs[1].has_failed());
    side.polling = true;
    pair.during(Ns::from_ms(60));
    let done = pair.sides[0].take();
    // What was in it is still there; the rest is flushed with its queue pair.
    let good = done
        .iter()
        .take_while(|wc| wc.status == WcStatus::Success)
        .count();
    assert!((1..=10).contains(&good), "{done:?}");
    let ids: Vec<_> = done.iter().map(|wc| wc.wr_id).collect();
    assert_eq!(ids, (0..40).collect::<Vec<_>>(), "each once, in order");
    assert!(
        done.iter()
            .skip(good)
            .all(|wc| wc.status != WcStatus::Success)
    );
    pair.finish(&sim);
}
