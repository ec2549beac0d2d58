//! Words of memory, as the device reads and writes them.

use e810_hal::testing::FakeMemory;

pub(super) fn load<const N: usize>(memory: &FakeMemory, at: u64) -> Option<[u64; N]> {
    let mut words = [0; N];
    for (n, word) in words.iter_mut().enumerate() {
        *word = memory.load(at + 8 * n as u64)?;
    }
    Some(words)
}

pub(super) fn store(memory: &FakeMemory, at: u64, words: &[u64]) -> bool {
    let mut places = (at..).step_by(8).zip(words);
    places.all(|(at, word)| memory.store(at, *word))
}
