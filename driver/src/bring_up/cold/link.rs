//! The port's link and its frame size (control-path 9.3, steps 15, 18, 26).

use e810_adminq::op::{LinkInfo, LinkStatus, SetMacConfig};
use e810_adminq::package::Loaded;
use e810_adminq::tree::Tree;
use e810_adminq::{AdminQ, link};
use e810_hal::bus::{Index, PfId};
use e810_hal::clock::live;
use e810_hal::regs::{
    LINK_FLOW_CONTROL, PRTMAC_HSEC_CTL_TX_PAUSE_QUANTA, PRTMAC_HSEC_CTL_TX_PAUSE_REFRESH_TIMER,
};
use e810_hal::{HostBox, Ns, Platform, log_warn};

use super::VsiUp;
use crate::bring_up::{Device, Failed};
use crate::error::Result;
use crate::lan::{Identity, Link, Vsi, undo_vsi};

/// What to do about the port's link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkPolicy {
    /// Enable it and continue; a link event reports when there is one, or
    /// [`Control::wait_link`](crate::Control::wait_link) waits for it. Two functions that are
    /// cabled to each other need this: neither has a link before the other is enabled.
    GoOn,
    /// Enable it, wait this long for it, and fail without one.
    Wait(Ns),
    /// Leave it as it is, up or down: for boards whose management controller owns it. A later
    /// wait for the link changes nothing either.
    Leave,
}

/// The link is enabled.
#[derive(Debug)]
pub struct LinkUp<P: Platform> {
    pub(super) pf: PfId,
    pub(super) adminq: AdminQ<P>,
    pub(super) identity: Identity,
    pub(super) tree: HostBox<P, Tree>,
    pub(super) package: Loaded,
    pub(super) vsi: Vsi,
    pub(super) link: Link,
}

/// Greatest frame of a port in bytes, FCS included, as existing drivers set it
/// (`ICE_AQ_SET_MAC_FRAME_SIZE_MAX`).
const MAX_FRAME: u16 = 9728;

impl<P: Platform> Device<P, VsiUp<P>> {
    /// Sets the port's greatest frame, switches link events on and enables the
    /// link (control-path 9.3, steps 15, 18, 26).
    ///
    /// A port takes frames of 1500 bytes of payload by default; RoCE with a path MTU of 2048 or
    /// 4096 needs more. Nothing is sent without a link. If the firmware does not let the PHY be
    /// changed, this is only logged.
    ///
    /// # Errors
    /// Refused commands, except for those about the PHY; with [`LinkPolicy::Wait`], why there is
    /// no link.
    #[inline(never)]
    pub fn enable_link(
        mut self,
        policy: LinkPolicy,
    ) -> Result<Device<P, LinkUp<P>>, Failed<P, VsiUp<P>>> {
        match enable(&self.platform, &mut self.stage, policy) {
            Ok(status) => {
                let link = Link {
                    at_start: status,
                    now: status,
                    restarts: policy == LinkPolicy::GoOn,
                };
                Ok(self.map(|stage| LinkUp {
                    pf: stage.pf,
                    adminq: stage.adminq,
                    identity: stage.identity,
                    tree: stage.tree,
                    package: stage.package,
                    vsi: stage.vsi,
                    link,
                }))
            }
            Err(error) => Err((self, error)),
        }
    }
}

fn enable<P: Platform>(
    platform: &P,
    stage: &mut VsiUp<P>,
    policy: LinkPolicy,
) -> Result<LinkStatus> {
    let lport = stage.identity.port.lport;
    let queue = &mut stage.adminq;
    set_frame(platform, queue)?;
    let status = link::watch(queue, lport)?;
    let has_media = status.info.contains(LinkInfo::MEDIA);
    let changed = has_media && policy != LinkPolicy::Leave && link::configure(queue, lport)?;
    match (link::NoLink::of(&status), policy) {
        (None, LinkPolicy::Wait(limit)) if changed => Ok(link::wait_up(queue, lport, limit)?),
        (Some(_), LinkPolicy::Wait(limit)) => Ok(link::wait_up(queue, lport, limit)?),
        (Some(reason), _) => {
            log_warn!("the port has no link yet: {}", reason.text());
            Ok(status)
        }
        (None, _) => Ok(status),
    }
}

/// The command also sets pause time and threshold: they keep the values that the port has.
fn set_frame<P: Platform>(platform: &P, queue: &mut AdminQ<P>) -> Result<()> {
    let Some(element) = Index::new(LINK_FLOW_CONTROL) else {
        return Ok(());
    };
    let time = PRTMAC_HSEC_CTL_TX_PAUSE_QUANTA.at(element).get(platform);
    let refresh = PRTMAC_HSEC_CTL_TX_PAUSE_REFRESH_TIMER.at(element);
    let refresh = refresh.get(platform);
    // The low 16 bits are the fields.
    queue.execute(&SetMacConfig {
        max_frame: MAX_FRAME,
        pause_time: live("pause time of the port", time)? as u16,
        pause_refresh: live("pause threshold of the port", refresh)? as u16,
    })?;
    Ok(())
}

impl<P: Platform> Device<P, LinkUp<P>> {
    /// The link as last found.
    #[must_use]
    pub const fn link(&self) -> LinkStatus {
        self.stage.link.at_start
    }

    /// Undoes everything in order; the link stays as it is.
    ///
    /// # Errors
    /// The first step that failed; what the firmware may still use is leaked.
    #[inline(never)]
    pub fn shutdown(self) -> Result<()> {
        let LinkUp {
            adminq, tree, vsi, ..
        } = self.stage;
        undo_vsi(vsi, tree, adminq, &self.platform)
    }
}
