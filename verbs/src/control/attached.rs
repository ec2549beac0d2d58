//! A function that another process owns: this one is attached to it.

use std::fmt::{self, Debug};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use e810::Platform;
use e810_attach::places::Places;
use e810_attach::program::{self, Program};
use e810_attach::socket::Socket;
use e810_attach::threads::spawn;

use super::closed::Closed;
use super::{Answer, Command, ControlPlane, Refused};
use crate::control::EventSink;
use crate::errno::NotOpened;
use crate::fork::Process;
use crate::limits::complain_of_table;
use crate::memory;
use crate::rings::{DataPathOps, PlatformRings, RingMaker};

/// How an `at:PATH` device is written; [`WAIT`] may follow.
pub(crate) const AT: &str = "at:";
/// Before the seconds that it waits for a server.
pub(crate) const WAIT: &str = "@wait=";

/// This program, which has slots of its own.
pub(super) struct Attached<P: Platform> {
    program: Program<P>,
    rings: Arc<dyn RingMaker>,
    data_path: &'static DataPathOps,
    /// The process whose thread hears the owner.
    process: Process,
}

/// Attaches this process to the owner that listens at `path`, for which it waits.
///
/// # Errors
/// One line that says what failed, and what to do.
pub(crate) fn open(path: &Path, wait: Duration) -> Result<Arc<dyn ControlPlane>, NotOpened> {
    let attached = attach(path, wait);
    attached.map_err(|error| NotOpened::new(&format!("{AT}{}", path.display()), &error))
}

fn attach(path: &Path, wait: Duration) -> anyhow::Result<Arc<dyn ControlPlane>> {
    over(Places::only(path.to_owned()).connect(wait)?)
}

/// Attaches this process to the owner at the other end of a socket.
///
/// # Errors
/// The owner does not admit it; no memory, no thread.
pub(super) fn over(socket: Socket) -> anyhow::Result<Arc<dyn ControlPlane>> {
    Ok(match program::Attached::over(Arc::new(socket))? {
        program::Attached::Simulated(program) => {
            program.lend_process()?;
            // The device is a program of this machine, and needs its processors.
            Attached::hearing(program, true)?
        }
        program::Attached::Function(program) => Attached::hearing(program, false)?,
    })
}

impl<P: Platform + Debug + Send + Sync + 'static> Attached<P> {
    /// Starts the thread that hears the owner. It holds the control path until the owner is gone.
    fn hearing(program: Program<P>, yields: bool) -> anyhow::Result<Arc<Self>> {
        let attached = Arc::new(Self {
            rings: Arc::new(PlatformRings::new(program.rings(), yields)),
            program,
            data_path: DataPathOps::uncancelled::<P>(),
            process: Process::this(),
        });
        let hears = attached.clone();
        spawn("e810-events", move || hears.program.hear()).context("a thread for events")?;
        Ok(attached)
    }
}

impl<P: Platform> Debug for Attached<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attached")
    }
}

impl<P: Platform + Debug + Send + Sync + 'static> ControlPlane for Attached<P> {
    fn call(&self, command: Command) -> Result<Answer, Refused> {
        self.process.check()?;
        if command.makes_something() {
            memory::check()?;
        }
        let frees = matches!(
            command,
            Command::DeallocPd(_) | Command::DeregMr(_) | Command::DestroyAh(_)
        );
        let again = frees.then(|| command.clone());
        let answer = self.program.call(command);
        if let Err(refused) = &answer {
            complain_of_table(refused);
            if let Some(command) = again
                && self.is_over()
            {
                return Closed(self.data_path).call(command);
            }
        }
        answer
    }

    fn listen(&self, sink: &Arc<dyn EventSink>) {
        self.program.listen(sink);
    }

    fn rings(&self) -> Result<Arc<dyn RingMaker>, Refused> {
        self.process.check()?;
        if self.program.is_over() {
            return Err(Refused::gone("the owner of the function has ended"));
        }
        Ok(self.rings.clone())
    }

    fn data_path(&self) -> &'static DataPathOps {
        self.data_path
    }

    fn is_over(&self) -> bool {
        self.process.is_this() && self.program.is_over()
    }
}
