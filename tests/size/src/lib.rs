//! The calls of `tests/examples/core_probe.rs` on a bare platform; with the feature `connections` those
//! of `cm_probe.rs` and `connect_probe` too.

#![no_std]

#[path = "../../examples/core_probe.rs"]
#[expect(dead_code, reason = "as a program of the tests it has a main")]
mod core_probe;

#[cfg(feature = "connections")]
#[path = "../../examples/cm_probe.rs"]
#[expect(dead_code, reason = "as a program of the tests it has a main")]
mod cm_probe;

#[cfg(feature = "connections")]
#[path = "../../examples/connect_probe/calls.rs"]
mod connect_probe;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
