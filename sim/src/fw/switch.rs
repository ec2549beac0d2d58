//! The switch as a whole: its configuration and its ports (control-path 9.6).

use super::descriptor::{Answer, Command};
use super::layout::put_u16;
use super::{AqCode, Cx};

/// Switch id of a function's port.
const SWID_BASE: u16 = 1;

/// The VLAN id of a frame, 0 when it has no tag.
pub(super) fn vlan_of(frame: &[u8]) -> u16 {
    /// Types of a tag, of a customer and of a provider.
    const TAGS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
    let tagged = TAGS.iter().any(|tag| frame.get(12..14) == Some(tag));
    let tag = frame.get(14..16).filter(|_| tagged);
    tag.and_then(|tag| tag.first_chunk())
        .map_or(0, |tag| u16::from_be_bytes(*tag) & 0xfff)
}

impl Cx<'_, '_> {
    fn swid(&self) -> u16 {
        SWID_BASE + u16::from(self.pf())
    }

    /// 0x0200: the function's port, in one part.
    pub(super) fn switch_config(&mut self, command: &Command) -> Answer {
        if command.param16(2) != 0 {
            // There is no further part.
            return Err(AqCode::EINVAL);
        }
        let mut data = vec![0; 6];
        // A physical port [15:14] = 0, and its number.
        put_u16(&mut data, 0, u16::from(self.pf()));
        put_u16(&mut data, 2, self.swid());
        put_u16(&mut data, 4, u16::from(self.pf()));
        Ok(command.answer(data)?.put16(2, 0).put16(4, 1))
    }

    /// 0x0203.
    pub(super) fn set_port_parameters(&mut self, command: &Command) -> Answer {
        const SWID_VALID: u16 = 1 << 15;
        const FORWARDING: u8 = 0b11;
        let swid = command.param16(4);
        if swid & SWID_VALID != 0 && swid & 0xff != self.swid() {
            return Err(AqCode::ENOENT);
        }
        if command.param8(6) & FORWARDING > 2 {
            return Err(AqCode::EINVAL);
        }
        Ok(command.done())
    }
}
