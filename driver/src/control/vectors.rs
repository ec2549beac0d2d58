//! Completion vectors: their users, and adding or removing them at run time.
//!
//! Number n is the CEQ with id n. Number 0 exists as long as the device: the commands' own
//! completion queue is on it.

use e810_ceq::{Itr, irq};
use e810_cqp::Opcode;
use e810_cqp::hmc::Object as HmcObject;
use e810_hal::{CeqId, DmaBuf, Platform, Vector, log_warn};
use heapless::Vec;

use super::Control;
use super::ceq::{CEQ_0, CeqUp, NewCeq, destroy_ceq, hint};
use super::wiring::Choice;
use crate::config::MAX_CEQS;
use crate::error::{Error, Object, Result};
use crate::events::VectorEvents;

/// What is at a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Place {
    #[default]
    Free,
    /// A queue on this vector, and how many CQs have their events there.
    Live { vector: Vector, cqs: u32 },
    /// The device did not answer when the queue was made or destroyed: it may exist.
    Unknown,
}

/// Upper limit of unanswered creations; at that number no queue is made.
const UNANSWERED: usize = 4;

pub(super) type UnansweredCeqs<P> = Vec<UnansweredCeq<P>, UNANSWERED>;

/// A queue whose creation was not answered: the device may have it all the same.
#[derive(Debug)]
pub(super) struct UnansweredCeq<P: Platform> {
    id: CeqId,
    memory: DmaBuf<P>,
}

impl<P: Platform> UnansweredCeq<P> {
    /// Gives its memory back, after a reset.
    pub(super) fn release(self) {
        self.memory.release();
    }
}

/// The completion vectors of a device.
#[derive(Debug)]
pub(super) struct CompletionVectors {
    places: [Place; MAX_CEQS],
    /// Upper limit of their number.
    limit: u16,
}

impl CompletionVectors {
    /// None yet, on a device with `device_ceqs` CEQs.
    pub(super) fn new(device_ceqs: u32) -> Self {
        Self {
            places: [Place::Free; MAX_CEQS],
            limit: device_ceqs.min(MAX_CEQS as u32) as u16,
        }
    }

    /// CEQ `id` was made on `vector`.
    pub(super) fn open(&mut self, id: CeqId, vector: Vector) {
        self.set(id, Place::Live { vector, cqs: 0 });
    }

    /// The CEQ of completion vector `number`, which must exist.
    pub(super) fn named(&self, number: u16) -> Result<CeqId> {
        CeqId::new(number)
            .filter(|id| self.vector(*id).is_some())
            .ok_or(Error::NoSuch {
                object: Object::CompletionVector,
                id: number.into(),
            })
    }

    /// One more CQ has its events there.
    pub(super) fn join(&mut self, id: CeqId) {
        if let Some(Place::Live { cqs, .. }) = self.place_mut(id) {
            *cqs = cqs.saturating_add(1);
        }
    }

    /// One CQ less has its events there.
    pub(super) fn leave(&mut self, id: CeqId) {
        if let Some(Place::Live { cqs, .. }) = self.place_mut(id) {
            *cqs = cqs.saturating_sub(1);
        }
    }

    fn users(&self, id: CeqId) -> u32 {
        match self.places.get(id.get() as usize) {
            Some(Place::Live { cqs, .. }) => *cqs,
            _ => 0,
        }
    }

    pub(super) fn vector(&self, id: CeqId) -> Option<Vector> {
        match self.places.get(id.get() as usize) {
            Some(Place::Live { vector, .. }) => Some(*vector),
            _ => None,
        }
    }

    /// The lowest number that is free.
    fn free(&self) -> Option<CeqId> {
        let mut places = self.places.iter().take(usize::from(self.limit));
        let free = places.position(|place| *place == Place::Free)?;
        CeqId::new(free as u16)
    }

    /// One more than the highest existing number.
    fn end(&self) -> u16 {
        let is_live = |place: &Place| matches!(place, Place::Live { .. });
        let highest = self.places.iter().rposition(is_live);
        highest.map_or(0, |highest| (highest as u16).saturating_add(1))
    }

    fn set(&mut self, id: CeqId, to: Place) {
        if let Some(place) = self.place_mut(id) {
            *place = to;
        }
    }

    fn place_mut(&mut self, id: CeqId) -> Option<&mut Place> {
        self.places.get_mut(id.get() as usize)
    }
}

impl<P: Platform> Control<P> {
    /// Number of completion vectors (num_comp_vectors): a CQ names one below this. Numbers of
    /// removed vectors in between do not exist: [`Control::interrupt_vector`] says which do.
    #[must_use]
    #[doc(alias = "num_comp_vectors")]
    pub fn completion_vectors(&self) -> u16 {
        self.vectors.end()
    }

