//! Sequences of calls of librdmacm's functions, on both ends of connections.
//!
//! Each id has a [`Phase`](world::Phase), as the kernel's would, and each connection what both of its
//! ends have done; an event is held against both. Where only one thing can follow, only that is allowed.
//! After something that crosses what the peer does at the same time, such as an end before the
//! connection is established, a connection is [`odd`](world::Conn::odd): then each kind of event may
//! come once, in any order.
//!
//! * [`api`], the functions; [`world`], what is live; [`engine`], the sequence;
//! * `events`, what is taken, and `awaited`, what still has to come; `acts`, what is drawn, a module a subject;
//!   `transfer`, messages over what is connected; `endpoints`, synchronous ids and their peers;
//! * [`campaign`], sequences one after the other, or in several threads.

mod acts;
pub mod api;
mod awaited;
pub mod campaign;
mod endpoints;
pub mod engine;
mod events;
mod transfer;
pub mod world;
