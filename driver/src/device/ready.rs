//! The tables of objects; the device in parts.

use e810_ceq::irq::Units;
use e810_ceq::{Aeq, AeqEntries, Itr, Timer, irq};
use e810_cqp::Cqp;
use e810_cqp::hmc::Object as HmcObject;
use e810_hal::{CeqId, DmaBuf, HostBox, Platform, Vector};

use super::ceqs::{self, CeqList, CeqUp, NewCeq};
use super::wiring::{Choice, Wiring};
use super::{AeqUp, CeqsUp, Device, Failed, HmcUp, Memory};
use crate::config::Config;
use crate::control::{CompletionVectors, Control, Parts, Tables};
use crate::error::{Error, Result};
use crate::events::{EventSet, Events};
use crate::lan::LanOwnership;

/// Ready for use.
#[derive(Debug)]
pub struct Ready<P: Platform> {
    pub(super) control: Control<P>,
    pub(super) events: EventSet<P>,
}

impl<P: Platform> Device<P, AeqUp<P>> {
    /// Allocates the tables of objects: the device is ready. On a LAN side that
    /// is ours, frames are let in first (control-path 9.9).
    ///
    /// # Errors
    /// No memory; a firmware that refuses the filter.
    #[inline(never)]
    pub fn allocate_tables(self) -> Result<Device<P, Ready<P>>, Failed<P, AeqUp<P>>> {
        let (stage, mut rest) = self.take();
        let AeqUp {
            below,
            entries,
            aeq,
        } = stage;
        // Frames may come as soon as the filter is on; the engine is up.
        if let Some(lan) = rest.lan_side.owned_mut()
            && let Err(error) = lan.admit_rdma()
        {
            let stage = AeqUp {
                below,
                entries,
                aeq,
            };
            return Err((rest.with(stage), error));
        }
        let (platform, config) = (rest.platform.clone(), rest.config);
        let tables = match Tables::new(&platform, &config, &below.below.hmc) {
            Ok(tables) => tables,
            Err(error) => {
                if let Some(lan) = rest.lan_side.owned_mut() {
                    lan.refuse_rdma();
                }
                let stage = AeqUp {
                    below,
                    entries,
                    aeq,
                };
                return Err((rest.with(stage), error));
            }
        };
        let CeqsUp {
            below: HmcUp { cqp, hmc },
            wiring,
            mut ceqs,
        } = below;
        let mut vectors = CompletionVectors::new(hmc.query.max_ceqs);
        for ceq in &ceqs {
            vectors.open(ceq.id, ceq.vector);
        }
        let control = Control::new(platform.clone(), &config, cqp, hmc, vectors, tables);
        let (mut control, parts) = control;
        let ours = rest.lan_side.owned().is_some();
        let events = event_set(&platform, &control, parts, &wiring, &mut ceqs, aeq, ours);
        let below = Below {
            config,
            wiring,
            ceqs,
            aeq_entries: entries,
        };
        let lan_side = core::mem::replace(&mut rest.lan_side, LanOwnership::NotOwned);
        control.remember(below, lan_side);
        Ok(rest.with(Ready { control, events }))
    }
}

impl<P: Platform> Device<P, Ready<P>> {
    /// The parts, each for the thread that needs it.
    pub fn split(self) -> (Control<P>, EventSet<P>) {
        (self.stage.control, self.stage.events)
    }

    /// Undoes everything in order.
    ///
    /// # Errors
    /// The first step that failed; what the device may still use is leaked.
    #[inline(never)]
    pub fn shutdown(self) -> Result<()> {
        let (control, events) = self.split();
        control.shutdown(events).map_err(|failed| failed.error)
    }
}

/// One consumer a vector, in the order of the vectors. The list of queues is empty
/// afterwards.
fn event_set<P: Platform>(
    platform: &P,
    control: &Control<P>,
    parts: Parts<P>,
    wiring: &Wiring<P>,
    ceqs: &mut CeqList<P>,
    aeq: Aeq<DmaBuf<P>>,
    other_causes: bool,
) -> EventSet<P> {
    let Parts { mut set, log } = parts;
    let (mut aeq, mut log) = (Some(aeq), Some(log));
    // Taking from the end then gives CEQ 0 first.
    ceqs.reverse();
    for place in 0..wiring.in_use() {
        let (Some(serves), Some(vector)) = (wiring.map.serves(place), wiring.at(place)) else {
            break;
        };
        let ceq = serves.ceq.and_then(|_| ceqs.pop());
        let mut part = consumer(platform, control, vector, ceq);
        if serves.aeq {
            part.log = log.take();
            part.aeq = aeq.take();
            part.other_causes = other_causes;
        }
        // As many places as vectors.
        let _ = set.push(part);
    }
    set
}

