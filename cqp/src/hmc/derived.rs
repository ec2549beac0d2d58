//! Counts of objects that follow from the number of queue pairs.

use super::layout::align_up;
use super::object::Object;
use super::query::FpmQuery;

/// Q1 entries in RoCE mode.
const fn q1_count(qps: u64) -> u64 {
    power_of_two(qps.saturating_mul(127 * 2).saturating_add(512))
}

/// The next power of two, as far as there is one.
const fn power_of_two(count: u64) -> u64 {
    match count.checked_next_power_of_two() {
        Some(power) => power,
        None => u64::MAX,
    }
}

/// `count` in blocks; no blocks of size 0.
const fn blocks(count: u64, block: u32) -> u64 {
    match count.checked_div(block as u64) {
        Some(blocks) => blocks,
        None => 0,
    }
}

/// Counts that follow from `qps` queue pairs and `groups` multicast groups, by the formulas of
/// existing drivers in RoCE mode (control-path 6.5). None is held to the device's maximum.
#[must_use]
pub const fn derived_counts(query: &FpmQuery, qps: u64, groups: u64) -> [(Object, u64); 9] {
    let hashed = power_of_two(align_up(qps.saturating_add(groups), 512));
    let xf = (qps.saturating_mul(4)).saturating_mul(query.xf_block as u64);
    let q1 = q1_count(qps);
    let rrf = if query.limits(Object::Rrf).max == 0 {
        0
    } else {
        qps.saturating_mul(32)
    };
    let rrf_blocks = if query.limits(Object::RrfFl).max == 0 {
        0
    } else {
        blocks(rrf, query.rrf_block)
    };
    let timers = qps.div_ceil(512).saturating_add(1);
    [
        (
            Object::Hte,
            hashed.saturating_mul(query.hash_multiplier as u64),
        ),
        (Object::Xf, xf),
        (Object::XfFl, blocks(xf, query.xf_block)),
        (Object::Q1, q1),
        (Object::Q1Fl, blocks(q1, query.q1_block)),
        (
            Object::Timer,
            timers.saturating_mul(query.timer_bucket as u64),
        ),
        (Object::Rrf, rrf),
        (Object::RrfFl, rrf_blocks),
        (Object::Hdr, qps),
    ]
}
