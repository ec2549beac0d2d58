//! librdmacm on the e810 driver, as a Rust crate. The exported names are elsewhere, in
//! `e810-verbs-so`: programs get both libraries from one object, which has their state once.
//!
//! * [`abi`], the structures of the application interface;
//! * [`calls`], [`connecting`], [`resolve`], [`queue_pairs`], [`endpoints`], [`multicast`], [`options`], [`info`], [`strings`]: the
//!   functions, a module a subject; [`refused`], those behind which there is nothing;
//! * [`channel`], event channels; `happening`, events; `news`, what the connection manager tells;
//! * [`devices`], the devices of the process, opened once for all ids.
//!
//! Ids live in a table as long as programs have them. No lock is held during a command: the thread
//! that hears the answers also hears of connections, and looks for their ids.

// UNSAFETY: it is a C library: programs pass it pointers, and it follows them as the manual pages
// of librdmacm say.

pub mod abi;
mod address;
pub mod calls;
pub mod channel;
pub mod connecting;
pub mod devices;
pub mod endpoints;
mod happening;
mod id;
pub mod info;
pub mod multicast;
mod news;
pub mod options;
pub mod queue_pairs;
pub mod refused;
pub mod resolve;
pub mod strings;
