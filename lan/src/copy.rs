//! Copies frames in and out of buffers: words of memory that the device reaches.
//!
//! A buffer consists of words, as a ring does, so that there is no reference to memory that the
//! device writes. Bytes of a frame lie in memory in the order of the wire.

use e810_hal::DmaWord;

/// Copies `frame` to the beginning of `buffer`, and zeros after it up to `at_least` bytes. If the
/// buffer is too short, the end is cut.
pub(crate) fn write_frame<W: DmaWord>(buffer: &[W], frame: &[u8], at_least: usize) {
    let (whole, rest) = frame.as_chunks::<8>();
    for (word, bytes) in buffer.iter().zip(whole) {
        word.set(u64::from_le_bytes(*bytes));
    }
    let words = at_least.max(frame.len()).div_ceil(8);
    let behind = buffer.iter().take(words).skip(whole.len());
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    for word in behind {
        word.set(u64::from_le_bytes(core::mem::take(&mut last)));
    }
}

/// Copies the beginning of `buffer` to `into`.
pub(crate) fn read_frame<W: DmaWord>(buffer: &[W], into: &mut [u8]) {
    let (whole, rest) = into.as_chunks_mut::<8>();
    let mut words = buffer.iter();
    // In this order no word is taken for which there are no eight bytes.
    for (bytes, word) in whole.iter_mut().zip(words.by_ref()) {
        *bytes = word.get().to_le_bytes();
    }
    if rest.is_empty() {
        return;
    }
    if let Some(word) = words.next() {
        for (to, from) in rest.iter_mut().zip(word.get().to_le_bytes()) {
            *to = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU64, Ordering};
    use std::vec::Vec;

    use super::*;

    #[test]
    fn every_length_survives_and_the_rest_is_zero() {
        for len in 0..40 {
            let buffer: Vec<_> = (0..6).map(|_| AtomicU64::new(u64::MAX)).collect();
            let frame: Vec<u8> = (1..=len as u8).collect();
            write_frame(&buffer, &frame, 20);
            let memory: Vec<u8> = buffer
                .iter()
                .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes())
                .collect();
            assert_eq!(memory[..len], frame, "in the order of the wire");
            let end = len.max(20).div_ceil(8) * 8;
            assert!(memory[len..end].iter().all(|byte| *byte == 0));
            assert!(memory[end..].iter().all(|byte| *byte == 0xFF));
            let mut back = std::vec![0; len];
            read_frame(&buffer, &mut back);
            assert_eq!(back, frame);
        }
    }

    #[test]
    fn nothing_is_written_past_the_buffer() {
        let buffer = [const { AtomicU64::new(0) }; 2];
        write_frame(&buffer, &[1; 30], 40);
        let mut back = [9; 20];
        read_frame(&buffer, &mut back);
        assert_eq!((&back[..16], &back[16..]), (&[1; 16][..], &[9; 4][..]));
    }
}
