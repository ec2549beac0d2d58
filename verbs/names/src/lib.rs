//! Names that a C library exports, each a jump to a Rust function.
//!
//! What `#[no_mangle]` exports, rustc lists in a version script of its own, and two such scripts do
//! not go together: rust-lld makes names without versions of it, and GNU ld refuses. Names that are
//! made in assembly rustc does not list, so that the library's own script alone says which version
//! each has. They have to stand in the library's crate: nobody would pull them out of another.

// UNSAFETY: sets `errno`.

#![no_std]

pub mod refusals;

/// The machine's jump.
#[doc(hidden)]
#[cfg(not(target_arch = "aarch64"))]
#[macro_export]
macro_rules! jump {
    () => {
        "jmp"
    };
}

/// The machine's jump.
#[doc(hidden)]
#[cfg(target_arch = "aarch64")]
#[macro_export]
macro_rules! jump {
    () => {
        "b"
    };
}

/// Exports names: `exports! { "ibv_open_device" => path::to::open_device, … }`, each a function
/// with C's calling convention.
#[macro_export]
macro_rules! exports {
    ($($name:literal => $function:path),+ $(,)?) => {
        $(core::arch::global_asm!(
            concat!(".globl ", $name),
            concat!(".type ", $name, ",@function"),
            concat!($name, ":"),
            concat!($crate::jump!(), " {function}"),
            concat!(".size ", $name, ", . - ", $name),
            function = sym $function,
        );)+
    };
}
