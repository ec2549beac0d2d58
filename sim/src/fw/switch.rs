//! Switch configuration and ports (control-path 9.6).

use crate::findings::kind;
use crate::variation::SwitchPages;

use super::descriptor::{Answer, Command};
use super::layout::put_u16;
use super::{AqCode, Cx};

/// Switch id of a function's port.
const SWID_BASE: u16 = 1;
/// Bytes of an element, and its types.
const ELEMENT: usize = 6;
const PORT: u16 = 0;
const VSI: u16 = 2;
/// The firmware's VSI of function 0; that the others follow is `[inf other_functions]`. Drivers get
/// none of these numbers.
const OWN_VSI_BASE: u16 = 4;

/// The VLAN id of a frame, 0 when it has no tag.
pub(super) fn vlan_of(frame: &[u8]) -> u16 {
    /// Tag types: customer and provider.
    const TAGS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
    let tagged = TAGS.iter().any(|tag| frame.get(12..14) == Some(tag));
    let tag = frame.get(14..16).filter(|_| tagged);
    tag.and_then(|tag| tag.first_chunk())
        .map_or(0, |tag| u16::from_be_bytes(*tag) & 0xfff)
}

impl Cx<'_, '_> {
    /// Number of the function's port.
    pub(super) fn port_number(&self) -> u8 {
        let recorded = self.fw.config.recorded.as_ref();
        let number = recorded.and_then(|answers| answers.port(self.pf()));
        number.unwrap_or(self.pf())
    }

    /// Number of the firmware's own VSI for the function.
    fn own_vsi(&self) -> u16 {
        let recorded = self.fw.config.recorded.as_ref();
        let number = recorded.and_then(|answers| answers.own_vsi(self.pf()));
        number.unwrap_or(OWN_VSI_BASE + u16::from(self.pf()))
    }

    pub(super) fn swid(&self) -> u16 {
        let recorded = self.fw.config.recorded.as_ref();
        let number = recorded.and_then(|answers| answers.switch(self.pf()));
        number.unwrap_or(SWID_BASE + u16::from(self.pf()))
    }

    /// Whether the function has the VSI: one that a driver has added, or the firmware's own, which
    /// a driver may use (iPXE adds none).
    pub(super) fn has_vsi(&self, number: u16) -> bool {
        self.fw.vsis.has(number) || self.fw.own_vsi && number == self.own_vsi()
    }

    /// The function's elements: its port and, below the port, its VSI in the firmware
    /// (field-evidence 3.15: number 4 of function 0).
    fn elements(&self) -> Vec<[u8; ELEMENT]> {
        let pf = u16::from(self.pf());
        let element = |kind: u16, number: u16| {
            let mut bytes = [0; ELEMENT];
            put_u16(&mut bytes, 0, kind << 14 | number);
            put_u16(&mut bytes, 2, self.swid());
            put_u16(&mut bytes, 4, pf);
            bytes
        };
        let mut all = vec![element(PORT, self.port_number().into())];
        if self.fw.own_vsi {
            all.push(element(VSI, self.own_vsi()));
        }
        all
    }

    /// 0x0200: from the requested element on, as many as fit a reply; then the start of the next
    /// reply, or 0.
    pub(super) fn switch_config(&mut self, command: &Command) -> Answer {
        let elements = self.elements();
        let first = command.param16(2);
        let rest = elements.get(usize::from(first)..).unwrap_or_default();
        let fit = (command.room / ELEMENT) as u16;
        let page = match self.env.state.variation.switch_pages {
            SwitchPages::Full => fit,
            SwitchPages::OneElement => fit.min(1),
        };
        let count = usize::from(page).min(rest.len());
        if count == 0 {
            return Err(AqCode::EINVAL);
        }
        let next = if count < rest.len() {
            first + count as u16
        } else {
            0
        };
        let data = rest.iter().take(count).flatten().copied().collect();
        Ok(command.answer(data)?.put16(2, next).put16(4, count as u16))
    }

    /// 0x0203.
    pub(super) fn set_port_parameters(&mut self, command: &Command) -> Answer {
        const SWID_VALID: u16 = 1 << 15;
        const FORWARDING: u8 = 0b11;
        const FORWARDING_VALID: u8 = 1 << 2;
        const DOUBLE_VLAN: u16 = 1 << 2;
        let (swid, mode) = (command.param16(4), command.param8(6));
        // Drivers that do not know modes send a zero byte.
        if swid != 0 && swid & SWID_VALID == 0
            || mode & FORWARDING != 0 && mode & FORWARDING_VALID == 0
        {
            let text = format!("0x0203: swid {swid:#x} or local_fwd_mode {mode:#x} is not valid");
            self.env.found(kind::ADMINQ_BITS, text);
        }
        if swid & SWID_VALID != 0 && swid & 0xff != self.swid() {
            return Err(AqCode::ENOENT);
        }
        if mode & FORWARDING > 2 {
            return Err(AqCode::EINVAL);
        }
        let is_double = command.param16(0) & DOUBLE_VLAN != 0;
        self.card.vlan.set_ports(is_double);
        Ok(command.done())
    }
}
