//! The engine as a driver meets it: commands, queues and packets, in raw words.

mod bring_up;
mod datagram;
mod datagram_wire;
mod engine_pair;
pub(in crate::pe) mod env;
mod flush;
mod inject;
mod lan_side;
mod memory;
mod multicast;
mod packet_lints;
mod qp;
mod queues;
mod stags;
mod tables;
mod test_driver;
mod traffic;
