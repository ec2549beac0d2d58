//! Interrupts: the device's messages come to events of this process, so that its queues are read
//! before the driver knows of them.
//!
//! All vectors are connected from the beginning: some kernels cannot connect more of them later
//! without losing messages. A message for a vector that the driver has not connected waits, as one
//! for a masked vector does in the device, and is lost while the driver has none connected at all,
//! as with MSI-X off.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::sync::Mutex;

use e810_backends::{BackendError, Transport};
use e810_hal::Vector;
use e810_sim_server::interrupts::Interrupts;
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::shared::lock;

/// The events of a function's vectors, and the driver's.
#[derive(Debug)]
pub(crate) struct Vectors {
    events: Vec<EventFd>,
    /// Ends a wait.
    wake: EventFd,
    epoll: Epoll,
    /// The driver's.
    connected: Interrupts,
    /// Who has it passes messages on: those before a change of connections are passed on before it.
    turn: Mutex<()>,
    /// Messages for vectors that the driver has not connected.
    waiting: Mutex<Vec<bool>>,
}

/// Events that are taken at once.
const AT_ONCE: usize = 64;

impl Vectors {
    /// An event for each of the vectors. A wait for messages also ends when one of `others` is readable.
    pub(crate) fn new(vectors: u16, others: &[RawFd]) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        let watch = |fd: RawFd, data: u64| {
            let event = EpollEvent::new(EventSet::IN, data);
            epoll.ctl(ControlOperation::Add, fd, event)
        };
        let mut events = Vec::new();
        for number in 0..vectors {
            let event = EventFd::new(EFD_NONBLOCK | libc::EFD_CLOEXEC)?;
            watch(event.as_raw_fd(), number.into())?;
            events.push(event);
        }
        let wake = EventFd::new(EFD_NONBLOCK | libc::EFD_CLOEXEC)?;
        watch(wake.as_raw_fd(), u64::MAX)?;
        for fd in others {
            watch(*fd, u64::MAX)?;
        }
        Ok(Self {
            events,
            wake,
            epoll,
            connected: Interrupts::new(vectors),
            turn: Mutex::default(),
            waiting: Mutex::new(vec![false; vectors.into()]),
        })
    }

    /// Connects the device's vectors: all, or as many as the machine has room for.
    pub(crate) fn connect<T: Transport>(&self, transport: &T) -> Result<(), BackendError> {
        let borrow = |event: &EventFd| {
            // SAFETY: open as long as `self`, which the call does not outlive.
            Some(unsafe { BorrowedFd::borrow_raw(event.as_raw_fd()) })
        };
        let events: Vec<_> = self.events.iter().map(borrow).collect();
        let mut some = events.as_slice();
        while let Err(error) = transport.connect_vectors(0, some) {
            let (fewer, rest) = some.split_at(some.len() / 2);
            if fewer.is_empty() {
                return Err(error);
            }
            log::warn!("{error}; {} vectors are left out", rest.len());
            some = fewer;
        }
        Ok(())
    }

    /// Waits for messages, at most `ms` milliseconds, and passes them on to the driver; before that,
    /// `seen` is told of them. Whether there were any.
    pub(crate) fn pass_on(&self, ms: i32, seen: impl Fn(&[Vector])) -> io::Result<bool> {
        self.ready(ms, |_| {})?;
        let _turn = lock(&self.turn);
        self.pass(seen)
    }

    /// Has `change` connect or disconnect vectors of the driver. Messages that came before are passed
    /// on before, and those that waited afterwards.
    pub(crate) fn change(
        &self,
        seen: impl Fn(&[Vector]),
        change: impl FnOnce(&Interrupts) -> bool,
    ) -> io::Result<bool> {
        let _turn = lock(&self.turn);
        self.pass(seen)?;
        let is_done = change(&self.connected);
        self.deliver_waiting();
        Ok(is_done)
    }

    /// Passes on all messages that have come. The caller has the turn.
    fn pass(&self, seen: impl Fn(&[Vector])) -> io::Result<bool> {
        let mut any = false;
        loop {
            let mut fired = Vec::new();
            self.ready(0, |number| {
                let event = self.events.get(usize::from(number));
                let is_rung = event.is_some_and(|event| event.read().is_ok());
                fired.extend(Vector::new(number).filter(|_| is_rung));
            })?;
            if fired.is_empty() {
                return Ok(any);
            }
            any = true;
            seen(&fired);
            self.deliver(&fired);
        }
    }

    /// Calls `each` with the numbers of events that are ready, after at most `ms` milliseconds.
    fn ready(&self, ms: i32, mut each: impl FnMut(u16)) -> io::Result<()> {
        let mut ready = [EpollEvent::default(); AT_ONCE];
        let count = match self.epoll.wait(ms, &mut ready) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        // What woke it is done with.
        let _ = self.wake.read();
        let numbers = ready.iter().take(count).map(|event| event.data());
        numbers.flat_map(u16::try_from).for_each(&mut each);
        Ok(())
    }

    /// Ends a wait of another thread, or the next one.
    pub(crate) fn wake(&self) {
        // It can only fail when it is full, and then the wait ends anyway.
        let _ = self.wake.write(1);
    }

    fn deliver(&self, vectors: &[Vector]) {
        let mut waiting = lock(&self.waiting);
        for vector in vectors {
            if self.connected.is_connected(*vector) {
                self.connected.fire(*vector);
            } else if let Some(waits) = waiting.get_mut(vector.get() as usize) {
                *waits = self.connected.is_enabled();
            }
        }
    }

    /// Those that are connected and whose message waited get it.
    fn deliver_waiting(&self) {
        let mut waiting = lock(&self.waiting);
        for (number, waits) in (0..).zip(&mut *waiting) {
            let Some(vector) = Vector::new(number) else {
                continue;
            };
            if *waits && self.connected.is_connected(vector) {
                *waits = false;
                self.connected.fire(vector);
            }
        }
    }

    /// The function was reset: nothing waits.
    pub(crate) fn was_reset(&self) {
        lock(&self.waiting).fill(false);
    }

    /// The driver is gone.
    pub(crate) fn clear(&self) {
        self.connected.clear();
        self.was_reset();
    }
}

