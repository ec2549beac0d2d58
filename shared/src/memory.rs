//! Memory that can be shared with a device or another process: a file without a name, mapped
//! shared.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::AtomicU64;

use e810_hal::SharedBytes;
use memmap2::{MmapOptions, MmapRaw};

/// Page size of ordinary memory in bytes, on every supported CPU.
pub const PAGE: usize = 4096;
/// Page size of huge memory in bytes.
pub const HUGE_PAGE: usize = 2 << 20;

/// Mapped memory as words.
///
/// # Safety
/// `bytes` at `start` are mapped as long as what this returns is used; `start` is that of a page.
/// Others access them atomically, or as they like: any value is a word.
unsafe fn words<'a>(start: NonNull<u8>, bytes: usize) -> &'a [AtomicU64] {
    // SAFETY: the caller's.
    unsafe { slice::from_raw_parts(start.as_ptr().cast(), bytes / size_of::<u64>()) }
}

/// Memory of a file whose descriptor is closed: it is shared with those who have mapped it already.
#[derive(Debug)]
pub struct MappedMemory {
    map: MmapRaw,
    start: NonNull<u8>,
}

impl MappedMemory {
    /// Bytes, a multiple of the page size.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Never: there is at least a page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.len() == 0
    }

    /// Pointer to the first byte.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// All of it, as words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: a mapping of this length, which lives as long as `self`.
        unsafe { words(self.start, self.map.len()) }
    }

    /// A window on all of it.
    ///
    /// # Safety
    /// As [`SharedMemory::bytes`].
    #[must_use]
    pub unsafe fn bytes(&self) -> SharedBytes {
        // SAFETY: the mapping has this length and no reference is ever made to it; how long the
        // window lives is the caller's promise.
        unsafe { SharedBytes::new(self.start, self.map.len()) }
    }
}

// SAFETY: the memory is only accessed through `SharedBytes` and atomics; the mapping may be closed
// by any thread.
unsafe impl Send for MappedMemory {}
// SAFETY: as above; `&MappedMemory` gives out pointers, not references.
unsafe impl Sync for MappedMemory {}

/// Zeroed memory behind a file descriptor.
///
/// It never becomes a reference to bytes, because other parties may write it at any time.
#[derive(Debug)]
pub struct SharedMemory {
    map: MmapRaw,
    start: NonNull<u8>,
    file: OwnedFd,
}

impl SharedMemory {
    /// `bytes` rounded up to whole pages, at least one; pages of 2 MiB if `huge`.
    ///
    /// # Errors
    /// The operating system's error: no memory, no huge pages left, too many open files.
    pub fn new(bytes: usize, huge: bool) -> io::Result<Self> {
        let page = if huge { HUGE_PAGE } else { PAGE };
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let len = bytes.max(1).checked_next_multiple_of(page);
        let len = len.ok_or_else(too_large)?;
        let mut flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        if huge {
            flags |= libc::MFD_HUGETLB | libc::MFD_HUGE_2MB;
        }
        // SAFETY: the name is a string that ends with a zero; nothing else is
        // touched.
        let fd = unsafe { libc::memfd_create(c"e810".as_ptr(), flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else has.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(len as u64)?;
        // Nobody who gets the descriptor can shrink the memory of the others: an access past the
        // end of a file kills the process.
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: no memory is touched.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let map = MmapOptions::new().len(len).map_raw(&file)?;
        let start = NonNull::new(map.as_mut_ptr()).ok_or_else(too_large)?;
        Ok(Self {
            map,
            start,
            file: file.into(),
        })
    }

    /// The memory in a file of another process, `bytes` of it from the start, whole pages.
    ///
    /// # Errors
    /// The file has not exactly this size, or is not sealed against another: an access past the end
    /// of a file kills the process. It is not of ordinary pages: an access to a huge page that its
    /// process has taken away kills, too. The operating system's error.
    pub fn of_file(file: OwnedFd, bytes: usize) -> io::Result<Self> {
        let wrong = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
        let file = File::from(file);
        // SAFETY: no memory is touched.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(wrong("the file may shrink"));
        }
        // SAFETY: numbers.
        let mut system: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: room for what is asked.
        let asked = unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut system) };
        if asked != 0 || system.f_type != libc::TMPFS_MAGIC {
            return Err(wrong("the file is not of ordinary memory"));
        }
        let is_whole = bytes > 0 && bytes.is_multiple_of(PAGE);
        if !is_whole || file.metadata()?.len() != bytes as u64 {
            return Err(wrong("the file has another size"));
        }
        let map = MmapOptions::new().len(bytes).map_raw(&file)?;
        let start = NonNull::new(map.as_mut_ptr()).ok_or_else(|| wrong("no address"))?;
        Ok(Self {
            map,
            start,
            file: file.into(),
        })
    }

    /// Bytes, a multiple of the page size.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Never: there is at least a page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.len() == 0
    }

    /// Pointer to the first byte.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// All of it, as words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: a mapping of this length, which lives as long as `self`.
        unsafe { words(self.start, self.map.len()) }
    }

    /// Closes the file, of which a process may not have many.
    #[must_use]
    pub fn without_file(self) -> MappedMemory {
        let Self { map, start, file } = self;
        drop(file);
        MappedMemory { map, start }
    }

    /// Address of the first byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.start.addr().get() as u64
    }

    /// The file behind it.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// A window on all of it.
    ///
    /// # Safety
    /// The memory is not dropped while the window or a copy is used, nor while a
    /// mapping made of one is live ([`SharedBytes::new`]).
    #[must_use]
    pub unsafe fn bytes(&self) -> SharedBytes {
        // SAFETY: the mapping has this length and no reference is ever made
        // to it; how long the window lives is the caller's promise.
        unsafe { SharedBytes::new(self.start, self.map.len()) }
    }
}

