//! RDMA queue sets in the LAN side's tree (step 31).

use e810_adminq::op::{AddRule, RemoveRule, RuleId};
use e810_hal::bus::VsiId;
use e810_hal::{HostBox, Platform, log_warn};
use e810_types::MacAddr;

use super::LanReady;
use crate::control::{LanHook, NoLanHook};
use crate::error::{Error, Result};

/// The LAN side of a device: ours after a cold start, `None` where another
/// driver has set the function up.
#[derive(Debug)]
pub(crate) struct LanSide<P: Platform>(pub(crate) Option<HostBox<P, LanReady<P>>>);

impl<P: Platform> LanHook for LanSide<P> {
    fn add_queue_set(&mut self, vsi: VsiId, traffic_class: u8, qs_handle: u16) -> Result<u32> {
        match &mut self.0 {
            Some(lan) => lan.add_queue_set(vsi, traffic_class, qs_handle),
            None => NoLanHook.add_queue_set(vsi, traffic_class, qs_handle),
        }
    }

    fn remove_queue_set(&mut self, vsi: VsiId, qs_handle: u16, teid: u32) {
        match &mut self.0 {
            Some(lan) => lan.remove_queue_set(vsi, qs_handle, teid),
            None => NoLanHook.remove_queue_set(vsi, qs_handle, teid),
        }
    }
}

impl<P: Platform> LanHook for LanReady<P> {
    fn add_queue_set(&mut self, _: VsiId, traffic_class: u8, qs_handle: u16) -> Result<u32> {
        let (tree, queue) = self.vsi_up_mut().tree();
        let set = tree.add_queue_set(queue, traffic_class, qs_handle)?;
        // One a traffic class, and as many places.
        match self.sets.push(set) {
            Ok(()) => Ok(set.teid),
            Err(set) => {
                let (tree, queue) = self.vsi_up_mut().tree();
                // The error below says more than one that undoing may add.
                let _ = tree.remove_queue_set(queue, set);
                Err(Error::QueueSet {
                    qs_handle,
                    traffic_class,
                })
            }
        }
    }

    /// A refusal is only logged: the engine has let go of the queue set, and the
    /// reset at the end takes its element along.
    fn remove_queue_set(&mut self, _: VsiId, _: u16, teid: u32) {
        let Some(place) = self.sets.iter().position(|set| set.teid == teid) else {
            return;
        };
        let set = self.sets.swap_remove(place);
        let (tree, queue) = self.vsi_up_mut().tree();
        if let Err(error) = tree.remove_queue_set(queue, set) {
            log_warn!("RDMA queue set {} stays: {}", set.handle, error);
        }
    }
}

impl<P: Platform> LanReady<P> {
    /// Lets frames to one more address in; gives the rule to end it with.
    pub(crate) fn admit(&mut self, mac: MacAddr) -> Result<RuleId> {
        let place = self.left.iter().position(|(left, _)| *left == mac);
        if let Some(place) = place {
            let (_, rule) = self.left.swap_remove(place);
            return Ok(rule);
        }
        let vsi = self.vsi_up().vsi;
        Ok(self.queue().execute(&AddRule::mac(vsi, mac))?)
    }

    /// Ends that. A refusal is only logged: the rule is there for the next who
    /// wants it, and goes at the end.
    pub(crate) fn end_admission(&mut self, mac: MacAddr, rule: RuleId) {
        let vsi = self.vsi_up().vsi;
        if let Err(error) = self.queue().execute(&RemoveRule::mac(vsi, rule)) {
            log_warn!("switch rule {} stays: {}", rule, error);
            // One that may be removed yet is nobody's. Full: the reset at the end
            // takes it along.
            if error.refusal().is_some() {
                let _ = self.left.push((mac, rule));
            }
        }
    }

    /// The traffic class of a priority. Queue pairs that have no path yet are in
    /// that of priority 0.
    pub(crate) fn class_of(&self, priority: u8) -> u8 {
        let class = self.up2tc.get(usize::from(priority));
        class.copied().unwrap_or_default()
    }
}
