//! The existing provider library in one process with this project.
//!
//! Loads the distribution's unmodified `libirdma` and answers the commands that
//! it would send to a kernel, so that its data path runs here: measured beside
//! ours (`tests/peer/run bench`, `tests/peer/run callgrind`), as a second
//! encoder, and as a driver of the simulator. Its code is called, never copied.
//!
//! Nothing depends on this room. Where the library is missing, its programs say
//! `NOT RUN` and stop.
//!
//! * [`Library`]: finds and loads it; [`Opened`]: contexts and objects.
//! * [`kernel`]: who answers commands; [`kernel::Paper`] has no device.
//! * [`contest`]: the same work for it and for ours.

mod abi;
mod answers;
pub mod contest;
mod device;
mod doorbells;
pub mod generate;
pub mod kernel;
mod library;
mod opened;
mod posting;
pub mod request;
pub mod simulated;
mod spin;

pub use doorbells::Doorbells;
pub use library::{Library, NotRun};
pub use opened::{Calls, Domain, LibraryAh, LibraryCq, LibraryMr, LibraryQp, Opened};
pub use spin::SpinLock;
