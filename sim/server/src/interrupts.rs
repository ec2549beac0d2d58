//! MSI-X messages as event descriptors of the function's user.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use e810_hal::Vector;
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_DATA_BOOL, VFIO_IRQ_SET_DATA_EVENTFD,
    VFIO_IRQ_SET_DATA_NONE,
};

/// The vectors of one function. Locked only briefly, because the engine's thread takes the lock
/// too.
#[derive(Debug)]
pub struct Interrupts(Mutex<State>);

#[derive(Debug)]
struct State {
    lines: Vec<Option<File>>,
    /// MSI-X is on: from the first connected vector until all are disconnected.
    enabled: bool,
    sent: u64,
}

impl State {
    /// Delivers a message; one for a vector that was just disconnected is lost, as on a host.
    fn deliver(&mut self, index: usize) {
        if let Some(Some(event)) = self.lines.get_mut(index) {
            let sent = takes(event) && event.write_all(&1u64.to_ne_bytes()).is_ok();
            self.sent += u64::from(sent);
        }
    }
}

/// Whether a write would not block: the descriptor that the user gave may be no event, and the
/// engine waits for nobody.
fn takes(event: &File) -> bool {
    let mut poll = libc::pollfd {
        fd: event.as_raw_fd(),
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one entry, alive for the call, which does not wait.
    let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
    ready == 1 && poll.revents == libc::POLLOUT
}

impl Interrupts {
    /// Creates `vectors` vectors, none of them connected.
    #[must_use]
    pub fn new(vectors: u16) -> Self {
        Self(Mutex::new(State {
            lines: (0..vectors).map(|_| None).collect(),
            enabled: false,
            sent: 0,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device sends the message of `vector`.
    pub fn fire(&self, vector: Vector) {
        self.lock().deliver(vector.get() as usize);
    }

    /// Messages that reached an event.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.lock().sent
    }

    /// Whether MSI-X is on.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.lock().enabled
    }

    /// Whether `vector` has an event, that is, its entry of the table is unmasked.
    #[must_use]
    pub fn is_connected(&self, vector: Vector) -> bool {
        let state = self.lock();
        let line = state.lines.get(vector.get() as usize);
        line.is_some_and(Option::is_some)
    }

    /// SET_IRQS for MSI-X; false for a meaningless form.
    pub fn set(&self, flags: u32, start: u32, count: u32, fds: Vec<File>) -> bool {
        const EVENTS: u32 = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
        const NONE: u32 = VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_TRIGGER;
        let mut state = self.lock();
        let (first, count) = (start as usize, count as usize);
        let last = first.saturating_add(count);
        if last > state.lines.len() || flags & VFIO_IRQ_SET_DATA_BOOL != 0 {
            return false;
        }
        match flags {
            NONE if count == 0 => {
                state.enabled = false;
                state.lines.fill_with(|| None);
            }
            // The user triggers vectors by hand.
            NONE => (first..last).for_each(|index| state.deliver(index)),
            EVENTS => {
                state.enabled = true;
                // Without a descriptor the vectors are disconnected.
                let mut fds = fds.into_iter();
                for line in state.lines.iter_mut().skip(first).take(count) {
                    *line = fds.next();
                }
            }
            _ => return false,
        }
        true
    }

    /// The user is gone, or the function was reset.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.enabled = false;
        state.lines.fill_with(|| None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::FromRawFd;
    use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

    const EVENTS: u32 = 0x24;
    const NONE: u32 = 0x21;

    fn event() -> (EventFd, Vec<File>) {
        let event = EventFd::new(EFD_NONBLOCK).unwrap();
        let copy = event.try_clone().unwrap();
        // SAFETY: the descriptor of a clone that is forgotten.
        let file = unsafe { File::from_raw_fd(copy.as_raw_fd()) };
        std::mem::forget(copy);
        (event, vec![file])
    }

    fn vector(index: u16) -> Vector {
        Vector::new(index).unwrap()
    }

    #[test]
    fn vectors_come_one_by_one_and_go_together() {
        let irqs = Interrupts::new(4);
        let ((one, one_fd), (three, three_fd)) = (event(), event());
        assert!(!irqs.is_enabled());
        assert!(irqs.set(EVENTS, 1, 1, one_fd));
        assert!(irqs.set(EVENTS, 3, 1, three_fd));
        let connected = || [0, 1, 2, 3].map(|index| irqs.is_connected(vector(index)));
        assert_eq!(connected(), [false, true, false, true]);
        irqs.fire(vector(3));
        irqs.fire(vector(3));
        irqs.fire(vector(1));
        assert_eq!((one.read().unwrap(), three.read().unwrap()), (1, 2));
        // Connected with no descriptor: disconnected.
        assert!(irqs.set(EVENTS, 3, 1, Vec::new()));
        assert_eq!(connected(), [false, true, false, false]);
        irqs.fire(vector(3));
        assert!(three.read().is_err());
        assert!(irqs.set(NONE, 0, 0, Vec::new()));
        assert_eq!((connected(), irqs.is_enabled()), ([false; 4], false));
        irqs.fire(vector(1));
        assert!(one.read().is_err());
        assert_eq!(irqs.sent(), 3);
    }

    #[test]
    fn the_user_may_trigger_by_hand() {
        let irqs = Interrupts::new(2);
        let (first, fd) = event();
        assert!(irqs.set(EVENTS, 0, 1, fd));
        assert!(irqs.set(NONE, 0, 1, Vec::new()));
        assert_eq!(first.read().unwrap(), 1);
    }

    #[test]
    fn forms_that_mean_nothing_change_nothing() {
        let irqs = Interrupts::new(2);
        for (flags, start, count) in [
            (EVENTS, 2, 1),
            (EVENTS, u32::MAX, u32::MAX),
            (0, 0, 1),
            (0x22, 0, 1),
            (0x0c, 0, 1),
        ] {
            assert!(!irqs.set(flags, start, count, Vec::new()), "{flags:#x}");
        }
    }
}
