//! `fork`: pinned pages stay with the parent, because kernels since 5.12 give the child a copy at
//! the time of the fork. Nothing of this library runs in the child.
//!
//! So a child has only the numbers of its parent's objects. Its calls are refused (`Process`)
//! before they wait for a lock, which a thread of the parent may have held at the fork. State of
//! the library that belongs to no object exists once in each process (`PerProcess`).

use core::ffi::{c_int, c_void};
use std::process;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::control::Refused;

/// The process that has made something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    /// Its number. A child in a PID namespace of its own may have its parent's, and so may a
    /// grandchild whose grandparent has ended.
    pub(crate) number: u32,
    /// How many processes up to this one have asked who they are. No child shares this number with
    /// its ancestors; 0 where kernels do not let a child know.
    life: u32,
}

impl Process {
    /// This process. It is asked at every event, so the system is asked once in a process: a child
    /// of `fork` finds the known value wiped.
    #[must_use]
    pub fn this() -> Self {
        static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
        static LIVES: AtomicU32 = AtomicU32::new(0);
        let mut page = PAGE.load(Ordering::Acquire);
        if page.is_null() {
            page = wiped_page();
            let placed =
                PAGE.compare_exchange(ptr::null_mut(), page, Ordering::AcqRel, Ordering::Acquire);
            // Another thread was quicker; its page stays for good, and so does this one.
            page = placed.map_or_else(|placed| placed, |_| page);
        }
        // SAFETY: null, or a page of zeroes at first, which is never unmapped.
        let Some(known) = (unsafe { page.as_ref() }) else {
            return Self {
                number: process::id(),
                life: 0,
            };
        };
        let mut word = known.load(Ordering::Relaxed);
        if word == 0 {
            let new = Self {
                number: process::id(),
                life: LIVES.fetch_add(1, Ordering::Relaxed) + 1,
            };
            let new = new.word();
            let placed = known.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed);
            // Another thread was quicker.
            word = placed.map_or_else(|placed| placed, |_| new);
        }
        Self {
            number: word as u32,
            life: (word >> 32) as u32,
        }
    }

    /// Both numbers in one word.
    pub(crate) fn word(self) -> u64 {
        u64::from(self.life) << 32 | u64::from(self.number)
    }

    /// Whether it is this process, and not its parent.
    #[must_use]
    pub fn is_this(self) -> bool {
        self == Self::this()
    }

    /// Refuses commands that a child gives for objects of its parent: the child has neither the
    /// function nor its threads, and what it destroys as it ends is its parent's.
    ///
    /// # Errors
    /// The function is another process's.
    pub(crate) fn check(self) -> Result<(), Refused> {
        match self.is_this() {
            true => Ok(()),
            false => Err(Refused::gone(format!(
                "the function belongs to process {}",
                self.number
            ))),
        }
    }
}

/// A page that becomes all zeroes in a child of `fork`; null on kernels without such pages (before
/// 4.14).
fn wiped_page() -> *mut AtomicU64 {
    let bytes = 4096;
    let (rights, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping, which nobody else has.
    unsafe {
        let page = libc::mmap(ptr::null_mut(), bytes, rights, kind, -1, 0);
        if page == libc::MAP_FAILED {
            return ptr::null_mut();
        }
        if libc::madvise(page, bytes, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, bytes);
            return ptr::null_mut();
        }
        page.cast()
    }
}

/// A value that each process makes at its first use; a child makes its own.
pub struct PerProcess<T>(AtomicPtr<Made<T>>);

struct Made<T> {
    by: Process,
    value: OnceLock<T>,
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> PerProcess<T> {
    /// No value yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// This process's value.
    pub fn get_or_init(&'static self, make: impl FnOnce() -> T) -> &'static T {
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
                // SAFETY: a value in place is never freed; nobody else has seen the other one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_of_fork_is_another_process_and_makes_its_own() {
        static MADE: PerProcess<u32> = PerProcess::new();
        let parent = Process::this();
        assert_eq!((parent.number, parent.is_this()), (process::id(), true));
        assert_eq!(*MADE.get_or_init(|| 1), 1);
        assert_eq!(*MADE.get_or_init(|| 2), 1);
        // SAFETY: the child makes a few calls and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_right = !parent.is_this()
                && Process::this().number == process::id()
                // Even if it has the same number.
                && Process::this().life != parent.life
                && parent.check().is_err()
                && *MADE.get_or_init(|| 3) == 3;
            // SAFETY: nothing of the parent's is run.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let mut status = -1;
        // SAFETY: a child that was made above, and a place for its status.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
        assert!(parent.is_this() && *MADE.get_or_init(|| 4) == 1);
    }
}
