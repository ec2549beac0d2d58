//! Events that were taken and are not acknowledged yet: an object is destroyed only after all are.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The events of an object that a program has taken.
#[derive(Debug, Default)]
pub struct Acknowledged {
    open: Mutex<u64>,
    changed: Condvar,
}

impl Acknowledged {
    fn open(&self) -> MutexGuard<'_, u64> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn taken(&self) {
        *self.open() += 1;
    }

    /// Acknowledges this many events; more than were taken count as all that were taken.
    pub fn acknowledge(&self, events: u32) {
        let mut open = self.open();
        *open = open.saturating_sub(events.into());
        self.changed.notify_all();
    }

    /// Stops waiting for acknowledgements: the context is closed.
    pub fn give_up(&self) {
        self.acknowledge(u32::MAX);
    }

    /// Waits until all events are acknowledged.
    pub fn wait(&self) {
        let open = self.open();
        // As libibverbs does: for as long as the program takes.
        let waited = self.changed.wait_while(open, |open| *open > 0);
        drop(waited);
    }
}
