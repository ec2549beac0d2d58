//! Counters of the traffic on the wire: of a function, or of a queue pair that has counters of
//! its own.

/// Where a counter is in the gather buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    name: &'static str,
    /// Byte offset of the word.
    offset: usize,
    /// Lowest bit in it.
    bit: u32,
    /// Bits.
    width: u32,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $counter:ident = $name:literal, $offset:literal, $bit:literal, $width:literal;)*) => {
        /// A counter of the gather buffer (control-path 4.13).
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        #[non_exhaustive]
        pub enum Counter {
            $($(#[$doc])* $counter,)*
        }

        impl Counter {
            /// All counters, in the order of the buffer.
            pub const ALL: &'static [Self] = &[$(Self::$counter,)*];

            const fn place(self) -> Place {
                match self {
                    $(Self::$counter => Place {
                        name: $name,
                        offset: $offset,
                        bit: $bit,
                        width: $width,
                    },)*
                }
            }
        }
    };
}

counters! {
    /// Packets received with an error in their VLAN tag.
    RxVlanErrors = "RXVLANERR", 0, 32, 24;
    /// Octets of IPv4 datagrams received.
    Ip4RxOctets = "IP4RXOCTS", 8, 0, 48;
    /// IPv4 datagrams received.
    Ip4RxPackets = "IP4RXPKTS", 16, 0, 48;
    /// IPv4 datagrams discarded.
    Ip4RxDiscards = "IP4RXDISCARD", 24, 32, 32;
    /// IPv4 datagrams that were cut off.
    Ip4RxTruncated = "IP4RXTRUNC", 24, 0, 32;
    /// IPv4 fragments received.
    Ip4RxFragments = "IP4RXFRAGS", 32, 0, 48;
    /// Octets of IPv4 multicast datagrams received.
    Ip4RxMcastOctets = "IP4RXMCOCTS", 40, 0, 48;
    /// IPv4 multicast datagrams received.
    Ip4RxMcastPackets = "IP4RXMCPKTS", 48, 0, 48;
    /// Octets of IPv6 datagrams received.
    Ip6RxOctets = "IP6RXOCTS", 56, 0, 48;
    /// IPv6 datagrams received.
    Ip6RxPackets = "IP6RXPKTS", 64, 0, 48;
    /// IPv6 datagrams discarded.
    Ip6RxDiscards = "IP6RXDISCARD", 72, 32, 32;
    /// IPv6 datagrams that were cut off.
    Ip6RxTruncated = "IP6RXTRUNC", 72, 0, 32;
    /// IPv6 fragments received.
    Ip6RxFragments = "IP6RXFRAGS", 80, 0, 48;
    /// Octets of IPv6 multicast datagrams received.
    Ip6RxMcastOctets = "IP6RXMCOCTS", 88, 0, 48;
    /// IPv6 multicast datagrams received.
    Ip6RxMcastPackets = "IP6RXMCPKTS", 96, 0, 48;
    /// Octets of IPv4 datagrams sent.
    Ip4TxOctets = "IP4TXOCTS", 104, 0, 48;
    /// IPv4 datagrams sent.
    Ip4TxPackets = "IP4TXPKTS", 112, 0, 48;
    /// IPv4 fragments sent.
    Ip4TxFragments = "IP4TXFRAGS", 120, 0, 48;
    /// Octets of IPv4 multicast datagrams sent.
    Ip4TxMcastOctets = "IP4TXMCOCTS", 128, 0, 48;
    /// IPv4 multicast datagrams sent.
    Ip4TxMcastPackets = "IP4TXMCPKTS", 136, 0, 48;
    /// Octets of IPv6 datagrams sent.
    Ip6TxOctets = "IP6TXOCTS", 144, 0, 48;
    /// IPv6 datagrams sent.
    Ip6TxPackets = "IP6TXPKTS", 152, 0, 48;
    /// IPv6 fragments sent.
    Ip6TxFragments = "IP6TXFRAGS", 160, 0, 48;
    /// Octets of IPv6 multicast datagrams sent.
    Ip6TxMcastOctets = "IP6TXMCOCTS", 168, 0, 48;
    /// IPv6 multicast datagrams sent.
    Ip6TxMcastPackets = "IP6TXMCPKTS", 176, 0, 48;
    /// IPv4 datagrams that had no route.
    Ip4TxNoRoute = "IP4TXNOROUTE", 184, 32, 24;
    /// IPv6 datagrams that had no route.
    Ip6TxNoRoute = "IP6TXNOROUTE", 184, 0, 24;
    /// TCP segments received. The table gives 48 bits from bit 32 on; a word
    /// has 32 of them.
    TcpRxSegments = "TCPRXSEGS", 192, 32, 32;
    /// TCP segments received with an invalid option.
    TcpRxOptionErrors = "TCPRXOPTERR", 200, 32, 24;
    /// TCP segments received that break the protocol.
    TcpRxProtocolErrors = "TCPRXPROTOERR", 200, 0, 24;
    /// TCP segments sent.
    TcpTxSegments = "TCPTXSEG", 208, 0, 48;
    /// TCP segments sent again.
    TcpRetransmitted = "TCPRTXSEG", 216, 32, 32;
    /// UDP datagrams received.
    UdpRxPackets = "UDPRXPKTS", 224, 0, 48;
    /// UDP datagrams sent.
    UdpTxPackets = "UDPTXPKTS", 232, 0, 48;
    /// RDMA WRITEs received.
    RdmaRxWrites = "RDMARXWRS", 240, 0, 48;
    /// RDMA READs received.
    RdmaRxReads = "RDMARXRDS", 248, 0, 48;
    /// SENDs received.
    RdmaRxSends = "RDMARXSNDS", 256, 0, 48;
    /// RDMA WRITEs sent.
    RdmaTxWrites = "RDMATXWRS", 264, 0, 48;
    /// RDMA READs sent.
    RdmaTxReads = "RDMATXRDS", 272, 0, 48;
    /// SENDs sent.
    RdmaTxSends = "RDMATXSNDS", 280, 0, 48;
    /// Memory windows bound.
    RdmaBinds = "RDMAVBND", 288, 0, 48;
    /// Keys invalidated.
    RdmaInvalidates = "RDMAVINV", 296, 0, 48;
    /// Packets received with a mark of congestion.
    RxEcnMarked = "RXNPECNMARKEDPKTS", 304, 0, 56;
    /// Congestion notifications ignored.
    RxCnpIgnored = "RXRPCNPIGNORED", 312, 32, 24;
    /// Congestion notifications obeyed.
    RxCnpHandled = "RXRPCNPHANDLED", 312, 0, 32;
    /// Congestion notifications sent.
    TxCnpSent = "TXNPCNPSENT", 320, 0, 32;
}

impl Counter {
    /// Its name in existing drivers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.place().name
    }

    /// Its width in bits: it wraps to 0 after its greatest value.
    #[must_use]
    pub const fn width(self) -> u32 {
        self.place().width
    }

    /// The greatest value.
    const fn mask(self) -> u64 {
        // At most 56 bits.
        (1u64 << self.place().width) - 1
    }
}

