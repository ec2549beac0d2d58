//! Resizing a completion queue in use.

use e810_cqp::op::{CqAttributes, CreateCq, ModifyCq, QueueMemory};
use e810_datapath::sizing::CqSize;
use e810_hal::{DmaBuf, DmaLayout, Platform};

use super::cq::RING_ALIGN;
use super::{Control, run};
use crate::cq::{Cq, CqControl};
use crate::error::{Error, Object, Result};
use crate::handover::CqResized;

impl<P: Platform> Control<P> {
    /// Gives a completion queue room for at least `cqe` completions, while it
    /// works: a new ring is allocated, the device told to go on there, the old
    /// one polled until it is empty and then freed. Nothing is lost and nothing
    /// comes twice; completions that wait in the old ring come first, however
    /// small the new one is. The size that it has already changes nothing.
    ///
    /// # Errors
    /// A size outside 1..=1048574, no memory, four resizes under way with completions that were
    /// not polled, or the device's refusal; the queue is unchanged then, unless
    /// the device did not answer: it may go on in either ring, and the function
    /// has to be reset.
    #[doc(alias = "ibv_resize_cq")]
    pub fn resize_cq(&mut self, cq: &mut Cq<P>, cqe: u32) -> Result<()> {
        self.own(cq.owner, Object::Cq, cq.key.id())?;
        if !cq.ring.can_resize() {
            return Err(Error::Invalid {
                what: "four resizes of this completion queue are under way: poll it, and try again",
            });
        }
        match self.resize_cq_control(cq, cqe)? {
            Some(resized) => cq.ring.resized(resized),
            None => Ok(()),
        }
    }

    /// As [`resize_cq`](Self::resize_cq), for a program that keeps the ring elsewhere:
    /// it asks [`CqRing::can_resize`](crate::CqRing::can_resize) before, polls no more, and
    /// gives the ring what this returns; `None` where the size is that already.
    ///
    /// # Errors
    /// As there.
    pub fn resize_cq_control(
        &mut self,
        cq: &mut CqControl,
        cqe: u32,
    ) -> Result<Option<CqResized<P>>> {
        self.usable_cq(cq)?;
        let size = CqSize::new(cqe).map_err(e810_datapath::Error::from)?;
        if size.entries == cq.attributes.entries {
            return Ok(None);
        }
        let layout = DmaLayout::new(size.bytes() as usize, RING_ALIGN);
        let ring = DmaBuf::new(self.platform.clone(), layout)?;
        let attributes = CqAttributes {
            entries: size.entries,
            memory: QueueMemory::Contiguous(ring.iova()),
            ..cq.attributes
        };
        let created = CreateCq::new(cq.made, self.lan.vsi);
        let result = run(
            &mut self.cqp,
            &ModifyCq {
                cq: attributes,
                // As at the creation (data-path 4.9).
                shadow_threshold: created.shadow_threshold,
                vsi: self.lan.vsi,
                check_overflow: created.check_overflow,
                resize: true,
            },
        );
        if let Err(error) = result {
            if !error.leaves_command_open() {
                ring.release();
            }
            return Err(error);
        }
        cq.attributes = attributes;
        Ok(Some(CqResized {
            owner: cq.owner,
            key: cq.key,
            memory: ring,
            entries: size.entries,
        }))
    }
}
