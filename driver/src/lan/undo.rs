//! Undoing the LAN side, from the last stage of a cold start to the reset; and the single steps,
//! for stages that did not get so far.

use e810_adminq::AdminQ;
use e810_adminq::reset::reset_function;
use e810_adminq::tree::Tree;
use e810_hal::{HostBox, Platform, log_warn};

use super::{LanSide, Vsi, remove_rules};
use crate::error::Result;

impl<P: Platform> LanSide<P> {
    /// Undoes everything in order: leftover queues, switch rules, tree and VSI, AdminQ, reset.
    ///
    /// # Errors
    /// The first step that failed; what the firmware may still use is leaked.
    #[inline(never)]
    pub(crate) fn undo(mut self, platform: &P) -> Result<()> {
        let ended = self.end_remains();
        // Queue sets of leaves that the engine did not delete; the engine is gone.
        for set in core::mem::take(&mut self.queue_sets) {
            self.remove_set(set);
        }
        let rules = core::mem::take(&mut self.rules);
        let removed = remove_rules(&mut self.adminq, &mut self.vsi, rules);
        for (mac, rule) in core::mem::take(&mut self.left) {
            self.end_admission(mac, rule);
        }
        self.vsi.named |= !self.left.is_empty();
        let freed = self.vsi.free(&mut self.tree, &mut self.adminq);
        let closed = self.adminq.shutdown();
        // A function with a LAN side has reported that it is capable of RDMA.
        let reset = reset_function(platform, true).map(drop);
        if reset.is_ok() {
            self.remains.release_after_reset();
        }
        ended?;
        removed?;
        Ok(freed.and(closed).and(reset)?)
    }

    /// Gives the memory back after a reset from outside.
    pub(crate) fn release_after_reset(self) {
        self.remains.release_after_reset();
        if let Err(error) = self.adminq.release_after_reset() {
            log_warn!("{}", error);
        }
    }
}

/// Frees the VSI and its elements of the tree, then ends the AdminQ.
///
/// # Errors
/// The first step that failed; what the firmware may still use is leaked.
#[inline(never)]
pub(crate) fn undo_vsi<P: Platform>(
    vsi: Vsi,
    mut tree: HostBox<P, Tree>,
    mut adminq: AdminQ<P>,
    platform: &P,
) -> Result<()> {
    let freed = vsi.free(&mut tree, &mut adminq);
    drop(tree);
    let ended = end_adminq(adminq, platform);
    freed?;
    ended
}

/// Ends the AdminQ, then resets the function, so that nothing of this driver is left in it.
/// Resets even if ending the queue failed.
///
/// # Errors
/// The first step that failed; what the firmware may still use is leaked.
#[inline(never)]
pub(crate) fn end_adminq<P: Platform>(adminq: AdminQ<P>, platform: &P) -> Result<()> {
    let ended = adminq.shutdown();
    let reset = reset_function(platform, false).map(drop);
    Ok(ended.and(reset)?)
}
