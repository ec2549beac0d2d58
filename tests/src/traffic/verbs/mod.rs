//! Scenarios of everything verbs has beyond a message on a connection; each runs
//! on every backend (see [`scenarios`](super::scenarios)).

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests: what is not there ends the test"
)]

use e810::{Data, Op, Platform, SendFlags, SendWr, Wc};

use super::{End, Pair};

pub mod channels;
pub mod datagrams;
pub mod endings;
pub mod errors;
pub mod memory;
pub mod moderation;
pub mod posting;
pub mod queues;
pub mod vectors;

#[must_use]
pub const fn signaled(wr_id: u64, op: Op<'_>) -> SendWr<'_> {
    SendWr {
        wr_id,
        op,
        flags: SendFlags::SIGNALED,
    }
}

/// Posts one signaled request and waits for its completion, the next one of its
/// side.
pub fn done(pair: &mut Pair<impl Platform>, at: End, op: Op<'_>) -> Wc {
    let request = signaled(0xD0E, op);
    pair.side(at.side)
        .post_send(at.qp, &[request])
        .expect("posted");
    let done = pair.completions(at.side, 1);
    let wc = done.first().copied().unwrap_or_default();
    assert_eq!(wc.wr_id, 0xD0E, "{:?}", pair.side(at.side).reported);
    wc
}

/// Sends from the start of the outgoing half.
pub const fn send<'a>(data: Data<'a>) -> Op<'a> {
    Op::Send { data, imm: None }
}
