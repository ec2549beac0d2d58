//! Children of `fork`: they end, run another program, use verbs themselves, or clean up behind
//! their parent; nothing of that changes what the parent has.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use e810_verbs::abi::state::Gid;
use e810_verbs::channel::create_comp_channel;

use crate::harness::objects::{RC, address, state};
use crate::harness::{
    Channel, Connection, Ctx, acknowledge, errno, memory, readable, set_nonblocking, until,
};
use crate::processes::{DONE, World, end, use_connection};

/// Runs `child` in a child of fork, and gives what it ends with.
fn fork(child: impl FnOnce()) -> c_int {
    // SAFETY: the child runs what a program would.
    let process = unsafe { libc::fork() };
    if process == 0 {
        child();
        end(DONE);
    }
    let mut status = 0;
    until("the child", || {
        // SAFETY: the child that was made, and a place for its status.
        let ended = unsafe { libc::waitpid(process, &raw mut status, libc::WNOHANG) };
        ended == process
    });
    assert!(libc::WIFEXITED(status), "{status}");
    libc::WEXITSTATUS(status)
}

pub(crate) fn child_exits() {
    let connection = Connection::new(Ctx::open(0), None);
    for _ in 0..5 {
        assert_eq!(fork(|| {}), DONE);
        use_connection(&connection);
    }
    connection.destroy();
}

/// No descriptor of the library is left to another program.
pub(crate) fn child_executes() {
    let ctx = Ctx::open(0);
    let channel = ctx.channel();
    let connection = Connection::new(ctx, Some(channel));
    let script =
        c"ls -l /proc/self/fd | grep -E 'anon_inode|memfd|lock|sock|vfio' >&2 && exit 1; exit 42";
    let code = fork(|| {
        let words = [c"sh", c"-c", script].map(CStr::as_ptr);
        let words = [words[0], words[1], words[2], ptr::null()];
        // SAFETY: strings, with a null pointer behind the last.
        unsafe { libc::execv(c"/bin/sh".as_ptr(), words.as_ptr()) };
        end(1);
    });
    assert_eq!(code, DONE);
    use_connection(&connection);
}

pub(crate) fn child_has_a_function() {
    let ctx = Ctx::open(0);
    let connection = Connection::new(ctx, None);
    let own = ctx.gid(0);
    let code = fork(|| {
        let ctx = Ctx::open(0);
        assert_ne!(ctx.gid(0), own);
        let connection = Connection::new(ctx, None);
        use_connection(&connection);
        connection.destroy();
        assert_eq!(ctx.close(), 0);
    });
    assert_eq!(code, DONE);
    use_connection(&connection);
}

pub(crate) fn child_has_none() {
    let connection = Connection::new(Ctx::open(0), None);
    let code = fork(|| {
        assert_eq!(Ctx::count(), 0);
    });
    assert_eq!(code, DONE);
    use_connection(&connection);
}

/// What a child does to what its parent has: everything that takes a command, a wait or a lock.
fn tries_everything(connection: &Connection, channel: Channel) {
    let (ctx, memory) = (connection.ctx, memory(4096));
    let Connection {
        pd, mr, cqs, a, b, ..
    } = *connection;
    let [cq, _] = cqs;
    let null = |is_null: bool| if is_null { errno() } else { 0 };
    let no_channel = ptr::null_mut();
    // SAFETY: an open context.
    let new_channel = unsafe { create_comp_channel(ctx.0) };
    let gid = Gid { raw: [0xFF; 16] };
    let refused = [
        ctx.try_attributes().err().unwrap_or_default(),
        null(ctx.pd().0.is_null()),
        null(new_channel.is_null()),
        null(ctx.try_cq(8, 0, no_channel).is_null()),
        null(ctx.try_cq(8, 0, channel.0).is_null()),
        pd.try_qp(RC, cq, cq).err().unwrap_or_default(),
        pd.try_mr(memory).err().unwrap_or_default(),
        pd.try_ah(address(gid, 0)).err().unwrap_or_default(),
        channel.take().err().unwrap_or_default(),
        ctx.take_event().err().unwrap_or_default(),
        a.go_to(state::ERR),
        b.go_to(state::RESET),
        a.query().err().unwrap_or_default(),
        a.attach(gid),
        a.detach(gid),
        cq.resize(1000),
        mr.to_domain(pd),
        a.destroy(),
        b.destroy(),
        cq.destroy(),
        channel.destroy(),
        mr.dereg(),
        pd.free(),
    ];
    assert_eq!(refused, [libc::EIO; 23]);
    cq.acknowledge(1);
    assert_eq!(ctx.close(), 0);
}

