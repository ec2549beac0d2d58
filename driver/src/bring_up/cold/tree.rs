//! The transmit scheduler's tree (control-path 9.3, steps 13, 14).

use e810_adminq::AdminQ;
use e810_adminq::tree::Tree;
use e810_hal::bus::PfId;
use e810_hal::{HostBox, Platform};

use super::Identified;
use crate::bring_up::{Device, Failed};
use crate::error::{Error, Result};
use crate::lan::{Identity, end_adminq};

/// The scheduler's tree is known, and free of the firmware's default chain.
#[derive(Debug)]
pub struct TreeFound<P: Platform> {
    pub(super) pf: PfId,
    pub(super) adminq: AdminQ<P>,
    pub(super) identity: Identity,
    pub(super) tree: HostBox<P, Tree>,
}

impl<P: Platform> Device<P, Identified<P>> {
    /// Asks for the scheduler's limits and default tree, and removes the default
    /// chain (control-path 9.3, steps 13, 14).
    ///
    /// A queue pair sends only through a queue set that hangs in this tree. The default chain is
    /// in the place where the VSI's element goes. A reset restores it.
    ///
    /// # Errors
    /// A tree of unknown depth; refused commands.
    #[inline(never)]
    pub fn find_tree(mut self) -> Result<Device<P, TreeFound<P>>, Failed<P, Identified<P>>> {
        let lport = self.stage.identity.port.lport;
        let found = Tree::discover(&mut self.stage.adminq, lport)
            .map_err(Error::from)
            .and_then(|tree| Ok(HostBox::new(self.platform.clone(), tree)?));
        match found {
            Ok(tree) => Ok(self.map(|stage| TreeFound {
                pf: stage.pf,
                adminq: stage.adminq,
                identity: stage.identity,
                tree,
            })),
            Err(error) => Err((self, error)),
        }
    }
}

impl<P: Platform> Device<P, TreeFound<P>> {
    /// Undoes everything in order.
    ///
    /// # Errors
    /// The first step that failed; what the firmware may still use is leaked.
    #[inline(never)]
    pub fn shutdown(self) -> Result<()> {
        let TreeFound { adminq, tree, .. } = self.stage;
        drop(tree);
        end_adminq(adminq, &self.platform)
    }
}
