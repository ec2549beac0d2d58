//! Another ring under a completion queue that works (data-path 4.9).
//!
//! The device writes to the old ring until MODIFY_CQ takes effect, then begins at entry 0 of the
//! new one with the first lap's valid bit. So the old ring is polled until it is empty, and is
//! finished as soon as the new one has an entry. The arm word (SW_CQ_SELECT) holds the number of
//! finished rings, because the head in the shadow area means nothing without it.

use e810_hal::{Barrier, Bus, DmaWord, DmaWords};
use heapless::Vec;

use super::{CompletionQueue, NEVER, SHADOW_ARM, SHADOW_HEAD, VALID};
use crate::error::{Bound, SizeError};
use crate::sizing::QUANTUM_WORDS;
use crate::slot::SlotMemory;

/// Rings that wait to be begun, or to be given back, at most.
pub(super) const RINGS: usize = 4;

/// What resizes have left to do.
#[derive(Debug)]
pub(super) struct Resizes<W> {
    /// Rings after the one that is polled, the next one first.
    following: Vec<Following<W>, RINGS>,
    /// Rings that are done with.
    drained: Vec<W, RINGS>,
    /// Entries consumed from rings that are done with.
    pub(super) consumed: u64,
}

/// A ring after the one that is polled.
#[derive(Debug)]
struct Following<W> {
    ring: W,
    entries: u32,
    /// Switches of the device from the ring before to this one: more than one where rings in
    /// between were passed over.
    switches: u32,
}

impl<W> Resizes<W> {
    pub(super) const fn none() -> Self {
        Self {
            following: Vec::new(),
            drained: Vec::new(),
            consumed: 0,
        }
    }

    /// All rings there are.
    pub(super) fn into_rings(mut self, release: &mut impl FnMut(W)) {
        while let Some(next) = self.following.pop() {
            release(next.ring);
        }
        while let Some(ring) = self.drained.pop() {
            release(ring);
        }
    }

    pub(super) fn is_pending(&self) -> bool {
        !self.following.is_empty()
    }

    /// Entries of the rings that follow.
    pub(super) fn entries(&self) -> u64 {
        self.following
            .iter()
            .map(|next| u64::from(next.entries))
            .sum()
    }
}

impl<W: DmaWords> Resizes<W> {
    /// Entries that the device has written to rings that follow: from entry 0 on,
    /// and not past the end, because nobody polls there.
    pub(super) fn waiting(&self) -> u32 {
        let mut waiting = 0u32;
        for next in &self.following {
            let (entries, _) = next.ring.words().as_chunks::<QUANTUM_WORDS>();
            let written = entries
                .iter()
                .take_while(|[.., header]| header.observe() & VALID != 0);
            waiting = waiting.wrapping_add(written.count() as u32);
        }
        waiting
    }

