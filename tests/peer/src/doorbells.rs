//! The doorbell page as plain memory.
//!
//! The library maps a page of the file it sends commands to and stores doorbell
//! values there. That file is memory here, mapped a second time to see what was
//! rung.

// UNSAFETY: maps memory of the operating system.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of the page.
const PAGE: usize = 4096;
/// Where the send queues' doorbell is, in words (data-path 3.1).
const SQ: usize = 0;
/// Where the CQs' arm doorbell is.
const CQ_ARM: usize = 64 / 4;

/// A doorbell page. Never unmapped, since the library may still ring.
#[derive(Debug)]
pub struct Doorbells {
    file: OwnedFd,
    words: &'static [AtomicU32],
}

impl Doorbells {
    /// A page that nobody rang.
    ///
    /// # Errors
    /// The operating system's.
    pub fn new() -> io::Result<Self> {
        // SAFETY: a C string and a flag.
        let file = unsafe { libc::memfd_create(c"doorbells".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, and owned by nobody else.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        // SAFETY: a file of ours.
        if unsafe { libc::ftruncate(file.as_raw_fd(), PAGE as libc::off_t) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the system's choice.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                PAGE,
                rights,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a page of zeros that is never unmapped, seen only as atomics
        // from here; the library stores whole words through its own mapping.
        let words = unsafe { std::slice::from_raw_parts(memory.cast::<AtomicU32>(), PAGE / 4) };
        Ok(Self { file, words })
    }

    pub(crate) fn file(&self) -> c_int {
        self.file.as_raw_fd()
    }

    fn take(&self, word: usize) -> Option<u32> {
        let value = self.words.get(word)?.swap(0, Ordering::Acquire);
        (value != 0).then_some(value)
    }

    /// The queue pair that was rung for since the last call, the last one of
    /// several.
    #[must_use]
    pub fn take_send(&self) -> Option<u32> {
        self.take(SQ)
    }

    /// The CQ that was armed since the last call, the last one of several.
    #[must_use]
    pub fn take_arm(&self) -> Option<u32> {
        self.take(CQ_ARM)
    }
}
