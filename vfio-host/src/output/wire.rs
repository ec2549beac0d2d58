//! The simulated wire of this process, for reports.

use std::fmt;
use std::net::SocketAddrV4;

use e810_hal::Ns;
use e810_sim::Quality;
use e810_sim::link::LinkCounts;
use e810_sim_wire::WireName;
use serde::Serialize;

/// The simulated wire of this process, and what it adds to every message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct WireReport {
    /// The name of a segment with other processes; absent for a wire in this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its multicast group and port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<SocketAddrV4>,
    /// Time on the wire of each frame.
    pub latency_ns: u64,
    /// Rate of each function's port; `null`: not limited.
    pub rate_bits_per_second: Option<u64>,
    /// Counts of the frames; absent for a wire without faults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<FrameCounts>,
    /// The rate in words.
    #[serde(skip)]
    rate: String,
}

/// Frames of a wire with faults, from the bring-up of the functions on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct FrameCounts {
    /// Sent by functions of this process.
    pub sent: u64,
    /// Of these, lost.
    pub lost: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Delayed, so that later ones overtook them.
    pub reordered: u64,
    /// Delivered with wrong bits.
    pub corrupted: u64,
}

impl From<LinkCounts> for FrameCounts {
    fn from(counts: LinkCounts) -> Self {
        Self {
            sent: counts.sent,
            lost: counts.lost,
            duplicated: counts.duplicated,
            reordered: counts.reordered,
            corrupted: counts.corrupted,
        }
    }
}

impl fmt::Display for FrameCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            sent,
            lost,
            duplicated,
            reordered,
            corrupted,
        } = self;
        write!(
            f,
            "{sent} sent; of these the wire lost {lost}, duplicated {duplicated}, reordered {reordered}, corrupted {corrupted}"
        )
    }
}

impl WireReport {
    /// A wire of this quality, with a name if it is a segment.
    pub(crate) fn new(link: Quality, name: Option<&WireName>) -> Self {
        Self {
            name: name.map(WireName::to_string),
            group: name.map(WireName::group),
            latency_ns: link.latency.0,
            frames: None,
            rate_bits_per_second: link.rate.map(|rate| rate.bits_per_second()),
            rate: link
                .rate
                .map_or_else(|| "not limited".to_owned(), |rate| rate.to_string()),
        }
    }
}

impl fmt::Display for WireReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(name), Some(group)) = (&self.name, self.group) {
            write!(f, "{name} ({group}), ")?;
        }
        write!(f, "latency {}, rate {}", Ns(self.latency_ns), self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wire_in_words_and_as_json() {
        let mut link = Quality::PERFECT;
        let text = |link: Quality| WireReport::new(link, None).to_string();
        assert_eq!(text(link), "latency 1 µs, rate not limited");
        let json = |link: Quality| serde_json::to_string(&WireReport::new(link, None)).unwrap();
        assert_eq!(
            json(link),
            r#"{"latency_ns":1000,"rate_bits_per_second":null}"#
        );
        link.latency = Ns(0);
        link.rate = e810_sim::Rate::new(25_000_000_000);
        assert_eq!(text(link), "latency 0 ns, rate 25 Gbit/s");
        assert_eq!(
            json(link),
            r#"{"latency_ns":0,"rate_bits_per_second":25000000000}"#
        );
        let name: WireName = "a".parse().unwrap();
        let segment = WireReport::new(link, Some(&name));
        assert_eq!(
            segment.to_string(),
            "a (239.98.48.192:64212), latency 0 ns, rate 25 Gbit/s"
        );
        assert_eq!(
            serde_json::to_string(&segment).unwrap(),
            r#"{"name":"a","group":"239.98.48.192:64212","latency_ns":0,"rate_bits_per_second":25000000000}"#
        );
    }
}
