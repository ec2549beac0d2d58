//! Objects that come and go, more of them than there are at a time: what is destroyed is there
//! again, whether its program polls or not. `E810_CHURN` says how many rounds, of which 3,000 are
//! usual; `tests/programs/churn` has 100,000.

use std::env;
use std::ffi::c_int;
use std::net::Ipv4Addr;
use std::time::Duration;

use e810_verbs::abi::make::QpCap;
use e810_verbs::abi::state::Gid;

use crate::harness::connection::INCOMING;
use crate::harness::objects::{RC, UD, address, flag, state};
use crate::harness::{ALONE, Connection, Cq, Ctx, Pd, memory, readable};

/// The variable with the number of rounds.
pub(crate) const ROUNDS: &str = "E810_CHURN";

fn rounds() -> u64 {
    let asked = env::var(ROUNDS).ok();
    asked.map_or(3_000, |asked| asked.parse().unwrap())
}

/// A domain, and a completion queue that nobody polls unless it says so.
fn alone() -> (Ctx, Pd, Cq) {
    let ctx = Ctx::open(ALONE);
    (ctx, ctx.pd(), ctx.cq(16, 0, None))
}

fn end((ctx, pd, cq): (Ctx, Pd, Cq)) {
    assert_eq!([cq.destroy(), pd.free(), ctx.close()], [0; 3]);
}

#[track_caller]
fn made<T>(what: &str, round: u64, made: Result<T, c_int>) -> T {
    made.unwrap_or_else(|errno| panic!("{what}: round {round}: errno {errno}"))
}

#[test]
fn queue_pairs_of_a_queue_that_nobody_polls() {
    let (ctx, pd, cq) = alone();
    for round in 0..rounds() {
        let kind = if round % 2 == 0 { RC } else { UD };
        let qp = made("queue pair", round, pd.try_qp(kind, cq, cq));
        assert_eq!(qp.destroy(), 0);
    }
    end((ctx, pd, cq));
}

#[test]
fn queue_pairs_of_a_queue_that_is_polled() {
    let (ctx, pd, cq) = alone();
    for round in 0..rounds() {
        let qp = made("queue pair", round, pd.try_qp(RC, cq, cq));
        assert_eq!(qp.destroy(), 0);
        assert_eq!(cq.poll(1).len(), 0);
    }
    end((ctx, pd, cq));
}

/// Also their queues' entries are there again.
#[test]
fn deep_queue_pairs() {
    let (ctx, pd, cq) = alone();
    let cap = QpCap {
        max_send_wr: 4_000,
        max_recv_wr: 4_000,
        max_send_sge: 13,
        max_recv_sge: 13,
        max_inline_data: 0,
    };
    for round in 0..rounds() / 10 {
        let qp = made("queue pair", round, pd.try_qp_of(RC, cq, cq, cap));
        assert_eq!(qp.destroy(), 0);
    }
    end((ctx, pd, cq));
}

/// Many at a time, which go together; other tests have some of the device's.
#[test]
fn many_queue_pairs_at_once() {
    let (ctx, pd, cq) = alone();
    for round in 0..rounds() / 300 {
        let all = [(); 300].map(|()| made("queue pair", round, pd.try_qp(RC, cq, cq)));
        assert!(all.into_iter().all(|qp| qp.destroy() == 0));
    }
    end((ctx, pd, cq));
}

/// A server that sleeps for events, and whose clients come and go without a word.
#[test]
fn queue_pairs_of_a_program_that_waits_for_events() {
    let ctx = Ctx::open(ALONE);
    let (pd, channel) = (ctx.pd(), ctx.channel());
    let cq = ctx.cq(64, 0, Some(channel));
    let mr = pd.mr(memory(4096));
    assert_eq!(cq.arm(false), 0);
    for round in 0..rounds() {
        let qp = made("queue pair", round, pd.try_qp(RC, cq, cq));
        qp.init();
        assert_eq!(qp.recv(1, mr.sge(0, 64)), 0);
        assert_eq!(qp.go_to(state::ERR), 0);
        if readable(channel.fd(), Duration::ZERO) {
            channel.take().unwrap().0.acknowledge(1);
            assert_eq!(cq.arm(false), 0);
            cq.poll(64);
        }
        assert_eq!(qp.destroy(), 0);
    }
    assert_eq!([cq.destroy(), channel.destroy(), mr.dereg()], [0; 3]);
    assert_eq!([pd.free(), ctx.close()], [0; 2]);
}

