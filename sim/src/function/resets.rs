//! Resets of a function: announced, begun, finished.

use e810_card::State;
use e810_hal::regs as hw;

use super::Function;
use crate::findings::Log;
use crate::fw::Card;
use crate::lan::Counters;
use crate::pe::ResetKind;
use crate::regs::ResetSource;
use crate::variation::EngineStatus;

/// GRST \[20\] of PFINT_OICR: a global reset was requested.
const OICR_GRST: u32 = 1 << 20;
/// Shortest time of a reset, and the range of the random part added to it, in ns. Not in the
/// sources; shorter than the driver's first poll.
const PFR_TIME: (u64, u64) = (50_000, 400_000);
/// The same for the global resets.
const GLOBAL_RESET_TIME: (u64, u64) = (500_000, 2_000_000);
/// Time that the engine's processors take to start, if they do so after a reset, in ns. Not in the sources.
const ENGINE_STARTS: u64 = 50_000_000;
/// Unit of GLGEN_RSTCTL.GRSTDEL, in ns (control-path 2.7).
const GRSTDEL_UNIT: u64 = 100_000_000;

/// Time, in ns, for which a card reset must have been announced before a driver is expected to know
/// of it. A driver that looked just before the announcement may still request its own reset.
const KNOWN: u64 = 1_000_000;

/// A reset in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResetInProgress {
    pub(crate) source: ResetSource,
    /// When it began, or was announced.
    pub(crate) since: u64,
    pub(crate) until: u64,
}

/// The state in a report that a reset leads to.
const fn state_after(source: ResetSource) -> State {
    match source {
        ResetSource::Pfr => State::Pfr,
        ResetSource::Corer => State::Corer,
        ResetSource::Globr => State::Globr,
        ResetSource::Empr => State::Empr,
    }
}

impl Function {
    /// The announced reset of the card, if a driver is expected to know of it at `now`.
    pub(crate) fn known_reset(&self, now: u64) -> Option<ResetSource> {
        let coming = self.state.announced?;
        (now >= coming.since + KNOWN).then_some(coming.source)
    }

    /// PFGEN_CTRL.PFSWR: the PF resets itself, without touching others.
    pub(crate) fn start_pf_reset(&mut self, now: u64) {
        self.state.resets.pfr += 1;
        self.engine.reset(ResetKind::Pfr);
        self.begin_reset(ResetSource::Pfr, now, PFR_TIME);
    }

    /// A function-level reset: like a PF reset, but complete at once, because PCI Express makes the
    /// requester wait. A reset of the whole card that is under way continues.
    pub(crate) fn function_level_reset(&mut self, now: u64) {
        self.state.resets.flr += 1;
        self.state.msix.reset();
        self.engine.reset(ResetKind::Pfr);
        self.begin_reset(ResetSource::Pfr, now, PFR_TIME);
        if self
            .state
            .reset
            .is_some_and(|reset| reset.source == ResetSource::Pfr)
        {
            self.finish_reset(now);
        }
    }

    /// After a function-level reset the registers are as a report found them when its function was
    /// opened.
    pub(crate) fn show_opened(&mut self) {
        if self.state.reset.is_none() {
            self.state.registers.show(State::Opened);
        }
    }

    /// The card is being reset: warns the driver, then resets.
    pub(crate) fn start_global_reset(&mut self, source: ResetSource, log: &mut Log, now: u64) {
        if self.announce(source, log, now) {
            return;
        }
        self.begin_global_reset(source, now);
    }

