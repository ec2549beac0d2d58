//! A process that has little memory, or none left.

use std::ptr;

use crate::harness::objects::RC;
use crate::harness::{Connection, Ctx, errno, is_over_socket, memory};
use crate::processes::{World, use_connection};

/// Bytes that are left: enough for hundreds of queue pairs, and too few for what the device has.
const LEFT: u64 = 16 << 20;

/// Sets what the process may have at most from now on.
fn limit(bytes: libc::rlim_t) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: a limit that is read.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    assert_eq!(set, 0);
}

/// Makes objects until one is refused: how many there are, and why it was.
fn make<T>(mut one: impl FnMut() -> Result<T, i32>) -> (usize, i32) {
    let mut made = 0;
    loop {
        match one() {
            Ok(_) => made += 1,
            Err(number) => break (made, number),
        }
    }
}

/// Bytes that the process has.
fn used() -> u64 {
    let used = std::fs::read_to_string("/proc/self/statm").unwrap();
    used.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096
}

pub(crate) fn none_is_left() {
    let ctx = Ctx::open(0);
    let connection = Connection::new(ctx, None);
    let (pd, [cq, _]) = (connection.pd, connection.cqs);
    let page = memory(4096);
    limit(used() + LEFT);
    let try_cq = |entries| match ctx.try_cq(entries, 0, ptr::null_mut()).is_null() {
        true => Err(errno()),
        false => Ok(()),
    };
    // What is too large is refused, and something smaller is not.
    let (large, why) = make(|| try_cq(1_000_000));
    assert!(
        large < 3 && why == libc::ENOMEM,
        "{large} large queues, {why}"
    );
    assert_eq!(cq.resize(1_000_000), libc::ENOMEM);
    let (qps, why) = make(|| pd.try_qp(RC, cq, cq));
    assert!(qps > 10 && why == libc::ENOMEM, "{qps} queue pairs, {why}");
    let (regions, why) = make(|| pd.try_mr(page));
    assert_eq!(why, libc::ENOMEM, "{regions} regions");
    let (cqs, why) = make(|| try_cq(8));
    assert_eq!(why, libc::ENOMEM, "{cqs} completion queues");
    // Over a socket, rings take the most and end first: what is left is enough for a number.
    assert!(is_over_socket() || ctx.pd().0.is_null() && errno() == libc::ENOMEM);
    // What was made works on, and makes room when it is destroyed.
    use_connection(&connection);
    limit(libc::RLIM_INFINITY);
    assert_eq!(ctx.close(), 0);
    use_connection(&Connection::new(Ctx::open(0), None));
}

/// A device for fewer entries of queues.
pub(crate) fn little_is_left() {
    assert_eq!(Ctx::count(), 1);
    limit(used() + (320 << 20));
    let ctx = Ctx::open(0);
    let connection = Connection::new(ctx, None);
    use_connection(&connection);
    connection.destroy();
    assert_eq!(ctx.close(), 0);
}

#[test]
fn a_process_that_may_have_little_memory_has_a_device() {
    World::new("little").run("little memory is left", 1);
}

#[test]
fn a_process_without_memory_is_refused_and_goes_on() {
    World::new("memory").run("no memory is left", 1);
}
