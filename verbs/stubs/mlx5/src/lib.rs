//! A libmlx5 that knows no device. Programs are linked with the real one, which wants private names
//! of the real libibverbs (verbs-abi 4.1); of this one every function says that the device is not
//! its own. A device for which `efadv_query_device` succeeded, libfabric would take for Amazon's.

// UNSAFETY: sets `errno`, and has functions that C calls; none looks at what it is given.

use core::ffi::{c_int, c_void};
use core::ptr;

use e810_verbs_names::exports;

exports! {
    "mlx5dv_create_cq" => object,
    "mlx5dv_create_mkey" => object,
    "mlx5dv_create_qp" => object,
    "mlx5dv_crypto_login" => refused,
    "mlx5dv_dek_create" => object,
    "mlx5dv_dek_destroy" => refused,
    "mlx5dv_destroy_mkey" => refused,
    "mlx5dv_devx_alloc_uar" => object,
    "mlx5dv_devx_create_event_channel" => object,
    "mlx5dv_devx_destroy_event_channel" => nothing,
    "mlx5dv_devx_free_uar" => nothing,
    "mlx5dv_devx_general_cmd" => refused,
    "mlx5dv_devx_get_event" => minus_one,
    "mlx5dv_devx_obj_create" => object,
    "mlx5dv_devx_obj_destroy" => refused,
    "mlx5dv_devx_obj_modify" => refused,
    "mlx5dv_devx_obj_query" => refused,
    "mlx5dv_devx_qp_modify" => refused,
    "mlx5dv_devx_qp_query" => refused,
    "mlx5dv_devx_subscribe_devx_event" => refused,
    "mlx5dv_devx_umem_dereg" => refused,
    "mlx5dv_devx_umem_reg" => object,
    "mlx5dv_init_obj" => refused,
    "mlx5dv_is_supported" => not_ours,
    "mlx5dv_open_device" => object,
    "mlx5dv_qp_ex_from_ibv_qp_ex" => object,
}

/// Returns -1 and sets `errno`.
extern "C" fn minus_one() -> c_int {
    set_errno();
    -1
}

/// `mlx5dv_is_supported`.
extern "C" fn not_ours() -> bool {
    false
}

/// Frees what was never made.
extern "C" fn nothing() {}

/// Makes no object.
extern "C" fn object() -> *mut c_void {
    set_errno();
    ptr::null_mut()
}

/// Returns the error.
extern "C" fn refused() -> c_int {
    libc::EOPNOTSUPP
}

fn set_errno() {
    // SAFETY: the C library's own place of this thread.
    unsafe { *libc::__errno_location() = libc::EOPNOTSUPP };
}
