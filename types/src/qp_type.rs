//! The transport service of a QP.

use core::fmt;

/// Type of a QP: its transport service. The device has RC, UD and the GSI QP,
/// which is a UD one (data-path 5.4); the others are in the table of state
/// changes for its completeness.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
#[doc(alias = "ibv_qp_type")]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum QpType {
    /// Reliable connection.
    #[doc(alias = "IBV_QPT_RC")]
    Rc = 0,
    /// Unreliable connection; not on this device.
    #[doc(alias = "IBV_QPT_UC")]
    Uc = 1,
    /// Unreliable datagram.
    #[doc(alias = "IBV_QPT_UD")]
    Ud = 2,
    /// General services (and subnet management): QP 1.
    Gsi = 3,
    /// Raw packets; not on this device.
    #[doc(alias = "IBV_QPT_RAW_PACKET")]
    RawPacket = 4,
    /// XRC initiator; not on this device.
    XrcIni = 5,
    /// XRC target; not on this device.
    XrcTgt = 6,
}

impl QpType {
    /// Whether the device has QPs of this kind.
    #[must_use]
    pub const fn is_offered(self) -> bool {
        matches!(self, Self::Rc | Self::Ud | Self::Gsi)
    }

    /// Whether its messages are datagrams.
    #[must_use]
    #[inline(always)]
    pub const fn is_datagram(self) -> bool {
        matches!(self, Self::Ud | Self::Gsi)
    }
}

impl fmt::Display for QpType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rc => "RC",
            Self::Uc => "UC",
            Self::Ud => "UD",
            Self::Gsi => "GSI",
            Self::RawPacket => "RAW_PACKET",
            Self::XrcIni => "XRC_INI",
            Self::XrcTgt => "XRC_TGT",
        })
    }
}
