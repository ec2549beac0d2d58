//! Contexts: several of a device, of several devices, and what a close ends.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::harness::objects::{RC, address, flag, opcode};
use crate::harness::{ALONE, Connection, Ctx, PATIENCE, WIRED, errno, memory};

/// A time in which nothing happens.
const QUIET: Duration = Duration::from_millis(60);

#[test]
fn a_close_destroys_what_is_left() {
    // More turns than there is room for, if anything stayed.
    for _ in 0..40 {
        let ctx = Ctx::open(ALONE);
        let channel = ctx.channel();
        let connection = Connection::new(ctx, Some(channel));
        connection.pd.try_ah(address(ctx.gid(1), 1)).unwrap();
        assert_eq!(connection.cqs[1].arm(false), 0);
        connection.send(1, 0);
        assert_eq!(ctx.close(), 0);
    }
}

#[test]
fn a_close_waits_for_no_acknowledgement() {
    let ctx = Ctx::open(ALONE);
    let channel = ctx.channel();
    let connection = Connection::new(ctx, Some(channel));
    assert_eq!(connection.cqs[1].arm(false), 0);
    connection.send(1, 0);
    channel.take().unwrap();
    for cq in connection.cqs {
        cq.wait(1);
    }
    let sge = connection.mr.sge(0, 8);
    let wrong = (sge.addr, connection.mr.key() ^ 1);
    assert_eq!(connection.a.rdma(opcode::RDMA_WRITE, 1, sge, wrong), 0);
    ctx.event();
    let (give, take) = mpsc::channel();
    thread::spawn(move || give.send(ctx.close()));
    assert_eq!(take.recv_timeout(PATIENCE), Ok(0));
}

#[test]
fn a_close_ends_the_waits_of_other_threads() {
    let ctx = Ctx::open(ALONE);
    let channel = ctx.channel();
    let connection = Connection::new(ctx, Some(channel));
    let (give, take) = mpsc::channel();
    for _ in 0..2 {
        let (of_channel, of_context) = (give.clone(), give.clone());
        thread::spawn(move || of_channel.send(channel.take().map(drop)));
        thread::spawn(move || of_context.send(ctx.take_event().map(drop)));
    }
    connection.send(1, 0);
    assert!(take.recv_timeout(QUIET).is_err());
    assert_eq!(ctx.close(), 0);
    for _ in 0..4 {
        assert_eq!(take.recv_timeout(PATIENCE), Ok(Err(libc::EIO)));
    }
}

#[test]
fn contexts_of_a_device_share_it_and_no_objects() {
    let [one, two] = [(), ()].map(|()| Ctx::open(ALONE));
    let [of_one, of_two] = [one, two].map(|ctx| Connection::new(ctx, None));
    // Queue pairs of different contexts meet.
    let [a, b] = [&of_one, &of_two].map(|made| made.pd.qp(RC, made.cqs[0], made.cqs[0]));
    a.connect(b.number(), one.gid(1), 1);
    b.connect(a.number(), two.gid(1), 1);
    assert_eq!(b.recv(1, of_two.mr.sge(0, 64)), 0);
    let sge = of_one.mr.sge(0, 8);
    assert_eq!(a.send_of(2, sge, flag::SIGNALED), 0);
    assert_eq!(of_two.cqs[0].wait(1)[0].wr_id, 1);
    assert_eq!(of_one.cqs[0].wait(1)[0].wr_id, 2);
    assert_eq!([a.destroy(), b.destroy()], [0; 2]);
    mixed(&of_one, &of_two);
    of_one.destroy();
    assert_eq!(one.close(), 0);
    // The other one has lost nothing.
    of_two.send(3, 0);
    for cq in of_two.cqs {
        assert_eq!(cq.wait(1)[0].wr_id, 3);
    }
    of_two.destroy();
    assert_eq!(two.close(), 0);
}

#[test]
fn objects_of_two_devices_do_not_mix() {
    let [one, two] = WIRED.map(Ctx::open);
    let [of_one, of_two] = [one, two].map(|ctx| Connection::new(ctx, None));
    mixed(&of_one, &of_two);
    // A handle of another device's domain is not what a datagram goes to.
    for made in [of_one, of_two] {
        made.send(1, 0);
        for cq in made.cqs {
            assert_eq!(cq.wait(1)[0].status, 0);
        }
        made.destroy();
    }
    assert_eq!([one.close(), two.close()], [0; 2]);
}

/// Objects of one context with those of another: EINVAL, and both stay as they are.
fn mixed(one: &Connection, two: &Connection) {
    for (a, b) in [(one, two), (two, one)] {
        let (own, other) = (a.cqs[0], b.cqs[0]);
        for (send, recv) in [(other, other), (own, other), (other, own)] {
            assert_eq!(a.pd.try_qp(RC, send, recv), Err(libc::EINVAL));
        }
        let channel = b.ctx.channel();
        assert!(a.ctx.try_cq(8, 0, channel.0).is_null());
        assert_eq!(errno(), libc::EINVAL);
        assert_eq!(channel.destroy(), 0);
        let memory = memory(4096);
        let mr = a.pd.mr(memory);
        assert_eq!(mr.to_domain(b.pd), libc::EINVAL);
        assert_eq!(mr.dereg(), 0);
    }
}
