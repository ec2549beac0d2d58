//! RoCEv2 packets as bytes: build, seal with the ICRC, parse.
//!
//! ```
//! use e810_sim::wire::{Bth, Frame, Headers, Opcode, Packet, Path};
//!
//! let headers = Headers::new(Bth::new(Opcode::SEND_ONLY, 0x12, 7));
//! let mut frame = Frame::new(&Path::default(), &headers, 5)?;
//! frame.payload_mut().copy_from_slice(b"hello");
//! let bytes = frame.seal();
//!
//! let packet = Packet::parse(&bytes)?;
//! assert_eq!(packet.headers, headers);
//! assert_eq!(packet.payload, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Everything here is a pure function of its bytes. The parser accepts any bytes and returns a
//! packet or a [`ParseError`]; it never panics. Formats are those of the InfiniBand architecture
//! (transport headers, ICRC) carried in UDP over IPv4 or IPv6.

mod build;
pub(crate) mod checksum;
mod headers;
mod icrc;
mod opcode;
mod parse;
mod path;
mod template;
#[cfg(test)]
mod tests;

pub use build::{BuildError, Frame, MAX_PAYLOAD};
pub use headers::{Aeth, Bth, Deth, Headers, Nak, Reth, Syndrome};
pub use opcode::{Opcode, Place, Verb};
pub use parse::{Packet, ParseError};
pub use path::{Addresses, MacAddr, Path, ROCE_UDP_PORT};
pub use template::{KnownHeads, Template};

#[cfg(test)]
pub(crate) use tests::repair as reseal;
