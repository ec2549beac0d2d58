//! The simulated machine: the functions of a card, the link between them, and the discrete-event
//! loop.
//!
//! Everything that takes time is an event: an engine's step, a frame's arrival, the end of a reset.
//! [`Machine::step`] executes one. Virtual time advances from event to event; in real time a thread
//! executes the events that are due.

mod schedule;

use std::sync::Arc;

use e810_hal::{Ns, RegOffset};

use crate::bar::Effect;
use crate::findings::Log;
use crate::function::{CardView, Function};
use crate::fw::{Card, EnabledPorts, Firmware, FirmwareEffect, PackageStart};
use crate::interrupt_lines::InterruptLines;
use crate::link::{Link, Quality, Sender, To, Wanted};
use crate::regs::ResetSource;
use crate::rng::Rng;

/// Shortest time of an engine's step in virtual time, and the range of the random part added to it,
/// in ns.
const STEP_TIME: (u64, u64) = (20, 200);
/// Maximum frames delivered in one turn, in real time: few enough not to delay other events.
const FRAMES: u32 = 64;
/// Steps by which virtual time advances when there is nothing to do and the driver waits, in ns.
/// They start small, so that short time-outs are not overshot, and grow, so that long time-outs are
/// reached.
const IDLE: (u64, u64) = (1_000, 100_000);

/// The next event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Engine(usize),
    Firmware(usize),
    ResetBegins(usize),
    ResetDone(usize),
    Interrupt(usize),
    Frame,
}

/// All functions of a card, and the link between them.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) functions: Vec<Box<Function>>,
    pub(crate) card: Card,
    pub(crate) link: Link,
    pub(crate) log: Log,
    /// ns since the start.
    now: u64,
    /// Whether steps take time (virtual time) or run as fast as they can (real time).
    steps_take_time: bool,
    idle: u64,
    /// Nothing is due before this time, as long as only time passes.
    quiet_until: u64,
    rng: Rng,
}

/// Events that can happen at function `index`. Their order determines what the seed chooses.
fn events_of(index: usize) -> [Event; 5] {
    [
        Event::Engine(index),
        Event::ResetDone(index),
        Event::Firmware(index),
        Event::ResetBegins(index),
        Event::Interrupt(index),
    ]
}

/// The package that the card starts with, from the configuration of its first function's firmware.
fn package_start(functions: &[Box<Function>]) -> PackageStart {
    let first = functions.iter().find_map(|function| function.fw.as_ref());
    first.map_or(PackageStart::None, |fw| fw.config.package.clone())
}

/// Functions whose ports are enabled.
fn enabled_ports(functions: &[Box<Function>]) -> EnabledPorts {
    let mut enabled_ports = EnabledPorts::default();
    for (end, function) in enabled_ports.iter_mut().zip(functions) {
        *end = function.fw.as_ref().is_some_and(Firmware::is_port_on);
    }
    enabled_ports
}

/// Vectors that fired, and their interrupt lines. Delivered while the machine is not locked.
pub(crate) type Fired = Vec<(Arc<InterruptLines>, Vec<u16>)>;

impl Machine {
    pub(crate) fn new(
        functions: Vec<Box<Function>>,
        link: Link,
        virtual_time: bool,
        rng: Rng,
    ) -> Self {
        let mut card = Card::new(functions.len() as u8);
        card.reset(&package_start(&functions));
        card.enabled_ports = enabled_ports(&functions);
        Self {
            functions,
            card,
            link,
            log: Log::default(),
            now: 0,
            steps_take_time: virtual_time,
            idle: IDLE.0,
            quiet_until: 0,
            rng,
        }
    }

    pub(crate) fn now(&self) -> Ns {
        Ns(self.now)
    }

    /// Real time: the clock says `now`.
    pub(crate) fn set_now(&mut self, now: Ns) {
        self.now = self.now.max(now.0);
    }

    pub(crate) fn read32(&mut self, function: usize, off: RegOffset) -> u32 {
        let (log, now) = (&mut self.log, self.now);
        self.functions
            .get_mut(function)
            .map_or(u32::MAX, |function| function.read32(off, log, now))
    }

