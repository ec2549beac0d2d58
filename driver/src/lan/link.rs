//! The port's link at run time.

use e810_adminq::limits::LINK_SETTLES;
use e810_adminq::link;
use e810_adminq::op::LinkStatus;
use e810_hal::{Ns, Platform};

use super::LanSide;
use crate::error::Result;

/// What is known of the port's link.
#[derive(Debug)]
pub(crate) struct Link {
    /// As the cold start left it.
    pub(crate) at_start: LinkStatus,
    /// As last reported.
    pub(crate) now: LinkStatus,
    /// A wait for it may restart it, once; never where a management controller owns it.
    pub(crate) restarts: bool,
}

impl<P: Platform> LanSide<P> {
    /// Waits for the link, at most `limit`.
    pub(crate) fn wait_link(&mut self, limit: Ns) -> Result<LinkStatus> {
        let lport = self.identity.port.lport;
        let long_enough = limit.0 / 2 >= LINK_SETTLES.0;
        let restarts = long_enough && core::mem::take(&mut self.link.restarts);
        self.link.now = if restarts {
            link::wait_up(&mut self.adminq, lport, limit)?
        } else {
            link::wait_only(&mut self.adminq, lport, limit)?
        };
        Ok(self.link.now)
    }
}
