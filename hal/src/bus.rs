//! Access to BAR0: where a register is, and the two operations on it.
//!
//! [`RegOffset`] is a byte offset that is inside BAR0 by construction, so a backend over real
//! memory needs no check; [`Bus`] reads and writes it. Index types ([`Vector`], [`CeqId`], ...)
//! select elements of register arrays; they hold only values that the array has.
//!
//! ```
//! use e810_hal::bus::{Bus, RegOffset, RegIndex, Vector};
//!
//! const CQP_DOORBELL: RegOffset = RegOffset::new(0x50_0800);
//! fn ring(bus: &impl Bus, head: u32) {
//!     bus.write32(CQP_DOORBELL, head);
//! }
//!
//! assert_eq!(Vector::new(2047).map(|v| v.get()), Some(Vector::MAX));
//! assert_eq!(Vector::new(2048), None);
//! ```

use core::fmt;

/// Bytes of BAR0 that this driver maps and uses: 8 MiB (control-path 1.2, `[inf bar_length]`: the
/// size is not stated as a number). The doorbell page at 0x7F0000 lies inside; push pages begin at
/// this offset and are not used.
pub const BAR0_LEN: u32 = 0x80_0000;

/// Byte offset of a 32-bit register from the start of BAR0: a multiple of 4
/// below [`BAR0_LEN`], always.
///
/// Backends rely on that instead of checking each access.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct RegOffset(u32);

impl RegOffset {
    /// The offset `bytes`, for constants.
    ///
    /// # Panics
    /// When `bytes` is not a multiple of 4 or not below [`BAR0_LEN`]: in a
    /// constant, that is a compile error. Use [`RegOffset::try_new`] for numbers that
    /// are only known at run time.
    #[must_use]
    #[inline]
    pub const fn new(bytes: u32) -> Self {
        assert!(
            bytes.is_multiple_of(4),
            "a register offset is a multiple of 4"
        );
        assert!(bytes < BAR0_LEN, "the offset lies outside the mapped BAR0");
        Self(bytes)
    }

    /// The offset `bytes`, or `None` when it is not a multiple of 4 below
    /// [`BAR0_LEN`].
    #[must_use]
    #[inline]
    pub const fn try_new(bytes: u32) -> Option<Self> {
        if bytes.is_multiple_of(4) && bytes < BAR0_LEN {
            Some(Self(bytes))
        } else {
            None
        }
    }

