//! Tests of two RC engines connected by an in-memory link.

mod credits;
mod errors;
mod loss;
mod node;
mod not_ready;
mod post;
mod queue;
mod read_ahead;
mod reads;
mod requester;
mod responder;
mod rxe;
mod stored;
mod testbed;
mod transfer;

use super::*;
use node::{BASE, LKEY, RKEY};
use post::Post;
use testbed::{CREDITS, LinkFaults, Testbed, WINDOW};

/// The event that one end reported; that end has stopped.
fn event(end: &testbed::End) -> (u16, u8, u16) {
    assert_eq!(end.state.mode(), Mode::Error);
    assert_eq!(end.node.events.len(), 1);
    let event = end.node.events[0];
    (event.code.0, event.source as u8, event.wqe_index)
}

/// Nothing failed and nothing is left.
fn clean(testbed: &Testbed) {
    for end in [&testbed.a, &testbed.b] {
        assert_eq!(end.node.events, []);
        assert_eq!(end.node.lints, []);
        assert_eq!(end.state.mode(), Mode::Rts);
        assert!(end.state.send_queue_idle());
        assert_eq!(end.state.next_deadline(), None);
    }
}

/// Index and opcode of every send completion.
fn sent(end: &testbed::End) -> Vec<(u16, u8)> {
    end.node
        .sent
        .iter()
        .map(|completion| (completion.wqe_index, completion.op))
        .collect()
}
