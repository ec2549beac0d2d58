//! What does not change, and the times that follow from it (cm-path 5.3, 5.4).

use e810_types::Ns;

/// The longest time that a peer keeps a slot for, in TIMEWAIT or between two repeats, whatever it
/// says: in Linux, where it may be hours, that costs memory, and here the slots of others.
pub(super) const LONGEST: Ns = Ns::from_secs(60);
/// The longest time that a peer may ask for with an MRA.
pub(super) const LONGEST_MRA: Ns = Ns::from_secs(3600);

/// What does not change.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// GUID of the node: the same for all its life, and unlike every other's (cm-path 8, row 10).
    pub guid: u64,
    /// How long the peer may take for an answer: 4.096 µs · 2^n.
    pub response_timeout: u8,
    /// How often a message is repeated, at most 15.
    pub retries: u8,
    /// How long a datagram lives: 4.096 µs · 2^n.
    pub packet_life: u8,
    /// How long the device takes for an acknowledgement: 4.096 µs · 2^n.
    pub ack_delay: u8,
    /// How long a program may take for its answer before the peer hears of it again:
    /// 4.096 µs · 2^n.
    pub service_timeout: u8,
    /// Requests of one source that nobody has answered; sources share one of 256 counts. More, where
    /// there are over 16,384 slots.
    pub requests_of_a_source: u16,
}

impl Config {
    /// Linux' times and counts (cm-path 5.3).
    #[must_use]
    pub const fn new(guid: u64) -> Self {
        Self {
            guid,
            response_timeout: 20,
            retries: 15,
            packet_life: 16,
            ack_delay: 0,
            service_timeout: 24,
            requests_of_a_source: 64,
        }
    }
}

/// The time 4.096 µs · 2^n as Linux takes it, in whole milliseconds (cm-path 5.3).
pub(super) const fn time(n: u8) -> Ns {
    Ns::from_ms(1 << (if n > 31 { 31 } else { n }).saturating_sub(8))
}

/// The ack timeout of a QP for a path's life and a device's delay (cm-path 5.4).
pub(super) const fn ack_timeout(delay: u8, life: u8) -> u8 {
    let own = life.saturating_add(1);
    let both = if own >= delay {
        own.saturating_add((delay >= own.saturating_sub(1)) as u8)
    } else {
        delay.saturating_add((own >= delay.saturating_sub(1)) as u8)
    };
    if both > 31 { 31 } else { both }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cm_ack_timeout` and `cm_convert_to_ms` of Linux.
    #[test]
    fn times_are_linuxs() {
        let of = [
            (0, 16),
            (16, 16),
            (17, 16),
            (18, 16),
            (19, 16),
            (31, 31),
            (15, 16),
        ];
        let found = of.map(|(delay, life)| ack_timeout(delay, life));
        assert_eq!(found, [17, 18, 18, 19, 19, 31, 17]);
        let times = [0, 8, 9, 20, 31, 255].map(time);
        let ms = [1, 1, 2, 4096, 1 << 23, 1 << 23];
        assert_eq!(times, ms.map(Ns::from_ms));
    }
}
