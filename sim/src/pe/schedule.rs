//! QP scheduling: the QP to process next, and the time at which its timer expires.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// No deadline.
const NEVER: u64 = u64::MAX;

/// Scheduling state of one queue pair.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// It waits for its turn.
    queued: bool,
    deadline: u64,
    /// The earliest of its timer entries.
    timer: u64,
}

impl Slot {
    const EMPTY: Self = Self {
        queued: false,
        deadline: NEVER,
        timer: NEVER,
    };
}

/// Round robin over the queue pairs that have work, and their deadlines.
///
/// A deadline moves with nearly every packet and is hardly ever reached. So when the deadline of a
/// queue pair moves to a later time, its timer entry stays, and is replaced when it becomes the
/// first of all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schedule {
    queue: VecDeque<u32>,
    /// By number of the queue pair.
    slots: Vec<Slot>,
    /// The first entry is always that of the earliest deadline.
    timers: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Schedule {
    fn slot(&mut self, qpn: u32) -> &mut Slot {
        let index = qpn as usize;
        if index >= self.slots.len() {
            self.slots.resize(index + 1, Slot::EMPTY);
        }
        match self.slots.get_mut(index) {
            Some(slot) => slot,
            None => unreachable!("made room for it"),
        }
    }

    /// The QP has work: it is served after those that are already waiting.
    pub(crate) fn wake(&mut self, qpn: u32) {
        if !std::mem::replace(&mut self.slot(qpn).queued, true) {
            self.queue.push_back(qpn);
        }
    }

    /// The QP to serve now.
    pub(crate) fn next(&mut self) -> Option<u32> {
        let qpn = self.queue.pop_front()?;
        self.slot(qpn).queued = false;
        Some(qpn)
    }

    /// Whether a QP waits.
    pub(crate) fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Sets or clears the deadline of a QP.
    pub(crate) fn set_deadline(&mut self, qpn: u32, at: Option<u64>) {
        let at = at.unwrap_or(NEVER);
        let slot = self.slot(qpn);
        if slot.deadline == at {
            // Most packets do not change it.
            return;
        }
        slot.deadline = at;
        if at < slot.timer {
            slot.timer = at;
            self.timers.push(Reverse((at, qpn)));
        }
        self.replace_first();
    }

    /// Replaces the first timers until the first one matches a deadline.
    fn replace_first(&mut self) {
        while let Some(&Reverse((at, qpn))) = self.timers.peek() {
            let slot = self.slot(qpn);
            let deadline = slot.deadline;
            if deadline == at {
                return;
            }
            let is_earliest = slot.timer == at;
            if is_earliest {
                slot.timer = deadline;
            }
            self.timers.pop();
            if is_earliest && deadline != NEVER {
                self.timers.push(Reverse((deadline, qpn)));
            }
        }
    }

    /// The earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes a QP whose deadline has come.
    pub(crate) fn expired(&mut self, now: u64) -> Option<u32> {
        let &Reverse((at, qpn)) = self.timers.peek()?;
        (at <= now).then(|| {
            self.set_deadline(qpn, None);
            qpn
        })
    }

    /// The QP is gone.
    pub(crate) fn forget(&mut self, qpn: u32) {
        self.set_deadline(qpn, None);
        if std::mem::take(&mut self.slot(qpn).queued) {
            self.queue.retain(|queued| *queued != qpn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn service_is_round_robin_and_once() {
        let mut schedule = Schedule::default();
        for qpn in [3, 4, 3] {
            schedule.wake(qpn);
        }
        assert_eq!(schedule.next(), Some(3));
        schedule.wake(3);
        assert_eq!(
            [schedule.next(), schedule.next(), schedule.next()],
            [Some(4), Some(3), None]
        );
    }

    #[test]
    fn the_earliest_deadline_comes_first_and_only_once() {
        let mut schedule = Schedule::default();
        schedule.set_deadline(7, Some(100));
        schedule.set_deadline(8, Some(50));
        schedule.set_deadline(7, Some(40));
        assert_eq!(schedule.next_deadline(), Some(40));
        assert_eq!(schedule.expired(39), None);
        assert_eq!(schedule.expired(40), Some(7));
        schedule.wake(8);
        schedule.forget(8);
        assert_eq!(
            (schedule.next_deadline(), schedule.has_work()),
            (None, false)
        );
    }

    proptest! {
        /// Deadlines that move are still reported in order of time.
        #[test]
        fn deadlines_are_those_of_a_plain_table(
            moves in prop::collection::vec((0..6_u32, prop::option::of(0..50_u64), 0..60_u64), 1..200),
        ) {
            let mut schedule = Schedule::default();
            let mut table = BTreeMap::new();
            for (qpn, at, now) in moves {
                schedule.set_deadline(qpn, at);
                match at {
                    Some(at) => table.insert(qpn, at),
                    None => table.remove(&qpn),
                };
                let first = table.iter().map(|(qpn, at)| (*at, *qpn)).min();
                prop_assert_eq!(schedule.next_deadline(), first.map(|(at, _)| at));
                let expired = first.filter(|(at, _)| *at <= now).map(|(_, qpn)| qpn);
                prop_assert_eq!(schedule.expired(now), expired);
                if let Some(qpn) = expired {
                    table.remove(&qpn);
                }
            }
        }
    }
}
