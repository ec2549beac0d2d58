//! The calls of `tests/examples/core_probe.rs` on a bare platform.

#![no_std]

#[path = "../../examples/core_probe.rs"]
#[expect(dead_code, reason = "as a program of the tests it has a main")]
mod core_probe;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
