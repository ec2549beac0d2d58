//! A function of an E810 on its link: code shared by the programs that use one.
//!
//! * [`start`]: brings the engine of an open device up; [`simulated`]: the same for functions of a
//!   simulator in this process.
//! * [`address`]: a function's own addresses, and the networks they are in.
//! * [`station`]: answers for these addresses (ARP, neighbour discovery, echo) and resolves others.
//! * `tap` (feature `tap`): the host's network stack in the station's place.
//! * [`route`]: questions to either, and their answers.
//! * [`attended`]: a thread that attends a function, for programs that connect.
//! * [`connections`]: the function's connection manager, which programs share.
//! * [`neighbours`]: moves the paths of queue pairs when their neighbours move.

#![warn(missing_docs)]
#![deny(unsafe_code)]
// The embedding program decides where text goes.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

use e810::LanInit;

pub mod address;
pub mod attended;
pub mod connections;
pub mod neighbours;
pub mod route;
pub mod simulated;
pub mod start;
pub mod station;
#[cfg(feature = "tap")]
pub mod tap;

/// The LAN queues of a program's own port. Hundreds of neighbours that were asked at once answer
/// before its thread looks again; a neighbour whose answer finds no room is asked again a second
/// later.
#[must_use]
pub const fn lan_init(mtu: u16) -> LanInit {
    LanInit {
        rx_entries: 512,
        ..LanInit::new(mtu)
    }
}
