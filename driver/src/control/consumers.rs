//! Creating the consumers of events, and taking them apart at shutdown.

use e810_ceq::{Aeq, Timer};
use e810_hal::{DmaBuf, Platform, Vector};

use super::ceq::{CeqList, CeqUp, ceq_0_first};
use super::{Control, Parts};
use crate::events::{EventSet, VectorEvents};

impl<P: Platform> Control<P> {
    /// Makes one consumer for each vector, in the order of the vectors. Empties the list of
    /// queues.
    pub(super) fn hand_out_events(&mut self, parts: Parts<P>, aeq: Aeq<DmaBuf<P>>) -> EventSet<P> {
        let Parts { mut set, log } = parts;
        let (mut aeq, mut log) = (Some(aeq), Some(log));
        // Taking from the end then gives CEQ 0 first.
        self.ceqs.reverse();
        for place in 0..self.wiring.in_use() {
            let serves = self.wiring.map.serves(place);
            let (Some(serves), Some(vector)) = (serves, self.wiring.at(place)) else {
                break;
            };
            let ceq = serves.ceq.and_then(|_| self.ceqs.pop());
            let mut part = self.consumer(vector, ceq);
            if serves.aeq {
                part.log = log.take();
                part.aeq = aeq.take();
                part.other_causes = self.lan_side.owned().is_some();
            }
            // As many places as vectors.
            let _ = set.push(part);
        }
        set
    }

    /// The consumer of a vector without asynchronous events.
    pub(super) fn consumer(&self, vector: Vector, ceq: Option<CeqUp<P>>) -> VectorEvents<P> {
        VectorEvents {
            platform: self.platform.clone(),
            tag: self.tag(),
            vector,
            timer: ceq.as_ref().map_or(Timer::None, |ceq| ceq.timer),
            ceq: ceq.map(|ceq| (ceq.id, ceq.queue)),
            reads_back: self.quirks.late_events_are_lost,
            moderation: self.moderation.clone(),
            aeq: None,
            other_causes: false,
            slots: self.slots(),
            wakers: self.wakers.clone(),
            log: None,
            overflow_reported: false,
        }
    }
}

/// Takes the consumers apart: the completion event queues go to `ceqs`, CEQ 0 first. `None` if no
/// consumer had the asynchronous event queue (it leaks).
pub(super) fn take_queues<P: Platform>(
    mut events: EventSet<P>,
    ceqs: &mut CeqList<P>,
) -> Option<Aeq<DmaBuf<P>>> {
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
    ceq_0_first(ceqs);
    aeq
}
