//! Settings of a port's queues.

use crate::error::{Error, Result, Ring};
use crate::rx::RX_BUFFER;

/// The least MTU: that of IPv4.
pub const MIN_MTU: u16 = 68;

/// The greatest MTU: the port's greatest frame, 9728 bytes (lan-path 1.4), less
/// Ethernet header, two VLAN tags and FCS.
pub const MAX_MTU: u16 = 9728 - OVERHEAD;

/// Ethernet header, two VLAN tags and FCS: what existing drivers add to an MTU
/// (lan-path 5.1, "MTU + 26").
const OVERHEAD: u16 = 26;

/// Ethernet header and two VLAN tags.
const HEADERS: u16 = 22;

/// What the queues of a port are to be like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LanInit {
    /// Greatest payload of an Ethernet frame in bytes, [`MIN_MTU`] to [`MAX_MTU`].
    pub mtu: u16,
    /// Descriptors of the transmit ring: 64 to 8160, a multiple of 32. Each has a
    /// buffer for one frame.
    pub tx_entries: u16,
    /// Descriptors of the receive ring: 64 to 8160, a multiple of 32. Each has a
    /// buffer of [`RX_BUFFER`] bytes; a longer frame takes up to five.
    pub rx_entries: u16,
}

impl LanInit {
    /// Rings of 64 descriptors for frames of this MTU (lan-path 15).
    #[must_use]
    pub const fn new(mtu: u16) -> Self {
        Self {
            mtu,
            tx_entries: 64,
            rx_entries: 64,
        }
    }

    /// The longest frame in bytes, Ethernet header and two VLAN tags counted, FCS
    /// not: what a program's buffer has to hold.
    #[must_use]
    pub const fn max_frame(&self) -> usize {
        self.mtu.saturating_add(HEADERS) as usize
    }

    /// The longest frame that the device gives to the queue. Whether it counts the
    /// FCS is NITS (rxmax_fcs; lan-path 5.1), so it is counted here.
    #[must_use]
    pub const fn max_received(&self) -> u16 {
        self.mtu.saturating_add(OVERHEAD)
    }

    /// Bytes of DMA memory that the queues take: rings and buffers.
    #[must_use]
    pub const fn dma_bytes(&self) -> usize {
        let tx = self.max_frame().next_multiple_of(64).saturating_add(16);
        let rx = RX_BUFFER.saturating_add(32);
        let tx = tx.saturating_mul(self.tx_entries as usize);
        tx.saturating_add(rx.saturating_mul(self.rx_entries as usize))
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`Error::Mtu`], [`Error::Entries`].
    pub fn check(&self) -> Result<()> {
        if !(MIN_MTU..=MAX_MTU).contains(&self.mtu) {
            return Err(Error::Mtu {
                mtu: self.mtu,
                min: MIN_MTU,
                max: MAX_MTU,
            });
        }
        check_entries(Ring::Transmit, self.tx_entries)?;
        check_entries(Ring::Receive, self.rx_entries)
    }
}

impl Default for LanInit {
    /// For an MTU of 1500.
    fn default() -> Self {
        Self::new(1500)
    }
}

// The longest frame fits the five buffers that it may take (lan-path 1.4).
const _: () = assert!(MAX_MTU as usize + OVERHEAD as usize <= 5 * RX_BUFFER);

/// Lengths that the device takes (lan-path 1.4).
pub(crate) const fn check_entries(ring: Ring, entries: u16) -> Result<()> {
    if entries < 64 || entries > 8160 || !entries.is_multiple_of(32) {
        return Err(Error::Entries { ring, entries });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_ranges() {
        let with = |change: fn(&mut LanInit)| {
            let mut init = LanInit::default();
            change(&mut init);
            init.check()
        };
        assert_eq!(with(|_| ()), Ok(()));
        assert_eq!(with(|init| init.mtu = 68), Ok(()));
        assert_eq!(with(|init| init.mtu = 9702), Ok(()));
        assert!(with(|init| init.mtu = 67).is_err());
        assert!(with(|init| init.mtu = 9703).is_err());
        for entries in [64, 96, 8160] {
            let init = LanInit {
                tx_entries: entries,
                rx_entries: entries,
                ..LanInit::default()
            };
            assert_eq!(init.check(), Ok(()));
        }
        for entries in [0, 32, 63, 65, 8192, u16::MAX] {
            let ring = Ring::Transmit;
            let init = LanInit {
                tx_entries: entries,
                ..LanInit::default()
            };
            assert_eq!(init.check(), Err(Error::Entries { ring, entries }));
            let ring = Ring::Receive;
            let init = LanInit {
                rx_entries: entries,
                ..LanInit::default()
            };
            assert_eq!(init.check(), Err(Error::Entries { ring, entries }));
        }
    }

    #[test]
    fn frames_have_room_for_two_tags() {
        let init = LanInit::new(9000);
        assert_eq!((init.max_frame(), init.max_received()), (9022, 9026));
        assert_eq!(LanInit::new(MAX_MTU).max_received(), 9728);
        let bytes = LanInit::default().dma_bytes();
        assert_eq!(bytes, 64 * (16 + 1536) + 64 * (32 + 2048));
    }
}
