//! The function's LAN side: what the engine needs of it once it is up.

mod hook;

pub use hook::{LanHook, NoLanHook};
