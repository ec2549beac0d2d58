//! The data path and the objects of verbs: messages, completions, events, failures.

mod async_events;
mod embedding;
mod events;
mod failures;
mod malformed;
mod program_memory;
mod region_outlived;
mod traffic;
mod verbs;