    /// The offset in bytes.
    #[must_use]
    #[inline(always)]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The offset `bytes` further on.
    ///
    /// Callers ensure that it is inside: [`RegArray::new`](crate::reg::RegArray::new) asserts its
    /// last element, and a [`RegIndex`] never exceeds its `MAX`.
    #[inline(always)]
    pub(crate) const fn plus(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl fmt::Debug for RegOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegOffset({:#08x})", self.0)
    }
}

impl fmt::Display for RegOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

/// 32-bit access to the registers of one function.
///
/// Infallible and monomorphised, because on a real BAR an access cannot report failure and must
/// compile to one `mov`. A backend that can fail (a socket) latches its first error and then
/// answers all-ones, as a device does that left the bus; waits turn all-ones into an error.
///
/// Values are in the CPU's byte order; a backend over memory converts to the device's
/// little-endian.
pub trait Bus {
    /// Reads the register at `off`. Some registers change by being read: the
    /// typed registers of [`crate::reg`] tell them apart.
    fn read32(&self, off: RegOffset) -> u32;

    /// Writes the register at `off`.
    fn write32(&self, off: RegOffset, value: u32);
}

impl<B: Bus + ?Sized> Bus for &B {
    #[inline(always)]
    fn read32(&self, off: RegOffset) -> u32 {
        (**self).read32(off)
    }

    #[inline(always)]
    fn write32(&self, off: RegOffset, value: u32) {
        (**self).write32(off, value);
    }
}

mod sealed {
    /// Index types are defined only here: that [`RegOffset`](super::RegOffset) is in range
    /// depends on them never exceeding their `MAX`.
    pub trait Sealed {}
}

/// Index of a register array, valid by construction.
pub trait RegIndex: Copy + Eq + Ord + fmt::Debug + fmt::Display + sealed::Sealed {
    /// The greatest index.
    const MAX: u32;

    /// The index `index`, or `None` above [`MAX`](Self::MAX).
    fn from_u32(index: u32) -> Option<Self>;

    /// The index as a number, at most [`MAX`](Self::MAX).
    fn get(self) -> u32;
}

macro_rules! indexes {
    ($($(#[$doc:meta])* $name:ident ..= $max:literal, $prefix:literal;)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        #[repr(transparent)]
        pub struct $name(u16);

        impl $name {
            /// The first one.
            pub const ZERO: Self = Self(0);

            #[doc = concat!("`index`, or `None` above ", stringify!($max), ".")]
            #[must_use]
            #[inline]
            pub const fn new(index: u16) -> Option<Self> {
                if index <= $max { Some(Self(index)) } else { None }
            }

            /// The index as a number.
            #[must_use]
            #[inline(always)]
            pub const fn get(self) -> u32 {
                self.0 as u32
            }
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.serialize(serializer)
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let index = u16::deserialize(from)?;
                Self::new(index).ok_or(serde::de::Error::custom("no such index"))
            }
        }

        impl sealed::Sealed for $name {}

        impl RegIndex for $name {
            const MAX: u32 = $max;

            #[inline]
            fn from_u32(index: u32) -> Option<Self> {
                u16::try_from(index).ok().and_then(Self::new)
            }

            #[inline(always)]
            fn get(self) -> u32 {
                u32::from(self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    )+ };
}

indexes! {
    /// MSI-X vector of the function, 0..=2047: relative to the PF, as it
    /// stands in `MSIX_INDX` fields and indexes the `GLINT_*` arrays
    /// (control-path 1.3).
    Vector ..= 2047, "vector ";

    /// Completion event queue, 0..=1023: the ten low bits of CEQID
    /// (control-path 4.9); CEQ 0 serves the CCQ.
    CeqId ..= 1023, "CEQ ";

    /// Physical function of the device, 0..=7 (control-path 0); also its HMC
    /// function id.
    PfId ..= 7, "PF ";

    /// Interrupt throttling timer of a vector, 0..=2 (control-path 2.5). "No
    /// timer" is a value of `ITR_INDX` fields, not an index.
    ItrIndex ..= 2, "ITR ";

    /// Virtual station interface by its hardware number, 0..=767 (control-path
    /// 2.2, VSIQF_PE_CTL1).
    VsiId ..= 767, "VSI ";

    /// Virtual function of the device, 0..=255 (registers.json, VPINT_ALLOC).
    VfId ..= 255, "VF ";

    /// LAN receive queue of the function, 0..=2047 (lan-path 2.1, 2.2).
    RxQueueId ..= 2047, "Rx queue ";

    /// LAN transmit queue of the function, 0..=16383 (lan-path 2.1, 2.2).
    TxQueueId ..= 16383, "Tx queue ";
}

/// Index of a register array without an index type of its own, 0..=`MAX`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct Index<const MAX: u16>(u16);

impl<const MAX: u16> Index<MAX> {
    /// `index`, or `None` above `MAX`.
    #[must_use]
    #[inline]
    pub const fn new(index: u16) -> Option<Self> {
        if index <= MAX {
            Some(Self(index))
        } else {
            None
        }
    }

    /// The index as a number.
    #[must_use]
    #[inline(always)]
    pub const fn get(self) -> u32 {
        self.0 as u32
    }
}

impl<const MAX: u16> sealed::Sealed for Index<MAX> {}

impl<const MAX: u16> RegIndex for Index<MAX> {
    const MAX: u32 = MAX as u32;

    #[inline]
    fn from_u32(index: u32) -> Option<Self> {
        u16::try_from(index).ok().and_then(Self::new)
    }

    #[inline(always)]
    fn get(self) -> u32 {
        u32::from(self.0)
    }
}

impl<const MAX: u16> fmt::Display for Index<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use std::format;

    #[test]
    fn an_offset_is_an_aligned_place_inside_bar0() {
        assert_eq!(RegOffset::try_new(0).map(RegOffset::get), Some(0));
        assert_eq!(
            RegOffset::try_new(BAR0_LEN - 4).map(RegOffset::get),
            Some(0x7F_FFFC)
        );
        assert_eq!(RegOffset::try_new(BAR0_LEN), None);
        assert_eq!(RegOffset::try_new(!3), None);
        for unaligned in [1, 2, 3, 0x50_0801] {
            assert_eq!(RegOffset::try_new(unaligned), None);
        }
        assert_eq!(
            format!("{} {:?}", RegOffset::new(0x800), RegOffset::new(0x800)),
            "0x000800 RegOffset(0x000800)"
        );
    }

    #[test]
    #[should_panic(expected = "multiple of 4")]
    fn an_unaligned_constant_is_refused() {
        let _ = RegOffset::new(0x50_0802);
    }

    #[test]
    #[should_panic(expected = "outside the mapped BAR0")]
    fn a_constant_past_the_end_is_refused() {
        let _ = RegOffset::new(BAR0_LEN);
    }

    fn holds_only_its_range<I: RegIndex>() {
        assert_eq!(I::from_u32(0).map(I::get), Some(0));
        assert_eq!(I::from_u32(I::MAX).map(I::get), Some(I::MAX));
        assert_eq!(I::from_u32(I::MAX + 1), None);
        // Not taken modulo 2^16.
        assert_eq!(I::from_u32(0x1_0000), None);
        assert_eq!(I::from_u32(u32::MAX), None);
    }

    #[test]
    fn indexes_hold_only_their_range() {
        holds_only_its_range::<Vector>();
        holds_only_its_range::<CeqId>();
        holds_only_its_range::<PfId>();
        holds_only_its_range::<ItrIndex>();
        holds_only_its_range::<VsiId>();
        holds_only_its_range::<VfId>();
        holds_only_its_range::<RxQueueId>();
        holds_only_its_range::<TxQueueId>();
        holds_only_its_range::<Index<5>>();
        assert_eq!(Index::<5>::new(6), None);
        assert_eq!(CeqId::new(1023).map(CeqId::get), Some(1023));
        assert_eq!(CeqId::new(1024), None);
        assert!(Vector::new(3) < Vector::new(4));
        assert_eq!(
            format!(
                "{} {}",
                Vector::new(7).unwrap(),
                Index::<5>::new(3).unwrap()
            ),
            "vector 7 3"
        );
    }

    #[test]
    fn a_reference_is_a_bus_too() {
        struct One(Cell<u32>);
        impl Bus for One {
            fn read32(&self, _: RegOffset) -> u32 {
                self.0.get()
            }
            fn write32(&self, off: RegOffset, value: u32) {
                self.0.set(off.get() + value);
            }
        }
        fn use_it(bus: impl Bus) -> u32 {
            bus.write32(RegOffset::new(0x100), 1);
            bus.read32(RegOffset::new(0x100))
        }
        let one = One(Cell::new(0));
        assert_eq!(use_it(&one), 0x101);
        let dynamic: &dyn Bus = &one;
        assert_eq!(use_it(dynamic), 0x101);
    }
}
