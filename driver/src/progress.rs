//! One call for a program's loop: takes the events of all vectors, and does the work that they
//! leave.

use e810_hal::Platform;

use crate::control::{Control, Progress};
use crate::error::Result;
use crate::events::{Event, EventSet};

/// Takes the events of all vectors ([`VectorEvents::poll`](crate::VectorEvents::poll)), passes
/// each to `deliver`, and does the work that they leave ([`Control::progress`]). Never waits, and
/// is bounded: at most 64 entries of each vector.
///
/// A program that polls its completion queues calls this in the same loop: without it a
/// queue pair that failed completes nothing. A program with interrupts calls
/// [`VectorEvents::on_vector`](crate::VectorEvents::on_vector) in its handlers instead, and
/// [`Control::progress`] in its loop.
///
/// # Errors
/// As [`Control::progress`]; the events were delivered all the same.
pub fn progress<P: Platform>(
    control: &mut Control<P>,
    events: &mut EventSet<P>,
    mut deliver: impl FnMut(Event),
) -> Result<Progress> {
    for vector in events {
        vector.poll(&mut deliver);
    }
    control.progress()
}
