//! Numbers for delays that stations of a link should not have in common.

use crate::mac::MacAddr;
use crate::time::Ns;

/// A generator (xorshift64*); nothing secret depends on it.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Stations with different MAC addresses have different delays.
    pub(crate) fn new(mac: MacAddr, seed: u64) -> Self {
        let [a, b, c, d, e, f] = mac.0;
        let mac = u64::from_be_bytes([0x9E, 0x37, a, b, c, d, e, f]);
        // Zero would stay zero.
        Self((mac ^ seed).max(1))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32
    }

    /// A duration of `from` to `to`.
    pub(crate) fn between(&mut self, from: Ns, to: Ns) -> Ns {
        let steps = (to - from).0 >> 10;
        let part = (u128::from(steps) * u128::from(self.next())) >> 32;
        from + Ns((part as u64) << 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_in_their_range_and_differ() {
        let mut random = Random::new(MacAddr([2, 0, 0, 0, 0, 1]), 0);
        let (from, to) = (Ns::from_ms(500), Ns::from_secs(3));
        let first = random.between(from, to);
        let mut differ = false;
        for _ in 0..1000 {
            let delay = random.between(from, to);
            assert!(from <= delay && delay <= to);
            differ |= delay != first;
        }
        assert!(differ);
        assert_eq!(random.between(to, to), to);
    }
}
