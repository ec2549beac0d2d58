//! The interface as a whole: against smoltcp, against floods and noise, and in virtual time.

mod addresses;
mod echo;
mod flood;
mod frames;
mod groups;
mod hop_limit;
mod judge;
mod node;
mod noise;
mod port;
mod wire;
