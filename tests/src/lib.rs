//! What the tests of this workspace share.

pub mod plain;
pub mod scenario;
pub mod traffic;
