//! The DDP package (control-path 9.3, steps 20 to 22).

use e810_adminq::AdminQ;
use e810_adminq::package::{Loaded, Package, load};
use e810_adminq::reset::wait_for_firmware;
use e810_adminq::tree::Tree;
use e810_hal::bus::PfId;
use e810_hal::{HostBox, Platform};

use super::TreeFound;
use crate::bring_up::{Device, Failed};
use crate::error::{Error, Result};
use crate::lan::{Identity, end_adminq};

/// Where the package comes from.
#[derive(Clone, Copy, Debug)]
pub enum PackageSource<'a> {
    /// A file that was checked.
    File(Package<'a>),
    /// Another function of the card has loaded one.
    AnotherFunction,
}

/// The card knows its protocols.
#[derive(Debug)]
pub struct PackageLoaded<P: Platform> {
    pub(super) pf: PfId,
    pub(super) adminq: AdminQ<P>,
    pub(super) identity: Identity,
    pub(super) tree: HostBox<P, Tree>,
    pub(super) package: Loaded,
}

impl<P: Platform> Device<P, TreeFound<P>> {
    /// Waits for the rest of the firmware, then loads the package, unless another function has,
    /// and sets the VLAN mode with it (control-path 9.3, steps 20 to 22).
    ///
    /// Without a package existing drivers disable all RDMA capabilities; it contains the profiles
    /// by which frames reach the engine. Whether the silicon could do without it is not in the
    /// sources.
    ///
    /// # Errors
    /// No package, one that does not fit the firmware or is refused, a lock that is not released;
    /// [`Error::HalfConfigured`] if only [`reset_card`](crate::reset_card) or a restart helps.
    /// That reset is never done here, because it resets all functions of the card.
    #[inline(never)]
    pub fn load_package(
        mut self,
        source: &PackageSource<'_>,
    ) -> Result<Device<P, PackageLoaded<P>>, Failed<P, TreeFound<P>>> {
        let file = match source {
            PackageSource::File(package) => Some(package),
            PackageSource::AnotherFunction => None,
        };
        let TreeFound {
            adminq, identity, ..
        } = &mut self.stage;
        let loaded = wait_for_firmware(&self.platform)
            .map_err(Error::from)
            .and_then(|()| Ok(load(adminq, file, identity.port.swid)?));
        match loaded {
            Ok(package) => Ok(self.map(|stage| PackageLoaded {
                pf: stage.pf,
                adminq: stage.adminq,
                identity: stage.identity,
                tree: stage.tree,
                package,
            })),
            Err(error) => Err((self, error)),
        }
    }
}

impl<P: Platform> Device<P, PackageLoaded<P>> {
    /// The package the card works with.
    #[must_use]
    pub const fn package(&self) -> Loaded {
        self.stage.package
    }

    /// Undoes everything in order; the package stays until the card is reset.
    ///
    /// # Errors
    /// The first step that failed; what the firmware may still use is leaked.
    #[inline(never)]
    pub fn shutdown(self) -> Result<()> {
        let PackageLoaded { adminq, tree, .. } = self.stage;
        drop(tree);
        end_adminq(adminq, &self.platform)
    }
}
