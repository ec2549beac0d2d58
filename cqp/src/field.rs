//! Arguments that must fit their field: checked, never truncated.
//!
//! `tock-registers` masks the values it is given. A command must refuse them instead, or a wrong
//! id would silently name another object.

use e810_hal::Iova;
use tock_registers::RegisterLongName;
use tock_registers::fields::{Field, FieldValue};

use crate::Error;

/// `value` in `field`, or an error that names it `name`.
pub(crate) fn fit<R: RegisterLongName>(
    name: &'static str,
    field: Field<u64, R>,
    value: impl Into<u64>,
) -> Result<FieldValue<u64, R>, Error> {
    let value = at_most(name, value.into(), field.mask)?;
    Ok(field.val(value))
}

/// `flag` in the one-bit `field`.
pub(crate) fn bit<R: RegisterLongName>(field: Field<u64, R>, flag: bool) -> FieldValue<u64, R> {
    field.val(u64::from(flag))
}

/// `value`, unless it is above `limit`.
pub(crate) const fn at_most(name: &'static str, value: u64, limit: u64) -> Result<u64, Error> {
    if value > limit {
        return Err(Error::OutOfRange {
            field: name,
            value,
            limit,
        });
    }
    Ok(value)
}

/// `address` as a number, unless it is not a multiple of `align`.
pub(crate) const fn aligned(name: &'static str, address: Iova, align: u64) -> Result<u64, Error> {
    // Every alignment in the formats is a power of two, so the mask is exact.
    if address.0 & align.wrapping_sub(1) != 0 {
        return Err(Error::Misaligned {
            what: name,
            address: address.0,
            align,
        });
    }
    Ok(address.0)
}
