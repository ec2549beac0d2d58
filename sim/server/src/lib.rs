//! Serves simulated functions to other processes and to virtual machines, over vfio-user
//! (specification 0.9.2).
//!
//! [`Server`] is the whole server; `e810 sim` is a command line for it. From the outside in:
//!
//! * [`socket`] and [`files`]: what the server creates in the file system, and what it leaves alone
//!   there.
//! * [`messages`] and [`protocol`]: messages and their answers. A size is checked before anything is
//!   allocated or read for it.
//! * [`connection`]: one user of a function on a socket.
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
pub mod connection;
pub mod device;
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
  Only the user who started the server can open the sockets (mode 0600). A
  process that opens one can do this, and nothing else:
  - keep its socket busy for as long as it likes: a function has one user at a
    time
  - cause findings, like a driver with bugs; the server then ends with exit code
    1, and its report names the function
  - slow down all functions of the server: they share one engine
  - stop them while a page of one of its files does not arrive (from a network
    file system, or one in user space), or while one of its eventfds is full and
    cannot take an interrupt
  - make the server hold 1 MiB for a message, and 65535 mappings in 4096 files
If it shortens a file while the device uses it, only its own connection ends.";
