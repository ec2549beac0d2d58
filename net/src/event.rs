//! What a user of the interface has to know: queue pairs hang on addresses.

use core::net::IpAddr;

use heapless::Deque;

use crate::mac::MacAddr;
use crate::time::Ns;

/// Events that wait to be taken; more are counted and lost; where that count grows, a user
/// reads addresses and neighbours again.
pub const EVENTS: usize = 32;

/// Something has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// An own address may be used from now on.
    AddressAdded(IpAddr),
    /// An own address should not be used for anything new (RFC 4862 5.5.4).
    AddressDeprecated(IpAddr),
    /// An own address is gone: removed, or its lifetime is over.
    AddressRemoved(IpAddr),
    /// An address was found to be in use by another station before it was ours; it is not used.
    AddressDuplicate {
        /// The address.
        ip: IpAddr,
        /// The station that has it.
        by: MacAddr,
    },
    /// Another station uses an address that is ours; it is defended (RFC 5227 2.4 c).
    AddressContended {
        /// The address.
        ip: IpAddr,
        /// The other station.
        by: MacAddr,
    },
    /// A neighbour is known now.
    NeighbourKnown {
        /// Its address.
        ip: IpAddr,
        /// Where it is.
        mac: MacAddr,
    },
    /// A neighbour that was known has another MAC address now.
    NeighbourMoved {
        /// Its address.
        ip: IpAddr,
        /// Where it was.
        from: MacAddr,
        /// Where it is.
        to: MacAddr,
    },
    /// A neighbour does not answer.
    NeighbourUnreachable(IpAddr),
    /// A path carries less than was known.
    PathMtu {
        /// Its other end.
        ip: IpAddr,
        /// Largest IP packet.
        mtu: u16,
    },
    /// A default router came (RFC 4861 6.3.4).
    RouterAdded(IpAddr),
    /// A default router is no longer one.
    RouterRemoved(IpAddr),
    /// An echo reply to a [`ping`](crate::Interface::ping).
    EchoReply {
        /// Who was asked.
        ip: IpAddr,
        /// Identifier of the request.
        ident: u16,
        /// Sequence number of the request.
        seq: u16,
        /// Bytes of payload that came back.
        length: u16,
        /// Time from sending to the reply's arrival.
        round_trip: Ns,
    },
    /// No reply to a [`ping`](crate::Interface::ping) is waited for any longer.
    EchoFailed {
        /// Who was asked.
        ip: IpAddr,
        /// Identifier of the request.
        ident: u16,
        /// Sequence number of the request.
        seq: u16,
        /// Why.
        why: PingFailure,
    },
}

/// Why a ping has no reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PingFailure {
    /// No route leads there, or no own address can be the source.
    NoRoute,
    /// The next hop does not answer.
    Unreachable,
    /// It was sent, and no reply came.
    TimedOut,
    /// Longer than a frame may be.
    TooLong,
}

/// Events in order.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    waiting: Deque<Event, EVENTS>,
    lost: u64,
}

impl Events {
    pub(crate) const fn new() -> Self {
        Self {
            waiting: Deque::new(),
            lost: 0,
        }
    }

    /// The oldest are kept: a flood of events must not hide what came before it.
    pub(crate) fn push(&mut self, event: Event) {
        if self.waiting.push_back(event).is_err() {
            self.lost = self.lost.saturating_add(1);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.waiting.pop_front()
    }

    pub(crate) const fn lost(&self) -> u64 {
        self.lost
    }
}
