//! The handshake of two processes before and after their messages.
//!
//! It is a TCP connection, or one of the RDMA connection manager, with one JSON object per line. Each side sends its [`Offer`]: the
//! version, its parameters, and its queue pairs. Both sides must have the same parameters. Then
//! each says that it is ready, and at the end that it is done, so that neither takes down what the
//! other still needs. A side that ends earlier or fails says why.
//!
//! Nothing is authenticated or encrypted: any process that reaches the port learns the keys of the
//! memory that the command has registered for its messages, and nothing else. Everything that
//! arrives is checked before it is used.
//!
//! The other side may be another program, with a handshake of its own ([`Program`]).

mod error;
mod host_port;
mod ibv_rc_pingpong;
mod lines;
mod link;
mod messages;
mod offer;
mod program;
mod rendezvous;

use e810_backends::printable::printable;

pub use error::HandshakeError;
pub use host_port::{HostPort, PORT};
pub use lines::{Lines, MAX_LINE};
pub use link::Link;
pub use messages::Done;
pub(crate) use offer::{DURATION, SIZES, WIRE, seconds_term};
pub use offer::{Offer, Peer, QpRecord, RemoteQp};
pub use program::Program;
pub use rendezvous::{Rendezvous, Role};

/// Version of the protocol; compared first.
pub const VERSION: u32 = 3;

/// Maximum characters of a peer's text that are shown.
const SHOWN: usize = 300;

/// Makes text from a peer safe for a terminal.
fn shown(text: &str) -> String {
    printable(text, SHOWN)
}

#[cfg(test)]
mod tests;
