//! Memory of programs that may disappear at any time.
//!
//! A program registers and unmaps memory as it likes. A card does not notice: it reaches the pages
//! that a kernel has pinned. The simulator only has the program's addresses. So with
//! [`Builder::checked_access`](crate::Builder::checked_access) it does what a kernel does: it
//! checks memory when it is mapped ([`check`]), and makes each access a system call that fails
//! where an instruction would end the process ([`read`], [`write`]).
//!
//! A copy through a file in memory (`pwrite`, `pread`) would detect the same in half the time. But
//! programs close descriptors that are not theirs, and the copy would then write to the next file
//! with that number. A handler for SIGSEGV is no option: it belongs to the program.

// UNSAFETY: system calls with addresses of the process, which the kernel checks.

mod attached;
mod maps;

use std::ffi::c_int;
use std::io;
use std::sync::OnceLock;

use e810_hal::{Access, DmaError, SharedBytes};

pub(crate) use attached::AttachedMemory;

/// The program no longer has the memory, or may not use it like that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NotThere;

/// Whether the kernel lets this process access its own memory with `process_vm_readv` and
/// `process_vm_writev`, which [`Builder::checked_access`](crate::Builder::checked_access) needs.
/// Sandboxes may forbid these calls.
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

/// Copies into memory of the program. On an error part of it may have been written: the pages
/// before the first one that is not there.
pub(crate) fn write(memory: &SharedBytes, from: &[u8]) -> Result<(), NotThere> {
    let bytes = from.len().min(memory.len());
    let program = memory.as_ptr().as_ptr();
    transfer(Access::ReadWrite, program, from.as_ptr().cast_mut(), bytes)
}

/// Makes the kernel copy `bytes` bytes between `program`, memory that may not be there, and `own`,
/// which is: to `own` for [`Access::Read`], otherwise from it, and `own` is not written then.
fn transfer(access: Access, program: *mut u8, own: *mut u8, bytes: usize) -> Result<(), NotThere> {
    let mut done = 0;
    // The kernel stops before a page that is not there, and in any case after 2 GiB. The rest is
    // requested again, until there is an error or nothing is left.
    while done < bytes {
        let part = |of: *mut u8| libc::iovec {
            iov_base: of.wrapping_add(done).cast(),
            iov_len: bytes - done,
        };
        let (local, remote) = (part(own), part(program));
        // Not cached: a child of the process has another id.
        // SAFETY: no memory is touched.
        let pid = unsafe { libc::getpid() };
        // SAFETY: `own` is memory of `bytes` bytes, writable where it is written (the callers above
        // have it as a slice). `program` is only an address for the kernel, which checks that the
        // process has memory there and may use it so. What is written is memory that was lent to
        // the device (contract of `SharedBytes::new`), or what the program put in its place, for
        // which the program is responsible.
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

/// Checks that the program has all of `memory` and may use it as `access` says, as a kernel does
/// that pins it. The pages are present afterwards.
///
/// It refuses what a kernel's `pin_user_pages` refuses: memory that is not mapped; memory without
/// the right to read (PROT_NONE, guards of stacks) or, for [`Access::ReadWrite`], to write; pages
/// behind the end of a file; memory of devices (VM_IO), which no card reaches. Pages of private
/// mappings are copied before they are written. A stack need not grow: the frames of the calls that
/// led here lie below any stack memory they were given, so these calls have touched its pages from
/// the stack pointer on.
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
        // The memory is not mapped, or there are no pages for it.
        Err(libc::ENOMEM) if mapped(address, bytes, access) => {
            let align = page;
            Err(DmaError::OutOfMemory { bytes, align })
        }
        Err(_) => Err(not_accessible),
    }
}

/// Calls `madvise` with MADV_POPULATE_READ or MADV_POPULATE_WRITE, which exist since Linux 5.14;
/// returns its error number.
fn populate(start: *mut u8, bytes: usize, advice: c_int) -> Result<(), c_int> {
    loop {
        // SAFETY: neither advice changes the contents of the memory, and `start` may be any
        // address: memory that is not there causes an error.
        if unsafe { libc::madvise(start.cast(), bytes, advice) } == 0 {
            return Ok(());
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => {}
            error => return Err(error.unwrap_or(libc::EINVAL)),
        }
    }
}

/// Whether the kernel has these advices. EINVAL means that it does not have them, or that they
/// cannot be followed here, so they are tried on a page that is present.
fn knows_populate() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let own = 0_u8;
        let own = (&raw const own).cast_mut();
        let start = own.wrapping_sub(own.addr() % page_size());
        populate(start, 1, libc::MADV_POPULATE_READ).is_ok()
    })
}

/// Checks the memory against `/proc/self/maps`. This does not detect memory of devices or files
/// that are too short: an access to those fails later.
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
