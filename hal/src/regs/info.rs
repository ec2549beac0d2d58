//! Descriptions of registers as data: for tracers, device models and tests.

use core::fmt;

use tock_registers::RegisterLongName;
use tock_registers::fields::Field;

use crate::reg::{AccessKind, IndexInfo};

/// Where offsets are counted from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Space {
    /// BAR0 of the physical function: what [`Bus`](crate::bus::Bus) reaches.
    Bar0,
    /// The BAR that the MSI-X capability's table BIR names.
    MsixBar,
    /// BAR0 of a virtual function.
    VfBar0,
}

/// The reset that clears a register (control-path 0). That wider resets
/// clear it too is `[inf wider_resets]`. Values after power-up are not in the sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Reset {
    /// Power-on reset.
    Por,
    /// Embedded management processor reset.
    Empr,
    /// Core reset.
    Corer,
    /// Physical function reset.
    Pfr,
    /// Virtual function reset.
    Vfr,
    /// Function-level reset.
    Flr,
    /// PCI reset.
    Pcir,
    /// PCI Express fundamental reset.
    Perst,
    /// Not in the sources.
    Unknown,
}

impl Reset {
    /// The name the reference uses; empty when it gives none.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Por => "POR",
            Self::Empr => "EMPR",
            Self::Corer => "CORER",
            Self::Pfr => "PFR",
            Self::Vfr => "VFR",
            Self::Flr => "FLR",
            Self::Pcir => "PCIR",
            Self::Perst => "PERST",
            Self::Unknown => "",
        }
    }
}

/// A field of a register: bits `hi` to `lo`, inclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct FieldInfo {
    /// Name, as in the reference.
    pub name: &'static str,
    /// Highest bit.
    pub hi: u32,
    /// Lowest bit.
    pub lo: u32,
}

impl FieldInfo {
    /// Describes the field as the driver really uses it: by its mask and shift.
    pub(super) const fn of<R: RegisterLongName>(name: &'static str, field: Field<u32, R>) -> Self {
        let lo = field.shift as u32;
        let width = field.mask.trailing_ones();
        assert!(
            width > 0 && field.mask.leading_zeros() + width == u32::BITS,
            "a field is a run of bits"
        );
        Self {
            name,
            hi: lo + width - 1,
            lo,
        }
    }
}

/// The facts known about a register or register array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RegInfo {
    /// Name, as in the reference.
    pub name: &'static str,
    /// Where `offset` counts from.
    pub space: Space,
    /// Byte offset of the register, or of the element with all indexes 0.
    pub offset: u32,
    /// The dimensions of an array; empty for a single register.
    pub index: &'static [IndexInfo],
    /// The reset that clears it.
    pub reset: Reset,
    /// What the driver may do with it.
    pub access: AccessKind,
    /// Its fields.
    pub fields: &'static [FieldInfo],
    /// Section of the reference.
    pub source: &'static str,
}

impl RegInfo {
    /// The element of this register that lies `offset` bytes from the start of
    /// its space, if one does. A single register has one element, without
    /// indexes.
    #[must_use]
    pub fn element_at(&'static self, offset: u32) -> Option<Element> {
        let mut rest = offset.checked_sub(self.offset)?;
        let mut indexes = [0; 2];
        // Widest stride first, whatever the order of the indexes.
        for wide in [true, false] {
            for (place, dim) in indexes.iter_mut().zip(self.index) {
                let is_wide = self.index.iter().all(|other| other.stride <= dim.stride);
                if is_wide == wide {
                    let index = rest.checked_div(dim.stride)?.min(dim.max);
                    rest = rest.checked_sub(index.checked_mul(dim.stride)?)?;
                    *place = index;
                }
            }
        }
        (rest == 0).then_some(Element {
            register: self,
            indexes,
        })
    }
}

impl RegInfo {
    /// Whether a read changes nothing in the device, as far as the sources say.
    #[must_use]
    pub const fn is_read_pure(&self) -> bool {
        matches!(
            self.access,
            AccessKind::ReadOnly | AccessKind::ReadWrite | AccessKind::Trigger
        )
    }

    /// All elements, the last index fastest; a single register is one element.
    pub fn elements(&'static self) -> impl Iterator<Item = Element> {
        let most = |dimension: usize| self.index.get(dimension).map_or(0, |index| index.max);
        let (first, second) = (most(0), most(1));
        (0..=first).flat_map(move |first| {
            (0..=second).map(move |second| Element {
                register: self,
                indexes: [first, second],
            })
        })
    }
}

/// One element of a register array, or a single register. Displays as
/// `GLINT_ITR(0, 5)`, `GLINT_DYN_CTL(5)`, `PFPE_CQPDB`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Element {
    /// The register.
    pub register: &'static RegInfo,
    /// Its indexes; those that the register does not have are 0.
    pub indexes: [u32; 2],
}

impl Element {
    /// Byte offset from the start of the register's space.
    #[must_use]
    pub fn offset(&self) -> u32 {
        let strides = self.register.index.iter().zip(self.indexes);
        strides.fold(self.register.offset, |offset, (dimension, index)| {
            offset.wrapping_add(dimension.stride.wrapping_mul(index))
        })
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = self.indexes;
        let name = self.register.name;
        match self.register.index.len() {
            0 => f.write_str(name),
            1 => write!(f, "{name}({first})"),
            _ => write!(f, "{name}({first}, {second})"),
        }
    }
}
