//! Switch rules, and what is known then (steps 28, 29).

use e810_adminq::Error as AdminqError;
use e810_adminq::op::{AddRule, LinkStatus, LldpEvents, RemoveRule, RuleId};
use e810_adminq::tree::{CLASSES, QueueSet};
use e810_hal::clock::live;
use e810_hal::regs::PRTDCB_TUP2TC;
use e810_hal::{Ns, Platform};
use e810_types::MacAddr;
use heapless::{Deque, Vec};

use super::events::{LAN_EVENTS, LanEvent};
use super::{LinkUp, VsiUp};
use crate::config::Lan;
use crate::device::{Device, Failed};
use crate::error::Result;

/// Rules of a function: its own address and broadcast.
type Rules = Vec<RuleId, 2>;

/// Rules that the firmware did not remove, and what they let in: they serve
/// whoever wants the same again, or go with the LAN side. Of more of them the
/// reset at the end takes care.
pub(super) type Left = Vec<(MacAddr, RuleId), 8>;

const BROADCAST: MacAddr = MacAddr([0xFF; 6]);

/// The LAN side is ready: the engine can be brought up on it.
#[derive(Debug)]
pub struct LanReady<P: Platform> {
    pub(super) below: LinkUp<P>,
    rules: Rules,
    pub(super) left: Left,
    /// The link, as last heard of.
    pub(super) link: LinkStatus,
    /// Traffic class of each user priority.
    pub(super) up2tc: [u8; CLASSES],
    pub(super) sets: Vec<QueueSet, CLASSES>,
    pub(super) filter: bool,
    pub(super) events: Deque<LanEvent, LAN_EVENTS>,
    pub(super) lost: u32,
    pub(super) looked: Ns,
}

impl<P: Platform> Device<P, LinkUp<P>> {
    /// Lets frames to the port's address and broadcasts in, and reads which
    /// traffic class each user priority has (steps 28, 29).
    ///
    /// Asks for events about changes of the priorities first: the firmware's agent
    /// tells only who has asked (`ice/ice_dcb.c ice_init_dcb`). One without DCB
    /// refuses, and has nothing to tell.
    ///
    /// Without a rule for its address a frame does not reach the VSI, and so
    /// not the engine. Queue pairs go to the class of their priority.
    ///
    /// # Errors
    /// Refused commands; what was made is undone.
    #[inline(never)]
    pub fn add_rules(mut self) -> Result<Device<P, LanReady<P>>, Failed<P, LinkUp<P>>> {
        let told = self
            .stage
            .below
            .queue()
            .attempt(&LldpEvents { wanted: true });
        let made = told.and_then(|_| add(&mut self.stage.below));
        let made = made.map_err(crate::Error::from);
        let made = made.and_then(|rules| match priorities(&self.platform) {
            Ok(up2tc) => Ok((rules, up2tc)),
            Err(error) => {
                let _ = remove(&mut self.stage.below, rules);
                Err(error)
            }
        });
        let looked = self.platform.now();
        match made {
            Ok((rules, up2tc)) => {
                let mut ready = self.map(|below| LanReady {
                    link: below.status,
                    below,
                    rules,
                    left: Left::new(),
                    up2tc,
                    sets: Vec::new(),
                    filter: false,
                    events: Deque::new(),
                    lost: 0,
                    looked,
                });
                ready.config.lan = ready.lan();
                Ok(ready)
            }
            Err(error) => Err((self, error)),
        }
    }
}

fn add<P: Platform>(stage: &mut VsiUp<P>) -> Result<Rules, AdminqError> {
    let (vsi, own) = (stage.vsi, stage.below.below.below.identity.mac);
    let mut rules = Rules::new();
    for mac in [own, BROADCAST] {
        match stage.queue().execute(&AddRule::mac(vsi, mac)) {
            // As many places as rules.
            Ok(rule) => drop(rules.push(rule)),
            Err(error) => {
                // A reply that makes no sense may be about a rule that exists.
                stage.named |= error.refusal().is_none();
                // The first error says more than one that undoing may add.
                let _ = remove(stage, rules);
                return Err(error);
            }
        }
    }
    Ok(rules)
}

/// Removes rules, the last one first. Goes on after a refusal and reports the
/// first; a firmware that does not answer is not asked again.
fn remove<P: Platform>(stage: &mut VsiUp<P>, mut rules: Rules) -> Result<(), AdminqError> {
    let vsi = stage.vsi;
    let mut result = Ok(());
    while let Some(rule) = rules.pop() {
        if let Err(error) = stage.queue().execute(&RemoveRule::mac(vsi, rule)) {
            result = result.and(Err(error));
            stage.named = true;
            if error.leaves_command_open() {
                break;
            }
        }
    }
    result
}

/// Three bits a priority (control-path 9.11). Without DCB all are class 0.
pub(super) fn priorities<P: Platform>(platform: &P) -> Result<[u8; CLASSES]> {
    let map = live("PRTDCB_TUP2TC", PRTDCB_TUP2TC.get(platform))?;
    let mut classes = [0; CLASSES];
    for (priority, class) in classes.iter_mut().enumerate() {
        *class = (map >> priority.saturating_mul(3)) as u8 & 7;
    }
    Ok(classes)
}

impl<P: Platform> Device<P, LanReady<P>> {
    /// What the engine needs of the LAN side.
    #[must_use]
    pub const fn lan(&self) -> Lan {
        Lan {
            vsi: self.stage.vsi_up().vsi,
            mac: self.stage.identity().mac,
            mtu: self.config.lan.mtu,
        }
    }

    /// The link as it was found last.
    #[must_use]
    pub const fn link(&self) -> LinkStatus {
        self.stage.below.status
    }

    /// Undoes everything in order.
    ///
    /// # Errors
    /// The first step that failed; what the firmware may still use is leaked.
    #[inline(never)]
    pub fn shutdown(mut self) -> Result<()> {
        let rules = core::mem::take(&mut self.stage.rules);
        let removed = remove(&mut self.stage.below.below, rules);
        for (mac, rule) in core::mem::take(&mut self.stage.left) {
            self.stage.end_admission(mac, rule);
        }
        let below = self.map(|stage| stage.below).shutdown();
        removed?;
        below
    }
}
