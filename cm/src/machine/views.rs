//! What the owner of a connection is told and may read.

use super::slot::news;
use super::{ConnectionId, Listen, ListenerId, Machine, Origin, State};
use crate::ip::{IpHeader, PortSpace};
use crate::{GID, Message, Reason, Rej, Rep, Req, SidrRep};

/// What has happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Event {
    /// A request has come: see [`Machine::request`]. [`accept`](Machine::accept),
    /// [`reject`](Machine::reject) or [`answer`](Machine::answer) is next.
    Requested {
        /// Its connection.
        id: ConnectionId,
        /// Who listened.
        listener: ListenerId,
    },
    /// The peer has accepted: see [`Machine::reply`]. [`Machine::ready`] is next.
    Accepted(ConnectionId),
    /// The peer is ready.
    Established(ConnectionId),
    /// The peer has refused, or given up. [`Over`](Self::Over) follows if the state is
    /// [`TimeWait`](State::TimeWait), as of what has been a connection; otherwise nothing does.
    Rejected {
        /// The connection.
        id: ConnectionId,
        /// Why; a status for a question about a UD QP.
        reason: Reason,
    },
    /// The peer has not answered. Nothing follows.
    Unreachable(ConnectionId),
    /// The peer has ended the connection, or answered the end. After the peer's,
    /// [`Machine::disconnect`] is next, once the queue pair is in ERROR.
    Disconnected(ConnectionId),
    /// No message of the connection can arrive any more: its queue pair may be used again.
    Over(ConnectionId),
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'m> {
    /// The message; `None` for a question about a UD QP.
    pub req: Option<Req>,
    /// Addresses and port; `None` in port space IB.
    pub ip: Option<IpHeader>,
    /// The program's, with zeros up to the size of the field.
    pub private_data: &'m [u8],
    /// Where it came from.
    pub origin: Origin,
    /// What was listened for; `None` when the listener is gone.
    pub listen: Option<Listen>,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug)]
pub enum Reply {
    /// To a connection.
    Rep(Rep),
    /// To a question about a UD QP.
    Sidr(SidrRep),
    /// A refusal, whose private data may be read.
    Rej(Rej),
}

impl Machine<'_> {
    /// What has happened and was not told.
    pub fn event(&mut self) -> Option<Event> {
        while let Some(index) = self.fresh.pop() {
            let Some(slot) = self.slots.get_mut(index) else {
                continue;
            };
            let first = slot.news & slot.news.wrapping_neg();
            slot.news &= !first;
            slot.is_in_news = slot.news != 0;
            let (id, reason, listener) = (
                ConnectionId(slot.comm_id),
                Reason(slot.reason),
                slot.listener,
            );
            if slot.is_in_news {
                self.fresh.push(index);
            } else {
                self.free_if_unused(index);
            }
            return Some(match first {
                news::REQUEST => {
                    let place = self.listeners.get(listener as usize);
                    let listener = ListenerId {
                        index: listener,
                        generation: place.map_or(0, |place| place.generation),
                    };
                    Event::Requested { id, listener }
                }
                news::ACCEPTED => Event::Accepted(id),
                news::ESTABLISHED => Event::Established(id),
                news::REJECTED => Event::Rejected { id, reason },
                news::UNREACHABLE => Event::Unreachable(id),
                news::DISCONNECTED => Event::Disconnected(id),
                news::OVER => Event::Over(id),
                _ => continue,
            });
        }
        None
    }

    /// The request of a connection that a peer has asked for; `None` for any other connection.
    #[must_use]
    pub fn request(&self, id: ConnectionId) -> Option<Request<'_>> {
        let slot = self.slot(self.find(id.0)?)?;
        if slot.is_active {
            return None;
        }
        let (_, message) = Message::decode(&slot.received).ok()?;
        let (req, start, end) = match message {
            Message::Req(req) => (Some(req), 164, 256),
            Message::SidrReq(_) => (None, 40, 256),
            _ => return None,
        };
        let data = slot.received.get(start..end)?;
        let (ip, private_data) = match slot.space {
            PortSpace::Ib => (None, data),
            PortSpace::Tcp | PortSpace::Udp | PortSpace::Ipoib => {
                let header = slot.space.header();
                (IpHeader::decode(data), data.get(header..)?)
            }
        };
        let place = self.listeners.get(slot.listener as usize);
        Some(Request {
            req,
            ip,
            private_data,
            origin: slot.origin,
            listen: place.and_then(|place| place.listen),
        })
    }

    /// The request that this side has sent, until it is connected.
    #[must_use]
    pub fn asked(&self, id: ConnectionId) -> Option<Req> {
        let slot = self.slot(self.find(id.0)?)?;
        match Message::decode(&slot.kept).ok()?.1 {
            Message::Req(req) => Some(req),
            _ => None,
        }
    }

    /// Where a connection's datagrams go, and the address whose neighbour the way goes by.
    #[must_use]
    pub fn origin(&self, id: ConnectionId) -> Option<(Origin, [u8; GID])> {
        self.slot(self.find(id.0)?)
            .map(|slot| (slot.origin, slot.via))
    }

    /// The last answer of the peer.
    #[must_use]
    pub fn reply(&self, id: ConnectionId) -> Option<Reply> {
        let slot = self.slot(self.find(id.0)?)?;
        match Message::decode(&slot.received).ok()?.1 {
            Message::Rep(rep) => Some(Reply::Rep(rep)),
            Message::SidrRep(rep) => Some(Reply::Sidr(rep)),
            Message::Rej(rej) => Some(Reply::Rej(rej)),
            _ => None,
        }
    }

    /// State of a connection; `None` when there is none of this name.
    #[must_use]
    pub fn state(&self, id: ConnectionId) -> Option<State> {
        self.slot(self.find(id.0)?).map(|slot| slot.state)
    }

    /// The program's word of a connection.
    #[must_use]
    pub fn context(&self, id: ConnectionId) -> Option<u64> {
        self.slot(self.find(id.0)?).map(|slot| slot.context)
    }

    /// The first PSN that this side receives.
    #[must_use]
    pub fn local_psn(&self, id: ConnectionId) -> Option<u32> {
        self.slot(self.find(id.0)?).map(|slot| slot.local_psn)
    }

    /// The ack timeout of the connection's queue pair (cm-path 5.4).
    #[must_use]
    pub fn ack_timeout(&self, id: ConnectionId) -> Option<u8> {
        self.slot(self.find(id.0)?).map(|slot| slot.ack_timeout)
    }

    /// Queue pairs of a connection: its own, and the peer's, 0 until that is known.
    #[must_use]
    pub fn queue_pairs(&self, id: ConnectionId) -> Option<[u32; 2]> {
        self.slot(self.find(id.0)?)
            .map(|slot| [slot.local_qpn, slot.remote_qpn])
    }
}
