//! The C structures that pass between the provider library, libibverbs and the
//! kernel; what a program sees, [`e810_verbs::abi`] has.
//!
//! Layouts of libibverbs' private interface 34 (64-bit, little-endian) and of
//! the kernel's `irdma-abi.h`; sizes and offsets are asserted beside each.

mod commands;
mod ops;

pub(crate) use commands::*;
pub(crate) use ops::{ContextOps, DeviceOps, PollCq, PostRecv, PostSend, VERBS_DEVICE_BYTES};

/// Asserts the size of a structure and where its fields lie.
macro_rules! layout {
    ($type:ty, $size:literal $(, $field:ident @ $offset:literal)*) => {
        const _: () = {
            assert!(size_of::<$type>() == $size);
            $(assert!(core::mem::offset_of!($type, $field) == $offset);)*
        };
    };
}
pub(crate) use layout;
