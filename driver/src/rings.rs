//! Rings of a program that keeps the control path elsewhere. The program allocates their memory
//! itself before it asks for the object. The control path answers with plain data ([`CqGrant`],
//! [`QpGrant`]), from which the program makes the part that it polls or posts to.
//!
//! [`Control::create_cq`](crate::Control::create_cq) and
//! [`Control::create_qp`](crate::Control::create_qp) do all of this for programs that have the
//! control path beside the rings.

use e810_datapath::sizing::{RqSize, SqSize};
use e810_datapath::slot::{CqKey, QpKey, QpShape, Slots};
use e810_datapath::{CompletionQueue, RecvQueue, SendLimits, SendQueue};
use e810_hal::{CeqId, DmaBuf, DmaLayout, HostBuf, Iova, Platform};
use e810_types::QpType;

use crate::attr::{QpCaps, Qpn};
use crate::cq::CqRing;
use crate::cq_memory::{CqMemory, RING_ALIGN};
use crate::error::{Error, Result};
use crate::moderation::{Pacer, Shared};
use crate::qp::{QpRecv, QpSend};

/// Memory of a queue pair, zeroed: its two rings.
#[derive(Debug)]
#[must_use = "it is freed with `release`"]
pub struct QpMemory<P: Platform> {
    sq: DmaBuf<P>,
    rq: DmaBuf<P>,
}

/// Where the rings of a queue pair are, for the device; their sizes follow from its
/// [`QpCaps`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct QpPlace {
    /// The send ring, 256-byte aligned.
    pub sq: Iova,
    /// The receive ring, 256-byte aligned.
    pub rq: Iova,
}

/// Sizes of both queues of a queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) sq: SqSize,
    pub(crate) rq: RqSize,
}

/// An object that could not be made on the program's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotMade {
    /// Why.
    pub error: Error,
    /// The device did not answer, and may use the memory. Free the memory of a queue pair once
    /// [`Control::may_use`](crate::Control::may_use) returns `false`, that of a completion queue
    /// after a reset.
    pub may_use_memory: bool,
}

/// What the ring of a completion queue needs to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CqGrant {
    pub(crate) owner: u64,
    pub(crate) key: CqKey,
    pub(crate) entries: u32,
    pub(crate) ceq: CeqId,
}

/// What the queues of a queue pair need to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct QpGrant {
    pub(crate) owner: u64,
    pub(crate) key: QpKey,
    pub(crate) limits: SendLimits,
    pub(crate) sq_quanta: u32,
    pub(crate) rq: RqSize,
    pub(crate) max_recv_sge: u32,
    pub(crate) send_cq: CqKey,
    pub(crate) recv_cq: CqKey,
}

/// Makes rings from memory and a grant: [`Control::rings`](crate::Control::rings).
#[derive(Clone, Debug)]
pub struct Rings<P: Platform> {
    pub(crate) platform: P,
    pub(crate) slots: Slots<HostBuf<P>>,
    pub(crate) moderation: Shared<P>,
}

impl From<Error> for NotMade {
    fn from(error: Error) -> Self {
        Self {
            error,
            may_use_memory: false,
        }
    }
}

impl Sizes {
    pub(crate) fn of(caps: &QpCaps) -> Result<Self> {
        let wrong = e810_datapath::Error::from;
        Ok(Self {
            sq: SqSize::new(caps.max_send_wr, caps.max_send_sge, caps.max_inline).map_err(wrong)?,
            rq: RqSize::new(caps.max_recv_wr, caps.max_recv_sge).map_err(wrong)?,
        })
    }
}

impl QpPlace {
    /// Where the device reads: the first address of each ring, and how many bytes, for a queue pair
    /// with these capacities.
    ///
    /// # Errors
    /// Sizes beyond the device's.
    pub fn spans(&self, caps: &QpCaps) -> Result<[(Iova, u64); 2]> {
        let sizes = Sizes::of(caps)?;
        let (sq, rq) = (sizes.sq.bytes(), sizes.rq.bytes());
        Ok([(self.sq, sq.into()), (self.rq, rq.into())])
    }
}

