//! MSI-X: the table and the pending bits in BAR3, and the control word in configuration space
//! (control-path 1.3; PCI Express 4.0, 6.1.4 and 7.7.2).
//!
//! A vector that fires sends a message unless its table entry or the function is masked. If it is
//! masked, its pending bit is set, and the message is sent when the mask is cleared. This mask and
//! the enable bit of GLINT_DYN_CTL are independent, and each holds back one message.
//!
//! By default a function starts as the host leaves it for a driver that does not handle MSI-X:
//! MSI-X enabled, all entries unmasked.
//! [`SimPlatform::power_up_msix`](crate::SimPlatform::power_up_msix) sets the power-up state for
//! users that handle it.

/// Offset of the pending bits in BAR3, in bytes.
pub const PBA: u64 = 0x8000;
/// Bytes of an entry of the table.
const ENTRY: u64 = 16;
/// MASK of MSIX_TVCTRL1.
const MASK: u32 = 1;
/// The low two bits of MSIX_TADD1 are 0.
const ADDRESS_LOW: u32 = !3;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// MSIX_TADD1, MSIX_TUADD1, MSIX_TMSG, MSIX_TVCTRL1.
    words: [u32; 4],
    pending: bool,
}

impl Entry {
    /// The state after a reset: masked, the rest 0.
    const MASKED: Self = Self {
        words: [0, 0, 0, MASK],
        pending: false,
    };

    fn masked(&self) -> bool {
        self.words[3] & MASK != 0
    }
}

/// MSI-X of one function.
#[derive(Debug)]
pub(crate) struct Msix {
    entries: Vec<Entry>,
    /// MSI-X Enable.
    enabled: bool,
    /// Function Mask.
    masked: bool,
    /// Vectors whose messages are to be sent.
    sent: Vec<u16>,
}

impl Msix {
    /// Enabled, and nothing masked.
    pub(crate) fn new(vectors: u16) -> Self {
        let open = Entry {
            words: [0; 4],
            pending: false,
        };
        Self {
            entries: vec![open; usize::from(vectors)],
            enabled: true,
            masked: false,
            sent: Vec::new(),
        }
    }

    /// As after power-up and after a function-level reset: off, every entry masked, nothing
    /// pending.
    pub(crate) fn reset(&mut self) {
        self.entries.fill(Entry::MASKED);
        self.enabled = false;
        self.masked = false;
        self.sent.clear();
    }

    /// A vector fires. While MSI-X is off nothing is sent and nothing is kept: only a masked vector
    /// has a pending bit. The sources do not say what the card does then; a driver must not rely on
    /// either behaviour `[inf msix_off]`.
    pub(crate) fn fire(&mut self, vector: u16) {
        let entry = self.entries.get_mut(usize::from(vector));
        if let Some(entry) = entry.filter(|_| self.enabled) {
            entry.pending = true;
            self.send(vector);
        }
    }

    /// Sends the pending message of `vector`, if it is allowed.
    fn send(&mut self, vector: u16) {
        let open = self.enabled && !self.masked;
        let entry = self.entries.get_mut(usize::from(vector));
        if let Some(entry) = entry.filter(|entry| open && entry.pending && !entry.masked()) {
            entry.pending = false;
            self.sent.push(vector);
        }
    }

    fn send_all(&mut self) {
        for vector in 0..self.entries.len() {
            self.send(vector as u16);
        }
    }

    /// CLEARPBA of GLINT_DYN_CTL: the pending bit is cleared (control-path 2.4).
    pub(crate) fn clear_pending(&mut self, vector: u16) {
        if let Some(entry) = self.entries.get_mut(usize::from(vector)) {
            entry.pending = false;
        }
    }

    /// MSI-X Enable and Function Mask of the control word.
    pub(crate) fn set_control(&mut self, enabled: bool, masked: bool) {
        self.enabled = enabled;
        self.masked = masked;
        self.send_all();
    }

    /// Reads one word of BAR3; 0 where there is nothing.
    pub(crate) fn read(&self, offset: u64) -> u32 {
        if let Some(first) = offset.checked_sub(PBA) {
            // 32 pending bits a word, bit 0 first.
            let first = usize::try_from(first * 8).unwrap_or(usize::MAX);
            let bits = self.entries.iter().skip(first).take(32);
            return (0..).zip(bits).fold(0, |word, (bit, entry)| {
                word | u32::from(entry.pending) << bit
            });
        }
        let entry = self.entries.get((offset / ENTRY) as usize);
        let word = entry.and_then(|entry| entry.words.get((offset % ENTRY / 4) as usize));
        word.copied().unwrap_or(0)
    }

    /// Writes one word of BAR3. The pending bits are read-only.
    pub(crate) fn write(&mut self, offset: u64, value: u32) {
        if offset >= PBA {
            return;
        }
        let (index, place) = ((offset / ENTRY) as usize, (offset % ENTRY / 4) as usize);
        let entry = self.entries.get_mut(index);
        let Some(word) = entry.and_then(|entry| entry.words.get_mut(place)) else {
            return;
        };
        *word = match place {
            0 => value & ADDRESS_LOW,
            3 => value & MASK,
            _ => value,
        };
        self.send(index as u16);
    }

    pub(crate) fn set_mask(&mut self, vector: u16, masked: bool) {
        self.write(u64::from(vector) * ENTRY + 12, u32::from(masked));
    }

    /// Drops messages that may not be sent; returns their number.
    pub(crate) fn forget_sent(&mut self) -> usize {
        let count = self.sent.len();
        self.sent.clear();
        count
    }

    /// The messages since the last call, by vector, in order.
    pub(crate) fn take_sent(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.sent)
    }
}

#[cfg(test)]
mod tests;
