//! Reference counts: an object in use cannot be destroyed (EBUSY).

use core::sync::atomic::{AtomicU64, Ordering};

use e810_hal::{HostBuf, HostMem, NoHostMemory};

/// A reference count for each id.
#[derive(Debug)]
pub(crate) struct RefCounts<P: HostMem>(HostBuf<P>);

impl<P: HostMem> RefCounts<P> {
    /// No users, for ids below `limit`.
    pub(crate) fn new(platform: P, limit: u32) -> Result<Self, NoHostMemory> {
        HostBuf::new(platform, limit as usize).map(Self)
    }

    /// Users of `id`; 0 past the limit.
    pub(crate) fn get(&self, id: u32) -> u32 {
        self.word(id)
            .map_or(0, |users| users.load(Ordering::Relaxed) as u32)
    }

    /// One more.
    pub(crate) fn inc(&self, id: u32) {
        if let Some(users) = self.word(id) {
            users.store(
                users.load(Ordering::Relaxed).wrapping_add(1),
                Ordering::Relaxed,
            );
        }
    }

    /// One less.
    pub(crate) fn dec(&self, id: u32) {
        if let Some(users) = self.word(id) {
            users.store(
                users.load(Ordering::Relaxed).saturating_sub(1),
                Ordering::Relaxed,
            );
        }
    }

    fn word(&self, id: u32) -> Option<&AtomicU64> {
        self.0.word(id as usize)
    }
}
