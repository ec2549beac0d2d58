//! Numbers on the command line. Their errors name the valid range.

use std::ops::RangeInclusive;

use e810_hal::Ns;

/// A parser of whole numbers from `least` to `most`.
pub(crate) fn number<T: TryFrom<u64>>(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let value = text.parse().ok().filter(|_| plain);
        within(value, least, most).ok_or_else(|| {
            let most = match most {
                u64::MAX => " upwards".to_owned(),
                most => format!(" to {most}"),
            };
            format!("`{text}` is not a whole number from {least}{most}")
        })
    }
}

/// A parser of sizes from `least` to `most`, in bytes or with the suffix K, M or G (K = 1024).
pub(crate) fn size<T: TryFrom<u64>>(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        within(bytes(text), least, most).ok_or_else(|| {
            let (range, like) = match most {
                u64::MAX => (format!("from {least} bytes upwards"), "64K, 1M or 2G"),
                most => (
                    format!("from {least} to {} bytes", human(most)),
                    "64, 64K or 1M",
                ),
            };
            format!("`{text}` is not a size {range}: give it like {like} (K = 1024)")
        })
    }
}

/// Parses seconds, from a millisecond to a day, with at most three decimals.
pub(crate) fn seconds(text: &str) -> Result<Ns, String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let ms = || {
        let below = format!("{fraction:0<3}").parse::<u64>().ok()?;
        let whole = whole.parse::<u64>().ok()?.checked_mul(1000)?;
        whole.checked_add(below)
    };
    let plain = digits(whole) && digits(fraction) && fraction.len() <= 3;
    let ms = plain
        .then(ms)
        .flatten()
        .filter(|ms| DURATION_MS.contains(ms));
    ms.map(Ns::from_ms)
        .ok_or_else(|| format!("`{text}` is not a time from 0.001 to 86400 seconds"))
}

/// The range of [`seconds`].
const DURATION_MS: RangeInclusive<u64> = 1..=86_400_000;

fn within<T: TryFrom<u64>>(value: Option<u64>, least: u64, most: u64) -> Option<T> {
    let value = value.filter(|value| (least..=most).contains(value))?;
    T::try_from(value).ok()
}

fn bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (text.get(..text.len() - 1)?, 10),
        b'm' | b'M' => (text.get(..text.len() - 1)?, 20),
        b'g' | b'G' => (text.get(..text.len() - 1)?, 30),
        _ => (text, 0),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| plain)?;
    number.checked_mul(1 << shift)
}

/// A size as users write it.
fn human(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => format!("{}M", bytes >> 20),
        bytes => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024() {
        let size = size::<u32>(1, 8 << 20);
        for (text, bytes) in [
            ("1", 1),
            ("64K", 65_536),
            ("64k", 65_536),
            ("1M", 1 << 20),
            ("8192K", 8 << 20),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "0",
            "K",
            "-1",
            "+1",
            "1.5K",
            "8193K",
            "9M",
            "1G",
            "1KB",
            "1 K",
            "ä",
            "99999999999999999999",
            "18014398509481985K",
        ] {
            let error = size(text).unwrap_err();
            assert!(error.contains("from 1 to 8M bytes"), "{error}");
        }
    }

    #[test]
    fn seconds_may_have_a_fraction() {
        for (text, ms) in [
            ("1", 1000),
            ("0.001", 1),
            ("0.2", 200),
            ("1.25", 1250),
            ("86400", 86_400_000),
        ] {
            assert_eq!(seconds(text), Ok(Ns::from_ms(ms)), "{text}");
        }
        for text in [
            "",
            "0",
            ".",
            "1.",
            ".5",
            "-1",
            "+1",
            "1s",
            "0.0001",
            "86400.001",
            "1.2.3",
            "1e3",
            "ä",
            "99999999999999999999",
        ] {
            let error = seconds(text).unwrap_err();
            assert_eq!(
                error,
                format!("`{text}` is not a time from 0.001 to 86400 seconds")
            );
        }
    }

    #[test]
    fn numbers_have_none() {
        let number = number::<u8>(0, 7);
        assert_eq!(number("7"), Ok(7));
        for text in ["", "8", "-1", "+1", "1K", "256", "x"] {
            let error = number(text).unwrap_err();
            assert_eq!(error, format!("`{text}` is not a whole number from 0 to 7"));
        }
        assert!(
            super::number::<u64>(1, u64::MAX)("0")
                .unwrap_err()
                .ends_with("from 1 upwards")
        );
    }
}
