//! The reliable-connection requester and responder of one QP.
//!
//! Three calls drive a QP, each bounded in work, deterministic and without a clock of its own:
//!
//! * [`poll`] after a doorbell, after a packet and after a time-out: sends what may be sent,
//!   acknowledges and read responses included, and returns whether there is more. Nothing else
//!   transmits, so packets that arrive together are acknowledged together.
//! * [`handle_packet`] for every packet whose destination is the QP.
//! * [`timer`] when [`QpRcState::next_deadline`] has come.
//!
//! The device around the QP is a [`Host`]. The state of the QP is [`QpRcState`], which fits
//! [`QP_STATE_BYTES`].
//!
//! # What is outstanding
//!
//! The state holds two positions in the send queue (oldest entry not completed, entry to send next)
//! and the PSNs that belong to them. Everything between is read from the ring again when it is
//! needed: the packets of an entry follow from its length and the path MTU. Payload is read from
//! host memory again for every retransmission. Pending inbound reads are kept in the QP's Q1 slots
//! ([`Host::store_read`]).
//!
//! # Errors
//!
//! On an error the engine sets [`Mode::Error`], reports one asynchronous event and sends nothing
//! more. It writes no flush completion: that is for FLUSH_WQES (data-path 8.4). The responder sends
//! its NAK before it stops.
//!
//! Where the sources leave the wire behaviour open (data-path 11), the InfiniBand architecture is
//! followed; such choices, and which AE code stands for which protocol error, are
//! \[inf protocol_errors\].

mod config;
mod engine;
mod host;
mod inbound_reads;
mod layout;
mod plain;
mod progress;
mod psn;
mod read_ahead;
mod requester;
mod requester_rx;
mod responder;
mod responder_tx;
mod ring;
mod segment;
mod state;
#[cfg(test)]
mod tests;
mod timing;

pub use config::{BadMtu, ConfigError, PathMtu, QpConfig};
pub use engine::{DropReason, Outcome, handle_packet, may_talk, poll, timer};
pub use host::{
    Access, AsyncEvent, Fault, Host, HostFault, Invalidator, READ_ENTRY_WORDS, ReceiveCompletion,
    Right, Ring, SendCompletion, Sent,
};
pub use layout::{QP_STATE_BYTES, StateError};
pub use state::{Mode, QpRcState};
pub use timing::{POLL_BUDGET, RETRANSMIT_NS, RNR_TIMER_CODE, retransmit_ns, rnr_ns};
