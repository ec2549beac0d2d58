//! Panics, which must not unwind into C and which the program's users do not see.

use std::cell::Cell;
use std::env;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::thread;

use crate::cancel::NotNow;
use crate::errno::{OfProgram, fail};

/// With this environment variable panics are reported as usual in Rust, to debug this library.
const REPORTED: &str = "E810_VERBS_PANICS";

/// The prefix of the names of threads of this library and of the simulator.
const THREADS: &str = "e810";

thread_local! {
    /// How many exported functions this thread is inside.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Runs the body of an exported function. If it panics, the panic ends here: returns `otherwise`,
/// with EIO.
///
/// The program's `errno` is unchanged unless the body sets it, and its thread is not cancelled in
/// the body.
pub fn catch_panics<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    let depth = DEPTH.get();
    let outermost = (depth == 0).then(|| (OfProgram::keep(), NotNow::begin()));
    DEPTH.set(depth.wrapping_add(1));
    // What a panic may leave inconsistent is behind mutexes, whose poison is ignored on purpose:
    // the program goes on with the objects it has.
    let result = catch_unwind(AssertUnwindSafe(body));
    DEPTH.set(depth);
    let result = result.unwrap_or_else(|_| {
        fail(libc::EIO);
        otherwise
    });
    if let Some((errno, cancellation)) = outermost {
        cancellation.end();
        errno.put_back();
    }
    result
}

/// Makes panics of this library print nothing, from now on. Panics of the program's own functions
/// and threads go to its own hook. A program may be written in Rust; it shares the hook if it uses
/// this crate and not the C library, which has a hook of its own.
pub fn keep_silent() {
    static ONCE: Once = Once::new();
    // A panicking thread cannot change hooks; another call will do it.
    if thread::panicking() || env::var_os(REPORTED).is_some() {
        return;
    }
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !is_own() {
                before(info);
            }
        }));
    });
}

/// Whether this thread is in a function of this library.
fn is_own() -> bool {
    DEPTH.get() > 0
        || thread::current()
            .name()
            .is_some_and(|name| name.starts_with(THREADS))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn only_panics_of_this_library_are_silent() {
        static REPORTS: AtomicU32 = AtomicU32::new(0);
        /// So that panics of other tests are not counted.
        struct Ours;
        fn panics() {
            panic::panic_any(Ours);
        }
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| match info.payload().is::<Ours>() {
            true => drop(REPORTS.fetch_add(1, Ordering::Relaxed)),
            false => before(info),
        }));
        keep_silent();
        let reports = || REPORTS.load(Ordering::Relaxed);

        assert_eq!(catch_panics(7, || panic::panic_any(Ours)), 7);
        assert_eq!(
            catch_panics(7, || catch_panics(8, || panic::panic_any(Ours))),
            8
        );
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        let own = named("e810-sim").spawn(panics).unwrap();
        own.join().unwrap_err();
        assert_eq!(reports(), 0);
        // A panic of the program's own.
        catch_unwind(panics).unwrap_err();
        assert_eq!(reports(), 1);
        named("worker").spawn(panics).unwrap().join().unwrap_err();
        assert_eq!(reports(), 2);
    }
}
