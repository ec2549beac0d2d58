//! What passed a wire, and what did not.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts that sender and receiver share; [`LinkReport`](crate::LinkReport) says what each is.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) sent: Count,
    pub(crate) sent_to_all: Count,
    pub(crate) sent_by_ring: Count,
    pub(crate) rings_full: Count,
    pub(crate) received_by_ring: Count,
    pub(crate) not_sent: Count,
    pub(crate) received: Count,
    pub(crate) not_ours: Count,
    pub(crate) strangers: Count,
    pub(crate) no_frame: Count,
    pub(crate) too_long: Count,
    pub(crate) truncated: Count,
    pub(crate) own_addresses: Count,
    pub(crate) receive_errors: Count,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// One more; the number before.
    pub(crate) fn one(&self) -> u64 {
        self.many(1)
    }

    /// So many more; the number before.
    pub(crate) fn many(&self, more: usize) -> u64 {
        self.0.fetch_add(more as u64, Ordering::Relaxed)
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
