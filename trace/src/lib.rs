//! What a driver and its device do, as a file.
//!
//! A [`Recorder`] observes a device ([`e810_backends::observed`]) and writes each access to a
//! register, each command of the firmware's queue (AdminQ) and of the Control QP with its
//! buffers, each work request and each entry that the device writes, as a line. [`Trace`] reads
//! such a file; [`show()`] prints it in the form in which Linux' ice and irdma print the same
//! with dynamic debug; [`diff()`] says in what two of them differ. `docs/trace.md` describes the
//! format.

pub mod adminq_rings;
mod anonymise;
mod answer;
mod diff;
mod file;
mod follow;
pub mod record;
mod recorder;
mod show;

pub use anonymise::anonymised;
pub use answer::{Answer, Answers};
pub use diff::diff;
pub use file::{Ended, TraceFile};
pub use record::{Event, Record, Trace};
pub use recorder::Recorder;
pub use show::{Kinds, show};
