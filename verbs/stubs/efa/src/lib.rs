//! A libefa that knows no device. Programs are linked with the real one, which wants private names
//! of the real libibverbs (verbs-abi 4.1); of this one every function says that the device is not
//! its own. A device for which `efadv_query_device` succeeded, libfabric would take for Amazon's.

use e810_verbs_names::{exports, refusals};

exports! {
    "efadv_cq_from_ibv_cq_ex" => refusals::returns_null,
    "efadv_create_cq" => refusals::returns_null,
    "efadv_create_driver_qp" => refusals::returns_null,
    "efadv_create_qp_ex" => refusals::returns_null,
    "efadv_query_ah" => refusals::returns_error,
    "efadv_query_device" => refusals::returns_error,
    "efadv_query_mr" => refusals::returns_error,
}
