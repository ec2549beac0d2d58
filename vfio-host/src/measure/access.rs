//! Measures how fast a backend is without the engine: registers and interrupts.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e810_backends::interrupts::HostPlatform;
use e810_hal::Ns;
use e810_hal::regs::{DYN_CTL_DISABLE, DYN_CTL_ENABLE, GLINT_DYN_CTL, GLPE_CPUSTATUS0};

use crate::measure::latency::{Latencies, Summary};

/// Samples of each kind.
const SAMPLES: u32 = 200;
/// How long an interrupt may take.
const LIMIT: Ns = Ns::from_ms(2_000);

/// Times of a backend, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// A register read, there and back.
    pub register_read: Summary,
    /// From the register write that makes a vector fire to the thread that waits for it.
    pub interrupt: Summary,
}

/// Measures a function that is not in use.
///
/// # Errors
/// No vector, or no interrupt.
pub fn times<P: HostPlatform>(platform: &P) -> Result<Times> {
    let mut reads = Latencies::default();
    for _ in 0..SAMPLES {
        let start = Instant::now();
        let _ = GLPE_CPUSTATUS0.get(platform);
        reads.add(nanos(start.elapsed()));
    }
    let vector = platform.vector_alloc().context("no vector to measure")?;
    let interrupts = interrupts(platform, vector);
    GLINT_DYN_CTL.at(vector).set(platform, DYN_CTL_DISABLE);
    platform.vector_free(vector);
    Ok(Times {
        register_read: reads.summary().context("no samples")?,
        interrupt: interrupts?.summary().context("no samples")?,
    })
}

fn interrupts<P: HostPlatform>(platform: &P, vector: e810_hal::Vector) -> Result<Latencies> {
    /// SWINT_TRIG: the vector fires without a cause.
    const TRIGGER: u32 = GLINT_DYN_CTL::SWINT_TRIG::SET.value;
    let mut latencies = Latencies::default();
    for _ in 0..SAMPLES {
        let mut fired = Vec::new();
        let start = Instant::now();
        GLINT_DYN_CTL
            .at(vector)
            .set(platform, DYN_CTL_ENABLE | TRIGGER);
        platform.wait_fired(LIMIT, &mut fired)?;
        latencies.add(nanos(start.elapsed()));
        ensure!(
            fired == [vector],
            "{vector} was triggered and did not fire within {LIMIT}: check how its interrupts are connected"
        );
    }
    Ok(latencies)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
