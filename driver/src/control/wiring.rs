//! Which completion event queue is on which vector, and where each vector came from. Vectors
//! taken at bring-up stay with the device until its end; vectors taken later go back to the
//! platform when their queue goes.

use e810_ceq::irq::{self, Units};
use e810_ceq::{CeqEntries, Timer, VectorMap};
use e810_hal::{CeqId, HostList, Platform, Vector};

use super::CEQ_0;
use crate::config::{Config, MAX_CEQS};
use crate::error::{Error, Result};

/// Places for vectors: one for each completion event queue, and one more.
const PLACES: usize = MAX_CEQS + 1;

/// Which vectors a further queue may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Choice {
    /// One that was taken at bring-up and is not in use, or a new one.
    Any,
    /// A new one.
    Dynamic,
}

/// A vector, and whether it was taken after bring-up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) vector: Vector,
    dynamic: bool,
}

/// Which queue is on which vector, and how large.
#[derive(Debug)]
pub(crate) struct Wiring<P: Platform> {
    /// As at bring-up.
    pub(crate) map: VectorMap,
    /// Entries of each queue.
    pub(crate) ceq_entries: CeqEntries,
    pub(super) units: Units,
    /// In use, at bring-up in the order of their places; the first one stays.
    in_use: HostList<P, Taken>,
    /// Taken at bring-up and not in use.
    spare: HostList<P, Vector>,
}

impl<P: Platform> Wiring<P> {
    /// Takes the vectors of a bring-up: those of its queues, then spare ones. `cqs` is the number
    /// of CQs of the function. After an error nothing is held.
    pub(crate) fn new(
        platform: &P,
        config: &Config,
        units: Units,
        device_ceqs: u32,
        cqs: u32,
    ) -> Result<Self> {
        let ceqs = config.ceqs.min(MAX_CEQS as u16);
        let most = usize::from(ceqs.saturating_add(config.spare_vectors)).saturating_add(1);
        let in_use = HostList::new(platform.clone(), PLACES)?;
        let mut spare = HostList::new(platform.clone(), PLACES)?;
        while spare.len() < most
            && !spare.is_full()
            && let Some(vector) = platform.vector_alloc()
        {
            // It is not full.
            let _ = spare.push(vector);
        }
        let planned = VectorMap::plan(spare.len() as u16, ceqs, device_ceqs)
            .and_then(|map| Ok((map, CeqEntries::for_cqs(cqs)?)));
        let (map, ceq_entries) = match planned {
            Ok(planned) => planned,
            Err(error) => {
                give(platform, &mut spare, 0);
                return Err(error.into());
            }
        };
        let keep = map.vectors().saturating_add(config.spare_vectors);
        give(platform, &mut spare, keep);
        let mut wiring = Self {
            map,
            ceq_entries,
            units,
            in_use,
            spare,
        };
        for _ in 0..map.vectors() {
            if let Some(vector) = wiring.take_spare() {
                wiring.keep(Taken {
                    vector,
                    dynamic: false,
                });
            }
        }
        Ok(wiring)
    }

    /// What delays a completion event queue's interrupts. Only CEQ 0 can share
    /// the vector of the asynchronous events.
    pub(crate) fn timer(&self, id: CeqId) -> Timer {
        irq::ceq_timer(self.map.shared() && id == CEQ_0)
    }

    /// The vector at place `place` of the bring-up.
    pub(crate) fn at(&self, place: u16) -> Option<Vector> {
        let taken = self.in_use.get(usize::from(place))?;
        Some(taken.vector)
    }

    /// Vectors in use; there is one consumer of events for each.
    pub(super) fn in_use(&self) -> u16 {
        self.in_use.len() as u16
    }

    /// Gives all vectors back.
    pub(crate) fn give_all(&mut self, platform: &P) {
        while let Some(taken) = self.in_use.pop() {
            platform.vector_free(taken.vector);
        }
        self.give_spare(platform);
    }

    /// Gives the vectors back that are not in use.
    pub(super) fn give_spare(&mut self, platform: &P) {
        give(platform, &mut self.spare, 0);
    }

    /// A vector for one more queue.
    ///
    /// # Errors
    /// [`Error::NoVector`].
    pub(super) fn take(&mut self, platform: &P, choice: Choice) -> Result<Taken> {
        let spare = match choice {
            Choice::Any => self.take_spare(),
            Choice::Dynamic => None,
        };
        let dynamic = spare.is_none();
        let vector = spare.or_else(|| platform.vector_alloc());
        let vector = vector.ok_or_else(|| Error::NoVector {
            held: self.in_use().saturating_add(self.spare.len() as u16),
            spare: self.spare.len() as u16,
            most: platform.vector_count(),
        })?;
        Ok(Taken { vector, dynamic })
    }

    /// Puts a vector that nothing names back to where it came from.
    pub(super) fn put_back(&mut self, platform: &P, taken: Taken) {
        if taken.dynamic {
            platform.vector_free(taken.vector);
        } else {
            // As many places as are taken at bring-up at most.
            let _ = self.spare.push(taken.vector);
        }
    }

    /// A vector is in use from now on.
    pub(super) fn keep(&mut self, taken: Taken) {
        // As many places as queues there may be.
        let _ = self.in_use.push(taken);
    }

    /// Puts back the vector of a queue that no longer exists. Never the first, so the first stays
    /// where it is.
    pub(super) fn drop_vector(&mut self, platform: &P, vector: Vector) {
        let last = self.in_use.last().copied();
        let place = self.in_use.iter_mut().find(|taken| taken.vector == vector);
        if let (Some(last), Some(place)) = (last, place) {
            let taken = core::mem::replace(place, last);
            self.in_use.pop();
            self.put_back(platform, taken);
        }
    }

    /// The lowest of the spare vectors.
    fn take_spare(&mut self) -> Option<Vector> {
        let last = *self.spare.last()?;
        let lowest = self.spare.iter_mut().min()?;
        let vector = core::mem::replace(lowest, last);
        self.spare.pop();
        Some(vector)
    }
}

/// Gives back the vectors from place `keep` on.
fn give<P: Platform>(platform: &P, vectors: &mut HostList<P, Vector>, keep: u16) {
    while vectors.len() > usize::from(keep)
        && let Some(vector) = vectors.pop()
    {
        platform.vector_free(vector);
    }
}
