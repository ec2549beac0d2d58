//! QP scheduling: which QP is processed next, and when its timer expires.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Round robin over the queue pairs that have work, and their deadlines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schedule {
    queue: VecDeque<u32>,
    queued: BTreeSet<u32>,
    deadlines: BTreeSet<(u64, u32)>,
    deadline_of: BTreeMap<u32, u64>,
}

impl Schedule {
    /// The QP has work: it is served after those that wait already.
    pub(crate) fn wake(&mut self, qpn: u32) {
        if self.queued.insert(qpn) {
            self.queue.push_back(qpn);
        }
    }

    /// The QP to serve now.
    pub(crate) fn next(&mut self) -> Option<u32> {
        let qpn = self.queue.pop_front()?;
        self.queued.remove(&qpn);
        Some(qpn)
    }

    /// Whether a QP waits.
    pub(crate) fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Sets or clears the deadline of a QP.
    pub(crate) fn set_deadline(&mut self, qpn: u32, at: Option<u64>) {
        // Most packets leave it as it is.
        if self.deadline_of.get(&qpn).copied() == at {
            return;
        }
        if let Some(old) = self.deadline_of.remove(&qpn) {
            self.deadlines.remove(&(old, qpn));
        }
        if let Some(at) = at {
            self.deadline_of.insert(qpn, at);
            self.deadlines.insert((at, qpn));
        }
    }

    /// The earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Takes a QP whose deadline has come.
    pub(crate) fn expired(&mut self, now: u64) -> Option<u32> {
        let &(at, qpn) = self.deadlines.first()?;
        (at <= now).then(|| {
            self.set_deadline(qpn, None);
            qpn
        })
    }

    /// The QP is gone.
    pub(crate) fn forget(&mut self, qpn: u32) {
        self.set_deadline(qpn, None);
        if self.queued.remove(&qpn) {
            self.queue.retain(|queued| *queued != qpn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
