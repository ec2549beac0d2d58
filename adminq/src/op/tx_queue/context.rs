//! The context of a LAN transmit queue (lan-path 3.3).

use e810_hal::Iova;
use e810_hal::bus::{PfId, TxQueueId, VsiId};

use crate::error::{Error, Result};
use crate::op::at_most;

/// Bytes of a context in 0x0C30: bits 0 to 175. The bits above belong to the device.
pub const TX_CONTEXT_BYTES: usize = 22;

/// Parameters of a transmit queue. All other fields have the values that existing drivers send
/// for a queue of the function itself: descriptor write-back, no TPH, no completion queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxQueueContext {
    /// The ring: a multiple of 128 bytes.
    pub ring: Iova,
    /// Descriptors of the ring: 64 to 8160, a multiple of 32 (lan-path 1.4).
    pub entries: u16,
    /// The queue, by the function's count.
    pub queue: TxQueueId,
    /// The port.
    pub lport: u8,
    /// Traffic class; 0 without DCB.
    pub traffic_class: u8,
    /// The function.
    pub pf: PfId,
    /// The VSI that frames leave from.
    pub vsi: VsiId,
}

/// A field: its first bit and its width.
#[derive(Clone, Copy)]
struct Field(u32, u32);

const BASE: Field = Field(0, 57);
const PORT: Field = Field(57, 3);
const CGD: Field = Field(60, 5);
const PF: Field = Field(65, 3);
const VMVF_TYPE: Field = Field(78, 2);
const SRC_VSI: Field = Field(80, 10);
const TSYN_ENA: Field = Field(90, 1);
const QLEN: Field = Field(135, 13);
const TSO_ENA: Field = Field(152, 1);
const TSO_QNUM: Field = Field(153, 11);
const LEGACY_INT: Field = Field(164, 1);

/// VMVF_TYPE of a queue of the PF itself.
const OF_PF: u64 = 2;

/// Units of the ring's address, as a shift.
const BASE_SHIFT: u32 = 7;

impl TxQueueContext {
    /// The context as it lies in the command.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]: a value that its field cannot hold, a ring that is
    /// not aligned or has a length that the device does not take.
    pub fn encode(&self) -> Result<[u8; TX_CONTEXT_BYTES]> {
        let entries = u64::from(self.entries);
        at_most("entries of a transmit ring", entries, 8160)?;
        if self.entries < 64 || !self.entries.is_multiple_of(32) {
            return Err(Error::OutOfRange {
                what: "entries of a transmit ring (at least 64, a multiple of 32)",
                value: entries,
                limit: 8160,
            });
        }
        let below = self.ring.0 & 127;
        at_most("misalignment of a transmit ring (128 bytes)", below, 0)?;
        // 11 bits, while a queue's number has 14. Existing drivers put the queue in.
        let queue = at_most(
            "queue number for segmentation",
            self.queue.get().into(),
            2047,
        )?;
        let fields = [
            (BASE, self.ring.0 >> BASE_SHIFT),
            (PORT, at_most("port of a queue", self.lport.into(), 7)?),
            (CGD, at_most("traffic class", self.traffic_class.into(), 7)?),
            (PF, self.pf.get().into()),
            (VMVF_TYPE, OF_PF),
            (SRC_VSI, self.vsi.get().into()),
            // The next ones are as Linux and DPDK send them; whether the firmware takes a queue
            // without segmentation is NITS (queue_without_tso; lan-path 17).
            (TSYN_ENA, 1),
            (QLEN, entries),
            (TSO_ENA, 1),
            (TSO_QNUM, queue),
            (LEGACY_INT, 1),
        ];
        let mut bytes = [0; TX_CONTEXT_BYTES];
        for (field, value) in fields {
            put_bits(&mut bytes, field, value);
        }
        Ok(bytes)
    }
}

/// Sets a field of a context that is zero there; bit n is bit n mod 8 of byte n div 8 (lan-path
/// 0).
fn put_bits(bytes: &mut [u8], Field(first, width): Field, value: u64) {
    for bit in 0..width {
        let place = first.saturating_add(bit);
        if value >> bit & 1 != 0
            && let Some(byte) = bytes.get_mut((place / 8) as usize)
        {
            *byte |= 1 << (place % 8);
        }
    }
}