/// How many there are.
const COUNTERS: usize = Counter::ALL.len();

/// The counters of a function at one moment, or their growth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stats {
    values: [u64; COUNTERS],
}

impl Stats {
    /// The counters in a gather buffer, whose words `word` gives by index.
    pub(crate) fn read(word: impl Fn(usize) -> u64) -> Self {
        let mut values = [0; COUNTERS];
        for (value, counter) in values.iter_mut().zip(Counter::ALL) {
            let place = counter.place();
            *value = (word(place.offset / 8) >> place.bit) & counter.mask();
        }
        Self { values }
    }

    /// The value of a counter.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        // One for each variant, in order.
        self.values.get(counter as usize).copied().unwrap_or(0)
    }

    /// All counters with their values.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> {
        Counter::ALL.iter().copied().zip(self.values)
    }

    /// What the counters have grown by since `earlier`. A counter may wrap once at most in
    /// between, so read them often enough: 32 bits of packets wrap in about half a minute at the
    /// line rate of the smallest packets.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut values = self.values;
        for ((value, before), counter) in values.iter_mut().zip(earlier.values).zip(Counter::ALL) {
            *value = value.wrapping_sub(before) & counter.mask();
        }
        Self { values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use e810_cqp::op::GATHER_BYTES;
    use std::collections::HashSet;
    use std::vec::Vec;

    #[test]
    fn each_counter_has_its_bits_alone() {
        let mut taken = [0u64; GATHER_BYTES / 8];
        let mut names = HashSet::new();
        for counter in Counter::ALL {
            let place = counter.place();
            assert!(place.offset.is_multiple_of(8) && place.offset + 8 <= GATHER_BYTES);
            assert!(place.bit + place.width <= 64);
            let bits = counter.mask() << place.bit;
            assert_eq!(taken[place.offset / 8] & bits, 0, "{}", place.name);
            taken[place.offset / 8] |= bits;
            assert!(names.insert(place.name));
        }
        assert_eq!(names.len(), 46);
    }

    #[test]
    fn values_are_cut_out_of_their_words() {
        let words = |index: usize| match index {
            0 => 0x00AB_CDEF_0000_0000,
            1 => 0xFFFF_0000_0000_0007,
            3 => 0x1111_1111_2222_2222,
            40 => 0x9999_9999_0000_0005,
            _ => 0,
        };
        let stats = Stats::read(words);
        let there: Vec<_> = stats.iter().filter(|(_, value)| *value > 0).collect();
        assert_eq!(
            there,
            [
                (Counter::RxVlanErrors, 0xAB_CDEF),
                (Counter::Ip4RxOctets, 7),
                (Counter::Ip4RxDiscards, 0x1111_1111),
                (Counter::Ip4RxTruncated, 0x2222_2222),
                (Counter::TxCnpSent, 5),
            ]
        );
        assert_eq!(stats.get(Counter::Ip4RxDiscards), 0x1111_1111);
    }

    #[test]
    fn growth_goes_past_the_greatest_value() {
        let at = |octets: u64, discards: u64| {
            Stats::read(move |index| match index {
                1 => octets,
                3 => discards << 32,
                _ => 0,
            })
        };
        let grown = at(5, 2).since(&at((1 << 48) - 1, 0xFFFF_FFFE));
        assert_eq!(grown.get(Counter::Ip4RxOctets), 6);
        assert_eq!(grown.get(Counter::Ip4RxDiscards), 4);
        assert_eq!(grown.get(Counter::Ip4RxPackets), 0);
    }
}
