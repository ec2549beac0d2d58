//! The VSI, and its element in the scheduler's tree (steps 24, 25).

use e810_adminq::op::{AddVsi, FreeVsi, VsiContext};
use e810_adminq::tree::Tree;
use e810_adminq::{AdminQ, Error as AdminqError};
use e810_hal::Platform;
use e810_hal::bus::VsiId;

use super::PackageLoaded;
use crate::device::{Device, Failed};
use crate::error::Result;

/// The function has a VSI.
#[derive(Debug)]
pub struct VsiUp<P: Platform> {
    pub(super) below: PackageLoaded<P>,
    pub(super) vsi: VsiId,
    pub(super) context: VsiContext,
    /// A switch rule may still name the VSI: freeing it is left to the reset.
    pub(super) named: bool,
}

impl<P: Platform> VsiUp<P> {
    pub(super) const fn queue(&mut self) -> &mut AdminQ<P> {
        &mut self.below.below.below.below.queue
    }

    /// The tree, and the queue its commands go through.
    pub(super) fn tree(&mut self) -> (&mut Tree, &mut AdminQ<P>) {
        tree(&mut self.below)
    }
}

fn tree<P: Platform>(stage: &mut PackageLoaded<P>) -> (&mut Tree, &mut AdminQ<P>) {
    let found = &mut stage.below;
    (&mut found.tree, &mut found.below.below.queue)
}

/// The traffic class of queue pairs without a path, and of everything without
/// DCB (control-path 9.11).
const FIRST_CLASS: u8 = 0;

impl<P: Platform> Device<P, PackageLoaded<P>> {
    /// Adds the main VSI and its element in the tree (steps 24, 25).
    ///
    /// Every queue of the engine names this VSI; frames leave through its
    /// element, and switch rules lead to it.
    ///
    /// # Errors
    /// Refused commands; what was made is undone.
    #[inline(never)]
    pub fn add_vsi(mut self) -> Result<Device<P, VsiUp<P>>, Failed<P, PackageLoaded<P>>> {
        match add(&mut self.stage) {
            Ok((vsi, context)) => Ok(self.map(|below| VsiUp {
                below,
                vsi,
                context,
                named: false,
            })),
            Err(error) => Err((self, error.into())),
        }
    }
}

fn add<P: Platform>(stage: &mut PackageLoaded<P>) -> Result<(VsiId, VsiContext), AdminqError> {
    let swid = stage.below.below.identity.port.swid;
    let context = VsiContext::main(swid, stage.loaded.vlan);
    let (tree, queue) = tree(stage);
    let vsi = queue.execute(&AddVsi(context))?.vsi;
    let hung = tree.add_vsi(queue, FIRST_CLASS);
    if let Err(error) = hung {
        if !error.leaves_command_open() {
            // The first error says more than one that undoing may add.
            let _ = tree.clear(queue);
            let _ = queue.execute(&FreeVsi(vsi));
        }
        return Err(error);
    }
    Ok((vsi, context))
}

impl<P: Platform> Device<P, VsiUp<P>> {
    /// Undoes everything in order: elements of the tree, VSI, and what is below.
    ///
    /// # Errors
    /// The first step that failed; what the firmware may still use is leaked.
    #[inline(never)]
    pub fn shutdown(mut self) -> Result<()> {
        let VsiUp { vsi, named, .. } = self.stage;
        let (tree, queue) = self.stage.tree();
        let cleared = tree.clear(queue);
        let open = |result: &Result<(), AdminqError>| {
            result.is_err_and(|error| error.leaves_command_open())
        };
        let freed = if named || open(&cleared) {
            Ok(())
        } else {
            queue.execute(&FreeVsi(vsi))
        };
        let below = self.map(|stage| stage.below).shutdown();
        cleared.and(freed)?;
        below
    }
}
