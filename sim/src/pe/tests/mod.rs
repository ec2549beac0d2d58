//! Tests of the engine in raw words, without a driver: commands, queues and packets.

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
mod rules;
mod stags;
mod tables;
mod test_driver;
mod traffic;
