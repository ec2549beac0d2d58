//! Switch rules, and the map of user priorities.

use e810_adminq::op::{AddRule, RemoveRule, RuleId};
use e810_adminq::tree::CLASSES;
use e810_adminq::{AdminQ, Error as AdminqError};
use e810_hal::Platform;
use e810_hal::clock::live;
use e810_hal::regs::PRTDCB_TUP2TC;
use e810_types::MacAddr;
use heapless::Vec;

use super::Vsi;
use crate::error::Result;

/// Rules of a function: its own address and broadcast.
pub(crate) type Rules = Vec<RuleId, 2>;

/// Rules that the firmware did not remove, and the address that they let in: they are used again
/// for the same address, or go with the LAN side. If there are more, the reset at the end removes
/// them.
pub(crate) type Left = Vec<(MacAddr, RuleId), 8>;

const BROADCAST: MacAddr = MacAddr([0xFF; 6]);

/// Lets frames to `own` and broadcasts pass.
pub(crate) fn add_rules<P: Platform>(
    adminq: &mut AdminQ<P>,
    vsi: &mut Vsi,
    own: MacAddr,
) -> Result<Rules, AdminqError> {
    let mut rules = Rules::new();
    for mac in [own, BROADCAST] {
        match adminq.execute(&AddRule::mac(vsi.id, mac)) {
            // As many places as rules.
            Ok(rule) => drop(rules.push(rule)),
            Err(error) => {
                // A reply that makes no sense may be about a rule that exists.
                vsi.named |= error.refusal().is_none();
                // The first error says more than one that undoing may add.
                let _ = remove_rules(adminq, vsi, rules);
                return Err(error);
            }
        }
    }
    Ok(rules)
}

/// Removes rules, the last one first. Goes on after a refusal and reports the first; a firmware
/// that does not answer is not asked again.
pub(crate) fn remove_rules<P: Platform>(
    adminq: &mut AdminQ<P>,
    vsi: &mut Vsi,
    mut rules: Rules,
) -> Result<(), AdminqError> {
    let mut result = Ok(());
    while let Some(rule) = rules.pop() {
        if let Err(error) = adminq.execute(&RemoveRule::mac(vsi.id, rule)) {
            result = result.and(Err(error));
            vsi.named = true;
            if error.leaves_command_open() {
                break;
            }
        }
    }
    result
}

/// Three bits a priority (control-path 9.11). Without DCB all are class 0.
pub(crate) fn priorities<P: Platform>(platform: &P) -> Result<[u8; CLASSES]> {
    let map = live("PRTDCB_TUP2TC", PRTDCB_TUP2TC.get(platform))?;
    let mut classes = [0; CLASSES];
    for (priority, class) in classes.iter_mut().enumerate() {
        *class = (map >> priority.saturating_mul(3)) as u8 & 7;
    }
    Ok(classes)
}
