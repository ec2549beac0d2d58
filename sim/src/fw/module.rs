//! 0x06EE: the memory of the module in the port's cage (`ice/ice_adminq_cmd.h
//! ice_aqc_sff_eeprom`; layout of the memory: SFF-8636).
//!
//! The module is a copper cable for 100 Gb/s. It has one page, which cannot be changed.

use crate::link::Mac;

use super::config::PortLink;
use super::descriptor::{Answer, Command};
use super::layout::put;
use super::{AqCode, Cx};

/// Two-wire address of a module, in 7 bits.
const ADDRESS: u16 = 0x50;
/// Bits of the word with the address: 10-bit address, page change, write.
const TEN_BIT: u16 = 1 << 10;
const WRITE: u16 = 1 << 15;
/// Bytes of the lower page and the first upper one.
const BYTES: usize = 256;
/// QSFP28.
const IDENTIFIER: u8 = 0x11;

impl Cx<'_, '_> {
    /// 0x06EE. The answers without a module and for an address that does not exist are
    /// `[inf module_answers]`. So is the refusal of writes; a card does not refuse them.
    pub(super) fn module_memory(&mut self, command: &Command) -> Answer {
        let recorded = self.fw.config.recorded.as_ref();
        let recorded = recorded.and_then(|answers| answers.module.clone());
        if recorded.is_none() && self.fw.config.link == PortLink::NoMedia {
            return Err(AqCode::EIO);
        }
        let bus = command.param16(2);
        if bus & WRITE != 0 {
            return Err(AqCode::EPERM);
        }
        if bus & (TEN_BIT | 0x7F) != ADDRESS {
            return Err(AqCode::EIO);
        }
        let memory = recorded.unwrap_or_else(|| memory(self.env.state.mac).to_vec());
        let at = usize::from(command.param16(4));
        let rest = memory.get(at..).ok_or(AqCode::EINVAL)?;
        let bytes = rest.get(..command.room.min(rest.len()));
        command.answer(bytes.unwrap_or_default().to_vec())
    }
}

/// The module's description of itself; its serial number is made from the port's address.
fn memory(mac: Mac) -> [u8; BYTES] {
    let mut memory = [0; BYTES];
    // Bit 2 of the status: one page.
    put(&mut memory, 0, &[IDENTIFIER, 8, 1 << 2]);
    // Identifier, power class, no separable connector, "see extended".
    put(&mut memory, 128, &[IDENTIFIER, 0, 0x23, 1 << 7]);
    // One metre of copper, passive.
    put(&mut memory, 146, &[1, 0xA0]);
    for (at, text) in [
        (148, &b"simulated       "[..]),
        (168, b"100GBASE-CR4    "),
        (196, b"                "),
        (212, b"        "),
    ] {
        put(&mut memory, at, text);
    }
    let [.., high, middle, low] = mac;
    put(
        &mut memory,
        196,
        format!("{high:02x}{middle:02x}{low:02x}").as_bytes(),
    );
    // 100GBASE-CR4.
    put(&mut memory, 192, &[0x0B]);
    for (range, at) in [(128..191, 191), (192..223, 223)] {
        let sum = memory.get(range).unwrap_or_default().iter();
        let sum = sum.fold(0, |sum: u8, byte| sum.wrapping_add(*byte));
        put(&mut memory, at, &[sum]);
    }
    memory
}
