//! The asynchronous event queue (step 20).

use e810_ceq::aeq::Ids as AeqIds;
use e810_ceq::{Aeq, AeqEntries, irq};
use e810_cqp::hmc::Object as HmcObject;
use e810_cqp::op::{CreateAeq, DestroyAeq, QueueMemory};
use e810_hal::{DmaBuf, Platform};

use super::{CeqsUp, Device, Failed, HmcUp};
use crate::control::run;
use crate::error::Result;

/// The asynchronous event queue interrupts.
#[derive(Debug)]
pub struct AeqUp<P: Platform> {
    pub(super) below: CeqsUp<P>,
    pub(super) entries: AeqEntries,
    pub(super) aeq: Aeq<DmaBuf<P>>,
}

impl<P: Platform> Device<P, CeqsUp<P>> {
    /// Creates the asynchronous event queue and wires it to its vector (step
    /// 20).
    ///
    /// # Errors
    /// No memory, a failed command.
    #[inline(never)]
    pub fn create_aeq(mut self) -> Result<Device<P, AeqUp<P>>, Failed<P, CeqsUp<P>>> {
        match self.make_aeq() {
            Ok((entries, aeq)) => Ok(self.map(|below| AeqUp {
                below,
                entries,
                aeq,
            })),
            Err(error) => Err((self, error)),
        }
    }

    fn make_aeq(&mut self) -> Result<(AeqEntries, Aeq<DmaBuf<P>>)> {
        let HmcUp { cqp, hmc } = &mut self.stage.below;
        let (qps, cqs) = (hmc.count(HmcObject::Qp), hmc.count(HmcObject::Cq));
        let entries = AeqEntries::for_objects(qps, cqs)?;
        let memory = DmaBuf::new(self.platform.clone(), entries.layout())?;
        let command = CreateAeq {
            entries: entries.get(),
            memory: QueueMemory::Contiguous(memory.iova()),
        };
        if let Err(error) = cqp.execute(&command) {
            if !error.leaves_command_open() {
                memory.release();
            }
            return Err(error.into());
        }
        let wiring = &self.stage.wiring;
        let aeq = Aeq::new(memory, entries, AeqIds { qps, cqs })?;
        if let Some(vector) = wiring.at(0) {
            // Before the vector is switched on: their order is prescribed.
            if let Some(lan) = self.lan_side.owned() {
                lan.bind_causes(&self.platform, vector)?;
            }
            irq::bind_aeq(&self.platform, vector, wiring.map.shared());
        }
        Ok((entries, aeq))
    }
}

impl<P: Platform> Device<P, AeqUp<P>> {
    /// Undoes everything in order. A queue that the device refuses to destroy
    /// stays with it; the rest is undone all the same.
    ///
    /// # Errors
    /// The first step that failed; what the device may still use is leaked.
    #[inline(never)]
    pub fn shutdown(self) -> Result<()> {
        let (stage, rest) = self.take();
        let AeqUp {
            mut below,
            entries,
            aeq,
        } = stage;
        if let Some(lan) = rest.lan_side.owned() {
            lan.unbind_causes(&rest.platform);
        }
        if let Some(vector) = below.wiring.at(0) {
            irq::unbind_aeq(&rest.platform, vector, below.wiring.map.shared());
        }
        let memory = aeq.into_memory();
        let command = DestroyAeq {
            entries: entries.get(),
            memory: QueueMemory::Contiguous(memory.iova()),
        };
        let destroyed = run(&mut below.below.cqp, &command);
        match destroyed {
            Ok(()) => memory.release(),
            Err(error) if error.leaves_command_open() => {
                // Nothing of the engine below gets an answer either; only the
                // vectors are ours.
                let CeqsUp {
                    mut wiring, ceqs, ..
                } = below;
                for ceq in &ceqs {
                    irq::unbind_ceq(&rest.platform, ceq.id, ceq.vector, ceq.timer);
                }
                wiring.give_all(&rest.platform);
                return rest.end(destroyed);
            }
            // The queue stays with the device, and so does its memory.
            Err(_) => {}
        }
        destroyed.and(rest.with(below).shutdown())
    }
}
