//! Frames from outside, which a thread fetches from the uplink.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::link::{LinkCounts, Uplink};
use crate::machine::Machine;

/// Frames that one call fetches.
pub(super) const FRAMES: usize = 64;

/// What [`Sim::take_from_uplink`](crate::Sim::take_from_uplink) has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FromUplink {
    /// Frames that were taken.
    pub frames: usize,
    /// How often programs have polled, and so looked for frames, since the last call.
    pub polls: u32,
}

/// Where frames from outside come in, in real time.
#[derive(Debug, Default)]
pub(super) struct Inlet {
    /// Locked while frames are taken: one thread at a time keeps their order.
    taking: Mutex<Option<Arc<dyn Uplink>>>,
    is_set: AtomicBool,
    /// Frames may go to functions past the link.
    direct: AtomicBool,
    polls: AtomicU32,
    /// Frames that are not in the link's counts yet.
    counts: Mutex<LinkCounts>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inlet {
    pub(super) fn set(&self, uplink: Option<Arc<dyn Uplink>>) {
        self.is_set.store(uplink.is_some(), Ordering::Relaxed);
        *locked(&self.taking) = uplink;
    }

    pub(super) fn set_direct(&self, direct: bool) {
        self.direct.store(direct, Ordering::Relaxed);
    }

    pub(super) fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed)
    }

    pub(super) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    /// A program polls. Returns whether there is an uplink.
    pub(super) fn poll(&self) -> bool {
        let is_set = self.is_set();
        if is_set {
            // Not exact if several do it, and that much is not needed.
            let polls = self.polls.load(Ordering::Relaxed);
            self.polls.store(polls.saturating_add(1), Ordering::Relaxed);
        }
        is_set
    }

    pub(super) fn take_polls(&self) -> u32 {
        self.polls.swap(0, Ordering::Relaxed)
    }

    /// Calls `take` with the uplink, if there is one and no other thread does this.
    pub(super) fn with(&self, take: impl FnOnce(&dyn Uplink)) {
        let Ok(taking) = self.taking.try_lock() else {
            return;
        };
        if let Some(uplink) = &*taking {
            take(&**uplink);
        }
    }

    pub(super) fn count(&self, counts: &mut LinkCounts) {
        locked(&self.counts).absorb(counts);
    }

    pub(super) fn take_counts(&self) -> LinkCounts {
        std::mem::take(&mut locked(&self.counts))
    }
}

/// Takes frames in virtual time, where they go over the link.
pub(super) fn take_into(machine: &mut Machine) -> FromUplink {
    let Some(uplink) = machine.link.uplink().cloned() else {
        return FromUplink::default();
    };
    let mut frames = 0;
    uplink.take(FRAMES, &mut |frame| {
        frames += 1;
        machine.inject_frames([frame].into_iter());
        true
    });
    FromUplink { frames, polls: 0 }
}
