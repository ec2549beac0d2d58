//! 0x0607 Get Link Status, 0x0605 Restart Autonegotiation, 0x0613 Set Event
//! Mask (control-path 9.4).

use bitflags::bitflags;

use super::{Command, Data};
use crate::answer::Answer;
use crate::bytes::{byte, le16, le64, put, put16};
use crate::error::Result;
use crate::opcode::Opcode;

/// Bytes of the link data that every firmware gives; newer ones append the
/// partner's abilities (`ICE_AQC_LS_DATA_SIZE_V1`, `_V2`).
const BYTES: usize = 32;
const BYTES_WITH_PARTNER: u16 = 56;

bitflags! {
    /// link_info of the link data (`ice/ice_adminq_cmd.h`).
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct LinkInfo: u8 {
        /// The link is up.
        const UP = 1 << 0;
        /// Fault.
        const FAULT = 1 << 1;
        /// Fault of the transmitter.
        const FAULT_TX = 1 << 2;
        /// Fault of the receiver.
        const FAULT_RX = 1 << 3;
        /// The partner reports a fault.
        const FAULT_REMOTE = 1 << 4;
        /// The external port's link is up.
        const UP_PORT = 1 << 5;
        /// A module or cable is there.
        const MEDIA = 1 << 6;
        /// A signal is there.
        const SIGNAL = 1 << 7;
    }
}

bitflags! {
    /// Error correction that was negotiated: byte 8 of the link data
    /// (`ice/ice_adminq_cmd.h`). Empty: none.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct LinkFec: u8 {
        /// BASE-R (Firecode) of 25 Gb/s over a backplane or cable.
        const BASE_R = 1 << 0;
        /// RS(528, 514).
        const RS_528 = 1 << 1;
        /// RS(544, 514).
        const RS_544 = 1 << 2;
    }
}

e810_types::serde_flags!(LinkFec: u8);

impl LinkFec {
    /// The name that is usual in the field.
    #[must_use]
    pub const fn name(self) -> &'static str {
        if self.contains(Self::RS_544) {
            "RS-544"
        } else if self.contains(Self::RS_528) {
            "RS-528"
        } else if self.contains(Self::BASE_R) {
            "BASE-R"
        } else {
            "none"
        }
    }
}

/// State of the port's link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkStatus {
    /// Fault of module and topology; 0 if there is none.
    pub conflict: u8,
    /// Fault of the configuration; 0 if there is none.
    pub config_error: u8,
    /// Flags.
    pub info: LinkInfo,
    /// Greatest frame in bytes that the port takes.
    pub max_frame: u16,
    /// Error correction in use; meaningless without a link. A link that is up but receives
    /// nothing often has the wrong one.
    pub fec: LinkFec,
    /// Speed in Mbit/s; 0 when down or unknown.
    pub mbps: u32,
    /// PHY type in use, two bitmaps.
    pub phy_type: [u64; 2],
}

/// Bits of link_speed, from bit 0 on, in Mbit/s.
const SPEEDS: [u32; 12] = [
    10, 100, 1_000, 2_500, 5_000, 10_000, 20_000, 25_000, 40_000, 50_000, 100_000, 200_000,
];

impl LinkStatus {
    /// From the data of a reply or of an event.
    ///
    /// # Errors
    /// [`Error::ShortReply`](crate::Error::ShortReply).
    pub fn decode(answer: &Answer<'_>) -> Result<Self> {
        let mut data = [0; BYTES];
        answer.fill(0, "link status", &mut data)?;
        let speed = le16(&data, 10);
        let known = SPEEDS.iter().enumerate();
        let mbps = known
            .filter(|(bit, _)| speed == 1 << bit)
            .map(|(_, mbps)| *mbps)
            .next();
        Ok(Self {
            conflict: byte(&data, 0),
            config_error: byte(&data, 1),
            info: LinkInfo::from_bits_retain(byte(&data, 2)),
            max_frame: le16(&data, 6),
            // Bit 3 and above are pacing.
            fec: LinkFec::from_bits_truncate(byte(&data, 8)),
            mbps: mbps.unwrap_or(0),
            phy_type: [le64(&data, 16), le64(&data, 24)],
        })
    }

    /// Whether frames pass.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        self.info.contains(LinkInfo::UP)
    }
}

