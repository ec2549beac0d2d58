//! Inline data: bytes in the WQE itself (data-path 1.8).

use e810_hal::DmaWord;

/// A stream of bytes over the pieces of a request, read a word at a time.
struct Gather<'a> {
    now: &'a [u8],
    later: &'a [&'a [u8]],
}

impl Gather<'_> {
    /// The next 8 bytes as a little-endian word; zeros after the end.
    #[inline(always)]
    fn take_8(&mut self) -> u64 {
        match self.now.split_first_chunk::<8>() {
            Some((bytes, rest)) => {
                self.now = rest;
                u64::from_le_bytes(*bytes)
            }
            None => self.take_slowly(8),
        }
    }

    /// The next 7 bytes likewise.
    #[inline(always)]
    fn take_7(&mut self) -> u64 {
        match self.now.split_first_chunk::<7>() {
            Some(([a, b, c, d, e, f, g], rest)) => {
                self.now = rest;
                u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, 0])
            }
            None if self.now.is_empty() && self.later.is_empty() => 0,
            None => self.take_slowly(7),
        }
    }

    /// As these, across piece borders and at the end.
    #[inline(never)]
    fn take_slowly(&mut self, count: usize) -> u64 {
        let mut word = [0; 8];
        for to in word.iter_mut().take(count) {
            while self.now.is_empty() {
                let Some((first, later)) = self.later.split_first() else {
                    return u64::from_le_bytes(word);
                };
                self.now = first;
                self.later = later;
            }
            if let Some((byte, rest)) = self.now.split_first() {
                *to = *byte;
                self.now = rest;
            }
        }
        u64::from_le_bytes(word)
    }
}

/// One piece that takes two quanta: 9 to 39 bytes.
pub(crate) struct Two<'a> {
    first: &'a [u8; 8],
    /// What follows, in words, and how many bytes are beyond them.
    words: &'a [[u8; 8]],
    beyond: usize,
    last: &'a [u8; 8],
}

impl<'a> Two<'a> {
    /// `None` for a piece of another size.
    #[inline(always)]
    pub(crate) fn new(piece: &'a [u8]) -> Option<Self> {
        if !(9..=39).contains(&piece.len()) {
            return None;
        }
        let (first, rest) = piece.split_first_chunk()?;
        let (words, beyond) = rest.as_chunks();
        Some(Self {
            first,
            words,
            beyond: beyond.len(),
            last: piece.last_chunk()?,
        })
    }

    /// As [`write`].
    #[inline(always)]
    pub(crate) fn write<C: DmaWord>(&self, q1: &C, [w0, w1, w2, w3]: &[C; 4], valid: u64) {
        // The last 8 bytes of the piece, without those that are in words. Shifted
        // by up to 64, which takes two shifts.
        let bits = 8 * self.beyond as u32;
        let end = (u64::from_le_bytes(*self.last) >> 1).wrapping_shr(63 - bits);
        q1.set(u64::from_le_bytes(*self.first));
        let (a, b, c, d) = match self.words {
            [] => (end, 0, 0, 0),
            [a] => (u64::from_le_bytes(*a), end, 0, 0),
            [a, b] => (u64::from_le_bytes(*a), u64::from_le_bytes(*b), end, 0),
            // Byte 31: bit 7 is the polarity, the rest 0; here `end` has at most
            // 7 bytes.
            [a, b, c, ..] => {
                let [a, b, c] = [a, b, c].map(|word| u64::from_le_bytes(*word));
                (a, b, c, end)
            }
        };
        w0.set(a);
        w1.set(b);
        w2.set(c);
        w3.set(d | valid);
    }
}

/// As [`write`] for one piece.
#[inline(always)]
pub(crate) fn write_one<C: DmaWord>(q1: &C, rest: &[[C; 4]], piece: &[u8], valid: u64) {
    let (word, mut piece) = first_8(piece);
    q1.set(word);
    for [w0, w1, w2, w3] in rest {
        for cell in [w0, w1, w2] {
            let (word, later) = first_8(piece);
            cell.set(word);
            piece = later;
        }
        let (word, later) = first_7(piece);
        w3.set(word | valid);
        piece = later;
    }
}

/// The first 8 bytes as a little-endian word, and what follows; zeros after the
/// end.
#[inline(always)]
fn first_8(bytes: &[u8]) -> (u64, &[u8]) {
    match bytes.split_first_chunk::<8>() {
        Some((word, rest)) => (u64::from_le_bytes(*word), rest),
        None => (last(bytes), &[]),
    }
}

