//! What a program says to a connection manager, and what it hears: plain data, which can pass
//! between two threads or two processes.

use core::net::IpAddr;

use e810::{Control, Error, Path, Platform, QpAttr, QpControl};
use e810_cm::Reason;
use e810_cm::ip::PortSpace;
use e810_cm::machine::{self, Accept, Connect, ConnectionId, Listen, ListenerId};
use e810_hal::Ns;
use heapless::Vec;

use crate::attributes::Attributes;
use crate::manager::{Manager, Neighbours};

/// Private data of a message: the longest is a REP's.
pub type PrivateData = Vec<u8, 216>;

/// What a program asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Call<'a> {
    /// Take requests: [`Answer::Listener`]. Port 0 is any port that is free.
    Listen(Listen),
    /// Ask for a connection: [`Answer::Connection`]. Depths and MTU are cut to what the card has;
    /// port 0 is any of our own, and flow label 0 the one that Linux makes of the ports.
    #[cfg_attr(feature = "serde", serde(borrow))]
    Connect(Connect<'a>),
    /// Take no more requests. Those that were not answered are refused.
    Unlisten(ListenerId),
    /// How the connection's queue pair is changed, on the passive side with the
    /// `responder_resources` and `initiator_depth` that it will accept with:
    /// [`Answer::Attributes`].
    Attributes(ConnectionId, [u8; 2]),
    /// Accept a request on a queue pair in RTS.
    Accept(
        ConnectionId,
        #[cfg_attr(feature = "serde", serde(borrow))] Accept<'a>,
    ),
    /// The queue pair of an accepted connection is in RTS.
    Ready(ConnectionId),
    /// Refuse a request, or the reply to one, with private data of at most 148 bytes.
    Reject(
        ConnectionId,
        Reason,
        #[cfg_attr(feature = "serde", serde(borrow))] &'a [u8],
    ),
    /// Answer a question about a UD queue pair: with its number and Q_Key, or with a status; and
    /// private data of at most 136 bytes.
    Answer(
        ConnectionId,
        Result<(u32, u32), u8>,
        #[cfg_attr(feature = "serde", serde(borrow))] &'a [u8],
    ),
    /// The way of datagrams to the queue pair that the peer has answered with: [`Answer::Path`].
    Path(ConnectionId),
    /// The first message has come to the queue pair.
    DataArrived(ConnectionId),
    /// End a connection whose queue pair is in ERROR.
    Disconnect(ConnectionId),
    /// Forget a connection, in any state.
    Release(ConnectionId),
}

impl Call<'_> {
    /// The connection that it is about.
    #[must_use]
    pub const fn connection(&self) -> Option<ConnectionId> {
        match *self {
            Self::Listen(_) | Self::Unlisten(_) | Self::Connect(_) => None,
            Self::Attributes(id, _)
            | Self::Accept(id, _)
            | Self::Ready(id)
            | Self::Reject(id, ..)
            | Self::Answer(id, ..)
            | Self::Path(id)
            | Self::DataArrived(id)
            | Self::Disconnect(id)
            | Self::Release(id) => Some(id),
        }
    }

    /// The queue pair that it names as its own end of the connection.
    #[must_use]
    pub const fn queue_pair(&self) -> Option<u32> {
        match self {
            Self::Connect(ask) => Some(ask.qpn),
            Self::Accept(_, accept) => Some(accept.qpn),
            Self::Answer(_, Ok((qpn, _)), _) => Some(*qpn),
            _ => None,
        }
    }
}

/// The answer to a call that is not refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
#[expect(
    clippy::large_enum_variant,
    reason = "there is nothing to box it in, and few exist at a time"
)]
pub enum Answer {
    /// It is done.
    Done,
    /// Its listener, and the port: one that was free if port 0 was asked for.
    Listener(ListenerId, u16),
    /// Its connection.
    Connection(ConnectionId),
    /// The changes of a connection's queue pair.
    Attributes(Attributes),
    /// The way to a peer.
    Path(Path),
}

/// Why a call is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Refused {
    /// The state machine's refusal.
    #[error(transparent)]
    Machine(#[from] machine::Error),
    /// What the peer asks for cannot be: refuse it with this reason.
    #[error("reason {}: {}", .0.0, .0.text().unwrap_or("without a name"))]
    Peer(Reason),
    /// There is no way to the peer, or nobody answers there.
    #[error("there is no way to the peer, or nobody answers there")]
    NoPath,
    /// The way to the peer is being looked for: call again.
    #[error("the way to the peer is not known yet")]
    PathPending,
    /// Whoever has the connection manager does not answer, or answers something else.
    #[error("the connection manager does not answer")]
    NoAnswer,
}

