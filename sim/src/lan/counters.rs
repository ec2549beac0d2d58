//! Counters of ports and VSIs (lan-path 13): GLPRT_*, GLV_*.
//!
//! Byte counters include the FCS, because DPDK subtracts it (`dpdk/ice_ethdev.c
//! ice_read_stats_registers`).

use std::collections::BTreeMap;

use e810_hal::regs::Element;

use super::FCS;
use super::rx::wire_len;
use crate::variation::CountedFcs;

/// Bits of a long counter.
const LONG: u64 = (1 << 40) - 1;

/// Direction of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Received,
    Sent,
}

/// Frames of one kind in each direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Way {
    bytes: u64,
    unicast: u64,
    multicast: u64,
    broadcast: u64,
    /// By size: 64, 65 to 127, 255, 511, 1023, 1522, and longer.
    sizes: [u64; 7],
}

/// The longest frame of each class but the last, FCS included.
const SIZES: [usize; 6] = [64, 127, 255, 511, 1023, 1522];

impl Way {
    fn count(&mut self, frame: &[u8]) {
        let len = wire_len(frame);
        self.bytes += len as u64;
        match frame.first_chunk::<6>() {
            Some([0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]) => self.broadcast += 1,
            Some([first, ..]) if first & 1 != 0 => self.multicast += 1,
            _ => self.unicast += 1,
        }
        let class = SIZES.partition_point(|most| *most < len);
        if let Some(size) = self.sizes.get_mut(class) {
            *size += 1;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Vsi {
    received: Way,
    sent: Way,
    discarded: u64,
    not_sent: u64,
}

/// All counters of a function and its port.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counters {
    vsis: BTreeMap<u16, Vsi>,
    received: Way,
    sent: Way,
    /// Frames sent without a link, or longer than the port's longest.
    no_link: u64,
    /// Frames longer than the port's longest.
    too_long: u64,
}

impl Counters {
    /// Counts a frame that passes the port.
    pub(crate) fn port(&mut self, direction: Direction, frame: &[u8]) {
        match direction {
            Direction::Received => self.received.count(frame),
            Direction::Sent => self.sent.count(frame),
        }
    }

    pub(crate) fn no_link(&mut self) {
        self.no_link += 1;
    }

    pub(crate) fn too_long(&mut self) {
        self.too_long += 1;
    }

    pub(super) fn vsi_received(&mut self, vsi: u16, frame: &[u8]) {
        self.vsis.entry(vsi).or_default().received.count(frame);
    }

    pub(super) fn vsi_discarded(&mut self, vsi: u16) {
        self.vsis.entry(vsi).or_default().discarded += 1;
    }

    pub(super) fn vsi_sent(&mut self, vsi: u16, frame: &[u8]) {
        self.vsis.entry(vsi).or_default().sent.count(frame);
    }

    pub(super) fn not_sent(&mut self, vsi: u16) {
        self.vsis.entry(vsi).or_default().not_sent += 1;
    }

    /// The value of counter `element`; `None` if it is not one of these. `port` is the function's
    /// port.
    pub(crate) fn register(&self, element: &Element, port: u8, fcs: CountedFcs) -> Option<u32> {
        let name = element.register.name;
        let counter = name.strip_prefix("GLV_");
        let [index, _] = element.indexes;
        if let Some(counter) = counter {
            let is_short = matches!(counter, "RDPC" | "TEPC");
            // A long counter is two elements, low half first.
            let (number, half) = if is_short {
                (index, 0)
            } else {
                (index / 2, index % 2)
            };
            let vsi = self.vsis.get(&(number as u16)).copied().unwrap_or_default();
            return Some(part(vsi.counter(counter, fcs)?, half));
        }
        let counter = name.strip_prefix("GLPRT_")?;
        let value = self.port_counter(counter, fcs)?;
        // Elements of short counters are eight bytes apart.
        let is_short = matches!(counter, "TDOLD" | "ROC");
        let (number, half) = if is_short {
            (index, 0)
        } else {
            (index / 2, index % 2)
        };
        Some(if number == u32::from(port) {
            part(value, half)
        } else {
            0
        })
    }

    fn port_counter(&self, counter: &str, fcs: CountedFcs) -> Option<u64> {
        match counter {
            "TDOLD" => return Some(self.no_link),
            "ROC" => return Some(self.too_long),
            _ => {}
        }
        let (way, what) = way(counter, &self.received, &self.sent)?;
        let sizes = ["64", "127", "255", "511", "1023", "1522", "9522"];
        let class = sizes
            .iter()
            .position(|size| what.strip_prefix('P') == Some(size));
        match class {
            Some(class) => way.sizes.get(class).copied(),
            None => way.counter(&what, fcs),
        }
    }
}

/// A 40-bit counter's half.
const fn part(value: u64, half: u32) -> u32 {
    let value = value & LONG;
    if half == 0 {
        value as u32
    } else {
        (value >> 32) as u32
    }
}

/// Splits names such as GORC, UPTC, PRC64 into a direction and the rest.
fn way<'a>(counter: &str, received: &'a Way, sent: &'a Way) -> Option<(&'a Way, String)> {
    let (way, mark) = if counter.contains("RC") {
        (received, "RC")
    } else if counter.contains("TC") {
        (sent, "TC")
    } else {
        return None;
    };
    Some((way, counter.replacen(mark, "", 1)))
}

impl Way {
    fn counter(&self, what: &str, fcs: CountedFcs) -> Option<u64> {
        let frames = self.unicast + self.multicast + self.broadcast;
        Some(match what {
            "GO" if fcs == CountedFcs::LeftOut => self.bytes - frames * FCS as u64,
            "GO" => self.bytes,
            "UP" => self.unicast,
            "MP" => self.multicast,
            "BP" => self.broadcast,
            _ => return None,
        })
    }
}

impl Vsi {
    fn counter(&self, counter: &str, fcs: CountedFcs) -> Option<u64> {
        match counter {
            "RDPC" => return Some(self.discarded),
            "TEPC" => return Some(self.not_sent),
            _ => {}
        }
        let (way, what) = way(counter, &self.received, &self.sent)?;
        way.counter(&what, fcs)
    }
}
