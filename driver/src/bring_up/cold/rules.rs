//! Switch rules, and the LAN side that is ready with them (control-path 9.3, steps 28, 29).

use e810_adminq::op::{LinkStatus, LldpEvents};
use e810_hal::Platform;
use heapless::{Deque, Vec};

use super::LinkUp;
use crate::bring_up::{Device, Failed};
use crate::config::Lan;
use crate::error::{Error, Result};
use crate::lan::{LanSide, Left, Remains, add_rules, priorities, remove_rules};

/// The LAN side is ready: the engine can be brought up on it.
#[derive(Debug)]
pub struct LanReady<P: Platform> {
    pub(in crate::bring_up) lan: LanSide<P>,
}

impl<P: Platform> Device<P, LinkUp<P>> {
    /// Lets frames to the port's address and broadcasts pass, and reads the traffic class of each
    /// user priority (control-path 9.3, steps 28, 29).
    ///
    /// First asks for events about changes of the priorities: the firmware's agent reports them
    /// only to those who asked (`ice/ice_dcb.c ice_init_dcb`). A firmware without DCB refuses,
    /// and has nothing to report.
    ///
    /// Without a rule for its address a frame does not reach the VSI, and so not the engine.
    /// Queue pairs use the class of their priority.
    ///
    /// # Errors
    /// Refused commands; what was made is undone.
    #[inline(never)]
    pub fn add_rules(mut self) -> Result<Device<P, LanReady<P>>, Failed<P, LinkUp<P>>> {
        let LinkUp {
            adminq,
            identity,
            vsi,
            ..
        } = &mut self.stage;
        let subscribed = adminq.attempt(&LldpEvents { wanted: true });
        let made = subscribed.and_then(|_| add_rules(adminq, vsi, identity.mac));
        let made = made.map_err(Error::from);
        let made = made.and_then(|rules| match priorities(&self.platform) {
            Ok(up2tc) => Ok((rules, up2tc)),
            Err(error) => {
                let _ = remove_rules(adminq, vsi, rules);
                Err(error)
            }
        });
        let events_polled = self.platform.now();
        match made {
            Ok((rules, up2tc)) => {
                let mut ready = self.map(|stage| LanReady {
                    lan: LanSide {
                        pf: stage.pf,
                        adminq: stage.adminq,
                        identity: stage.identity,
                        tree: stage.tree,
                        package: stage.package,
                        vsi: stage.vsi,
                        link: stage.link,
                        rules,
                        left: Left::new(),
                        up2tc,
                        queue_sets: Vec::new(),
                        remains: Remains::default(),
                        port: None,
                        filter: false,
                        events: Deque::new(),
                        lost: 0,
                        events_polled,
                    },
                });
                ready.config.lan = ready.lan();
                Ok(ready)
            }
            Err(error) => Err((self, error)),
        }
    }
}

impl<P: Platform> Device<P, LanReady<P>> {
    /// What the engine needs to know about the LAN side.
    #[must_use]
    pub const fn lan(&self) -> Lan {
        Lan {
            vsi: self.stage.lan.vsi(),
            mac: self.stage.lan.mac(),
            mtu: self.config.lan.mtu,
        }
    }

    /// The link as last found.
    #[must_use]
    pub const fn link(&self) -> LinkStatus {
        self.stage.lan.link_at_start()
    }

    /// Undoes everything in order.
    ///
    /// # Errors
    /// The first step that failed; what the firmware may still use is leaked.
    #[inline(never)]
    pub fn shutdown(self) -> Result<()> {
        self.stage.lan.undo(&self.platform)
    }
}
