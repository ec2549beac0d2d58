//! Payload that proves itself: every byte follows from seed, message and direction.

use e810_hal::SharedBytes;

/// Who sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the initiating side.
    Request,
    /// From the responding side.
    Response,
}

/// Fills `into` with the payload of message `number`.
pub fn fill(into: &mut [u8], seed: u64, number: u64, direction: Direction) {
    // Consecutive messages must differ in every word: a stale buffer must not
    // pass for a new one.
    let side = match direction {
        Direction::Request => 0x5155_4553_5449_4f4e,
        Direction::Response => 0x0041_4e53_5745_5221,
    };
    let mut state = seed
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add(number.wrapping_mul(0xD1B5_4A32_D192_ED03))
        ^ side;
    for chunk in into.chunks_mut(8) {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^= word >> 31;
        for (to, from) in chunk.iter_mut().zip(word.to_le_bytes()) {
            *to = from;
        }
    }
}

/// Compares memory with the payload of message `number`, without its first `skip` bytes; both
/// scratch buffers are at least as long as the memory. Returns the offset of the first byte that
/// differs.
pub fn first_difference(
    memory: SharedBytes,
    expected: &mut [u8],
    got: &mut [u8],
    seed: u64,
    number: u64,
    direction: Direction,
    skip: usize,
) -> Option<usize> {
    fill(expected, seed, number, direction);
    if memory.read(0, got).is_err() {
        return Some(0);
    }
    // The fast path: most messages are right.
    if expected.get(skip..) == got.get(skip..) {
        return None;
    }
    let differs = |(at, (a, b)): (usize, (&u8, &u8))| (at >= skip && a != b).then_some(at);
    let mut pairs = expected.iter().zip(got.iter()).enumerate();
    pairs.find_map(differs)
}

#[cfg(test)]
mod tests {
    use e810_backends::buffer::Buffer;

    use super::*;

    #[test]
    fn messages_differ_and_differences_are_found() {
        let (mut a, mut b) = ([0u8; 37], [0u8; 37]);
        fill(&mut a, 1, 5, Direction::Request);
        for (seed, number, direction) in [
            (2, 5, Direction::Request),
            (1, 6, Direction::Request),
            (1, 5, Direction::Response),
        ] {
            fill(&mut b, seed, number, direction);
            assert_ne!(a, b);
        }
        let buffer = Buffer::new(37).unwrap();
        let bytes = buffer.bytes();
        bytes.write(0, &a).unwrap();
        let (mut x, mut y) = ([0u8; 37], [0u8; 37]);
        assert_eq!(
            first_difference(bytes, &mut x, &mut y, 1, 5, Direction::Request, 0),
            None
        );
        bytes.write(36, &[!a[36]]).unwrap();
        let mut found =
            |skip| first_difference(bytes, &mut x, &mut y, 1, 5, Direction::Request, skip);
        assert_eq!((found(0), found(36), found(37)), (Some(36), Some(36), None));
        bytes.write(3, &[!a[3]]).unwrap();
        assert_eq!((found(3), found(4)), (Some(3), Some(36)));
    }
}
