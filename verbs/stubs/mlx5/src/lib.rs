//! A libmlx5 that knows no device. Programs are linked with the real one, which wants private names
//! of the real libibverbs (verbs-abi 4.1); of this one every function says that the device is not
//! its own. A device for which `efadv_query_device` succeeded, libfabric would take for Amazon's.

use e810_verbs_names::{exports, refusals};

exports! {
    "mlx5dv_create_cq" => refusals::returns_null,
    "mlx5dv_create_mkey" => refusals::returns_null,
    "mlx5dv_create_qp" => refusals::returns_null,
    "mlx5dv_crypto_login" => refusals::returns_error,
    "mlx5dv_dek_create" => refusals::returns_null,
    "mlx5dv_dek_destroy" => refusals::returns_error,
    "mlx5dv_destroy_mkey" => refusals::returns_error,
    "mlx5dv_devx_alloc_uar" => refusals::returns_null,
    "mlx5dv_devx_create_event_channel" => refusals::returns_null,
    "mlx5dv_devx_destroy_event_channel" => refusals::returns_nothing,
    "mlx5dv_devx_free_uar" => refusals::returns_nothing,
    "mlx5dv_devx_general_cmd" => refusals::returns_error,
    "mlx5dv_devx_get_event" => refusals::returns_minus_one,
    "mlx5dv_devx_obj_create" => refusals::returns_null,
    "mlx5dv_devx_obj_destroy" => refusals::returns_error,
    "mlx5dv_devx_obj_modify" => refusals::returns_error,
    "mlx5dv_devx_obj_query" => refusals::returns_error,
    "mlx5dv_devx_qp_modify" => refusals::returns_error,
    "mlx5dv_devx_qp_query" => refusals::returns_error,
    "mlx5dv_devx_subscribe_devx_event" => refusals::returns_error,
    "mlx5dv_devx_umem_dereg" => refusals::returns_error,
    "mlx5dv_devx_umem_reg" => refusals::returns_null,
    "mlx5dv_init_obj" => refusals::returns_error,
    "mlx5dv_is_supported" => refusals::returns_false,
    "mlx5dv_open_device" => refusals::returns_null,
    "mlx5dv_qp_ex_from_ibv_qp_ex" => refusals::returns_null,
}
