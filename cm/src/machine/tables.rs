//! The tables beside the connections, in words that the caller gives: which connection has which
//! timer, who is found by which key, and who has something to say.

use e810_types::Ns;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// First in, first out; each slot is in it once at most, so it has room.
pub(super) struct Ring<'t> {
    words: &'t mut [u32],
    first: usize,
    len: usize,
}

impl<'t> Ring<'t> {
    pub(super) fn new(words: &'t mut [u32]) -> Self {
        Self {
            words,
            first: 0,
            len: 0,
        }
    }

    pub(super) const fn clear(&mut self) {
        self.len = 0;
    }

    pub(super) fn push(&mut self, slot: u32) {
        let at = self.place(self.len);
        if let Some(word) = self.words.get_mut(at) {
            *word = slot;
            self.len = self.len.saturating_add(1);
        }
    }

    pub(super) fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        let slot = self.words.get(self.first).copied();
        self.first = self.place(1);
        slot
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Index of the n-th word from the first on.
    fn place(&self, n: usize) -> usize {
        let at = self.first.wrapping_add(n);
        at.checked_sub(self.words.len()).unwrap_or(at)
    }
}

/// Where each slot is in the heap of times, beside its time.
#[derive(Clone, Copy)]
pub(super) struct Timer {
    pub(super) at: Ns,
    place: u32,
}

impl Timer {
    pub(super) const OFF: Self = Self {
        at: Ns::ZERO,
        place: NONE,
    };

    pub(super) const fn is_set(&self) -> bool {
        self.place != NONE
    }
}

/// A slot's timer.
pub(super) trait Timers {
    fn timer(&mut self, slot: u32) -> Option<&mut Timer>;
}

/// The slots with a timer: a binary heap, the earliest first.
pub(super) struct Heap<'t> {
    words: &'t mut [u32],
    len: usize,
}

impl<'t> Heap<'t> {
    pub(super) fn new(words: &'t mut [u32]) -> Self {
        Self { words, len: 0 }
    }

    /// No slot has a timer; none of them knows of its own any more.
    pub(super) const fn clear_all(&mut self) {
        self.len = 0;
    }

    pub(super) fn first(&self) -> Option<u32> {
        self.words.get(..self.len)?.first().copied()
    }

    /// Sets a slot's timer, or sets it again.
    pub(super) fn set(&mut self, slots: &mut impl Timers, slot: u32, at: Ns) {
        let Some(timer) = slots.timer(slot) else {
            return;
        };
        timer.at = at;
        let mut place = timer.place as usize;
        if !timer.is_set() {
            place = self.len;
            let Some(word) = self.words.get_mut(place) else {
                return;
            };
            *word = slot;
            timer.place = place as u32;
            self.len = self.len.saturating_add(1);
        }
        self.settle(slots, place);
    }

    pub(super) fn clear(&mut self, slots: &mut impl Timers, slot: u32) {
        let Some(timer) = slots.timer(slot) else {
            return;
        };
        if !timer.is_set() {
            return;
        }
        let place = timer.place as usize;
        let last = self.len.saturating_sub(1);
        self.swap(slots, place, last);
        self.len = last;
        if let Some(timer) = slots.timer(slot) {
            timer.place = NONE;
        }
        if place < last {
            self.settle(slots, place);
        }
    }

    /// Moves an entry up or down until it is in order.
    fn settle(&mut self, slots: &mut impl Timers, mut place: usize) {
        while let Some(before) = place.checked_sub(1)
            && self.order(slots, before / 2, place)
        {
            place = before / 2;
        }
        loop {
            let left = place.saturating_mul(2).saturating_add(1);
            let right = left.saturating_add(1);
            let is_right = right < self.len && self.time(slots, right) < self.time(slots, left);
            let least = if is_right { right } else { left };
            if least >= self.len || !self.order(slots, place, least) {
                break;
            }
            place = least;
        }
    }

    /// Swaps two entries if the lower one is earlier.
    fn order(&mut self, slots: &mut impl Timers, upper: usize, lower: usize) -> bool {
        let is_wrong = self.time(slots, upper) > self.time(slots, lower);
        if is_wrong {
            self.swap(slots, upper, lower);
        }
        is_wrong
    }

