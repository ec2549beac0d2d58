//! Tables with a bound: what happens at it, and that what is freed makes room again
//! (`docs/limits.md`).

use std::ffi::c_int;
use std::ptr;

use e810_verbs::abi::query::DeviceAttr;
use e810_verbs::abi::state::Gid;
use e810_verbs::channel::create_comp_channel;
use e810_verbs::query::device::query_device;

use crate::harness::objects::{Channel, Cq, Qp, RC, UD, address};
use crate::harness::{Ctx, Pd, errno, memory};
use crate::processes::World;

/// Makes objects until one is refused, frees the last and makes it again: how many there were, and
/// what the refusal said. All are freed then.
fn fill<T>(
    mut make: impl FnMut(usize) -> Result<T, c_int>,
    free: impl Fn(T) -> c_int,
) -> (usize, c_int) {
    let mut made = Vec::new();
    let why = loop {
        match make(made.len()) {
            Ok(object) => made.push(object),
            Err(number) => break number,
        }
    };
    let count = made.len();
    assert_eq!(free(made.pop().unwrap()), 0);
    made.push(make(count - 1).unwrap());
    assert!(make(count).is_err(), "there was room for one");
    assert!(made.into_iter().all(|object| free(object) == 0));
    (count, why)
}

/// An object, or the error number.
fn found<T>(pointer: *mut T) -> Result<*mut T, c_int> {
    match pointer.is_null() {
        true => Err(errno()),
        false => Ok(pointer),
    }
}

pub(crate) fn all_are_full() {
    let ctx = Ctx::open(0);
    let pd = ctx.pd();
    let cq = ctx.cq(8, 0, None);
    // SAFETY: numbers.
    let mut most: DeviceAttr = unsafe { std::mem::zeroed() };
    // SAFETY: an open context, and a place for the answer.
    assert_eq!(unsafe { query_device(ctx.0, &raw mut most) }, 0);
    // So many beside those that are there already.
    let full = |most: c_int, there: usize| (most as usize - there, libc::ENOMEM);
    let (page, gid) = (memory(4096), ctx.gid(1));
    let pds = fill(|_| found(ctx.pd().0).map(Pd), Pd::free);
    assert_eq!(pds, full(most.max_pd, 1), "protection domains");
    let mrs = fill(|_| pd.try_mr(page), |mr| mr.dereg());
    assert_eq!(mrs, full(most.max_mr, 0), "regions");
    let no_channel = ptr::null_mut();
    let cqs = fill(
        |_| found(ctx.try_cq(8, 0, no_channel)).map(Cq),
        |cq| cq.destroy(),
    );
    assert_eq!(cqs, full(most.max_cq, 1), "completion queues");
    // The number of one is free when its completion queue was polled.
    let destroy = |qp: Qp| {
        let destroyed = qp.destroy();
        cq.poll(1);
        destroyed
    };
    let qps = fill(|_| pd.try_qp(RC, cq, cq), destroy);
    assert_eq!(qps, full(most.max_qp, 0), "queue pairs");
    let ahs = fill(|_| pd.try_ah(address(gid, 1)), |ah| ah.destroy());
    assert_eq!(ahs, full(most.max_ah, 0), "address handles");
    let qp = pd.qp(UD, cq, cq);
    let group = |index: usize| {
        let mut raw = [0; 16];
        raw[10..12].fill(0xFF);
        raw[12..].copy_from_slice(&(0xE9_00_00_00_u32 + index as u32).to_be_bytes());
        Gid { raw }
    };
    let groups = fill(
        |index| match qp.attach(group(index)) {
            0 => Ok(group(index)),
            number => Err(number),
        },
        |group| qp.detach(group),
    );
    assert_eq!(groups, full(most.max_mcast_grp, 0), "groups");
    descriptors(ctx);
    assert_eq!([qp.destroy(), cq.destroy(), pd.free()], [0; 3]);
    assert_eq!(ctx.close(), 0);
}

/// Channels and contexts have descriptors.
fn descriptors(ctx: Ctx) {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let most = open as libc::rlim_t + 20;
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: a limit that is read.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(set, 0);
    // SAFETY: an open context.
    let channel = || found(unsafe { create_comp_channel(ctx.0) }).map(Channel);
    let (channels, why) = fill(|_| channel(), Channel::destroy);
    assert!(channels > 5 && why == libc::EMFILE, "{channels}: {why}");
    let (contexts, why) = fill(|_| Ctx::try_open(0), Ctx::close);
    assert!(contexts > 3 && why == libc::EMFILE, "{contexts}: {why}");
}

#[test]
fn a_full_table_is_an_error_and_gives_places_back() {
    World::new("tables").run("all tables are full", 1);
}
