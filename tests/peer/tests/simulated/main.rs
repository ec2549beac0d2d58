//! The library as a driver of the simulator: its requests are carried out, its
//! `poll_cq` reads what the simulator writes, and the simulator finds nothing to
//! complain about.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod deliveries;
mod end;
mod flush;
mod runs;

use std::io::{Write, stderr};

use e810_peer::Library;

/// The library; or says loudly, past the capture of test output, that it is not
/// there.
fn library() -> Option<Library> {
    match Library::load() {
        Ok(library) => Some(library),
        Err(why) => {
            let _ = stderr().write_all(format!("\n{why}\n").as_bytes());
            None
        }
    }
}
