//! What the tests of this workspace share.

pub mod given_back;
pub mod moderation;
pub mod plain;
pub mod scenario;
pub mod sources;
pub mod traffic;
pub mod trials;
pub mod wakeups;

#[cfg(doctest)]
#[doc = include_str!("../../docs/embedding.md")]
struct Embedding;

#[cfg(doctest)]
#[doc = include_str!("../../docs/net.md")]
struct Net;
