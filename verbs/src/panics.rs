//! Panics, which must not unwind into C, and of which the program's users see nothing.

use std::cell::Cell;
use std::env;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::thread;

use crate::cancel::NotNow;
use crate::errno::{OfProgram, fail};

/// With this environment variable panics are reported as Rust does it, to find a mistake in this
/// library.
const REPORTED: &str = "E810_VERBS_PANICS";

/// What the threads of this library, and of the simulator, have their names begin with.
const THREADS: &str = "e810";

thread_local! {
    /// How many exported functions this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Runs the body of an exported function; `otherwise` and EIO if it panics, which goes no further.
///
/// The program finds its `errno` as it was if the body does not set it, and its thread is not
/// cancelled in here.
pub(crate) fn catch_panics<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    let depth = DEPTH.get();
    let outermost = (depth == 0).then(|| (OfProgram::keep(), NotNow::begin()));
    DEPTH.set(depth.wrapping_add(1));
    // What a panic may leave behind is behind mutexes, whose poison is ignored on purpose: the
    // program goes on with the objects it has.
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

/// Has panics of this library print nothing, from now on. Those of a program's own functions and
/// threads are left to the hook that it has: it may be written in Rust, and share the hook if it
/// uses this crate and not the C library, which has a hook of its own.
pub(crate) fn keep_silent() {
    static ONCE: Once = Once::new();
    // Hooks cannot be changed from a thread that panics; another call will do it.
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
        // The program's own.
        catch_unwind(panics).unwrap_err();
        assert_eq!(reports(), 1);
        named("worker").spawn(panics).unwrap().join().unwrap_err();
        assert_eq!(reports(), 2);
    }
}
