//! What the log says of requests that are refused or dropped: once of each kind.

use e810_cm::Reason;
use e810_cm::machine::Counters;

/// A kind: its count, what is said, and what to do.
type Kind = (fn(&Counters) -> u64, &'static str);

const KINDS: &[Kind] = &[
    (
        |counters| counters.no_slot,
        "a request for a connection was dropped: all places for connections are in use; the peer asks again",
    ),
    (
        |counters| counters.backlog_full,
        "a request for a connection was dropped: as many wait for their program as its listener asked for; accept faster, or listen with a larger backlog",
    ),
    (
        |counters| counters.source_full,
        "a request for a connection was dropped: too many of its sender wait until its Ethernet address is known; see whether the sender answers (`e810 ping`)",
    ),
    (
        |counters| counters.gave_way,
        "a request for a connection gave way to another: too many wait until the Ethernet addresses of their senders are known; somebody may be sending requests from invented addresses",
    ),
    (
        |counters| counters.answers_dropped,
        "an answer to a request was dropped: too many wait to be sent; the peer asks again",
    ),
    (
        |counters| rejected(counters, Reason::INVALID_SERVICE_ID),
        "a peer was refused: nobody listens on the port that it asks for; start the program that does, or give the peer another port",
    ),
    (
        |counters| rejected(counters, Reason::STALE_CONN),
        "a peer was refused: its queue pair still has a connection here, which ends now; the peer may ask again after that",
    ),
    (
        |counters| rejected(counters, Reason::INVALID_GID),
        "a peer was refused: its request names addresses, or a partition, that this function has not, or the way to it is not known",
    ),
    (
        |counters| rejected(counters, Reason::INVALID_MTU),
        "a peer was refused: it asks for a path MTU that RoCE does not have",
    ),
];

fn rejected(counters: &Counters, reason: Reason) -> u64 {
    let count = counters.rejected.get(usize::from(reason.0));
    count.copied().unwrap_or_default()
}

/// Which kinds were said.
#[derive(Debug, Default)]
pub(super) struct Complaints([bool; KINDS.len()]);

impl Complaints {
    /// What is said now, for the first time.
    pub(super) fn new_ones(&mut self, counters: &Counters) -> impl Iterator<Item = &'static str> {
        self.0
            .iter_mut()
            .zip(KINDS)
            .filter(|(is_said, (count, _))| !**is_said && count(counters) > 0)
            .map(|(is_said, (_, text))| {
                *is_said = true;
                *text
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_said_once() {
        let mut counters = Counters::NONE;
        let mut complaints = Complaints::default();
        assert_eq!(complaints.new_ones(&counters).count(), 0);
        counters.backlog_full = 1;
        counters.rejected[8] = 1;
        let said: Vec<_> = complaints.new_ones(&counters).collect();
        assert!(
            said[0].contains("backlog") && said[1].contains("nobody listens"),
            "{said:?}"
        );
        counters.backlog_full = 2;
        counters.no_slot = 1;
        assert_eq!(complaints.new_ones(&counters).count(), 1);
        assert_eq!(complaints.new_ones(&counters).count(), 0);
    }
}
