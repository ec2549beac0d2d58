//! [`Sim`]: a test's handle on the whole simulator.

use crate::findings::Finding;
use std::sync::Arc;

use e810_hal::{Ns, Vector};

use crate::accesses::Accesses;
use crate::bring_up::BringUp;
use crate::builder::Builder;
use crate::driver_memory::{Allocation, MemoryCounts};
use crate::function::FunctionState;
use crate::fw::{AqCode, Firmware, FirmwareConfig};
use crate::interrupt_lines::InterruptHook;
use crate::link::{Capture, LinkCounts, LinkHook, Quality, Uplink};
use crate::machine::Machine;
use crate::pe::{Breakage, Config, LeftBehind};
use crate::platform::SimPlatform;
use crate::recorded::RecordedCard;
use crate::runtime::{FromUplink, RuntimeOwner};
use crate::stats::{ResetCounts, Stats};

/// A simulated E810 card: the handle that a test keeps besides the platforms that it passes to
/// drivers.
///
/// Handles are cheap to clone. The simulator ends with its last handle, platforms included; in real
/// time its thread ends then.
///
/// ```
/// use e810_hal::bus::Vector;
/// use e810_hal::regs::{DYN_CTL_ENABLE, GLINT_DYN_CTL, GLPE_CPUSTATUS0};
/// use e810_hal::{Clock, Ns};
/// use e810_sim::Sim;
///
/// let sim = Sim::builder().functions(2).seed(7).build();
/// let nic = sim.function(0);
///
/// // A platform is what a driver runs on: registers, memory, time, vectors.
/// assert_eq!(GLPE_CPUSTATUS0.get(&nic), 0x80);
/// let vector = Vector::new(1).unwrap();
/// GLINT_DYN_CTL.at(vector).set(&nic, DYN_CTL_ENABLE | 1 << 2);
/// assert_eq!(nic.take_interrupts(), [vector]);
///
/// // Time is virtual: this returns at once.
/// nic.delay(Ns::from_ms(1_000));
///
/// // Nothing was done that a card would not have stood.
/// assert_eq!(sim.findings(), []);
/// ```
#[derive(Clone, Debug)]
pub struct Sim {
    owner: Arc<RuntimeOwner>,
    card: Option<RecordedCard>,
}

impl Sim {
    pub(crate) fn new(owner: Arc<RuntimeOwner>, card: Option<RecordedCard>) -> Self {
        Self { owner, card }
    }

    /// The card whose report determines the functions' answers.
    #[must_use]
    pub const fn card(&self) -> Option<&RecordedCard> {
        self.card.as_ref()
    }

    /// Configures a simulator.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    #[must_use]
    pub fn functions(&self) -> u8 {
        self.owner.runtime.lines.len() as u8
    }

    /// The platform of PF `function`.
    ///
    /// # Panics
    /// If there is no such function.
    #[must_use]
    pub fn function(&self, function: u8) -> SimPlatform {
        assert!(
            function < self.functions(),
            "function {function} of a world with {}",
            self.functions()
        );
        SimPlatform::new(Arc::clone(&self.owner), function)
    }

    /// From now on, passes frames without a destination here, and frames for a group, to `uplink`;
    /// `None` removes it.
    pub fn set_uplink(&self, uplink: Option<Arc<dyn Uplink>>) {
        self.owner.runtime.set_uplink(uplink);
    }

    /// Takes frames that have come to the [`Uplink`], as programs do that poll. For a thread that
    /// does it while none polls.
    pub fn take_from_uplink(&self) -> FromUplink {
        self.owner.runtime.take_from_uplink()
    }

