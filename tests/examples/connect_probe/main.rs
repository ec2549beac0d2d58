//! Every call of `e810-connect`, beside those of the core, for a platform that the compiler cannot see
//! through; `tests/rules/asm.rs` looks for panic paths in the object.
//!
//! Not an example of use, and never run. Generic code exists in machine code only where it is used:
//! what is not called from here is not checked.

#[expect(
    unreachable_pub,
    reason = "functions with names in the object are exported"
)]
mod calls;
#[path = "../core_probe.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "it is a program of the tests itself, with a main"
)]
mod core_probe;

fn main() {}
