//! What a wire saw.

use serde::Serialize;

/// Counts of a wire: frames, each a datagram unless it went through a ring.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LinkReport {
    /// The name of a segment; absent for a wire between two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire: Option<String>,
    /// Address and port of this end.
    pub local: String,
    /// Address and port of the other end, or the multicast group and the port of a segment.
    pub peer: String,
    /// Handed to the socket or to a ring.
    pub sent: u64,
    /// Of those, to all ends of a segment: frames to groups and to unknown addresses.
    pub sent_to_all: u64,
    /// Of those, through rings.
    pub sent_by_ring: u64,
    /// That the socket or a ring did not take: lost.
    pub not_sent: u64,
    /// Of those, because a ring was full.
    pub rings_full: u64,
    /// Received for a function here.
    pub received: u64,
    /// Of those, through rings.
    pub received_by_ring: u64,
    /// Received and lost: for no function here, or too many at once.
    pub not_ours: u64,
    /// From another address than the peer's, or on a segment from none of this machine; these and
    /// the following are dropped.
    pub strangers: u64,
    /// No Ethernet frame.
    pub no_frame: u64,
    /// Longer than a frame can be.
    pub too_long: u64,
    /// Shorter than the packet inside.
    pub truncated: u64,
    /// Not dropped: from outside with the source address of a function here. Two ends of a segment
    /// have one address, or something returns frames.
    pub own_addresses: u64,
    /// Rings to other ends of a segment now.
    pub rings_out: usize,
    /// Rings from other ends now.
    pub rings_in: usize,
    /// Errors of the socket when receiving.
    pub receive_errors: u64,
    /// Dropped by the kernel before they were received, because the socket's
    /// buffer was full; none from a kernel that does not tell.
    pub receive_overflows: Option<u64>,
    /// Bytes of the socket's buffers as the kernel counts them, which is twice
    /// what they hold at most.
    pub receive_buffer: u64,
    /// The same for sending.
    pub send_buffer: u64,
}