/// Asks for the state of the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetLinkStatus {
    /// The port.
    pub lport: u8,
    /// Switch link events on, too. `None` leaves them as they are.
    pub events: Option<bool>,
}

impl Command for GetLinkStatus {
    type Reply = LinkStatus;

    fn opcode(&self) -> Opcode {
        Opcode::LINK_STATUS
    }

    fn params(&self) -> [u8; 16] {
        let mut params = [0; 16];
        put(&mut params, 0, [self.lport]);
        let flags = match self.events {
            None => 0,
            Some(false) => 2,
            Some(true) => 3,
        };
        put16(&mut params, 2, flags);
        params
    }

    fn data(&self) -> Data<'_> {
        Data::Receive(BYTES_WITH_PARTNER)
    }

    fn decode(&self, answer: &Answer<'_>) -> Result<LinkStatus> {
        LinkStatus::decode(answer)
    }
}

/// Restarts the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RestartAn {
    /// The port.
    pub lport: u8,
    /// Enable the link; otherwise it stays down.
    pub enable: bool,
}

impl Command for RestartAn {
    type Reply = ();

    fn opcode(&self) -> Opcode {
        Opcode::RESTART_AN
    }

    fn params(&self) -> [u8; 16] {
        let mut params = [0; 16];
        let flags = 1 << 1 | u8::from(self.enable) << 2;
        put(&mut params, 0, [self.lport, 0, flags]);
        params
    }

    fn decode(&self, _: &Answer<'_>) -> Result<()> {
        Ok(())
    }
}

bitflags! {
    /// Link events that the firmware can report (`ice/ice_adminq_cmd.h`).
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct LinkEvents: u16 {
        /// Up or down.
        const UP_DOWN = 1 << 1;
        /// No module.
        const NO_MEDIA = 1 << 2;
        /// A module that is not qualified.
        const NOT_QUALIFIED = 1 << 8;
    }
}

/// Chooses the link events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetEventMask {
    /// The port.
    pub lport: u8,
    /// Events that are wanted; all others are masked off.
    pub wanted: LinkEvents,
}

impl Command for SetEventMask {
    type Reply = ();

    fn opcode(&self) -> Opcode {
        Opcode::EVENT_MASK
    }

    fn params(&self) -> [u8; 16] {
        let mut params = [0; 16];
        put(&mut params, 0, [self.lport]);
        put16(&mut params, 8, !self.wanted.bits());
        params
    }

    fn decode(&self, _: &Answer<'_>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::testing::decode;

    #[test]
    fn link_data_is_32_bytes_or_more() {
        let get = GetLinkStatus {
            lport: 1,
            events: Some(true),
        };
        assert_eq!(get.params()[..4], [1, 0, 3, 0]);
        let mut data = [0; 56];
        (data[0], data[1], data[2]) = (2, 4, 0x41);
        (data[6], data[7], data[11]) = (0x00, 0x26, 4);
        (data[8], data[16], data[24]) = (0xFA, 5, 6);
        for len in [32, 56] {
            let status = decode(&get, [0; 16], &data[..len]).unwrap();
            assert!(status.is_up());
            assert_eq!((status.conflict, status.config_error), (2, 4));
            assert_eq!((status.max_frame, status.mbps), (9728, 100_000));
            assert_eq!(status.phy_type, [5, 6]);
            assert_eq!((status.fec, status.fec.name()), (LinkFec::RS_528, "RS-528"));
        }
        assert!(decode(&get, [0; 16], &data[..31]).is_err());
        data[10] = 1;
        assert_eq!(decode(&get, [0; 16], &data).unwrap().mbps, 0, "two bits");
    }

    #[test]
    fn the_mask_names_what_is_not_wanted() {
        let mask = SetEventMask {
            lport: 2,
            wanted: LinkEvents::all(),
        };
        assert_eq!(mask.params()[..10], [2, 0, 0, 0, 0, 0, 0, 0, 0xF9, 0xFE]);
    }

    #[test]
    fn restarting_enables_the_link_or_not() {
        let restart = |enable| RestartAn { lport: 3, enable }.params();
        assert_eq!(restart(true)[..3], [3, 0, 6]);
        assert_eq!(restart(false)[..3], [3, 0, 2]);
    }
}
