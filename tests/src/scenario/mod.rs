//! Scenarios: what a driver goes through, written once for every platform.
//!
//! Nothing here knows the simulator: each scenario takes a platform `P` and
//! answers with the driver's own typed errors, so that a test decides what
//! they should have been. [`stages`] climbs the bring-up and stops anywhere,
//! [`objects`] makes and gives back one object of each kind, [`payload`] is
//! memory to register, and [`arrival`] sends a message between two devices and
//! waits for the event of its completion.

pub mod arrival;
pub mod objects;
pub mod payload;
pub mod stages;
