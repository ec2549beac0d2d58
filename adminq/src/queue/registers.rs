//! The registers of one queue: programming, checking, disabling.

use e810_hal::clock::live;
use e810_hal::regs::{
    PF_FW_ARQBAH, PF_FW_ARQBAL, PF_FW_ARQH, PF_FW_ARQLEN, PF_FW_ARQT, PF_FW_ATQBAH, PF_FW_ATQBAL,
    PF_FW_ATQH, PF_FW_ATQLEN, PF_FW_ATQT,
};
use e810_hal::{Bus, Iova};

use crate::error::{Error, Result};

/// One of the two queues. They have the same registers at different places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Queue {
    /// Commands.
    Atq,
    /// Events.
    Arq,
}

/// LEN: the queue is on.
const ENABLE: u32 = PF_FW_ATQLEN::ATQENABLE::SET.value;
/// LEN: number of entries.
const ENTRIES: u32 = PF_FW_ATQLEN::ATQLEN.mask;
/// LEN: critical firmware error.
const CRITICAL: u32 = PF_FW_ATQLEN::ATQCRIT::SET.value;
/// LEN: VF error, overflow, critical error.
const FAULTS: u32 = PF_FW_ATQLEN::ATQVFE::SET.value | PF_FW_ATQLEN::ATQOVFL::SET.value | CRITICAL;
/// BAL holds address bits \[31:6\].
const ADDRESS_LOW: u32 = !0x3F;

macro_rules! either {
    ($queue:expr, $bus:expr, $atq:ident, $arq:ident . get) => {
        match $queue {
            Queue::Atq => $atq.get($bus),
            Queue::Arq => $arq.get($bus),
        }
    };
    ($queue:expr, $bus:expr, $atq:ident, $arq:ident = $value:expr) => {
        match $queue {
            Queue::Atq => $atq.set($bus, $value),
            Queue::Arq => $arq.set($bus, $value),
        }
    };
}

impl Queue {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Atq => "AdminQ command queue",
            Self::Arq => "AdminQ event queue",
        }
    }

    /// Programs the queue in the order of control-path 9.1 and reads the low
    /// address back.
    pub(super) fn program<B: Bus + ?Sized>(self, bus: &B, ring: Iova, entries: u16) -> Result<()> {
        either!(self, bus, PF_FW_ATQH, PF_FW_ARQH = 0);
        either!(self, bus, PF_FW_ATQT, PF_FW_ARQT = 0);
        let len = u32::from(entries) | ENABLE;
        either!(self, bus, PF_FW_ATQLEN, PF_FW_ARQLEN = len);
        // The address is 64-byte aligned, so its low half is the register.
        let written = ring.0 as u32;
        either!(self, bus, PF_FW_ATQBAL, PF_FW_ARQBAL = written);
        either!(
            self,
            bus,
            PF_FW_ATQBAH,
            PF_FW_ARQBAH = (ring.0 >> 32) as u32
        );
        let read = either!(self, bus, PF_FW_ATQBAL, PF_FW_ARQBAL.get);
        let read = live(self.name(), read)?;
        if read & ADDRESS_LOW == written {
            Ok(())
        } else {
            Err(Error::NotProgrammed {
                queue: self.name(),
                written,
                read,
            })
        }
    }

    /// Tells the firmware that it owns the entries before `tail`.
    pub(super) fn set_tail<B: Bus + ?Sized>(self, bus: &B, tail: u16) {
        either!(self, bus, PF_FW_ATQT, PF_FW_ARQT = tail.into());
    }

    /// The firmware's index.
    pub(super) fn head<B: Bus + ?Sized>(self, bus: &B, entries: u16) -> Result<u16> {
        let head = either!(self, bus, PF_FW_ATQH, PF_FW_ARQH.get);
        let head = live(self.name(), head)?;
        u16::try_from(head)
            .ok()
            .filter(|head| *head < entries)
            .ok_or(Error::BadHead {
                queue: self.name(),
                head,
                entries,
            })
    }

    /// The length register.
    pub(super) fn len<B: Bus + ?Sized>(self, bus: &B) -> Result<u32> {
        let len = either!(self, bus, PF_FW_ATQLEN, PF_FW_ARQLEN.get);
        Ok(live(self.name(), len)?)
    }

    /// Whether LEN reports a critical firmware error.
    pub(super) const fn critical(len: u32) -> bool {
        len & CRITICAL != 0
    }

    /// The fault bits of LEN.
    pub(super) const fn faults(len: u32) -> u32 {
        len & FAULTS
    }

    /// Clears the fault bits.
    pub(super) fn clear_faults<B: Bus + ?Sized>(self, bus: &B, len: u32) {
        either!(self, bus, PF_FW_ATQLEN, PF_FW_ARQLEN = len & !FAULTS);
    }

    /// Whether LEN is that of a queue with `entries` that is on.
    pub(super) const fn is_on(len: u32, entries: u16) -> bool {
        len & (ENTRIES | ENABLE) == (entries as u32) | ENABLE
    }

    /// Switches the queue off: all five registers zero (control-path 9.1,
    /// shutdown). The length is read back, so that the firmware has seen it.
    pub(super) fn switch_off<B: Bus + ?Sized>(self, bus: &B) -> Result<()> {
        either!(self, bus, PF_FW_ATQH, PF_FW_ARQH = 0);
        either!(self, bus, PF_FW_ATQT, PF_FW_ARQT = 0);
        either!(self, bus, PF_FW_ATQLEN, PF_FW_ARQLEN = 0);
        either!(self, bus, PF_FW_ATQBAL, PF_FW_ARQBAL = 0);
        either!(self, bus, PF_FW_ATQBAH, PF_FW_ARQBAH = 0);
        match self.len(bus)? {
            len if len & ENABLE == 0 => Ok(()),
            read => Err(Error::NotProgrammed {
                queue: self.name(),
                written: 0,
                read,
            }),
        }
    }
}
