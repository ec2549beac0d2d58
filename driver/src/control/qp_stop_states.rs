//! Which commands were posted for each queue pair that is being stopped, and which queue pairs
//! are waited for: a record for each number, in memory the device cannot see.
//!
//! FLUSH_WQES is posted once for each queue (control-path 4.12, row "Once per side"), MODIFY_QP
//! to ERROR until the device has taken it. A repeated command may be answered by a failure, and
//! existing drivers repeat nothing. But only that answer shows that the device no longer uses the
//! memory that receives name, and the memory that peers may write.

use core::sync::atomic::{AtomicU64, Ordering};

use bitflags::bitflags;
use e810_datapath::slot::QpKey;
use e810_hal::{HostBuf, HostMem, NoHostMemory, Ns};

/// How far a queue pair is stopped: one bit for each command that is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct StopState(u64);

// Not with the struct inside: that brings in a text parser, which can panic.
bitflags! {
    impl StopState: u64 {
        /// It is in ERROR.
        const STOPPED = 1 << 0;
        /// The send queue is flushed.
        const SENDS = 1 << 1;
        /// The receive queue is flushed.
        const RECEIVES = 1 << 2;
        /// The device has it idle, or not at all: there is nothing to stop or to flush.
        const IDLE = 1 << 3;
        /// The device did not move it to ERROR, and is not asked again automatically.
        const UNSTOPPED = 1 << 4;
    }
}

/// In [`STATE`], above the state: how often the device did not move it to ERROR.
const TRIES_SHIFT: u32 = 32;
/// After so many tries the device is not asked again automatically.
const TRIES: u64 = 8;

/// Words of a record.
const WORDS: usize = 4;
// Words of a record.
/// Its [`StopState`].
const STATE: usize = 0;
/// The key while it is waited for; else 0, which is no key.
const KEY: usize = 1;
/// When the wait ends, in nanoseconds.
const UNTIL: usize = 2;
/// [31:0] the previous number, [63:32] the next; 0, which is reserved and so no queue pair's, at
/// the ends.
const LINKS: usize = 3;

/// Words of memory for numbers below `limit`.
pub(crate) const fn stop_words(limit: u32) -> usize {
    (limit as usize).saturating_mul(WORDS)
}

type Record = [AtomicU64; WORDS];

/// A record for each number of a queue pair. Those that are waited for form a list, ordered by
/// the end of their wait. A stopped queue pair waits for the device's flush; one that the device
/// did not stop waits until it is tried again.
#[derive(Debug)]
pub(crate) struct Stops<B> {
    words: B,
    first: u32,
    last: u32,
    settling: usize,
    unstopped: u32,
}

impl<P: HostMem> Stops<HostBuf<P>> {
    /// For numbers below `limit`.
    pub(crate) fn new(platform: P, limit: u32) -> Result<Self, NoHostMemory> {
        HostBuf::new(platform, stop_words(limit)).map(Self::over)
    }
}

impl<B: AsRef<[AtomicU64]>> Stops<B> {
    /// The same, on zeroed memory.
    const fn over(words: B) -> Self {
        Self {
            words,
            first: 0,
            last: 0,
            settling: 0,
            unstopped: 0,
        }
    }

    fn record(&self, id: u32) -> Option<&Record> {
        let (records, _) = self.words.as_ref().as_chunks();
        records.get(id as usize)
    }

    /// How far a queue pair is stopped.
    pub(super) fn state(&self, id: u32) -> StopState {
        let word = self.record(id).map_or(0, |record| get(record, STATE));
        StopState::from_bits_truncate(word)
    }

    /// Adds bits to its state.
    pub(super) fn add_state(&self, id: u32, state: StopState) {
        if let Some(record) = self.record(id) {
            set(record, STATE, get(record, STATE) | state.bits());
        }
    }

    /// The device has moved it to ERROR, or has it idle: it writes no more for it.
    pub(super) fn stopped(&mut self, id: u32, how: StopState) {
        self.ask_again(id);
        self.add_state(id, how);
    }

    /// Whether it is.
    pub(super) fn is_stopped(&self, id: u32) -> bool {
        let stopped = StopState::STOPPED | StopState::IDLE;
        self.state(id).intersects(stopped)
    }

