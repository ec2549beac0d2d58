//! How much memory a configuration takes.

use core::mem::size_of;

use atomic_waker::AtomicWaker;
use e810_adminq::tree::Tree;
use e810_ceq::{AeqEntries, CeqEntries, EventLog};
use e810_cqp::hmc::{FpmQuery, Hmc, Plan};
use e810_cqp::{Cqp, dma_bytes};
use e810_datapath::sizing::{CqSize, RqSize, SqSize};
use e810_datapath::slot::{Layout, QpShape};
use e810_hal::{Platform, Vector};

use crate::attr::QpCaps;
use crate::channel::CHANNELS;
use crate::config::{Config, MAX_CEQS};
use crate::control::{ARP_WORDS, CeqUp, Memory, PAIR_BYTES, Unanswered, stop_words};
use crate::events::{LOGGED, VectorEvents};
use crate::ids::words_for;
use crate::lan::LanSide;
use crate::limits::ARPS;
use crate::moderation::Shared;

/// Upper limit of the allocations of a bring-up, for an allocator that adds to each.
pub const HOST_ALLOCATIONS: usize = 27;

impl Config {
    /// Upper limit of the bytes of host memory that a bring-up takes, in at most
    /// [`HOST_ALLOCATIONS`] pieces. Objects that are made later take no host memory, except for
    /// page lists in two levels and the first multicast group. A constant can size a pool by it:
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
        let qps = self.qps();
        let layout = Layout {
            cqs: capacity.cqs,
            qps,
            channels: CHANNELS,
            tracker_words: qps.saturating_mul(self.tracker_words_per_qp),
        };
        let [segments, pbles, slabs] = Hmc::<P>::host_words(capacity);
        let places = MAX_CEQS + 1;
        // Each shared buffer has a word of its own in front.
        let shared: [usize; 17] = [
            Cqp::<P>::host_words(self.cqp_entries),
            segments,
            pbles,
            layout.words(),
            words_for(self.pds()),
            words_for(capacity.mrs),
            words_for(capacity.cqs),
            words_for(qps),
            stop_words(qps),
            words_for(capacity.ahs),
            capacity.mrs.div_ceil(8) as usize,
            self.pds() as usize,
            capacity.cqs as usize,
            words::<AtomicWaker>(CHANNELS as usize),
            words::<EventLog<LOGGED>>(1),
            Shared::<P>::words(capacity.cqs),
            ARP_WORDS
                * if capacity.arps < ARPS {
                    capacity.arps as usize
                } else {
                    ARPS as usize
                },
        ];
        let own: [usize; 10] = [
            slabs,
            Cqp::<P>::late_words(),
            words::<Unanswered<P>>(1),
            words::<Memory<P>>(1),
            words::<CeqUp<P>>(MAX_CEQS),
            // As they are in the lists of vectors: each with a flag.
            words::<(Vector, bool)>(places),
            words::<Vector>(places),
            words::<VectorEvents<P>>(places),
            words::<Tree>(1),
            words::<LanSide<P>>(1),
        ];
        const { assert!(HOST_ALLOCATIONS == 17 + 10) };
        shared
            .len()
            .saturating_add(sum(&shared))
            .saturating_add(sum(&own))
            .saturating_mul(8)
    }

    /// Upper limit of the bytes of DMA memory that a bring-up takes on a card whose limits are
    /// `card`, each piece counted in whole pages of 4 KiB. `e810 up --card` prints the limits of
    /// a card. No document states them, so there is no bound for all cards.
    ///
    /// Most of the memory backs the card's own objects, in pieces of 2 MiB with
    /// [`Backing::Full`](crate::hmc::Backing::Full) if the card packs them `[inf packed_objects]`.
    /// Those pieces are also aligned to 2 MiB, for which nothing is added here. Later, queues that
    /// are created take memory ([`QpCaps::dma_bytes`], [`cq_dma_bytes`]), and so does the card: for
    /// lists of pages (8 bytes for each page), and with
    /// [`Backing::OnDemand`](crate::hmc::Backing::OnDemand) for what backs objects that are used.
    ///
    /// ```
    /// use e810::Config;
    /// use e810::hmc::{FpmQuery, Object, ObjectLimits};
    ///
    /// // With many more objects.
    /// const CARD: FpmQuery = FpmQuery {
    ///     max_sds: 3776,
    ///     ..FpmQuery::NOTHING.with(Object::Qp, ObjectLimits { max: 1024, bytes: 1024 })
    /// };
    /// const POOL: u64 = Config::cold(1500).dma_bytes(&CARD);
    /// ```
    #[must_use]
    pub const fn dma_bytes(&self, card: &FpmQuery) -> u64 {
        let [cqp, ccq] = dma_bytes(self.cqp_entries);
        let cqs = self.capacity.cqs;
        let ceqs = if (self.ceqs as usize) < MAX_CEQS {
            self.ceqs as usize
        } else {
            MAX_CEQS
        };
        let (ceq, aeq) = match (
            CeqEntries::for_cqs(cqs),
            AeqEntries::for_objects(self.qps(), cqs),
        ) {
            (Ok(ceq), Ok(aeq)) => (ceq.layout().bytes(), aeq.layout().bytes()),
            // No objects: the bring-up refuses it.
            _ => (0, 0),
        };
        let pieces = [
            e810_adminq::DMA_BYTES,
            cqp,
            // One question to the card and its answer at a time.
            PAGE,
            ccq,
            aeq,
            (self.qps() as usize).saturating_mul(PAIR_BYTES),
        ];
        let mut all = in_pages(ceq).saturating_mul(ceqs);
        let mut rest: &[usize] = &pieces;
        while let [piece, others @ ..] = rest {
            all = all.saturating_add(in_pages(*piece));
            rest = others;
        }
        Plan::max_backing_bytes(card, &self.capacity, self.backing).saturating_add(all as u64)
    }

    /// The number of QPs is a power of two.
    const fn qps(&self) -> u32 {
        match self.capacity.qps.checked_next_power_of_two() {
            Some(qps) => qps,
            None => u32::MAX,
        }
    }
}

