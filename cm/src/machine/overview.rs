//! All connections and listeners, to be shown.

use core::net::IpAddr;

use e810_types::Ns;

use super::tables::NONE;
use super::{ConnectionId, Listen, Machine, State};
use crate::ip::{self, PortSpace};

/// A connection, as it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Overview {
    /// Its name.
    pub id: ConnectionId,
    /// Where it stands.
    pub state: State,
    /// This side has asked for it.
    pub is_active: bool,
    /// Whose ports these are.
    pub space: PortSpace,
    /// The port that was asked for.
    pub port: u16,
    /// Our address.
    pub own: IpAddr,
    /// The peer's.
    pub peer: IpAddr,
    /// The VLAN.
    pub vlan: Option<u16>,
    /// Queue pairs: ours, and the peer's; 0 until it is known.
    pub queue_pairs: [u32; 2],
    /// How often its last message was repeated.
    pub repeats: u8,
    /// When it was asked for.
    pub since: Ns,
}

/// A listener, as it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListenerOverview {
    /// What it listens for.
    pub listen: Listen,
    /// Requests that its program has not answered.
    pub waiting: u32,
}

impl Machine<'_> {
    /// The listeners that there are, in no order.
    pub fn listeners(&self) -> impl Iterator<Item = ListenerOverview> {
        self.listeners.iter().filter_map(|place| {
            Some(ListenerOverview {
                listen: place.listen?,
                waiting: place.waiting,
            })
        })
    }

    /// The port of the peer's program: of a connection that this side has asked for, the one that it
    /// has asked for, else the one that the request names. `None` in port space IB, and when the
    /// request is no longer kept.
    #[must_use]
    pub fn peer_port(&self, id: ConnectionId) -> Option<u16> {
        let slot = self.slot(self.find(id.0)?)?;
        match (slot.space, slot.is_active) {
            (PortSpace::Ib, _) => None,
            (_, true) => Some(slot.port),
            (_, false) => self.request(id)?.ip.map(|header| header.port),
        }
    }

    /// The connections that there are, and the questions for UD queue pairs, in no order. Requests
    /// whose sender was not found yet are left out.
    pub fn connections(&self) -> impl Iterator<Item = Overview> {
        let slots = self.slots.0.iter();
        slots
            .filter(|slot| slot.comm_id != 0 && slot.unreached == NONE && slot.state != State::Idle)
            .map(|slot| Overview {
                id: ConnectionId(slot.comm_id),
                state: slot.state,
                is_active: slot.is_active,
                space: slot.space,
                port: slot.port,
                own: ip::address(slot.origin.local),
                peer: ip::address(slot.origin.remote),
                vlan: slot.origin.vlan,
                queue_pairs: [slot.local_qpn, slot.remote_qpn],
                repeats: slot.retries.saturating_sub(slot.retries_left),
                since: slot.since,
            })
    }
}
