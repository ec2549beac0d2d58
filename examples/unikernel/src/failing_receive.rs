//! A request that fails, and how a program learns of it.
//!
//! The card stops the queue pair and tells an asynchronous event; that is all it
//! does. `Control::progress`, which a node calls whenever it waits, then moves the
//! queue pair to ERROR and has it flushed, and the requests complete.

use e810::{AsyncEvent, QpState, WcStatus};
use metal::say;

use crate::node::{HEADER, Node, Which};
use crate::report::Failure;

/// Sends a message to a receive that is too short for it. The connection is of
/// no use afterwards.
pub(crate) fn receive_too_short<'m>(from: &mut Node<'m>, to: &mut Node<'m>) -> Result<(), Failure> {
    to.post_recv(Which::Rc, 0, HEADER)?;
    from.post_send(Which::Rc, 0)?;
    for (node, side) in [(to, "receiver"), (from, "sender")] {
        let (event, status) = failure(node)?;
        if let Some(event) = event {
            say!("{side}: {event}");
            #[cfg(feature = "defmt")]
            defmt::warn!("{}: {}", side, event);
        }
        say!("{side}: its request completed with {status:?}");
        if node.rc.state() != QpState::Err {
            return Err(Failure::NotStopped);
        }
    }
    Ok(())
}

/// Waits for a completion with an error, and takes the event before it.
fn failure(node: &mut Node<'_>) -> Result<(Option<AsyncEvent>, WcStatus), Failure> {
    let mut reported = None;
    loop {
        match node.completion() {
            Err(Failure::Event(event)) => reported = Some(event),
            Err(Failure::Completion(status, _)) => return Ok((reported, status)),
            Err(other) => return Err(other),
            Ok(_) => return Err(Failure::NotStopped),
        }
    }
}
