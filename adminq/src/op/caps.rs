//! 0x000A and 0x000B, capabilities of the function and of the device
//! (control-path 9.4, 9.5).

use super::{Command, Data};
use crate::answer::Answer;
use crate::bytes::{le16, le32};
use crate::error::Result;
use crate::limits::BUFFER_BYTES;
use crate::opcode::Opcode;

/// Bytes of an entry.
const ENTRY_BYTES: usize = 32;
/// A device with more functions than this has no RDMA (control-path 9.5).
const MOST_FUNCTIONS_WITH_RDMA: u32 = 4;

/// Whose capabilities.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Owner {
    /// This function's.
    Function,
    /// The whole device's.
    Device,
}

/// Lists capabilities.
///
/// The whole 4096-byte buffer is offered, the most that a command can carry. So after the
/// firmware's ENOMEM ("too small") there is no larger buffer to try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListCaps(pub Owner);

/// The capabilities that matter here. Absent ones are 0 or `false`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Capabilities {
    /// 0x0005: bitmap of the functions that exist.
    pub functions: u32,
    /// 0x0017: VSIs of the device, or guaranteed to the function.
    pub vsis: u32,
    /// 0x0018: bitmap of the active traffic classes, 0 without DCB.
    pub traffic_classes: u8,
    /// 0x0018: most traffic classes.
    pub max_traffic_classes: u8,
    /// 0x0043: MSI-X vectors.
    pub vectors: u32,
    /// 0x0043: device-global number of the first one.
    pub first_vector: u32,
    /// 0x0047: greatest MTU in bytes.
    pub max_mtu: u32,
    /// 0x0051: RDMA.
    pub rdma: bool,
    /// 0x0085: the layout of the transmit scheduler can be chosen.
    pub selectable_layers: bool,
    /// Entries of the list, known or not.
    pub entries: u32,
}

impl Capabilities {
    fn take(&mut self, entry: &[u8; ENTRY_BYTES]) {
        let number = le32(entry, 4);
        let (logical, physical) = (le32(entry, 8), le32(entry, 12));
        match le16(entry, 0) {
            0x0005 => self.functions = number,
            0x0017 => self.vsis = number,
            0x0018 if number == 1 => {
                self.traffic_classes = logical as u8;
                self.max_traffic_classes = physical as u8;
            }
            0x0043 => (self.vectors, self.first_vector) = (number, physical),
            0x0047 => self.max_mtu = number,
            0x0051 => self.rdma = number == 1,
            0x0085 => self.selectable_layers = number == 1,
            _ => {}
        }
    }

    /// Whether a device with these capabilities has too many functions for any of them to have
    /// RDMA, whatever their own lists say (control-path 9.5).
    #[must_use]
    pub const fn too_many_functions(&self) -> bool {
        self.functions.count_ones() > MOST_FUNCTIONS_WITH_RDMA
    }
}

impl Command for ListCaps {
    type Reply = Capabilities;

    fn opcode(&self) -> Opcode {
        match self.0 {
            Owner::Function => Opcode::FUNCTION_CAPS,
            Owner::Device => Opcode::DEVICE_CAPS,
        }
    }

    fn data(&self) -> Data<'_> {
        Data::Receive(BUFFER_BYTES as u16)
    }

    fn decode(&self, answer: &Answer<'_>) -> Result<Capabilities> {
        let entries = le32(answer.params(), 4);
        let mut caps = Capabilities {
            entries,
            ..Capabilities::default()
        };
        for number in 0..entries as usize {
            let at = number.saturating_mul(ENTRY_BYTES);
            let mut entry = [0; ENTRY_BYTES];
            answer.fill(at, "list of capabilities", &mut entry)?;
            caps.take(&entry);
        }
        Ok(caps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::op::testing::decode;
    use std::vec::Vec;

    fn entry(cap: u16, number: u32, logical: u32, physical: u32) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&cap.to_le_bytes());
        bytes[4..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..12].copy_from_slice(&logical.to_le_bytes());
        bytes[12..16].copy_from_slice(&physical.to_le_bytes());
        bytes
    }

    fn count(n: u8) -> [u8; 16] {
        let mut params = [0; 16];
        params[4] = n;
        params
    }

    #[test]
    fn known_entries_are_taken_and_others_skipped() {
        let list: Vec<u8> = [
            entry(0x0005, 0b11, 0, 0),
            entry(0x7777, 9, 9, 9),
            entry(0x0043, 64, 0, 128),
            entry(0x0051, 1, 0, 0),
            entry(0x0018, 1, 1, 8),
            entry(0x0047, 9702, 0, 0),
        ]
        .concat();
        let caps = decode(&ListCaps(Owner::Function), count(6), &list).unwrap();
        assert!(caps.rdma && !caps.too_many_functions());
        assert_eq!((caps.vectors, caps.first_vector), (64, 128));
        assert_eq!((caps.traffic_classes, caps.max_traffic_classes), (1, 8));
        assert_eq!((caps.max_mtu, caps.entries), (9702, 6));
    }

    #[test]
    fn rdma_is_there_only_when_the_number_is_one() {
        for (number, rdma) in [(0, false), (1, true), (2, false)] {
            let list = entry(0x0051, number, 1, 1);
            let caps = decode(&ListCaps(Owner::Function), count(1), &list).unwrap();
            assert_eq!(caps.rdma, rdma);
        }
        let caps = Capabilities {
            functions: 0xFF,
            ..Capabilities::default()
        };
        assert!(caps.too_many_functions());
    }

    #[test]
    fn a_count_beyond_the_data_is_refused() {
        let list = entry(0x0051, 1, 0, 0);
        assert!(matches!(
            decode(&ListCaps(Owner::Device), count(2), &list),
            Err(Error::ShortReply { needed: 64, .. })
        ));
        let mut huge = count(0);
        huge[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(decode(&ListCaps(Owner::Device), huge, &list).is_err());
    }
}
