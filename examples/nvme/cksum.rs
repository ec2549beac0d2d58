//! The checksum that `cksum` prints: a CRC of 32 bits over the bytes and their number.

/// What the CRC makes of a byte.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = ((byte as u32) << 24, 0);
        while bit < 8 {
            crc = crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 };
            bit += 1;
        }
        #[expect(clippy::indexing_slicing, reason = "below 256, and at compile time")]
        {
            table[byte] = crc;
        }
        byte += 1;
    }
    table
};

/// Of bytes that come in pieces.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cksum {
    crc: u32,
    bytes: u64,
}

impl Cksum {
    pub fn add(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        self.crc = piece.iter().fold(self.crc, step);
    }

    /// How many bytes there were.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn sum(&self) -> u32 {
        let length = self.bytes.to_le_bytes();
        let zeros = self.bytes.leading_zeros() as usize / 8;
        let length = length.get(..length.len() - zeros).unwrap_or_default();
        !length.iter().fold(self.crc, step)
    }
}

fn step(crc: u32, byte: &u8) -> u32 {
    let place = usize::from((crc >> 24) as u8 ^ byte);
    crc << 8 ^ TABLE.get(place).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_cksum() {
        assert_eq!(Cksum::default().sum(), 4_294_967_295);
        let mut sum = Cksum::default();
        sum.add(b"1234");
        sum.add(b"56789");
        assert_eq!((sum.sum(), sum.bytes()), (930_766_865, 9));
        let mut sum = Cksum::default();
        (0..3).for_each(|_| sum.add(&[0; 100]));
        assert_eq!(sum.sum(), 351_385_237);
    }
}
