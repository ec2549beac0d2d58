//! Send queue entries of one queue pair that were sent and are not acknowledged.

use std::collections::VecDeque;

use crate::rc::Sent;

/// Maximum entries kept; others are read again.
const KEPT: usize = 1024;

/// The entries, in ring order.
///
/// They stay on the chip. A copy, and a queue pair that was read back from its context, have none,
/// so their entries are read again.
#[derive(Debug, Default)]
pub(super) struct InFlight(VecDeque<Sent>);

impl Clone for InFlight {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl InFlight {
    /// Keeps an entry; an entry that is sent again is already kept.
    pub(super) fn push(&mut self, sent: Sent) {
        let is_new = self.0.back().is_none_or(|last| last.pos < sent.pos);
        if is_new && self.0.len() < KEPT {
            self.0.push_back(sent);
        }
    }

    /// The entry at `pos`, if it is kept. The entries before it have completed.
    pub(super) fn find(&mut self, pos: u64) -> Option<Sent> {
        while self.0.front()?.pos < pos {
            self.0.pop_front();
        }
        self.0.front().filter(|first| first.pos == pos).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(pos: u64) -> Sent {
        Sent {
            pos,
            quanta: 1,
            opcode: 3,
            signaled: true,
            message: true,
            packets: 1,
        }
    }

    #[test]
    fn entries_are_found_until_one_behind_them_was() {
        let mut kept = InFlight::default();
        for pos in [3, 5, 3, 5, 6] {
            kept.push(sent(pos));
        }
        assert_eq!(kept.find(2), None);
        assert_eq!(kept.find(3), Some(sent(3)));
        assert_eq!(kept.find(4), None);
        assert_eq!(kept.find(5), Some(sent(5)));
        assert_eq!(kept.clone().find(5), None);
        assert_eq!(kept.find(7), None);
        assert_eq!(kept.find(6), None);
    }

    #[test]
    fn what_does_not_fit_is_read_again() {
        let mut kept = InFlight::default();
        for pos in 0..KEPT as u64 + 2 {
            kept.push(sent(pos));
        }
        assert_eq!(kept.find(KEPT as u64 - 1), Some(sent(KEPT as u64 - 1)));
        assert_eq!(kept.find(KEPT as u64), None);
    }
}
