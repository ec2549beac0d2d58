//! Frame counters of the link.

/// Counts of frames by their fate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LinkCounts {
    /// Put on the wire.
    pub sent: u64,
    /// Delivered to a function; a group address counts each receiver.
    pub delivered: u64,
    /// Dropped at random or by a hook.
    pub lost: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Delayed, so that later frames overtake them.
    pub reordered: u64,
    /// Corrupted at random.
    pub corrupted: u64,
    /// Sent to an address without an owner, or too short to have an address.
    pub unroutable: u64,
    /// Passed to the uplink.
    pub uplinked: u64,
    /// Received from outside for a function here.
    pub from_outside: u64,
    /// Received from outside and dropped, because too many were in flight.
    pub overrun: u64,
}

impl LinkCounts {
    /// Adds the frames that went past the link, and clears them there.
    pub(crate) fn absorb(&mut self, direct: &mut Self) {
        let direct = std::mem::take(direct);
        self.sent += direct.sent;
        self.delivered += direct.delivered;
        self.uplinked += direct.uplinked;
        self.from_outside += direct.from_outside;
        self.overrun += direct.overrun;
    }
}