    /// The device did not move it to ERROR; returns whether to ask it again automatically.
    pub(super) fn refused(&mut self, id: u32) -> bool {
        let Some(record) = self.record(id) else {
            return false;
        };
        let all = get(record, STATE).wrapping_add(1 << TRIES_SHIFT);
        set(record, STATE, all);
        let again = all >> TRIES_SHIFT < TRIES && all & StopState::UNSTOPPED.bits() == 0;
        if !again {
            self.give_up(id);
        }
        again
    }

    /// The device is not asked again automatically.
    pub(super) fn give_up(&mut self, id: u32) {
        if !self.state(id).contains(StopState::UNSTOPPED) {
            self.unstopped = self.unstopped.saturating_add(1);
            self.add_state(id, StopState::UNSTOPPED);
        }
    }

    /// The device may be asked again, as often as at first.
    pub(super) fn ask_again(&mut self, id: u32) {
        let state = self.state(id);
        if state.contains(StopState::UNSTOPPED) {
            self.unstopped = self.unstopped.saturating_sub(1);
        }
        if let Some(record) = self.record(id) {
            let state = state.difference(StopState::UNSTOPPED);
            set(record, STATE, state.bits());
        }
    }

    /// Queue pairs that the device did not move to ERROR, and that it is not asked about again.
    pub(super) const fn unstopped(&self) -> u32 {
        self.unstopped
    }

    /// The number of one of them.
    pub(super) fn any_unstopped(&self) -> Option<u32> {
        let (records, _) = self.words.as_ref().as_chunks::<WORDS>();
        let mut ids = 0..records.len() as u32;
        ids.find(|id| self.state(*id).contains(StopState::UNSTOPPED))
    }

    /// Clears the record of a number that is given to a new queue pair.
    pub(super) fn renew(&mut self, id: u32) {
        self.take_out(id);
        self.ask_again(id);
        if let Some(record) = self.record(id) {
            set(record, STATE, 0);
        }
    }

    /// Waits for a queue pair until then; no wait of another queue pair may end later.
    pub(super) fn settle(&mut self, key: QpKey, until: Ns) {
        let id = key.id();
        self.take_out(id);
        let Some(record) = self.record(id) else {
            return;
        };
        set(record, KEY, key.bits());
        set(record, UNTIL, until.0);
        set(record, LINKS, self.last.into());
        match self.record(self.last).filter(|_| self.last != 0) {
            Some(before) => set_after(before, id),
            None => self.first = id,
        }
        self.last = id;
        self.settling = self.settling.wrapping_add(1);
    }

    /// A queue pair whose wait is over; it is then no longer waited for.
    pub(super) fn take_due(&mut self, now: Ns) -> Option<QpKey> {
        let record = self.record(self.first).filter(|_| self.first != 0)?;
        if now.0 < get(record, UNTIL) {
            return None;
        }
        let key = QpKey::from_bits(get(record, KEY));
        self.take_out(self.first);
        key
    }

    /// Queue pairs that are waited for.
    pub(super) const fn settling(&self) -> usize {
        self.settling
    }

    /// Takes a number out of the list, if it is there.
    fn take_out(&mut self, id: u32) {
        let Some(record) = self.record(id).filter(|record| get(record, KEY) != 0) else {
            return;
        };
        set(record, KEY, 0);
        let links = get(record, LINKS);
        let (before, after) = (links as u32, (links >> 32) as u32);
        match self.record(before).filter(|_| before != 0) {
            Some(record) => set_after(record, after),
            None => self.first = after,
        }
        match self.record(after).filter(|_| after != 0) {
            Some(record) => set_before(record, before),
            None => self.last = before,
        }
        self.settling = self.settling.saturating_sub(1);
    }
}

// Only control reads and writes the records, so any order does.

fn get(record: &Record, word: usize) -> u64 {
    record
        .get(word)
        .map_or(0, |word| word.load(Ordering::Relaxed))
}

fn set(record: &Record, word: usize, value: u64) {
    if let Some(word) = record.get(word) {
        word.store(value, Ordering::Relaxed);
    }
}

fn set_before(record: &Record, id: u32) {
    let links = get(record, LINKS);
    set(record, LINKS, links & !u64::from(u32::MAX) | u64::from(id));
}

