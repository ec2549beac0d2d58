//! The send queue: writes requests straight into the cells of the ring.
//!
//! ```text
//! body words ─ to_device ─ header (valid bit) ─ ... ─ to_device ─ PFPE_WQEALLOC
//! ```
//! Each request is valid for the device as soon as its header is. The doorbell is rung once for
//! each list, after the header of the last posted request, even if a later request of the list
//! was refused; it is never rung when nothing was posted.

use core::fmt;

use e810_hal::regs::PFPE_WQEALLOC;
use e810_hal::{Barrier, Bus, DmaWords};
use e810_types::{QpType, WorkQueue};

use crate::error::{Bound, PostError, SizeError};
use crate::producer::{Producer, Shape};
use crate::sizing::{MAX_INLINE, MAX_SGES, SQ_RESERVE};
use crate::slot::{QpKey, SlotMemory, Slots};
use crate::wr::{ExtraOps, SendFlags};

mod errors;
mod fast_path;
mod list;
mod plan;
mod read_fence;
mod ring_space;
mod slow_path;

pub(crate) use errors::too_long;
pub use fast_path::OneSge;
pub use list::SendList;
pub use plan::SendPlan;
use read_fence::ReadFence;
use ring_space::CLEAR;

/// Quanta that stay free while the queue runs (data-path 1.1).
const RUN_RESERVE: u64 = SQ_RESERVE as u64 - 1;

/// Address handles that a header can name (data-path 1.4, row AHID).
const MAX_HANDLES: u32 = 1 << 25;

/// What a send queue was created with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SendLimits {
    /// Kind of service.
    pub qp_type: QpType,
    /// Most SGEs of a request, at most 13.
    pub max_sge: u32,
    /// Most inline bytes of a request, at most 101.
    pub max_inline: u32,
    /// Address handles of the device: a datagram names one below this.
    pub address_handles: u32,
    /// Every request is signaled.
    pub signal_all: bool,
    /// Local invalidations and fast registrations carry LOCALFENCE, whatever their
    /// flags say.
    pub local_fence: bool,
    /// After this many READs the next carries FENCE, whatever its flags say; 0 for none. A queue
    /// with such a rate posts its READs a little more slowly.
    pub read_fence_rate: u8,
    /// Operations offered beyond those of this generation.
    #[cfg_attr(feature = "defmt", defmt(Debug2Format))]
    pub extra: ExtraOps,
}

/// A send queue. `P` rings the doorbell, `W` is the ring, `M` the slot table.
pub struct SendQueue<P, W, M: SlotMemory> {
    platform: P,
    producer: Producer<W, M>,
    limits: SendLimits,
    /// Flags of every request.
    always: SendFlags,
    /// Flags of every READ, where it is posted on the fast path.
    always_read: SendFlags,
    read_fence: ReadFence,
    datagram: bool,
}

/// Not a flag of any request: it is set for every request of a queue that has none for the fast
/// path.
const NEVER_PLAIN: SendFlags = SendFlags::from_bits_retain(1 << 7);
/// Flags that a request of the fast path may have: the lowest bits.
const PLAIN: SendFlags = SendFlags::FENCE
    .union(SendFlags::LOCAL_FENCE)
    .union(SendFlags::SIGNALED);

const _: () = assert!(PLAIN.bits() == 7);

const MEMORY: PostError = PostError::Memory {
    queue: WorkQueue::Send,
};

/// Without the platform, which every queue of a device has.
impl<P, W, M: SlotMemory> fmt::Debug for SendQueue<P, W, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendQueue")
            .field("producer", &self.producer)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> SendQueue<P, W, M> {
    /// The send queue of an opened QP, on `ring`: zeroed memory of at least the
    /// quanta that the QP was opened with.
    ///
    /// # Errors
    /// [`SizeError`]: limits beyond the device, a ring smaller than the QP's,
    /// or one below 512 quanta; `QP` when the QP does not exist.
    pub fn new(
        platform: P,
        ring: W,
        slots: Slots<M>,
        qp: QpKey,
        limits: SendLimits,
    ) -> Result<Self, SizeError> {
        for (field, value, limit) in [
            ("max_send_sge", limits.max_sge, MAX_SGES),
            ("max_inline_data", limits.max_inline, MAX_INLINE),
            ("address handles", limits.address_handles, MAX_HANDLES),
        ] {
            if value > limit {
                return Err(SizeError {
                    field,
                    value: value.into(),
                    bound: Bound::AtMost(limit.into()),
                });
            }
        }
        // Below that, the reserve leaves no room.
        let least = u64::from(SQ_RESERVE).next_power_of_two();
        let shape = Shape {
            least,
            reserve: RUN_RESERVE,
            run: CLEAR,
        };
        let producer = Producer::new(ring, &slots, qp, WorkQueue::Send, shape)?;
        let mut always = SendFlags::empty();
        always.set(SendFlags::SIGNALED, limits.signal_all);
        if limits.qp_type.is_datagram() || limits.max_sge == 0 {
            always = always.union(NEVER_PLAIN);
        }
        // A READ that may have to be fenced takes the path that counts it; other requests are not
        // slowed by that.
        let always_read = match limits.read_fence_rate {
            0 => always,
            _ => always.union(NEVER_PLAIN),
        };
        Ok(Self {
            platform,
            producer,
            limits,
            always,
            always_read,
            read_fence: ReadFence::new(limits.read_fence_rate),
            datagram: limits.qp_type.is_datagram(),
        })
    }

    /// Tells the device: orders the headers before the doorbell.
    #[inline(always)]
    fn ring(&self) {
        self.platform.to_device();
        PFPE_WQEALLOC.set(&self.platform, self.producer.qp_id());
    }

    /// Restarts with an empty ring, after the QP was destroyed and created again under the same
    /// number ([`Registry::reopen`](crate::Registry::reopen)): empty, from
    /// quantum 0 on.
    ///
    /// # Errors
    /// As [`new`](Self::new), with the queue unchanged.
    pub fn restart(&mut self, qp: QpKey) -> Result<(), SizeError> {
        self.producer.restart(qp)?;
        self.read_fence = ReadFence::new(self.limits.read_fence_rate);
        Ok(())
    }

    /// Quanta free for requests and their padding.
    #[must_use]
    pub fn free_quanta(&mut self) -> u32 {
        self.producer.refresh() as u32
    }

    /// The QP that it posts for.
    #[must_use]
    pub const fn key(&self) -> QpKey {
        self.producer.key()
    }

    /// Gives the ring back, once the QP is destroyed.
    pub fn into_ring(self) -> W {
        self.producer.into_ring()
    }
}
