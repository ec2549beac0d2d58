//! What the machine refuses.

use core::fmt;

use super::{ConnectionId, State};

/// Why a call does nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Error {
    /// There has to be a slot, and at most 2^20.
    Slots {
        /// Slots given.
        slots: usize,
    },
    /// [`Tables::words`](super::Tables::words) says how many words are needed.
    Words {
        /// Words given.
        given: usize,
        /// Words needed.
        needed: usize,
    },
    /// All slots have connections that somebody owns, or that end just now.
    NoSlot {
        /// Slots that there are.
        slots: usize,
    },
    /// All places for listeners are taken.
    NoListener {
        /// Places that there are.
        places: usize,
    },
    /// No connection has this name, or its owner has given it up.
    NoSuch(ConnectionId),
    /// The state of the connection does not allow the call.
    State {
        /// The connection.
        id: ConnectionId,
        /// Its state.
        state: State,
    },
    /// The private data does not fit the message.
    PrivateData {
        /// Bytes given.
        given: usize,
        /// Bytes that it has.
        most: usize,
    },
    /// A queue pair number has 24 bits.
    QueuePair(u32),
    /// The two addresses are of unlike families.
    Families,
    /// The function has no such address, from which a connection could begin.
    Source(core::net::IpAddr),
    /// Somebody listens there already.
    InUse {
        /// The port.
        port: u16,
    },
    /// The listener has as many requests waiting as it asked for. The request is dropped; its
    /// sender repeats it.
    Backlog {
        /// How many that are.
        backlog: u32,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slots { slots } => write!(f, "{slots} slots: give from 1 to 2^20"),
            Self::Words { given, needed } => {
                write!(f, "{given} words for the tables: {needed} are needed")
            }
            Self::NoSlot { slots } => write!(
                f,
                "all {slots} connections are in use: try again later, or give more slots"
            ),
            Self::NoListener { places } => {
                write!(
                    f,
                    "all {places} listeners are in use: end one, or give more"
                )
            }
            Self::NoSuch(id) => write!(f, "there is no connection {id}"),
            Self::State { id, state } => {
                write!(
                    f,
                    "connection {id} is in state {state:?}, which does not allow it"
                )
            }
            Self::PrivateData { given, most } => {
                write!(f, "{given} bytes of private data: the message has {most}")
            }
            Self::QueuePair(number) => {
                write!(f, "queue pair {number}: numbers have 24 bits")
            }
            Self::Families => write!(f, "one address is IPv4 and the other IPv6"),
            Self::Source(own) => write!(
                f,
                "{own} is no address of the function: connect from one of its own"
            ),
            Self::InUse { port } => {
                write!(f, "somebody listens on port {port} already: take another")
            }
            Self::Backlog { backlog } => write!(
                f,
                "{backlog} requests wait for the listener already: the request was dropped, its \
                 sender repeats it"
            ),
        }
    }
}

impl core::error::Error for Error {}