    /// Upper limit of completion vectors, if there are interrupt vectors for them.
    #[must_use]
    pub const fn max_completion_vectors(&self) -> u16 {
        self.vectors.limit
    }

    /// The interrupt vector of a completion vector.
    #[must_use]
    pub fn interrupt_vector(&self, number: u16) -> Option<Vector> {
        self.vectors.vector(CeqId::new(number)?)
    }

    /// Adds a completion vector, with an interrupt vector of its own, and returns the consumer of
    /// its events. [`VectorEvents::completion_vector`] returns its number, the lowest that is
    /// free. It takes the lowest unused vector that was taken at bring-up; if there is none, a
    /// new one.
    ///
    /// It takes a command. A host that cannot add to a set of vectors reconnects all others
    /// meanwhile.
    ///
    /// # Errors
    /// [`Error::Exhausted`] if there are [`Control::max_completion_vectors`], [`Error::NoVector`]
    /// if the platform has no further interrupt vector, no memory, or the device's refusal.
    /// Nothing is left behind; what the device makes without an answer in time is removed by the
    /// next call, or at the end.
    pub fn add_completion_vector(&mut self) -> Result<VectorEvents<P>> {
        self.add_on(Choice::Any)
    }

    /// As [`Control::add_completion_vector`], with an interrupt vector that the platform gives
    /// now (a dynamically allocated one). Vectors taken at bring-up are left for later, when the
    /// platform gives nothing.
    ///
    /// # Errors
    /// As [`Control::add_completion_vector`]; [`Error::NoVector`] also while
    /// vectors that were taken at bring-up are not in use.
    pub fn add_dynamic_completion_vector(&mut self) -> Result<VectorEvents<P>> {
        self.add_on(Choice::Dynamic)
    }

    fn add_on(&mut self, choice: Choice) -> Result<VectorEvents<P>> {
        self.end_unanswered_ceqs(false);
        if self.unanswered.ceqs.is_full() {
            return Err(Error::Invalid {
                what: "the device has not answered about four completion vectors: only a reset of the function helps",
            });
        }
        let id = self.vectors.free().ok_or(Error::Exhausted {
            object: Object::CompletionVector,
            limit: self.vectors.limit.into(),
        })?;
        match self.add_ceq(id, choice) {
            Ok(ceq) => {
                let vector = ceq.vector;
                self.vectors.open(id, vector);
                Ok(self.consumer(vector, Some(ceq)))
            }
            Err(error) => {
                if error.leaves_command_open() {
                    self.vectors.set(id, Place::Unknown);
                }
                Err(error)
            }
        }
    }

    /// Removes a completion vector: its cause and its interrupt vector are switched off, its
    /// queue is destroyed, and the interrupt vector goes back to where it came from. One that was
    /// taken at bring-up stays with the device, for the next completion vector; one that was
    /// taken later goes back to the platform. The next vector that is added gets its number.
    ///
    /// # Errors
    /// [`Error::InUse`] while completion queues have their events there, [`Error::Foreign`],
    /// [`Error::Invalid`] for completion vector 0 and for the vector of the asynchronous events,
    /// which stay; or the device's refusal. The events are returned and continue, unless the
    /// device did not answer: then no more events come. Remove them again, or give them to
    /// [`Control::shutdown`] with the others.
    pub fn remove_completion_vector(
        &mut self,
        mut events: VectorEvents<P>,
    ) -> Result<(), (VectorEvents<P>, Error)> {
        if let Err(error) = self.removable(&events) {
            return Err((events, error));
        }
        let Some((id, queue)) = events.ceq.take() else {
            return Err((events, STAYS));
        };
        let ceq = CeqUp {
            id,
            vector: events.vector,
            timer: events.timer,
            queue,
        };
        match self.remove_ceq(ceq) {
            Ok(()) => {
                self.vectors.set(id, Place::Free);
                Ok(())
            }
            Err((ceq, error)) => {
                if error.leaves_command_open() {
                    self.vectors.set(id, Place::Unknown);
                } else {
                    self.vectors.open(id, ceq.vector);
                }
                events.ceq = Some((ceq.id, ceq.queue));
                Err((events, error))
            }
        }
    }

