//! Events that wait for a program which reads a descriptor: each has a readable unit.

use core::ffi::c_int;
use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::device::complain::complain;
use crate::errno;
use crate::fork::Process;
use crate::shown::Shown;

/// A queue and its descriptor.
///
/// To the kernel, the descriptor of a child of `fork` is its parent's, so only the process that
/// made the queue touches it.
#[derive(Debug)]
pub struct EventQueue<T> {
    /// The end of a pipe from which a byte is read for each unit, whether reads block or not. As
    /// with the kernel's channels, a poll finds it readable or finds nothing. An eventfd would be
    /// writable, and a program that waits for both would never sleep.
    fd: Shown,
    /// The other end, which does not block.
    into: OwnedFd,
    process: Process,
    waiting: Mutex<Waiting<T>>,
    most: usize,
    /// The name of the events in reports about them.
    what: String,
}

/// Events that nobody has taken yet. The units in the pipe, those taken by readers and those
/// `unsent` are together as many as the events and `owed`.
#[derive(Debug)]
struct Waiting<T> {
    events: VecDeque<T>,
    /// Units that readers have taken and whose events were purged.
    owed: usize,
    /// Units for which the pipe had no room. It holds other units then, whose readers put these in.
    unsent: usize,
    /// No further events come.
    is_closed: bool,
    lost: Lost,
}

/// Events for which there was no room.
#[derive(Debug, Default)]
struct Lost {
    count: u64,
    reported: u64,
}

/// What a reader gets for a unit.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken<R> {
    /// The oldest event.
    Event(R),
    /// Nothing: the event of the unit was purged.
    Nothing,
    /// No further events come.
    Closed,
}

impl<T> EventQueue<T> {
    /// An empty queue, which keeps at most `most` events, the oldest ones. Later ones are lost;
    /// they are counted and reported in a line that begins with `what`.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new(most: usize, what: String) -> io::Result<Self> {
        let (from, into) = pipe()?;
        Ok(Self {
            fd: Shown::new(from)?,
            into,
            process: Process::this(),
            waiting: Mutex::new(Waiting {
                events: VecDeque::new(),
                owed: 0,
                unsent: 0,
                is_closed: false,
                lost: Lost::default(),
            }),
            most,
            what,
        })
    }

    /// The program's descriptor.
    pub const fn fd(&self) -> RawFd {
        self.fd.number()
    }

    /// The library's own descriptor, for reads: both have the same flags.
    pub fn own_fd(&self) -> RawFd {
        self.fd.own().as_raw_fd()
    }

    /// Whether this process may touch it.
    pub fn is_here(&self) -> bool {
        self.process.is_this()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an event in; returns whether there was room.
    pub fn put(&self, event: T) -> bool {
        self.put_up_to(self.most, event)
    }

    /// Puts in an event that nothing else in the queue implies, and of which there are few: it may
    /// exceed the limit.
    pub fn put_past_the_most(&self, event: T) -> bool {
        self.put_up_to(usize::MAX, event)
    }

    fn put_up_to(&self, most: usize, event: T) -> bool {
        if !self.is_here() {
            return false;
        }
        let mut waiting = self.waiting();
        if waiting.is_closed {
            return false;
        }
        if waiting.events.len() < most && waiting.events.try_reserve(1).is_ok() {
            waiting.events.push_back(event);
            self.send(&mut waiting, 1);
            return true;
        }
        waiting.lost.count += 1;
        false
    }

    /// Puts this many units into the pipe, and the unsent ones.
    fn send(&self, waiting: &mut Waiting<T>, units: usize) {
        waiting.unsent += units;
        while waiting.unsent > 0 && self.add() {
            waiting.unsent -= 1;
        }
    }

    /// Puts a unit into the pipe; returns whether there was room.
    fn add(&self) -> bool {
        let unit = 1u8;
        // SAFETY: the byte is this function's.
        unsafe { libc::write(self.into.as_raw_fd(), (&raw const unit).cast(), 1) == 1 }
    }

    /// Puts in the last unit of a closed queue; whoever takes it puts it back for the others. If
    /// the pipe has no room, it holds other units.
    fn stay_readable(&self, waiting: &Waiting<T>) {
        if waiting.is_closed && waiting.events.is_empty() {
            self.add();
        }
    }

    /// Ends the queue: waiting events can still be taken, then all readers are told.
    pub fn close(&self) {
        if !self.is_here() {
            return;
        }
        let mut waiting = self.waiting();
        if !waiting.is_closed {
            waiting.is_closed = true;
            self.stay_readable(&waiting);
        }
    }

    /// Takes the oldest event, for a unit that was read. `taken` is called with it before anybody
    /// can purge it.
    pub fn take<R>(&self, taken: impl FnOnce(&T) -> R) -> Taken<R> {
        let mut waiting = self.waiting();
        self.send(&mut waiting, 0);
        let found = match waiting.owed.checked_sub(1) {
            Some(left) => {
                waiting.owed = left;
                Taken::Nothing
            }
            None => match waiting.events.pop_front() {
                Some(event) => Taken::Event(taken(&event)),
                None if waiting.is_closed => Taken::Closed,
                None => Taken::Nothing,
            },
        };
        self.stay_readable(&waiting);
        found
    }

    /// Returns a unit that was read: its reader is gone.
    pub fn give_back(&self) {
        if !self.is_here() {
            return;
        }
        let mut waiting = self.waiting();
        match waiting.owed.checked_sub(1) {
            Some(left) => waiting.owed = left,
            None => self.send(&mut waiting, 1),
        }
        self.stay_readable(&waiting);
    }

    /// Drops the events that are not to be `kept`, and their units.
    pub fn purge(&self, kept: impl Fn(&T) -> bool) {
        if !self.is_here() {
            return;
        }
        let mut waiting = self.waiting();
        let before = waiting.events.len();
        waiting.events.retain(kept);
        for _ in waiting.events.len()..before {
            if let Some(left) = waiting.unsent.checked_sub(1) {
                waiting.unsent = left;
            } else if !self.skip_unit() {
                // A reader already has the unit; it finds nothing and reads again.
                waiting.owed += 1;
            }
        }
        self.stay_readable(&waiting);
    }

    /// Reads a unit if there is one, whatever flags the descriptor has.
    fn skip_unit(&self) -> bool {
        match read_now(self.own_fd()) {
            Err(libc::EOPNOTSUPP) => read_now_elsewhere(self.own_fd()),
            read => read.is_ok_and(|bytes| bytes == 1),
        }
    }

    /// Prints one line on standard error with the number of lost events, when it is twice the
    /// number reported before, and at the end (`all`). Threads of the library do not call this: a
    /// program that reads no events may not read standard error either.
    pub fn report_lost(&self, all: bool) {
        let mut waiting = self.waiting();
        let Lost { count, reported } = waiting.lost;
        if count == reported || (!all && count < reported.saturating_mul(2)) {
            return;
        }
        waiting.lost.reported = count;
        drop(waiting);
        complain(&format!(
            "{}: the last {count} are lost: at most {} wait until the program takes them",
            self.what, self.most
        ));
    }
}

