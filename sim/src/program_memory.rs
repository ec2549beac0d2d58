//! Memory of programs that is not trusted to be there.
//!
//! A program registers what it likes, and unmaps it when it likes: a card reaches the pages that a
//! kernel has pinned, and knows nothing of that. The simulator has the program's addresses only, so
//! with [`Builder::checked_access`](crate::Builder::checked_access) it does what a kernel does:
//! memory is looked at when it is mapped ([`check`]), and each access is a system call that fails
//! where an instruction would end the process ([`read`], [`write`]).
//!
//! A copy through a file in memory (`pwrite`, `pread`) finds the same out in half the time, but
//! programs close descriptors that are not theirs, and the next file of that number would be
//! written. A handler for SIGSEGV is the program's to install.

// UNSAFETY: system calls with addresses of the process, which the kernel checks.

mod maps;

use std::ffi::c_int;
use std::io;
use std::sync::OnceLock;

use e810_hal::{Access, DmaError, SharedBytes};

/// The program does not have the memory any more, or may not use it like that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NotThere;

/// Whether the kernel lets this process reach its own memory by `process_vm_readv` and
/// `process_vm_writev`, which sandboxes may forbid: what
/// [`Builder::checked_access`](crate::Builder::checked_access) needs.
#[must_use]
pub fn can_check_access() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let (mut from, mut to) = ([1_u8, 2], [0_u8; 2]);
        let written = transfer(Access::ReadWrite, to.as_mut_ptr(), from.as_mut_ptr(), 2);
        written.is_ok() && std::hint::black_box(to) == from
    })
}

/// Copies memory of the program out.
pub(crate) fn read(memory: &SharedBytes, into: &mut [u8]) -> Result<(), NotThere> {
    let bytes = into.len().min(memory.len());
    let program = memory.as_ptr().as_ptr();
    transfer(Access::Read, program, into.as_mut_ptr(), bytes)
}

/// Copies into memory of the program. When that ends in an error, part of it may be written: the
/// pages before the first that is not there.
pub(crate) fn write(memory: &SharedBytes, from: &[u8]) -> Result<(), NotThere> {
    let bytes = from.len().min(memory.len());
    let program = memory.as_ptr().as_ptr();
    transfer(Access::ReadWrite, program, from.as_ptr().cast_mut(), bytes)
}

/// Has the kernel copy `bytes` bytes between `program`, memory that need not be there, and `own`,
/// which is: to `own` for [`Access::Read`], from it otherwise, and it is not written then.
fn transfer(access: Access, program: *mut u8, own: *mut u8, bytes: usize) -> Result<(), NotThere> {
    let mut done = 0;
    // The kernel ends before a page that is not there, and in any case after 2 GiB: what is left is
    // asked for again, until it is an error or nothing.
    while done < bytes {
        let part = |of: *mut u8| libc::iovec {
            iov_base: of.wrapping_add(done).cast(),
            iov_len: bytes - done,
        };
        let (local, remote) = (part(own), part(program));
        // Not remembered: a child of the process is another.
        // SAFETY: no memory is touched.
        let pid = unsafe { libc::getpid() };
        // SAFETY: `own` is memory of `bytes` bytes, which may be written where it is (the callers
        // above have it as a slice). `program` is only ever an address to the kernel: it checks
        // that the process has memory there and may use it so, and what is written is memory that
        // was lent to the device (contract of `SharedBytes::new`), or what the program put in its
        // place, which is its own doing.
        let moved = unsafe {
            match access {
                Access::Read => libc::process_vm_readv(pid, &local, 1, &remote, 1, 0),
                Access::ReadWrite => libc::process_vm_writev(pid, &local, 1, &remote, 1, 0),
            }
        };
        match usize::try_from(moved) {
            Ok(moved @ 1..) => done += moved,
            _ => return Err(NotThere),
        }
    }
    Ok(())
}

/// Looks whether the program has all of `memory`, and may use it as `access` says, as a kernel does
/// that pins it; its pages are there afterwards.
///
/// What a kernel's `pin_user_pages` refuses is refused: memory that is not mapped, has no right to
/// read (PROT_NONE, guards of stacks) or, for [`Access::ReadWrite`], to write; pages behind the end
/// of a file; memory of devices (VM_IO), which no card reaches. Pages of private mappings are
/// copied before they are written. A stack need not grow: its pages from the stack pointer on
/// have been touched by the calls that led here, which lie below whatever they were given.
///
/// # Errors
/// [`DmaError::NotAccessible`]; [`DmaError::OutOfMemory`] when there are no pages for it.
pub(crate) fn check(memory: SharedBytes, access: Access) -> Result<(), DmaError> {
    let (address, bytes) = (memory.address(), memory.len());
    let not_accessible = DmaError::NotAccessible {
        address,
        bytes,
        access,
    };
    let page = page_size();
    let in_page = address as usize % page;
    let Some(pages) = in_page.checked_add(bytes) else {
        return Err(not_accessible);
    };
    let start = memory.as_ptr().as_ptr().wrapping_sub(in_page);
    let advice = match access {
        Access::Read => libc::MADV_POPULATE_READ,
        Access::ReadWrite => libc::MADV_POPULATE_WRITE,
    };
    match populate(start, pages, advice) {
        Ok(()) => Ok(()),
        Err(libc::EINVAL) if !knows_populate() => match mapped(address, bytes, access) {
            true => Ok(()),
            false => Err(not_accessible),
        },
        // Of memory that is not mapped, and of memory that there is none for.
        Err(libc::ENOMEM) if mapped(address, bytes, access) => {
            let align = page;
            Err(DmaError::OutOfMemory { bytes, align })
        }
        Err(_) => Err(not_accessible),
    }
}

/// `madvise` with one of MADV_POPULATE_READ and MADV_POPULATE_WRITE, since Linux 5.14; its error
/// number.
fn populate(start: *mut u8, bytes: usize, advice: c_int) -> Result<(), c_int> {
    loop {
        // SAFETY: both advices change nothing of what the memory holds, and `start` may be
        // anything: memory that is not there is an error.
        if unsafe { libc::madvise(start.cast(), bytes, advice) } == 0 {
            return Ok(());
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => {}
            error => return Err(error.unwrap_or(libc::EINVAL)),
        }
    }
}

/// Whether the kernel has these advices: EINVAL means that it has not, or that they cannot be
/// followed here, so a page is asked for that is there.
fn knows_populate() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let own = 0_u8;
        let own = (&raw const own).cast_mut();
        let start = own.wrapping_sub(own.addr() % page_size());
        populate(start, 1, libc::MADV_POPULATE_READ).is_ok()
    })
}

/// What `/proc/self/maps` says of the memory. It does not tell memory of devices, and files that
/// are too short: an access to those fails later.
fn mapped(address: u64, bytes: usize, access: Access) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps");
    let end = address.saturating_add(bytes as u64);
    maps.is_ok_and(|maps| maps::cover(&maps, address..end, access))
}

fn page_size() -> usize {
    // SAFETY: no memory is touched.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

#[cfg(test)]
pub(crate) mod tests;
