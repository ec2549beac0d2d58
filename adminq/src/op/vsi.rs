//! 0x0210 Add, 0x0211 Update, 0x0213 Free VSI (control-path 9.6, 9.9).

use e810_hal::bus::VsiId;

use super::{Command, Data, VlanMode};
use crate::answer::Answer;
use crate::bytes::{le16, put, put16, put32};
use crate::error::Result;
use crate::opcode::Opcode;

/// Bytes of a VSI context.
pub const VSI_BYTES: usize = 128;

/// Sections of a context, as the bits of valid_sections.
mod section {
    pub(super) const SECURITY: u16 = 1 << 1;
    pub(super) const VLAN: u16 = 1 << 2;
    pub(super) const OUTER_TAG: u16 = 1 << 3;
    pub(super) const QUEUE_OPTIONS: u16 = 1 << 7;
}

/// sw_flags: SRC_PRUNE and ALLOW_LB.
const SWITCH_FLAGS: u8 = 1 << 7 | 1 << 5;
/// sw_flags2: LAN_ENA.
const LAN_ENABLED: u8 = 1 << 4;
/// sec_flags: ALLOW_DEST_OVRD.
const ALLOW_DEST_OVERRIDE: u8 = 1;
/// Each of the eight user priorities maps to itself: 3 bits each.
const PRIORITIES_AS_THEY_ARE: u32 = 0xFA_C688;
/// q_opt_flags: PE_FLTR_EN.
const PE_FILTER: u8 = 1;
/// inner_vlan_flags: emode 3, tags stay in the frame (lan-path 7.3).
const LEAVE_TAGS: u8 = 3 << 3;
/// outer_vlan_flags: the same for the outer tag.
const LEAVE_OUTER_TAGS: u8 = 3;
/// vsi_num: the number is valid.
const VALID: u16 = 1 << 15;
/// vsi_flags: a VSI of the PF itself.
const TYPE_PF: u16 = 2;

/// A VSI context: what a VSI may do. It names only the fields that this driver sets; the others
/// are zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VsiContext {
    bytes: [u8; VSI_BYTES],
}

impl VsiContext {
    /// The main VSI of a function that carries RDMA, on switch `swid`.
    ///
    /// It is as existing drivers make theirs, except for the receive queues: the map names only
    /// queue 0, because the sources do not say whether firmware takes a VSI without any queue. If
    /// no LAN queues are wanted, queue 0 is never switched on, and what is not RDMA is dropped
    /// there.
    #[must_use]
    pub fn main(swid: u16, vlan: VlanMode) -> Self {
        let mut bytes = [0; VSI_BYTES];
        put16(&mut bytes, 0, section::SECURITY);
        put(&mut bytes, 2, [swid as u8, SWITCH_FLAGS, LAN_ENABLED]);
        put(&mut bytes, 6, [ALLOW_DEST_OVERRIDE]);
        let (inner, outer) = match vlan {
            VlanMode::Single => (0x03, 0),
            VlanMode::Double => (0x1B, 0x6B),
        };
        put(&mut bytes, 12, [inner]);
        put32(&mut bytes, 16, PRIORITIES_AS_THEY_ARE);
        put32(&mut bytes, 20, PRIORITIES_AS_THEY_ARE);
        put(&mut bytes, 26, [outer]);
        // q_mapping: first queue 0, one queue.
        put16(&mut bytes, 32, 1);
        put32(&mut bytes, 84, PRIORITIES_AS_THEY_ARE);
        Self { bytes }
    }

    /// Only the section of the tags, as in this context, with tags left in frames that a LAN
    /// queue receives: its user sees frames as they came (lan-path 7.3, 15). If the card knows
    /// two tags this is the outer one; the sources do not say whether firmware takes that section
    /// when a VSI is added.
    #[must_use]
    pub fn leaving_tags(&self) -> Self {
        let mut bytes = [0; VSI_BYTES];
        let [inner] = crate::bytes::array(&self.bytes, 12).unwrap_or_default();
        let [outer] = crate::bytes::array(&self.bytes, 26).unwrap_or_default();
        if outer == 0 {
            put16(&mut bytes, 0, section::VLAN);
            put(&mut bytes, 12, [inner | LEAVE_TAGS]);
        } else {
            put16(&mut bytes, 0, section::OUTER_TAG);
            put(&mut bytes, 26, [outer | LEAVE_OUTER_TAGS]);
        }
        Self { bytes }
    }

    /// Only the queue options, as in this context, with the filter of the RDMA engine on or off.
    /// Nothing else of the VSI changes (control-path 9.9).
    #[must_use]
    pub fn with_rdma_filter(&self, on: bool) -> Self {
        let mut bytes = [0; VSI_BYTES];
        put16(&mut bytes, 0, section::QUEUE_OPTIONS);
        let [rss, tc, flags] = crate::bytes::array(&self.bytes, 78).unwrap_or_default();
        let flags = flags & !PE_FILTER | u8::from(on);
        put(&mut bytes, 78, [rss, tc, flags]);
        Self { bytes }
    }

