//! Times and windows of the engine. The sources give no units for the related fields of the QP
//! context (data-path 8.9, 11): the unit of the window is \[inf window_unit\], and that the RNR
//! timer is constant is \[inf rnr_timer\].

/// Time without progress after which the requester retransmits when RTOMIN is 5, the value of
/// existing drivers: the InfiniBand time-out code 14, which most applications use (67.1 ms). It is
/// long enough for a peer in another process that is not scheduled for a while.
pub const RETRANSMIT_NS: u64 = 4096 << 14;

/// The RTOMIN to which [`RETRANSMIT_NS`] belongs.
const USUAL_RTOMIN: u64 = 5;

/// RNR timer code that the responder requests: 0.64 ms. MIN_RNR_TIMER does not reach a GEN_2 device
/// (data-path 8.3).
pub const RNR_TIMER_CODE: u8 = 12;

/// Packets after which the requester requests an acknowledge inside a message, in a wide window.
const ACK_EVERY: u32 = 32;

/// Time without progress for an RTOMIN: proportional \[inf ack_time\]; 0 counts as 1.
#[must_use]
pub fn retransmit_ns(rtomin: u8) -> u64 {
    RETRANSMIT_NS * u64::from(rtomin.max(1)) / USUAL_RTOMIN
}

/// Packets after which the requester requests an acknowledge inside a message: several times in a
/// window, so that an answer is always coming while the window is full.
pub(super) fn ack_every(window: u32) -> u32 {
    (window / 8).clamp(1, ACK_EVERY)
}

/// Maximum response packets for one read request; a longer read is split. Only a read of more than
/// 512 MiB at the smallest MTU needs this: at most half of the PSN space may be outstanding.
pub(super) const READ_CHUNK_PACKETS: u32 = 1 << 21;

/// PSNs that may be outstanding, reads included.
pub(super) const MAX_OUTSTANDING: u32 = 1 << 22;

/// Packets without payload that one call of [`poll`](super::poll) sends.
pub const POLL_BUDGET: u32 = 64;

/// How much of [`POLL_BUDGET`] a packet with `len` bytes of payload uses. The budget is as many
/// packets as stay in a processor's first-level cache until they are handed over.
pub(super) const fn cost(len: u32) -> u32 {
    1 + len / 1024
}

/// The code that retries without end (data-path 8.9).
pub(super) const RNR_RETRY_FOREVER: u8 = 7;

/// Units of 10 µs per RNR timer code (data-path 8.9).
const RNR_UNITS: [u64; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

/// Nanoseconds of an RNR timer code (low five bits).
#[must_use]
pub fn rnr_ns(code: u8) -> u64 {
    RNR_UNITS
        .get(usize::from(code & 0x1F))
        .map_or(0, |units| units * 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_minimum_is_a_fifteenth_of_a_second() {
        let table = [(0, 13_421_772), (1, 13_421_772), (5, 67_108_864)];
        for (rtomin, ns) in table {
            assert_eq!(retransmit_ns(rtomin), ns);
        }
        assert_eq!(retransmit_ns(0x32), 10 * retransmit_ns(5));
    }

    #[test]
    fn a_window_has_several_answers() {
        for (window, every) in [(1, 1), (8, 1), (0x20, 4), (256, 32), (0x400, 32)] {
            assert_eq!(ack_every(window), every);
        }
    }

    #[test]
    fn timer_codes() {
        // Corner values of the table in data-path 8.9, in milliseconds.
        let table = [
            (0, 655.36),
            (1, 0.01),
            (12, 0.64),
            (16, 2.56),
            (25, 61.44),
            (31, 491.52),
        ];
        for (code, ms) in table {
            assert!((rnr_ns(code) as f64 / 1e6 - ms).abs() < 1e-9, "code {code}");
        }
    }
}
