//! Ethernet addresses on the command line.

pub(crate) use e810_sim::link::parse_mac;