    /// Makes the queue of a further completion vector and lets it interrupt.
    /// After an error nothing is left of it, unless the device did not answer.
    fn add_ceq(&mut self, id: CeqId, choice: Choice) -> Result<CeqUp<P>> {
        let platform = &self.platform;
        let taken = self.wiring.take(platform, choice)?;
        let new = NewCeq {
            id,
            vector: taken.vector,
            timer: self.wiring.timer(id),
            entries: self.wiring.ceq_entries,
            cqs: self.hmc.count(HmcObject::Cq),
            vsi: self.lan.vsi,
        };
        match new.create(platform, &mut self.cqp) {
            Ok(memory) => {
                self.wiring.keep(taken);
                hint(
                    platform,
                    &self.cpu_hints,
                    Some(taken.vector),
                    id.get() as u16,
                );
                new.bind(platform, memory)
            }
            Err((error, memory)) => {
                // Nothing names the vector yet.
                self.wiring.put_back(platform, taken);
                // There is room.
                let late = memory.map(|memory| UnansweredCeq { id, memory });
                let _ = late.map(|late| self.unanswered.ceqs.push(late));
                Err(error)
            }
        }
    }

    /// Destroys queues that the device made after their creation was given up; with `wait`, waits
    /// for the answers.
    pub(super) fn end_unanswered_ceqs(&mut self, wait: bool) {
        let mut all = core::mem::take(&mut self.unanswered.ceqs);
        while let Some(late) = all.pop() {
            match self.end_unanswered_ceq(&late, wait) {
                Ok(true) => {
                    self.vectors.set(late.id, Place::Free);
                    late.memory.release();
                    continue;
                }
                Ok(false) => {}
                Err(error) => log_warn!("completion vector {} stays: {}", late.id.get(), error),
            }
            // It was taken from there.
            let _ = self.unanswered.ceqs.push(late);
        }
    }

    /// Whether the device no longer has it.
    fn end_unanswered_ceq(&mut self, late: &UnansweredCeq<P>, wait: bool) -> Result<bool> {
        let (op, subject) = (Opcode::CreateCeq, late.memory.iova().0);
        match self.cqp.late_end(op, subject, wait)? {
            None if self.cqp.remembers(op, subject) => return Ok(false),
            Some(Err(_)) => return Ok(true),
            // A forgotten command: nothing is known, but what is posted now comes behind it.
            None | Some(Ok(_)) => {}
        }
        let entries = self.wiring.ceq_entries;
        destroy_ceq(&mut self.cqp, late.id, entries, &late.memory).map(|()| true)
    }

    /// Takes the queue of a completion vector down, then puts its vector back. A queue that the
    /// device refuses to destroy interrupts as before; if the device did not answer, nothing is
    /// freed.
    fn remove_ceq(&mut self, ceq: CeqUp<P>) -> Result<(), (CeqUp<P>, Error)> {
        let platform = &self.platform;
        irq::unbind_ceq(platform, ceq.id, ceq.vector, ceq.timer);
        let entries = self.wiring.ceq_entries;
        if let Err(error) = destroy_ceq(&mut self.cqp, ceq.id, entries, ceq.queue.memory()) {
            if !error.leaves_command_open() {
                irq::bind_ceq(platform, ceq.id, ceq.vector, ceq.timer, Itr::NONE);
            }
            return Err((ceq, error));
        }
        ceq.queue.into_memory().release();
        self.wiring.drop_vector(platform, ceq.vector);
        Ok(())
    }

    fn removable(&self, events: &VectorEvents<P>) -> Result<()> {
        let id = events.ceq.as_ref().map(|(id, _)| *id);
        let number = id.map_or(0, CeqId::get);
        self.own(events.tag, Object::CompletionVector, number)?;
        let Some(id) = id.filter(|id| *id != CEQ_0 && events.aeq.is_none()) else {
            return Err(STAYS);
        };
        match self.vectors.users(id) {
            0 => Ok(()),
            users => Err(Error::InUse {
                object: Object::CompletionVector,
                id: id.get(),
                users,
            }),
        }
    }

    /// Tells the platform that CPU `cpu` will consume the events of completion vector `number`
    /// from now on; the platform may not be able to follow the hint.
    /// [`Config::cpu_hints`](crate::Config::cpu_hints) gives the first hint.
    ///
    /// # Errors
    /// [`Error::NoSuch`].
    pub fn hint_cpu(&self, number: u16, cpu: u32) -> Result<()> {
        let vector = self.interrupt_vector(number).ok_or(Error::NoSuch {
            object: Object::CompletionVector,
            id: number.into(),
        })?;
        self.platform.vector_affinity(vector, cpu);
        Ok(())
    }
}

const STAYS: Error = Error::Invalid {
    what: "completion vector 0 and the vector of the asynchronous events stay as long as the device: remove another",
};
