//! The ports of the functions: each sends one frame after another, at the link's rate.

use super::Rate;

/// Bytes that each frame takes on the wire in addition to its own: preamble and start delimiter 8,
/// FCS 4, gap 12.
const OVERHEAD: u64 = 24;
/// Bytes of the shortest frame without FCS: a port pads shorter frames.
const SHORTEST: u64 = 60;
/// Time, in ns, for which a port may have frames queued before its engine has to wait. It is longer
/// than the usual wake-up delay of a sleeping device thread, so that the port does not run dry.
const MAX_QUEUED: u64 = 100_000;

/// The port of each function.
#[derive(Debug)]
pub(super) struct Ports(Vec<Port>);

impl Ports {
    pub(super) fn new(functions: usize) -> Self {
        Self(vec![Port::default(); functions])
    }

    /// Sends a frame of that many bytes, without FCS, from the port of function `from`. Returns the
    /// time when its last bit has left.
    pub(super) fn send(&mut self, now: u64, from: u8, bytes: usize, rate: Option<Rate>) -> u64 {
        match (rate, self.0.get_mut(usize::from(from))) {
            (Some(rate), Some(port)) => port.send(now, bytes, rate),
            _ => now,
        }
    }

    /// Time at which the port of function `from` has few enough frames queued for its engine to
    /// send more.
    pub(super) fn ready_at(&self, from: usize, rate: Option<Rate>) -> u64 {
        let port = rate.and_then(|_| self.0.get(from));
        port.map_or(0, |port| port.ready_at())
    }
}

/// Until when a port is busy.
#[derive(Clone, Copy, Debug, Default)]
struct Port {
    /// The end of its last frame, in ns, rounded down.
    free_at: u64,
    /// The part rounded off, in units of 1 ns / rate.
    remainder: u64,
}

impl Port {
    /// Sends a frame after those before it.
    fn send(&mut self, now: u64, bytes: usize, rate: Rate) -> u64 {
        let rate = rate.bits_per_second();
        if self.free_at < now {
            (self.free_at, self.remainder) = (now, 0);
        }
        let bits = ((bytes as u64).max(SHORTEST) + OVERHEAD) * 8;
        // At most 8 · 10^13 for the longest frame of a card.
        let total = bits * 1_000_000_000 + self.remainder;
        self.free_at = self.free_at.saturating_add(total / rate);
        self.remainder = total % rate;
        self.free_at
    }

    fn ready_at(self) -> u64 {
        self.free_at.saturating_sub(MAX_QUEUED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(bits: u64) -> Rate {
        Rate::new(bits).unwrap()
    }

    #[test]
    fn a_frame_takes_its_bytes_and_24_more() {
        // 1000 bits take one µs.
        let gigabit = rate(1_000_000_000);
        let mut port = Port::default();
        assert_eq!(port.send(0, 1_000, gigabit), 1_024 * 8);
        // Queued behind it, although handed over before it ended.
        assert_eq!(port.send(5, 101, gigabit), (1_024 + 125) * 8);
        // An idle port begins at once.
        assert_eq!(port.send(100_000, 101, gigabit), 101_000);
    }

    #[test]
    fn a_short_frame_is_padded() {
        let mut port = Port::default();
        assert_eq!(port.send(0, 14, rate(1_000_000_000)), 84 * 8);
        assert_eq!(port.send(10_000, 60, rate(1_000_000_000)), 10_000 + 84 * 8);
    }

    /// Frames of 6.72 ns each: no rounding error accumulates.
    #[test]
    fn parts_of_a_nanosecond_add_up() {
        let mut port = Port::default();
        let ends: Vec<u64> = (0..100)
            .map(|_| port.send(0, 60, rate(100_000_000_000)))
            .collect();
        assert_eq!(ends[..4], [6, 13, 20, 26]);
        assert_eq!(ends[99], 672);
    }

    #[test]
    fn an_engine_waits_for_a_long_queue_only() {
        let mut port = Port::default();
        port.send(0, 101, rate(1_000_000_000));
        assert_eq!(port.ready_at(), 0);
        port.send(0, 101, rate(1_000_000));
        assert_eq!(port.ready_at(), 1_001_000 - MAX_QUEUED);
    }
}
