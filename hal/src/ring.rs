//! Ring arithmetic: indexes, laps and the valid bit.
//!
//! Every queue of the device marks its entries with a valid bit whose meaning flips each time the
//! ring wraps. [`Producer`] is the side that writes entries (CQP SQ, SQ, RQ), [`Consumer`] the
//! side that reads what the device wrote (CQ, CEQ, AEQ). Both are plain values; other code
//! decides who may touch the memory.

/// An entry a [`Producer`] handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Index of the entry.
    pub index: u32,
    /// Value its valid bit must have to be valid in this lap.
    pub polarity: bool,
}

/// Producer side of a power-of-two ring that keeps one entry free.
///
/// The polarity variable is that of the last entry handed out: it starts 0 and
/// flips whenever entry 0 is handed out, so the first lap writes 1
/// (control-path 4.1, data-path 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Producer {
    mask: u32,
    head: u32,
    tail: u32,
    polarity: bool,
}

impl Producer {
    /// A ring of `size` entries; `None` unless a power of two from 2 to 2^31.
    #[must_use]
    pub const fn new(size: u32) -> Option<Self> {
        if size < 2 || !size.is_power_of_two() {
            return None;
        }
        Some(Self {
            mask: size.wrapping_sub(1),
            head: 0,
            tail: 0,
            polarity: false,
        })
    }

    /// Entries in the ring.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.mask.wrapping_add(1)
    }

    /// Entries in use.
    #[must_use]
    pub const fn used(&self) -> u32 {
        self.head.wrapping_sub(self.tail) & self.mask
    }

    /// Entries that can still be claimed.
    #[must_use]
    pub const fn free(&self) -> u32 {
        self.mask.wrapping_sub(self.used())
    }

    /// Index of the next entry to be claimed.
    #[must_use]
    pub const fn head(&self) -> u32 {
        self.head
    }

    /// Index of the oldest entry in use.
    #[must_use]
    pub const fn tail(&self) -> u32 {
        self.tail
    }

    /// Polarity of the last entry handed out.
    #[must_use]
    pub const fn polarity(&self) -> bool {
        self.polarity
    }

    /// Takes the next entry, leaving at least `reserve - 1` more free after it
    /// (`reserve` 1: just this one). `None` when the ring is that full.
    pub fn claim(&mut self, reserve: u32) -> Option<Claim> {
        if self.free() < reserve || reserve == 0 {
            return None;
        }
        let index = self.head;
        if index == 0 {
            self.polarity = !self.polarity;
        }
        self.head = self.head.wrapping_add(1) & self.mask;
        Some(Claim {
            index,
            polarity: self.polarity,
        })
    }

    /// Retires the oldest entry; `None` when there is none.
    pub fn retire(&mut self) -> Option<u32> {
        if self.used() == 0 {
            return None;
        }
        let index = self.tail;
        self.tail = self.tail.wrapping_add(1) & self.mask;
        Some(index)
    }
}

/// Consumer side of a ring of any size (CQ sizes need not be powers of two,
/// data-path 10 item 11): polarity starts 1 and flips when the index wraps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Consumer {
    size: u32,
    head: u32,
    polarity: bool,
}

impl Consumer {
    /// A ring of `size` entries; `None` when 0.
    #[must_use]
    pub const fn new(size: u32) -> Option<Self> {
        if size == 0 {
            return None;
        }
        Some(Self {
            size,
            head: 0,
            polarity: true,
        })
    }

    /// Entries in the ring.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// Index of the entry the device writes next.
    #[must_use]
    #[inline(always)]
    pub const fn index(&self) -> u32 {
        self.head
    }

    /// Value of the valid bit of a valid entry at [`Consumer::index`].
    #[must_use]
    #[inline(always)]
    pub const fn polarity(&self) -> bool {
        self.polarity
    }

    /// Index and polarity of the entry after the current one.
    #[must_use]
    pub const fn peek_next(&self) -> Claim {
        let mut next = *self;
        next.advance();
        Claim {
            index: next.head,
            polarity: next.polarity,
        }
    }

    /// Moves on to the next entry.
    #[inline(always)]
    pub const fn advance(&mut self) {
        self.head = self.head.wrapping_add(1);
        if self.head >= self.size {
            self.head = 0;
            self.polarity = !self.polarity;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_checked() {
        assert!(Producer::new(0).is_none());
        assert!(Producer::new(1).is_none());
        assert!(Producer::new(6).is_none());
        assert!(Producer::new(4).is_some());
        assert!(Consumer::new(0).is_none());
    }

    #[test]
    fn a_full_ring_keeps_one_entry_free() {
        let mut ring = Producer::new(4).unwrap();
        for index in 0..3 {
            assert_eq!(
                ring.claim(1),
                Some(Claim {
                    index,
                    polarity: true
                })
            );
        }
        assert_eq!(ring.claim(1), None);
        assert_eq!(ring.retire(), Some(0));
        assert_eq!(
            ring.claim(1),
            Some(Claim {
                index: 3,
                polarity: true
            })
        );
        assert_eq!(ring.retire(), Some(1));
        assert_eq!(
            ring.claim(1),
            Some(Claim {
                index: 0,
                polarity: false
            })
        );
    }

    #[test]
    fn an_empty_ring_retires_nothing() {
        assert_eq!(Producer::new(2).unwrap().retire(), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against the obvious model: unbounded counters.
        #[test]
        fn producer_matches_counters(shift in 1u32..6, ops in prop::collection::vec(any::<bool>(), 0..200)) {
            let size = 1u32 << shift;
            let mut ring = Producer::new(size).unwrap();
            let (mut head, mut tail) = (0u32, 0u32);
            for claim in ops {
                if claim {
                    let expected = (head - tail < size - 1)
                        .then_some(Claim { index: head % size, polarity: (head / size).is_multiple_of(2) });
                    prop_assert_eq!(ring.claim(1), expected);
                    if expected.is_some() { head += 1; }
                } else {
                    let expected = (head != tail).then_some(tail % size);
                    prop_assert_eq!(ring.retire(), expected);
                    if expected.is_some() { tail += 1; }
                }
                prop_assert_eq!(ring.used(), head - tail);
                prop_assert_eq!(ring.free(), size - 1 - (head - tail));
            }
        }

        #[test]
        fn consumer_matches_a_counter(size in 1u32..40, steps in 0u32..200) {
            let mut ring = Consumer::new(size).unwrap();
            for n in 0..steps {
                prop_assert_eq!(ring.index(), n % size);
                prop_assert_eq!(ring.polarity(), (n / size).is_multiple_of(2));
                let next = ring.peek_next();
                ring.advance();
                prop_assert_eq!(next, Claim { index: ring.index(), polarity: ring.polarity() });
            }
        }
    }
}
