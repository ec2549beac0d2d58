//! Codes of times: local ACK timeout and RNR timer (data-path 8.9).
//!
//! The device's context has a field for neither (data-path 8.3): both are kept
//! for the program that set them, and for the peer that receives them.

use e810_hal::Ns;

/// RNR timer in units of 10 µs, by code.
const RNR_10US: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

/// The least time a requester is to wait after an RNR NAK with this code, 0 to
/// 31. Code 0 is the longest, 655.36 ms.
#[must_use]
pub fn rnr_timer(code: u8) -> Option<Ns> {
    let units = RNR_10US.get(usize::from(code))?;
    Some(Ns::from_us(u64::from(*units) * 10))
}

/// The code of the shortest RNR timer that is at least `time`; the longest one
/// for more.
#[must_use]
pub fn rnr_timer_code(time: Ns) -> u8 {
    let mut best: Option<(Ns, u8)> = None;
    for (code, units) in (0u8..).zip(RNR_10US) {
        let timer = Ns::from_us(u64::from(units) * 10);
        if timer >= time && best.is_none_or(|(least, _)| timer < least) {
            best = Some((timer, code));
        }
    }
    best.map_or(0, |(_, code)| code)
}

/// The local ACK timeout of a code, 0 to 31: 4.096 µs · 2^code. `None` is for
/// ever (code 0).
///
/// # Errors
/// `Err` for a code above 31.
pub fn ack_timeout(code: u8) -> Result<Option<Ns>, BadCode> {
    match code {
        0 => Ok(None),
        1..=31 => Ok(Some(Ns(4096 << code))),
        _ => Err(BadCode(code)),
    }
}

/// The code of the shortest ACK timeout that is at least `time`; 31 for more,
/// 0 for no limit.
#[must_use]
pub fn ack_timeout_code(time: Option<Ns>) -> u8 {
    let Some(time) = time else {
        return 0;
    };
    (1..=31).find(|code| Ns(4096 << code) >= time).unwrap_or(31)
}

/// A code of a time has five bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[error("time code {0}: codes are 0 to 31")]
pub struct BadCode(pub u8);

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds by code as IB lists them.
    const IB_MS: [f64; 32] = [
        655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28,
        1.92, 2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88,
        163.84, 245.76, 327.68, 491.52,
    ];

    /// As a widely copied text lists them: codes 6 to 21 are out of order there.
    const COPIED_MS: [f64; 32] = [
        655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 2.56, 3.84, 5.12, 7.68, 10.24, 15.36, 0.08, 0.12,
        0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88,
        163.84, 245.76, 327.68, 491.52,
    ];

    fn ms(code: u8) -> f64 {
        rnr_timer(code).unwrap().0 as f64 / 1e6
    }

    #[test]
    fn rnr_timers_are_those_of_ib() {
        for (code, expected) in (0..).zip(IB_MS) {
            assert!((ms(code) - expected).abs() < 1e-9, "{code}");
            assert_eq!(rnr_timer_code(rnr_timer(code).unwrap()), code);
        }
        assert_eq!(rnr_timer(32), None);
        assert!((1..31).all(|code| ms(code) < ms(code + 1)), "rising");
    }

    #[test]
    fn a_copied_table_differs_from_6_to_21_and_only_there() {
        let copied = (0u8..).zip(COPIED_MS);
        for (code, theirs) in copied {
            let same = (ms(code) - theirs).abs() < 1e-9;
            assert_eq!(same, !(6..=21).contains(&code), "{code}");
        }
        let (mut a, mut b) = (IB_MS, COPIED_MS);
        a.sort_by(f64::total_cmp);
        b.sort_by(f64::total_cmp);
        assert_eq!(a, b, "the same times in another order");
    }

    #[test]
    fn a_time_between_two_codes_gets_the_longer_one() {
        assert_eq!(rnr_timer_code(Ns::from_us(11)), 2);
        assert_eq!(rnr_timer_code(Ns(0)), 1);
        assert_eq!(rnr_timer_code(Ns::from_ms(500)), 0);
        assert_eq!(rnr_timer_code(Ns::from_ms(5000)), 0, "the longest there is");
    }

    #[test]
    fn ack_timeouts_double() {
        assert_eq!(ack_timeout(0), Ok(None));
        assert_eq!(ack_timeout(1), Ok(Some(Ns(8192))));
        assert_eq!(ack_timeout(14), Ok(Some(Ns(67_108_864))));
        // 8796 s: a copied table rounds this to 8800, and from code 25 on to
        // 137, 275, 550, 1100, 2200 and 4400 s.
        assert_eq!(ack_timeout(31), Ok(Some(Ns(8_796_093_022_208))));
        for (code, seconds) in [(25, 137.0), (26, 275.0), (27, 550.0), (31, 8800.0)] {
            let exact = ack_timeout(code).unwrap().unwrap().0 as f64 / 1e9;
            assert!(exact != seconds && (exact - seconds).abs() / exact < 5e-3);
        }
        assert_eq!(ack_timeout(32), Err(BadCode(32)));
        for code in 1..=31 {
            let timeout = ack_timeout(code).unwrap();
            assert_eq!(ack_timeout_code(timeout), code);
            assert_eq!(
                ack_timeout_code(timeout.map(|time| time + Ns(1))),
                31.min(code + 1)
            );
        }
        assert_eq!(ack_timeout_code(None), 0);
    }
}
