//! The engine after a bring-up, and how it is undone; also the single steps, for stages that did
//! not get so far.

use e810_ceq::{Aeq, AeqEntries, irq};
use e810_cqp::op::{DestroyAeq, QueueMemory};
use e810_cqp::{Cqp, Error as CqpError};
use e810_hal::{DmaBuf, HostBox, Platform};

use super::ceq::{CeqList, destroy_ceqs};
use super::{Memory, Wiring, run};
use crate::error::{Error, Result};
use crate::lan::LanOwnership;

/// The engine's queues and memory.
#[derive(Debug)]
pub(crate) struct Engine<P: Platform> {
    pub(crate) cqp: Cqp<P>,
    pub(crate) hmc: HostBox<P, Memory<P>>,
    pub(crate) wiring: Wiring<P>,
    pub(crate) ceqs: CeqList<P>,
    pub(crate) aeq_entries: AeqEntries,
    pub(crate) aeq: Aeq<DmaBuf<P>>,
}

impl<P: Platform> Engine<P> {
    /// Undoes everything in order. A queue that the device refuses to destroy stays with it; the
    /// rest is undone all the same.
    ///
    /// # Errors
    /// The first step that failed; what the device may still use is leaked.
    #[inline(never)]
    pub(crate) fn undo(self, platform: &P, lan_side: &LanOwnership<P>) -> Result<()> {
        let Self {
            mut cqp,
            hmc,
            mut wiring,
            ceqs,
            aeq_entries,
            aeq,
        } = self;
        if let Some(lan) = lan_side.owned() {
            lan.unbind_causes(platform);
        }
        if let Some(vector) = wiring.at(0) {
            irq::unbind_aeq(platform, vector, wiring.map.shared());
        }
        let memory = aeq.into_memory();
        let command = DestroyAeq {
            entries: aeq_entries.get(),
            memory: QueueMemory::Contiguous(memory.iova()),
        };
        let destroyed = run(&mut cqp, &command);
        match destroyed {
            Ok(()) => memory.release(),
            Err(error) if error.leaves_command_open() => {
                // Nothing else of the engine gets an answer either; only the vectors are ours.
                for ceq in &ceqs {
                    irq::unbind_ceq(platform, ceq.id, ceq.vector, ceq.timer);
                }
                wiring.give_all(platform);
                return destroyed;
            }
            // The queue stays with the device, and so does its memory.
            Err(_) => {}
        }
        destroyed.and(undo_ceqs(platform, cqp, hmc, wiring, ceqs))
    }
}

/// Undoes the completion event queues and everything before them. A queue that the device refuses
/// to destroy stays with it; the rest is undone all the same.
///
/// # Errors
/// The first step that failed; what the device may still use is leaked.
#[inline(never)]
pub(crate) fn undo_ceqs<P: Platform>(
    platform: &P,
    mut cqp: Cqp<P>,
    hmc: HostBox<P, Memory<P>>,
    mut wiring: Wiring<P>,
    mut ceqs: CeqList<P>,
) -> Result<()> {
    let destroyed = destroy_ceqs(platform, &mut cqp, &mut ceqs, wiring.ceq_entries);
    wiring.give_all(platform);
    if destroyed.is_err_and(|error| error.leaves_command_open()) {
        // Nothing else of the engine gets an answer either.
        return destroyed;
    }
    destroyed.and(undo_ccq(cqp, hmc))
}

/// Undoes the CQP's completion queue, the host memory cache and the CQP. After a refusal the
/// latter two are taken down all the same, as in existing drivers.
///
/// # Errors
/// The first step that failed; what the device may still use is leaked.
#[inline(never)]
pub(crate) fn undo_ccq<P: Platform>(mut cqp: Cqp<P>, hmc: HostBox<P, Memory<P>>) -> Result<()> {
    let detached = match cqp.detach_ccq() {
        Err(error @ CqpError::Cqp { .. }) if cqp.part_from_ccq().is_ok() => Err(error),
        // A command that did not end, or a device that is gone.
        Err(error) => return Err(error.into()),
        Ok(()) => Ok(()),
    };
    let undone = undo_hmc(cqp, hmc);
    detached.map_err(Error::from).and(undone)
}

/// Undoes the host memory cache and the CQP. After a refusal the CQP is destroyed
/// all the same, as existing drivers do.
///
/// # Errors
/// The first step that failed; what the device may still use is leaked.
#[inline(never)]
pub(crate) fn undo_hmc<P: Platform>(mut cqp: Cqp<P>, hmc: HostBox<P, Memory<P>>) -> Result<()> {
    let cleared = hmc.into_inner().hmc.destroy(&mut cqp);
    let destroyed = match cleared {
        Ok(()) | Err(CqpError::Cqp { .. }) => cleared.and(cqp.destroy()),
        // A command that did not end, or a device that is gone.
        Err(_) => cleared,
    };
    Ok(destroyed?)
}
