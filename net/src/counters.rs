//! Counts of frames.

use core::fmt;

macro_rules! reasons {
    ($($name:ident: $text:literal,)*) => {
        /// Why a frame was not acted on.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub enum DropReason {
            $(#[doc = concat!("Frames dropped: ", $text, ".")] $name,)*
        }

        impl DropReason {
            /// All reasons.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// What is wrong, in a few words.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }

        /// How many reasons there are.
        const REASONS: usize = [$(DropReason::$name,)*].len();
    };
}

reasons! {
    Truncated: "shorter than its headers say",
    Oversize: "longer than the buffer",
    OtherVlan: "of another VLAN",
    OtherStation: "to another station's MAC address",
    OwnSource: "from our own MAC address",
    BadSourceMac: "from a multicast MAC address",
    OtherEthertype: "of a protocol other than ARP, IPv4 and IPv6",
    BadArp: "ARP that is not of Ethernet and IPv4, or from an impossible sender",
    ArpNotForUs: "ARP about addresses of others",
    BadIpHeader: "with an invalid IP header",
    BadChecksum: "with a wrong checksum",
    Fragment: "fragments",
    ExtensionHeader: "with an IPv6 extension header that is not understood",
    OtherAddress: "to another IP address",
    BadSourceAddress: "from an IP address that no host has",
    OtherProtocol: "of a protocol above IP that is not answered",
    OtherMessage: "ICMP messages that are not acted on",
    BadMessage: "malformed ICMP, IGMP or MLD messages",
    BadHopLimit: "neighbour discovery from beyond the link",
    EchoToGroup: "echo requests to a broadcast or multicast address",
    RateLimited: "echo requests above the rate",
    EchoUnasked: "echo replies that nobody waits for",
    NeighbourUnasked: "replies about a neighbour that nobody asked for",
    NeighbourRoom: "requests whose sender finds no room in the neighbour cache",
    QuotedNotOurs: "ICMP errors about packets that are not ours",
    PathMtuIgnored: "path MTUs that are not lower, or find no room",
    RouterRoom: "routers, prefixes or addresses of an advertisement without room",
    ReplyTooLong: "replies that are longer than a frame may be",
}

/// Counts of an interface.
#[derive(Clone, Debug)]
pub struct Counters {
    dropped: [u64; REASONS],
    /// Frames received.
    pub received: u64,
    /// Frames given to the port.
    pub sent: u64,
    /// Times that the port had no room for a frame, which was kept.
    pub port_full: u64,
    /// Echo requests answered.
    pub echo_replies: u64,
}

impl Counters {
    pub(crate) const fn new() -> Self {
        Self {
            dropped: [0; REASONS],
            received: 0,
            sent: 0,
            port_full: 0,
            echo_replies: 0,
        }
    }

    pub(crate) fn drop(&mut self, reason: DropReason) {
        if let Some(count) = self.dropped.get_mut(reason as usize) {
            *count = count.saturating_add(1);
        }
    }

    /// Frames dropped for a reason.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped.get(reason as usize).copied().unwrap_or(0)
    }

    /// Frames dropped for any reason.
    #[must_use]
    pub fn all_dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }
}

impl fmt::Display for Counters {
    /// A line for each reason that has a count.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} received, {} sent", self.received, self.sent)?;
        for reason in DropReason::ALL {
            match self.dropped(*reason) {
                0 => {}
                count => write!(f, "\n{count} dropped: {}", reason.text())?,
            }
        }
        Ok(())
    }
}
