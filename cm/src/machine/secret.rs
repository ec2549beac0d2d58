//! Numbers that no peer can guess: a keyed function of 64 bits (SipHash-2-4), and a permutation
//! made of it.

/// What the numbers depend on. It must differ from start to start.
#[derive(Clone, Copy)]
pub(super) struct Secret([u64; 2]);

impl Secret {
    pub(super) fn new(random: [u8; 16]) -> Self {
        let number = u128::from_le_bytes(random);
        Self([number as u64, (number >> 64) as u64])
    }

    /// A number for two words and what it is for.
    pub(super) fn number(self, purpose: u64, words: [u64; 2]) -> u64 {
        let [k0, k1] = self.0;
        let mut v = [
            k0 ^ 0x736F_6D65_7073_6575,
            k1 ^ 0x646F_7261_6E64_6F6D,
            k0 ^ 0x6C79_6765_6E65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        // The last word has the length, 24 bytes, in its highest byte.
        for word in [purpose, words[0], words[1], 24 << 56] {
            v[3] ^= word;
            rounds(&mut v, 2);
            v[0] ^= word;
        }
        v[2] ^= 0xFF;
        rounds(&mut v, 4);
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }

    /// A permutation of the 32-bit numbers: four rounds of halves of 16 bits.
    pub(super) fn permute(self, number: u32) -> u32 {
        let [mut left, mut right] = [number >> 16, number & 0xFFFF];
        for round in 0..4 {
            (left, right) = (right, left ^ self.half(round, right));
        }
        left << 16 | right
    }

    /// What [`permute`](Self::permute) was given.
    pub(super) fn restore(self, permuted: u32) -> u32 {
        let [mut left, mut right] = [permuted >> 16, permuted & 0xFFFF];
        for round in (0..4).rev() {
            (left, right) = (right ^ self.half(round, left), left);
        }
        left << 16 | right
    }

    fn half(self, round: u64, half: u32) -> u32 {
        self.number(PERMUTATION, [round, half.into()]) as u32 & 0xFFFF
    }
}

/// What numbers are for.
pub(super) const PERMUTATION: u64 = 0;
pub(super) const REMOTE_ID: u64 = 1;
pub(super) const REMOTE_QP: u64 = 2;
pub(super) const SOURCE: u64 = 3;
pub(super) const PSN: u64 = 4;
pub(super) const FIRST: u64 = 5;
pub(super) const VICTIM: u64 = 6;
pub(super) const REMOTE_ID_OF_SENDER: u64 = 7;

fn rounds(v: &mut [u64; 4], count: usize) {
    for _ in 0..count {
        v[0] = v[0].wrapping_add(v[1]);
        v[2] = v[2].wrapping_add(v[3]);
        v[1] = v[1].rotate_left(13) ^ v[0];
        v[3] = v[3].rotate_left(16) ^ v[2];
        v[0] = v[0].rotate_left(32);
        v[2] = v[2].wrapping_add(v[1]);
        v[0] = v[0].wrapping_add(v[3]);
        v[1] = v[1].rotate_left(17) ^ v[2];
        v[3] = v[3].rotate_left(21) ^ v[0];
        v[2] = v[2].rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    #![expect(
        deprecated,
        reason = "the library's SipHash with keys is the same function"
    )]

    use core::hash::{Hasher as _, SipHasher};

    use super::*;

    #[test]
    fn it_is_siphash() {
        for key in [
            0_u128,
            1,
            u128::MAX,
            0x0F0E_0D0C_0B0A_0908_0706_0504_0302_0100,
        ] {
            let secret = Secret::new(key.to_le_bytes());
            let mut theirs = SipHasher::new_with_keys(key as u64, (key >> 64) as u64);
            for word in [7, 8, 9_u64] {
                theirs.write(&word.to_le_bytes());
            }
            assert_eq!(secret.number(7, [8, 9]), theirs.finish());
        }
    }

    #[test]
    fn the_permutation_can_be_undone() {
        let secret = Secret::new([5; 16]);
        for number in (0..u32::MAX).step_by(65_521 * 7) {
            assert_eq!(secret.restore(secret.permute(number)), number);
        }
    }
}
