//! Opens, starts, watches and shuts down the functions that a command uses.
//!
//! * `checks`, `card_users` and `shared_group`, before anything is opened;
//! * `simulated`, the simulator that `sim` names functions of;
//! * `open`, opening devices, with a trace of what is done with them if asked for;
//! * `start`, from an open device to one whose engine works;
//! * `lifecycle`, bringing up, waiting for links, shutting down, of one or two;
//! * `watch`, whether devices are still there;
//! * `workload`, all of that for a command with two functions, or with one whose
//!   `peer` is in another process; `addressing` gives them names.

mod addressing;
pub(crate) mod card_users;
pub(crate) mod checks;
pub(crate) mod lifecycle;
pub mod memory_need;
pub mod open;
pub(crate) mod peer;
pub(crate) mod shared_group;
pub(crate) mod simulated;
pub(crate) mod start;
mod transport_label;
pub(crate) mod watch;
pub(crate) mod workload;
