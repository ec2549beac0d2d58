//! Counts of a wire.

/// What became of the frames so far.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LinkCounts {
    /// Put on the wire.
    pub sent: u64,
    /// Handed to a function; a group address counts each receiver.
    pub delivered: u64,
    /// Lost by chance or by a hook.
    pub lost: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Held back.
    pub reordered: u64,
    /// Changed by chance.
    pub corrupted: u64,
    /// Sent to an address that nobody has, or too short to have one.
    pub unroutable: u64,
    /// Handed to the uplink.
    pub uplinked: u64,
    /// Come from outside, for a function here.
    pub from_outside: u64,
    /// Come from outside and lost, because too many were on the wire.
    pub overrun: u64,
}
