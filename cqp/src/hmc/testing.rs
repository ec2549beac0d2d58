//! A fake device for the unit tests of this module.

use super::query::FpmQuery;

/// log2 of the size, and the maximum, of each object at its query offset.
pub(super) const OBJECTS: [(usize, u64, u64); 15] = [
    (8, 10, 262_144),
    (16, 7, 524_288),
    (32, 6, 524_288),
    (40, 6, 4096),
    (48, 6, 524_288),
    (56, 6, 1 << 23),
    (72, 6, 1 << 26),
    (88, 6, 1 << 19),
    (96, 8, 4096),
    (104, 6, 131_072),
    (128, 6, 1 << 23),
    (144, 6, 262_144),
    (152, 6, 65_536),
    (160, 6, 1 << 23),
    (24, 6, 0),
];

/// The reply of a device with much of everything.
pub(super) fn reply() -> [u64; 25] {
    let mut reply = [0; 25];
    for (offset, log2, max) in OBJECTS {
        reply[offset / 8] = max | log2 << 32;
    }
    for (offset, max) in [(64, 1 << 20), (80, 1 << 23), (136, 1 << 20), (168, 1 << 20)] {
        reply[offset / 8] = max | 8 << 32;
    }
    reply[14] = 1 << 28;
    reply[0] = 3776 << 32;
    reply[15] = 512 | 1 << 16 | 512 << 32;
    reply
}

pub(super) fn query() -> FpmQuery {
    FpmQuery::parse(&reply()).unwrap()
}

/// The same with other limits: (query offset, maximum).
pub(super) fn query_with(changes: &[(usize, u64)]) -> FpmQuery {
    let mut words = reply();
    for (offset, max) in changes {
        words[offset / 8] = words[offset / 8] >> 32 << 32 | max;
    }
    FpmQuery::parse(&words).unwrap()
}

/// The same with `sds` segments.
pub(super) fn query_with_segments(sds: u64) -> FpmQuery {
    let mut words = reply();
    words[0] = sds << 32;
    FpmQuery::parse(&words).unwrap()
}
