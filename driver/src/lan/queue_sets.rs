//! RDMA queue sets in the LAN side's tree (control-path 9.3, step 31).

use e810_adminq::code::Code;
use e810_adminq::op::{AddRule, RemoveRule, RuleId};
use e810_hal::bus::VsiId;
use e810_hal::{Platform, log_warn};
use e810_types::MacAddr;

use crate::error::{Error, Result};
use crate::lan::{LanHook, LanSide};

impl<P: Platform> LanHook for LanSide<P> {
    fn add_queue_set(&mut self, _: VsiId, traffic_class: u8, qs_handle: u16) -> Result<u32> {
        self.end_old_set(qs_handle)?;
        let adminq = &mut self.adminq;
        let added = self.tree.add_queue_set(adminq, traffic_class, qs_handle);
        let set = match added {
            Ok(set) => set,
            Err(failed) => {
                if let Some(set) = failed.may_exist {
                    self.keep_unsure_set(set);
                }
                return Err(failed.error.into());
            }
        };
        // One for each traffic class, and as many places.
        match self.queue_sets.push(set) {
            Ok(()) => Ok(set.teid),
            Err(set) => {
                // The error below says more than one that undoing may add.
                let _ = self.tree.remove_queue_set(&mut self.adminq, set);
                Err(Error::QueueSet {
                    qs_handle,
                    traffic_class,
                })
            }
        }
    }

    fn remove_queue_set(&mut self, _: VsiId, _: u16, teid: u32) {
        let Some(place) = self.queue_sets.iter().position(|set| set.teid == teid) else {
            return;
        };
        let set = self.queue_sets.swap_remove(place);
        self.remove_set(set);
    }
}

impl<P: Platform> LanSide<P> {
    /// Lets frames to one more address in; gives the rule to end it with.
    pub(crate) fn admit(&mut self, mac: MacAddr) -> Result<RuleId> {
        let place = self.left.iter().position(|(left, _)| *left == mac);
        if let Some(place) = place {
            let (_, rule) = self.left.swap_remove(place);
            return Ok(rule);
        }
        let added = self.adminq.execute(&AddRule::mac(self.vsi.id, mac));
        if let Err(error) = &added {
            // A reply that makes no sense may be about a rule that exists.
            self.vsi.named |= error.refusal().is_none();
        }
        Ok(added?)
    }

    /// As [`admit`](Self::admit); `None` where the switch has a rule for the address,
    /// which is nobody's here. Linux' ice goes on then, too.
    pub(crate) fn admit_once(&mut self, mac: MacAddr) -> Result<Option<RuleId>> {
        match self.admit(mac) {
            Ok(rule) => Ok(Some(rule)),
            Err(Error::Adminq(error)) if error.refusal() == Some(Code::EEXIST) => {
                log_warn!("the switch has a rule for {:?} already", mac);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Ends that. A refusal is only logged: the rule is there for the next who
    /// wants it, and goes at the end.
    pub(crate) fn end_admission(&mut self, mac: MacAddr, rule: RuleId) {
        let vsi = self.vsi.id;
        if let Err(error) = self.adminq.execute(&RemoveRule::mac(vsi, rule)) {
            log_warn!("switch rule {} stays: {}", rule, error);
            // One that may be removed yet is nobody's. Full: the reset at the end
            // takes it along.
            if error.refusal().is_some() {
                let _ = self.left.push((mac, rule));
            }
            self.vsi.named |= error.refusal().is_none();
        }
    }
}
