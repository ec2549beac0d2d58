//! Work queues and completion queues together, against models.

#![cfg(not(loom))]
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic"
)]

mod again;
mod common;
mod completions;
mod fences;
mod flush;
mod gone;
mod late;
mod law;
mod long_receives;
mod order;
mod recorded;
mod refused;
mod resize;
mod ring;
mod slots;
mod tables;
mod together;
