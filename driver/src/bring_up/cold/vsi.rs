//! The VSI, and its element in the scheduler's tree (control-path 9.3, steps 24, 25).

use e810_adminq::op::{AddVsi, FreeVsi, VsiContext};
use e810_adminq::package::Loaded;
use e810_adminq::tree::Tree;
use e810_adminq::{AdminQ, Error as AdminqError};
use e810_hal::bus::PfId;
use e810_hal::{HostBox, Platform};

use super::PackageLoaded;
use crate::bring_up::{Device, Failed};
use crate::error::Result;
use crate::lan::{Identity, Vsi, undo_vsi};

/// The function has a VSI.
#[derive(Debug)]
pub struct VsiUp<P: Platform> {
    pub(super) pf: PfId,
    pub(super) adminq: AdminQ<P>,
    pub(super) identity: Identity,
    pub(super) tree: HostBox<P, Tree>,
    pub(super) package: Loaded,
    pub(super) vsi: Vsi,
}

/// The traffic class of queue pairs without a path, and of everything without
/// DCB (control-path 9.11).
const FIRST_CLASS: u8 = 0;

impl<P: Platform> Device<P, PackageLoaded<P>> {
    /// Adds the main VSI and its element in the tree (control-path 9.3, steps 24, 25).
    ///
    /// Every queue of the engine names this VSI; frames leave through its
    /// element, and switch rules lead to it.
    ///
    /// # Errors
    /// Refused commands; what was made is undone.
    #[inline(never)]
    pub fn add_vsi(mut self) -> Result<Device<P, VsiUp<P>>, Failed<P, PackageLoaded<P>>> {
        match add(&mut self.stage) {
            Ok(vsi) => Ok(self.map(|stage| VsiUp {
                pf: stage.pf,
                adminq: stage.adminq,
                identity: stage.identity,
                tree: stage.tree,
                package: stage.package,
                vsi,
            })),
            Err(error) => Err((self, error.into())),
        }
    }
}

fn add<P: Platform>(stage: &mut PackageLoaded<P>) -> Result<Vsi, AdminqError> {
    let swid = stage.identity.port.swid;
    let context = VsiContext::main(swid, stage.package.vlan);
    let (tree, adminq) = (&mut stage.tree, &mut stage.adminq);
    let id = adminq.execute(&AddVsi(context))?.vsi;
    let hung = tree.add_vsi(adminq, FIRST_CLASS);
    if let Err(error) = hung {
        if !error.leaves_command_open() {
            // The first error says more than one that undoing may add.
            let _ = tree.clear(adminq);
            let _ = adminq.execute(&FreeVsi(id));
        }
        return Err(error);
    }
    Ok(Vsi {
        id,
        context,
        named: false,
    })
}

impl<P: Platform> Device<P, VsiUp<P>> {
    /// Undoes everything in order: elements of the tree, VSI, AdminQ, reset.
    ///
    /// # Errors
    /// The first step that failed; what the firmware may still use is leaked.
    #[inline(never)]
    pub fn shutdown(self) -> Result<()> {
        let VsiUp {
            adminq, tree, vsi, ..
        } = self.stage;
        undo_vsi(vsi, tree, adminq, &self.platform)
    }
}
