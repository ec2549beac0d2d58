//! Servers that come and go.

use std::env;
use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use crate::harness::{Connection, Ctx, PATIENCE, readable, until};
use crate::kills::KILLS;
use crate::server::{Process, World};
use crate::victim::Draw;
use crate::words::Words;

/// Programs that come and go.
const VISITORS: u64 = 3;
/// How often one of them has had a device that worked.
const USED: usize = 0;
/// Not 0: they end.
const STOP: usize = 1;

#[test]
fn a_second_server_is_refused_and_told_who_the_first_one_is() {
    let world = World::new();
    let first = world.server();
    let mut second = world.serve(&[]);
    let mut said = String::new();
    let status = second.wait().unwrap();
    let mut errors = second.stderr.take().unwrap();
    errors.read_to_string(&mut said).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    let holder = format!("process {} (e810)", first.0.pid());
    let at = world.at();
    for part in [holder.as_str(), at.to_str().unwrap()] {
        assert!(said.contains(part), "{part}: {said}");
    }
    first.stop();
    // The place is free at once.
    world.server().stop();
}

/// Opens the device again and again and uses it, whatever becomes of its server.
pub(crate) fn visits() {
    std::panic::set_hook(Box::new(|_| {}));
    let words = Words::of_test();
    while words.get(STOP) == 0 {
        let Ok(ctx) = Ctx::try_open(0) else {
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        let used = catch_unwind(AssertUnwindSafe(|| {
            let connection = Connection::new(ctx, None);
            connection.send(5, 0);
            for cq in connection.cqs {
                let mut done = Vec::new();
                // Nothing completes any more once the device is gone.
                until("a completion, or the end of the device", || {
                    done = cq.poll(1);
                    !done.is_empty() || readable(ctx.async_fd(), Duration::ZERO)
                });
                assert_eq!(done[0].status, 0);
            }
            connection.destroy();
        }));
        match used {
            Ok(()) => words.add(USED, 1),
            // Something failed: then the device is gone.
            Err(_) if readable(ctx.async_fd(), PATIENCE) => {}
            // SAFETY: it does not return.
            Err(_) => unsafe { libc::exit(1) },
        }
        // Whatever is left of its objects.
        if ctx.close() != 0 {
            // SAFETY: as above.
            unsafe { libc::exit(2) };
        }
    }
}

#[test]
fn servers_are_killed_and_started_while_programs_come_and_go() {
    let times = if env::var_os(KILLS).is_some() { 50 } else { 8 };
    let world = World::new();
    let mut draw = Draw(7);
    let mut visitors: Vec<Process> = (0..VISITORS).map(|n| world.part("visits", n)).collect();
    for time in 0..times {
        let mut server = world.server();
        if time % 2 == 0 {
            let used = world.words.get(USED);
            until("a visit", || {
                for visitor in &mut visitors {
                    assert!(!visitor.has_ended(), "{}", visitor.complaints());
                }
                world.words.get(USED) > used
            });
        }
        thread::sleep(Duration::from_micros(draw.below(30_000) as u64));
        server.0.kill();
    }
    let server = world.server();
    let used = world.words.get(USED);
    until("visits", || world.words.get(USED) > used + 2 * VISITORS);
    world.words.set(STOP, 1);
    visitors.into_iter().for_each(Process::done);
    server.stop();
}
