//! A control path behind a channel, as if it were in another process. The environment variable
//! [`CONTROL`] selects it, for tests: everything that programs do works over it as well.

use std::env;
use std::fmt;
use std::sync::Arc;

use anyhow::Context as _;
use e810::Platform;
use e810_attach::link::ChannelEnd;
use e810_attach::owner::{MemoryOf, Owner};
use e810_attach::program::Program;
use e810_attach::session::Session;
use e810_attach::threads::spawn;
use e810_backends::HostDevice;

use super::{Answer, Command, ControlPlane, Refused};
use crate::control::EventSink;
use crate::fork::Process;
use crate::limits::complain_of_table;
use crate::memory;
use crate::rings::{DataPathOps, PlatformRings, RingMaker};

/// The environment variable that puts a channel before the control path: `channel`.
pub const CONTROL: &str = "E810_VERBS_CONTROL";

/// Whether [`CONTROL`] asks for it.
pub(super) fn is_wanted() -> bool {
    env::var_os(CONTROL).is_some_and(|how| how == "channel")
}

/// A program with slots of its own.
struct Attached<P: Platform> {
    program: Arc<Program<P>>,
    rings: Arc<dyn RingMaker>,
    data_path: &'static DataPathOps,
    /// The process whose thread hears the owner.
    process: Process,
}

/// Attaches this process to the owner over a channel.
///
/// # Errors
/// No thread, or no memory.
pub(super) fn attach<P: HostDevice>(
    owner: &Arc<Owner<P>>,
    platform: P,
    yields: bool,
    data_path: &'static DataPathOps,
) -> anyhow::Result<Arc<dyn ControlPlane>> {
    let [of_owner, of_program] = ChannelEnd::pair();
    let session = Session::begin(
        owner.clone(),
        platform.clone(),
        Arc::new(of_owner),
        MemoryOf::Owner,
    );
    spawn("e810-commands", move || session.run()).context("a thread for commands")?;
    let program = Program::new(Arc::new(of_program), platform)?;
    let program = Arc::new(program);
    // Like the function's own thread, it holds the control path until the function is gone.
    let hears = program.clone();
    spawn("e810-events", move || hears.hear()).context("a thread for events")?;
    Ok(Arc::new(Attached {
        rings: Arc::new(PlatformRings::new(program.rings(), yields)),
        program,
        data_path,
        process: Process::this(),
    }))
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
