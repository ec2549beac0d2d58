//! Requests of peers: who listens for them, which slots they get, and who is refused without one
//! (cm-path 6.3).

use core::net::{IpAddr, Ipv4Addr};

use super::incoming::ABOUT_REQ;
use super::secret::VICTIM;
use super::{Machine, Origin};
use crate::ip::{IpHeader, PortSpace};
use crate::{Header, Mad, Reason, Rej};

impl Machine<'_> {
    /// The listener for a request, or why there is none (cm-path 6.3).
    pub(super) fn wanted(
        &self,
        service_id: u64,
        private_data: &[u8],
        spaces: &[PortSpace],
    ) -> Result<(u32, PortSpace), Reason> {
        let (space, port) =
            PortSpace::of_service_id(service_id).ok_or(Reason::INVALID_SERVICE_ID)?;
        if !matches!(self.listener_for(space, port, None), Ok(_) | Err(true)) {
            return Err(Reason::INVALID_SERVICE_ID);
        }
        let destination = match space {
            PortSpace::Ib => None,
            PortSpace::Tcp | PortSpace::Udp | PortSpace::Ipoib => {
                let ip = IpHeader::decode(private_data).ok_or(Reason::CONSUMER_DEFINED)?;
                if !is_peer(ip.source) || !is_own(ip.destination) {
                    return Err(Reason::CONSUMER_DEFINED);
                }
                Some(ip.destination)
            }
        };
        let listener = self.listener_for(space, port, destination);
        let listener = listener.map_err(|_| Reason::CONSUMER_DEFINED)?;
        if spaces.contains(&space) {
            Ok((listener, space))
        } else {
            Err(Reason::CONSUMER_DEFINED)
        }
    }

    /// A slot for a request: a free one, or that of another request of which nobody knows whether
    /// its sender answers.
    pub(super) fn take_slot(
        &mut self,
        mad: &Mad,
        header: Header,
        origin: &Origin,
        (listener, space): (u32, PortSpace),
    ) -> Option<u32> {
        // Four times the mean at least, or many sources would fill the count of another one.
        let room = super::unreached(self.slots.0.len());
        let most = room.div_ceil(super::SOURCES / 4).min(usize::from(u16::MAX)) as u16;
        let most = most.max(self.config.requests_of_a_source);
        let is_full = self
            .count_of(&origin.remote)
            .is_none_or(|count| *count >= most);
        if is_full {
            self.counters.source_full = self.counters.source_full.wrapping_add(1);
            return None;
        }
        if self.free.len() == 0 {
            self.end_a_wait();
        }
        if self.free.len() == 0 || self.unreached.len() >= super::unreached(self.slots.0.len()) {
            self.make_room();
        }
        let Some(index) = self.allocate() else {
            self.counters.no_slot = self.counters.no_slot.wrapping_add(1);
            return None;
        };
        let place = self.unreached.add(index);
        if place.is_some()
            && let Some(count) = self.count_of(&origin.remote)
        {
            *count = count.saturating_add(1);
        }
        let slot = self.slot_mut(index)?;
        slot.unreached = place.unwrap_or(super::NONE);
        slot.is_owned = true;
        slot.listener = listener;
        slot.space = space;
        slot.tid = header.tid;
        slot.origin = *origin;
        slot.via = origin.remote;
        slot.received = *mad;
        Some(index)
    }

    /// One of the unreached requests gives way, whichever it is: who sends many loses most.
    pub(super) fn make_room(&mut self) {
        let count = self.unreached.len();
        self.serial = self.serial.wrapping_add(1);
        let random = self.secret.number(VICTIM, [self.serial, 0]) as usize;
        let Some(victim) = random
            .checked_rem(count)
            .and_then(|place| self.unreached.get(place))
        else {
            return;
        };
        self.counters.gave_way = self.counters.gave_way.wrapping_add(1);
        self.drop_slot(victim);
    }

    /// Refuses a REQ that has no slot. The id of the REJ is what Linux takes for it: the four bytes
    /// behind the REQ's own.
    pub(super) fn refuse_req(
        &mut self,
        mad: &Mad,
        header: Header,
        origin: &Origin,
        reason: Reason,
    ) {
        let word = |at: usize| {
            let bytes = mad.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
        };
        let rej = Rej {
            local_comm_id: word(28),
            remote_comm_id: word(24),
            message_rejected: ABOUT_REQ,
            reason: reason.0,
            ..Rej::default()
        };
        self.count_rejected(reason.0);
        self.answer_to(
            origin,
            rej.encode(Header {
                tid: header.tid,
                attr_mod: 0,
            }),
        );
    }
}

/// A listener may have this address.
fn is_own(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !(v4.is_multicast() || v4.is_broadcast() || is_nowhere(v4)),
        IpAddr::V6(_) => true,
    }
}

/// A peer may have this address.
fn is_peer(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !(v4.is_broadcast() || is_nowhere(v4)),
        IpAddr::V6(_) => true,
    }
}

/// Network 0 and the machine itself.
fn is_nowhere(v4: Ipv4Addr) -> bool {
    v4.octets().first() == Some(&0) || v4.is_loopback()
}
