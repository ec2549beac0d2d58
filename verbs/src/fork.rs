//! `fork`: pages that are pinned stay with the parent, as kernels since 5.12 give the child a copy
//! at the time of the fork, and nothing of this library runs in the child.
//!
//! So a child has its parent's objects as numbers only: what it calls is refused ([`Process`])
//! before it waits for a lock, which a thread of the parent may have had at the fork. What is the
//! library's and not an object's, each process has for itself ([`PerProcess`]).

use core::ffi::{c_int, c_void};
use std::process;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::control::Refused;

/// The process that has made something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Process(pub(crate) u32);

impl Process {
    /// This one.
    pub(crate) fn this() -> Self {
        Self(process::id())
    }

    /// Whether it is this one, and not the parent of this one.
    pub(crate) fn is_this(self) -> bool {
        self == Self::this()
    }

    /// Refuses commands for what it has made to its children, which have neither the function nor
    /// its threads: what they destroy as they end is their parent's.
    ///
    /// # Errors
    /// [`Refused::Gone`].
    pub(crate) fn check(self) -> Result<(), Refused> {
        match self.is_this() {
            true => Ok(()),
            false => Err(Refused::Gone(format!(
                "the function belongs to process {}",
                self.0
            ))),
        }
    }
}

/// What a process makes when it first wants it, and a child of it makes again.
pub(crate) struct PerProcess<T>(AtomicPtr<Made<T>>);

/// What one process has.
struct Made<T> {
    by: Process,
    value: OnceLock<T>,
}

impl<T> PerProcess<T> {
    /// Nothing is made.
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// This process's.
    pub(crate) fn get_or_init(&'static self, make: impl FnOnce() -> T) -> &'static T {
        let by = Process::this();
        let seen = self.0.load(Ordering::Acquire);
        // SAFETY: null, or one that is never freed.
        let made = match unsafe { seen.as_ref() } {
            Some(made) if made.by == by => made,
            _ => {
                let value = OnceLock::new();
                let new = Box::into_raw(Box::new(Made { by, value }));
                let placed =
                    self.0
                        .compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire);
                // SAFETY: the one that is in place is never freed, and nobody else has seen another.
                unsafe {
                    match placed {
                        Ok(_) => &*new,
                        Err(placed) => {
                            drop(Box::from_raw(new));
                            &*placed
                        }
                    }
                }
            }
        };
        made.value.get_or_init(make)
    }
}

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