impl From<Reason> for Refused {
    fn from(reason: Reason) -> Self {
        Self::Peer(reason)
    }
}

/// What a program hears of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Told {
    /// The connection.
    pub id: ConnectionId,
    /// The program's word: of the connection, or of the listener that a request has come to.
    pub context: u64,
    /// What has happened to it.
    pub news: News,
}

/// What has happened to a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum News {
    /// A peer asks for it: accept, reject or answer.
    Requested(Requested),
    /// The peer has accepted: change the queue pair, and say that it is ready.
    Accepted {
        /// READs that the peer answers at once.
        responder_resources: u8,
        /// READs that the peer will have outstanding.
        initiator_depth: u8,
        /// The peer's.
        private_data: PrivateData,
    },
    /// The peer has answered the question about its UD queue pair. It is the last news.
    Answered {
        /// Its number.
        qpn: u32,
        /// Its Q_Key.
        qkey: u32,
        /// The peer's.
        private_data: PrivateData,
    },
    /// The peer is ready.
    Established,
    /// The peer has refused, or has given up. [`Over`](Self::Over) follows if the connection was
    /// accepted.
    Rejected {
        /// Why; the status of an answer about a UD queue pair.
        reason: Reason,
        /// The peer's.
        private_data: PrivateData,
    },
    /// The peer does not answer. It is the last news.
    Unreachable,
    /// The peer has ended the connection, or has answered its end.
    Disconnected,
    /// No packet of the connection arrives any more: its queue pair may be used again.
    Over,
}

/// A request of a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Requested {
    /// The listener that it has come to.
    pub listener: ListenerId,
    /// Connections or datagrams.
    pub space: PortSpace,
    /// The peer's address.
    pub source: IpAddr,
    /// The peer's port; 0 in port space IB, which has none.
    pub source_port: u16,
    /// Our address.
    pub destination: IpAddr,
    /// The VLAN that it has come on.
    pub vlan: Option<u16>,
    /// The peer's queue pair; 0 for a question about a UD queue pair, as what follows.
    pub qpn: u32,
    /// READs that the peer answers at once.
    pub responder_resources: u8,
    /// READs that the peer wants to have outstanding.
    pub initiator_depth: u8,
    /// Our `retry_cnt`, as the peer wishes.
    pub retry_count: u8,
    /// Our `rnr_retry`, as the peer wishes.
    pub rnr_retry_count: u8,
    /// What the peer's program wishes; no transport here has it.
    pub flow_control: bool,
    /// The peer's queue pair has an SRQ.
    pub srq: bool,
    /// The peer's, with zeros up to the size of the field.
    pub private_data: PrivateData,
}

/// A connection manager and the function that it is of, as the owner of a connection reaches them.
pub trait Service<P: Platform> {
    /// Makes a call.
    ///
    /// # Errors
    /// [`Refused`].
    fn call(&mut self, call: &Call<'_>) -> Result<Answer, Refused>;

    /// Changes a queue pair.
    ///
    /// # Errors
    /// The device's refusal.
    fn modify(&mut self, qp: &mut QpControl<P>, attr: &QpAttr) -> Result<(), Error>;
}

/// The connection manager of a program that has all to itself, and what a call needs beside it.
pub struct Local<'a, 't, P: Platform> {
    /// The manager.
    pub manager: &'a mut Manager<'t, P>,
    /// The function's control path.
    pub control: &'a mut Control<P>,
    /// Who finds its neighbours.
    pub neighbours: &'a mut dyn Neighbours,
    /// The time.
    pub now: Ns,
}

impl<P: Platform> Service<P> for Local<'_, '_, P> {
    fn call(&mut self, call: &Call<'_>) -> Result<Answer, Refused> {
        let Self {
            manager,
            control,
            neighbours,
            now,
        } = self;
        manager.call(control, *neighbours, *now, call)
    }

    fn modify(&mut self, qp: &mut QpControl<P>, attr: &QpAttr) -> Result<(), Error> {
        self.control.modify_qp(qp, attr)
    }
}
