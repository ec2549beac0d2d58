//! The completion event queues and their vectors (steps 16 to 18).

use e810_ceq::{Ceq, CeqEntries, Itr, Timer, irq};
use e810_cqp::Cqp;
use e810_cqp::hmc::Object as HmcObject;
use e810_cqp::op::{CreateCeq, DestroyCeq, QueueMemory};
use e810_hal::bus::VsiId;
use e810_hal::{CeqId, DmaBuf, HostList, Platform, Vector};

use super::wiring::Wiring;
use super::{CcqUp, Device, Failed, HmcUp};
use crate::config::{Config, MAX_CEQS};
use crate::error::Result;

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
pub(super) type CeqList<P> = HostList<P, CeqUp<P>>;

/// The completion event queues interrupt.
#[derive(Debug)]
pub struct CeqsUp<P: Platform> {
    pub(super) below: HmcUp<P>,
    pub(super) wiring: Wiring<P>,
    pub(super) ceqs: CeqList<P>,
}

impl<P: Platform> Device<P, CcqUp<P>> {
    /// Creates the completion event queues and wires them to vectors (steps 16
    /// to 18).
    ///
    /// # Errors
    /// No vector, no memory, a failed command, a device that is gone; all queues
    /// made so far are destroyed again.
    #[inline(never)]
    pub fn create_ceqs(mut self) -> Result<Device<P, CeqsUp<P>>, Failed<P, CcqUp<P>>> {
        // Before the first vector is on.
        let units = match irq::set_units(&self.platform) {
            Ok(units) => units,
            Err(error) => return Err((self, error.into())),
        };
        let below = &mut self.stage.below;
        let cqs = below.hmc.count(HmcObject::Cq);
        let device_ceqs = below.hmc.query.max_ceqs;
        let mut ceqs = match CeqList::new(self.platform.clone(), MAX_CEQS) {
            Ok(ceqs) => ceqs,
            Err(error) => return Err((self, error.into())),
        };
        let wiring = Wiring::new(&self.platform, &self.config, units, device_ceqs, cqs);
        let mut wiring = match wiring {
            Ok(wiring) => wiring,
            Err(error) => return Err((self, error)),
        };
        match fill_ceqs(&self.platform, &self.config, below, &wiring, &mut ceqs) {
            Ok(()) => Ok(self.map(|CcqUp { below }| CeqsUp {
                below,
                wiring,
                ceqs,
            })),
            Err(error) => {
                // The first error says more than one that undoing may add.
                let entries = wiring.ceq_entries;
                let _ = destroy_ceqs(&self.platform, &mut below.cqp, &mut ceqs, entries);
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
            mut below,
            mut wiring,
            mut ceqs,
        } = stage;
        let entries = wiring.ceq_entries;
        let destroyed = destroy_ceqs(&rest.platform, &mut below.cqp, &mut ceqs, entries);
        wiring.give_all(&rest.platform);
        if destroyed.is_err_and(|error| error.leaves_command_open()) {
            // Nothing of the engine below gets an answer either.
            return rest.end(destroyed);
        }
        destroyed.and(rest.with(CcqUp { below }).shutdown())
    }
}

fn fill_ceqs<P: Platform>(
    platform: &P,
    config: &Config,
    below: &mut HmcUp<P>,
    wiring: &Wiring<P>,
    ceqs: &mut CeqList<P>,
) -> Result<()> {
    let cqs = below.hmc.count(HmcObject::Cq);
    if !wiring.map.shared() {
        hint(platform, config, wiring.at(0), 0);
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
        let made = new.create(platform, &mut below.cqp).and_then(|memory| {
            hint(platform, config, Some(vector), number);
            new.bind(platform, memory)
        });
        let ceq = made?;
        // As many places as CEQs are planned at most.
        let _ = ceqs.push(ceq);
        if number == 0 {
            // CEQ 0 exists: the CCQ may raise events (step 17).
            below.cqp.arm_ccq()?;
        }
    }
    Ok(())
}

/// Tells the platform which CPU will consume the events of a vector that has
/// completion vector `number`, or what goes with it.
pub(super) fn hint<P: Platform>(
    platform: &P,
    config: &Config,
    vector: Option<Vector>,
    number: u16,
) {
    if let (Some(vector), Some(cpu)) = (vector, config.cpu_hints.cpu(number)) {
        platform.vector_affinity(vector, cpu);
    }
}

/// A queue to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewCeq {
    pub(super) id: CeqId,
    pub(super) vector: Vector,
    pub(super) timer: Timer,
    pub(super) entries: CeqEntries,
    /// CQs that the function has.
    pub(super) cqs: u32,
    pub(super) vsi: VsiId,
}

impl NewCeq {
    /// Creates it; gives its memory. Nothing is left of it after an error,
    /// unless the device did not answer.
    pub(super) fn create<P: Platform>(&self, platform: &P, cqp: &mut Cqp<P>) -> Result<DmaBuf<P>> {
        let memory = DmaBuf::new(platform.clone(), self.entries.layout())?;
        let command = CreateCeq {
            ceq: self.id,
            entries: self.entries.get(),
            memory: QueueMemory::Contiguous(memory.iova()),
            vsi: self.vsi,
            itr_no_expire: false,
            processing_hint: None,
        };
        if let Err(error) = cqp.execute(&command) {
            if !error.leaves_command_open() {
                memory.release();
            }
            return Err(error.into());
        }
        Ok(memory)
    }

    /// Lets it interrupt.
    pub(super) fn bind<P: Platform>(self, platform: &P, memory: DmaBuf<P>) -> Result<CeqUp<P>> {
        irq::bind_ceq(platform, self.id, self.vector, self.timer, Itr::NONE);
        Ok(CeqUp {
            id: self.id,
            vector: self.vector,
            timer: self.timer,
            queue: Ceq::new(memory, self.entries, self.cqs)?,
        })
    }
}

/// CEQs above 0 first, then CEQ 0 (control-path 3.4). Goes on after a refusal
/// and reports the first; a device that does not answer is not asked again,
/// because each wait takes seconds.
fn destroy_ceqs<P: Platform>(
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
    crate::control::run(cqp, &command)
}
