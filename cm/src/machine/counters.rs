//! Counts.

/// What the machine has counted since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Counters {
    /// Messages sent, by attribute id from REQ (0x10) on.
    pub sent: [u64; 11],
    /// Messages received, in the same order.
    pub received: [u64; 11],
    /// Messages sent again because no answer came.
    pub repeated: u64,
    /// Messages that tell nothing new: received before, or late, such as an RTU after the first
    /// message.
    pub duplicates: u64,
    /// Datagrams that are no messages.
    pub no_message: u64,
    /// Messages about a connection that is not known, or that do not fit its state.
    pub stray: u64,
    /// Requests dropped because all slots are in use.
    pub no_slot: u64,
    /// Requests dropped because their source has too many.
    pub source_full: u64,
    /// Requests that gave way to another while nobody knew whether their sender answers.
    pub gave_way: u64,
    /// Requests dropped because a listener's backlog was full.
    pub backlog_full: u64,
    /// Answers dropped because too many waited to be sent.
    pub answers_dropped: u64,
    /// REJs sent, by reason; those without a name count as 0.
    pub rejected: [u64; 36],
}

impl Counters {
    /// Names of the messages, in the order of [`sent`](Self::sent).
    pub const MESSAGES: [&str; 11] = [
        "REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR",
    ];

    /// Nothing counted.
    pub const NONE: Self = Self {
        sent: [0; 11],
        received: [0; 11],
        repeated: 0,
        duplicates: 0,
        no_message: 0,
        stray: 0,
        no_slot: 0,
        source_full: 0,
        gave_way: 0,
        backlog_full: 0,
        answers_dropped: 0,
        rejected: [0; 36],
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dreq, Rej, Req, SidrRep};

    #[test]
    fn names_are_in_the_order_of_attributes() {
        for (attribute, name) in [
            (Req::ATTRIBUTE, "REQ"),
            (Rej::ATTRIBUTE, "REJ"),
            (Dreq::ATTRIBUTE, "DREQ"),
            (SidrRep::ATTRIBUTE, "SIDR_REP"),
        ] {
            let place = usize::from(attribute - Req::ATTRIBUTE);
            assert_eq!(Counters::MESSAGES[place], name);
        }
    }
}
