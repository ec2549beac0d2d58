//! The functions that a command uses: opened, started, watched, shut down.
//!
//! * `checks`, `card_users` and `shared_group`, before anything is opened;
//! * `simulated`, the simulator that `sim` names functions of;
//! * `open`, opening devices, with a trace of what is done with them if asked for;
//! * `start`, from an open device to one whose engine works;
//! * `lifecycle`, bringing up, waiting for links, shutting down, of one or two;
//! * `watch`, whether devices are still there;
//! * `station`, the function on its link: it answers for its addresses and finds others; `tap`, the
//!   host's network stack in its place; `route`, what either is asked and says; `neighbours`, paths
//!   that follow what it finds;
//! * `workload`, all of that for a command with two functions, or with one whose
//!   `peer` is in another process; `addressing` gives them names.

use e810::LanInit;

mod addressing;
pub(crate) mod card_users;
pub(crate) mod checks;
pub(crate) mod lifecycle;
pub mod memory_need;
pub mod neighbours;
pub mod open;
pub(crate) mod peer;
pub mod route;
pub(crate) mod shared_group;
pub mod simulated;
pub mod start;
pub mod station;
pub mod tap;
mod transport_label;
pub(crate) mod watch;
pub(crate) mod workload;

/// The LAN queues of a program's own port. Hundreds of neighbours that were asked at once answer
/// before its thread looks again: one whose frame finds no room is asked again a second later.
const fn lan_init(mtu: u16) -> LanInit {
    LanInit {
        rx_entries: 512,
        ..LanInit::new(mtu)
    }
}
