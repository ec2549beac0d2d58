//! The cold start: from a PF reset to a function whose RDMA engine takes commands,
//! without another driver (control-path 9.3).
//!
//! On a host a kernel's network driver does this; under VFIO, or in a unikernel, nobody has done
//! it. Each stage does the part that RDMA needs, and says why. Where the need follows from how
//! data flows rather than from a source, it is marked `[inf]`. A stage that fails gives the one
//! before back. Shutting down undoes all of them in the opposite order, ends the AdminQ and
//! resets the function, as existing drivers do when they unload.
//!
//! Steps that RDMA does not need are left out: NVM versions, flow director and its counters,
//! tables of filters in software, driver version, the choice of a tree of another depth. LAN
//! queues and their part of the scheduler's tree are made later, on request
//! ([`Control::open_lan`](crate::Control::open_lan)).

use e810_hal::Platform;

use crate::bring_up::{Commands, Device};
use crate::config::Config;
use crate::error::Result;

mod adminq;
mod identity;
mod link;
mod package;
mod reset;
mod rules;
mod tree;
mod vsi;

pub use adminq::AdminqUp;
pub use identity::Identified;
pub use link::{LinkPolicy, LinkUp};
pub use package::{PackageLoaded, PackageSource};
pub use reset::{FunctionReset, reset_card};
pub use rules::LanReady;
pub use tree::TreeFound;
pub use vsi::VsiUp;

/// A function about which nothing is known, and to which nothing was written.
#[derive(Debug)]
pub struct Cold(());

impl<P: Platform> Device<P, Cold> {
    /// Takes a function that no other driver has set up. Touches nothing yet.
    /// The VSI and the MAC address of `config` are not used: the cold start
    /// finds its own.
    pub const fn cold(platform: P, config: Config) -> Self {
        Self::begin(platform, config, Cold(()))
    }

    /// Nothing to undo.
    ///
    /// # Errors
    /// None.
    pub fn shutdown(self) -> Result<()> {
        Ok(())
    }
}

impl Commands for FunctionReset {}

macro_rules! admin_commands {
    ($($stage:ident: $($path:ident).+),+ $(,)?) => { $(
        impl<P: Platform> Commands for $stage<P> {
            fn admin_commands(&self) -> u64 {
                self.$($path).+.counters().commands
            }
        }
    )+ };
}

admin_commands! {
    AdminqUp: adminq,
    Identified: adminq,
    TreeFound: adminq,
    PackageLoaded: adminq,
    VsiUp: adminq,
    LinkUp: adminq,
    LanReady: lan,
}
