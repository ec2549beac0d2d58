//! Where choices come from: a seed, or the bytes of a fuzzer.

/// Choices.
#[derive(Clone, Debug)]
pub struct Draw {
    state: u64,
    bytes: Option<Vec<u8>>,
    at: usize,
}

impl Draw {
    /// Those of a seed, without end.
    #[must_use]
    pub const fn seeded(seed: u64) -> Self {
        Self {
            state: seed ^ 0x9E37_79B9_7F4A_7C15,
            bytes: None,
            at: 0,
        }
    }

    /// Those of a fuzzer's input; 0 behind its end.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self {
            state: 0,
            bytes: Some(bytes.to_vec()),
            at: 0,
        }
    }

    /// Whether an input is used up.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.bytes
            .as_ref()
            .is_some_and(|bytes| self.at >= bytes.len())
    }

    /// Any number (SplitMix64).
    pub fn word(&mut self) -> u64 {
        if let Some(bytes) = &self.bytes {
            let rest = bytes.get(self.at..).unwrap_or_default();
            let mut word = [0; 8];
            for (place, byte) in word.iter_mut().zip(rest) {
                *place = *byte;
            }
            self.at += 2;
            return u64::from_le_bytes(word);
        }
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.state;
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ word >> 31
    }

    /// Less than `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.word() % limit.max(1) as u64) as usize
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times.saturating_sub(1)
    }

    pub fn one_of<T: Copy>(&mut self, values: &[T]) -> Option<T> {
        let at = self.below(values.len());
        values.get(at).copied()
    }

    pub fn number<T: Copy + Default>(&mut self, values: &[T]) -> T {
        self.one_of(values).unwrap_or_default()
    }
}
