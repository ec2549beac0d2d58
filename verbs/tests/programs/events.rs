//! Asynchronous events of queue pairs and completion queues, and of a device that goes.

use std::ffi::c_int;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use e810_sim::{Mode, Profile, Sim};
use e810_sim_server::Server;
use e810_verbs::abi::constants::event as kind;
use e810_verbs::abi::work::{AsyncEvent, Sge};

use crate::harness::connection::INCOMING;
use crate::harness::objects::{RC, address, flag, opcode, state};
use crate::harness::{
    ALONE, Connection, Cq, Ctx, Qp, SERVED, acknowledge, is_over_socket, readable, set_nonblocking,
    socket,
};

/// A time in which nothing happens.
const QUIET: Duration = Duration::from_millis(60);

fn qp(event: &AsyncEvent) -> Qp {
    // SAFETY: the kind of the event says which it is.
    Qp(unsafe { event.element.qp })
}

/// The next events of a context, acknowledged: queue pair and kind, in the order of the kinds.
#[track_caller]
fn events_of_qps<const N: usize>(ctx: Ctx) -> [(c_int, Qp); N] {
    let mut events = [(); N].map(|()| {
        let event = ctx.event();
        let found = (event.event_type, qp(&event));
        acknowledge(event);
        found
    });
    events.sort_by_key(|(kind, _)| *kind);
    events
}

#[test]
fn an_access_that_is_not_allowed_is_an_event_of_both_ends() {
    let ctx = Ctx::open(ALONE);
    let connection = Connection::new(ctx, None);
    let (a, b, sge) = (connection.a, connection.b, connection.mr.sge(0, 8));
    let wrong = (sge.addr, connection.mr.key() ^ 1);
    assert_eq!(a.rdma(opcode::RDMA_WRITE, 1, sge, wrong), 0);
    // IBV_WC_REM_ACCESS_ERR.
    assert_eq!(connection.cqs[0].wait(1)[0].status, 10);
    let mut expected = [(kind::QP_ACCESS_ERR, a), (kind::QP_ACCESS_ERR, b)];
    let mut events = events_of_qps::<2>(ctx);
    expected.sort_by_key(|(_, qp)| qp.0);
    events.sort_by_key(|(_, qp)| qp.0);
    assert_eq!(events, expected);
    connection.destroy();
    assert_eq!(ctx.close(), 0);
}

#[test]
fn a_message_that_does_not_fit_is_an_event_of_each_end() {
    let ctx = Ctx::open(ALONE);
    let connection = Connection::new(ctx, None);
    let (a, b, mr) = (connection.a, connection.b, connection.mr);
    assert_eq!(b.recv(1, mr.sge(INCOMING, 8)), 0);
    assert_eq!(a.send_of(2, mr.sge(0, 64), flag::SIGNALED), 0);
    // IBV_WC_REM_INV_REQ_ERR and IBV_WC_LOC_LEN_ERR.
    assert_eq!(connection.cqs[0].wait(1)[0].status, 9);
    assert_eq!(connection.cqs[1].wait(1)[0].status, 1);
    assert_eq!(
        events_of_qps(ctx),
        [(kind::QP_FATAL, b), (kind::QP_REQ_ERR, a)]
    );
    assert_eq!(a.query().unwrap().qp_state, state::ERR);
    connection.destroy();
    assert_eq!(ctx.close(), 0);
}

#[test]
fn a_peer_that_is_gone_is_an_event() {
    let ctx = Ctx::open(ALONE);
    let connection = Connection::new(ctx, None);
    let a = connection.pd.qp(RC, connection.cqs[0], connection.cqs[0]);
    let gone = connection.pd.qp(RC, connection.cqs[1], connection.cqs[1]);
    a.connect(gone.number(), ctx.gid(1), 1);
    assert_eq!(gone.destroy(), 0);
    let sge = connection.mr.sge(0, 8);
    assert_eq!(a.send_of(1, sge, flag::SIGNALED), 0);
    // IBV_WC_RETRY_EXC_ERR.
    assert_eq!(connection.cqs[0].wait(1)[0].status, 12);
    assert_eq!(events_of_qps(ctx), [(kind::QP_FATAL, a)]);
    assert_eq!(a.destroy(), 0);
    connection.destroy();
    assert_eq!(ctx.close(), 0);
}