    /// Puts frames from another simulator's [`Uplink`] on the link. Returns how many of them a
    /// function here will receive; the others are dropped. The frames need not be valid: the
    /// receiver checks them.
    pub fn receive_frames<'a>(&self, frames: impl IntoIterator<Item = &'a [u8]>) -> usize {
        self.owner.runtime.inject_frames(frames.into_iter())
    }

    pub(crate) fn with_machine<R>(&self, f: impl FnOnce(&mut Machine) -> R) -> R {
        self.owner.runtime.with_machine(f)
    }

    fn with_state<R: Default>(&self, function: u8, f: impl FnOnce(&mut FunctionState) -> R) -> R {
        self.with_machine(|machine| {
            let function = machine.functions.get_mut(usize::from(function));
            function
                .map(|function| f(&mut function.state))
                .unwrap_or_default()
        })
    }

    /// The findings so far, oldest first; the first 1024 are kept. A driver test ends by asserting
    /// that there are none.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        self.with_machine(|machine| {
            machine.check_freed();
            machine.log.kept().to_vec()
        })
    }

    /// Returns what [`Sim::findings`] does, and clears the findings.
    #[must_use]
    pub fn take_findings(&self) -> Vec<Finding> {
        self.with_machine(|machine| {
            machine.check_freed();
            machine.log.take()
        })
    }

    /// Count of each kind of finding: function, kind, count. Includes findings that were not kept.
    #[must_use]
    pub fn finding_counts(&self) -> Vec<(u8, &'static str, u64)> {
        self.with_machine(|machine| {
            machine.check_freed();
            machine.log.counts()
        })
    }

    /// Traffic counters of PF `function`.
    #[must_use]
    pub fn stats(&self, function: u8) -> Stats {
        self.with_state(function, |state| state.stats)
    }

    /// Register accesses and commands of PF `function` since power-up; resets do not clear them.
    #[must_use]
    pub fn accesses(&self, function: u8) -> Accesses {
        self.with_state(function, |state| state.tally.counter.all())
    }

    /// Costs of the bring-ups of PF `function`, oldest first; the first 64 are kept.
    #[must_use]
    pub fn bring_ups(&self, function: u8) -> Vec<BringUp> {
        self.with_state(function, |state| state.tally.finished().to_vec())
    }

    /// Commands that the firmware of PF `function` refused so far: opcode, code, count. ESRCH is an
    /// unknown opcode. Empty for a warm function.
    #[must_use]
    pub fn refused_commands(&self, function: u8) -> Vec<(u16, AqCode, u64)> {
        self.with_machine(|machine| {
            let function = machine.functions.get(usize::from(function));
            let fw = function.and_then(|function| function.fw.as_ref());
            fw.map(Firmware::refused_commands).unwrap_or_default()
        })
    }

    /// Resets the counters of [`Sim::stats`] to 0.
    pub fn clear_stats(&self, function: u8) {
        self.with_state(function, |state| state.stats = Stats::default());
    }

    /// Resets of PF `function`.
    #[must_use]
    pub fn reset_counts(&self, function: u8) -> ResetCounts {
        self.with_state(function, |state| state.resets)
    }

    /// Objects that the driver of PF `function` had left in the engine when it last ended.
    #[must_use]
    pub fn left_behind(&self, function: u8) -> LeftBehind {
        self.with_machine(|machine| {
            let function = machine.functions.get(usize::from(function));
            function.map_or_else(LeftBehind::default, |function| {
                function.engine.left_behind()
            })
        })
    }

    /// Memory that the driver of PF `function` holds.
    #[must_use]
    pub fn memory(&self, function: u8) -> MemoryCounts {
        self.with_state(function, |state| state.memory.counts())
    }

    /// Makes the `nth` request for memory from now on (1 is the next) fail, once; 0 cancels.
    pub fn fail_allocation(&self, function: u8, what: Allocation, nth: u64) {
        self.with_state(function, |state| state.memory.fail(what, nth));
    }

    /// Changes the configuration of the engine of PF `function` from now on.
    pub fn configure_engine(&self, function: u8, configure: impl FnOnce(&mut Config)) {
        self.with_machine(|machine| {
            if let Some(function) = machine.functions.get_mut(usize::from(function)) {
                configure(function.engine.config_mut());
            }
        });
    }

    /// Makes the engine of PF `function` report a failure that no driver and no peer can cause.
    pub fn break_down(&self, function: u8, what: Breakage) {
        self.with_machine(|machine| {
            let now = machine.now().0;
            if let Some(function) = machine.functions.get_mut(usize::from(function)) {
                function.with_engine(&mut machine.log, now, |engine, env| {
                    engine.break_down(what, env);
                });
            }
        });
    }

    /// Changes the configuration of the firmware of PF `function` from now on, or injects faults;
    /// no effect on a warm function.
    pub fn configure_firmware(&self, function: u8, configure: impl FnOnce(&mut FirmwareConfig)) {
        self.with_machine(|machine| {
            let function = machine.functions.get_mut(usize::from(function));
            if let Some(fw) = function.and_then(|function| function.fw.as_mut()) {
                fw.configure(configure);
            }
            machine.update_enabled_ports();
        });
    }

    /// Frame counters of the link.
    #[must_use]
    pub fn link(&self) -> LinkCounts {
        self.with_machine(|machine| machine.link.counts())
    }

    /// Changes the impairments of the link.
    pub fn set_quality(&self, quality: Quality) {
        self.with_machine(|machine| machine.set_quality(quality));
    }

    /// From now on, calls `hook` for each frame to decide its fate; `None` removes it.
    pub fn set_link_hook(&self, hook: Option<LinkHook>) {
        self.with_machine(|machine| machine.link.set_hook(hook));
    }

    /// Passes each frame that is sent, and each frame from outside for a function here, to
    /// `capture`; `None` removes it.
    pub fn set_capture(&self, capture: Option<Capture>) {
        self.with_machine(|machine| machine.link.set_capture(capture));
    }

    /// Calls `hook` for each interrupt of PF `function`; `None` removes it.
    pub fn set_interrupt_hook(&self, function: u8, hook: Option<InterruptHook>) {
        if let Some(lines) = self.owner.runtime.lines.get(usize::from(function)) {
            lines.set_hook(hook);
        }
    }

    /// Returns and clears the pending interrupts of PF `function`.
    #[must_use]
    pub fn take_interrupts(&self, function: u8) -> Vec<Vector> {
        let lines = self.owner.runtime.lines.get(usize::from(function));
        lines.map(|lines| lines.take()).unwrap_or_default()
    }

    /// Time since the simulator was created.
    #[must_use]
    pub fn now(&self) -> Ns {
        self.owner.runtime.now()
    }

    /// Time of the next event, not before now; `None` if there is none.
    #[must_use]
    pub fn next_event(&self) -> Option<Ns> {
        self.with_machine(|machine| machine.next_event().map(Ns))
    }

    /// Lets `time` pass and executes the events in it.
    pub fn run(&self, time: Ns) {
        self.owner.runtime.delay(0, time);
    }
}

#[cfg(test)]
mod raw_bring_up;
#[cfg(test)]
mod tests;
