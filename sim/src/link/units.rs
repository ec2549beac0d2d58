//! Times and rates of a link in the notation of options.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use e810_hal::Ns;

/// Longest time, in ms: anything longer is a cut wire.
const MAX_TIME: u64 = 10_000;

/// Why a string is not a time.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` {why}, at most {MAX_TIME}ms", why = why_no_time(.0))]
pub struct NoTime(pub String);

fn why_no_time(text: &str) -> String {
    match digits(text) {
        Some(_) => format!("has no unit: give {text}ns, {text}us or {text}ms"),
        None => "is no time: give a whole number with ns, us or ms behind it, like 20us".to_owned(),
    }
}

/// Reads a time with its unit, `ns`, `us` or `ms`, at most 10 s. Zero needs no unit.
///
/// # Errors
/// [`NoTime`].
pub fn parse_time(text: &str) -> Result<Ns, NoTime> {
    let wrong = || NoTime(text.to_owned());
    if text == "0" {
        return Ok(Ns(0));
    }
    let (number, unit) = [("ns", 1), ("us", 1_000), ("ms", 1_000_000)]
        .into_iter()
        .find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, unit)))
        .ok_or_else(wrong)?;
    let time = digits(number).and_then(|number| number.checked_mul(unit));
    time.map(Ns)
        .filter(|time| *time <= Ns::from_ms(MAX_TIME))
        .ok_or_else(wrong)
}

/// A time as [`parse_time`] reads it, with the largest unit that needs no decimals.
#[must_use]
pub fn time_option(time: Ns) -> String {
    match time.0 {
        0 => "0".to_owned(),
        ns if ns.is_multiple_of(1_000_000) => format!("{}ms", ns / 1_000_000),
        ns if ns.is_multiple_of(1_000) => format!("{}us", ns / 1_000),
        ns => format!("{ns}ns"),
    }
}

/// Parses `text` as a whole number; digits only.
fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

/// A rate in bits per second, 10^3 to 10^12.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rate(NonZeroU64);

/// Why a string is not a rate.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` {why} bits per second, at least 1K and at most 1000G", why = why_no_rate(.0))]
pub struct NoRate(pub String);

fn why_no_rate(text: &str) -> String {
    match digits(text) {
        Some(1..Rate::MIN) => format!("has no unit: give {text}K, {text}M or {text}G"),
        _ => "is no rate: give a whole number with K, M or G behind it, like 25G".to_owned(),
    }
}

/// Units of a rate, the largest first.
const UNITS: [(&str, u64); 3] = [("G", 1_000_000_000), ("M", 1_000_000), ("K", 1_000)];

impl Rate {
    /// The lowest rate: the longest frame takes 78 s at it.
    pub const MIN: u64 = 1_000;
    /// The highest rate.
    pub const MAX: u64 = 1_000_000_000_000;

    /// A rate of that many bits per second; `None` outside [`Rate::MIN`] to [`Rate::MAX`].
    #[must_use]
    pub const fn new(bits_per_second: u64) -> Option<Self> {
        match NonZeroU64::new(bits_per_second) {
            Some(bits) if bits.get() >= Self::MIN && bits.get() <= Self::MAX => Some(Self(bits)),
            _ => None,
        }
    }

    #[must_use]
    pub const fn bits_per_second(self) -> u64 {
        self.0.get()
    }

    /// Number and unit: the largest unit that needs no decimals.
    fn parts(self) -> (u64, &'static str) {
        let bits = self.0.get();
        let whole = |(_, size): &&(&str, u64)| bits.is_multiple_of(*size);
        let unit = UNITS.iter().find(whole);
        unit.map_or((bits, ""), |(unit, size)| (bits / size, *unit))
    }

    /// The notation of options, like `25G`.
    #[must_use]
    pub fn option(self) -> String {
        let (number, unit) = self.parts();
        format!("{number}{unit}")
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = self.parts();
        write!(f, "{number} {}bit/s", unit.replace('K', "k"))
    }
}

impl FromStr for Rate {
    type Err = NoRate;

    fn from_str(text: &str) -> Result<Self, NoRate> {
        let unit = UNITS
            .iter()
            .find_map(|(unit, size)| Some((text.strip_suffix(unit)?, *size)));
        let (number, size) = unit.unwrap_or((text, 1));
        let bits = digits(number).and_then(|number| number.checked_mul(size));
        bits.and_then(Self::new)
            .ok_or_else(|| NoRate(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_zero_needs_none() {
        for (text, ns) in [
            ("0", 0),
            ("7ns", 7),
            ("2us", 2_000),
            ("1500us", 1_500_000),
            ("10000ms", 10_000_000_000),
        ] {
            assert_eq!(parse_time(text), Ok(Ns(ns)));
            assert_eq!(time_option(Ns(ns)), text);
        }
        assert_eq!(parse_time("0ns"), Ok(Ns(0)));
        assert_eq!(time_option(Ns(3_000_000)), "3ms");
        for text in [
            "", "1", "us", "+1us", "1.5us", "1s", "10001ms", "1 us", "-1ns",
        ] {
            assert_eq!(parse_time(text), Err(NoTime(text.to_owned())));
        }
    }

    #[test]
    fn a_number_without_its_unit_is_said_to_be_that() {
        let time = |text| parse_time(text).unwrap_err().to_string();
        assert_eq!(
            time("2"),
            "`2` has no unit: give 2ns, 2us or 2ms, at most 10000ms"
        );
        for text in ["", "1s", "1.5us", "1 us", "10001ms", "99999999999999999999"] {
            let said = time(text);
            assert!(said.starts_with(&format!("`{text}` is no time")), "{said}");
            assert!(said.contains("ns, us or ms"), "{said}");
        }
        let rate = |text: &str| text.parse::<Rate>().unwrap_err().to_string();
        assert_eq!(
            rate("25"),
            "`25` has no unit: give 25K, 25M or 25G bits per second, at least 1K and at most 1000G"
        );
        for text in ["0", "25Gbit", "1T", "0.5G", "9999999999999"] {
            let said = rate(text);
            assert!(said.starts_with(&format!("`{text}` is no rate")), "{said}");
            assert!(said.contains("K, M or G"), "{said}");
        }
    }

    #[test]
    fn rates_have_decimal_units() {
        for (text, bits, shown) in [
            ("25G", 25_000_000_000, "25 Gbit/s"),
            ("2500M", 2_500_000_000, "2500 Mbit/s"),
            ("1K", 1_000, "1 kbit/s"),
            ("1001", 1_001, "1001 bit/s"),
            ("1000G", Rate::MAX, "1000 Gbit/s"),
        ] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate.bits_per_second(), bits);
            assert_eq!(
                (rate.option(), rate.to_string()),
                (text.into(), shown.into())
            );
        }
        for text in [
            "", "G", "0", "999", "1001G", "1.5G", "25g", "25 G", "+1G", "1T",
        ] {
            assert_eq!(text.parse::<Rate>(), Err(NoRate(text.to_owned())));
        }
        assert_eq!((Rate::new(999), Rate::new(Rate::MAX + 1)), (None, None));
    }
}
