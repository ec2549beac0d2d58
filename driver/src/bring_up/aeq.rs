//! The asynchronous event queue (control-path 3.1, step 20).

use e810_ceq::aeq::Ids as AeqIds;
use e810_ceq::{Aeq, AeqEntries, irq};
use e810_cqp::hmc::Object as HmcObject;
use e810_cqp::op::{CreateAeq, QueueMemory};
use e810_hal::{DmaBuf, Platform};

use super::{CeqsUp, Device, Failed};
use crate::control::Engine;
use crate::error::Result;

/// The asynchronous event queue interrupts.
#[derive(Debug)]
pub struct AeqUp<P: Platform> {
    pub(super) engine: Engine<P>,
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
            Ok((aeq_entries, aeq)) => Ok(self.map(|stage| AeqUp {
                engine: Engine {
                    cqp: stage.cqp,
                    hmc: stage.hmc,
                    wiring: stage.wiring,
                    ceqs: stage.ceqs,
                    aeq_entries,
                    aeq,
                },
            })),
            Err(error) => Err((self, error)),
        }
    }

    fn make_aeq(&mut self) -> Result<(AeqEntries, Aeq<DmaBuf<P>>)> {
        let CeqsUp {
            cqp, hmc, wiring, ..
        } = &mut self.stage;
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
        let (AeqUp { engine }, rest) = self.take();
        let undone = engine.undo(&rest.platform, &rest.lan_side);
        rest.end(undone)
    }
}
