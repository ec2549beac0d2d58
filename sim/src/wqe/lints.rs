//! Lints for bits that software set although they are ignored: reported, never refused.

use core::fmt;
use core::ops::BitOr;

/// A set of lints found in one entry.
#[derive(Copy, Clone, Default, PartialEq, Eq)]
pub struct Lints(u16);

impl Lints {
    /// Header bits that the operation does not define.
    pub const HEADER: Self = Self(1 << 0);
    /// PUSHWQE without a push page: push is dormant (data-path 3.2).
    pub const PUSH: Self = Self(1 << 1);
    /// Word 2 is not zero where the layout requires 0.
    pub const WORD2: Self = Self(1 << 2);
    /// Word 0 or 1 is not zero where the layout requires 0.
    pub const BODY: Self = Self(1 << 3);
    /// Upper half of the immediate's word is not zero (data-path 1.6).
    pub const IMMEDIATE: Self = Self(1 << 4);
    /// Odd ADDFRAGCNT: valid bits do not cover the last quantum (data-path 1.6).
    pub const ODD_FRAGMENTS: Self = Self(1 << 5);
    /// Bits other than the valid bit in the trailer of an inline quantum (data-path 1.8).
    pub const INLINE_TRAILER: Self = Self(1 << 6);
    /// Stream mode or wait-for-PDU, which belong to iWARP connection set-up.
    pub const IWARP: Self = Self(1 << 7);
    /// A reserved bit in a field of a bind or fast-register entry.
    pub const RESERVED_FIELD: Self = Self(1 << 8);
    /// A fast registration without LOCALFENCE, which kernel drivers always set (data-path 1.7): the
    /// card then occasionally reports FASTREG_VALID_STAG under load.
    pub const UNFENCED: Self = Self(1 << 9);

    /// More than 13 fragments with data, the maximum that drivers use (data-path 5).
    pub const FRAGMENTS: Self = Self(1 << 10);

    const NAMES: [(Self, &'static str); 11] = [
        (Self::HEADER, "undefined header bits"),
        (Self::PUSH, "push bit without a push page"),
        (Self::WORD2, "word 2 not zero"),
        (Self::BODY, "words 0 and 1 not zero"),
        (
            Self::IMMEDIATE,
            "upper half of the immediate's word not zero",
        ),
        (Self::ODD_FRAGMENTS, "odd ADDFRAGCNT"),
        (Self::INLINE_TRAILER, "undefined bits in an inline trailer"),
        (Self::IWARP, "iWARP header bits"),
        (Self::RESERVED_FIELD, "reserved field bits"),
        (Self::UNFENCED, "fast registration without LOCALFENCE"),
        (Self::FRAGMENTS, "more than 13 fragments with data"),
    ];

    #[must_use]
    pub const fn empty() -> Self {
        Self(0)
    }

    /// True if the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if the set contains all of `other`.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Adds `lints` if `condition` holds.
    pub(super) fn add_if(&mut self, condition: bool, lints: Self) {
        if condition {
            self.0 |= lints.0;
        }
    }

    /// Description of each lint in the set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .into_iter()
            .filter(move |(lint, _)| self.contains(*lint))
            .map(|(_, name)| name)
    }
}

impl BitOr for Lints {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Lints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