#[test]
fn a_queue_that_overflows_is_an_event_which_holds_it() {
    let ctx = Ctx::open(ALONE);
    let connection = Connection::new(ctx, None);
    let small = ctx.cq(1, 9, None);
    let many = ctx.cq(256, 9, None);
    let [a, b] = [(many, many), (many, small)].map(|(s, r)| connection.pd.qp(RC, s, r));
    a.connect(b.number(), ctx.gid(1), 1);
    b.connect(a.number(), ctx.gid(1), 1);
    let bystander = connection.pd.qp(RC, small, small);
    bystander.connect(bystander.number(), ctx.gid(1), 1);
    assert_eq!(bystander.recv(1, connection.mr.sge(INCOMING, 8)), 0);
    // SAFETY: it is there.
    let entries = unsafe { (*small.0).cqe };
    for turn in 0..=entries as u64 + 2 {
        // It may have failed before all are posted.
        let _ = b.recv(turn, connection.mr.sge(INCOMING, 8));
        let _ = a.send_of(turn, connection.mr.sge(0, 8), flag::SIGNALED);
    }
    let event = loop {
        let event = ctx.event();
        if event.event_type == kind::CQ_ERR {
            break event;
        }
        acknowledge(event);
    };
    // SAFETY: the kind says which it is.
    assert_eq!(Cq(unsafe { event.element.cq }), small);
    // The device cannot flush into it, which no program hears of that stops a queue pair.
    assert_eq!(bystander.go_to(state::ERR), 0);
    assert_eq!(bystander.destroy(), 0);
    assert_eq!([a.destroy(), b.destroy()], [0; 2]);
    let destroyer = thread::spawn(move || small.destroy());
    thread::sleep(QUIET);
    assert!(!destroyer.is_finished(), "the event is not acknowledged");
    acknowledge(event);
    assert_eq!(destroyer.join().unwrap(), 0);
    assert_eq!(many.destroy(), 0);
    connection.destroy();
    assert_eq!(ctx.close(), 0);
}

#[test]
fn a_drained_queue_is_an_event_which_holds_it() {
    let ctx = Ctx::open(ALONE);
    let connection = Connection::new(ctx, None);
    let a = connection.a;
    connection.send(1, 0);
    // IBV_QP_STATE and IBV_QP_EN_SQD_ASYNC_NOTIFY.
    let drained = a.modify(1 | 1 << 2, |attr| {
        attr.qp_state = state::SQD;
        attr.en_sqd_async_notify = 1;
    });
    assert_eq!(drained, 0);
    let event = ctx.event();
    assert_eq!((event.event_type, qp(&event)), (kind::SQ_DRAINED, a));
    // On with it.
    assert_eq!(a.go_to(state::RTS), 0);
    for cq in connection.cqs {
        cq.wait(1);
    }
    connection.send(2, 0);
    for cq in connection.cqs {
        assert_eq!(cq.wait(1)[0].status, 0);
    }
    let destroyer = thread::spawn(move || a.destroy());
    thread::sleep(QUIET);
    assert!(!destroyer.is_finished(), "the event is not acknowledged");
    acknowledge(event);
    assert_eq!(destroyer.join().unwrap(), 0);
    // Not asked for: none.
    let b = connection.b;
    assert_eq!(b.go_to(state::SQD), 0);
    assert!(!readable(ctx.async_fd(), QUIET));
    assert_eq!(b.destroy(), 0);
    assert_eq!(connection.cqs.map(Cq::destroy), [0; 2]);
    assert_eq!((connection.mr.dereg(), connection.pd.free()), (0, 0));
    assert_eq!(ctx.close(), 0);
}

#[test]
fn an_event_that_waits_goes_with_its_queue_pair() {
    let ctx = Ctx::open(ALONE);
    set_nonblocking(ctx.async_fd(), true);
    assert_eq!(ctx.take_event().unwrap_err(), libc::EAGAIN);
    let connection = Connection::new(ctx, None);
    let sge = connection.mr.sge(0, 8);
    let wrong = (sge.addr, connection.mr.key() ^ 1);
    assert_eq!(connection.a.rdma(opcode::RDMA_WRITE, 1, sge, wrong), 0);
    connection.cqs[0].wait(1);
    assert!(readable(ctx.async_fd(), crate::harness::PATIENCE));
    thread::sleep(QUIET);
    connection.destroy();
    assert!(!readable(ctx.async_fd(), QUIET));
    assert_eq!(ctx.take_event().unwrap_err(), libc::EAGAIN);
    assert_eq!(ctx.close(), 0);
}