/// Creates a pipe: the end to read from, and the non-blocking end to write to.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: room for two numbers.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: they were made just now.
    let [from, into] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    // SAFETY: numbers.
    if unsafe { libc::fcntl(into.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((from, into))
}

/// Reads a byte if there is one; returns how many were read.
fn read_now(fd: RawFd) -> Result<usize, c_int> {
    let mut unit = 0u8;
    let into = libc::iovec {
        iov_base: (&raw mut unit).cast(),
        iov_len: 1,
    };
    // SAFETY: the vector names a byte of this function.
    let read = unsafe { libc::preadv2(fd, &raw const into, 1, -1, libc::RWF_NOWAIT) };
    usize::try_from(read).map_err(|_| errno::now())
}

/// The same for kernels that do not support such reads of pipes (before 6.4): through a
/// non-blocking description of the pipe. Without `/proc` nothing is read.
fn read_now_elsewhere(fd: RawFd) -> bool {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let again = options.open(format!("/proc/self/fd/{fd}"));
    again.is_ok_and(|mut again| again.read(&mut [0]).is_ok_and(|bytes| bytes == 1))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::wait;

    fn queue(most: usize) -> Arc<EventQueue<u32>> {
        Arc::new(EventQueue::new(most, "test".to_owned()).unwrap())
    }

    /// The result of a poll for every event.
    fn found(units: &EventQueue<u32>) -> i16 {
        let mut poll = libc::pollfd {
            fd: units.fd(),
            events: libc::POLLIN | libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one descriptor.
        unsafe { libc::poll(&raw mut poll, 1, 0) };
        poll.revents
    }

    fn readable(units: &EventQueue<u32>) -> bool {
        found(units) & libc::POLLIN != 0
    }

    /// Reads a unit and takes an event, as programs do.
    fn take(units: &Arc<EventQueue<u32>>) -> Result<u32, c_int> {
        let taken = std::cell::Cell::new(0);
        match wait::take(|| units.clone(), |event| taken.set(*event)) {
            0 => Ok(taken.get()),
            _ => Err(errno::now()),
        }
    }

    #[test]
    fn a_read_a_unit_and_none_for_what_was_purged() {
        let units = queue(8);
        for event in [1, 2, 1, 3] {
            assert!(units.put(event));
        }
        units.purge(|event| *event != 1);
        assert_eq!(take(&units), Ok(2));
        assert!(readable(&units));
        assert_eq!(take(&units), Ok(3));
        assert!(!readable(&units), "no unit without an event");
    }

    #[test]
    fn a_poll_finds_units_and_never_that_it_is_writable() {
        let units = queue(8);
        assert_eq!(found(&units), 0);
        units.put(1);
        assert_eq!(found(&units), libc::POLLIN);
        assert_eq!(take(&units), Ok(1));
        assert_eq!(found(&units), 0);
        units.close();
        for _ in 0..3 {
            assert_eq!(found(&units), libc::POLLIN);
            assert_eq!(take(&units), Err(libc::EIO));
        }
    }

    /// More than a pipe of this size can hold.
    #[test]
    fn what_the_pipe_has_no_room_for_comes_later() {
        const EVENTS: u32 = 200_000;
        for (purged, closed) in [(0, false), (0, true), (150_000, false), (EVENTS, true)] {
            let units = queue(EVENTS as usize);
            for event in 0..EVENTS {
                assert!(units.put(event));
            }
            assert!(units.waiting().unsent > 0, "the pipe has room for all");
            if closed {
                units.close();
            }
            units.purge(|event| *event >= purged);
            for event in purged..EVENTS {
                assert!(readable(&units), "{event}");
                assert_eq!(take(&units), Ok(event));
            }
            assert_eq!(readable(&units), closed);
            match closed {
                true => assert_eq!(take(&units), Err(libc::EIO)),
                false => assert_eq!(units.waiting().unsent, 0),
            }
        }
    }

    #[test]
    fn a_unit_is_read_without_a_wait_on_every_kernel() {
        let units = queue(8);
        assert!(!read_now_elsewhere(units.own_fd()));
        units.put(1);
        assert!(read_now_elsewhere(units.own_fd()));
        assert!(!readable(&units));
        assert!(!units.skip_unit());
    }

    /// A reader has read a unit, and the event is purged before the reader takes it.
    #[test]
    fn a_unit_whose_event_was_purged_is_nobody_elses() {
        for gives_back in [false, true] {
            let units = queue(8);
            units.put(1);
            assert!(units.skip_unit());
            units.purge(|_| false);
            units.put(2);
            match gives_back {
                true => units.give_back(),
                false => assert_eq!(units.take(|event| *event), Taken::Nothing),
            }
            assert_eq!(take(&units), Ok(2));
            assert!(!readable(&units), "no unit without an event");
        }
    }

    #[test]
    fn a_unit_of_a_reader_that_has_gone_comes_back() {
        let units = queue(8);
        units.put(1);
        assert!(units.skip_unit());
        assert!(!readable(&units));
        units.give_back();
        assert!(readable(&units));
        assert_eq!(take(&units), Ok(1));
    }

    #[test]
    fn a_descriptor_that_does_not_block_says_that_there_is_nothing() {
        let units = queue(8);
        // SAFETY: the queue's own descriptor.
        unsafe { libc::fcntl(units.fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        assert_eq!(take(&units), Err(libc::EAGAIN));
    }

    #[test]
    fn a_closed_queue_gives_what_waits_and_then_wakes_all() {
        let units = queue(8);
        thread::scope(|scope| {
            let readers = [(), (), ()].map(|()| scope.spawn(|| take(&units)));
            thread::sleep(Duration::from_millis(20));
            units.put(7);
            units.close();
            assert!(!units.put(8));
            let mut taken = readers.map(|reader| reader.join().unwrap());
            taken.sort_unstable();
            assert_eq!(taken, [Ok(7), Err(libc::EIO), Err(libc::EIO)]);
        });
        assert!(readable(&units), "a poll ends, too");
    }

    #[test]
    fn the_oldest_stay_and_the_others_are_counted() {
        let units = queue(2);
        let kept = [0, 1, 2, 3, 4].map(|event| units.put(event));
        assert_eq!(kept, [true, true, false, false, false]);
        assert!(units.put_past_the_most(9));
        assert_eq!([(); 3].map(|()| take(&units)), [Ok(0), Ok(1), Ok(9)]);
        assert!(!readable(&units));
        let lost = || {
            let waiting = units.waiting();
            (waiting.lost.count, waiting.lost.reported)
        };
        // Reported when the first event was taken.
        assert_eq!(lost(), (3, 3));
        for event in 0..5 {
            units.put(event);
        }
        units.report_lost(false);
        assert_eq!(lost(), (6, 6), "twice what was reported");
        units.put(0);
        units.report_lost(false);
        assert_eq!(lost(), (7, 6));
        units.report_lost(true);
        assert_eq!(lost(), (7, 7));
    }
}
