//! Machines against the test, and against each other over a network that loses, doubles, reorders
//! and delays.

mod active;
mod anything;
mod bench;
mod ends;
mod flood;
mod itself;
mod listeners;
mod lossy;
mod passive;
mod questions;
mod rig;
mod strangers;
mod world;
