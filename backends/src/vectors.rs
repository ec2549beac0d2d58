//! MSI-X vectors as event descriptors, and waiting for them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use e810_hal::Vector;
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::error::BackendError;
use super::transport::Transport;

/// A vector's event descriptor.
#[derive(Debug)]
struct Event {
    fd: EventFd,
    /// Handed out. If the set cannot shrink, a vector that is not handed out stays connected.
    taken: bool,
    /// The CPU to interrupt.
    cpu: Option<u32>,
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as `self.fd`, which the borrow keeps alive.
        unsafe { BorrowedFd::borrow_raw(self.fd.as_raw_fd()) }
    }
}

/// All vectors of one function that were ever taken.
#[derive(Debug, Default)]
pub(super) struct InterruptVectors {
    /// By vector.
    events: Vec<Option<Event>>,
    /// A refusal to direct interrupts to a CPU was logged.
    refusal_logged: bool,
}

impl InterruptVectors {
    /// Takes the lowest free vector and connects it.
    pub(super) fn take<T: Transport>(
        &mut self,
        transport: &T,
        waiter: &Waiter,
    ) -> Result<Option<Vector>, BackendError> {
        let free = |event: &Option<Event>| event.as_ref().is_none_or(|event| !event.taken);
        let index = self.events.iter().position(free);
        let index = index.unwrap_or(self.events.len());
        let properties = transport.properties();
        let vector = u16::try_from(index).ok().and_then(Vector::new);
        let Some(vector) = vector.filter(|_| index < usize::from(properties.vectors)) else {
            return Ok(None);
        };
        let system = |cause| BackendError::system(transport.name(), "making an event", &cause);
        if self.events.len() == index {
            self.events.push(None);
        }
        let Some(slot) = self.events.get_mut(index) else {
            return Ok(None);
        };
        let connected = slot.is_some();
        let event = match slot.take() {
            Some(event) => event,
            None => Event {
                fd: new_event().map_err(system)?,
                taken: false,
                cpu: None,
            },
        };
        // Events from before belong to nobody.
        let _ = event.fd.read();
        waiter.watch(&event, vector).map_err(system)?;
        *slot = Some(event);
        let done = match connected {
            true => Ok(()),
            false if properties.vectors_grow => {
                let event = slot.as_ref().map(Event::as_fd);
                transport.connect_vectors(vector.get() as u16, &[event])
            }
            false => self.connect_all(transport),
        };
        if let Err(error) = done {
            self.forget(vector, waiter);
            if !properties.vectors_grow {
                // The set is disconnected. The others were connected before.
                self.connect_all(transport)?;
            }
            return Err(error);
        }
        if let Some(event) = self.events.get_mut(index).and_then(Option::as_mut) {
            event.taken = true;
        }
        Ok(Some(vector))
    }

    /// Disconnects the whole set and connects it again: for a kernel that cannot add to a set in
    /// use.
    fn connect_all<T: Transport>(&mut self, transport: &T) -> Result<(), BackendError> {
        transport.disconnect_vectors()?;
        if self.events.is_empty() {
            return Ok(());
        }
        let events: Vec<_> = self
            .events
            .iter()
            .map(|event| event.as_ref().map(Event::as_fd))
            .collect();
        transport.connect_vectors(0, &events)?;
        // A message that came while the set was disconnected is lost. Every waiter is woken to look
        // once more: an event without a cause does no harm.
        for event in self.events.iter().flatten().filter(|event| event.taken) {
            let _ = event.fd.write(1);
        }
        // For the kernel these are new interrupts.
        let cpu = |event: &Option<Event>| event.as_ref().and_then(|event| event.cpu);
        let cpus: Vec<_> = self.events.iter().map(cpu).collect();
        for (vector, cpu) in (0..).zip(cpus) {
            if let Some(cpu) = cpu {
                self.try_to_send(vector, cpu, transport);
            }
        }
        Ok(())
    }

    /// Remembers which CPU is to take the interrupts of `vector`, and tells the kernel. It is a
    /// hint: a refusal is logged once and changes nothing.
    pub(super) fn send_to<T: Transport>(&mut self, vector: Vector, cpu: u32, transport: &T) {
        let slot = self.events.get_mut(vector.get() as usize);
        if let Some(event) = slot.and_then(|slot| slot.as_mut().filter(|event| event.taken)) {
            event.cpu = Some(cpu);
            self.try_to_send(vector.get() as u16, cpu, transport);
        }
    }

