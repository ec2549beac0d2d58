//! A kernel that answers from a list.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::FromRawFd;
use std::sync::{Arc, Mutex, PoisonError};

use super::ioctl::Node;

/// What is expected next.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Ioctl(Ioctl),
    /// The last descriptor of the file is closed.
    Close(&'static str),
}

/// A request, byte for byte, and the answer.
#[derive(Clone, Debug)]
pub(super) struct Ioctl {
    pub(super) on: &'static str,
    pub(super) request: u32,
    pub(super) takes: Vec<u8>,
    /// Bytes of the request that are not the same in every run: addresses and
    /// numbers of descriptors.
    pub(super) any: Range<usize>,
    /// The argument afterwards, when it is another.
    pub(super) gives: Option<Vec<u8>>,
    /// Where in the argument an address stands, and what is written there.
    pub(super) writes: Option<(usize, Vec<u8>)>,
    /// The error, 0 for none.
    pub(super) errno: i32,
    /// What it returns without one.
    pub(super) result: u32,
}

impl Ioctl {
    /// A request that leaves its argument as it is.
    pub(super) fn new(on: &'static str, request: u32, takes: Vec<u8>) -> Self {
        Self {
            on,
            request,
            takes,
            any: 0..0,
            gives: None,
            writes: None,
            errno: 0,
            result: 0,
        }
    }

    pub(super) fn any(mut self, any: Range<usize>) -> Self {
        self.any = any;
        self
    }

    pub(super) fn gives(mut self, bytes: Vec<u8>) -> Self {
        self.gives = Some(bytes);
        self
    }

    #[cfg_attr(
        not(feature = "iommufd"),
        expect(dead_code, reason = "only requests of iommufd point to room")
    )]
    pub(super) fn writes(mut self, at: usize, bytes: Vec<u8>) -> Self {
        self.writes = Some((at, bytes));
        self
    }

    #[cfg_attr(
        not(feature = "iommufd"),
        expect(dead_code, reason = "only its tests connect vectors")
    )]
    pub(super) fn returns(mut self, result: u32) -> Self {
        self.result = result;
        self
    }

    pub(super) fn fails(mut self, errno: i32) -> Self {
        self.errno = errno;
        self
    }
}

impl From<Ioctl> for Step {
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

/// The list; every file of the test takes from it.
#[derive(Clone, Debug, Default)]
pub(super) struct Tape {
    steps: Arc<Mutex<VecDeque<Step>>>,
    /// What was not as expected. A destructor cannot fail a test.
    wrong: Arc<Mutex<Vec<String>>>,
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tape {
    pub(super) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let tape = Self::default();
        tape.expect(steps);
        tape
    }

    /// Appends to the list.
    pub(super) fn expect(&self, steps: impl IntoIterator<Item = Step>) {
        lock(&self.steps).extend(steps);
    }

    /// Fails unless everything on the list has come, and nothing else.
    #[track_caller]
    pub(super) fn is_done(&self) {
        assert_eq!(*lock(&self.wrong), [""; 0], "not as expected");
        let left = lock(&self.steps);
        assert!(left.is_empty(), "never came: {left:x?}");
    }

    /// A file that answers from the list, with `bytes` of memory behind it.
    pub(super) fn file(&self, name: &'static str, bytes: u64) -> Taped {
        // SAFETY: the name ends in a zero; nothing else is pointed at.
        let fd = unsafe { libc::memfd_create(c"taped".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: just opened, and nobody else's.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(bytes).unwrap();
        Taped {
            name,
            file,
            tape: self.clone(),
        }
    }

    fn wrong(&self, text: String) -> io::Error {
        lock(&self.wrong).push(text.clone());
        io::Error::other(text)
    }
}

/// A file of the pretended kernel.
pub(super) struct Taped {
    name: &'static str,
    file: File,
    tape: Tape,
}

impl Node for Taped {
    fn file(&self) -> &File {
        &self.file
    }

    unsafe fn ioctl(&self, request: libc::c_ulong, argument: &mut [u8]) -> io::Result<u32> {
        let came = format!("{} {request:#x} {argument:x?}", self.name);
        let next = lock(&self.tape.steps).pop_front();
        let Some(Step::Ioctl(step)) = next else {
            return Err(self.tape.wrong(format!("{came} instead of {next:x?}")));
        };
        let mut takes = step.takes.clone();
        if let (Some(any), Some(own)) = (
            takes.get_mut(step.any.clone()),
            argument.get(step.any.clone()),
        ) {
            any.copy_from_slice(own);
        }
        let as_expected = self.name == step.on
            && request == libc::c_ulong::from(step.request)
            && *argument == *takes;
        if !as_expected {
            return Err(self.tape.wrong(format!("{came} instead of {step:x?}")));
        }
        if let Some((at, bytes)) = &step.writes {
            let address = argument[*at..].first_chunk().unwrap();
            let address = u64::from_ne_bytes(*address) as usize;
            let to = std::ptr::with_exposed_provenance_mut::<u8>(address);
            // SAFETY: the caller of the ioctl gave room there for what the
            // argument, which was compared, asks for; the test writes no more.
            unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        if let Some(gives) = &step.gives {
            // The bytes that differ from run to run stay.
            let own = argument.to_vec();
            argument.copy_from_slice(gives);
            argument[step.any.clone()].copy_from_slice(&own[step.any]);
        }
        match step.errno {
            0 => Ok(step.result),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

impl Drop for Taped {
    fn drop(&mut self) {
        let next = lock(&self.tape.steps).pop_front();
        if !matches!(next, Some(Step::Close(name)) if name == self.name) {
            self.tape
                .wrong(format!("close of {} instead of {next:x?}", self.name));
        }
    }
}
