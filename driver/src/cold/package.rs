//! The DDP package (steps 20 to 22).

use e810_adminq::package::{Loaded, Package, load};
use e810_adminq::reset::wait_for_firmware;
use e810_hal::Platform;

use super::{Identified, TreeFound};
use crate::device::{Device, Failed};
use crate::error::{Error, Result};

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
    pub(super) below: TreeFound<P>,
    pub(super) loaded: Loaded,
}

impl<P: Platform> Device<P, TreeFound<P>> {
    /// Waits for the rest of the firmware, then loads the package, unless
    /// another function has, and sets the VLAN mode with it (steps 20 to 22).
    ///
    /// Without a package existing drivers take all RDMA capabilities away; the
    /// profiles by which frames reach the engine are in it. Whether the silicon
    /// could do without is not in the sources.
    ///
    /// # Errors
    /// No package, one that does not fit the firmware or is refused, a lock that
    /// is not given up; [`Error::HalfConfigured`] where only
    /// [`reset_card`](crate::reset_card) or a restart helps: it is never done
    /// here, because it resets all functions of the card.
    #[inline(never)]
    pub fn load_package(
        mut self,
        source: &PackageSource<'_>,
    ) -> Result<Device<P, PackageLoaded<P>>, Failed<P, TreeFound<P>>> {
        let file = match source {
            PackageSource::File(package) => Some(package),
            PackageSource::AnotherFunction => None,
        };
        let Identified {
            below: adminq,
            identity,
        } = &mut self.stage.below;
        let loaded = wait_for_firmware(&self.platform)
            .map_err(Error::from)
            .and_then(|()| Ok(load(&mut adminq.queue, file, identity.port.swid)?));
        match loaded {
            Ok(loaded) => Ok(self.map(|below| PackageLoaded { below, loaded })),
            Err(error) => Err((self, error)),
        }
    }
}

impl<P: Platform> Device<P, PackageLoaded<P>> {
    /// The package the card works with.
    #[must_use]
    pub const fn package(&self) -> Loaded {
        self.stage.loaded
    }

    /// Undoes everything in order; the package stays until the card is reset.
    ///
    /// # Errors
    /// The first step that failed; what the firmware may still use is leaked.
    #[inline(never)]
    pub fn shutdown(self) -> Result<()> {
        self.map(|stage| stage.below).shutdown()
    }
}