    fn try_to_send<T: Transport>(&mut self, vector: u16, cpu: u32, transport: &T) {
        if let Err(error) = transport.send_vector_to(vector, cpu)
            && !std::mem::replace(&mut self.refusal_logged, true)
        {
            log::info!("interrupts go to whatever CPU the kernel chooses: {error}");
        }
    }

    /// Frees a vector; returns false if it was not taken.
    pub(super) fn give_back<T: Transport>(
        &mut self,
        vector: Vector,
        transport: &T,
        waiter: &Waiter,
    ) -> Result<bool, BackendError> {
        let slot = self.events.get_mut(vector.get() as usize);
        let Some(event) = slot.and_then(|slot| slot.as_mut().filter(|event| event.taken)) else {
            return Ok(false);
        };
        event.taken = false;
        event.cpu = None;
        if !transport.properties().vectors_grow {
            // Disconnecting the set would cost the others interrupts.
            waiter.forget(event);
            return Ok(true);
        }
        self.forget(vector, waiter);
        transport.connect_vectors(vector.get() as u16, &[None])?;
        Ok(true)
    }

    fn forget(&mut self, vector: Vector, waiter: &Waiter) {
        let slot = self.events.get_mut(vector.get() as usize);
        if let Some(event) = slot.and_then(Option::take) {
            waiter.forget(&event);
        }
        // The last entry of a set is a vector that exists.
        while let Some(None) = self.events.last() {
            self.events.pop();
        }
    }

    /// Whether the vector is taken.
    pub(super) fn is_taken(&self, vector: Vector) -> bool {
        let event = self.events.get(vector.get() as usize);
        event
            .and_then(Option::as_ref)
            .is_some_and(|event| event.taken)
    }
}

fn new_event() -> io::Result<EventFd> {
    EventFd::new(EFD_NONBLOCK | libc::EFD_CLOEXEC)
}

/// Where threads sleep until a vector fires.
#[derive(Debug)]
pub(super) struct Waiter(Epoll);

/// The epoll data of an event that is no vector.
const NO_VECTOR: u64 = u64::MAX;

/// Vectors taken from one `epoll_wait`.
const BATCH: usize = 64;

impl Waiter {
    pub(super) fn new() -> io::Result<Self> {
        Epoll::new().map(Self)
    }

    /// Also wakes threads when `fd` becomes readable, until it is read.
    pub(super) fn watch_notices(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let readable = EpollEvent::new(EventSet::IN, NO_VECTOR);
        self.0.ctl(ControlOperation::Add, fd.as_raw_fd(), readable)
    }

    fn watch(&self, event: &Event, vector: Vector) -> io::Result<()> {
        // Edge-triggered, and each signal of an eventfd is an edge: nobody has to read it, and each
        // goes to one thread.
        let signals = EventSet::IN | EventSet::EDGE_TRIGGERED;
        let readable = EpollEvent::new(signals, vector.get().into());
        let fd = event.fd.as_raw_fd();
        self.0.ctl(ControlOperation::Add, fd, readable)
    }

    fn forget(&self, event: &Event) {
        // It is watched; a descriptor that is closed next is removed by the kernel.
        let fd = event.fd.as_raw_fd();
        let _ = self
            .0
            .ctl(ControlOperation::Delete, fd, EpollEvent::default());
    }

    /// Sleeps until vectors fire or `limit` has passed; passes those that fired to `ready`.
    pub(super) fn wait(&self, limit: Duration, mut ready: impl FnMut(Vector)) -> io::Result<()> {
        let end = Instant::now() + limit;
        let mut events = [EpollEvent::default(); BATCH];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            // Rounded up: a rest of less than a millisecond is slept, not spun.
            let millis = left.as_micros().div_ceil(1000);
            let timeout = i32::try_from(millis).unwrap_or(i32::MAX);
            match self.0.wait(timeout, &mut events) {
                Ok(count) => {
                    let fired = events.iter().take(count);
                    fired
                        .filter_map(|event| u16::try_from(event.data()).ok())
                        .filter_map(Vector::new)
                        .for_each(&mut ready);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
