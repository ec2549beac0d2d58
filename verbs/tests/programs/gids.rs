//! GIDs that follow the addresses of a TAP interface, in a network namespace of its own, where
//! those can be made.

use std::time::Duration;

use e810_sim::pe::CqpErrors;
use e810_verbs::abi::constants::event::GID_CHANGE;
use e810_verbs::abi::state::Gid;
use e810_verbs::testing::simulators;

use crate::harness::namespace::{ip, is_inside};
use crate::harness::objects::{Ah, UD, address, state};
use crate::harness::{Cq, Ctx, Pd, Qp, acknowledge, readable, until};

/// Opcode of the command that makes a queue pair.
const CREATE_QP: u8 = 0x00;

fn v4(last: u8) -> Gid {
    let mut raw = [0; 16];
    raw[10..].copy_from_slice(&[0xFF, 0xFF, 10, 8, 5, last]);
    Gid { raw }
}

/// Waits for a change after which an entry is there, or is not.
#[track_caller]
fn changed(ctx: Ctx, index: i32, gid: Gid) {
    until("the entry", || {
        let event = ctx.event();
        assert_eq!(event.event_type, GID_CHANGE);
        // SAFETY: an event of the port.
        assert_eq!(unsafe { event.element.port_num }, 1);
        acknowledge(event);
        ctx.gid(index) == gid
    });
}

#[test]
fn an_address_that_comes_and_goes_is_an_event() {
    let this = "gids::an_address_that_comes_and_goes_is_an_event";
    if !is_inside(this, "sim@tap=e810v0,10.8.5.1") {
        return;
    }
    let ctx = Ctx::open(0);
    assert_eq!(ctx.gid(1), v4(1));
    // The link-local address of the interface is the port's, which is there already.
    while readable(ctx.async_fd(), Duration::from_millis(100)) {
        acknowledge(ctx.event());
    }
    ip("address add 10.8.5.9/24 dev e810v0");
    changed(ctx, 2, v4(9));
    let pd = ctx.pd();
    let ah = pd.try_ah(address(v4(9), 2)).unwrap();
    // One that is used stays until it is not.
    ip("address del 10.8.5.9/24 dev e810v0");
    assert!(!readable(ctx.async_fd(), Duration::from_millis(200)));
    assert_eq!(ctx.gid(2), v4(9));
    assert_eq!(Ah::destroy(ah), 0);
    changed(ctx, 2, Gid { raw: [0; 16] });
    assert_eq!(pd.free(), 0);
    assert_eq!(ctx.close(), 0);
}

/// A datagram queue pair that is in a group.
fn member() -> (Ctx, (Pd, Cq, Qp), Gid) {
    let ctx = Ctx::open(0);
    let (pd, cq) = (ctx.pd(), ctx.cq(16, 0, None));
    let qp = pd.qp(UD, cq, cq);
    qp.datagrams(1);
    let mut raw = v4(0).raw;
    raw[12..].copy_from_slice(&[239, 0, 0, 1]);
    let group = Gid { raw };
    assert_eq!(qp.attach(group), 0);
    (ctx, (pd, cq, qp), group)
}

/// A queue pair leaves the group that it has joined, whatever has become of the addresses meanwhile.
#[test]
fn a_group_is_left_after_the_address_has_gone() {
    let this = "gids::a_group_is_left_after_the_address_has_gone";
    if !is_inside(this, "sim@tap=e810v0,10.8.5.1") {
        return;
    }
    let (ctx, (pd, cq, qp), group) = member();
    ip("address del 10.8.5.1 dev e810v0");
    until("the entry's end", || ctx.gid(1) != v4(1));
    assert_eq!(qp.detach(group), 0, "no address is left");
    assert_eq!(qp.destroy(), 0);
    assert_eq!([cq.destroy(), pd.free(), ctx.close()], [0; 3]);
}

/// A queue pair that cannot join its group again after a reset: the program is told.
#[test]
fn a_reset_after_the_address_has_gone_says_so() {
    let this = "gids::a_reset_after_the_address_has_gone_says_so";
    if !is_inside(this, "sim@tap=e810v0,10.8.5.1") {
        return;
    }
    let (ctx, (pd, cq, qp), group) = member();
    ip("address del 10.8.5.1 dev e810v0");
    until("the entry's end", || ctx.gid(1) != v4(1));
    assert_eq!(qp.go_to(state::RESET), libc::EINVAL);
    assert_eq!(qp.query().unwrap().qp_state, state::RESET);
    assert_eq!(qp.detach(group), libc::EINVAL, "it is in no group");
    assert_eq!(qp.destroy(), 0);
    assert_eq!([cq.destroy(), pd.free(), ctx.close()], [0; 3]);
}

/// A reset whose queue pair the device does not make again: it is in no group then, and can be
/// destroyed.
#[test]
fn a_reset_that_failed_leaves_no_group_behind() {
    let this = "gids::a_reset_that_failed_leaves_no_group_behind";
    if !is_inside(this, "sim@tap=e810v0,10.8.5.1") {
        return;
    }
    let (ctx, (pd, cq, qp), group) = member();
    let sim = simulators().remove(0);
    sim.configure_engine(0, |config| config.cqp_errors = CqpErrors::Opcode(CREATE_QP));
    assert_ne!(qp.go_to(state::RESET), 0);
    sim.configure_engine(0, |config| config.cqp_errors = CqpErrors::None);
    let left = qp.detach(group);
    assert_eq!(qp.destroy(), 0, "it was detached: {left}");
    assert_eq!([cq.destroy(), pd.free(), ctx.close()], [0; 3]);
}
