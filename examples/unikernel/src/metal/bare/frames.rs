//! Log frames of the driver on the second serial port (feature `defmt`).
//!
//! What is sent is not text: the text stays in the program file, and
//! `defmt-print` puts the two together on the host. A level is chosen when the
//! program is built (`DEFMT_LOG`).

use core::arch::asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use defmt::Encoder;

use super::clock::Uptime;
use super::serial::{COM2, Serial};

/// The one encoder, and what is needed to put it back.
struct Shared(UnsafeCell<State>);

struct State {
    encoder: Encoder,
    port: Option<Serial>,
    /// Interrupts were on when the encoder was taken.
    interrupts: bool,
}

// SAFETY: reached between `acquire` and `release` only, with interrupts off on
// the one processor there is.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared(UnsafeCell::new(State {
    encoder: Encoder::new(),
    port: None,
    interrupts: false,
}));
static TAKEN: AtomicBool = AtomicBool::new(false);

/// What `Uptime` is made of, for the time in each frame.
static CLOCK: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

defmt::timestamp!("{=u64:us}", microseconds());

/// Gives frames the time of `clock`; before, they say 0.
pub(crate) fn tell_time(clock: &Uptime) {
    for (word, value) in CLOCK.iter().zip(clock.parts()) {
        word.store(value, Ordering::Relaxed);
    }
}

fn microseconds() -> u64 {
    let [start, scale] = [0, 1].map(|n| CLOCK.get(n).map_or(0, |w| w.load(Ordering::Relaxed)));
    Uptime::from_parts([start, scale]).now().0 / 1_000
}

#[defmt::global_logger]
struct Frames;

// SAFETY: `acquire` refuses to be entered twice, and nothing comes between it
// and `release`, which is when the encoder is reached.
unsafe impl defmt::Logger for Frames {
    fn acquire() {
        let flags: u64;
        // SAFETY: reads the flags and lets no interrupt in from here on.
        unsafe { asm!("pushfq", "pop {}", "cli", out(reg) flags) };
        assert!(
            !TAKEN.swap(true, Ordering::Acquire),
            "a log line inside of a log line"
        );
        // SAFETY: taken just now.
        let state = unsafe { &mut *SHARED.0.get() };
        state.interrupts = flags & 1 << 9 != 0;
        let port = state.port.get_or_insert_with(|| Serial::open(COM2));
        state.encoder.start_frame(|bytes| port.send(bytes));
    }

    unsafe fn flush() {
        // Bytes are in the port when `write` returns.
    }

    unsafe fn release() {
        // SAFETY: taken by `acquire` (the caller's promise).
        let state = unsafe { &mut *SHARED.0.get() };
        if let Some(port) = &mut state.port {
            state.encoder.end_frame(|bytes| port.send(bytes));
        }
        let interrupts = state.interrupts;
        TAKEN.store(false, Ordering::Release);
        if interrupts {
            // SAFETY: they were on before `acquire`.
            unsafe { asm!("sti", options(nostack)) };
        }
    }

    unsafe fn write(bytes: &[u8]) {
        // SAFETY: taken by `acquire` (the caller's promise).
        let state = unsafe { &mut *SHARED.0.get() };
        if let Some(port) = &mut state.port {
            state.encoder.write(bytes, |bytes| port.send(bytes));
        }
    }
}
