//! Path MTUs.

/// A path MTU: the payload bytes of a full packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[doc(alias = "ibv_mtu")]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Mtu {
    /// 256 bytes.
    #[doc(alias = "IBV_MTU_256")]
    Mtu256,
    /// 512 bytes.
    #[doc(alias = "IBV_MTU_512")]
    Mtu512,
    /// 1024 bytes.
    #[doc(alias = "IBV_MTU_1024")]
    Mtu1024,
    /// 2048 bytes.
    #[doc(alias = "IBV_MTU_2048")]
    Mtu2048,
    /// 4096 bytes.
    #[doc(alias = "IBV_MTU_4096")]
    Mtu4096,
}

impl Mtu {
    /// All of them, smallest first.
    pub const ALL: [Self; 5] = [
        Self::Mtu256,
        Self::Mtu512,
        Self::Mtu1024,
        Self::Mtu2048,
        Self::Mtu4096,
    ];

    /// Payload bytes of a full packet.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Mtu256 => 256,
            Self::Mtu512 => 512,
            Self::Mtu1024 => 1024,
            Self::Mtu2048 => 2048,
            Self::Mtu4096 => 4096,
        }
    }

    /// Its number in verbs (data-path 8.10): 1 to 5.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8 + 1
    }

    /// The path MTU of a verbs number, 1 to 5.
    #[must_use]
    pub fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|mtu| mtu.code() == code)
    }

    /// The path MTU with this many payload bytes.
    #[must_use]
    pub fn of_bytes(bytes: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|mtu| mtu.bytes() == bytes)
    }

    /// The largest path MTU whose RoCEv2 packets fit an interface of `mtu`
    /// bytes; `None` below 256 plus headers.
    ///
    /// A RoCEv2 packet carries at most 40 (IPv6) + 8 (UDP) + 12 (BTH) + 16
    /// (RETH) + 4 (immediate) + 4 (ICRC) bytes around its payload, which is
    /// what an interface MTU has to hold.
    #[must_use]
    pub const fn fitting(mtu: u16) -> Option<Self> {
        match mtu.saturating_sub(40 + 8 + 12 + 16 + 4 + 4) {
            4096.. => Some(Self::Mtu4096),
            2048.. => Some(Self::Mtu2048),
            1024.. => Some(Self::Mtu1024),
            512.. => Some(Self::Mtu512),
            256.. => Some(Self::Mtu256),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_mtu_leaves_room_for_headers() {
        assert_eq!(Mtu::fitting(1500), Some(Mtu::Mtu1024));
        assert_eq!(Mtu::fitting(9000), Some(Mtu::Mtu4096));
        assert_eq!(Mtu::fitting(300), None);
        assert_eq!(Mtu::fitting(0), None);
    }

    #[test]
    fn numbers_of_verbs() {
        for (mtu, code) in Mtu::ALL.into_iter().zip(1..) {
            assert_eq!(Mtu::of_code(code), Some(mtu));
            assert_eq!(Mtu::of_bytes(mtu.bytes()), Some(mtu));
        }
        assert_eq!((Mtu::of_code(0), Mtu::of_code(6)), (None, None));
        assert_eq!(Mtu::of_bytes(1500), None);
    }
}
