//! The port's link: events, enabling, waiting.

use e810_hal::{Ns, Platform, WaitError, log_info, poll_until};

use crate::error::{Error, Result};
use crate::limits::{LINK_PAUSE, LINK_SETTLES};
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
    /// What is wrong, and what to do.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NoMedia => "there is no module or cable in it; plug one in",
            Self::Unusable => "its module is not supported; use one from the vendor's list",
            Self::NoSignal => "no signal from the other end; check cable and peer",
            Self::Remote => "the other end reports a fault; check cable and peer",
            Self::Down => {
                "the other end does not agree on a link; check its speed, FEC and autonegotiation (errata E11, E12, E13)"
            }
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

/// Firmware that reports the default configuration of the PHY (`ICE_FW_API_REPORT_DFLT_CFG_*`).
const TELLS_DEFAULT: (u8, u8, u8) = (1, 7, 3);

/// Switches link events on and returns the state of the link.
///
/// # Errors
/// Those of the commands.
pub fn watch<P: Platform>(queue: &mut AdminQ<P>, lport: u8) -> Result<LinkStatus> {
    queue.execute(&SetEventMask {
        lport,
        wanted: LinkEvents::all(),
    })?;
    queue.execute(&GetLinkStatus {
        lport,
        events: Some(true),
    })
}

/// Configures the PHY to everything that port and module can do together, with the link enabled,
/// if it is configured otherwise. A link is not touched without need, because it takes seconds to
/// come up after a change (`ice/ice_main.c ice_configure_phy`). A link that is up is checked too:
/// with another error correction than the partner's it is up but receives nothing (field-evidence
/// 3.22).
///
/// A refusal is logged and counted: on some boards a management controller owns the link, and
/// existing drivers continue. The state of the link shows whether there is one. Returns whether
/// something was changed.
///
/// # Errors
/// Those of the commands, except refusals.
pub fn configure<P: Platform>(queue: &mut AdminQ<P>, lport: u8) -> Result<bool> {
    let changed = change(queue, lport);
    Ok(queue.warn_of_refusal(changed)?.unwrap_or(false))
}

fn change<P: Platform>(queue: &mut AdminQ<P>, lport: u8) -> Result<bool> {
    let api = queue.version().api;
    let report = if (api.major, api.minor, api.patch) < TELLS_DEFAULT {
        PhyReport::TopologyWithMedia
    } else {
        PhyReport::Default
    };
    let active = queue.execute(&GetPhyCaps {
        lport,
        report: PhyReport::Active,
    })?;
    let wanted = queue.execute(&GetPhyCaps { lport, report })?;
    let is_right = active.link_enabled() && active.is_configured_as(&wanted);
    if is_right || !wanted.any_type() {
        return Ok(false);
    }
    // Its own flag applies it at once, so nothing is restarted afterwards.
    queue.execute(&SetPhyConfig::enable(lport, &wanted))?;
    Ok(true)
}

/// Waits for the link, at most `limit`, and a little longer while the firmware is busy. After
/// half of the time, but not before [`LINK_SETTLES`], this restarts a link that is still down: it
/// may have been switched off, which its configuration does not show. An earlier restart would
/// also restart a link that is just coming up. For the same reason, wait for a port in this way
/// only once, and afterwards with [`wait_only`].
///
/// # Errors
/// [`Error::NoLink`] with the reason at the limit; those of the command.
pub fn wait_up<P: Platform>(queue: &mut AdminQ<P>, lport: u8, limit: Ns) -> Result<LinkStatus> {
    let half = Ns(limit.0 / 2);
    if half < LINK_SETTLES {
        return wait_only(queue, lport, limit);
    }
    match wait_only(queue, lport, half) {
        Err(Error::NoLink { reason }) => {
            if reason != NoLink::NoMedia {
                let enable = true;
                let restarted = queue.execute(&RestartAn { lport, enable });
                queue.warn_of_refusal(restarted)?;
            }
            wait_only(queue, lport, half)
        }
        other => other,
    }
}

/// As [`wait_up`], for a port whose link another driver manages: nothing is restarted.
///
/// # Errors
/// As there.
pub fn wait_only<P: Platform>(queue: &mut AdminQ<P>, lport: u8, limit: Ns) -> Result<LinkStatus> {
    let found = wait(queue, lport, limit);
    if let Ok(status) = &found {
        log_info!(
            "link up at {} Mbit/s, FEC {}",
            status.mbps,
            status.fec.name()
        );
    }
    found
}

fn wait<P: Platform>(queue: &mut AdminQ<P>, lport: u8, limit: Ns) -> Result<LinkStatus> {
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
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::LinkFec;

    #[test]
    fn each_state_has_its_reason() {
        let status = |info, conflict| LinkStatus {
            conflict,
            config_error: 0,
            info,
            max_frame: 0,
            fec: LinkFec::empty(),
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
