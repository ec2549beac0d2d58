//! LAN transmit queues, reduced to descriptor processing: descriptors are consumed and their frames
//! dropped.
//!
//! No LAN packet is sent. A descriptor that requests a report is written back, so that a driver's
//! queue does not appear to hang (`ice/ice_txrx.c ice_clean_tx_irq`).

use crate::findings::{Class, kind};
use crate::function::EngineEnv;
use crate::pe::Env;

use super::Firmware;
use super::layout::u8_at;

/// Bytes of a descriptor; its second word holds type, command and lengths.
const LEN: u64 = 16;
/// Report Status of a data descriptor: bit 1 of the command, which begins at bit 4. The same bit
/// means something else in the other types.
const REPORT: u64 = 1 << 5;
/// DTYPE, and that of a data descriptor.
const TYPE: u64 = 0xf;
const DATA: u64 = 0;
/// Type of a descriptor that is done.
const DONE: u64 = 0xf;

/// What the firmware keeps of a queue's context (`ice/ice_common.c ice_tlan_ctx_info`).
#[derive(Clone, Copy, Debug)]
pub(super) struct LanQueue {
    base: u64,
    length: u32,
    pub(super) vsi: u16,
    head: u32,
}

/// Bits of a context, from bit `low` on.
fn field(context: &[u8], low: usize, width: usize) -> u64 {
    (0..width).fold(0, |value, bit| {
        let at = low + bit;
        let set = u8_at(context, at / 8) >> (at % 8) & 1;
        value | u64::from(set) << bit
    })
}

impl LanQueue {
    pub(super) fn decode(context: &[u8]) -> Self {
        Self {
            // In units of 128 bytes.
            base: field(context, 0, 57) << 7,
            vsi: field(context, 80, 10) as u16,
            length: field(context, 135, 13) as u32,
            head: 0,
        }
    }
}

impl Firmware {
    /// The driver has posted up to `tail` on LAN queue `number`. Returns the new head, and whether
    /// a report was written; `None` when there is no such queue, or it cannot be served, which
    /// is a finding.
    pub(crate) fn lan_doorbell(
        &mut self,
        number: u16,
        tail: u32,
        env: &mut EngineEnv<'_>,
    ) -> Option<(u32, bool)> {
        let queue = self.txqs.lan.get_mut(&number)?;
        if tail >= queue.length {
            let text = format!(
                "LAN transmit queue {number}: tail {tail} of {} descriptors",
                queue.length
            );
            env.found(Class::Fault, kind::LAN_RING, text);
            return None;
        }
        let mut reported = false;
        while queue.head != tail {
            let at = queue
                .base
                .wrapping_add(u64::from(queue.head) * LEN)
                .wrapping_add(8);
            // Memory that cannot be reached is recorded where it is found.
            let word = env.load(at).ok()?;
            if word & TYPE == DATA && word & REPORT != 0 {
                env.store(at, DONE).ok()?;
                reported = true;
            }
            queue.head = if queue.head + 1 == queue.length {
                0
            } else {
                queue.head + 1
            };
        }
        Some((queue.head, reported))
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
        let queue = LanQueue::decode(&context);
        assert_eq!((queue.base, queue.vsi, queue.length), (0x1234_5680, 9, 256));
    }
}
