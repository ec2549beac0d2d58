//! The port's link: events, enabling, waiting.

use e810_hal::{Ns, Platform, WaitError, log_info, poll_until};

use crate::error::{Error, Result};
use crate::limits::LINK_PAUSE;
use crate::op::{
    GetLinkStatus, GetPhyCaps, LinkEvents, LinkInfo, LinkStatus, PhyReport, RestartAn,
    SetEventMask, SetPhyConfig,
};
use crate::queue::AdminQ;

/// Why there is no link, as far as the port tells.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum NoLink {
    /// No module, no cable.
    NoMedia,
    /// The module cannot be used.
    Unusable,
    /// The port sees no signal.
    NoSignal,
    /// The partner reports a fault.
    Remote,
    /// None of these.
    Down,
}

impl NoLink {
    /// What the matter is, and what to do.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NoMedia => "there is no module or cable in it; plug one in",
            Self::Unusable => "its module is not supported; use one from the vendor's list",
            Self::NoSignal => "no signal from the other end; check cable and peer",
            Self::Remote => "the other end reports a fault; check cable and peer",
            Self::Down => "the other end does not agree on a link; check its speed and FEC",
        }
    }

    /// From the port's state; `None` when the link is up.
    #[must_use]
    pub const fn of(status: &LinkStatus) -> Option<Self> {
        let info = status.info;
        Some(if status.is_up() {
            return None;
        } else if !info.contains(LinkInfo::MEDIA) {
            Self::NoMedia
        } else if status.conflict & UNSUPPORTED_MEDIA != 0 {
            Self::Unusable
        } else if info.contains(LinkInfo::FAULT_REMOTE) {
            Self::Remote
        } else if !info.contains(LinkInfo::SIGNAL) {
            Self::NoSignal
        } else {
            Self::Down
        })
    }
}

/// topo_media_conflict: unsupported media (`ICE_AQ_LINK_TOPO_UNSUPP_MEDIA`).
const UNSUPPORTED_MEDIA: u8 = 1 << 7;

/// Switches link events on and enables the link, if it is not up: the PHY is
/// given all that port and module can do together, as existing drivers do.
/// Gives the state found; a link takes seconds to come up.
///
/// A PHY whose link is enabled but down is only told to try again. A new
/// configuration is applied at once by its own flag, so nothing is restarted
/// after it.
///
/// # Errors
/// Those of the commands.
pub fn enable<P: Platform>(queue: &mut AdminQ<P>, lport: u8) -> Result<LinkStatus> {
    queue.execute(&SetEventMask {
        lport,
        wanted: LinkEvents::all(),
    })?;
    let status = queue.execute(&GetLinkStatus {
        lport,
        events: Some(true),
    })?;
    if status.is_up() || !status.info.contains(LinkInfo::MEDIA) {
        return Ok(status);
    }
    let active = queue.execute(&GetPhyCaps {
        lport,
        report: PhyReport::Active,
    })?;
    if active.link_enabled() {
        let enable = true;
        queue.execute(&RestartAn { lport, enable })?;
        return Ok(status);
    }
    let all = queue.execute(&GetPhyCaps {
        lport,
        report: PhyReport::TopologyWithMedia,
    })?;
    if all.any_type() {
        queue.execute(&SetPhyConfig::enable(lport, &all))?;
    }
    Ok(status)
}

/// Waits for the link, at most `limit`.
///
/// # Errors
/// [`Error::NoLink`] with the reason at the limit; those of the command.
pub fn wait_up<P: Platform>(queue: &mut AdminQ<P>, lport: u8, limit: Ns) -> Result<LinkStatus> {
    let platform = queue.platform().clone();
    let label = "link";
    let mut reason = NoLink::Down;
    let waited = poll_until(&platform, label, limit, LINK_PAUSE, || {
        let status = queue.execute(&GetLinkStatus {
            lport,
            events: None,
        })?;
        Ok(match NoLink::of(&status) {
            None => Some(status),
            Some(why) => {
                reason = why;
                None
            }
        })
    });
    match waited {
        Err(Error::Wait(WaitError::Timeout { label: what, .. })) if what == label => {
            Err(Error::NoLink { reason })
        }
        Ok(status) => {
            log_info!("link up at {} Mbit/s", status.mbps);
            Ok(status)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_reason() {
        let status = |info, conflict| LinkStatus {
            conflict,
            config_error: 0,
            info,
            max_frame: 0,
            mbps: 0,
            phy_type: [0; 2],
        };
        let media = LinkInfo::MEDIA;
        let cases = [
            (LinkInfo::UP | media, 0, None),
            (LinkInfo::empty(), 0, Some(NoLink::NoMedia)),
            (media, 0x80, Some(NoLink::Unusable)),
            (media | LinkInfo::FAULT_REMOTE, 0, Some(NoLink::Remote)),
            (media, 0, Some(NoLink::NoSignal)),
            (media | LinkInfo::SIGNAL, 0, Some(NoLink::Down)),
        ];
        for (info, conflict, expected) in cases {
            assert_eq!(NoLink::of(&status(info, conflict)), expected);
        }
    }
}
