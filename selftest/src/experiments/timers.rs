//! Timers and rate limits of interrupt vectors.

use anyhow::{Context, Result, bail};
use e810_hal::bus::ItrIndex;
use e810_hal::regs::{DYN_CTL_ENABLE, GL_PWR_MODE_CTL, GLINT_DYN_CTL, GLINT_ITR, GLINT_RATE};
use e810_hal::{Clock as _, Ns, Vector};

use super::vectors::{SOFTWARE, WITH_TIMER, mean, trigger};
use crate::bench::Bench;
use crate::experiment::{Experiment, Risk, Seen};

/// An interval of a timer in its units of 2 µs, and in time.
const INTERVAL: u32 = 4_000;
const LONG: Ns = Ns::from_ms(8);
/// Tries, where a busy machine may spoil some.
const TRIES: usize = 5;

/// The least time that two interrupts of timer 1 take together. `between` is done after the first.
fn two(bench: &Bench, vector: Vector, before: &dyn Fn(), between: &dyn Fn()) -> Result<u64> {
    let mut least = u64::MAX;
    for _ in 0..TRIES {
        before();
        // The timer begins to run later, when the first interrupt is sent.
        let begun = bench.device().now();
        trigger(bench, vector, WITH_TIMER)?;
        between();
        trigger(bench, vector, WITH_TIMER)?;
        least = least.min(bench.device().now().0.saturating_sub(begun.0));
    }
    Ok(least)
}

/// Whether timer 1 of [`INTERVAL`] lets an interrupt pass at once after its interval is written as `units`.
fn expires(bench: &Bench, units: u32) -> Result<bool> {
    bench.engine(|engine| {
        let vector = engine.control.interrupt_vector(0).context("no vector")?;
        let timer = ItrIndex::new(1).context("no timer")?;
        let interval = GLINT_ITR.at(timer, vector);
        let set = |units| interval.set(bench.device(), units);
        let free = two(bench, vector, &|| set(0), &|| {})?;
        delays(two(bench, vector, &|| set(INTERVAL), &|| {})?)?;
        let found = two(bench, vector, &|| set(INTERVAL), &|| set(units))?;
        set(0);
        // While the old interval runs on they cannot take less.
        if found < LONG.0 {
            return Ok(true);
        }
        too_slow(free, LONG.0)?;
        Ok(false)
    })
}

pub(super) const CHANGED_TIMER: Experiment = Experiment {
    name: "changed_timer",
    assumes: "a timer of a vector has expired as soon as its interval is changed",
    does: "changes an interval of 8 ms right after an interrupt, and measures when the next one comes",
    values: &["Expires", "RunsOn"],
    if_not: "A new moderation takes effect one interval later.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        Ok(match expires(bench, INTERVAL - 1)? {
            true => Seen::Value("Expires"),
            false => Seen::Value("RunsOn"),
        })
    },
};

pub(super) const SAME_INTERVAL: Experiment = Experiment {
    name: "same_interval",
    assumes: "a write of the interval that a timer already has changes nothing",
    does: "writes an interval of 8 ms once more right after an interrupt, and measures when the next one comes",
    values: &["Kept", "Expires"],
    if_not: "Moderation does less: the driver writes the interval each time that it enables a vector.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        Ok(match expires(bench, INTERVAL)? {
            true => Seen::Value("Expires"),
            false => Seen::Value("Kept"),
        })
    },
};

/// As [`WITH_TIMER`], with timer 0.
const WITH_TIMER_0: u32 = SOFTWARE | 1 << 24;

pub(super) const OTHER_TIMERS: Experiment = Experiment {
    name: "other_timers",
    assumes: "an interrupt lets the other timers of its vector run again from their beginning",
    does: "lets a vector fire by one timer, and measures when it fires by another with an interval of 8 ms",
    values: &["RunAgain", "Stay"],
    if_not: "Completions on a vector with other causes are reported earlier than moderation says.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let vector = engine.control.interrupt_vector(0).context("no vector")?;
            let timer = ItrIndex::new(0).context("no timer")?;
            let interval = GLINT_ITR.at(timer, vector);
            let measured = |units, first| -> Result<u64> {
                let mut least = u64::MAX;
                for _ in 0..TRIES {
                    interval.set(bench.device(), units);
                    // By now the timer has expired.
                    bench.device().delay(LONG);
                    let begun = bench.device().now();
                    trigger(bench, vector, first)?;
                    trigger(bench, vector, WITH_TIMER_0)?;
                    least = least.min(bench.device().now().0.saturating_sub(begun.0));
                }
                interval.set(bench.device(), 0);
                Ok(least)
            };
            let free = measured(0, WITH_TIMER)?;
            delays(measured(INTERVAL, WITH_TIMER_0)?)?;
            if measured(INTERVAL, WITH_TIMER)? < LONG.0 {
                return Ok(Seen::Value("Stay"));
            }
            too_slow(free, LONG.0)?;
            Ok(Seen::Value("RunAgain"))
        })
    },
};

/// Refuses to conclude from timers that delay nothing.
fn delays(found: u64) -> Result<()> {
    if found < LONG.0 {
        bail!("an interval of {} ms delays nothing", LONG.0 / 1_000_000);
    }
    Ok(())
}

/// Refuses to conclude from interrupts that take `free` without any delay, where a delay of `delay` would
/// not be seen.
fn too_slow(free: u64, delay: u64) -> Result<()> {
    if free > delay * 3 / 4 {
        bail!(
            "interrupts take {} µs on this machine, which hides a delay of {} µs",
            free / 1_000,
            delay / 1_000
        );
    }
    Ok(())
}

/// GLINT_RATE: the limit is on, with the longest interval.
const RATE: u32 = 1 << 6 | 0x3F;
/// Interrupts in a row, between which jitter of the first and the last counts little.
const BURST: u64 = 40;
const FEW: u64 = 8;

