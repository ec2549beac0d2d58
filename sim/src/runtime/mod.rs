//! State shared by all handles of one simulator: the functions, time, and who runs the engines.
//!
//! Virtual time ([`VirtualTime`]) has one machine under one lock and executes its events in the
//! order that the seed decides. In real time ([`RealTime`]) each function is a resource of its own,
//! which the program's threads run, so that the engines of several functions work at the same time.

mod combining_lock;
mod frames;
mod helper;
mod real_time;
mod shared_function;
mod uplink;
mod virtual_time;

use std::sync::Arc;
use std::thread::JoinHandle;

use e810_hal::{Ns, RegOffset};

use self::real_time::RealTime;
use self::virtual_time::VirtualTime;
use crate::function::EngineEnv;
use crate::interrupt_lines::InterruptLines;
use crate::link::Uplink;
use crate::machine::{Fired, Machine};

pub use self::uplink::FromUplink;

/// How time passes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    /// Virtual time: the driver's calls advance it. There is no thread, and the same seed gives the
    /// same run.
    ///
    /// A register access takes 100 ns, a step of an engine some tens to hundreds of ns, and a delay
    /// its duration. Each `relax` executes one event. If no event is near, time advances in
    /// increments of 1 µs that grow to 100 µs. These are choices of the model: nothing measured in
    /// virtual time says how fast a card or a driver is.
    #[default]
    Virtual,
    /// Wall-clock time. When a program that polls calls `relax`, the engine of the function runs on
    /// the calling thread. A helper thread does what nobody else does, and ends with the last
    /// handle.
    Real,
}

#[derive(Debug)]
enum Clockwork {
    Virtual(Box<VirtualTime>),
    Real(Box<RealTime>),
}

/// Shared by the handles and, in real time, the helper thread.
#[derive(Debug)]
pub(crate) struct Runtime {
    clockwork: Clockwork,
    pub(crate) lines: Vec<Arc<InterruptLines>>,
}

impl Runtime {
    pub(crate) fn new(mode: Mode, machine: Machine, lines: Vec<Arc<InterruptLines>>) -> Self {
        let clockwork = match mode {
            Mode::Virtual => Clockwork::Virtual(Box::new(VirtualTime::new(machine))),
            Mode::Real => Clockwork::Real(Box::new(RealTime::new(machine))),
        };
        Self { clockwork, lines }
    }

    pub(crate) fn mode(&self) -> Mode {
        match self.clockwork {
            Clockwork::Virtual(_) => Mode::Virtual,
            Clockwork::Real(_) => Mode::Real,
        }
    }

    pub(crate) fn now(&self) -> Ns {
        match &self.clockwork {
            Clockwork::Virtual(time) => time.now(),
            Clockwork::Real(time) => time.now(),
        }
    }

    /// The time as the program of a function sees it.
    pub(crate) fn now_of(&self, function: u8) -> Ns {
        match &self.clockwork {
            Clockwork::Virtual(time) => time.now(),
            Clockwork::Real(time) => time.now_of(function.into()),
        }
    }

    /// Calls `f` with the machine after all earlier posted writes, and delivers the resulting
    /// interrupts.
    pub(crate) fn with_machine<R>(&self, f: impl FnOnce(&mut Machine) -> R) -> R {
        match &self.clockwork {
            Clockwork::Virtual(time) => time.with_machine(f),
            Clockwork::Real(time) => time.with_machine(f),
        }
    }

    /// Calls `f` with the environment of a function; [`Sim`](crate::Sim) made sure that it exists.
    pub(crate) fn with_function<R>(
        &self,
        function: u8,
        f: impl FnOnce(&mut EngineEnv<'_>) -> R,
    ) -> R {
        let index = usize::from(function);
        let result = match &self.clockwork {
            Clockwork::Virtual(time) => time.with_machine(|machine| {
                let now = machine.now().0;
                let function = machine.functions.get_mut(index)?;
                Some(f(&mut function.engine_env(&mut machine.log, now)))
            }),
            Clockwork::Real(time) => time.with_function(index, |function, log, now| {
                f(&mut function.engine_env(log, now))
            }),
        };
        match result {
            Some(result) => result,
            None => unreachable!("a platform of a function that is not there"),
        }
    }

    pub(crate) fn read32(&self, function: u8, off: RegOffset) -> u32 {
        match &self.clockwork {
            Clockwork::Virtual(time) => time.read32(function.into(), off),
            Clockwork::Real(time) => time.read32(function.into(), off),
        }
    }

    pub(crate) fn write32(&self, function: u8, off: RegOffset, value: u32) {
        match &self.clockwork {
            Clockwork::Virtual(time) => time.write32(function.into(), off, value),
            Clockwork::Real(time) => time.write32(function.into(), off, value),
        }
    }

    /// Puts frames from outside on the link; returns how many have a destination here.
    pub(crate) fn inject_frames<'a>(&self, frames: impl Iterator<Item = &'a [u8]>) -> usize {
        match &self.clockwork {
            Clockwork::Virtual(time) => time.with_machine(|machine| machine.inject_frames(frames)),
            Clockwork::Real(time) => time.inject(frames),
        }
    }

