//! The C structures that pass between a verbs program, the provider library and
//! the kernel, as far as this room needs them.
//!
//! Layouts of libibverbs' public header (64-bit, little-endian), of its private
//! interface 34 and of the kernel's `irdma-abi.h`; sizes and offsets are
//! asserted beside each.

mod commands;
mod objects;
mod ops;
mod requests;

pub(crate) use commands::*;
pub use objects::{Ah, AhAttr, Cq, Mr, Pd, Qp, QpCap};
pub(crate) use objects::{Context, CqInitAttrEx, QpInitAttr, VERBS_DEVICE_BYTES, VerbsContext};
pub(crate) use ops::{ContextOps, DeviceOps};
pub use ops::{PollCq, PostRecv, PostSend};
pub use requests::*;

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