impl<P: Platform> QpMemory<P> {
    pub(crate) fn new(platform: &P, caps: &QpCaps) -> Result<Self> {
        let sizes = Sizes::of(caps)?;
        let ring = |bytes: u32| {
            let layout = DmaLayout::new(bytes as usize, RING_ALIGN);
            DmaBuf::new(platform.clone(), layout)
        };
        let sq = ring(sizes.sq.bytes())?;
        match ring(sizes.rq.bytes()) {
            Ok(rq) => Ok(Self { sq, rq }),
            Err(error) => {
                sq.release();
                Err(error.into())
            }
        }
    }

    /// What the device is told.
    #[must_use]
    pub fn place(&self) -> QpPlace {
        QpPlace {
            sq: self.sq.iova(),
            rq: self.rq.iova(),
        }
    }

    /// Frees it. The device must not be using it.
    pub fn release(self) {
        self.sq.release();
        self.rq.release();
    }
}

impl CqGrant {
    /// The number of the completion queue.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.key.id()
    }

    /// Its name in what its owner tells of it.
    #[must_use]
    pub const fn key(&self) -> CqKey {
        self.key
    }

    /// Completions that it has room for. One with immediate data takes two places.
    #[must_use]
    pub const fn entries(&self) -> u32 {
        self.entries
    }
}

impl QpGrant {
    /// Kind of service.
    #[must_use]
    pub const fn qp_type(&self) -> QpType {
        self.limits.qp_type
    }

    /// The number of the queue pair, for the peer.
    #[must_use]
    pub const fn number(&self) -> Qpn {
        Qpn(self.key.id())
    }
}

impl QpGrant {
    pub(crate) const fn shape(&self) -> QpShape {
        QpShape {
            sq_quanta: self.sq_quanta,
            rq_quanta: self.rq.quanta(),
            qp_type: self.limits.qp_type,
            send_cq: self.send_cq,
            recv_cq: self.recv_cq,
        }
    }
}

impl<P: Platform> Rings<P> {
    /// Memory of a completion queue for at least `cqe` completions.
    ///
    /// # Errors
    /// A size outside 1..=1048574, no memory.
    pub fn cq_memory(&self, cqe: u32) -> Result<CqMemory<P>> {
        CqMemory::new(&self.platform, cqe)
    }

    /// Memory for a queue pair with `caps`.
    ///
    /// # Errors
    /// Sizes beyond the device's, no memory.
    pub fn qp_memory(&self, caps: &QpCaps) -> Result<QpMemory<P>> {
        QpMemory::new(&self.platform, caps)
    }

    /// The ring of a completion queue that was made on this memory.
    ///
    /// # Errors
    /// The grant does not fit the memory, or is no longer valid. The memory stays allocated: the
    /// device may use it.
    pub fn cq(&self, memory: CqMemory<P>, granted: &CqGrant) -> Result<CqRing<P>> {
        let CqGrant {
            owner,
            key,
            entries,
            ceq,
        } = *granted;
        let (platform, slots) = (self.platform.clone(), self.slots.clone());
        let CqMemory { ring, shadow } = memory;
        let queue = CompletionQueue::new(platform, ring.ring, shadow, slots, key, entries)
            .map_err(e810_datapath::Error::from)?;
        let (platform, moderation) = (self.platform.clone(), self.moderation.clone());
        let pacer = Pacer::new(platform, moderation, key.id(), ceq);
        Ok(CqRing::new(owner, queue, pacer))
    }

    /// The queues of a queue pair that was made on this memory.
    ///
    /// # Errors
    /// As [`cq`](Self::cq).
    pub fn qp(&self, memory: QpMemory<P>, granted: &QpGrant) -> Result<(QpSend<P>, QpRecv<P>)> {
        let wrong = e810_datapath::Error::from;
        let QpMemory { sq, rq } = memory;
        let (owner, key) = (granted.owner, granted.key);
        let (platform, slots) = (self.platform.clone(), self.slots.clone());
        let send = SendQueue::new(platform, sq, slots, key, granted.limits).map_err(wrong)?;
        let (platform, slots) = (self.platform.clone(), self.slots.clone());
        let recv = RecvQueue::new(platform, rq, slots, key, granted.rq, granted.max_recv_sge)
            .map_err(wrong)?;
        Ok((QpSend { owner, queue: send }, QpRecv { owner, queue: recv }))
    }
}
