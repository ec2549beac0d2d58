//! Resets, package, scheduler tree and link against a scripted firmware.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that panics fails, as it should"
)]

#[path = "../fake/mod.rs"]
mod fake;
mod link;
mod package;
mod reset;
mod tree;

use e810_adminq::AdminQ;
use fake::Fake;

fn started(fake: &Fake) -> AdminQ<Fake> {
    AdminQ::start(fake.clone()).unwrap()
}

fn finish(fake: &Fake, queue: AdminQ<Fake>) {
    queue.shutdown().unwrap();
    fake.assert_clean();
}