/// The first 7 bytes likewise.
#[inline(always)]
fn first_7(bytes: &[u8]) -> (u64, &[u8]) {
    match bytes.split_first_chunk::<7>() {
        Some(([a, b, c, d, e, f, g], rest)) => {
            (u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, 0]), rest)
        }
        None if bytes.is_empty() => (0, bytes),
        None => (last(bytes), &[]),
    }
}

/// Fewer than 8 bytes.
#[inline(never)]
fn last(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    for (to, byte) in word.iter_mut().zip(bytes) {
        *to = *byte;
    }
    u64::from_le_bytes(word)
}

/// Writes the bytes of `pieces`: 8 into `q1`, then 31 to each quantum of
/// `rest`, whose last byte has the valid bit. `rest` is exactly the quanta from
/// byte 32 on. Bytes that the data does not fill are written as zero.
#[inline(always)]
pub(crate) fn write<C: DmaWord>(q1: &C, rest: &[[C; 4]], pieces: &[&[u8]], valid: u64) {
    let mut bytes = match pieces.split_first() {
        Some((now, later)) => Gather { now, later },
        None => Gather {
            now: &[],
            later: &[],
        },
    };
    q1.set(bytes.take_8());
    for [w0, w1, w2, w3] in rest {
        w0.set(bytes.take_8());
        w1.set(bytes.take_8());
        w2.set(bytes.take_8());
        // Byte 31: bit 7 is the polarity, the rest 0.
        w3.set(bytes.take_7() | valid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sizing::inline_quanta;
    use core::sync::atomic::{AtomicU64, Ordering};
    use std::vec::Vec;

    #[test]
    fn pieces_of_any_size_make_one_stream() {
        let data: Vec<u8> = (1..=101).collect();
        for cut in [1, 3, 7, 8, 9, 31, 40, 100, 101] {
            let pieces: Vec<&[u8]> = data.chunks(cut).collect();
            let cells: Vec<AtomicU64> = (0..13).map(|_| AtomicU64::new(!0)).collect();
            write(&cells[0], cells[1..].as_chunks().0, &pieces, 1 << 63);
            let bytes: Vec<u8> = cells
                .iter()
                .flat_map(|cell| u64::from_le(cell.load(Ordering::Relaxed)).to_le_bytes())
                .collect();
            let mut stream = bytes[..8].to_vec();
            for quantum in bytes[8..].chunks(32) {
                stream.extend(&quantum[..31]);
                assert_eq!(quantum[31], 0x80, "trailer");
            }
            assert_eq!(stream, data, "pieces of {cut}");
        }
    }

    #[test]
    fn one_piece_is_written_like_many() {
        let data: Vec<u8> = (1..=101).collect();
        for bytes in 0..=data.len() {
            let piece = &data[..bytes];
            let [one, many] = [true, false].map(|one| {
                written(13, |q1, rest| {
                    if one {
                        write_one(q1, rest, piece, 1 << 63);
                    } else {
                        write(q1, rest, &[piece], 1 << 63);
                    }
                })
            });
            assert_eq!(one, many, "{bytes} bytes");
        }
    }

    #[test]
    fn a_piece_of_two_quanta_is_written_like_any() {
        let data: Vec<u8> = (1..=40).collect();
        for bytes in 0..=data.len() {
            let piece = &data[..bytes];
            let Some(two) = Two::new(piece) else {
                assert_ne!(inline_quanta(bytes as u32), 2, "{bytes} bytes");
                continue;
            };
            assert_eq!(inline_quanta(bytes as u32), 2, "{bytes} bytes");
            for valid in [0, 1 << 63] {
                let two = written(5, |q1, rest| two.write(q1, &rest[0], valid));
                let any = written(5, |q1, rest| write(q1, rest, &[piece], valid));
                assert_eq!(two, any, "{bytes} bytes");
            }
        }
    }

    /// The words that `write` leaves, of which there are `count`.
    fn written(count: usize, write: impl FnOnce(&AtomicU64, &[[AtomicU64; 4]])) -> Vec<u64> {
        let cells: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(!0)).collect();
        write(&cells[0], cells[1..].as_chunks().0);
        cells
            .iter()
            .map(|cell| cell.load(Ordering::Relaxed))
            .collect()
    }

    #[test]
    fn what_the_data_does_not_fill_is_zero() {
        let cells: Vec<AtomicU64> = (0..5).map(|_| AtomicU64::new(!0)).collect();
        write(&cells[0], cells[1..].as_chunks().0, &[&[], &[7; 9], &[]], 0);
        let words: Vec<u64> = cells
            .iter()
            .map(|cell| u64::from_le(cell.load(Ordering::Relaxed)))
            .collect();
        assert_eq!(words, [0x0707_0707_0707_0707, 7, 0, 0, 0]);
    }
}
