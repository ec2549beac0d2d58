//! What a child of `fork` must not keep: a descriptor or a mapping of the device keeps its group, so
//! nobody else could open the function after the parent and the owner are gone.
//!
//! The child gets other files under the same numbers, and other memory in place of the doorbell
//! page. Nothing of its parent's function works there anyway.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// Functions that programs of a process have open at a time.
const MOST: usize = 64;

/// No descriptor.
const NONE: c_int = -1;

/// A function: its device and its container, and its doorbell page.
struct Held {
    device: AtomicI32,
    container: AtomicI32,
    page: AtomicPtr<c_void>,
}

static ALL: [Held; MOST] = [const {
    Held {
        device: AtomicI32::new(NONE),
        container: AtomicI32::new(NONE),
        page: AtomicPtr::new(ptr::null_mut()),
    }
}; MOST];

/// A function that children of this process do not keep, until this is dropped: before the
/// descriptors are closed and the page is unmapped.
#[derive(Debug)]
pub(super) struct Parents(usize);

impl Parents {
    /// One with these two descriptors, and a doorbell page of `PAGE` bytes.
    ///
    /// # Errors
    /// The process has the most of them, or no room for a handler.
    pub(super) fn new(
        device: BorrowedFd<'_>,
        container: BorrowedFd<'_>,
        page: NonNull<c_void>,
    ) -> io::Result<Self> {
        static HANDLED: Once = Once::new();
        let mut failed = 0;
        HANDLED.call_once(|| {
            // SAFETY: the handler makes system calls only, which a child of `fork` may.
            failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed));
        }
        let taken = ALL.iter().position(|held| {
            let free = held.device.compare_exchange(
                NONE,
                device.as_raw_fd(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            free.is_ok()
        });
        let most = || io::Error::other(format!("a process uses at most {MOST} shared functions"));
        let place = taken.ok_or_else(most)?;
        if let Some(held) = ALL.get(place) {
            held.page.store(page.as_ptr(), Ordering::Release);
            held.container
                .store(container.as_raw_fd(), Ordering::Release);
        }
        Ok(Self(place))
    }
}

impl Drop for Parents {
    fn drop(&mut self) {
        if let Some(held) = ALL.get(self.0) {
            held.container.store(NONE, Ordering::Release);
            held.page.store(ptr::null_mut(), Ordering::Release);
            held.device.store(NONE, Ordering::Release);
        }
    }
}

/// Bytes of a doorbell page.
pub(super) const PAGE: usize = e810_hal::regs::DOORBELL_PAGE_LEN as usize;

/// Replaces a doorbell page by memory that nobody reads, in one step.
///
/// # Safety
/// `page` are `PAGE` bytes that were mapped as a whole, which are used as a doorbell page only.
pub(super) unsafe fn replace_page(page: *mut c_void) -> io::Result<()> {
    let (rights, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
    );
    // SAFETY: the caller's.
    let mapped = unsafe { libc::mmap(page, PAGE, rights, kind, -1, 0) };
    match ptr::eq(mapped, page) {
        true => Ok(()),
        false => Err(io::Error::last_os_error()),
    }
}

/// In the child, before `fork` returns there.
unsafe extern "C" fn in_child() {
    // SAFETY: a string that ends with a zero.
    let nothing = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    for held in &ALL {
        if held.device.load(Ordering::Acquire) == NONE {
            continue;
        }
        let page = held.page.load(Ordering::Acquire);
        if !page.is_null() {
            // SAFETY: the copy of a page of the parent's, who had not unmapped it. If that fails,
            // the child keeps it, as it would without this.
            let _ = unsafe { replace_page(page) };
        }
        for file in [&held.device, &held.container] {
            let number = file.load(Ordering::Acquire);
            if number != NONE {
                // SAFETY: the copy of a descriptor of the parent's, who had not closed it. Its
                // number stays taken, so nobody closes another file in its place.
                unsafe { libc::dup3(nothing, number, libc::O_CLOEXEC) };
            }
        }
    }
    if nothing >= 0 {
        // SAFETY: opened above; the copies are others.
        unsafe { libc::close(nothing) };
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::MetadataExt as _;

    use memmap2::MmapOptions;

    use super::*;
    use crate::memory::SharedMemory;

    #[test]
    fn a_child_keeps_neither_files_nor_page() {
        let device = SharedMemory::new(PAGE, false).unwrap();
        let map = MmapOptions::new()
            .len(PAGE)
            .map_raw(&device.file())
            .unwrap();
        let container = File::open("/proc/self/maps").unwrap();
        let page = NonNull::new(map.as_mut_ptr()).unwrap();
        let held = Parents::new(device.file(), container.as_fd(), page.cast()).unwrap();
        let numbers = [device.file().as_raw_fd(), container.as_raw_fd()];
        let null = fs::metadata("/dev/null").unwrap().rdev();
        // SAFETY: the child makes system calls, writes a byte to its copy of the page, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_null = |number: c_int| {
                // SAFETY: numbers.
                let mut about: libc::stat = unsafe { std::mem::zeroed() };
                // SAFETY: room for the answer.
                unsafe { libc::fstat(number, &raw mut about) == 0 && about.st_rdev == null }
            };
            // SAFETY: one page of the child's own.
            unsafe { page.as_ptr().write_volatile(1) };
            let is_right = numbers.into_iter().all(is_null);
            // SAFETY: nothing of the parent's is run.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let mut status = -1;
        // SAFETY: a child that was made above, and a place for its status.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
        // SAFETY: used while `device` lives.
        let bytes = unsafe { device.bytes() };
        let mut byte = [1];
        bytes.read(0, &mut byte).unwrap();
        assert_eq!(byte, [0], "the parent's page");
        assert_ne!(fs::metadata("/proc/self/maps").unwrap().rdev(), null);
        drop(held);
        let places = || -> Vec<_> {
            let place = || Parents::new(device.file(), container.as_fd(), page.cast());
            (0..=MOST).map_while(|_| place().ok()).collect()
        };
        assert!((1..=MOST).contains(&places().len()));
        assert!(!places().is_empty(), "places come back");
    }
}
