//! A look at functions at work: which vectors fire and how often, how full the
//! queues are, what moderation does, what went wrong.
//!
//! A function belongs to one process, so that process has to say. The loop that
//! [attends](crate::measure::attend) to a device has a [`Tap`]: one load tells it whether
//! somebody wants to look, and only then is there anything to do. A [`Desk`] asks
//! all taps of a process, a [`Service`] answers for it on a socket, and a
//! [`Client`] asks there.
//!
//! What is told are counts since the beginning ([`Seen`]); what they grew by
//! between two looks makes rates ([`View`]).

mod client;
mod desk;
mod look;
mod screen;
mod seen;
mod service;
mod view;

pub use client::Client;
pub use desk::{Desk, Tap};
pub(crate) use look::{Counts, look};
pub use screen::{print, print_within};
pub use seen::{
    AsyncSeen, AsyncsSeen, CqSeen, DepthSeen, FunctionSeen, PortSeen, ProfileSeen, Seen,
    TimingSeen, VectorSeen,
};
pub use service::Service;
pub use view::{CqView, FunctionView, VectorView, View};

#[cfg(test)]
mod tests;
