//! The structures of libibverbs' application interface, as `verbs.h` of rdma-core 44 has them on
//! x86-64 (verbs-abi 2). Later versions grow them only where the size is told beside them.

#![expect(
    missing_docs,
    reason = "the fields are libibverbs' own, under its names; its manual pages say what they are"
)]

pub mod constants;
pub mod device;
pub mod extended;
pub mod make;
pub mod objects;
pub mod query;
pub mod state;
pub mod work;

/// Holds a structure to its size and its fields to their offsets.
macro_rules! layout {
    ($name:ident, $size:literal, $($field:ident @ $offset:literal),+ $(,)?) => {
        const _: () = {
            assert!(size_of::<$name>() == $size);
            $(assert!(core::mem::offset_of!($name, $field) == $offset);)+
        };
    };
}
use layout;
