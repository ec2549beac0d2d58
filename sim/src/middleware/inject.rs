//! Register-level fault injection: an [`Inject`] layer follows a set of [`Rule`]s.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use e810_hal::{Bus, RegOffset};

use super::Layer;

/// A fault of register accesses. Accesses are counted from 1, starting when the rule is added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Rule {
    /// All registers read as all-ones from the `nth` read on, and writes are dropped: the device
    /// left the bus.
    Gone {
        /// Number of the first read that is answered with all-ones.
        nth: u64,
    },
    /// One register reads as all-ones from the `nth` read of it on.
    AllOnes {
        /// The register.
        off: RegOffset,
        /// Number of the first read of it that is answered with all-ones.
        nth: u64,
    },
    /// One register reads as a fixed value.
    Reads {
        /// The register.
        off: RegOffset,
        /// The value.
        value: u32,
    },
    /// Writes to one register are dropped from the `nth` on.
    DropWrites {
        /// The register.
        off: RegOffset,
        /// Number of the first write that is dropped.
        nth: u64,
    },
    /// One register keeps the value that it read first; writes to it are dropped.
    Frozen {
        /// The register.
        off: RegOffset,
    },
    /// All writes are dropped: a device that does not react.
    Silent,
}

#[derive(Clone, Copy, Debug)]
struct Active {
    rule: Rule,
    seen: u64,
    first: Option<u32>,
}

/// A layer that follows a set of [`Rule`]s. Clones share the set.
#[derive(Clone, Debug, Default)]
pub struct Inject {
    rules: Arc<Mutex<Vec<Active>>>,
}

impl Inject {
    /// A layer without rules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A layer with one rule.
    #[must_use]
    pub fn with(rule: Rule) -> Self {
        let inject = Self::new();
        inject.add(rule);
        inject
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Active>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a rule. Of several that apply to an access, the last one decides.
    pub fn add(&self, rule: Rule) {
        self.lock().push(Active {
            rule,
            seen: 0,
            first: None,
        });
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.lock().clear();
    }
}

impl Active {
    /// What a read of `at` gives under this rule.
    fn on_read(&mut self, at: RegOffset, mut below: impl FnMut() -> u32) -> Option<u32> {
        match self.rule {
            Rule::Gone { nth } => {
                self.seen += 1;
                (self.seen >= nth).then_some(u32::MAX)
            }
            Rule::AllOnes { off, nth } if off == at => {
                self.seen += 1;
                (self.seen >= nth).then_some(u32::MAX)
            }
            Rule::Reads { off, value } if off == at => Some(value),
            Rule::Frozen { off } if off == at => Some(*self.first.get_or_insert_with(&mut below)),
            _ => None,
        }
    }

    /// Whether this rule drops a write to `at`.
    fn drops_write(&mut self, at: RegOffset) -> bool {
        match self.rule {
            Rule::Gone { nth } => self.seen >= nth,
            Rule::DropWrites { off, nth } if off == at => {
                self.seen += 1;
                self.seen >= nth
            }
            Rule::Frozen { off } => off == at,
            Rule::Silent => true,
            _ => false,
        }
    }
}

impl Layer for Inject {
    fn read32(&self, below: &impl Bus, off: RegOffset) -> u32 {
        let mut answer = None;
        for active in self.lock().iter_mut() {
            let given = active.on_read(off, || below.read32(off));
            answer = given.or(answer);
        }
        answer.unwrap_or_else(|| below.read32(off))
    }

    fn write32(&self, below: &impl Bus, off: RegOffset, value: u32) {
        let mut dropped = false;
        for active in self.lock().iter_mut() {
            dropped |= active.drops_write(off);
        }
        if !dropped {
            below.write32(off, value);
        }
    }
}
