//! Interrupt vectors.

use anyhow::{Context, Result};
use e810::Notify;
use e810_backends::interrupts::Interrupts as _;
use e810_hal::regs::{DYN_CTL_DISABLE, DYN_CTL_ENABLE, GLINT_DYN_CTL};
use e810_hal::{Clock as _, Ns, Vector};

use crate::bench::{Bench, Engine};
use crate::experiment::{Experiment, Risk, Seen};

/// Time in which an event is written, and in which an interrupt comes.
const SOON: Ns = Ns::from_ms(50);

/// Whether `vector` fires within [`SOON`].
fn fires(bench: &Bench, vector: Vector) -> Result<bool> {
    let begun = bench.device().now();
    let mut fired = Vec::new();
    while bench.device().now().0.saturating_sub(begun.0) < SOON.0 {
        bench.device().wait_fired(SOON, &mut fired)?;
        if fired.contains(&vector) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Forgets interrupts that have come.
fn drain(bench: &Bench) -> Result<()> {
    bench.device().wait_fired(Ns(0), &mut Vec::new())?;
    Ok(())
}

/// A message whose completion is an event of the armed queue `cq`.
fn event(engine: &mut Engine<'_>, cq: usize, qps: [usize; 2]) -> Result<()> {
    let [from, to] = qps;
    engine.receive(to)?;
    let queue = engine.cqs.get_mut(cq).context("no such queue")?;
    // Nothing has come yet.
    let _ = queue.arm(Notify::Any);
    engine.send_bytes(from, 8)
}

pub(super) const CLEAR_PBA: Experiment = Experiment {
    name: "clear_pba",
    assumes: "an event that came while its vector was disabled is reported when one write enables the vector and clears its pending bit",
    does: "lets an event come while its vector is disabled, enables it with CLEARPBA, and waits for the interrupt",
    values: &["Keeps", "Drops"],
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let cq = engine.cq(16)?;
            let qps = engine.pair(cq)?;
            let vector = engine.control.interrupt_vector(0).context("no vector")?;
            let control = GLINT_DYN_CTL.at(vector);
            control.set(bench.device(), DYN_CTL_DISABLE);
            drain(bench)?;
            event(engine, cq, qps)?;
            bench.device().delay(SOON);
            control.set(bench.device(), DYN_CTL_ENABLE);
            Ok(match fires(bench, vector)? {
                true => Seen::Value("Keeps"),
                false => Seen::Value("Drops"),
            })
        })
    },
};
