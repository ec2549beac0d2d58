//! Little-endian fields of descriptors and buffers, addressed by the byte offsets of the reference.
//!
//! A field outside the buffer reads as 0 and is not written; handlers check lengths first.

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

pub(super) fn u8_at(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    array(bytes, at).map_or(0, u16::from_le_bytes)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    array(bytes, at).map_or(0, u32::from_le_bytes)
}

/// `len` bytes from `at` on, or fewer at the end.
pub(super) fn part(bytes: &[u8], at: usize, len: usize) -> &[u8] {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.get(..len).unwrap_or(rest)
}

/// Writes `value` at `at`, as far as there is room.
pub(super) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    for (to, from) in bytes.iter_mut().skip(at).zip(value) {
        *to = *from;
    }
}

pub(super) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    put(bytes, at, &value.to_le_bytes());
}

pub(super) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    put(bytes, at, &value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_outside_read_as_zero_and_are_not_written() {
        let mut bytes = [1, 2, 3, 4, 5];
        assert_eq!(u16_at(&bytes, 1), 0x0302);
        assert_eq!(u32_at(&bytes, 1), 0x0504_0302);
        assert_eq!((u16_at(&bytes, 4), u32_at(&bytes, 2)), (0, 0));
        assert_eq!((u8_at(&bytes, 4), u8_at(&bytes, 5)), (5, 0));
        put_u16(&mut bytes, 4, 0xaabb);
        put_u32(&mut bytes, 9, 7);
        assert_eq!(bytes, [1, 2, 3, 4, 0xbb]);
        assert_eq!(part(&bytes, 3, 9), [4, 0xbb]);
        assert_eq!(part(&bytes, 9, 1), [0; 0]);
    }
}