    pub(crate) fn set_uplink(&self, uplink: Option<Arc<dyn Uplink>>) {
        self.with_machine(|machine| machine.link.set_uplink(uplink.clone()));
        if let Clockwork::Real(time) = &self.clockwork {
            time.uplink.set(uplink);
        }
    }

    /// Takes frames that have come to the uplink. In virtual time they arrive at once.
    pub(crate) fn take_from_uplink(&self) -> FromUplink {
        match &self.clockwork {
            Clockwork::Virtual(time) => time.with_machine(uplink::take_into),
            Clockwork::Real(time) => time.take_from_uplink_without_program(),
        }
    }

    /// Lets `time` pass, for the program of a function.
    pub(crate) fn delay(&self, function: u8, time: Ns) {
        match &self.clockwork {
            Clockwork::Virtual(clock) => clock.delay(time),
            Clockwork::Real(clock) => clock.delay(function.into(), time),
        }
    }

    /// Does the pending work of a function on this thread. In virtual time that work takes time,
    /// which only the program makes pass.
    pub(crate) fn execute(&self, function: u8) {
        if let Clockwork::Real(time) = &self.clockwork {
            time.execute(function.into());
        }
    }

    /// Writes a doorbell for a thread that [attends](Self::attend) to the function next.
    pub(crate) fn ring(&self, function: u8, off: RegOffset, value: u32) {
        match &self.clockwork {
            Clockwork::Virtual(time) => time.write32(function.into(), off, value),
            Clockwork::Real(time) => time.ring(function.into(), off, value),
        }
    }

    /// Does pending work of a function on this thread, in real time; returns whether there may be
    /// more.
    pub(crate) fn attend(&self, function: u8) -> bool {
        match &self.clockwork {
            Clockwork::Virtual(_) => false,
            Clockwork::Real(time) => time.attend(function.into()),
        }
    }

    /// When this returns, the earlier work of a function is done. In virtual time only the program
    /// makes that happen.
    pub(crate) fn settle(&self, function: u8) {
        if let Clockwork::Real(time) = &self.clockwork {
            time.settle(function.into());
        }
    }

    /// One empty turn of a polling loop in the program of `function`.
    pub(crate) fn relax(&self, function: u8) {
        match &self.clockwork {
            Clockwork::Virtual(time) => time.with_machine(Machine::relax),
            Clockwork::Real(time) => time.relax(function.into()),
        }
    }
}

fn deliver(fired: Fired) {
    for (lines, vectors) in fired {
        lines.raise(&vectors);
    }
}

/// The last handle ends the thread.
#[derive(Debug)]
pub(crate) struct RuntimeOwner {
    pub(crate) runtime: Arc<Runtime>,
    helper: Option<JoinHandle<()>>,
}

impl RuntimeOwner {
    /// # Errors
    /// If the thread cannot be created.
    pub(crate) fn new(runtime: Runtime) -> std::io::Result<Self> {
        let runtime = Arc::new(runtime);
        let helper = match &runtime.clockwork {
            Clockwork::Virtual(_) => None,
            Clockwork::Real(_) => {
                let shared = Arc::clone(&runtime);
                let builder = std::thread::Builder::new().name("e810-sim".to_owned());
                Some(builder.spawn(move || {
                    if let Clockwork::Real(time) = &shared.clockwork {
                        time.help();
                    }
                })?)
            }
        };
        if let (Clockwork::Real(time), Some(helper)) = (&runtime.clockwork, &helper) {
            time.set_helper(helper.thread().clone());
        }
        Ok(Self { runtime, helper })
    }
}

impl Drop for RuntimeOwner {
    fn drop(&mut self) {
        let Some(helper) = self.helper.take() else {
            return;
        };
        if let Clockwork::Real(time) = &self.runtime.clockwork {
            time.stop_helper();
        }
        // An interrupt hook may hold the last handle: the thread cannot wait for itself, and ends
        // in any case.
        if helper.thread().id() != std::thread::current().id() {
            // A panic of the model was already printed. No handles are left, so there is no one to
            // report it to.
            let _ = helper.join();
        }
    }
}
