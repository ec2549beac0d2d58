//! Typed registers: an offset, a field set and what may be done with it.
//!
//! A register is a constant of [`Reg`], [`RegArray`] or [`RegArray2`]; its
//! fields are a `tock-registers` module of the same name. The access class `A`
//! decides which methods exist, so that a read of a write-only register, or a
//! read that clears what it reads behind an innocent name, does not compile.
//!
//! ```
//! use core::cell::Cell;
//! use e810_hal::bus::{Bus, Off, Vector};
//! use e810_hal::regs::{GLINT_DYN_CTL, PFINT_OICR};
//!
//! # struct Pretend(Cell<u32>);
//! # impl Bus for Pretend {
//! #     fn read32(&self, _: Off) -> u32 { self.0.replace(0) }
//! #     fn write32(&self, _: Off, value: u32) { self.0.set(value) }
//! # }
//! # let bus = Pretend(Cell::new(0));
//! let v = Vector::new(5).unwrap();
//! GLINT_DYN_CTL.at(v).write(&bus, GLINT_DYN_CTL::INTENA::SET + GLINT_DYN_CTL::CLEARPBA::SET);
//! assert_eq!(GLINT_DYN_CTL.at(v).off(), Off::new(0x16_0014));
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

mod access;

use core::marker::PhantomData;

use tock_registers::LocalRegisterCopy;
use tock_registers::RegisterLongName;
use tock_registers::fields::FieldValue;

use crate::bus::{BAR0_LEN, Bus, Off, RegIndex};

pub use access::{
    Access, AccessKind, Modifiable, PureRead, ReadClears, ReadEffect, ReadOnly, ReadWrite, Trigger,
    Writable, WriteOnly,
};

/// A register of BAR0 with the fields `R` and the access class `A`.
pub struct Reg<R: RegisterLongName, A: Access> {
    off: Off,
    kind: PhantomData<fn() -> (R, A)>,
}

impl<R: RegisterLongName, A: Access> Reg<R, A> {
    /// The register `offset` bytes from the start of BAR0.
    ///
    /// # Panics
    /// As [`Off::new`]: in a constant, a compile error.
    #[must_use]
    #[inline]
    pub const fn new(offset: u32) -> Self {
        Self::placed(Off::new(offset))
    }

    #[inline(always)]
    const fn placed(off: Off) -> Self {
        Self {
            off,
            kind: PhantomData,
        }
    }

    /// Where the register is.
    #[must_use]
    #[inline(always)]
    pub const fn off(self) -> Off {
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

    /// Reads the register, which clears it in the device: what is not kept
    /// is lost.
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

/// One dimension of a register array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct IndexInfo {
    /// Bytes from one element to the next.
    pub stride: u32,
    /// The greatest index the device has. The index type may stop earlier
    /// (a CEQ id has ten bits, GLINT_CEQCTL 2048 elements).
    pub max: u32,
}

impl IndexInfo {
    /// Bytes from the first element to the last; refuses strides that are not
    /// whole registers, arrays longer than BAR0 and index types that go past
    /// the end.
    const fn span<I: RegIndex>(self) -> u32 {
        assert!(
            self.stride > 0 && self.stride.is_multiple_of(4),
            "elements are whole registers"
        );
        assert!(
            I::MAX <= self.max,
            "the index type goes past the end of the array"
        );
        let span = self.stride as u64 * self.max as u64;
        assert!(span < BAR0_LEN as u64, "the array is longer than BAR0");
        span as u32
    }

    /// Index of the element that begins `distance` bytes after the first one.
    const fn locate(self, distance: u32) -> Option<u32> {
        match (
            distance.checked_rem(self.stride),
            distance.checked_div(self.stride),
        ) {
            (Some(0), Some(index)) if index <= self.max => Some(index),
            _ => None,
        }
    }
}

/// Registers of BAR0 in equal steps, chosen by an index `I` that is valid by
/// its type.
pub struct RegArray<R: RegisterLongName, A: Access, I: RegIndex> {
    base: Off,
    index: IndexInfo,
    kind: PhantomData<fn(I) -> (R, A)>,
}

impl<R: RegisterLongName, A: Access, I: RegIndex> RegArray<R, A, I> {
    /// The registers at `offset`, `offset + stride`, ..., `offset + max * stride`.
    ///
    /// # Panics
    /// When an element is not a register of BAR0, or `I` has values above
    /// `max`: in a constant, a compile error.
    #[must_use]
    #[inline]
    pub const fn new(offset: u32, stride: u32, max: u32) -> Self {
        let index = IndexInfo { stride, max };
        let span = index.span::<I>();
        // The first and the last element; the ones between follow.
        let base = Off::new(offset);
        let _last = Off::new(offset + span);
        Self {
            base,
            index,
            kind: PhantomData,
        }
    }

