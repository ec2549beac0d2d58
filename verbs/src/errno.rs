//! Errors in the form that C uses: numbers for the driver's errors, and `errno`.

use core::cell::Cell;
use core::ffi::c_int;
use core::ptr;
use std::io;

use e810_attach::errno::of_any;
use e810_verbs_names::refusals::set_errno;

thread_local! {
    /// The `errno` that the program's current call sets in this thread.
    static SAID: Cell<Option<c_int>> = const { Cell::new(None) };
}

/// The program's `errno` during a call: system calls of the library itself fail now and then, and
/// the program must not see these errors.
#[derive(Debug)]
pub(crate) struct OfProgram(c_int);

impl OfProgram {
    /// Saves the value that the program left.
    pub(crate) fn keep() -> Self {
        SAID.set(None);
        Self(now())
    }

    /// Sets the value that the call reports, or restores the old one.
    pub(crate) fn put_back(self) {
        set_errno(SAID.take().unwrap_or(self.0));
    }
}

/// `errno` of this thread.
pub fn now() -> c_int {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() }
}

/// Sets `errno`; returns the value with which such functions report an error.
pub fn fail(number: c_int) -> c_int {
    SAID.set(Some(number));
    set_errno(number);
    -1
}

/// The same, for functions that make an object.
pub fn no_object<T>(number: c_int) -> *mut T {
    fail(number);
    ptr::null_mut()
}

/// A device that was not opened: a line that says what failed, for which function, and what to do,
/// and the number for `errno`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NotOpened {
    pub(crate) why: String,
    pub(crate) errno: c_int,
}

impl NotOpened {
    /// For an error of the function `name`.
    pub(crate) fn new(name: &str, error: &anyhow::Error) -> Self {
        let mut why = format!("{error:#}");
        // Errors of a backend begin with the name.
        if !why.starts_with(name) {
            why = format!("{name}: {why}");
        }
        Self {
            why,
            errno: of_any(error),
        }
    }

    /// This process has no such device.
    pub(crate) const fn no_device(why: String) -> Self {
        let errno = libc::ENODEV;
        Self { why, errno }
    }
}

/// The number of an error of the system.
pub fn of_io(error: &io::Error) -> c_int {
    error.raw_os_error().unwrap_or(libc::EIO)
}
