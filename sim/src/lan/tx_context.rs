//! The context of a transmit queue, set by 0x0C30 (lan-path 3.3).

/// The values that the queue takes from its context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TxContext {
    /// IOVA of the ring.
    pub(super) base: u64,
    /// Descriptors of the ring.
    pub(super) length: u32,
    /// The VSI that sends its frames.
    pub(crate) vsi: u16,
}

/// Bits of a context, from bit `low` on.
pub(super) fn field(context: &[u8], low: usize, width: usize) -> u64 {
    (0..width).fold(0, |value, bit| {
        let at = low + bit;
        let byte = context.get(at / 8).copied().unwrap_or(0);
        value | u64::from(byte >> (at % 8) & 1) << bit
    })
}

impl TxContext {
    /// Reads the 22 bytes of a context.
    pub(crate) fn decode(context: &[u8]) -> Self {
        Self {
            // In units of 128 bytes.
            base: field(context, 0, 57) << 7,
            vsi: field(context, 80, 10) as u16,
            length: field(context, 135, 13) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_read_bit_by_bit() {
        let mut context = [0; 22];
        // Base 0x1234_5680 / 128, VSI 9, length 256.
        context[..4].copy_from_slice(&(0x1234_5680_u32 >> 7).to_le_bytes());
        context[10] = 9;
        // Bit 135 + 8 is bit 7 of byte 17.
        context[17] = 0x80;
        let read = TxContext::decode(&context);
        assert_eq!((read.base, read.vsi, read.length), (0x1234_5680, 9, 256));
    }
}
