//! A function that another process owns: this one is attached to it.

use std::fmt::{self, Debug};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use e810::Platform;
use e810_attach::places::Places;
use e810_attach::program::{self, Program};
use e810_attach::threads::spawn;

use super::closed::Closed;
use super::{Answer, Command, ControlPlane, Refused};
use crate::control::EventSink;
use crate::device::complain::complain;
use crate::errno::NotOpened;
use crate::fork::Process;
use crate::limits::complain_of_table;
use crate::memory;
use crate::rings::{DataPathOps, PlatformRings, RingMaker};

/// How an `at:PATH` device is written; [`WAIT`] may follow.
pub(crate) const AT: &str = "at:";
/// Before the seconds that it waits for a server.
pub(crate) const WAIT: &str = "@wait=";
/// What an error says about that.
const HOW_TO_WAIT: &str = "`e810 run --wait SECONDS`, or E810_VERBS=at:PATH@wait=SECONDS";

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
    let places = Places::only(path.to_owned()).with_how_to_wait(HOW_TO_WAIT);
    through(places.attach(wait)?, Some(path))
}

/// The control path of an attached program. The end of a server that listens `at` a socket is said
/// on standard error: who reads EIO, or an event, does not learn why.
///
/// # Errors
/// No memory, no thread.
pub(super) fn through(
    attached: program::Attached,
    at: Option<&Path>,
) -> anyhow::Result<Arc<dyn ControlPlane>> {
    let at = at.map(Path::to_owned);
    Ok(match attached {
        program::Attached::Simulated(program) => {
            program.lend_process()?;
            // The device is a program of this machine, and needs its processors.
            Attached::hearing(program, true, at)?
        }
        program::Attached::Function(program) => Attached::hearing(program, false, at)?,
    })
}

impl<P: Platform + Debug + Send + Sync + 'static> Attached<P> {
    /// Starts the thread that hears the owner. It holds the control path until the owner is gone.
    fn hearing(
        program: Program<P>,
        yields: bool,
        at: Option<PathBuf>,
    ) -> anyhow::Result<Arc<Self>> {
        let attached = Arc::new(Self {
            rings: Arc::new(
                PlatformRings::new(program.rings(), yields).with_why(program.why_no_memory()),
            ),
            program,
            data_path: DataPathOps::uncancelled::<P>(),
            process: Process::this(),
        });
        let hears = attached.clone();
        let hear = move || {
            hears.program.hear();
            // Nobody else has it: the program has closed the device.
            let is_in_use = Arc::strong_count(&hears) > 1;
            if let Some(at) = at.filter(|_| is_in_use) {
                complain(&format!(
                    "{AT}{}: the server, or its function, is gone: commands, posts and polls fail (EIO) until the device is opened again",
                    at.display()
                ));
            }
        };
        spawn("e810-events", hear).context("a thread for events")?;
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
            return Err(Refused::gone("the server of the function has ended"));
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
