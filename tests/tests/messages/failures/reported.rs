//! Failures that the device reports by an event.

use e810::{
    AccessFlags, ColdStart, Config, LinkPolicy, Package, PackageSource, QpState, Remote, Sge,
    WcStatus, bring_up_cold,
};
use e810_hal::Ns;
use e810_hal::regs::PF_FW_ARQH;
use e810_sim::Sim;
use e810_sim::Variation;
use e810_sim::middleware::{Inject, Layered, Rule};
use e810_sim::pe::{Breakage, Subject};
use e810_sim::variation::FlushStyle;
use e810_tests::traffic::{Buffer, Kind, Pair, Setup, Side, Transfer};

use crate::failures::requests::{A, B, FLUSH, flushed, of_queue, send, write};

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

fn fails(wrong: Wrong, style: FlushStyle, seed: u64) {
    let sim = Sim::builder()
        .functions(2)
        .seed(seed)
        .variation(Variation {
            flush: style,
            ..Variation::default()
        })
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
    let names: Vec<&str> = pair.sides[0]
        .reported
        .iter()
        .map(|reported| reported.name())
        .collect();
    assert_eq!(names, [event], "{wrong:?}");

    let done = pair.sides[1].take();
    let names: Vec<&str> = pair.sides[1]
        .reported
        .iter()
        .map(|reported| reported.name())
        .collect();
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

/// The AdminQ fails whenever it is looked at: queue pairs that fail are dealt with
/// all the same, and it is told.
#[test]
fn a_failing_admin_queue_delays_no_failure() {
    let sim = Sim::builder().functions(2).seed(23).cold().build();
    let setup = Setup::default();
    let file = e810_sim::test_package();
    let inject = Inject::default();
    let side = |function, inject| {
        let platform = Layered::new(sim.function(function), inject);
        let start = ColdStart {
            package: PackageSource::File(Package::parse(&file).unwrap()),
            link: LinkPolicy::Wait(Ns::from_ms(10_000)),
        };
        let config = setup.config(Config::cold(9000).lan);
        let device = bring_up_cold(platform.clone(), &config, &start, &mut |_| {}).unwrap();
        Side::on(device, platform, &setup)
    };
    let sides = vec![side(0, inject.clone()), side(1, Inject::default())];
    let mut pair = Pair::connected(sides, setup);
    let side = &mut pair.sides[0];
    let sge = side.sge(0, 64);
    side.post_recv(0, 1, &[sge]).unwrap();
    let event = Breakage::Event {
        code: 0x050A,
        source: 0x5,
        subject: Subject::Qp(side.qps[0].number().get()),
        wqe_index: 0,
    };
    sim.break_down(0, event);
    sim.run(Ns::from_ms(20));
    inject.add(Rule::AllOnes {
        off: PF_FW_ARQH.off(),
        nth: 1,
    });
    let side = &mut pair.sides[0];
    for events in &mut side.events {
        while events.poll(&mut |_| {}).more {}
    }
    let commands = side.control.commands();
    let failed = side.control.progress();
    assert!(matches!(failed, Err(e810::Error::Adminq(_))), "{failed:?}");
    assert_eq!(side.control.commands() - commands, 1, "it is being stopped");
    inject.clear();
    let done = pair.completions(0, 1);
    assert_eq!(done[0].status, FLUSH);
    pair.sides[0].reported.clear();
    pair.close();
    assert_eq!(sim.findings(), []);
}
