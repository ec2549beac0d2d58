//! Scripted ioctl replies for tests.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use super::ioctl::IoctlFile;

/// The next expected call.
#[derive(Clone, Debug)]
pub(super) enum ExpectedCall {
    Ioctl(Ioctl),
    /// The last descriptor of the file is closed.
    Close(&'static str),
}

/// A request, byte for byte, and its answer.
#[derive(Clone, Debug)]
pub(super) struct Ioctl {
    pub(super) on: &'static str,
    pub(super) request: u32,
    pub(super) expected_arg: Vec<u8>,
    /// Bytes of the request that differ between runs: addresses and numbers of descriptors.
    pub(super) ignore_range: Range<usize>,
    /// The argument afterwards, if it changes.
    pub(super) reply: Option<Vec<u8>>,
    /// Where the argument has an address, and what is written to that address.
    pub(super) writes: Option<(usize, Vec<u8>)>,
    /// What its file has at an offset when it comes.
    pub(super) sees: Option<(u64, Vec<u8>)>,
    /// The error, 0 for none.
    pub(super) errno: i32,
    /// The return value without an error.
    pub(super) result: u32,
}

impl Ioctl {
    /// A request that does not change its argument.
    pub(super) fn new(on: &'static str, request: u32, expected_arg: Vec<u8>) -> Self {
        Self {
            on,
            request,
            expected_arg,
            ignore_range: 0..0,
            reply: None,
            writes: None,
            sees: None,
            errno: 0,
            result: 0,
        }
    }

    pub(super) fn ignore_range(mut self, ignore_range: Range<usize>) -> Self {
        self.ignore_range = ignore_range;
        self
    }

    pub(super) fn reply(mut self, bytes: Vec<u8>) -> Self {
        self.reply = Some(bytes);
        self
    }

    pub(super) fn writes(mut self, at: usize, bytes: Vec<u8>) -> Self {
        self.writes = Some((at, bytes));
        self
    }

    pub(super) fn sees(mut self, at: u64, bytes: Vec<u8>) -> Self {
        self.sees = Some((at, bytes));
        self
    }

    pub(super) fn returns(mut self, result: u32) -> Self {
        self.result = result;
        self
    }

    pub(super) fn fails(mut self, errno: i32) -> Self {
        self.errno = errno;
        self
    }
}

impl From<Ioctl> for ExpectedCall {
    fn from(ioctl: Ioctl) -> Self {
        Self::Ioctl(ioctl)
    }
}

/// The words one after the other, as the kernel reads them.
pub(super) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The double words one after the other.
pub(super) fn longs(longs: &[u64]) -> Vec<u8> {
    longs.iter().flat_map(|long| long.to_ne_bytes()).collect()
}

/// The list of expected calls, which every file of the test consumes.
#[derive(Clone, Debug, Default)]
pub(super) struct MockKernel {
    steps: Arc<Mutex<VecDeque<ExpectedCall>>>,
    /// Deviations. A destructor cannot fail a test.
    wrong: Arc<Mutex<Vec<String>>>,
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MockKernel {
    pub(super) fn new(steps: impl IntoIterator<Item = ExpectedCall>) -> Self {
        let kernel = Self::default();
        kernel.expect(steps);
        kernel
    }

    /// Appends to the list.
    pub(super) fn expect(&self, steps: impl IntoIterator<Item = ExpectedCall>) {
        lock(&self.steps).extend(steps);
    }

    /// Fails unless everything on the list was called, and nothing else.
    #[track_caller]
    pub(super) fn is_done(&self) {
        assert_eq!(*lock(&self.wrong), [""; 0], "not as expected");
        let left = lock(&self.steps);
        assert!(left.is_empty(), "never came: {left:x?}");
    }

    /// A file that answers from the list, with `bytes` of memory behind it.
    pub(super) fn file(&self, name: &'static str, bytes: u64) -> MockFile {
        // SAFETY: the name ends in a zero; nothing else is pointed at.
        let fd = unsafe { libc::memfd_create(c"taped".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: just opened, and nobody else's.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(bytes).unwrap();
        MockFile {
            name,
            file,
            kernel: self.clone(),
        }
    }

    fn wrong(&self, text: String) -> io::Error {
        lock(&self.wrong).push(text.clone());
        io::Error::other(text)
    }
}

/// A file of the mock kernel.
pub(super) struct MockFile {
    name: &'static str,
    file: File,
    kernel: MockKernel,
}

impl IoctlFile for MockFile {
    fn file(&self) -> &File {
        &self.file
    }

    unsafe fn ioctl(&self, request: libc::c_ulong, argument: &mut [u8]) -> io::Result<u32> {
        let came = format!("{} {request:#x} {argument:x?}", self.name);
        let next = lock(&self.kernel.steps).pop_front();
        let Some(ExpectedCall::Ioctl(step)) = next else {
            return Err(self.kernel.wrong(format!("{came} instead of {next:x?}")));
        };
        let mut expected_arg = step.expected_arg.clone();
        if let (Some(ignore_range), Some(own)) = (
            expected_arg.get_mut(step.ignore_range.clone()),
            argument.get(step.ignore_range.clone()),
        ) {
            ignore_range.copy_from_slice(own);
        }
        let as_expected = self.name == step.on
            && request == libc::c_ulong::from(step.request)
            && *argument == *expected_arg;
        if !as_expected {
            return Err(self.kernel.wrong(format!("{came} instead of {step:x?}")));
        }
        if let Some((at, bytes)) = &step.sees {
            let mut there = vec![0; bytes.len()];
            self.file.read_exact_at(&mut there, *at)?;
            if there != *bytes {
                let text = format!("{came} with {there:x?} instead of {bytes:x?} in the file");
                return Err(self.kernel.wrong(text));
            }
        }
        if let Some((at, bytes)) = &step.writes {
            let address = argument[*at..].first_chunk().unwrap();
            let address = u64::from_ne_bytes(*address) as usize;
            let to = std::ptr::with_exposed_provenance_mut::<u8>(address);
            // SAFETY: the caller of the ioctl gave room there for what the argument, which was
            // compared, asks for; the test writes no more.
            unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        if let Some(reply) = &step.reply {
            // Bytes that differ between runs stay.
            let own = argument.to_vec();
            argument.copy_from_slice(reply);
            argument[step.ignore_range.clone()].copy_from_slice(&own[step.ignore_range]);
        }
        match step.errno {
            0 => Ok(step.result),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

impl Drop for MockFile {
    fn drop(&mut self) {
        let next = lock(&self.kernel.steps).pop_front();
        if !matches!(next, Some(ExpectedCall::Close(name)) if name == self.name) {
            self.kernel
                .wrong(format!("close of {} instead of {next:x?}", self.name));
        }
    }
}