    /// Element `i`.
    #[must_use]
    #[inline(always)]
    pub fn at(self, i: I) -> Reg<R, A> {
        Reg::placed(self.base.plus(self.index.stride.wrapping_mul(i.get())))
    }

    /// Where element 0 is.
    #[must_use]
    #[inline(always)]
    pub const fn base(self) -> Off {
        self.base
    }

    /// As [`Reg::start`].
    pub(crate) const fn start(self) -> u32 {
        self.base.get()
    }

    pub(crate) const fn dims(self) -> [IndexInfo; 1] {
        [self.index]
    }

    /// The element that lies at `off`, as a device or a tracer needs it; `None`
    /// for any other register and for elements past the last `I`.
    #[must_use]
    pub fn locate(self, off: Off) -> Option<I> {
        let distance = off.get().checked_sub(self.base.get())?;
        self.index.locate(distance).and_then(I::from_u32)
    }
}

/// Registers of BAR0 in two dimensions.
pub struct RegArray2<R: RegisterLongName, A: Access, I: RegIndex, J: RegIndex> {
    base: Off,
    outer: IndexInfo,
    inner: IndexInfo,
    kind: PhantomData<fn() -> (R, A)>,
    indexes: PhantomData<fn(I, J)>,
}

impl<R: RegisterLongName, A: Access, I: RegIndex, J: RegIndex> RegArray2<R, A, I, J> {
    /// The registers at `offset + i * stride_i + j * stride_j`.
    ///
    /// # Panics
    /// As [`RegArray::new`].
    #[must_use]
    #[inline]
    pub const fn new(offset: u32, stride_i: u32, max_i: u32, stride_j: u32, max_j: u32) -> Self {
        let outer = IndexInfo {
            stride: stride_i,
            max: max_i,
        };
        let inner = IndexInfo {
            stride: stride_j,
            max: max_j,
        };
        let (span_i, span_j) = (outer.span::<I>(), inner.span::<J>());
        let base = Off::new(offset);
        let _last = Off::new(offset + span_i + span_j);
        Self {
            base,
            outer,
            inner,
            kind: PhantomData,
            indexes: PhantomData,
        }
    }

    /// Element (`i`, `j`).
    #[must_use]
    #[inline(always)]
    pub fn at(self, i: I, j: J) -> Reg<R, A> {
        let distance = self
            .outer
            .stride
            .wrapping_mul(i.get())
            .wrapping_add(self.inner.stride.wrapping_mul(j.get()));
        Reg::placed(self.base.plus(distance))
    }

    /// Where element (0, 0) is.
    #[must_use]
    #[inline(always)]
    pub const fn base(self) -> Off {
        self.base
    }

    /// As [`Reg::start`].
    pub(crate) const fn start(self) -> u32 {
        self.base.get()
    }

    pub(crate) const fn dims(self) -> [IndexInfo; 2] {
        [self.outer, self.inner]
    }

    /// The element that lies at `off`; `None` for any other register.
    #[must_use]
    pub fn locate(self, off: Off) -> Option<(I, J)> {
        let distance = off.get().checked_sub(self.base.get())?;
        let (wide, narrow) = if self.outer.stride >= self.inner.stride {
            (self.outer.stride, self.inner.stride)
        } else {
            (self.inner.stride, self.outer.stride)
        };
        let (major, rest) = (distance.checked_div(wide)?, distance.checked_rem(wide)?);
        if rest.checked_rem(narrow)? != 0 {
            return None;
        }
        let minor = rest.checked_div(narrow)?;
        let (i, j) = if wide == self.outer.stride {
            (major, minor)
        } else {
            (minor, major)
        };
        Some((I::from_u32(i)?, J::from_u32(j)?))
    }
}

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

copy_whatever_the_markers! {
    Reg<R: RegisterLongName, A: Access>;
    RegArray<R: RegisterLongName, A: Access, I: RegIndex>;
    RegArray2<R: RegisterLongName, A: Access, I: RegIndex, J: RegIndex>;
}
