//! Serves simulated functions to other processes and to virtual machines, over vfio-user
//! (specification 0.9.2).
//!
//! [`Server`] is the whole server; `e810 sim` is a command line for it. From the outside in:
//!
//! * [`socket`] and [`files`]: what the server creates in the file system, and what it leaves alone
//!   there.
//! * [`messages`] and [`protocol`]: messages and their answers. A size is checked before anything is
//!   allocated or read for it.
//! * `connection`: one user of a function on a socket.
//! * `device`, [`mappings`], [`interrupts`], [`config_space`]: the effects of messages on the
//!   simulated function.
//! * `bus_error`: handles a file of a user that becomes shorter.
//! * [`cables`]: takes the link of the ports down and up again.
//! * [`e810_sim_wire`]: wires to other processes, which a server can join.
//! * [`quota`]: limits the number of lines that are logged about all this.
//!
//! [`USERS`] lists what a user can still do to the server.

mod bus_error;
pub mod cables;
pub mod config_space;
mod connection;
mod device;
pub mod files;
pub mod interrupts;
pub mod mappings;
pub mod messages;
pub mod protocol;
pub mod quota;
pub mod report;
mod server;
pub mod socket;

#[cfg(test)]
mod memory_file;

pub use server::{Server, VECTORS};

/// What a client of the server's sockets can do to it, for `--help`.
pub const USERS: &str = "\
What a user of a socket can do to the server:
  The sockets are for this user alone (mode 0600). A process that can open
  one is trusted with this, and with nothing else:
  - keep its socket busy: functions have one user at a time, as long as it likes
  - cause findings, as a driver with mistakes does, after which the server ends
    with exit code 1; the report names the function
  - slow all functions of the server down: they share one engine
  - stop them while a page of a file that it gave does not come (a file of a
    network, or of a file system in user space), or while an event that it gave
    and filled in the moment of an interrupt does not take it
  - make the server hold 1 MiB for a message, and 65535 mappings in 4096 files
A file that is cut while the device has it ends its user's connection only.";
