//! A control path behind a channel, as if it were in another process. The environment variable
//! [`CONTROL`] selects it, for tests: everything that programs do works over it as well.

use std::env;
use std::sync::Arc;

use anyhow::Context as _;
use e810_attach::link::ChannelEnd;
use e810_attach::owner::{MemoryOf, Owner};
use e810_attach::program::Program;
use e810_attach::session::Session;
use e810_attach::socket::Socket;
use e810_attach::threads::spawn;
use e810_backends::HostDevice;

use super::ControlPlane;
use super::attached::Attached;

/// The environment variable that attaches the program to its own function: `channel`, with rings and
/// regions as they are in one process; `socket`, as another process.
pub const CONTROL: &str = "E810_VERBS_CONTROL";

/// What [`CONTROL`] asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Over {
    Channel,
    Socket,
}

impl Over {
    pub(super) fn wanted() -> Option<Self> {
        match env::var_os(CONTROL)?.to_str()? {
            "channel" => Some(Self::Channel),
            "socket" => Some(Self::Socket),
            _ => None,
        }
    }

    /// Attaches this process to the owner.
    ///
    /// # Errors
    /// No thread, no socket or no memory.
    pub(super) fn attach<P: HostDevice>(
        self,
        owner: &Arc<Owner<P>>,
        platform: P,
        yields: bool,
    ) -> anyhow::Result<Arc<dyn ControlPlane>> {
        let serve = |link, memory| {
            let session = Session::begin(owner.clone(), platform.clone(), link, memory);
            spawn("e810-commands", move || session.run()).context("a thread for commands")
        };
        Ok(match self {
            Self::Channel => {
                let [of_owner, of_program] = ChannelEnd::pair();
                serve(Arc::new(of_owner), MemoryOf::Owner)?;
                let program = Program::new(Arc::new(of_program), platform.clone())?;
                Attached::hearing(program, yields)?
            }
            Self::Socket => {
                let [of_owner, of_program] = Socket::pair()?;
                serve(Arc::new(of_owner), MemoryOf::Nobody)?;
                let program = Program::attach(Arc::new(of_program))?;
                let attached = Attached::hearing(program, true)?;
                attached.lend_process()?;
                attached
            }
        })
    }
}