/// The unit of GLINT_RATE that drivers take the card to have (control-path 2.5).
fn rate_unit(bench: &Bench) -> u64 {
    // CAR_MAX_BW 3: 25 Gb/s.
    match GL_PWR_MODE_CTL.get(bench.device()) >> 30 {
        3 => 8_000,
        _ => 4_000,
    }
}

pub(super) const RATE_LIMITS: Experiment = Experiment {
    name: "rate_limits",
    assumes: "the rate limit of a vector holds back events without a timer, too",
    does: "measures software interrupts in a row, with a rate limit and without",
    values: &["All", "Timed"],
    if_not: "Nothing for completions, whose cause has a timer; asynchronous events are not limited then.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let vector = engine.control.interrupt_vector(0).context("no vector")?;
            let rate = GLINT_RATE.at(vector);
            let burst = |limit, how| {
                rate.set(bench.device(), limit);
                mean(bench, vector, how, BURST)
            };
            let free = burst(0, SOFTWARE)?;
            let limited = burst(RATE, SOFTWARE)?;
            let timed = burst(RATE, WITH_TIMER)?;
            rate.set(bench.device(), 0);
            let least = 63 * rate_unit(bench);
            if timed < least * 9 / 10 {
                bail!("a rate limit delays nothing");
            }
            if limited < least * 9 / 10 {
                return Ok(Seen::Value("Timed"));
            }
            too_slow(free, least)?;
            Ok(Seen::Value("All"))
        })
    },
};

/// Two intervals.
const BY_ITR: u32 = 10;
const BY_DYN_CTL: u32 = 20;

pub(super) const ITR_READS: Experiment = Experiment {
    name: "itr_reads",
    assumes: "GLINT_ITR reads as the interval in force, also after GLINT_DYN_CTL has set it",
    does: "sets an interval by both registers, and reads GLINT_ITR",
    values: &["InForce", "Written"],
    if_not: "`e810 monitor` shows another interval than the one in force.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let vector = engine.control.interrupt_vector(0).context("no vector")?;
            let timer = ItrIndex::new(0).context("no timer")?;
            let interval = GLINT_ITR.at(timer, vector);
            interval.set(bench.device(), BY_ITR);
            let control = DYN_CTL_ENABLE | BY_DYN_CTL << 5;
            GLINT_DYN_CTL.at(vector).set(bench.device(), control);
            let found = interval.get(bench.device());
            interval.set(bench.device(), 0);
            Ok(match found {
                BY_DYN_CTL => Seen::Value("InForce"),
                BY_ITR => Seen::Value("Written"),
                other => Seen::Other(format!("{other}")),
            })
        })
    },
};

/// What a measurement finds that is made several times, if nearly all agree.
fn agreed(measure: impl Fn() -> Result<Seen>) -> Result<Seen> {
    let mut all = Vec::new();
    for _ in 0..TRIES {
        all.push(measure()?);
    }
    let agreeing = |seen: &&Seen| all.iter().filter(|other| other == seen).count() + 1 >= TRIES;
    match all.iter().find(agreeing) {
        Some(seen) => Ok(seen.clone()),
        None => bail!("this machine is too busy: {TRIES} measurements do not agree"),
    }
}

/// Which of two lengths a delay has.
fn length(found: u64, usual: u64, values: [&'static str; 2]) -> Seen {
    let [once, twice] = values;
    let tenths = found * 10 / usual;
    match tenths {
        9..15 => Seen::Value(once),
        18..25 => Seen::Value(twice),
        _ => Seen::Other(format!(
            "{} µs in place of {} µs",
            found / 1_000,
            usual / 1_000
        )),
    }
}

pub(super) const ITR_UNIT: Experiment = Experiment {
    name: "itr_unit",
    assumes: "the unit of a vector's timers is that of GLINT_CTL, which drivers set to 2 µs, at every speed of the card",
    does: "measures interrupts in a row with an interval of 4000 units",
    values: &["Field", "Double"],
    if_not: "Moderation waits twice as long as asked for. Give the file with --quirks.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let vector = engine.control.interrupt_vector(0).context("no vector")?;
            let timer = ItrIndex::new(1).context("no timer")?;
            let interval = GLINT_ITR.at(timer, vector);
            agreed(|| {
                too_slow(mean(bench, vector, WITH_TIMER, FEW)?, LONG.0)?;
                interval.set(bench.device(), INTERVAL);
                let found = mean(bench, vector, WITH_TIMER, FEW);
                interval.set(bench.device(), 0);
                Ok(length(found?, LONG.0, ["Field", "Double"]))
            })
        })
    },
};

pub(super) const RATE_UNIT: Experiment = Experiment {
    name: "rate_unit",
    assumes: "the unit of GLINT_RATE is 4 µs, and 8 µs on a card of 25 Gb/s",
    does: "measures software interrupts in a row, with a rate limit of 63 units",
    values: &["BySpeed", "Double"],
    if_not: "Interrupts are limited to half the rate asked for. Give the file with --quirks.",
    seconds: 5,
    risk: Risk::None,
    run: |bench| {
        bench.engine(|engine| {
            let vector = engine.control.interrupt_vector(0).context("no vector")?;
            let rate = GLINT_RATE.at(vector);
            let usual = 63 * rate_unit(bench);
            agreed(|| {
                too_slow(mean(bench, vector, WITH_TIMER, BURST)?, usual)?;
                rate.set(bench.device(), RATE);
                let found = mean(bench, vector, WITH_TIMER, BURST);
                rate.set(bench.device(), 0);
                Ok(length(found?, usual, ["BySpeed", "Double"]))
            })
        })
    },
};
