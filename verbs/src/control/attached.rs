//! A function that another process owns: this one is attached to it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use e810::Platform;
use e810_attach::platform::AttachedPlatform;
use e810_attach::program::Program;
use e810_attach::socket::Socket;
use e810_attach::threads::spawn;

use super::{Answer, Command, ControlPlane, Refused};
use crate::control::EventSink;
use crate::errno::NotOpened;
use crate::fork::Process;
use crate::limits::complain_of_table;
use crate::memory;
use crate::rings::{DataPathOps, PlatformRings, RingMaker};

/// How an `at:PATH` device is written.
pub(crate) const AT: &str = "at:";

/// This program, which has slots of its own.
pub(super) struct Attached<P: Platform> {
    program: Program<P>,
    rings: Arc<dyn RingMaker>,
    data_path: &'static DataPathOps,
    /// The process whose thread hears the owner.
    process: Process,
}

/// Attaches this process to the owner that listens at `path`.
///
/// # Errors
/// One line that says what failed, and what to do.
pub(crate) fn open(path: &Path) -> Result<Arc<dyn ControlPlane>, NotOpened> {
    let attached = attach(path);
    attached.map_err(|error| NotOpened::new(&format!("{AT}{}", path.display()), &error))
}

fn attach(path: &Path) -> anyhow::Result<Arc<dyn ControlPlane>> {
    let socket = Socket::connect(path).context("nobody serves a function there")?;
    let program = Program::attach(Arc::new(socket))?;
    let attached = Attached::hearing(program, true)?;
    attached.lend_process()?;
    Ok(attached)
}

impl Attached<AttachedPlatform> {
    /// Lets the owner's device reach what the program registers.
    pub(super) fn lend_process(&self) -> Result<(), Refused> {
        self.program.lend_process()
    }
}

impl<P: Platform + Send + Sync + 'static> Attached<P> {
    /// Starts the thread that hears the owner. It holds the control path until the owner is gone.
    /// `yields`: the device is a program of this machine, and needs its processors.
    pub(super) fn hearing(program: Program<P>, yields: bool) -> anyhow::Result<Arc<Self>> {
        let data_path = match yields {
            true => DataPathOps::uncancelled::<P>(),
            false => DataPathOps::of::<P>(),
        };
        let attached = Arc::new(Self {
            rings: Arc::new(PlatformRings::new(program.rings(), yields)),
            program,
            data_path,
            process: Process::this(),
        });
        let hears = attached.clone();
        spawn("e810-events", move || hears.program.hear()).context("a thread for events")?;
        Ok(attached)
    }
}

impl<P: Platform + Send + Sync + 'static> fmt::Debug for Attached<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attached")
    }
}

impl<P: Platform + Send + Sync + 'static> ControlPlane for Attached<P> {
    fn call(&self, command: Command) -> Result<Answer, Refused> {
        self.process.check()?;
        if command.makes_something() {
            memory::check()?;
        }
        let answer = self.program.call(command);
        if let Err(refused) = &answer {
            complain_of_table(refused);
        }
        answer
    }

    fn listen(&self, sink: &Arc<dyn EventSink>) {
        self.program.listen(sink);
    }

    fn rings(&self) -> Result<Arc<dyn RingMaker>, Refused> {
        self.process.check()?;
        Ok(self.rings.clone())
    }

    fn data_path(&self) -> &'static DataPathOps {
        self.data_path
    }
}
