//! What is drawn, a module a subject.

pub(super) mod connect;
pub(super) mod ids;
pub(super) mod info;
pub(super) mod migrate;
pub(super) mod multicast;
pub(super) mod queue_pairs;
pub(super) mod resolve;
pub(super) mod sockets;
