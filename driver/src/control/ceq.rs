//! Creating and destroying completion event queues.

use e810_ceq::{Ceq, CeqEntries, Itr, Timer, irq};
use e810_cqp::Cqp;
use e810_cqp::op::{CreateCeq, DestroyCeq, QueueMemory};
use e810_hal::bus::VsiId;
use e810_hal::{CeqId, DmaBuf, HostList, Platform, Vector};

use super::run_again;
use crate::config::CpuHints;
use crate::error::{Error, Result};

/// The CEQ of the CCQ.
pub(crate) const CEQ_0: CeqId = CeqId::ZERO;

/// A completion event queue and what it was created with.
#[derive(Debug)]
pub(crate) struct CeqUp<P: Platform> {
    pub(crate) id: CeqId,
    pub(crate) vector: Vector,
    /// What delays its interrupts.
    pub(crate) timer: Timer,
    pub(crate) queue: Ceq<DmaBuf<P>>,
}

/// Completion event queues, CEQ 0 first.
pub(crate) type CeqList<P> = HostList<P, CeqUp<P>>;

/// Tells the platform which CPU will consume the events of the vector of completion vector
/// `number`, or of events that share that vector.
pub(crate) fn hint<P: Platform>(
    platform: &P,
    hints: &CpuHints,
    vector: Option<Vector>,
    number: u16,
) {
    if let (Some(vector), Some(cpu)) = (vector, hints.cpu(number)) {
        platform.vector_affinity(vector, cpu);
    }
}

/// A queue to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewCeq {
    pub(crate) id: CeqId,
    pub(crate) vector: Vector,
    pub(crate) timer: Timer,
    pub(crate) entries: CeqEntries,
    /// CQs that the function has.
    pub(crate) cqs: u32,
    pub(crate) vsi: VsiId,
}

impl NewCeq {
    /// Creates it; returns its memory. After an error nothing is left of it, unless the device
    /// did not answer. Then the error comes with the memory, which the device may use.
    pub(crate) fn create<P: Platform>(
        &self,
        platform: &P,
        cqp: &mut Cqp<P>,
    ) -> Result<DmaBuf<P>, (Error, Option<DmaBuf<P>>)> {
        let memory = DmaBuf::new(platform.clone(), self.entries.layout());
        let memory = memory.map_err(|error| (error.into(), None))?;
        let command = CreateCeq {
            ceq: self.id,
            entries: self.entries.get(),
            memory: QueueMemory::Contiguous(memory.iova()),
            vsi: self.vsi,
            itr_no_expire: false,
            processing_hint: None,
        };
        // Identified by its memory: a queue of this number that is made late is not this one.
        match run_again(cqp, &command, memory.iova().0) {
            Ok(()) => Ok(memory),
            Err(error) if error.leaves_command_open() => Err((error, Some(memory))),
            Err(error) => {
                memory.release();
                Err((error, None))
            }
        }
    }

    /// Lets it interrupt.
    pub(crate) fn bind<P: Platform>(self, platform: &P, memory: DmaBuf<P>) -> Result<CeqUp<P>> {
        irq::bind_ceq(platform, self.id, self.vector, self.timer, Itr::NONE);
        Ok(CeqUp {
            id: self.id,
            vector: self.vector,
            timer: self.timer,
            queue: Ceq::new(memory, self.entries, self.cqs)?,
        })
    }
}

/// Destroys CEQs above 0 first, then CEQ 0 (control-path 3.4). Goes on after a refusal and
/// reports the first; a device that does not answer is not asked again, because each wait takes
/// seconds.
pub(crate) fn destroy_ceqs<P: Platform>(
    platform: &P,
    cqp: &mut Cqp<P>,
    ceqs: &mut CeqList<P>,
    entries: CeqEntries,
) -> Result<()> {
    let mut result: Result<()> = Ok(());
    while let Some(ceq) = ceqs.pop() {
        irq::unbind_ceq(platform, ceq.id, ceq.vector, ceq.timer);
        if result.is_err_and(|error| error.leaves_command_open()) {
            continue;
        }
        let memory = ceq.queue.into_memory();
        match destroy_ceq(cqp, ceq.id, entries, &memory) {
            Ok(()) => memory.release(),
            Err(error) => result = result.and(Err(error)),
        }
    }
    result
}

/// Destroys a queue that is unbound.
pub(super) fn destroy_ceq<P: Platform>(
    cqp: &mut Cqp<P>,
    ceq: CeqId,
    entries: CeqEntries,
    memory: &DmaBuf<P>,
) -> Result<()> {
    let command = DestroyCeq {
        ceq,
        entries: entries.get(),
        memory: QueueMemory::Contiguous(memory.iova()),
        processing_hint: false,
    };
    run_again(cqp, &command, ceq.get().into())
}

/// Puts CEQ 0 first: it is destroyed last (control-path 3.4).
pub(super) fn ceq_0_first<P: Platform>(ceqs: &mut [CeqUp<P>]) {
    if let Some((first, others)) = ceqs.split_first_mut()
        && first.id != CEQ_0
        && let Some(zero) = others.iter_mut().find(|ceq| ceq.id == CEQ_0)
    {
        core::mem::swap(first, zero);
    }
}