    fn time(&self, slots: &mut impl Timers, place: usize) -> Ns {
        let slot = self.words.get(place).copied().unwrap_or(NONE);
        slots.timer(slot).map_or(Ns::ZERO, |timer| timer.at)
    }

    fn swap(&mut self, slots: &mut impl Timers, a: usize, b: usize) {
        swap(self.words, a, b);
        for place in [a, b] {
            let slot = self.words.get(place).copied().unwrap_or(NONE);
            if let Some(timer) = slots.timer(slot) {
                timer.place = place as u32;
            }
        }
    }
}

/// Swaps two words, if both are there; unlike the library's, it cannot panic.
fn swap(words: &mut [u32], a: usize, b: usize) {
    if let (Some(&at_a), Some(&at_b)) = (words.get(a), words.get(b)) {
        for (place, word) in [(a, at_b), (b, at_a)] {
            if let Some(into) = words.get_mut(place) {
                *into = word;
            }
        }
    }
}

/// A set of slots from which any may be taken.
pub(super) struct Bag<'t> {
    words: &'t mut [u32],
    len: usize,
}

impl<'t> Bag<'t> {
    pub(super) fn new(words: &'t mut [u32]) -> Self {
        Self { words, len: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds a slot; its place, unless there is no room.
    pub(super) fn add(&mut self, slot: u32) -> Option<u32> {
        let place = self.len;
        *self.words.get_mut(place)? = slot;
        self.len = self.len.saturating_add(1);
        Some(place as u32)
    }

    /// Removes the slot at a place; the one that has this place now, if there is one.
    pub(super) fn remove(&mut self, place: u32) -> Option<u32> {
        let last = self.len.checked_sub(1)?;
        if place as usize > last {
            return None;
        }
        swap(self.words, place as usize, last);
        self.len = last;
        self.words.get(..last)?.get(place as usize).copied()
    }

    pub(super) fn get(&self, place: usize) -> Option<u32> {
        self.words.get(..self.len)?.get(place).copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Rows([Timer; 16]);

    impl Timers for Rows {
        fn timer(&mut self, slot: u32) -> Option<&mut Timer> {
            self.0.get_mut(slot as usize)
        }
    }

    proptest! {
        /// Whatever is set, set again and cleared: the first is the earliest.
        #[test]
        fn the_earliest_is_first(steps in prop::collection::vec((0_u32..16, 0_u64..9), 1..200)) {
            let mut words = [0; 16];
            let (mut heap, mut rows) = (Heap::new(&mut words), Rows([Timer::OFF; 16]));
            for (slot, time) in steps {
                match time {
                    0 => heap.clear(&mut rows, slot),
                    time => heap.set(&mut rows, slot, Ns(time)),
                }
                let set = rows.0.iter().filter(|timer| timer.is_set());
                prop_assert_eq!(set.clone().count(), heap.len);
                let first = heap.first().map(|slot| rows.0[slot as usize].at);
                prop_assert_eq!(first, set.map(|timer| timer.at).min());
            }
        }
    }

    #[test]
    fn a_ring_goes_round() {
        let mut words = [0; 3];
        let mut ring = Ring::new(&mut words);
        for n in 0..20 {
            ring.push(n);
            ring.push(n + 100);
            assert_eq!((ring.pop(), ring.len()), (Some(n), 1));
            assert_eq!((ring.pop(), ring.pop()), (Some(n + 100), None));
        }
    }

    #[test]
    fn a_bag_keeps_what_is_not_taken() {
        let mut words = [0; 3];
        let mut bag = Bag::new(&mut words);
        assert_eq!(
            [7, 8, 9, 10].map(|slot| bag.add(slot)),
            [Some(0), Some(1), Some(2), None]
        );
        assert_eq!(bag.remove(0), Some(9));
        assert_eq!(bag.remove(1), None);
        assert_eq!((bag.get(0), bag.get(1), bag.len()), (Some(9), None, 1));
    }
}