    /// The context as it lies in the buffer.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; VSI_BYTES] {
        &self.bytes
    }
}

/// Adds a VSI; the firmware chooses its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddVsi(pub VsiContext);

/// What the firmware made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct VsiAdded {
    /// The number.
    pub vsi: VsiId,
    /// VSIs of the function in use.
    pub used: u16,
    /// VSIs left.
    pub free: u16,
}

impl Command for AddVsi {
    type Reply = VsiAdded;

    fn opcode(&self) -> Opcode {
        Opcode::ADD_VSI
    }

    fn params(&self) -> [u8; 16] {
        let mut params = [0; 16];
        put16(&mut params, 6, TYPE_PF);
        params
    }

    fn data(&self) -> Data<'_> {
        Data::Send(self.0.bytes())
    }

    fn decode(&self, answer: &Answer<'_>) -> Result<VsiAdded> {
        let params = answer.params();
        let number = le16(params, 0) & 0x3FF;
        let vsi = VsiId::new(number).ok_or_else(|| answer.bad("VSI number", number.into()))?;
        Ok(VsiAdded {
            vsi,
            used: le16(params, 4),
            free: le16(params, 6),
        })
    }
}

/// Changes the sections of a VSI that the context marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UpdateVsi {
    /// Which.
    pub vsi: VsiId,
    /// What to change.
    pub context: VsiContext,
}

fn names(vsi: VsiId) -> [u8; 16] {
    let mut params = [0; 16];
    // Numbers have ten bits.
    put16(&mut params, 0, vsi.get() as u16 | VALID);
    params
}

impl Command for UpdateVsi {
    type Reply = ();

    fn opcode(&self) -> Opcode {
        Opcode::UPDATE_VSI
    }

    fn params(&self) -> [u8; 16] {
        names(self.vsi)
    }

    fn data(&self) -> Data<'_> {
        Data::Send(self.context.bytes())
    }

    fn decode(&self, _: &Answer<'_>) -> Result<()> {
        Ok(())
    }
}

/// Frees a VSI and its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreeVsi(pub VsiId);

impl Command for FreeVsi {
    type Reply = ();

    fn opcode(&self) -> Opcode {
        Opcode::FREE_VSI
    }

    fn params(&self) -> [u8; 16] {
        names(self.0)
    }

    fn decode(&self, _: &Answer<'_>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::testing::{decode, params};
    use std::vec::Vec;

    /// Offsets and values of the bytes that are not zero.
    fn set(context: &VsiContext) -> Vec<(usize, u8)> {
        let bytes = context.bytes().iter().copied().enumerate();
        bytes.filter(|(_, byte)| *byte != 0).collect()
    }

    #[test]
    fn the_main_vsi_byte_for_byte() {
        let tables = [16, 20, 84].map(|at| [(at, 0x88), (at + 1, 0xC6), (at + 2, 0xFA)]);
        let expected = [
            &[(0, 0x02), (2, 5), (3, 0xA0), (4, 0x10), (6, 1), (12, 3)][..],
            &tables[0],
            &tables[1],
            &[(32, 1)],
            &tables[2],
        ]
        .concat();
        assert_eq!(set(&VsiContext::main(5, VlanMode::Single)), expected);
        let double = VsiContext::main(5, VlanMode::Double);
        assert_eq!((double.bytes()[12], double.bytes()[26]), (0x1B, 0x6B));
    }

    #[test]
    fn the_rdma_filter_changes_the_queue_options_only() {
        let main = VsiContext::main(5, VlanMode::Single);
        assert_eq!(set(&main.with_rdma_filter(true)), [(0, 0x80), (80, 1)]);
        assert_eq!(set(&main.with_rdma_filter(false)), [(0, 0x80)]);
    }

    #[test]
    fn numbers_have_their_bit() {
        let vsi = VsiId::new(0x2A5).unwrap();
        assert_eq!(FreeVsi(vsi).params()[..3], [0xA5, 0x82, 0]);
        assert_eq!(
            AddVsi(VsiContext::main(0, VlanMode::Single)).params()[..8],
            [0, 0, 0, 0, 0, 0, 2, 0]
        );
    }

    #[test]
    fn the_reply_names_the_vsi() {
        let add = AddVsi(VsiContext::main(0, VlanMode::Single));
        let reply = decode(&add, params(&[9, 0x80, 0, 0, 1, 0, 7, 0]), &[]);
        let vsi = VsiId::new(9).unwrap();
        assert_eq!(
            reply,
            Ok(VsiAdded {
                vsi,
                used: 1,
                free: 7
            })
        );
        assert!(
            decode(&add, params(&[0xFF, 0x03]), &[]).is_err(),
            "768 and above"
        );
    }

    #[test]
    fn tags_are_left_in_either_mode() {
        let single = VsiContext::main(7, VlanMode::Single).leaving_tags();
        assert_eq!(set(&single), [(0, 4), (12, 0x1B)]);
        let double = VsiContext::main(7, VlanMode::Double).leaving_tags();
        assert_eq!(set(&double), [(0, 8), (26, 0x6B)]);
    }
}
