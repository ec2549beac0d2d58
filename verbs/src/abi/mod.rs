//! The structures of libibverbs' application interface, as `verbs.h` of rdma-core 44 defines them
//! on x86-64 (verbs-abi 2). Later versions grow only those whose size is passed beside them.

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

/// Asserts the size of a structure and the offsets of its fields.
#[macro_export]
macro_rules! layout {
    ($name:ident, $size:literal, $($field:ident @ $offset:literal),+ $(,)?) => {
        const _: () = {
            assert!(size_of::<$name>() == $size);
            $(assert!(core::mem::offset_of!($name, $field) == $offset);)+
        };
    };
}
pub use layout;
