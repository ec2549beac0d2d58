//! How much host memory a configuration takes.

use core::mem::size_of;

use atomic_waker::AtomicWaker;
use e810_adminq::tree::Tree;
use e810_ceq::EventLog;
use e810_cqp::Cqp;
use e810_cqp::hmc::Hmc;
use e810_datapath::slot::Layout;
use e810_hal::{Platform, Vector};

use crate::channel::CHANNELS;
use crate::cold::LanReady;
use crate::config::{Config, MAX_CEQS};
use crate::device::{CeqUp, Memory};
use crate::events::{Events, LOGGED};
use crate::ids::words_for;
use crate::limits::{ARPS, PDS};
use crate::moderation::Shared;

/// Allocations that a bring-up makes at most, for an allocator that adds to each.
pub const HOST_ALLOCATIONS: usize = 24;

impl Config {
    /// Bytes of host memory that a bring-up takes at most, in at most
    /// [`HOST_ALLOCATIONS`] pieces; objects that are made later take none, but for
    /// lists of pages in two levels, and the first multicast group. A constant can
    /// size a pool by it:
    ///
    /// ```
    /// use e810::{Config, Platform};
    ///
    /// const CONFIG: Config = Config::cold(1500);
    /// const fn pool<P: Platform>() -> usize {
    ///     CONFIG.host_bytes::<P>()
    /// }
    /// ```
    #[must_use]
    pub const fn host_bytes<P: Platform>(&self) -> usize {
        let capacity = &self.capacity;
        let qps = match capacity.qps.checked_next_power_of_two() {
            Some(qps) => qps,
            None => u32::MAX,
        };
        let layout = Layout {
            cqs: capacity.cqs,
            qps,
            channels: CHANNELS,
            tracker_words: qps.saturating_mul(self.tracker_words_per_qp),
        };
        let [segments, pbles, slabs] = Hmc::<P>::host_words(capacity);
        let places = MAX_CEQS + 1;
        // Each shared buffer has a word of its own in front.
        let shared: [usize; 16] = [
            Cqp::<P>::host_words(self.cqp_entries),
            segments,
            pbles,
            layout.words(),
            words_for(PDS),
            words_for(capacity.mrs),
            words_for(capacity.cqs),
            words_for(qps),
            words_for(capacity.ahs),
            capacity.mrs.div_ceil(8) as usize,
            PDS as usize,
            capacity.cqs as usize,
            words::<AtomicWaker>(CHANNELS as usize),
            words::<EventLog<LOGGED>>(1),
            Shared::<P>::words(capacity.cqs),
            if capacity.arps < ARPS {
                capacity.arps as usize
            } else {
                ARPS as usize
            },
        ];
        let own: [usize; 8] = [
            slabs,
            words::<Memory<P>>(1),
            words::<CeqUp<P>>(MAX_CEQS),
            // As they are in the lists of vectors: with a mark beside them.
            words::<(Vector, bool)>(places),
            words::<Vector>(places),
            words::<Events<P>>(places),
            words::<Tree>(1),
            words::<LanReady<P>>(1),
        ];
        const { assert!(HOST_ALLOCATIONS == 16 + 8) };
        shared
            .len()
            .saturating_add(sum(&shared))
            .saturating_add(sum(&own))
            .saturating_mul(8)
    }
}

const fn sum(mut words: &[usize]) -> usize {
    let mut sum = 0usize;
    while let [first, rest @ ..] = words {
        sum = sum.saturating_add(*first);
        words = rest;
    }
    sum
}

/// 64-bit words for so many values.
const fn words<T>(count: usize) -> usize {
    size_of::<T>().saturating_mul(count).div_ceil(8)
}
