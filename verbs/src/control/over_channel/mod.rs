//! A control path behind a channel, as if it were in another process.
//!
//! Only bytes (`bytes.rs`) pass between the owner of the function and the program: commands one
//! way ([`Asked`]); answers, events and what changes about queue pairs the other way, in one
//! stream ([`Told`]). The two share no slots: the program polls its queues with slots of its own
//! ([`e810::ProgramQueues`]). The environment variable [`CONTROL`] selects it, for tests:
//! everything that programs do works over it as well.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{env, thread};

use anyhow::Context as _;
use e810::{CqKey, ProgramLimits, QpChange};
use e810_backends::interrupts::HostPlatform;
use serde::{Deserialize, Serialize};

use super::in_process::take_no_signals;
use super::{Answer, Command, ControlPlane, Refused};
use crate::events::ControlEvent;
use crate::rings::DataPathOps;

mod owner;
mod program;

pub(super) use owner::ToProgram;

/// The environment variable that puts a channel before the control path: `channel`.
pub const CONTROL: &str = "E810_VERBS_CONTROL";

/// Whether [`CONTROL`] asks for it.
pub(super) fn is_wanted() -> bool {
    env::var_os(CONTROL).is_some_and(|how| how == "channel")
}

/// What a program asks.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Asked {
    /// Its answer has the same; 0: it wants none.
    number: u64,
    command: Command,
}

/// What a program is told.
#[derive(Debug, Serialize, Deserialize)]
enum Told {
    Answer(u64, Result<Answer, Refused>),
    Event(ControlEvent),
    /// Something about a queue pair has changed.
    Qp(QpChange),
    /// A completion queue that asked for an event has something to poll.
    CqEvent(CqKey),
    /// A completion queue has failed.
    CqFailed(CqKey),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The stream to a program, which exists before both ends.
pub(super) struct Stream {
    pub(super) to_program: Arc<ToProgram>,
    told: Receiver<Vec<u8>>,
}

impl Stream {
    pub(super) fn new() -> Self {
        let (give, told) = channel();
        Self {
            to_program: Arc::new(ToProgram::new(give)),
            told,
        }
    }

    /// Puts the channel before the control path that tells the program by it. `platform` is the
    /// program's.
    ///
    /// # Errors
    /// One line: no thread can be made, or no memory.
    pub(super) fn put_before<P: HostPlatform>(
        self,
        owner: Arc<dyn ControlPlane>,
        platform: P,
        limits: ProgramLimits,
        yields: bool,
    ) -> anyhow::Result<Arc<dyn ControlPlane>> {
        let (give, take): (Sender<Vec<u8>>, _) = channel();
        let data_path: &'static DataPathOps = owner.data_path();
        let (to_program, told) = (self.to_program, self.told);
        owner.listen(&to_program.events());
        spawn("e810-commands", move || {
            owner::carry_out(&owner, &to_program, &take);
        })?;
        let program = program::Program::new(give, platform, limits, yields, data_path)?;
        let program = Arc::new(program);
        // Like the function's own thread, it holds the control path until the function is gone.
        let hears = program.clone();
        spawn("e810-events", move || hears.hear(&told))?;
        Ok(program)
    }
}

fn spawn(name: &'static str, work: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    let thread = thread::Builder::new().name(name.to_owned());
    let spawned = thread.spawn(move || {
        take_no_signals();
        work();
    });
    spawned.map(drop).context(name)
}
