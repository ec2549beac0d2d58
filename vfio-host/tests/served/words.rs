//! Words that the processes of a test share: a file that each of them maps.

use std::env;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

/// The variable with the path of the file.
pub(crate) const FILE: &str = "E810_TEST_WORDS";
const COUNT: usize = 512;

/// A process maps them once; they stay until it ends.
#[derive(Clone, Copy)]
pub(crate) struct Words(&'static [AtomicU64]);

impl Words {
    /// New ones, all 0.
    pub(crate) fn create(path: &Path) -> Self {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(path);
        let file = file.unwrap();
        file.set_len((COUNT * 8) as u64).unwrap();
        Self::map(&file)
    }

    /// Those of the test that has started this process.
    pub(crate) fn of_test() -> Self {
        let path = env::var_os(FILE).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(path);
        Self::map(&file.unwrap())
    }

    fn map(file: &File) -> Self {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let (bytes, fd) = (COUNT * 8, file.as_raw_fd());
        // SAFETY: a new mapping of a file that is as long; it is never unmapped, and all processes
        // access it atomically.
        unsafe {
            let start = libc::mmap(ptr::null_mut(), bytes, rights, libc::MAP_SHARED, fd, 0);
            assert_ne!(start, libc::MAP_FAILED);
            Self(slice::from_raw_parts(start.cast(), COUNT))
        }
    }

    pub(crate) fn get(self, index: usize) -> u64 {
        self.0[index].load(Ordering::SeqCst)
    }

    pub(crate) fn set(self, index: usize, value: u64) {
        self.0[index].store(value, Ordering::SeqCst);
    }

    pub(crate) fn add(self, index: usize, value: u64) {
        self.0[index].fetch_add(value, Ordering::SeqCst);
    }
}
