//! `fork`: nothing has to be done for it.
//!
//! Pages that are pinned stay with the parent: kernels since 5.12 give the child a copy at the
//! time of the fork. Nothing of this library runs in the child.

use core::ffi::{c_int, c_void};

/// `IBV_FORK_UNNEEDED`.
const UNNEEDED: c_int = 2;

/// `ibv_fork_init`.
pub extern "C" fn fork_init() -> c_int {
    0
}

/// `ibv_is_fork_initialized`.
pub extern "C" fn is_fork_initialized() -> c_int {
    UNNEEDED
}

/// `ibv_dontfork_range`, for providers.
pub extern "C" fn dontfork_range(_: *mut c_void, _: usize) -> c_int {
    0
}

/// `ibv_dofork_range`, for providers.
pub extern "C" fn dofork_range(_: *mut c_void, _: usize) -> c_int {
    0
}
