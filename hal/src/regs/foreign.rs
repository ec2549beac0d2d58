//! Registers that are not in BAR0 of the physical function.
//!
//! They have a place and fields, but [`Bus`](crate::bus::Bus) does not reach them, so they have
//! no access methods: the owner of the other BAR uses the offset.
//!
//! ```
//! use e810_hal::bus::Vector;
//! use e810_hal::regs::{MSIX_TVCTRL1, PFPE_CQPTAIL, VFPE_CQPTAIL1};
//!
//! // Vector control of table entry 2, from the start of the MSI-X BAR.
//! assert_eq!(MSIX_TVCTRL1.offset(Vector::new(2).unwrap()), 0x2c);
//! assert_eq!(VFPE_CQPTAIL1.offset(), 0xa000);
//! ```
//!
//! ```compile_fail,E0599
//! # use e810_hal::bus::{Bus, Vector};
//! # use e810_hal::regs::MSIX_TVCTRL1;
//! fn f(bus: &impl Bus, v: Vector) {
//!     MSIX_TVCTRL1.at(v).set(bus, 1);
//! }
//! ```

use core::marker::PhantomData;

use tock_registers::RegisterLongName;

use crate::bus::RegIndex;
use crate::reg::IndexInfo;

/// The BAR that the MSI-X capability's table BIR names: BAR3 on this card, as
/// drivers elsewhere name it; read it from the capability (control-path 1.2).
#[derive(Clone, Copy, Debug)]
pub enum MsixBar {}

/// BAR0 of a virtual function.
#[derive(Clone, Copy, Debug)]
pub enum VfBar0 {}

/// A register of the BAR `S` with the fields `R`.
#[derive(Clone, Copy, Debug)]
pub struct ForeignReg<S, R: RegisterLongName> {
    offset: u32,
    kind: PhantomData<fn() -> (S, R)>,
}

impl<S, R: RegisterLongName> ForeignReg<S, R> {
    pub(super) const fn new(offset: u32) -> Self {
        assert!(
            offset.is_multiple_of(4),
            "a register offset is a multiple of 4"
        );
        Self {
            offset,
            kind: PhantomData,
        }
    }

    /// Bytes from the start of its BAR.
    #[must_use]
    #[inline(always)]
    pub const fn offset(self) -> u32 {
        self.offset
    }

    pub(super) const fn start(self) -> u32 {
        self.offset
    }

    pub(super) const fn dims(self) -> [IndexInfo; 0] {
        []
    }
}

/// Registers of the BAR `S` in equal steps.
#[derive(Clone, Copy, Debug)]
pub struct ForeignArray<S, R: RegisterLongName, I: RegIndex> {
    offset: u32,
    index: IndexInfo,
    kind: PhantomData<fn(I) -> (S, R)>,
}

impl<S, R: RegisterLongName, I: RegIndex> ForeignArray<S, R, I> {
    pub(super) const fn new(offset: u32, stride: u32, max: u32) -> Self {
        assert!(
            offset.is_multiple_of(4) && stride.is_multiple_of(4) && stride > 0,
            "elements are whole registers"
        );
        assert!(
            I::MAX <= max,
            "the index type goes past the end of the array"
        );
        Self {
            offset,
            index: IndexInfo { stride, max },
            kind: PhantomData,
        }
    }

    /// Bytes from the start of its BAR to element `i`.
    #[must_use]
    #[inline(always)]
    pub fn offset(self, i: I) -> u32 {
        self.offset
            .wrapping_add(self.index.stride.wrapping_mul(i.get()))
    }

    pub(super) const fn start(self) -> u32 {
        self.offset
    }

    pub(super) const fn dims(self) -> [IndexInfo; 1] {
        [self.index]
    }
}
