//! A function of this process, to which the process is attached as if another one had it. The
//! environment variable [`CONTROL`] selects it, for tests: everything that programs do works so as
//! well.

use std::env;
use std::sync::Arc;

use anyhow::Context as _;
use e810_attach::owner::{MemoryOf, Owner};
use e810_attach::program::Attached;
use e810_attach::session::Session;
use e810_attach::socket::Socket;
use e810_attach::threads::spawn;
use e810_backends::HostDevice;

use super::ControlPlane;
use super::attached;

/// The environment variable that puts a socket between the program and its own function: `socket`.
pub const CONTROL: &str = "E810_VERBS_CONTROL";

/// Whether [`CONTROL`] asks for it.
pub(super) fn is_wanted() -> bool {
    env::var_os(CONTROL).is_some_and(|how| how == "socket")
}

/// Attaches this process to the owner.
///
/// # Errors
/// No thread, no socket or no memory.
pub(super) fn attach<P: HostDevice>(
    owner: &Arc<Owner<P>>,
    platform: P,
) -> anyhow::Result<Arc<dyn ControlPlane>> {
    let [of_owner, of_program] = Socket::pair()?;
    let link = Arc::new(of_owner);
    let session = Session::begin(owner.clone(), platform, link, MemoryOf::Nobody)?;
    spawn("e810-commands", move || session.run()).context("a thread for commands")?;
    attached::through(Attached::over(Arc::new(of_program))?, None)
}