impl QpCaps {
    /// Words of [`Config::tracker_words_per_qp`] that a queue pair of this size takes: three for
    /// each quantum of 32 bytes of its rings, in whole blocks. `None` when the card has no such
    /// queue pair.
    ///
    /// ```
    /// use e810::QpCaps;
    ///
    /// const CAPS: QpCaps = QpCaps {
    ///     max_send_wr: 32,
    ///     max_recv_wr: 32,
    ///     max_send_sge: 1,
    ///     max_recv_sge: 1,
    ///     max_inline: 0,
    /// };
    /// // A send ring has 512 quanta at least, 258 of which stay free.
    /// assert_eq!((CAPS.tracker_words(), CAPS.dma_bytes()), (Some(1728), Some(20_480)));
    /// ```
    #[must_use]
    pub const fn tracker_words(&self) -> Option<u32> {
        match self.sizes() {
            Some((sq, rq)) => Some(QpShape::tracker_words(sq.quanta, rq.quanta())),
            None => None,
        }
    }

    /// Bytes of DMA memory of such a queue pair's rings, in whole pages of 4 KiB.
    /// `None` when the card has no such queue pair.
    #[must_use]
    pub const fn dma_bytes(&self) -> Option<usize> {
        match self.sizes() {
            Some((sq, rq)) => {
                let sq = in_pages(sq.bytes() as usize);
                Some(sq.saturating_add(in_pages(rq.bytes() as usize)))
            }
            None => None,
        }
    }

    const fn sizes(&self) -> Option<(SqSize, RqSize)> {
        match (
            SqSize::new(self.max_send_wr, self.max_send_sge, self.max_inline),
            RqSize::new(self.max_recv_wr, self.max_recv_sge),
        ) {
            (Ok(sq), Ok(rq)) => Some((sq, rq)),
            _ => None,
        }
    }
}

/// Bytes of DMA memory of a completion queue for `cqe` completions: its ring and
/// its shadow area, in whole pages of 4 KiB. `None` when the card has no such
/// queue.
#[must_use]
pub const fn cq_dma_bytes(cqe: u32) -> Option<usize> {
    match CqSize::new(cqe) {
        Ok(size) => Some(in_pages(size.bytes() as usize).saturating_add(PAGE)),
        Err(_) => None,
    }
}

/// Bytes of a page: most allocators of DMA memory give whole pages.
const PAGE: usize = 4096;

const fn in_pages(bytes: usize) -> usize {
    bytes.saturating_add(PAGE - 1) & !(PAGE - 1)
}

const fn sum(mut words: &[usize]) -> usize {
    let mut sum = 0usize;
    while let [first, rest @ ..] = words {
        sum = sum.saturating_add(*first);
        words = rest;
    }
    sum
}

/// 64-bit words for `count` values.
const fn words<T>(count: usize) -> usize {
    size_of::<T>().saturating_mul(count).div_ceil(8)
}
