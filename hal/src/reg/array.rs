//! Registers at equal distances, in one dimension or two.

use core::marker::PhantomData;

use tock_registers::RegisterLongName;

use super::{Access, Reg};
use crate::bus::{BAR0_LEN, RegIndex, RegOffset};

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
    /// Bytes from the first element to the last. Refuses strides that are not whole registers,
    /// arrays longer than BAR0, and index types that go past the end.
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

/// Registers of BAR0 at equal distances, selected by an index `I` that is valid by its type.
pub struct RegArray<R: RegisterLongName, A: Access, I: RegIndex> {
    base: RegOffset,
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
        let base = RegOffset::new(offset);
        let _last = RegOffset::new(offset + span);
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
    pub const fn base(self) -> RegOffset {
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
    pub fn locate(self, off: RegOffset) -> Option<I> {
        let distance = off.get().checked_sub(self.base.get())?;
        self.index.locate(distance).and_then(I::from_u32)
    }
}

/// Registers of BAR0 in two dimensions.
pub struct RegArray2<R: RegisterLongName, A: Access, I: RegIndex, J: RegIndex> {
    base: RegOffset,
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
        let base = RegOffset::new(offset);
        let _last = RegOffset::new(offset + span_i + span_j);
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
    pub const fn base(self) -> RegOffset {
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
    pub fn locate(self, off: RegOffset) -> Option<(I, J)> {
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

copy_whatever_the_markers! {
    RegArray<R: RegisterLongName, A: Access, I: RegIndex>;
    RegArray2<R: RegisterLongName, A: Access, I: RegIndex, J: RegIndex>;
}
