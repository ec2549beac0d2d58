//! Events that wait for a program which reads a descriptor: a readable unit for each.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vmm_sys_util::eventfd::EventFd;

/// A queue and its descriptor.
#[derive(Debug)]
pub(crate) struct Units<T> {
    /// A semaphore: each read takes one unit, whether it blocks or not.
    fd: EventFd,
    waiting: Mutex<Waiting<T>>,
    most: usize,
}

/// What nobody has taken yet.
#[derive(Debug)]
struct Waiting<T> {
    events: VecDeque<T>,
    /// Nothing comes any more.
    is_closed: bool,
}

/// Units of a queue that is closed: more than there are readers, for as long as a program runs.
const CLOSED: u64 = 1 << 62;

impl<T> Units<T> {
    /// A queue with nothing in it, which keeps at most `most`; later ones are dropped.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new(most: usize) -> io::Result<Self> {
        Ok(Self {
            fd: EventFd::new(libc::EFD_SEMAPHORE | libc::EFD_CLOEXEC)?,
            waiting: Mutex::new(Waiting {
                events: VecDeque::new(),
                is_closed: false,
            }),
            most,
        })
    }

    /// Its descriptor.
    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts one in.
    pub(crate) fn put(&self, event: T) {
        let mut waiting = self.waiting();
        if !waiting.is_closed && waiting.events.len() < self.most && self.fd.write(1).is_ok() {
            waiting.events.push_back(event);
        }
    }

    /// Nothing comes any more: what waits is taken still, and then all who read are told.
    pub(crate) fn close(&self) {
        let mut waiting = self.waiting();
        if !waiting.is_closed {
            waiting.is_closed = true;
            let _ = self.fd.write(CLOSED);
        }
    }

    /// Takes the oldest; waits for one unless the program has made the descriptor non-blocking.
    /// `taken` is called with it before anybody can purge.
    ///
    /// # Errors
    /// As `read`: EAGAIN, EINTR; EIO when the queue is closed and empty.
    pub(crate) fn take<R>(&self, taken: impl FnOnce(&T) -> R) -> io::Result<R> {
        loop {
            self.read_unit()?;
            let mut waiting = self.waiting();
            // What the unit stood for may have been purged just now: then the next one is read,
            // or waited for.
            if let Some(event) = waiting.events.pop_front() {
                return Ok(taken(&event));
            }
            if waiting.is_closed {
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
        }
    }

    /// Reads a unit, as the descriptor's flags say. A signal ends it, which reads of the standard
    /// library hide.
    fn read_unit(&self) -> io::Result<()> {
        let mut unit = 0u64;
        let into = ptr::from_mut(&mut unit).cast();
        // SAFETY: the word is this function's.
        match unsafe { libc::read(self.fd(), into, size_of::<u64>()) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// Drops those that are not to be `kept`, and their units.
    pub(crate) fn purge(&self, kept: impl Fn(&T) -> bool) {
        let mut waiting = self.waiting();
        let before = waiting.events.len();
        waiting.events.retain(kept);
        for _ in waiting.events.len()..before {
            // A reader that has the unit already finds nothing and reads again.
            self.skip_unit();
        }
    }

    /// Reads a unit if there is one, whatever the descriptor's flags say.
    fn skip_unit(&self) {
        let mut unit = 0u64;
        let into = libc::iovec {
            iov_base: ptr::from_mut(&mut unit).cast(),
            iov_len: size_of::<u64>(),
        };
        // SAFETY: the vector names a word of this function.
        unsafe { libc::preadv2(self.fd(), &raw const into, 1, -1, libc::RWF_NOWAIT) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readable(units: &Units<u32>) -> bool {
        let mut poll = libc::pollfd {
            fd: units.fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one descriptor.
        unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
    }

    #[test]
    fn a_read_a_unit_and_none_for_what_was_purged() {
        let units = Units::new(8).unwrap();
        for event in [1, 2, 1, 3] {
            units.put(event);
        }
        units.purge(|event| *event != 1);
        assert_eq!(units.take(|event| *event).unwrap(), 2);
        assert!(readable(&units));
        assert_eq!(units.take(|event| *event).unwrap(), 3);
        assert!(!readable(&units), "no unit without an event");
    }

    #[test]
    fn a_descriptor_that_does_not_block_says_that_there_is_nothing() {
        let units = Units::<u32>::new(8).unwrap();
        // SAFETY: the queue's own descriptor.
        unsafe { libc::fcntl(units.fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        let error = units.take(|event| *event).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
    }

    #[test]
    fn a_closed_queue_gives_what_waits_and_then_wakes_all() {
        let units = Units::<u32>::new(8).unwrap();
        std::thread::scope(|scope| {
            let readers = [(), (), ()].map(|()| scope.spawn(|| units.take(|event| *event)));
            std::thread::sleep(std::time::Duration::from_millis(20));
            units.put(7);
            units.close();
            units.put(8);
            let taken = readers.map(|reader| reader.join().unwrap());
            let count = |is: fn(&io::Result<u32>) -> bool| taken.iter().filter(|t| is(t)).count();
            assert_eq!(count(|taken| matches!(taken, Ok(7))), 1);
            let eio = |error: &io::Error| error.raw_os_error() == Some(libc::EIO);
            assert_eq!(
                taken
                    .iter()
                    .filter_map(|t| t.as_ref().err())
                    .filter(|e| eio(e))
                    .count(),
                2
            );
        });
        assert!(readable(&units), "a poll ends, too");
    }

    #[test]
    fn no_more_than_the_most_wait() {
        let units = Units::new(2).unwrap();
        for event in 0..5 {
            units.put(event);
        }
        units.purge(|_| false);
        assert!(!readable(&units));
    }
}