// SAFETY: the memory is only accessed through `SharedBytes` and atomics; the
// mapping and the file may be closed by any thread.
unsafe impl Send for SharedMemory {}
// SAFETY: as above; `&SharedMemory` gives out pointers, not references.
unsafe impl Sync for SharedMemory {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_whole_pages_and_shared_by_its_file() {
        let memory = SharedMemory::new(PAGE + 1, false).unwrap();
        assert_eq!(memory.len(), 2 * PAGE);
        assert!(!memory.is_empty());
        // SAFETY: used while `memory` lives.
        let bytes = unsafe { memory.bytes() };
        let mut all = vec![1; memory.len()];
        bytes.read(0, &mut all).unwrap();
        assert!(all.iter().all(|byte| *byte == 0));

        let other = MmapOptions::new().map_raw(&memory.file()).unwrap();
        let start = NonNull::new(other.as_mut_ptr()).unwrap();
        // SAFETY: a second mapping of the same file, alive to the end.
        let other_bytes = unsafe { SharedBytes::new(start, other.len()) };
        other_bytes.write(PAGE, &[7]).unwrap();
        bytes.read(PAGE, &mut all[..1]).unwrap();
        assert_eq!(all[0], 7);
    }

    #[test]
    fn the_file_keeps_its_size() {
        let memory = SharedMemory::new(1, false).unwrap();
        let file = File::from(memory.file().try_clone_to_owned().unwrap());
        assert!(file.set_len(0).is_err());
        assert!(file.set_len(1 << 20).is_err());
    }

    #[test]
    fn a_file_of_another_process_is_taken_if_it_keeps_its_size() {
        let memory = SharedMemory::new(2 * PAGE, false).unwrap();
        let file = || memory.file().try_clone_to_owned().unwrap();
        let other = SharedMemory::of_file(file(), 2 * PAGE).unwrap();
        // SAFETY: used while both live.
        let (bytes, other) = unsafe { (memory.bytes(), other.bytes()) };
        other.write(PAGE, &[7]).unwrap();
        let mut byte = [0];
        bytes.read(PAGE, &mut byte).unwrap();
        assert_eq!(byte, [7]);
        for bytes in [0, 1, PAGE, 3 * PAGE, usize::MAX] {
            assert!(SharedMemory::of_file(file(), bytes).is_err(), "{bytes}");
        }
        let loose = tempfile();
        loose.set_len(PAGE as u64).unwrap();
        assert!(SharedMemory::of_file(loose.into(), PAGE).is_err());
    }

    #[test]
    fn pages_that_an_access_cannot_bring_back_are_not_taken() {
        let huge = libc::MFD_ALLOW_SEALING | libc::MFD_HUGETLB | libc::MFD_HUGE_2MB;
        let Some(huge) = file(huge) else {
            return println!("NOT RUN: this kernel has no huge pages");
        };
        huge.set_len(HUGE_PAGE as u64).unwrap();
        // SAFETY: no memory is touched.
        let sealed =
            unsafe { libc::fcntl(huge.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) };
        assert_eq!(sealed, 0);
        // Whether there are huge pages, or not.
        let refused = SharedMemory::of_file(huge.into(), HUGE_PAGE).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        // Ordinary ones come back, as zeroes.
        let memory = SharedMemory::new(PAGE, false).unwrap();
        let file = memory.file().try_clone_to_owned().unwrap();
        let other = SharedMemory::of_file(file, PAGE).unwrap();
        let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: used while both live.
        let (bytes, other) = unsafe { (memory.bytes(), other.bytes()) };
        bytes.write(0, &[7]).unwrap();
        // SAFETY: the memory stays mapped.
        let punched =
            unsafe { libc::fallocate(memory.file().as_raw_fd(), how, 0, PAGE as libc::off_t) };
        assert_eq!(punched, 0);
        let mut byte = [1];
        other.read(0, &mut byte).unwrap();
        assert_eq!(byte, [0]);
    }

    /// A file without seals.
    fn tempfile() -> File {
        file(0).unwrap()
    }

    fn file(flags: libc::c_uint) -> Option<File> {
        let flags = flags | libc::MFD_CLOEXEC;
        // SAFETY: the name is a string that ends with a zero.
        let fd = unsafe { libc::memfd_create(c"loose".as_ptr(), flags) };
        // SAFETY: a new descriptor that nobody else has.
        (fd >= 0).then(|| unsafe { File::from_raw_fd(fd) })
    }

    #[test]
    fn more_than_there_is_is_an_error() {
        assert!(SharedMemory::new(usize::MAX, false).is_err());
    }
}
