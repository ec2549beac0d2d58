//! Transmit FIFO entries of a queue pair that are known to have backing.

/// The entries, valid while the HMC and the memory mappings stay the same.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Touched {
    generation: u64,
    /// One bit for each entry, by number modulo 64.
    known: u64,
    /// The first entry: a queue pair has few, and they are consecutive.
    first: u64,
}

impl Touched {
    /// Whether `entry` has been written since `generation` began.
    pub(super) fn contains(&self, generation: u64, entry: u64) -> bool {
        let place = entry.wrapping_sub(self.first);
        self.generation == generation && place < 64 && self.known >> place & 1 != 0
    }

    /// `entry` was written.
    pub(super) fn insert(&mut self, generation: u64, entry: u64) {
        let place = entry.wrapping_sub(self.first);
        if self.generation == generation && self.known != 0 && place < 64 {
            self.known |= 1 << place;
        } else if self.generation != generation || self.known == 0 {
            *self = Self {
                generation,
                known: 1,
                first: entry,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_known_in_their_generation() {
        let mut touched = Touched::default();
        assert!(!touched.contains(0, 0));
        touched.insert(5, 100);
        touched.insert(5, 163);
        touched.insert(5, 164);
        touched.insert(5, 99);
        let known = |entry| touched.contains(5, entry);
        assert_eq!(
            [99, 100, 101, 163, 164].map(known),
            [false, true, false, true, false]
        );
        assert!(!touched.contains(6, 100));
        touched.insert(6, 101);
        assert!(touched.contains(6, 101) && !touched.contains(6, 100));
    }
}
