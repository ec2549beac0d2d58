//! The border to C.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of an exported function; `otherwise` if it panics, which is reported by Rust's own
/// hook and goes no further.
pub(crate) fn entry<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    // What a panic may leave behind is behind mutexes, whose poison is ignored on purpose: the
    // program goes on with the objects it has.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}