    pub(crate) fn write32(&mut self, function: usize, off: RegOffset, value: u32) {
        self.idle = IDLE.0;
        let (log, now) = (&mut self.log, self.now);
        let effect = self
            .functions
            .get_mut(function)
            .map(|function| function.write32(off, value, log, now));
        match effect {
            None | Some(Effect::None) => {}
            Some(Effect::PfReset) => self.reset_firmware(function, ResetSource::Pfr),
            Some(Effect::GlobalReset(source)) => self.reset_card(source),
        }
        self.collect_frames(function);
    }

    /// A reset of the whole card was requested.
    fn reset_card(&mut self, source: ResetSource) {
        let (log, now) = (&mut self.log, self.now);
        for function in &mut self.functions {
            function.start_global_reset(source, log, now);
        }
    }

    fn reset_firmware(&mut self, index: usize, source: ResetSource) {
        if let Some(function) = self.functions.get_mut(index) {
            function.reset_firmware(source, &mut self.card);
        }
        self.update_wanted(index);
        self.update_enabled_ports();
    }

    /// The announced reset of the card reaches function `index`.
    fn begin_reset(&mut self, index: usize) {
        let now = self.now;
        let Some(function) = self.functions.get_mut(index) else {
            return;
        };
        let Some(announced) = function.state.announced else {
            return;
        };
        function.begin_global_reset(announced.source, now);
        function.reset_firmware(announced.source, &mut self.card);
        self.update_wanted(index);
        self.update_enabled_ports();
        if self
            .functions
            .iter()
            .all(|function| function.state.announced.is_none())
        {
            let start = package_start(&self.functions);
            self.card.reset(&start);
        }
    }

    pub(crate) fn function_level_reset(&mut self, index: usize) {
        let now = self.now;
        if let Some(function) = self.functions.get_mut(index) {
            function.function_level_reset(now);
        }
        self.reset_firmware(index, ResetSource::Pfr);
        if let Some(function) = self.functions.get_mut(index) {
            function.show_opened();
        }
    }

    fn step_firmware(&mut self, index: usize) {
        let (card, log, now) = (&mut self.card, &mut self.log, self.now);
        let Some(function) = self.functions.get_mut(index) else {
            return;
        };
        let effect = function.step_firmware(card, log, now);
        function.check_ready(now);
        match effect {
            FirmwareEffect::None => {}
            FirmwareEffect::Reset(ResetSource::Pfr) => {
                function.start_pf_reset(now);
                self.reset_firmware(index, ResetSource::Pfr);
            }
            FirmwareEffect::Reset(source) => self.reset_card(source),
        }
        self.update_wanted(index);
        self.update_enabled_ports();
    }

    /// Switch rules of a function may have changed, and with them which frames it wants.
    fn update_wanted(&mut self, index: usize) {
        let Some(function) = self.functions.get(index) else {
            return;
        };
        let own = function.state.mac;
        if let Some(fw) = &function.fw {
            let (addresses, all) = fw.other_addresses(own);
            self.link.set_wanted(index, Wanted { addresses, all });
        }
    }

    /// Updates the set of enabled ports: functions cabled to a changed port recheck their link.
    pub(crate) fn update_enabled_ports(&mut self) {
        let now = enabled_ports(&self.functions);
        if std::mem::replace(&mut self.card.enabled_ports, now) == now {
            return;
        }
        for function in &mut self.functions {
            if let Some(fw) = &mut function.fw {
                fw.recheck_link();
            }
        }
    }

