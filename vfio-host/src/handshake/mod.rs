//! The handshake of two processes before and after their messages.
//!
//! A TCP connection, one JSON object a line. Each side sends its [`Offer`]: the
//! version, what it was asked to do, and where its queue pairs are. Both have to
//! have been asked for the same. Then each says that it is ready, and at the end
//! that it is done, so that neither takes down what the other still needs. A
//! side that fails says why.
//!
//! Nothing is authenticated or encrypted: any process that reaches the port learns the
//! keys of the memory that the command has registered for its messages, and
//! nothing else. What arrives is believed only after it was checked.
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

pub use error::HandshakeError;
pub use host_port::{HostPort, PORT};
pub use lines::{Lines, MAX_LINE};
pub use link::Link;
pub use messages::Done;
pub use offer::{Offer, Peer, QpRecord};
pub(crate) use offer::{SIZES, WIRE, seconds_term};
pub use program::Program;
pub use rendezvous::{Rendezvous, RendezvousArgs, Role};

/// Version of the exchange; the first thing that is compared.
pub const VERSION: u32 = 2;

/// Characters of a peer's complaint that are shown.
const SHOWN: usize = 300;

/// Whether a character moves the cursor, ends a line, is not seen, or changes the
/// direction of the text after it: the controls, and Unicode's format characters
/// of these kinds (Bidi_Control, separators, zero width).
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{061c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
        )
}

/// Text from a peer, for a terminal: short, and without what moves its
/// cursor or hides or reorders text.
fn shown(text: &str) -> String {
    text.chars()
        .map(|c| if is_unsafe(c) { ' ' } else { c })
        .take(SHOWN)
        .collect()
}

#[cfg(test)]
mod tests;
