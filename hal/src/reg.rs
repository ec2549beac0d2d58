//! Typed registers: an offset, a set of fields, and the allowed accesses.
//!
//! A register is a constant of [`Reg`], [`RegArray`] or [`RegArray2`]; its fields are a
//! `tock-registers` module of the same name. The access class `A` decides which methods exist. So
//! a read of a write-only register does not compile, nor does a read that clears the register
//! behind an innocent name.
//!
//! ```
//! use core::cell::Cell;
//! use e810_hal::bus::{Bus, RegOffset, Vector};
//! use e810_hal::regs::{GLINT_DYN_CTL, PFINT_OICR};
//!
//! # struct Pretend(Cell<u32>);
//! # impl Bus for Pretend {
//! #     fn read32(&self, _: RegOffset) -> u32 { self.0.replace(0) }
//! #     fn write32(&self, _: RegOffset, value: u32) { self.0.set(value) }
//! # }
//! # let bus = Pretend(Cell::new(0));
//! let v = Vector::new(5).unwrap();
//! GLINT_DYN_CTL.at(v).write(&bus, GLINT_DYN_CTL::INTENA::SET + GLINT_DYN_CTL::CLEARPBA::SET);
//! assert_eq!(GLINT_DYN_CTL.at(v).off(), RegOffset::new(0x16_0014));
//!
//! // Reading the cause register clears it, and the method says so.
//! # bus.0.set(1 << 26);
//! let cause = PFINT_OICR.read_clear(&bus);
//! assert!(cause.is_set(PFINT_OICR::HMC_ERR));
//! ```
//!
//! Writing a register that the driver only reads does not compile:
//!
//! ```compile_fail,E0277
//! # use e810_hal::bus::Bus;
//! # use e810_hal::regs::GLPE_CPUSTATUS0;
//! fn f(bus: &impl Bus) {
//!     GLPE_CPUSTATUS0.set(bus, 0);
//! }
//! ```
//!
//! nor does reading a doorbell:
//!
//! ```compile_fail,E0277
//! # use e810_hal::bus::Bus;
//! # use e810_hal::regs::PFPE_CQPDB;
//! fn f(bus: &impl Bus) -> u32 {
//!     PFPE_CQPDB.get(bus)
//! }
//! ```
//!
//! nor reading, as if nothing happened, a register that a read clears:
//!
//! ```compile_fail,E0277
//! # use e810_hal::bus::Bus;
//! # use e810_hal::regs::PFINT_OICR;
//! fn f(bus: &impl Bus) -> u32 {
//!     PFINT_OICR.get(bus)
//! }
//! ```
//!
//! nor writing back what was read from a register whose bits act when written:
//!
//! ```compile_fail,E0277
//! # use e810_hal::bus::{Bus, Vector};
//! # use e810_hal::regs::GLINT_DYN_CTL;
//! fn f(bus: &impl Bus, v: Vector) {
//!     GLINT_DYN_CTL.at(v).modify(bus, GLINT_DYN_CTL::INTENA::SET);
//! }
//! ```
//!
//! nor mixing up the fields of two registers:
//!
//! ```compile_fail,E0308
//! # use e810_hal::bus::Bus;
//! # use e810_hal::regs::{PFPE_CQARM, PFPE_CQPDB};
//! fn f(bus: &impl Bus) {
//!     PFPE_CQPDB.write(bus, PFPE_CQARM::PECQID.val(1));
//! }
//! ```
//!
//! nor an array that does not end inside BAR0:
//!
//! ```compile_fail,E0080
//! use e810_hal::bus::Vector;
//! use e810_hal::reg::{ReadOnly, RegArray};
//!
//! const TOO_FAR: RegArray<(), ReadOnly, Vector> = RegArray::new(0x7F_F000, 4, 2047);
//! ```

// Derived impls would ask the markers for the same traits.
macro_rules! copy_whatever_the_markers {
    ($($name:ident<$($param:ident: $bound:ident),+>;)+) => { $(
        impl<$($param: $bound),+> Clone for $name<$($param),+> {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<$($param: $bound),+> Copy for $name<$($param),+> {}
    )+ };
}

mod access;
mod array;

use core::marker::PhantomData;

use tock_registers::LocalRegisterCopy;
use tock_registers::RegisterLongName;
use tock_registers::fields::FieldValue;

use crate::bus::{Bus, RegOffset};

pub use access::{
    Access, AccessKind, Modifiable, PureRead, ReadClears, ReadEffect, ReadOnly, ReadWrite, Trigger,
    Writable, WriteOnly,
};
pub use array::{IndexInfo, RegArray, RegArray2};

/// A register of BAR0 with the fields `R` and the access class `A`.
pub struct Reg<R: RegisterLongName, A: Access> {
    off: RegOffset,
    kind: PhantomData<fn() -> (R, A)>,
}

impl<R: RegisterLongName, A: Access> Reg<R, A> {
    /// The register `offset` bytes from the start of BAR0.
    ///
    /// # Panics
    /// As [`RegOffset::new`]: in a constant, a compile error.
    #[must_use]
    #[inline]
    pub const fn new(offset: u32) -> Self {
        Self::placed(RegOffset::new(offset))
    }

    #[inline(always)]
    const fn placed(off: RegOffset) -> Self {
        Self {
            off,
            kind: PhantomData,
        }
    }

    /// Where the register is.
    #[must_use]
    #[inline(always)]
    pub const fn off(self) -> RegOffset {
        self.off
    }

    /// Offset in bytes, named alike on registers and arrays for the table.
    pub(crate) const fn start(self) -> u32 {
        self.off.get()
    }

    pub(crate) const fn dims(self) -> [IndexInfo; 0] {
        []
    }

    /// Reads the register; its fields are read from the copy.
    #[inline(always)]
    pub fn read(self, bus: &(impl Bus + ?Sized)) -> LocalRegisterCopy<u32, R>
    where
        A: PureRead,
    {
        LocalRegisterCopy::new(bus.read32(self.off))
    }

    /// Reads the register as a number.
    #[inline(always)]
    pub fn get(self, bus: &(impl Bus + ?Sized)) -> u32
    where
        A: PureRead,
    {
        bus.read32(self.off)
    }

    /// Reads the register, which clears it in the device: bits that the caller does not keep are
    /// lost.
    #[must_use = "the device has forgotten what this returns"]
    #[inline(always)]
    pub fn read_clear(self, bus: &(impl Bus + ?Sized)) -> LocalRegisterCopy<u32, R>
    where
        A: ReadEffect,
    {
        LocalRegisterCopy::new(bus.read32(self.off))
    }

    /// Writes the register: the fields given, zero elsewhere.
    #[inline(always)]
    pub fn write(self, bus: &(impl Bus + ?Sized), fields: FieldValue<u32, R>)
    where
        A: Writable,
    {
        bus.write32(self.off, fields.value);
    }

    /// Writes the register as a number.
    #[inline(always)]
    pub fn set(self, bus: &(impl Bus + ?Sized), value: u32)
    where
        A: Writable,
    {
        bus.write32(self.off, value);
    }

    /// Reads the register and writes it back with the fields given changed.
    /// Two accesses: not atomic against the device or another thread.
    #[inline(always)]
    pub fn modify(self, bus: &(impl Bus + ?Sized), fields: FieldValue<u32, R>)
    where
        A: Modifiable,
    {
        bus.write32(self.off, fields.modify(bus.read32(self.off)));
    }
}

copy_whatever_the_markers! {
    Reg<R: RegisterLongName, A: Access>;
}