    /// Real time: executes every event that is due, once; false when there was none. All frames
    /// that have arrived are delivered, so that an engine receives them together.
    pub(crate) fn run_due_events(&mut self) -> bool {
        let mut did = false;
        for event in (0..self.functions.len()).flat_map(events_of) {
            if self.due(event).is_some_and(|due| due <= self.now) {
                self.dispatch(event);
                did = true;
            }
        }
        for _ in 0..FRAMES {
            if self.link.next_due().is_none_or(|due| due > self.now) {
                break;
            }
            self.deliver_frame();
            did = true;
        }
        did
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Engine(index) => self.step_engine(index),
            Event::Firmware(index) => self.step_firmware(index),
            Event::ResetBegins(index) => self.begin_reset(index),
            Event::Interrupt(index) => {
                if let Some(function) = self.functions.get_mut(index) {
                    let mut engine_env = function.engine_env(&mut self.log, self.now);
                    engine_env.pass_interrupt_time();
                }
            }
            Event::ResetDone(index) => {
                if let Some(function) = self.functions.get_mut(index) {
                    function.finish_reset(self.now);
                }
            }
            Event::Frame => self.deliver_frame(),
        }
    }

    fn step_engine(&mut self, index: usize) {
        let Some(function) = self.functions.get_mut(index) else {
            return;
        };
        function.step_engine(&mut self.log, self.now);
        if self.steps_take_time {
            function.busy_until = self.now + STEP_TIME.0 + self.rng.below(STEP_TIME.1);
        }
        self.collect_frames(index);
    }

    fn deliver_frame(&mut self) {
        let (index, is_back, frame) = match self.link.arrive(self.now) {
            Some((To::Function(index), frame)) => (index, false, frame),
            Some((To::Back(index), frame)) => (index, true, frame),
            Some((To::Uplink, frame)) => return self.link.deliver_to_uplink(&frame),
            None => return,
        };
        let card = self.card_view();
        let Some(function) = self.functions.get_mut(index) else {
            return;
        };
        if function.is_looped() != is_back {
            function.state.stats.frames_filtered += 1;
            return;
        }
        let sent_here = self.link.was_sent_here();
        function.receive_frame(&frame, sent_here, &card, &mut self.log, self.now);
        self.collect_frames(index);
    }

    /// Puts frames from outside on the link; returns how many have a destination here.
    pub(crate) fn inject_frames<'a>(&mut self, frames: impl Iterator<Item = &'a [u8]>) -> usize {
        let (link, now) = (&mut self.link, self.now);
        frames.filter(|frame| link.inject_frame(now, frame)).count()
    }

    /// What the functions depend on in the card and in each other.
    pub(crate) fn card_view(&self) -> CardView {
        CardView {
            serves_engine: self.card.serves_engine(),
            enabled_ports: self.card.enabled_ports,
            is_double_vlan: self.card.is_double_vlan(),
            hash_profiles: self.card.hash_profiles().clone(),
            switch_open: self
                .functions
                .iter()
                .any(|function| function.has_opened_switch()),
        }
    }

    /// Puts the frames that a function has sent on the wire.
    pub(crate) fn collect_frames(&mut self, index: usize) {
        let Some(function) = self.functions.get_mut(index) else {
            return;
        };
        let mut outbox = std::mem::take(&mut function.state.outbox);
        let mut lan_outbox = std::mem::take(&mut function.state.lan_outbox);
        let has_link = function.has_link(self.card.enabled_ports, self.now);
        let is_looped = function.is_looped();
        let frames = outbox.drain(..).map(|frame| (true, frame));
        let lan_frames = lan_outbox.drain(..).map(|frame| (false, frame));
        for (genuine, frame) in frames.chain(lan_frames) {
            if genuine && !function.sends(&frame) {
                function.count_sent(&frame, false);
                continue;
            }
            function.count_sent(&frame, has_link || is_looped);
            let to_itself = frame.first_chunk() == Some(&function.state.mac);
            let loops = !to_itself || function.loops_back(&frame);
            function.state.stats.frames_not_looped += u64::from(!loops);
            if has_link || is_looped || to_itself && loops {
                let from = index as u8;
                let sender = Sender {
                    from,
                    loops,
                    genuine,
                };
                if is_looped {
                    self.link.send_back(self.now, sender, frame);
                } else {
                    self.link.send(self.now, sender, frame);
                }
            }
        }
        // The allocations are reused.
        function.state.outbox = outbox;
        function.state.lan_outbox = lan_outbox;
        function.state.port_ready_at = self.link.port_ready_at(index);
    }

    /// Changes the quality of the link from now on.
    pub(crate) fn set_quality(&mut self, quality: Quality) {
        self.link.set_quality(quality);
        for (index, function) in self.functions.iter_mut().enumerate() {
            function.state.port_ready_at = self.link.port_ready_at(index);
        }
    }

    /// Checks whether memory was written after it was freed.
    pub(crate) fn check_freed(&mut self) {
        for (index, function) in self.functions.iter_mut().enumerate() {
            function.state.memory.check_freed(&mut |kind, text| {
                let now = Ns(self.now);
                self.log.add(now, index as u8, kind, text);
            });
        }
    }

    /// The messages sent since the last call.
    pub(crate) fn take_fired(&mut self) -> Fired {
        let mut all = Vec::new();
        for function in &mut self.functions {
            let fired = function.take_fired();
            if !fired.is_empty() {
                all.push((Arc::clone(&function.state.lines), fired));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests;
