//! Numbers as text for people.

/// `bytes` with a binary unit.
#[must_use]
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (unit, size) in UNITS {
        if bytes >= size {
            return format!("{:.1} {unit}", bytes as f64 / size as f64);
        }
    }
    format!("{bytes} B")
}

/// The speed of a link in words; 0 means not known.
#[must_use]
pub fn link_speed(mbps: u32) -> String {
    match mbps {
        0 => "speed not known".to_owned(),
        mbps => format!("{} Gbit/s", f64::from(mbps) / 1e3),
    }
}

/// `ns` with a unit that leaves few digits.
#[must_use]
pub fn human_ns(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        _ => format!("{:.1} ms", ns as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(human_bytes(512), "512 B");
        assert_eq!(human_bytes(3 << 19), "1.5 MiB");
        assert_eq!(human_ns(9_999), "9999 ns");
        assert_eq!(human_ns(10_500), "10.5 µs");
        assert_eq!(human_ns(12_000_000), "12.0 ms");
    }
}
