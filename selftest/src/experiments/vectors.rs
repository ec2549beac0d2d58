//! Interrupt vectors.

use anyhow::{Context, Error, Result, bail};
use e810::{LanInit, Notify};
use e810_backends::interrupts::Interrupts as _;
use e810_hal::regs::{
    DYN_CTL_DISABLE, DYN_CTL_ENABLE, DYN_CTL_ENABLE_KEEP_ITR, GLINT_DYN_CTL, PFINT_AEQCTL,
};
use e810_hal::{Clock as _, Ns, Vector};
use e810_trace::Event;

use crate::bench::{Bench, Engine};
use crate::experiment::{Experiment, Risk, Seen};

/// Time in which an event is written, and in which an interrupt comes.
const SOON: Ns = Ns::from_ms(50);

/// Whether `vector` fires within [`SOON`].
pub(super) fn fires(bench: &Bench, vector: Vector) -> Result<bool> {
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

/// A software interrupt that enables the vector and changes no interval (control-path 2.4).
pub(super) const SOFTWARE: u32 = DYN_CTL_ENABLE_KEEP_ITR | 1 << 2;
/// The same with timer 1.
pub(super) const WITH_TIMER: u32 = SOFTWARE | 1 << 24 | 1 << 25;

/// Triggers `vector`, and waits for its interrupt.
pub(super) fn trigger(bench: &Bench, vector: Vector, how: u32) -> Result<()> {
    drain(bench)?;
    GLINT_DYN_CTL.at(vector).set(bench.device(), how);
    if !fires(bench, vector)? {
        bail!("a software interrupt does not come within {SOON}");
    }
    Ok(())
}

/// The mean time between `count` + 1 interrupts in a row, each of which is triggered when the one before
/// has come.
pub(super) fn mean(bench: &Bench, vector: Vector, how: u32, count: u64) -> Result<u64> {
    trigger(bench, vector, how)?;
    let begun = bench.device().now();
    for _ in 0..count {
        trigger(bench, vector, how)?;
    }
    Ok(bench.device().now().0.saturating_sub(begun.0) / count)
}

/// Forgets interrupts that have come.
pub(super) fn drain(bench: &Bench) -> Result<()> {
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
    if_not: "An event may be lost, and a program that waits for it sleeps. Give the file with --quirks: the driver then reads a register for each interrupt.",
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
            engine.happened();
            event(engine, cq, qps)?;
            bench.device().delay(SOON);
            let lines = engine.happened();
            if !lines.iter().any(|line| matches!(line, Event::Ceqe { .. })) {
                bail!("no event came within {SOON}");
            }
            control.set(bench.device(), DYN_CTL_ENABLE);
            Ok(match fires(bench, vector)? {
                true => Seen::Value("Keeps"),
                false => Seen::Value("Drops"),
            })
        })
    },
};

/// A software interrupt that leaves INTENA as it is, and no interval either.
const MASKED: u32 = 1 << 31 | 3 << 3 | 1 << 2;

pub(super) const AUTO_MASK: Experiment = Experiment {
    name: "auto_mask",
    assumes: "a vector masks itself when it fires",
    does: "lets a vector fire, and triggers it once more without enabling it",
    values: &["Clears", "Leaves"],
    if_not: "More interrupts than needed: the driver expects none before it has enabled the vector again.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let vector = engine.control.interrupt_vector(0).context("no vector")?;
            trigger(bench, vector, SOFTWARE)?;
            drain(bench)?;
            GLINT_DYN_CTL.at(vector).set(bench.device(), MASKED);
            Ok(match fires(bench, vector)? {
                true => Seen::Value("Leaves"),
                false => Seen::Value("Clears"),
            })
        })
    },
};

pub(super) const SHARED_VECTOR: Experiment = Experiment {
    name: "shared_vector",
    assumes: "LAN queues may share the vector of the asynchronous event queue",
    does: "sends a LAN frame, and waits for the interrupt that says it has gone",
    values: &["Works", "Silent"],
    if_not: "LAN frames, and with them ARP and connections, wait until somebody polls.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let cause = PFINT_AEQCTL.read(bench.device());
            let vector = Vector::new(cause.read(PFINT_AEQCTL::MSIX_INDX) as u16);
            let vector = vector.context("no vector")?;
            let frame = engine.own_frame(100);
            let mut port = engine.control.open_lan(&LanInit::new(1500))?;
            drain(bench)?;
            let enable = DYN_CTL_ENABLE_KEEP_ITR;
            GLINT_DYN_CTL.at(vector).set(bench.device(), enable);
            let seen = port
                .transmit(&frame)
                .map_err(Error::from)
                .and_then(|()| fires(bench, vector));
            if let Err((_, error)) = engine.control.close_lan(port) {
                return Err(error.into());
            }
            Ok(match seen? {
                true => Seen::Value("Works"),
                false => Seen::Value("Silent"),
            })
        })
    },
};
