//! The cold start: from a function as a reset leaves it to one whose engine can
//! be spoken to (control-path 9.3).
//!
//! A kernel's network driver does this on a host; under VFIO, or in a
//! unikernel, nobody has. Each stage is what RDMA needs of that, and says why;
//! where the need follows from how data flows rather than from a source, it is
//! marked `[inf]`. A stage that fails gives the one before back, and shutting
//! down undoes all of them in the opposite order, ends the AdminQ and resets the
//! function, as existing drivers do when they unload.
//!
//! Left out are steps that RDMA has no use for: NVM versions, flow director and
//! its counters, tables of filters in software, driver version, LAN queues and
//! their part of the scheduler's tree, the choice of a tree of another depth.

use e810_adminq::oicr;
use e810_adminq::op::LinkStatus;
use e810_adminq::package::Loaded;
use e810_adminq::{AdminQ, Counters};
use e810_hal::bus::PfId;
use e810_hal::{Bus, Platform, Vector, log_warn};
use e810_types::MacAddr;

use crate::config::Config;
use crate::device::{Commands, Device};
use crate::error::Result;

mod adminq;
mod events;
mod filter;
mod identity;
mod link;
mod package;
mod queue_sets;
mod reset;
mod rules;
mod tree;
mod vsi;

pub use adminq::AdminqUp;
pub use events::{LAN_EVENTS, LanEvent};
pub use identity::{Identified, Identity};
pub use link::{LinkPolicy, LinkUp};
pub use package::{PackageLoaded, PackageSource};
pub(crate) use queue_sets::LanSide;
pub use reset::{FunctionReset, reset_card};
pub use rules::LanReady;
pub use tree::TreeFound;
pub use vsi::VsiUp;

/// A function of which nothing is known, and to which nothing was written.
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

impl<P: Platform> Commands for AdminqUp<P> {
    fn admin_commands(&self) -> u64 {
        self.queue.counters().commands
    }
}

macro_rules! commands_below {
    ($($stage:ident),+) => { $(
        impl<P: Platform> Commands for $stage<P> {
            fn admin_commands(&self) -> u64 {
                self.below.admin_commands()
            }
        }
    )+ };
}

commands_below!(
    Identified,
    TreeFound,
    PackageLoaded,
    VsiUp,
    LinkUp,
    LanReady
);

impl<P: Platform> LanReady<P> {
    /// The function's number.
    pub(crate) const fn pf(&self) -> PfId {
        self.below.below.below.below.below.below.pf
    }

    const fn vsi_up(&self) -> &VsiUp<P> {
        &self.below.below
    }

    const fn vsi_up_mut(&mut self) -> &mut VsiUp<P> {
        &mut self.below.below
    }

    fn queue(&mut self) -> &mut AdminQ<P> {
        self.vsi_up_mut().queue()
    }

    /// Who the function is.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.below.below.below.below.below.identity
    }

    /// The package the card works with.
    #[must_use]
    pub const fn package(&self) -> Loaded {
        self.below.below.below.loaded
    }

    /// The port's MAC address, first octet first.
    #[must_use]
    pub const fn mac(&self) -> MacAddr {
        self.identity().mac
    }

    /// The link as it was when the cold start left it; events tell later changes.
    #[must_use]
    pub const fn link_at_start(&self) -> LinkStatus {
        self.below.status
    }

    /// The link as last heard of: at the start, or in the last event that
    /// [`Control::service`](crate::Control::service) has taken.
    #[must_use]
    pub const fn link(&self) -> LinkStatus {
        self.link
    }

    /// AdminQ commands and events so far.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.below.below.below.below.below.below.queue.counters()
    }

    /// Binds errors and AdminQ events to the vector of the asynchronous event
    /// queue, before that queue switches it on.
    pub(crate) fn bind_causes(&self, bus: &impl Bus, vector: Vector) -> Result<()> {
        Ok(oicr::bind(bus, vector)?)
    }

    /// Takes them off it again.
    pub(crate) fn unbind_causes(&self, bus: &impl Bus) {
        oicr::unbind(bus);
    }

    /// Undoes the LAN side, from the last stage to the reset.
    pub(crate) fn undo(self, platform: P, config: Config) -> Result<()> {
        Device::begin(platform, config, self).shutdown()
    }

    /// Gives the memory back after a reset from outside.
    pub(crate) fn release_after_reset(self) {
        let queue = self.below.below.below.below.below.below.queue;
        if let Err(error) = queue.release_after_reset() {
            log_warn!("{}", error);
        }
    }
}
