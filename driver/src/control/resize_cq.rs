//! Resizing a completion queue in use.

use e810_cqp::Opcode;
use e810_cqp::op::{CqAttributes, CreateCq, ModifyCq, QueueMemory};
use e810_datapath::sizing::CqSize;
use e810_datapath::slot::CqKey;
use e810_hal::Platform;
use heapless::Vec;

use super::{Control, run_again};
use crate::cq::{Cq, CqControl};
use crate::cq_memory::CqRingPlace;
use crate::error::{Error, Object, Result};
use crate::handover::CqResized;
use crate::rings::NotMade;

/// Upper limit of unanswered resizes; at that number no resize is begun.
const UNANSWERED: usize = 4;

pub(super) type UnansweredResizes = Vec<UnansweredResize, UNANSWERED>;

/// A resize that was not answered: its completion queue can only be destroyed.
#[derive(Debug)]
pub(super) struct UnansweredResize {
    key: CqKey,
    /// The queue's attributes if the device has carried it out.
    attributes: CqAttributes,
}

impl<P: Platform> Control<P> {
    /// Gives a completion queue room for at least `cqe` completions, while it works: allocates a
    /// new ring, tells the device to continue there, and frees the old ring once it is polled
    /// empty. Nothing is lost and nothing comes twice. Completions that wait in the old ring come
    /// first, however small the new one is. Asking for the current size changes nothing.
    ///
    /// # Errors
    /// A size outside 1..=1048574, no memory, four resizes under way with completions that were
    /// not polled, or the device's refusal. The queue is then unchanged, unless the device did
    /// not answer: it may continue in a ring that nobody polls, so the queue can only be
    /// destroyed.
    #[doc(alias = "ibv_resize_cq")]
    pub fn resize_cq(&mut self, cq: &mut Cq<P>, cqe: u32) -> Result<()> {
        self.own(cq.owner, Object::Cq, cq.key.id())?;
        if !cq.ring.can_resize() {
            return Err(Error::Invalid {
                what: "four resizes of this completion queue are under way: poll it, and try again",
            });
        }
        // The current size takes no memory.
        let size = CqSize::new(cqe).map_err(e810_datapath::Error::from)?;
        if size.entries == cq.attributes.entries {
            return self.usable_cq(cq);
        }
        let memory = cq.ring.memory_for(cqe)?;
        match self.resize_cq_control(cq, memory.place()) {
            Ok(Some(resized)) => return cq.ring.resized(memory, resized),
            Ok(None) => memory.release(),
            Err(failed) if failed.may_use_memory => {
                cq.ring.keep(memory);
                return Err(failed.error);
            }
            Err(failed) => {
                memory.release();
                return Err(failed.error);
            }
        }
        Ok(())
    }

    /// As [`resize_cq`](Self::resize_cq), for a program that keeps the ring elsewhere. The
    /// program first asks [`CqRing::can_resize`](crate::CqRing::can_resize), stops polling, and
    /// then gives the ring its memory with the token that this returns; `None` if the size is the
    /// same already.
    ///
    /// # Errors
    /// As there. If the device may use the memory, the ring [keeps](crate::CqRing::keep) it.
    pub fn resize_cq_control(
        &mut self,
        cq: &mut CqControl,
        place: CqRingPlace,
    ) -> Result<Option<CqResized>, NotMade> {
        self.usable_cq(cq)?;
        place.check()?;
        if place.entries == cq.attributes.entries {
            return Ok(None);
        }
        if self.unanswered.resizes.is_full() {
            return Err(NotMade::from(Error::Invalid {
                what: "the device has not answered about four resizes: destroy their completion queues, or reset the function",
            }));
        }
        let CqRingPlace { entries, ring } = place;
        let attributes = CqAttributes {
            entries,
            memory: QueueMemory::Contiguous(ring),
            ..cq.attributes
        };
        let created = CreateCq::new(cq.made, self.lan.vsi);
        let command = ModifyCq {
            cq: attributes,
            // As at the creation (data-path 4.9).
            shadow_threshold: created.shadow_threshold,
            vsi: self.lan.vsi,
            check_overflow: created.check_overflow,
            resize: true,
        };
        if let Err(error) = run_again(&mut self.cqp, &command, cq.key.bits()) {
            let may_use_memory = error.leaves_command_open();
            if may_use_memory {
                // There is room.
                let _ = self.unanswered.resizes.push(UnansweredResize {
                    key: cq.key,
                    attributes,
                });
            }
            return Err(NotMade {
                error,
                may_use_memory,
            });
        }
        cq.attributes = attributes;
        Ok(Some(CqResized {
            owner: cq.owner,
            key: cq.key,
            entries,
        }))
    }

    /// Whether a resize of the completion queue was not answered.
    pub(super) fn has_unanswered_resize(&self, key: CqKey) -> bool {
        self.unanswered.resizes.iter().any(|one| one.key == key)
    }

    /// Waits for the answer to a resize, if one is outstanding, so that DESTROY_CQ names the ring
    /// that the device has.
    pub(super) fn await_resize(&mut self, cq: &mut CqControl) -> Result<()> {
        let mut all = self.unanswered.resizes.iter();
        let Some(resize) = all.find(|one| one.key == cq.key) else {
            return Ok(());
        };
        let subject = cq.key.bits();
        let ended = self.cqp.late_end(Opcode::ModifyCq, subject, true)?;
        if let Some(Ok(_)) = ended {
            cq.attributes = resize.attributes;
        }
        Ok(())
    }

    /// The device no longer has the completion queue.
    pub(super) fn end_resize(&mut self, key: CqKey) {
        let all = &mut self.unanswered.resizes;
        if let Some(place) = all.iter().position(|one| one.key == key) {
            all.swap_remove(place);
        }
    }
}
