//! The limits of a card as Rust source, to compute memory as a constant.

use std::fmt::Write;

use e810::hmc::{FpmQuery, Object, ObjectLimits};

/// `query` as a Rust expression, with `FpmQuery`, `Object` and `ObjectLimits` of `e810::hmc` in
/// scope. It ends with a newline.
#[must_use]
pub fn as_source(query: &FpmQuery) -> String {
    let mut source = String::from("FpmQuery {\n");
    for (field, value) in [
        ("first_sd", query.first_sd),
        ("max_sds", query.max_sds),
        ("max_ceqs", query.max_ceqs),
        ("hash_multiplier", query.hash_multiplier),
        ("timer_bucket", query.timer_bucket),
        ("xf_block", query.xf_block),
        ("q1_block", query.q1_block),
        ("rrf_block", query.rrf_block),
    ] {
        // Writing to a `String` does not fail.
        let _ = writeln!(source, "    {field}: {value},");
    }
    source.push_str("    ..FpmQuery::NOTHING\n");
    for object in Object::ALL {
        let limits = query.limits(object);
        if limits == ObjectLimits::default() {
            continue;
        }
        let ObjectLimits { max, bytes } = limits;
        let _ = writeln!(
            source,
            "        .with(Object::{object:?}, ObjectLimits {{ max: {max}, bytes: {bytes} }})"
        );
    }
    source.push_str("}\n");
    source
}
