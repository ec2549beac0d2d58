//! How much memory of a program the device reaches. What the program lends and registers counts
//! once.

/// Files of one kind that a program lends.
#[derive(Clone, Copy, Debug, Default)]
struct Files {
    count: usize,
    bytes: u64,
}

/// What a file is lent for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LentFor {
    /// Queues are in it.
    Rings,
    /// The program registers memory there.
    Regions,
}

/// See the [module documentation](self).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reached {
    rings: Files,
    payload: Files,
    regions: Files,
}

impl Reached {
    /// A file is lent.
    pub(super) const fn lend(&mut self, lent_for: LentFor, bytes: u64) {
        self.files(lent_for).add(bytes);
    }

    /// It is lent no more.
    pub(super) const fn take_back(&mut self, lent_for: LentFor, bytes: u64) {
        self.files(lent_for).remove(bytes);
    }

    const fn files(&mut self, lent_for: LentFor) -> &mut Files {
        match lent_for {
            LentFor::Rings => &mut self.rings,
            LentFor::Regions => &mut self.payload,
        }
    }

    /// A region is there.
    pub(super) const fn register(&mut self, bytes: u64) {
        self.regions.add(bytes);
    }

    /// It is gone.
    pub(super) const fn deregister(&mut self, bytes: u64) {
        self.regions.remove(bytes);
    }

    /// Files with rings, and those for regions that are more than the regions.
    pub(super) const fn count(&self) -> usize {
        let idle = self.payload.count.saturating_sub(self.regions.count);
        self.rings.count.saturating_add(idle)
    }

    /// Bytes of files with rings; and of regions or of the files for them, whichever are more.
    pub(super) fn bytes(&self) -> u64 {
        let payload = self.payload.bytes.max(self.regions.bytes);
        self.rings.bytes.saturating_add(payload)
    }
}

impl Files {
    const fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    const fn remove(&mut self, bytes: u64) {
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_and_registered_counts_once() {
        let mut reached = Reached::default();
        let held = |reached: &Reached| (reached.count(), reached.bytes());
        reached.lend(LentFor::Rings, 100);
        reached.lend(LentFor::Regions, 1000);
        assert_eq!(held(&reached), (2, 1100));
        reached.register(900);
        assert_eq!(held(&reached), (1, 1100));
        // The page lists of each region count.
        reached.register(900);
        assert_eq!(held(&reached), (1, 1900));
        reached.deregister(900);
        reached.deregister(900);
        assert_eq!(held(&reached), (2, 1100));
        reached.take_back(LentFor::Regions, 1000);
        reached.take_back(LentFor::Rings, 100);
        assert_eq!(held(&reached), (0, 0));
    }
}
