//! Events that were taken and not acknowledged: an object is not destroyed before all are.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The events of an object that a program has taken.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged {
    open: Mutex<u64>,
    changed: Condvar,
}

impl Acknowledged {
    fn open(&self) -> MutexGuard<'_, u64> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn taken(&self) {
        *self.open() += 1;
    }

    /// So many are acknowledged; more than were taken count as those.
    pub(crate) fn acknowledge(&self, events: u32) {
        let mut open = self.open();
        *open = open.saturating_sub(events.into());
        self.changed.notify_all();
    }

    /// None is waited for any more: the context is closed.
    pub(crate) fn give_up(&self) {
        self.acknowledge(u32::MAX);
    }

    /// Waits until all are.
    pub(crate) fn wait(&self) {
        let open = self.open();
        // As libibverbs does: as long as it takes the program.
        let waited = self.changed.wait_while(open, |open| *open > 0);
        drop(waited);
    }
}
