//! What a reset of the card leaves. All functions of the card are reset.

use anyhow::{Context as _, Result, bail};
use e810_adminq::AdminQ;
use e810_adminq::op::{GetLinkStatus, Grant, ReleaseResource, RequestResource, Resource};
use e810_adminq::reset::{GlobalReset, check_recovery, reset_card, wait_for_firmware};
use e810_backends::observed::Observed;
use e810_hal::bus::Index;
use e810_hal::regs::{
    GL_PREEXT_L2_PMASK0, GL_PREEXT_L2_PMASK1, SWITCH_BLOCK, SWITCH_INPUT_HIGH, SWITCH_INPUT_LOW,
};
use e810_hal::{Clock as _, Ns};

use super::STOPS;
use super::firmware::lport;
use crate::bench::Bench;
use crate::experiment::{Experiment, Risk, Seen};

/// A core reset.
fn reset(bench: &Bench) -> Result<()> {
    check_recovery(bench.device())?;
    reset_card(bench.device(), GlobalReset::Core, false)?;
    Ok(wait_for_firmware(bench.device())?)
}

pub(super) const SWITCH_INPUT: Experiment = Experiment {
    name: "switch_input",
    assumes: "the input mask of the switch block is 0 after a reset of the card, so a driver has to write it",
    does: "resets the card, and reads GL_PREEXT_L2_PMASK0 and GL_PREEXT_L2_PMASK1",
    values: &["Closed", "Open"],
    if_not: "Nothing: the driver writes it.",
    seconds: 5,
    risk: Risk::ResetsCard,
    run: |bench| {
        reset(bench)?;
        let device = bench.device();
        let switch = Index::new(SWITCH_BLOCK).context("no such block")?;
        let low = GL_PREEXT_L2_PMASK0.at(switch).get(device);
        let high = GL_PREEXT_L2_PMASK1.at(switch).get(device);
        // A device that is gone does not come back.
        bench.reset()?;
        Ok(match (low, high) {
            (0, 0) => Seen::Value("Closed"),
            (SWITCH_INPUT_LOW, SWITCH_INPUT_HIGH) => Seen::Value("Open"),
            other => Seen::Other(format!("{other:#x?}")),
        })
    },
};

pub(super) const FRAME_AT_START: Experiment = Experiment {
    name: "frame_at_start",
    assumes: "a port takes frames of 1522 bytes until 0x0603 says another length",
    does: "resets the card, and asks for the link's state (0x0607)",
    values: &["Small", "Largest"],
    if_not: "Nothing: the driver says the length it wants.",
    seconds: 5,
    risk: Risk::ResetsCard,
    run: |bench| {
        reset(bench)?;
        bench.firmware(|adminq| {
            let lport = lport(adminq)?;
            let events = None;
            let status = adminq.execute(&GetLinkStatus { lport, events })?;
            Ok(match status.max_frame {
                1522 => Seen::Value("Small"),
                9728 => Seen::Value("Largest"),
                other => Seen::Other(format!("{other} bytes")),
            })
        })
    },
};

/// Time for which the lock is asked for: that of existing drivers (control-path 9.4).
const HOLD_MS: u32 = 3_000;

/// The longest time that is waited for, whatever the firmware grants.
const LONGEST_MS: u32 = 15_000;

/// What a second request for the global configuration lock finds, after `between` was done with the first
/// grant of so many ms.
fn asked_again(
    bench: &Bench,
    between: impl FnOnce(&mut AdminQ<Observed>, u32) -> Result<()>,
) -> Result<Seen> {
    reset(bench)?;
    let seen = bench.firmware(|adminq| {
        let ask = RequestResource::write(Resource::GLOBAL_CONFIG, HOLD_MS);
        let Grant::Granted { ms } = adminq.execute(&ask)? else {
            bail!("the lock is not granted after a reset of the card");
        };
        between(adminq, ms)?;
        Ok(match adminq.execute(&ask)? {
            Grant::Done => Seen::Value("Done"),
            Grant::Granted { .. } => Seen::Value("Free"),
            other => Seen::Other(format!("{other:?}")),
        })
    });
    // Nobody could load a package otherwise.
    reset(bench)?;
    seen
}

pub(super) const LOCK_RUNS_OUT: Experiment = Experiment {
    name: "lock_runs_out",
    assumes: "a global configuration lock whose time is over counts as released: it is not granted again",
    does: "resets the card, takes the lock, lets its time pass, asks for it again, and resets the card",
    values: &["Done", "Free"],
    if_not: "Nothing: a download can be tried again without a reset of the card.",
    seconds: 15,
    risk: Risk::ResetsCard,
    run: |bench| {
        asked_again(bench, |_, ms| {
            // As long again: the card's clock is not ours.
            let time = Ns::from_ms(u64::from(ms.min(LONGEST_MS)) * 2);
            bench.device().delay(time);
            Ok(())
        })
    },
};

pub(super) const LOCK_RELEASED: Experiment = Experiment {
    name: "lock_released",
    assumes: "a global configuration lock that was released counts as done, also without a download",
    does: "resets the card, takes the lock, releases it, asks for it again, and resets the card",
    values: &["Done", "Free"],
    if_not: "A failed download can be tried again without a reset of the card.",
    seconds: 10,
    risk: Risk::ResetsCard,
    run: |bench| {
        asked_again(bench, |adminq, _| {
            let resource = Resource::GLOBAL_CONFIG;
            Ok(adminq.execute(&ReleaseResource { resource })?)
        })
    },
};

pub(super) const SWITCH_MASK_HIDES: Experiment = Experiment {
    name: "switch_mask_hides",
    assumes: "no rule of the switch matches while the input mask of its block is 0",
    does: "clears GL_PREEXT_L2_PMASK0 and GL_PREEXT_L2_PMASK1, which are the card's, sends a message, and writes them again",
    values: &["Hides", "Passes"],
    if_not: "Nothing: the driver writes the mask all the same.",
    seconds: 10,
    risk: Risk::ResetsCard,
    run: |bench| {
        bench.engine(|engine| {
            let cq = engine.cq(16)?;
            let [from, to] = engine.pair(cq)?;
            engine.receive(to)?;
            engine.send_bytes(from, 8)?;
            engine.completions(cq, 2)?;
            let switch = Index::new(SWITCH_BLOCK).context("no such block")?;
            let low = GL_PREEXT_L2_PMASK0.at(switch);
            let high = GL_PREEXT_L2_PMASK1.at(switch);
            let masks = [low.get(bench.device()), high.get(bench.device())];
            low.set(bench.device(), 0);
            high.set(bench.device(), 0);
            engine.receive(to)?;
            engine.send_bytes(from, 8)?;
            let done = engine.completions_within(cq, 2, STOPS);
            let [low_mask, high_mask] = masks;
            low.set(bench.device(), low_mask);
            high.set(bench.device(), high_mask);
            Ok(match done?.len() {
                2 => Seen::Value("Passes"),
                _ => Seen::Value("Hides"),
            })
        })
    },
};
