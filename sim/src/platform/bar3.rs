//! Host access to BAR3: the MSI-X table and the pending bits.

use crate::findings::kind;
use e810_hal::Vector;

use super::SimPlatform;

impl SimPlatform {
    /// Masks or unmasks a vector in the MSI-X table.
    pub fn mask_vector(&self, vector: Vector, masked: bool) {
        self.with(|env| {
            env.state.msix.set_mask(vector.get() as u16, masked);
            env.check_messages();
        });
    }

    /// Reads bytes of BAR3: one word, or two, of the table or the pending bits. Any other access is
    /// a finding and reads as all-ones.
    pub fn bar3_read(&self, offset: u64, into: &mut [u8]) {
        if !self.fits_bar3(offset, into.len(), "read") {
            into.fill(0xff);
            return;
        }
        self.with(|env| {
            for (at, word) in (offset..).step_by(4).zip(into.chunks_exact_mut(4)) {
                word.copy_from_slice(&env.state.msix.read(at).to_le_bytes());
            }
        });
    }

    /// Writes bytes of BAR3; the rules are those of [`SimPlatform::bar3_read`].
    pub fn bar3_write(&self, offset: u64, from: &[u8]) {
        if !self.fits_bar3(offset, from.len(), "write") {
            return;
        }
        self.with(|env| {
            let (words, _) = from.as_chunks::<4>();
            for (at, word) in (offset..).step_by(4).zip(words) {
                env.state.msix.write(at, u32::from_le_bytes(*word));
            }
            env.check_messages();
        });
    }

    /// Software may only use aligned words and pairs of them (PCI Express 4.0, 6.1.4.2).
    fn fits_bar3(&self, offset: u64, bytes: usize, what: &str) -> bool {
        let fits = matches!(bytes, 4 | 8) && offset.is_multiple_of(bytes as u64);
        if !fits {
            let text = format!("{what} of {bytes} bytes at {offset:#x} of BAR3");
            self.with(|env| env.found(kind::REGISTER_WIDTH, text));
        }
        fits
    }
}