    /// Warns the driver. A cold function continues for a while, so that the driver sees the
    /// warning; returns true in that case.
    fn announce(&mut self, source: ResetSource, log: &mut Log, now: u64) -> bool {
        self.engine_env(log, now).set_oicr(OICR_GRST);
        if self.fw.is_none() {
            return false;
        }
        let registers = &mut self.state.registers;
        let rstat = registers.get(hw::GLGEN_RSTAT.off()) & !0xf;
        // DEVSTATE 1: a reset is coming, of that type.
        let state = rstat | source.rstat_type() << 2 | 1;
        registers.set(hw::GLGEN_RSTAT.off(), state);
        let delay = u64::from(registers.get(hw::GLGEN_RSTCTL.off()) & 0x3f) * GRSTDEL_UNIT;
        let wider = self
            .state
            .announced
            .is_none_or(|announced| announced.source <= source);
        if wider {
            self.state.announced = Some(ResetInProgress {
                source,
                since: now,
                until: now + delay,
            });
        }
        true
    }

    /// The card is reset at this moment.
    pub(crate) fn begin_global_reset(&mut self, source: ResetSource, now: u64) {
        self.state.announced = None;
        let resets = &mut self.state.resets;
        // Position of each kind's count in GLGEN_RSTAT: CORERCNT [5:4], GLOBRCNT [7:6], EMPRCNT
        // [9:8].
        let shift = match source {
            ResetSource::Pfr => return,
            ResetSource::Corer => {
                resets.corer += 1;
                4
            }
            ResetSource::Globr => {
                resets.globr += 1;
                6
            }
            ResetSource::Empr => {
                resets.empr += 1;
                8
            }
        };
        self.engine.reset(ResetKind::Core);
        self.state.lan_queues.counters = Counters::default();
        self.begin_reset(source, now, GLOBAL_RESET_TIME);
        self.state.irq.reset();
        let registers = &mut self.state.registers;
        let rstat = registers.get(hw::GLGEN_RSTAT.off());
        let count = (rstat >> shift).wrapping_add(1) & 3;
        let kept = rstat & !(3 << shift | 0xf);
        // DEVSTATE 1: any value but 0 means "not active" (control-path 2.7).
        let state = kept | count << shift | source.rstat_type() << 2 | 1;
        registers.set(hw::GLGEN_RSTAT.off(), state);
        registers.set(hw::GLNVM_ULD.off(), 0);
    }

    fn begin_reset(&mut self, source: ResetSource, now: u64, time: (u64, u64)) {
        let state = &mut self.state;
        state.registers.clear(source);
        state.tally.restart(now);
        state.bus_mastering.was_reset();
        state.lan_queues.reset();
        state.outbox.clear();
        state.lan_outbox.clear();
        let until = now + time.0 + state.rng.below(time.1);
        // A wider reset that begins during a narrower one replaces it.
        let wider = state.reset.is_none_or(|running| running.source <= source);
        if wider {
            state.reset = Some(ResetInProgress {
                source,
                since: now,
                until,
            });
        }
        self.runnable = false;
    }

    /// The reset is over: the firmware has loaded its values.
    pub(crate) fn finish_reset(&mut self, now: u64) {
        if let Some(reset) = self.state.reset.take() {
            if self.state.variation.engine_status == EngineStatus::Starts {
                self.state.engine_ready_at = now + ENGINE_STARTS;
            }
            let registers = &mut self.state.registers;
            if reset.source != ResetSource::Pfr {
                let rstat = registers.get(hw::GLGEN_RSTAT.off());
                registers.set(hw::GLGEN_RSTAT.off(), rstat & !3);
            }
            registers.load_again(reset.source);
            if let Some(fw) = &mut self.fw {
                fw.started(reset.source, now, &mut self.state);
            }
            let is_recorded = self.state.registers.show(state_after(reset.source));
            if let Some(fw) = self.fw.as_mut().filter(|_| is_recorded) {
                fw.started_as_recorded();
            }
        }
    }

    /// The firmware drops the state that the reset clears.
    pub(crate) fn reset_firmware(&mut self, source: ResetSource, card: &mut Card) {
        if let Some(fw) = &mut self.fw {
            fw.reset(source, card, &mut self.state);
            self.state.lan = Some(fw.lan_side());
        }
    }
}
