//! The slot protocol under a model checker: every interleaving of the parts.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p e810-datapath --release --test loom`
//!
//! The slot table's words and the rings' words are loom's atomics; the queues
//! and the registry are the crate's own. Rings are as small as they may be (four
//! receive slots, four completion entries), because a receive queue has no
//! reserve; a send queue differs only in what is written into its ring.

#![cfg(loom)]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic"
)]

mod arming;
mod channels;
mod failures;
mod memory;
mod reuse;
mod rig;
mod software;
mod trackers;

fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = Some(3);
    }
    builder.max_branches = 20_000;
    builder.check(test);
}
