//! Panics, which must not unwind into C.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of an exported function; `otherwise` if it panics, which Rust's own hook reports
/// and which goes no further.
pub(crate) fn catch_panics<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    // What a panic may leave behind is behind mutexes, whose poison is ignored on purpose: the
    // program goes on with the objects it has.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}
