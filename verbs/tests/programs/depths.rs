//! What a device says that it has, asked for alone: each count and depth can be had, and one more
//! is refused, unless irdma has more than it says, too; what is freed makes room again. The same
//! for descriptors, of which a process has so many (`docs/limits.md`).

use std::env;
use std::ffi::c_int;
use std::net::Ipv4Addr;
use std::ptr;

use e810_verbs::abi::make::QpCap;
use e810_verbs::abi::query::DeviceAttr;
use e810_verbs::abi::state::Gid;
use e810_verbs::channel::create_comp_channel;
use e810_verbs::control::over_socket::CONTROL;

use crate::churn::ROUNDS;
use crate::descriptors::{leave_descriptors, open_files};
use crate::harness::objects::{Channel, RC, UD, address, state};
use crate::harness::{ALONE, Cq, Ctx, Pd, Qp, errno, memory};
use crate::processes::{DONE, World};

/// The part of the process that has the function for itself.
pub(crate) const PART: &str = "all of a function";

#[test]
fn every_count_and_depth_can_be_had() {
    // A hundred thousand objects are many messages: `tests/programs/churn` has them over a socket.
    if env::var_os(CONTROL).is_some() && env::var_os(ROUNDS).is_none() {
        return;
    }
    // Of one process at a time, which has no other objects; it takes as long as it takes.
    let ended = World::new("depths").process(PART, 1).status().unwrap();
    assert_eq!(ended.code(), Some(DONE));
}

/// Makes objects until one is refused, frees the last and makes it again, and frees all: how many
/// there were, and why there were no more.
fn all<T>(
    mut make: impl FnMut(usize) -> Result<T, c_int>,
    free: impl Fn(T) -> c_int,
) -> (usize, c_int) {
    let mut made = Vec::new();
    let why = loop {
        match make(made.len()) {
            Ok(object) => made.push(object),
            Err(errno) => break errno,
        }
    };
    let count = made.len();
    assert_eq!(free(made.pop().unwrap()), 0);
    made.push(make(count - 1).unwrap());
    assert!(make(count).is_err(), "there was room for one");
    assert!(made.into_iter().all(|object| free(object) == 0));
    (count, why)
}

/// In the process.
pub(crate) fn all_of_a_function() {
    let ctx = Ctx::open(ALONE);
    let offered = ctx.attributes();
    assert_eq!(
        (offered.max_qp_wr, offered.max_sge),
        (4063, 13),
        "as irdma tells"
    );
    counts(ctx, &offered);
    groups(ctx, &offered);
    depths(ctx, &offered);
    reads(ctx, &offered);
    descriptors(ctx);
    assert_eq!(ctx.close(), 0);
}

fn not_null<T>(object: *mut T) -> Result<*mut T, c_int> {
    if object.is_null() {
        Err(errno())
    } else {
        Ok(object)
    }
}

fn counts(ctx: Ctx, offered: &DeviceAttr) {
    let full = |most: c_int| (most as usize, libc::ENOMEM);
    let pds = all(|_| not_null(ctx.pd().0).map(Pd), Pd::free);
    assert_eq!(pds, full(offered.max_pd), "max_pd");
    let cqs = all(
        |_| not_null(ctx.try_cq(1, 0, ptr::null_mut())).map(Cq),
        Cq::destroy,
    );
    assert_eq!(cqs, full(offered.max_cq), "max_cq");
    let pd = ctx.pd();
    let bytes: *mut [u8] = memory(4096);
    // SAFETY: memory of the test, which nothing here writes to.
    let mrs = all(|_| pd.try_mr(unsafe { &mut *bytes }), |mr| mr.dereg());
    assert_eq!(mrs, full(offered.max_mr), "max_mr");
    let gid = ctx.gid(1);
    let ahs = all(|_| pd.try_ah(address(gid, 1)), |ah| ah.destroy());
    assert_eq!(ahs, full(offered.max_ah), "max_ah");
    let cq = ctx.cq(16, 0, None);
    // With any number of SGEs.
    for sges in [1, offered.max_sge as u32] {
        let cap = cap(1, 1, sges, sges);
        let qps = all(|_| pd.try_qp_of(RC, cq, cq, cap), Qp::destroy);
        assert_eq!(qps, full(offered.max_qp), "max_qp");
    }
    assert_eq!([cq.destroy(), pd.free()], [0; 2]);
}

/// Channels and contexts, of a process with 20 descriptors left.
fn descriptors(ctx: Ctx) {
    leave_descriptors(open_files() + 20);
    // SAFETY: an open context.
    let channel = |_| not_null(unsafe { create_comp_channel(ctx.0) }).map(Channel);
    let (channels, why) = all(channel, Channel::destroy);
    assert!(channels > 5 && why == libc::EMFILE, "{channels}: {why}");
    let (contexts, why) = all(|_| Ctx::try_open(ALONE), Ctx::close);
    assert!(contexts > 3 && why == libc::EMFILE, "{contexts}: {why}");
}