/// A child that cleans up behind its parent, or waits for what is its parent's, changes nothing.
pub(crate) fn child_destroys() {
    let ctx = Ctx::open(0);
    let channel = ctx.channel();
    let connection = Connection::new(ctx, Some(channel));
    let [_, incoming] = connection.cqs;
    let signals = || [ctx.async_fd(), channel.fd()].map(|fd| readable(fd, Duration::ZERO));
    // Nothing waits, and then an event of each kind does.
    for waits in [false, true] {
        if waits {
            assert_eq!(incoming.arm(false), 0);
            connection.send(5, 0);
            for cq in connection.cqs {
                cq.wait(1);
            }
            let drained = connection.a.modify(1 | 1 << 2, |attr| {
                attr.qp_state = state::SQD;
                attr.en_sqd_async_notify = 1;
            });
            assert_eq!(drained, 0);
            until("events", || signals() == [true; 2]);
        }
        assert_eq!(
            fork(|| {
                tries_everything(&connection, channel);
            }),
            DONE
        );
        assert_eq!(signals(), [waits; 2]);
    }
    assert_eq!(channel.take(), Ok((incoming, 2)));
    incoming.acknowledge(1);
    acknowledge(ctx.event());
    assert_eq!(signals(), [false; 2]);
    for fd in [channel.fd(), ctx.async_fd()] {
        set_nonblocking(fd, true);
    }
    assert_eq!(channel.take(), Err(libc::EAGAIN));
    assert_eq!(ctx.take_event().map(drop), Err(libc::EAGAIN));
    assert_eq!(connection.a.go_to(state::RTS), 0);
    use_connection(&connection);
    connection.destroy();
    assert_eq!((channel.destroy(), ctx.close()), (0, 0));
}

/// Children that are made while threads of their parent have any of its locks.
pub(crate) fn child_of_busy_threads() {
    let ctx = Ctx::open(0);
    let channel = ctx.channel();
    let connection = Connection::new(ctx, Some(channel));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let busy = |work: &'static (dyn Fn(Ctx) + Sync)| {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    work(ctx);
                }
            });
        };
        busy(&|ctx| {
            let (channel, pd) = (ctx.channel(), ctx.pd());
            let cq = ctx.cq(16, 0, Some(channel));
            assert_eq!((cq.destroy(), pd.free()), (0, 0));
            assert_eq!(channel.destroy(), 0);
        });
        busy(&|_| {
            let ctx = Ctx::open(0);
            set_nonblocking(ctx.async_fd(), true);
            assert_eq!(ctx.take_event().map(drop), Err(libc::EAGAIN));
            assert_eq!(ctx.close(), 0);
        });
        let connection = &connection;
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                use_connection(connection);
            }
        });
        for _ in 0..30 {
            assert_eq!(fork(|| tries_everything(connection, channel)), DONE);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    use_connection(&connection);
    connection.destroy();
    assert_eq!((channel.destroy(), ctx.close()), (0, 0));
}

#[test]
fn a_child_of_fork_leaves_its_parents_function_alone() {
    let world = World::new("fork");
    for part in [
        "child exits",
        "child runs another program",
        "child destroys",
        "child of busy threads",
    ] {
        world.run(part, 1);
    }
}

#[test]
fn a_child_of_fork_has_a_function_of_its_own_if_there_is_one() {
    let world = World::new("own");
    world.run("child has a function", 2);
    world.run("child has none", 1);
}
