//! Seeded random numbers, used for every choice that the hardware leaves open.
//!
//! Each part of the simulator draws from its own stream ([`Rng::fork`]), so a change in one part
//! does not shift the choices of the others.

/// A small deterministic generator (SplitMix64). Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator whose whole sequence follows from `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An independent generator for the part called `label`.
    ///
    /// The state of `self` does not move: the same label always gives the same
    /// stream.
    #[must_use]
    pub fn fork(&self, label: &str) -> Self {
        // FNV-1a: labels are short and only need to differ.
        let hash = label.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut fork = Self(self.0 ^ hash);
        fork.0 = fork.next_u64();
        fork
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Multiply-shift: the bias (below 2^-32 for the bounds in use) does
        // not matter for choosing test schedules.
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        (wide >> 64) as u64
    }

    /// True `parts` times in a million.
    pub fn chance(&mut self, parts: u32) -> bool {
        self.below(1_000_000) < u64::from(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_sequence_and_forks_differ() {
        let draw = |mut rng: Rng| [rng.next_u64(), rng.next_u64(), rng.next_u64()];
        assert_eq!(draw(Rng::new(7)), draw(Rng::new(7)));
        assert_ne!(draw(Rng::new(7)), draw(Rng::new(8)));
        let root = Rng::new(7);
        assert_eq!(draw(root.fork("wire")), draw(root.fork("wire")));
        assert_ne!(draw(root.fork("wire")), draw(root.fork("iommu")));
    }

    #[test]
    fn bounds_and_chances_hold() {
        let mut rng = Rng::new(1);
        assert_eq!(rng.below(0), 0);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[rng.below(5) as usize] = true;
        }
        assert!(seen.iter().all(|s| *s));
        assert!((0..100).all(|_| rng.chance(1_000_000)));
        assert!((0..100).all(|_| !rng.chance(0)));
    }
}
