//! Rates of links: numbers of `enum ibv_rate`, multiples of 2.5 Gbit/s, and Mbit/s.

use core::ffi::c_int;

/// A rate: its number, the multiple of 2.5 Gbit/s that libibverbs gives it, and Mbit/s.
type Rate = (c_int, Option<c_int>, c_int);

const RATES: [Rate; 23] = [
    (2, Some(1), 2_500),
    (5, Some(2), 5_000),
    (3, Some(4), 10_000),
    (6, Some(8), 20_000),
    (4, Some(12), 30_000),
    (7, Some(16), 40_000),
    (8, Some(24), 60_000),
    (9, Some(32), 80_000),
    (10, Some(48), 120_000),
    (11, None, 14_062),
    (12, None, 56_250),
    (13, None, 112_500),
    (14, None, 168_750),
    (15, None, 25_781),
    (16, None, 103_125),
    (17, None, 206_250),
    (18, None, 309_375),
    (19, Some(11), 28_125),
    (20, Some(20), 53_125),
    (21, Some(160), 425_000),
    (22, Some(240), 637_500),
    (23, Some(320), 850_000),
    (24, Some(480), 1_275_000),
];

/// `IBV_RATE_MAX`: as fast as the port.
const MAX: c_int = 0;
/// What libibverbs gives for a rate that it does not know.
const UNKNOWN: c_int = -1;

/// `ibv_rate_to_mult`.
pub extern "C" fn rate_to_mult(rate: c_int) -> c_int {
    let found = RATES.iter().find(|(number, ..)| *number == rate);
    found.and_then(|(_, mult, _)| *mult).unwrap_or(UNKNOWN)
}

/// `mult_to_ibv_rate`.
pub extern "C" fn mult_to_rate(mult: c_int) -> c_int {
    let found = RATES.iter().find(|(_, known, _)| *known == Some(mult));
    found.map_or(MAX, |(number, ..)| *number)
}

/// `ibv_rate_to_mbps`.
pub extern "C" fn rate_to_mbps(rate: c_int) -> c_int {
    let found = RATES.iter().find(|(number, ..)| *number == rate);
    found.map_or(UNKNOWN, |(.., mbps)| *mbps)
}

/// `mbps_to_ibv_rate`.
pub extern "C" fn mbps_to_rate(mbps: c_int) -> c_int {
    let found = RATES.iter().find(|(.., known)| *known == mbps);
    found.map_or(MAX, |(number, ..)| *number)
}
