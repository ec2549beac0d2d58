//! The VSI at run time.

use e810_adminq::op::{FreeVsi, VsiContext};
use e810_adminq::tree::Tree;
use e810_adminq::{AdminQ, Error as AdminqError};
use e810_hal::Platform;
use e810_hal::bus::VsiId;

/// The function's VSI.
#[derive(Debug)]
pub(crate) struct Vsi {
    pub(crate) id: VsiId,
    /// As it was added.
    pub(crate) context: VsiContext,
    /// A switch rule may still name the VSI: freeing it is left to the reset.
    pub(crate) named: bool,
}

impl Vsi {
    /// Frees it, after its elements of the tree.
    pub(super) fn free<P: Platform>(
        &self,
        tree: &mut Tree,
        adminq: &mut AdminQ<P>,
    ) -> Result<(), AdminqError> {
        let cleared = tree.clear(adminq);
        let open = cleared.is_err_and(|error| error.leaves_command_open());
        let freed = if self.named || open {
            Ok(())
        } else {
            adminq.execute(&FreeVsi(self.id))
        };
        cleared.and(freed)
    }
}
