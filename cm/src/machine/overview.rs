//! All connections, to be shown.

use core::net::IpAddr;

use e810_types::Ns;

use super::tables::NONE;
use super::{ConnectionId, Machine, State};
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

impl Machine<'_> {
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