/// The consumer of a vector without asynchronous events.
pub(crate) fn consumer<P: Platform>(
    platform: &P,
    control: &Control<P>,
    vector: Vector,
    ceq: Option<CeqUp<P>>,
) -> Events<P> {
    Events {
        platform: platform.clone(),
        tag: control.tag(),
        vector,
        timer: ceq.as_ref().map_or(Timer::None, |ceq| ceq.timer),
        ceq: ceq.map(|ceq| (ceq.id, ceq.queue)),
        moderation: control.moderation(),
        aeq: None,
        other_causes: false,
        slots: control.slots(),
        wakers: control.wakers(),
        log: None,
        overflow_told: false,
    }
}

/// What [`Control::shutdown`] needs to go back below the tables.
#[derive(Debug)]
pub(crate) struct Below<P: Platform> {
    config: Config,
    wiring: Wiring<P>,
    /// Empty: the consumers of events have them.
    ceqs: CeqList<P>,
    aeq_entries: AeqEntries,
}

impl<P: Platform> Below<P> {
    /// Vectors in use: as many consumers of events there are.
    pub(crate) fn vectors(&self) -> u16 {
        self.wiring.in_use()
    }

    /// Gives the vectors back that are not in use.
    pub(crate) fn give_spare(&mut self, platform: &P) {
        self.wiring.give_spare(platform);
    }

    /// Makes the queue of a further completion vector and lets it interrupt.
    /// After an error nothing is left of it, unless the device did not answer.
    pub(crate) fn add_ceq(
        &mut self,
        platform: &P,
        cqp: &mut Cqp<P>,
        hmc: &Memory<P>,
        id: CeqId,
        choice: Choice,
    ) -> Result<CeqUp<P>> {
        let taken = self.wiring.take(platform, choice)?;
        let new = NewCeq {
            id,
            vector: taken.vector,
            timer: self.wiring.timer(id),
            entries: self.wiring.ceq_entries,
            cqs: hmc.count(HmcObject::Cq),
            vsi: self.config.lan.vsi,
        };
        match new.create(platform, cqp) {
            Ok(memory) => {
                self.wiring.keep(taken);
                ceqs::hint(platform, &self.config, Some(taken.vector), id.get() as u16);
                new.bind(platform, memory)
            }
            Err(error) => {
                // Nothing names the vector yet.
                self.wiring.put_back(platform, taken);
                Err(error)
            }
        }
    }

    /// Takes the queue of a completion vector down, then puts its vector back.
    /// A queue that the device refuses to destroy interrupts as before; of one
    /// that it did not answer about, nothing is freed.
    pub(crate) fn remove_ceq(
        &mut self,
        platform: &P,
        cqp: &mut Cqp<P>,
        ceq: CeqUp<P>,
    ) -> Result<(), (CeqUp<P>, Error)> {
        irq::unbind_ceq(platform, ceq.id, ceq.vector, ceq.timer);
        let entries = self.wiring.ceq_entries;
        if let Err(error) = ceqs::destroy_ceq(cqp, ceq.id, entries, ceq.queue.memory()) {
            if !error.leaves_command_open() {
                irq::bind_ceq(platform, ceq.id, ceq.vector, ceq.timer, Itr::NONE);
            }
            return Err((ceq, error));
        }
        ceq.queue.into_memory().release();
        self.wiring.drop_vector(platform, ceq.vector);
        Ok(())
    }

    /// What delays a completion event queue's interrupts.
    pub(crate) fn timer(&self, ceq: CeqId) -> Timer {
        self.wiring.timer(ceq)
    }

    /// What the card counts intervals in.
    pub(crate) const fn units(&self) -> Units {
        self.wiring.units
    }

    /// The stage before the tables, from what [`Control`] stood on and the
    /// event queues; `None` when one of those is missing (it leaks).
    pub(crate) fn rebuild(
        self,
        platform: P,
        cqp: Cqp<P>,
        hmc: HostBox<P, Memory<P>>,
        lan_side: LanOwnership<P>,
        mut events: EventSet<P>,
    ) -> Option<Device<P, AeqUp<P>>> {
        let mut ceqs = self.ceqs;
        let mut aeq = None;
        events.reverse();
        while let Some(part) = events.pop() {
            if let Some((id, queue)) = part.ceq {
                let (vector, timer) = (part.vector, part.timer);
                // As many places as CEQs were made.
                let _ = ceqs.push(CeqUp {
                    id,
                    vector,
                    timer,
                    queue,
                });
            }
            aeq = aeq.or(part.aeq);
        }
        // The program may have put its consumers in another order.
        ceq_0_first(&mut ceqs);
        let below = CeqsUp {
            below: HmcUp { cqp, hmc },
            wiring: self.wiring,
            ceqs,
        };
        Some(Device {
            platform,
            config: self.config,
            lan_side,
            stage: AeqUp {
                below,
                entries: self.aeq_entries,
                aeq: aeq?,
            },
        })
    }
}

/// Puts CEQ 0 first: it is destroyed last (control-path 3.4).
fn ceq_0_first<P: Platform>(ceqs: &mut [CeqUp<P>]) {
    if let Some((first, others)) = ceqs.split_first_mut()
        && first.id != super::CEQ_0
        && let Some(zero) = others.iter_mut().find(|ceq| ceq.id == super::CEQ_0)
    {
        core::mem::swap(first, zero);
    }
}
