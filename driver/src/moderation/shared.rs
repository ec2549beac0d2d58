//! Moderation state that the control path, pollers and event handlers share: words of atomics in
//! memory that the device cannot see.
//!
//! | word | written by | read by |
//! |---|---|---|
//! | what a vector waits, and a version | control, pollers of its queues | its event handler |
//! | what a queue allows | control, its poller; never both at a time | control, pollers of the same vector |
//!
//! A queue's word is written first. Then the vector's word is computed from the words of all its
//! queues and exchanged, if it has not changed meanwhile. The thread that exchanges it last has
//! seen the words of all threads that did so before: no change is lost, and nobody waits.

use core::sync::atomic::{AtomicU64, Ordering};

use e810_ceq::Itr;
use e810_hal::{CeqId, HostBuf, NoHostMemory, Platform};

use crate::config::MAX_CEQS;

/// Where the words of the queues begin; the word before them counts how many of them were ever in
/// use.
const QUEUES: usize = MAX_CEQS + 1;
/// The queue exists.
const THERE: u64 = 1 << 63;
/// A wait in µs.
const US: u64 = 0xFFFF_FFFF;
/// One change of a vector's word.
const CHANGE: u64 = 1 << 32;

/// A handle on the words.
#[derive(Clone, Debug)]
pub(crate) struct Shared<P: Platform>(HostBuf<P>);

impl<P: Platform> Shared<P> {
    /// Words for `cqs` completion queues.
    pub(crate) const fn words(cqs: u32) -> usize {
        (cqs as usize).saturating_add(QUEUES)
    }

    /// For `cqs` completion queues; no vector waits.
    pub(crate) fn new(platform: P, cqs: u32) -> Result<Self, NoHostMemory> {
        HostBuf::new(platform, Self::words(cqs)).map(Self)
    }

    /// How long the vector of an event queue waits: one load.
    #[inline(always)]
    pub(crate) fn itr(&self, ceq: CeqId) -> Itr {
        vector(self.0.words(), ceq).map_or(Itr::NONE, |word| itr(word.load(Ordering::Relaxed)))
    }

    /// A queue is made, and allows no wait.
    pub(crate) fn join(&self, cq: u32, ceq: CeqId) {
        if let Some(used) = self.0.word(QUEUES - 1) {
            let upto = u64::from(cq).saturating_add(1);
            used.fetch_max(upto, Ordering::Relaxed);
        }
        self.allow(cq, ceq, Itr::NONE);
    }

    /// A queue is gone.
    pub(crate) fn leave(&self, cq: u32, ceq: CeqId) {
        set(self.0.words(), cq, 0);
        settle(self.0.words(), ceq);
    }

    /// A queue allows another wait.
    pub(crate) fn allow(&self, cq: u32, ceq: CeqId, itr: Itr) {
        set(self.0.words(), cq, wish(ceq, itr));
        settle(self.0.words(), ceq);
    }

    /// What a queue allows.
    pub(crate) fn allowed(&self, cq: u32) -> Itr {
        let word = self.0.word(QUEUES.saturating_add(cq as usize));
        word.map_or(Itr::NONE, |word| itr(word.load(Ordering::Relaxed)))
    }
}

const fn wish(ceq: CeqId, itr: Itr) -> u64 {
    THERE | (ceq.get() as u64) << 32 | itr.us() as u64
}

const fn itr(word: u64) -> Itr {
    Itr::at_most((word & US) as u32)
}

fn vector(words: &[AtomicU64], ceq: CeqId) -> Option<&AtomicU64> {
    words
        .get(..MAX_CEQS)
        .and_then(|words| words.get(ceq.get() as usize))
}

fn set(words: &[AtomicU64], cq: u32, to: u64) {
    if let Some(word) = words.get(QUEUES.saturating_add(cq as usize)) {
        // What another thread must see of it, it sees through the vector's word.
        word.store(to, Ordering::Relaxed);
    }
}

/// Makes a vector wait as long as the most impatient of its queues allows.
fn settle(words: &[AtomicU64], ceq: CeqId) {
    let Some(word) = vector(words, ceq) else {
        return;
    };
    let mut seen = word.load(Ordering::Acquire);
    loop {
        let version = (seen & !US).wrapping_add(CHANGE);
        let least = least(words, ceq).map_or(0, |itr| u64::from(itr.us()));
        match word.compare_exchange_weak(seen, version | least, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => return,
            // Another thread changed it; what it saw may be too old, or include ours.
            Err(now) => seen = now,
        }
    }
}

/// The least that a queue of a vector allows; `None` without queues.
fn least(words: &[AtomicU64], ceq: CeqId) -> Option<Itr> {
    let used = words
        .get(QUEUES - 1)
        .map_or(0, |used| used.load(Ordering::Relaxed));
    let ours = wish(ceq, Itr::NONE);
    words
        .iter()
        .skip(QUEUES)
        .take(usize::try_from(used).unwrap_or(usize::MAX))
        .map(|word| word.load(Ordering::Relaxed))
        .filter(|word| word & !US == ours)
        .map(itr)
        .min()
}

#[cfg(test)]
mod tests;