#[cfg(test)]
mod tests {
    use e810_backends::{DmaRegion, Properties};
    use e810_hal::{Bus, RegOffset};

    use super::*;

    /// A function on a machine that has so many vectors for it.
    #[derive(Debug)]
    struct Few {
        most: usize,
        connected: Mutex<usize>,
        properties: Properties,
    }

    #[derive(Clone, Debug)]
    struct NoRegisters;

    impl Bus for NoRegisters {
        fn read32(&self, _: RegOffset) -> u32 {
            u32::MAX
        }
        fn write32(&self, _: RegOffset, _: u32) {}
    }

    fn refused() -> BackendError {
        BackendError::Refused {
            device: "few".to_owned(),
            during: "connecting interrupts",
            cause: "no space".to_owned(),
        }
    }

    // SAFETY: there is no device that could access memory.
    unsafe impl Transport for Few {
        type Registers = NoRegisters;
        fn name(&self) -> &str {
            "few"
        }
        fn properties(&self) -> &Properties {
            &self.properties
        }
        fn registers(&self) -> NoRegisters {
            NoRegisters
        }
        fn failure(&self) -> Option<&BackendError> {
            None
        }
        fn config_read(&self, _: u16, _: &mut [u8]) -> Result<(), BackendError> {
            Err(refused())
        }
        fn config_write(&self, _: u16, _: &[u8]) -> Result<(), BackendError> {
            Err(refused())
        }
        fn reset(&self) -> Result<(), BackendError> {
            Ok(())
        }
        unsafe fn map(&self, _: &DmaRegion<'_>) -> Result<(), BackendError> {
            Err(refused())
        }
        fn unmap(&self, _: u64, _: u64) -> Result<(), BackendError> {
            Err(refused())
        }
        fn connect_vectors(
            &self,
            _: u16,
            events: &[Option<BorrowedFd<'_>>],
        ) -> Result<(), BackendError> {
            let fits = events.len() <= self.most;
            if fits {
                *lock(&self.connected) = events.len();
            }
            fits.then_some(()).ok_or_else(refused)
        }
        fn disconnect_vectors(&self) -> Result<(), BackendError> {
            Ok(())
        }
    }

    #[test]
    fn a_machine_with_few_vectors_gives_some() {
        for (most, connected) in [(16, 16), (15, 8), (3, 2), (1, 1), (0, 0)] {
            let function = Few {
                most,
                connected: Mutex::new(0),
                properties: Properties {
                    iova_ranges: Vec::new(),
                    page: 4096,
                    maps_any_memory: true,
                    vectors: 16,
                    vectors_grow: false,
                },
            };
            let vectors = Vectors::new(16, &[]).unwrap();
            assert_eq!(vectors.connect(&function).is_ok(), connected > 0);
            assert_eq!(*lock(&function.connected), connected);
        }
    }

    #[test]
    fn messages_wait_for_their_vector_and_are_lost_without_any() {
        let vectors = Vectors::new(4, &[]).unwrap();
        let lines = [
            EventFd::new(EFD_NONBLOCK).unwrap(),
            EventFd::new(EFD_NONBLOCK).unwrap(),
        ];
        let file = |line: &EventFd| {
            // SAFETY: open as long as `line`.
            let fd = unsafe { BorrowedFd::borrow_raw(line.as_raw_fd()) };
            std::fs::File::from(fd.try_clone_to_owned().unwrap())
        };
        let connect = |number, line: &EventFd| {
            let set = |lines: &Interrupts| lines.set(0x24, number, 1, vec![file(line)]);
            assert!(vectors.change(|_| {}, set).unwrap());
        };
        let fire = |number: usize| vectors.events[number].write(1).unwrap();
        let seen = Mutex::new(Vec::new());
        let pass_on = || {
            vectors
                .pass_on(0, |fired| {
                    lock(&seen).extend(fired.iter().map(|one| one.get()));
                })
                .unwrap()
        };
        fire(1);
        assert!(pass_on());
        connect(0, &lines[0]);
        fire(1);
        assert!(pass_on());
        assert!(lines[1].read().is_err());
        connect(1, &lines[1]);
        assert_eq!(lines[1].read().unwrap(), 1, "the second of the two");
        fire(0);
        fire(1);
        assert!(pass_on());
        assert_eq!([lines[0].read().unwrap(), lines[1].read().unwrap()], [1, 1]);
        assert!(!pass_on());
        assert_eq!(*lock(&seen), [1, 1, 0, 1]);
        // It ends a wait without an end.
        vectors.wake();
        assert!(!vectors.pass_on(-1, |_| {}).unwrap());
    }
}
