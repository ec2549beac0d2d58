//! The completion event queues and their vectors (control-path 3.1, steps 16 to 18).

use e810_ceq::irq;
use e810_cqp::hmc::Object as HmcObject;
use e810_cqp::{Cqp, Error as CqpError};
use e810_hal::{CeqId, HostBox, Platform, log_warn};

use super::{CcqUp, Device, Failed};
use crate::config::{Config, MAX_CEQS};
use crate::control::{CeqList, Memory, NewCeq, Wiring, destroy_ceqs, hint, undo_ceqs};
use crate::error::{Error, Result};

/// The completion event queues interrupt.
#[derive(Debug)]
pub struct CeqsUp<P: Platform> {
    pub(super) cqp: Cqp<P>,
    pub(super) hmc: HostBox<P, Memory<P>>,
    pub(super) wiring: Wiring<P>,
    pub(super) ceqs: CeqList<P>,
}

impl<P: Platform> Device<P, CcqUp<P>> {
    /// Creates the completion event queues and wires them to vectors (control-path 3.1, steps 16
    /// to 18).
    ///
    /// # Errors
    /// No vector, no memory, a failed command, a device that is gone; all queues
    /// made so far are destroyed again.
    #[inline(never)]
    pub fn create_ceqs(mut self) -> Result<Device<P, CeqsUp<P>>, Failed<P, CcqUp<P>>> {
        // Before the first vector is on.
        let units = match irq::set_units(&self.platform, self.config.quirks.doubled_units) {
            Ok(units) => units,
            Err(error) => return Err((self, error.into())),
        };
        let CcqUp { cqp, hmc } = &mut self.stage;
        let cqs = hmc.count(HmcObject::Cq);
        let device_ceqs = hmc.query.max_ceqs;
        let mut ceqs = match CeqList::new(self.platform.clone(), MAX_CEQS) {
            Ok(ceqs) => ceqs,
            Err(error) => return Err((self, error.into())),
        };
        let wiring = Wiring::new(&self.platform, &self.config, units, device_ceqs, cqs);
        let mut wiring = match wiring {
            Ok(wiring) => wiring,
            Err(error) => return Err((self, error)),
        };
        match fill_ceqs(&self.platform, &self.config, (cqp, cqs), &wiring, &mut ceqs) {
            Ok(()) => Ok(self.map(|CcqUp { cqp, hmc }| CeqsUp {
                cqp,
                hmc,
                wiring,
                ceqs,
            })),
            Err(error) => {
                // The first error says more than one that undoing may add.
                let entries = wiring.ceq_entries;
                let _ = destroy_ceqs(&self.platform, cqp, &mut ceqs, entries);
                wiring.give_all(&self.platform);
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
    #[inline(never)]
    pub fn shutdown(self) -> Result<()> {
        let (stage, rest) = self.take();
        let CeqsUp {
            cqp,
            hmc,
            wiring,
            ceqs,
        } = stage;
        let undone = undo_ceqs(&rest.platform, cqp, hmc, wiring, ceqs);
        rest.end(undone)
    }
}

fn fill_ceqs<P: Platform>(
    platform: &P,
    config: &Config,
    (cqp, cqs): (&mut Cqp<P>, u32),
    wiring: &Wiring<P>,
    ceqs: &mut CeqList<P>,
) -> Result<()> {
    if !wiring.map.shared() {
        hint(platform, &config.cpu_hints, wiring.at(0), 0);
    }
    for number in 0..wiring.map.ceqs() {
        let Some((id, vector)) = CeqId::new(number).and_then(|id| {
            let place = wiring.map.ceq_place(id)?;
            Some((id, wiring.at(place)?))
        }) else {
            break;
        };
        let new = NewCeq {
            id,
            vector,
            timer: wiring.timer(id),
            entries: wiring.ceq_entries,
            cqs,
            vsi: config.lan.vsi,
        };
        // Memory that the device may still use is leaked.
        let memory = match new.create(platform, cqp) {
            Ok(memory) => memory,
            // Fewer will do: whether a card has the last ones of its own number is not known.
            Err((error @ Error::Cqp(CqpError::Cqp { .. }), None))
                if number > 0 && !error.needs_reset() =>
            {
                log_warn!("{} completion event queues are used: {}", number, error);
                break;
            }
            Err((error, _)) => return Err(error),
        };
        hint(platform, &config.cpu_hints, Some(vector), number);
        let ceq = new.bind(platform, memory)?;
        // As many places as CEQs are planned at most.
        let _ = ceqs.push(ceq);
        if number == 0 {
            // CEQ 0 exists: the CCQ may raise events (control-path 3.1, step 17).
            cqp.arm_ccq()?;
        }
    }
    Ok(())
}
