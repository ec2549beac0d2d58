//! Machines against each other, over a network that loses, doubles, reorders and delays.

mod anything;
mod disturbed;
mod flood;
mod lossy;
mod rig;
mod states;