/// What was completed and not polled gives its place in the queue back: else the queue, of 16
/// completions, would overflow.
#[test]
fn completions_that_nobody_polls_go_with_their_queue_pair() {
    let connection = Connection::new(Ctx::open(ALONE), None);
    let (ctx, pd, mr) = (connection.ctx, connection.pd, connection.mr);
    let (cq, other) = (ctx.cq(16, 0, None), ctx.cq(64, 0, None));
    for round in 0..rounds() / 10 {
        let [a, b] = [(cq, cq), (other, other)].map(|(s, r)| {
            let qp = pd.try_qp(RC, s, r);
            made("queue pair", round, qp)
        });
        a.connect(b.number(), ctx.gid(1), 1);
        b.connect(a.number(), ctx.gid(1), 1);
        for wr_id in 0..3 {
            assert_eq!(b.recv(wr_id, mr.sge(INCOMING, 64)), 0);
            assert_eq!(a.send_of(wr_id, mr.sge(0, 8), flag::SIGNALED), 0);
        }
        other.wait(3);
        match round % 3 {
            0 => assert_eq!(a.go_to(state::RESET), 0),
            1 => assert_eq!(a.go_to(state::ERR), 0),
            _ => {}
        }
        assert_eq!([a.destroy(), b.destroy()], [0; 2]);
    }
    // It did not fail, and works.
    assert!(!readable(ctx.async_fd(), Duration::ZERO), "an event");
    let [a, b] = [(cq, cq), (other, other)].map(|(s, r)| pd.qp(RC, s, r));
    a.connect(b.number(), ctx.gid(1), 1);
    b.connect(a.number(), ctx.gid(1), 1);
    assert_eq!(b.recv(1, mr.sge(INCOMING, 64)), 0);
    assert_eq!(a.send_of(99, mr.sge(0, 8), flag::SIGNALED), 0);
    assert_eq!(cq.wait(1)[0].wr_id, 99);
    other.wait(1);
    assert_eq!([a.destroy(), b.destroy()], [0; 2]);
    assert_eq!([cq.destroy(), other.destroy()], [0; 2]);
    connection.destroy();
    assert_eq!(ctx.close(), 0);
}

#[test]
fn lives_of_one_queue_pair() {
    let (ctx, pd, cq) = alone();
    let qp = pd.qp(RC, cq, cq);
    for _ in 0..rounds() {
        qp.init();
        assert_eq!(qp.go_to(state::RESET), 0);
    }
    assert_eq!(qp.destroy(), 0);
    end((ctx, pd, cq));
}

#[test]
fn domains_and_regions() {
    let ctx = Ctx::open(ALONE);
    let memory = memory(8192);
    for round in 0..rounds() {
        let pd = ctx.pd();
        assert!(!pd.0.is_null(), "domain: round {round}");
        let mr = made("region", round, pd.try_mr(memory));
        assert_eq!([mr.dereg(), pd.free()], [0; 2]);
    }
    assert_eq!(ctx.close(), 0);
}

#[test]
fn completion_queues_and_channels() {
    let ctx = Ctx::open(ALONE);
    for _ in 0..rounds() {
        let channel = ctx.channel();
        let cq = ctx.cq(16, 0, Some(channel));
        assert!(!cq.0.is_null());
        assert_eq!(cq.arm(false), 0);
        assert_eq!([cq.destroy(), channel.destroy()], [0; 2]);
    }
    assert_eq!(ctx.close(), 0);
}

/// A queue on which nothing completes, whether it is polled or not.
#[test]
fn sizes_of_a_completion_queue() {
    for polls in [false, true] {
        let connection = Connection::new(Ctx::open(ALONE), None);
        let [cq, incoming] = connection.cqs;
        // Each waits for what the device may be writing.
        for round in 0..(rounds() / 30) as c_int {
            assert_eq!(cq.resize(16 + round % 7), 0, "round {round}");
            if polls {
                assert_eq!(cq.poll(1).len(), 0);
            }
        }
        for wr_id in 0..40 {
            connection.send(wr_id, 0);
            assert_eq!(cq.wait(1)[0].wr_id, wr_id);
            assert_eq!(incoming.wait(1)[0].wr_id, wr_id);
        }
        let ctx = connection.ctx;
        connection.destroy();
        assert_eq!(ctx.close(), 0);
    }
}

#[test]
fn address_handles() {
    let (ctx, pd, cq) = alone();
    for round in 0..rounds() {
        let ah = pd.try_ah(address(ctx.gid(1), 1));
        assert_eq!(made("address handle", round, ah).destroy(), 0);
    }
    end((ctx, pd, cq));
}

#[test]
fn groups() {
    let (ctx, pd, cq) = alone();
    let qp = pd.qp(UD, cq, cq);
    qp.datagrams(1);
    for round in 0..rounds() {
        let group = Ipv4Addr::new(239, 9, (round >> 8) as u8, round as u8);
        let group = Gid {
            raw: group.to_ipv6_mapped().octets(),
        };
        assert_eq!(qp.attach(group), 0, "round {round}");
        assert_eq!(qp.detach(group), 0, "round {round}");
    }
    assert_eq!(qp.destroy(), 0);
    end((ctx, pd, cq));
}

/// Their objects go with them.
#[test]
fn contexts() {
    for round in 0..rounds() / 10 {
        let (ctx, pd, cq) = alone();
        made("queue pair", round, pd.try_qp(RC, cq, cq));
        made("region", round, pd.try_mr(memory(4096)));
        assert_eq!(ctx.close(), 0);
    }
}