/// The device is a function of a server, whose card another driver resets: all who wait are told,
/// and every call says EIO or does nothing.
#[test]
fn a_device_that_goes_ends_every_wait_and_every_call() {
    // Such a function cannot be shared with other processes.
    if is_over_socket() {
        return;
    }
    let sim = Sim::builder().functions(2).mode(Mode::Real);
    let sim = sim.profile(Profile::small()).cold().build();
    // The folder is there once devices are named.
    assert!(Ctx::open(ALONE).close() == 0);
    let _server = Server::start(sim.clone(), &[socket()]).unwrap();
    let [ctx, other] = [(), ()].map(|()| Ctx::open(SERVED));
    let channel = ctx.channel();
    let (pd, gid) = (ctx.pd(), ctx.gid(1));
    let cqs = [1, 2].map(|word| ctx.cq(16, word, Some(channel)));
    let [a, b] = cqs.map(|cq| pd.qp(RC, cq, cq));
    let (extended, polled) = (pd.extended_qp(RC, cqs[0]), ctx.extended_cq(16));
    a.connect(b.number(), gid, 1);
    b.connect(a.number(), gid, 1);
    // Programs' memory cannot be shared with a server: there are none but empty messages.
    let nothing = Sge {
        addr: 0,
        length: 0,
        lkey: 0,
    };
    assert_eq!(b.recv(1, nothing), 0);
    let flags = flag::SIGNALED | flag::INLINE;
    assert_eq!(a.send_of(1, nothing, flags), 0);
    for cq in cqs {
        assert_eq!(cq.wait(1)[0].status, 0);
    }
    let ah = pd.try_ah(address(gid, 1)).unwrap();
    // Who waits for completions, and who waits for events.
    let (give, take) = mpsc::channel();
    let of_channel = give.clone();
    thread::spawn(move || of_channel.send(channel.take().map(drop)));
    thread::spawn(move || {
        let kind = other.take_event().map(|event| event.event_type);
        assert_eq!(kind, Ok(kind::DEVICE_FATAL));
        give.send(other.take_event().map(drop))
    });
    assert_eq!(cqs.map(|cq| cq.arm(false)), [0; 2]);
    assert!(take.recv_timeout(QUIET).is_err());
    e810::reset_card(&sim.function(1)).unwrap();
    let patience = crate::harness::PATIENCE;
    for _ in 0..2 {
        assert_eq!(take.recv_timeout(patience), Ok(Err(libc::EIO)));
    }
    let event = ctx.event();
    assert_eq!(event.event_type, kind::DEVICE_FATAL);
    acknowledge(event);
    assert_eq!(ctx.take_event().unwrap_err(), libc::EIO);
    assert_eq!(channel.take(), Err(libc::EIO));
    assert!(readable(channel.fd(), patience));

    let null = |is_null: bool| {
        assert!(is_null);
        crate::harness::errno()
    };
    assert_eq!(ctx.try_attributes().unwrap_err(), libc::EIO);
    assert_eq!(null(ctx.pd().0.is_null()), libc::EIO);
    let no_channel = std::ptr::null_mut();
    assert_eq!(null(ctx.try_cq(8, 0, no_channel).is_null()), libc::EIO);
    assert_eq!(pd.try_qp(RC, cqs[0], cqs[0]), Err(libc::EIO));
    assert_eq!(pd.try_mr(crate::harness::memory(4096)), Err(libc::EIO));
    assert_eq!(pd.try_ah(address(gid, 1)), Err(libc::EIO));
    assert_eq!(a.go_to(state::ERR), libc::EIO);
    assert_eq!(a.go_to(state::RESET), libc::EIO);
    assert_eq!(a.query().map(drop), Err(libc::EIO));
    assert_eq!(cqs[0].resize(100), libc::EIO);
    // So does what needs no command.
    assert_eq!(b.recv(9, nothing), libc::EIO);
    assert_eq!(a.send_of(9, nothing, flags), libc::EIO);
    assert_eq!(cqs[0].try_poll(4).err(), Some(libc::EIO));
    // Twice: the queues are free again.
    for _ in 0..2 {
        assert_eq!(extended.together(|_| {}), libc::EIO);
        // SAFETY: its function, with the queue; no attributes are given.
        let found = unsafe { (*polled).start_poll.unwrap()(polled, std::ptr::null_mut()) };
        assert_eq!(found, libc::EIO);
    }
    assert_eq!(cqs[0].arm(false), 0);
    // Nothing can be destroyed, as the device may have it still; a close leaves it behind.
    assert_eq!(a.destroy(), libc::EIO);
    assert_eq!(ah.destroy(), libc::EIO);
    assert_eq!(cqs[0].destroy(), libc::EIO);
    assert_eq!(pd.free(), libc::EIO);
    assert_eq!([ctx.close(), other.close()], [0; 2]);
    // What the program still has, it destroys after the close: a channel has no queues then.
    assert_eq!([a, b, extended].map(Qp::destroy), [0; 3]);
    assert_eq!(cqs.map(Cq::destroy), [0; 2]);
    assert_eq!(Cq(polled.cast()).destroy(), 0);
    assert_eq!(channel.destroy(), 0);
    // It is brought up again by nobody.
    assert_eq!(Ctx::try_open(SERVED).map(drop), Err(libc::EIO));
}
