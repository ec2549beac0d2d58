//! Memory that a program has, does not have, and takes away.

use super::*;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Address of the next pages. The kernel gives these addresses to nobody by itself, because memory
/// that one test takes away must not become another test's a moment later.
static NEXT: AtomicUsize = AtomicUsize::new(0x2000_0000_0000);

fn next_place() -> NonNull<u8> {
    let place = NEXT.fetch_add(1 << 24, Ordering::Relaxed);
    NonNull::new(std::ptr::without_provenance_mut(place)).unwrap()
}

/// Pages of this process that a test may take away.
pub(crate) struct Pages {
    start: NonNull<u8>,
    pub(crate) bytes: usize,
}

impl Pages {
    /// Private memory with rights `protection` (`libc::PROT_…`).
    pub(crate) fn new(pages: usize, protection: c_int) -> Self {
        Self::at(next_place(), pages, protection)
    }

    /// The same at `place`, where nothing is mapped.
    pub(crate) fn at(place: NonNull<u8>, pages: usize, protection: c_int) -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        Self::map(place, pages, protection, flags, -1)
    }

    /// `pages` pages of a file that has `len` bytes.
    fn of_file(pages: usize, len: u64, flags: c_int) -> Self {
        use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
        // SAFETY: the name ends in a zero.
        let fd = unsafe { libc::memfd_create(c"pages".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: just opened, and used by nobody else.
        let file = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        file.set_len(len).unwrap();
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        Self::map(next_place(), pages, rights, flags, file.as_raw_fd())
    }

    fn map(place: NonNull<u8>, pages: usize, protection: c_int, flags: c_int, fd: c_int) -> Self {
        let bytes = pages * page_size();
        let hint = place.as_ptr().cast();
        let flags = flags | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: new memory, at an address where nothing is mapped.
        let start = unsafe { libc::mmap(hint, bytes, protection, flags, fd, 0) };
        assert_eq!(start.addr(), hint.addr(), "{}", io::Error::last_os_error());
        Self {
            start: NonNull::new(start.cast()).unwrap(),
            bytes,
        }
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// A window on `bytes` bytes from `offset` on, whether or not they are there.
    pub(crate) fn window(&self, offset: usize, bytes: usize) -> SharedBytes {
        assert!(offset + bytes <= self.bytes);
        // SAFETY: no test reads or writes through the window itself: it is for functions that ask
        // the kernel.
        unsafe { SharedBytes::new(self.start.add(offset), bytes) }
    }

    pub(crate) fn shared(&self) -> SharedBytes {
        self.window(0, self.bytes)
    }

    /// Changes what may be done with the page at `page`.
    pub(crate) fn protect(&self, page: usize, protection: c_int) {
        let size = page_size();
        assert!((page + 1) * size <= self.bytes);
        // SAFETY: a page of this memory, to which there is no reference.
        let done = unsafe {
            let at = self.start.add(page * size);
            libc::mprotect(at.as_ptr().cast(), size, protection)
        };
        assert_eq!(done, 0);
    }

    /// Takes the page at `page` away.
    pub(crate) fn unmap(&self, page: usize) {
        let size = page_size();
        assert!((page + 1) * size <= self.bytes);
        // SAFETY: a page of this memory, to which there is no reference.
        let done = unsafe { libc::munmap(self.start.add(page * size).as_ptr().cast(), size) };
        assert_eq!(done, 0);
    }

    pub(crate) fn fill(&self, value: u8) {
        assert_eq!(write(&self.shared(), &vec![value; self.bytes]), Ok(()));
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // Memory that was taken away before causes no error.
        // SAFETY: this memory, to which there is no reference.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

const READ: c_int = libc::PROT_READ;
const BOTH: c_int = libc::PROT_READ | libc::PROT_WRITE;

fn is_refused(pages: &Pages, access: Access) -> bool {
    let refused = check(pages.shared(), access).err();
    let expected = DmaError::NotAccessible {
        address: pages.shared().address(),
        bytes: pages.bytes,
        access,
    };
    assert!(
        refused.is_none() || refused == Some(expected),
        "{refused:?}"
    );
    let at = pages.shared().address();
    let by_maps = mapped(at, pages.bytes, access);
    assert_eq!(by_maps, refused.is_none(), "as /proc/self/maps has it");
    refused.is_some()
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no such system calls")]
fn memory_is_checked_as_by_a_kernel_that_pins_it() {
    assert!(can_check_access());
    let pages = Pages::new(3, BOTH);
    assert!(!is_refused(&pages, Access::ReadWrite));
    pages.protect(1, READ);
    assert!(!is_refused(&pages, Access::Read));
    assert!(is_refused(&pages, Access::ReadWrite));
    pages.protect(1, libc::PROT_NONE);
    assert!(is_refused(&pages, Access::Read));
    assert!(is_refused(&pages, Access::ReadWrite));
    pages.unmap(1);
    assert!(is_refused(&pages, Access::Read));
    assert!(is_refused(&pages, Access::ReadWrite));
    // Its neighbours are there, and part of a page is checked like the whole page.
    let size = page_size();
    for (at, bytes, fits) in [
        (0, size, true),
        (size - 1, 1, true),
        (size - 1, 2, false),
        (2 * size - 1, 2, false),
        (2 * size + 5, 100, true),
    ] {
        let checked = check(pages.window(at, bytes), Access::ReadWrite);
        assert_eq!(checked.is_ok(), fits, "{bytes} bytes at {at}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no such system calls")]
fn stack_heap_statics_and_files_are_accessible() {
    static CONSTANT: [u64; 4] = [7; 4];
    static mut VARIABLE: [u64; 4] = [7; 4];
    let on_stack = [0_u8; 100_000];
    let on_heap = vec![0_u8; 1 << 20];
    let window = |start: *const u8, bytes| {
        let start = NonNull::new(start.cast_mut()).unwrap();
        // SAFETY: nothing is read or written through it.
        unsafe { SharedBytes::new(start, bytes) }
    };
    for (start, bytes) in [
        (on_stack.as_ptr(), on_stack.len()),
        (on_heap.as_ptr(), on_heap.len()),
        ((&raw const VARIABLE).cast(), 32),
    ] {
        for access in [Access::Read, Access::ReadWrite] {
            assert_eq!(check(window(start, bytes), access), Ok(()));
        }
    }
    let constant = window(CONSTANT.as_ptr().cast(), 32);
    assert_eq!(check(constant, Access::Read), Ok(()));
    assert!(check(constant, Access::ReadWrite).is_err());
    // Shared and private mappings; nothing is behind the end of the file.
    for flags in [libc::MAP_SHARED, libc::MAP_PRIVATE] {
        let size = page_size() as u64;
        for access in [Access::Read, Access::ReadWrite] {
            let whole = Pages::of_file(2, 2 * size, flags);
            assert_eq!(check(whole.shared(), access), Ok(()));
            let short = Pages::of_file(2, size, flags);
            assert!(check(short.shared(), access).is_err());
            let first = short.window(0, page_size());
            assert_eq!(check(first, access), Ok(()));
            assert_eq!(
                read(&short.shared(), &mut vec![0; 2 * page_size()]),
                Err(NotThere)
            );
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no such system calls")]
fn an_access_to_what_is_not_there_is_an_error() {
    let pages = Pages::new(4, BOTH);
    pages.fill(3);
    let size = page_size();
    let mut bytes = vec![0; 4 * size];
    assert_eq!(read(&pages.shared(), &mut bytes), Ok(()));
    assert!(bytes.iter().all(|byte| *byte == 3));
    pages.protect(2, READ);
    assert_eq!(read(&pages.shared(), &mut bytes), Ok(()));
    // The part in front is written, and the result is still an error.
    assert_eq!(write(&pages.shared(), &vec![4; 4 * size]), Err(NotThere));
    assert_eq!(read(&pages.shared(), &mut bytes), Ok(()));
    assert!(bytes[..2 * size].iter().all(|byte| *byte == 4));
    assert!(bytes[2 * size..].iter().all(|byte| *byte == 3));
    pages.unmap(2);
    assert_eq!(read(&pages.shared(), &mut bytes), Err(NotThere));
    assert_eq!(
        write(&pages.window(2 * size - 1, 2), &[1, 2]),
        Err(NotThere)
    );
    assert_eq!(write(&pages.window(3 * size, 2), &[1, 2]), Ok(()));
    assert_eq!(read(&pages.window(3 * size, 3), &mut bytes[..3]), Ok(()));
    assert_eq!(bytes[..3], [1, 2, 3]);
}