fn set_after(record: &Record, id: u32) {
    let links = get(record, LINKS);
    set(
        record,
        LINKS,
        links & u64::from(u32::MAX) | u64::from(id) << 32,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn stops(limit: usize) -> Stops<Vec<AtomicU64>> {
        Stops::over((0..limit * WORDS).map(|_| AtomicU64::new(0)).collect())
    }

    fn key(id: u32, generation: u64) -> QpKey {
        QpKey::from_bits(generation << 32 | u64::from(id)).unwrap()
    }

    fn due(stops: &mut Stops<Vec<AtomicU64>>, now: u64) -> Vec<u32> {
        core::iter::from_fn(|| stops.take_due(Ns(now)).map(QpKey::id)).collect()
    }

    #[test]
    fn grace_ends_in_order() {
        let mut stops = stops(8);
        for id in 3..8 {
            stops.settle(key(id, 1), Ns(10 * u64::from(id)));
        }
        assert_eq!(due(&mut stops, 29), []);
        assert_eq!(due(&mut stops, 30), [3]);
        assert_eq!(stops.settling(), 4);
        assert_eq!(due(&mut stops, 65), [4, 5, 6]);
        assert_eq!(due(&mut stops, 1000), [7]);
        assert_eq!(due(&mut stops, 1000), []);
        assert_eq!(stops.settling(), 0);
    }

    #[test]
    fn the_next_life_has_no_state_and_no_grace() {
        // First, last and in the middle.
        for id in [3, 5, 4] {
            let mut stops = stops(6);
            for id in 3..6 {
                stops.settle(key(id, 1), Ns(10));
                stops.add_state(id, StopState::all());
            }
            stops.renew(id);
            assert_eq!(stops.state(id), StopState::empty());
            stops.settle(key(id, 2), Ns(20));
            let others: Vec<_> = (3..6).filter(|other| *other != id).collect();
            assert!(others.iter().all(|id| stops.state(*id) == StopState::all()));
            assert_eq!(due(&mut stops, 10), others);
            assert_eq!(stops.take_due(Ns(20)), Some(key(id, 2)));
            assert_eq!(stops.settling(), 0);
        }
    }

    #[test]
    fn states_add_up_and_grace_is_restarted() {
        let mut stops = stops(5);
        stops.add_state(3, StopState::STOPPED);
        stops.add_state(3, StopState::SENDS);
        assert_eq!(stops.state(3), StopState::STOPPED | StopState::SENDS);
        assert_eq!(stops.state(4), StopState::empty());
        stops.settle(key(3, 1), Ns(10));
        stops.settle(key(3, 1), Ns(20));
        assert_eq!(stops.settling(), 1);
        assert_eq!(due(&mut stops, 19), []);
        assert_eq!(due(&mut stops, 20), [3]);
    }

    #[test]
    fn one_that_is_refused_is_given_up_and_counted_once() {
        let mut stops = stops(6);
        for id in [4, 5] {
            let again = (1..=TRIES).map(|_| stops.refused(id));
            assert_eq!(again.filter(|again| *again).count() as u64, TRIES - 1);
            stops.give_up(id);
        }
        assert_eq!((stops.unstopped(), stops.any_unstopped()), (2, Some(4)));
        assert!(!stops.is_stopped(4));
        stops.ask_again(4);
        assert_eq!((stops.unstopped(), stops.any_unstopped()), (1, Some(5)));
        assert!(stops.refused(4), "counted from the start");
        stops.stopped(5, StopState::STOPPED);
        assert!(stops.is_stopped(5));
        assert_eq!((stops.unstopped(), stops.any_unstopped()), (0, None));
        stops.give_up(4);
        stops.renew(4);
        assert_eq!((stops.unstopped(), stops.any_unstopped()), (0, None));
    }

    #[test]
    fn numbers_outside_are_nobody() {
        let mut stops = stops(4);
        stops.settle(key(4, 1), Ns(0));
        stops.add_state(4, StopState::all());
        assert!(!stops.refused(4));
        stops.renew(4);
        assert_eq!(stops.state(4), StopState::empty());
        assert_eq!(due(&mut stops, 1000), []);
        assert_eq!(stops.settling(), 0);
    }
}
