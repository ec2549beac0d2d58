//! A libhns that knows no device: Debian 13's perftest is linked with the real one, which wants
//! private names of the real libibverbs.

use e810_verbs_names::{exports, refusals};

exports! {
    "hnsdv_create_qp" => refusals::returns_null,
    "hnsdv_is_supported" => refusals::returns_false,
    "hnsdv_query_device" => refusals::returns_error,
}