fn group(number: usize) -> Gid {
    let group = Ipv4Addr::from(0xEF00_0100 + number as u32);
    Gid {
        raw: group.to_ipv6_mapped().octets(),
    }
}

fn groups(ctx: Ctx, offered: &DeviceAttr) {
    let (pd, cq) = (ctx.pd(), ctx.cq(16, 0, None));
    let members: Vec<_> = (0..=offered.max_mcast_qp_attach)
        .map(|_| {
            let qp = pd.qp(UD, cq, cq);
            qp.datagrams(1);
            qp
        })
        .collect();
    let (last, first) = members.split_last().unwrap();
    let attached = |member: &Qp, number| member.attach(group(number));
    assert!(first.iter().all(|member| attached(member, 0) == 0));
    assert_ne!(attached(last, 0), 0, "max_mcast_qp_attach");
    assert!(first.iter().all(|member| member.detach(group(0)) == 0));
    let joined = all(
        |number| match attached(last, number) {
            0 => Ok(number),
            errno => Err(errno),
        },
        |number| last.detach(group(number)),
    );
    let most = offered.max_mcast_grp as usize;
    assert_eq!(joined, (most, libc::ENOMEM), "max_mcast_grp");
    assert!(members.into_iter().all(|member| member.destroy() == 0));
    assert_eq!([cq.destroy(), pd.free()], [0; 2]);
}

const fn cap(sends: u32, receives: u32, send_sges: u32, recv_sges: u32) -> QpCap {
    QpCap {
        max_send_wr: sends,
        max_recv_wr: receives,
        max_send_sge: send_sges,
        max_recv_sge: recv_sges,
        max_inline_data: 0,
    }
}

fn depths(ctx: Ctx, offered: &DeviceAttr) {
    let (pd, cq) = (ctx.pd(), ctx.cq(offered.max_cqe, 0, None));
    assert!(!cq.0.is_null(), "max_cqe");
    let beyond = ctx.try_cq(offered.max_cqe + 1, 0, ptr::null_mut());
    assert_eq!(not_null(beyond), Err(libc::EINVAL), "max_cqe");
    let most = offered.max_qp_wr as u32;
    for sges in 0..=offered.max_sge as u32 {
        for inline in [0, 101] {
            let caps = QpCap {
                max_inline_data: inline,
                ..cap(most, most, sges, sges)
            };
            let qp = pd.try_qp_of(RC, cq, cq, caps);
            assert_eq!(qp.map(Qp::destroy), Ok(0), "{sges} SGEs, {inline} bytes");
        }
    }
    let refused = |caps| pd.try_qp_of(RC, cq, cq, caps).map(Qp::destroy);
    let sges = offered.max_sge as u32;
    // What fits of smaller requests is made, as irdma makes it.
    assert_eq!(refused(cap(16_000, 32_000, 1, 1)), Ok(0));
    assert_eq!(refused(cap(most + 1, 1, sges, 1)), Err(libc::EINVAL));
    assert_eq!(refused(cap(1, 4096, 1, sges)), Err(libc::EINVAL));
    assert_eq!(refused(cap(1, 1, sges + 1, 1)), Err(libc::EINVAL));
    assert_eq!(refused(cap(1, 1, 1, sges + 1)), Err(libc::EINVAL));
    assert_eq!([cq.destroy(), pd.free()], [0; 2]);
}

/// `max_qp_rd_atom` and `max_qp_init_rd_atom`.
fn reads(ctx: Ctx, offered: &DeviceAttr) {
    let (pd, cq) = (ctx.pd(), ctx.cq(16, 0, None));
    let [most, beyond] = [0, 1].map(|more| {
        let served = offered.max_qp_rd_atom + more;
        let issued = offered.max_qp_init_rd_atom + more;
        (u8::try_from(served), u8::try_from(issued))
    });
    assert_eq!(beyond.1.ok(), None, "all that an attribute can say");
    let qp = pd.qp(RC, cq, cq);
    qp.init();
    let rtr = |served| {
        qp.modify(1 | 128 | 256 | 4096 | 1 << 20 | 1 << 17 | 1 << 15, |attr| {
            attr.qp_state = state::RTR;
            attr.ah_attr = address(ctx.gid(1), 1);
            attr.path_mtu = 3;
            attr.dest_qp_num = qp.number();
            attr.max_dest_rd_atomic = served;
            attr.min_rnr_timer = 1;
        })
    };
    assert_eq!(rtr(beyond.0.unwrap()), libc::EINVAL);
    assert_eq!(rtr(most.0.unwrap()), 0);
    let rts = qp.modify(1 | 512 | 1024 | 2048 | 1 << 16 | 1 << 13, |attr| {
        attr.qp_state = state::RTS;
        attr.timeout = 12;
        attr.retry_cnt = 7;
        attr.rnr_retry = 7;
        attr.max_rd_atomic = most.1.unwrap();
    });
    assert_eq!(rts, 0);
    assert_eq!([qp.destroy(), cq.destroy(), pd.free()], [0; 3]);
}
