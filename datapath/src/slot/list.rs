//! Lists through the slots: many push, one takes all.
//!
//! A node is in at most one list of its kind at a time, which a flag in the slot ensures. Only
//! the taker unlinks, and always everything at once. So there is no ABA problem and no
//! reclamation.

use core::sync::atomic::Ordering;

use e810_types::WorkQueue;

use super::Atom;

/// A link: a QP id and which of its work queues; 0 is the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Node(u64);

impl Node {
    pub(crate) const END: Self = Self(0);

    /// The QP as a whole (attention, retirement).
    pub(crate) const fn qp(id: u32) -> Self {
        Self::queue(id, WorkQueue::Send)
    }

    /// One work queue (flush).
    pub(crate) const fn queue(id: u32, queue: WorkQueue) -> Self {
        let recv = matches!(queue, WorkQueue::Recv) as u64;
        Self(((id as u64) << 1 | recv) + 1)
    }

    /// What the link leads to.
    pub(crate) const fn get(self) -> Option<(u32, WorkQueue)> {
        match self.0.checked_sub(1) {
            None => None,
            Some(code) if code & 1 == 0 => Some(((code >> 1) as u32, WorkQueue::Send)),
            Some(code) => Some(((code >> 1) as u32, WorkQueue::Recv)),
        }
    }
}

/// Follows a link that this thread owns.
pub(crate) fn next<A: Atom>(link: &A) -> Node {
    Node(link.load(Ordering::Relaxed))
}

/// Sets a link that this thread owns.
pub(crate) fn set<A: Atom>(link: &A, node: Node) {
    link.store(node.0, Ordering::Relaxed);
}

/// Puts `node`, whose link is `link`, first in the list at `head`.
pub(crate) fn push<A: Atom>(head: &A, link: &A, node: Node) {
    let mut first = head.load(Ordering::Relaxed);
    loop {
        // Published by the exchange below, acquired by `take`.
        link.store(first, Ordering::Relaxed);
        match head.compare_exchange(first, node.0) {
            Ok(_) => return,
            Err(now) => first = now,
        }
    }
}

/// Takes the whole list; its links belong to this thread from now on.
pub(crate) fn take<A: Atom>(head: &A) -> Node {
    if head.load(Ordering::Relaxed) == 0 {
        return Node::END;
    }
    Node(head.swap(0))
}