    /// Whether the device has begun a ring that follows.
    pub(super) fn has_begun(&self) -> bool {
        self.following.iter().any(|next| has_first(&next.ring))
    }
}

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> CompletionQueue<P, W, M> {
    /// Whether there is room for one more resize: at most four are under way.
    /// Polling an old ring empty, and taking it
    /// ([`take_drained`](Self::take_drained)), makes room.
    #[must_use]
    pub fn can_resize(&self) -> bool {
        let rings = self.resizes.following.len() + self.resizes.drained.len();
        rings < RINGS
    }

    /// Notes that MODIFY_CQ has given the device `ring`, zeroed, of `entries`
    /// entries.
    ///
    /// # Errors
    /// [`SizeError`] for a ring that is too small, or when
    /// [`can_resize`](Self::can_resize) says no; the ring is returned.
    pub fn resized(&mut self, ring: W, entries: u32) -> Result<(), (W, SizeError)> {
        let words = u64::from(entries).wrapping_mul(QUANTUM_WORDS as u64);
        for (field, value, least) in [
            ("CQ entries", u64::from(entries), 2),
            ("CQ words", ring.words().len() as u64, words),
        ] {
            if value < least {
                let bound = Bound::AtLeast(least);
                return Err((
                    ring,
                    SizeError {
                        field,
                        value,
                        bound,
                    },
                ));
            }
        }
        let full = SizeError {
            field: "resizes under way",
            value: RINGS as u64 + 1,
            bound: Bound::AtMost(RINGS as u64),
        };
        if !self.can_resize() {
            return Err((ring, full));
        }
        // From now on the other ring is looked at whenever this one is empty.
        self.fast_path_epoch = NEVER;
        let pushed = self.resizes.following.push(Following {
            ring,
            entries,
            switches: 1,
        });
        pushed.map_err(|next| (next.ring, full))
    }

    /// Call this when there is no room for one more resize. It passes over rings that another one
    /// has replaced before the device wrote there; [`take_drained`](Self::take_drained) then
    /// returns them. Without this, a queue on which nothing completes would keep all of its
    /// rings.
    ///
    /// The MODIFY_CQ of the replacement has ended, and everything written before a command ends
    /// is visible by then: nothing will be written to such a ring `[inf replaced_ring]`. Existing
    /// drivers free it a little later, with the first entry of a ring after it, for which they wait
    /// without a limit.
    pub fn pass_over_replaced(&mut self) {
        if self.can_resize() {
            return;
        }
        let mut left = core::mem::take(&mut self.resizes.following);
        left.reverse();
        let mut passed_over = 0u32;
        while let Some(mut next) = left.pop() {
            next.switches = next.switches.wrapping_add(passed_over);
            passed_over = 0;
            // As many places as rings, in either list.
            if left.is_empty() || has_first(&next.ring) {
                let _ = self.resizes.following.push(next);
            } else {
                passed_over = next.switches;
                let _ = self.resizes.drained.push(next.ring);
            }
        }
    }

    /// A finished ring: the device no longer writes there, and all of its entries were polled.
    pub fn take_drained(&mut self) -> Option<W> {
        self.resizes.drained.pop()
    }

    /// Whether rings wait to be drained.
    #[must_use]
    pub fn is_resizing(&self) -> bool {
        self.resizes.is_pending()
    }

    /// The ring is empty: continues with the next one that has an entry. `true` if there is
    /// something to look at again.
    #[cold]
    pub(super) fn next_ring(&mut self) -> bool {
        if !self.resizes.has_begun() {
            return false;
        }
        // The entries of this ring came before those of the next one, so what
        // came since it was found empty is there by now.
        if self.valid_entry().is_some() {
            return true;
        }
        self.begin_next();
        true
    }

    fn begin_next(&mut self) {
        // Only `pop` is used: taking from the front has a panic path.
        self.resizes.following.reverse();
        let next = self.resizes.following.pop();
        self.resizes.following.reverse();
        let Some(Following {
            ring,
            entries,
            switches,
        }) = next
        else {
            return;
        };
        let consumed = self.consumed();
        let old = core::mem::replace(&mut self.ring, ring);
        // As many places as rings; see `can_resize`.
        let _ = self.resizes.drained.push(old);
        self.entries = entries.into();
        self.index = 0;
        self.laps = 0;
        self.valid = VALID;
        self.resizes.consumed = consumed;
        // The head first: as long as the count is the old one, the device takes it
        // for one of the old ring, where nothing is written any more. The other
        // way round, it would take the old ring's head for the new one's.
        if let Some(head) = self.shadow.words().get(SHADOW_HEAD) {
            head.publish(0);
        }
        self.platform.to_device();
        self.arm = self.arm.released(switches);
        if let Some(word) = self.shadow.words().get(SHADOW_ARM) {
            word.publish(self.arm.bits());
        }
    }
}

/// Whether the device has begun a ring.
fn has_first(ring: &impl DmaWords) -> bool {
    let (entries, _) = ring.words().as_chunks::<QUANTUM_WORDS>();
    match entries.first() {
        Some([_, _, _, header]) => header.observe() & VALID != 0,
        None => false,
    }
}
