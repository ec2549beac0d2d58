//! The completion event queues and their vectors (steps 16 to 18).

use e810_ceq::{Ceq, CeqEntries, Itr, VectorMap, irq};
use e810_cqp::Cqp;
use e810_cqp::hmc::Object as HmcObject;
use e810_cqp::op::{CreateCeq, DestroyCeq, QueueMemory};
use e810_hal::{CeqId, DmaBuf, Platform, Vector};
use heapless::Vec;

use super::{CcqUp, Device, Failed, HmcUp};
use crate::config::{Config, MAX_CEQS};
use crate::error::Result;

/// A completion event queue and what it was created with.
#[derive(Debug)]
pub(super) struct CeqUp<P: Platform> {
    pub(super) id: CeqId,
    pub(super) vector: Vector,
    pub(super) queue: Ceq<DmaBuf<P>>,
}

/// The completion event queues interrupt.
#[derive(Debug)]
pub struct CeqsUp<P: Platform> {
    pub(super) below: HmcUp<P>,
    pub(super) wiring: Wiring,
    pub(super) ceqs: Vec<CeqUp<P>, MAX_CEQS>,
}

/// Which queue is on which vector, and how large.
#[derive(Debug)]
pub(super) struct Wiring {
    pub(super) map: VectorMap,
    pub(super) vectors: Vec<Vector, { MAX_CEQS + 1 }>,
    pub(super) ceq_entries: CeqEntries,
}

impl<P: Platform> Device<P, CcqUp<P>> {
    /// Creates the completion event queues and wires them to vectors (steps 16
    /// to 18).
    ///
    /// # Errors
    /// No vector, no memory, a failed command; all queues made so far are
    /// destroyed again.
    pub fn create_ceqs(mut self) -> Result<Device<P, CeqsUp<P>>, Failed<P, CcqUp<P>>> {
        let below = &mut self.stage.below;
        let device_ceqs = below.hmc.query.max_ceqs;
        let wanted = self.config.ceqs.min(MAX_CEQS as u16);
        let mut vectors = Vec::new();
        while vectors.len() <= usize::from(wanted)
            && let Some(vector) = self.platform.vector_alloc()
        {
            // As many places as the loop has turns.
            let _ = vectors.push(vector);
        }
        let planned = VectorMap::plan(vectors.len() as u16, wanted, device_ceqs).and_then(|map| {
            let cqs = below.hmc.count(HmcObject::Cq);
            Ok((map, CeqEntries::for_cqs(cqs)?))
        });
        let (map, ceq_entries) = match planned {
            Ok(planned) => planned,
            Err(error) => {
                give_vectors(&self.platform, &mut vectors, 0);
                return Err((self, error.into()));
            }
        };
        let mut wiring = Wiring {
            map,
            vectors,
            ceq_entries,
        };
        let mut ceqs = Vec::new();
        match fill_ceqs(&self.platform, &self.config, below, &wiring, &mut ceqs) {
            Ok(()) => {
                give_vectors(&self.platform, &mut wiring.vectors, map.vectors());
                Ok(self.map(|CcqUp { below }| CeqsUp {
                    below,
                    wiring,
                    ceqs,
                }))
            }
            Err(error) => {
                // The first error says more than one that undoing may add.
                let _ = destroy_ceqs(&self.platform, &mut below.cqp, ceqs, ceq_entries);
                give_vectors(&self.platform, &mut wiring.vectors, 0);
                Err((self, error))
            }
        }
    }
}

impl<P: Platform> Device<P, CeqsUp<P>> {
    /// Undoes everything in order. A queue that the device refuses to destroy
    /// stays with it; the rest is undone all the same.
    ///
    /// # Errors
    /// The first step that failed; what the device may still use is leaked.
    pub fn shutdown(self) -> Result<()> {
        let (stage, rest) = self.take();
        let CeqsUp {
            mut below,
            mut wiring,
            ceqs,
        } = stage;
        let entries = wiring.ceq_entries;
        let destroyed = destroy_ceqs(&rest.platform, &mut below.cqp, ceqs, entries);
        give_vectors(&rest.platform, &mut wiring.vectors, 0);
        if destroyed.is_err_and(|error| error.leaves_command_open()) {
            // Nothing of the engine below gets an answer either.
            return rest.end(destroyed);
        }
        destroyed.and(rest.with(CcqUp { below }).shutdown())
    }
}

/// Gives back the vectors from place `keep` on.
pub(super) fn give_vectors<P: Platform>(
    platform: &P,
    vectors: &mut Vec<Vector, { MAX_CEQS + 1 }>,
    keep: u16,
) {
    while vectors.len() > usize::from(keep)
        && let Some(vector) = vectors.pop()
    {
        platform.vector_free(vector);
    }
}

fn fill_ceqs<P: Platform>(
    platform: &P,
    config: &Config,
    below: &mut HmcUp<P>,
    wiring: &Wiring,
    ceqs: &mut Vec<CeqUp<P>, MAX_CEQS>,
) -> Result<()> {
    let cqs = below.hmc.count(HmcObject::Cq);
    let entries = wiring.ceq_entries;
    for number in 0..wiring.map.ceqs() {
        let Some((id, vector)) = CeqId::new(number).and_then(|id| {
            let place = wiring.map.ceq_place(id)?;
            Some((id, *wiring.vectors.get(usize::from(place))?))
        }) else {
            break;
        };
        let memory = DmaBuf::new(platform.clone(), entries.layout())?;
        let command = CreateCeq {
            ceq: id,
            entries: entries.get(),
            memory: QueueMemory::Contiguous(memory.iova()),
            vsi: config.lan.vsi,
            itr_no_expire: false,
            processing_hint: None,
        };
        if let Err(error) = below.cqp.execute(&command) {
            if !error.leaves_command_open() {
                memory.release();
            }
            return Err(error.into());
        }
        irq::bind_ceq(platform, id, vector, Itr::NONE);
        platform.vector_affinity(vector, number.into());
        let queue = Ceq::new(memory, entries, cqs)?;
        // As many places as CEQs are planned at most.
        let _ = ceqs.push(CeqUp { id, vector, queue });
        if number == 0 {
            // CEQ 0 exists: the CCQ may raise events (step 17).
            below.cqp.arm_ccq()?;
        }
    }
    Ok(())
}

/// CEQs above 0 first, then CEQ 0 (control-path 3.4). Goes on after a refusal
/// and reports the first; a device that does not answer is not asked again,
/// because each wait takes seconds.
fn destroy_ceqs<P: Platform>(
    platform: &P,
    cqp: &mut Cqp<P>,
    mut ceqs: Vec<CeqUp<P>, MAX_CEQS>,
    entries: CeqEntries,
) -> Result<()> {
    let mut result: Result<()> = Ok(());
    while let Some(ceq) = ceqs.pop() {
        irq::unbind_ceq(platform, ceq.id, ceq.vector);
        if result.is_err_and(|error| error.leaves_command_open()) {
            continue;
        }
        let memory = ceq.queue.into_memory();
        let command = DestroyCeq {
            ceq: ceq.id,
            entries: entries.get(),
            memory: QueueMemory::Contiguous(memory.iova()),
            processing_hint: false,
        };
        match cqp.execute(&command) {
            Ok(_) => memory.release(),
            Err(error) => result = result.and(Err(error.into())),
        }
    }
    result
}
