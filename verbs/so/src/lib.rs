//! The names of libibverbs, each a jump to a function of [`e810_verbs`].

// UNSAFETY: none of its own: the assembly only jumps to functions with C's calling convention.

#![cfg(target_os = "linux")]

use e810_verbs_names::{exports, refusals};

// Strings.
exports! {
    "ibv_node_type_str" => e810_verbs::strings::node_type_str,
    "ibv_port_state_str" => e810_verbs::strings::port_state_str,
    "ibv_event_type_str" => e810_verbs::strings::event_type_str,
    "ibv_wc_status_str" => e810_verbs::strings::wc_status_str,
}

// Rates.
exports! {
    "ibv_rate_to_mult" => e810_verbs::rates::rate_to_mult,
    "mult_to_ibv_rate" => e810_verbs::rates::mult_to_rate,
    "ibv_rate_to_mbps" => e810_verbs::rates::rate_to_mbps,
    "mbps_to_ibv_rate" => e810_verbs::rates::mbps_to_rate,
}

// Sysfs.
exports! {
    "ibv_get_sysfs_path" => e810_verbs::sysfs::get_sysfs_path,
    "ibv_read_sysfs_file" => e810_verbs::sysfs::read_sysfs_file,
}

// Fork.
exports! {
    "ibv_fork_init" => e810_verbs::fork::fork_init,
    "ibv_is_fork_initialized" => e810_verbs::fork::is_fork_initialized,
    "ibv_dofork_range" => e810_verbs::fork::dofork_range,
    "ibv_dontfork_range" => e810_verbs::fork::dontfork_range,
}

// Device.
exports! {
    "ibv_get_device_list" => e810_verbs::device::get_device_list,
    "ibv_free_device_list" => e810_verbs::device::free_device_list,
    "ibv_get_device_name" => e810_verbs::device::get_device_name,
    "ibv_get_device_guid" => e810_verbs::device::get_device_guid,
    "ibv_get_device_index" => e810_verbs::device::get_device_index,
}

// Context.
exports! {
    "ibv_open_device" => e810_verbs::device::context::open_device,
    "ibv_close_device" => e810_verbs::device::context::close_device,
}

// Async events.
exports! {
    "ibv_get_async_event" => e810_verbs::async_events::get_async_event,
    "ibv_ack_async_event" => e810_verbs::async_events::ack_async_event,
}

// Query.
exports! {
    "ibv_query_device" => e810_verbs::query::device::query_device,
    "ibv_query_port" => e810_verbs::query::port::query_port,
    "ibv_query_gid" => e810_verbs::query::gid::query_gid,
    "ibv_query_gid_type" => e810_verbs::query::gid::query_gid_type,
    "_ibv_query_gid_ex" => e810_verbs::query::gid::query_gid_ex,
    "_ibv_query_gid_table" => e810_verbs::query::gid::query_gid_table,
    "ibv_query_pkey" => e810_verbs::query::port::query_pkey,
    "ibv_get_pkey_index" => e810_verbs::query::port::get_pkey_index,
}

// Protection domains.
exports! {
    "ibv_alloc_pd" => e810_verbs::pd::alloc_pd,
    "ibv_dealloc_pd" => e810_verbs::pd::dealloc_pd,
}

// Memory regions.
exports! {
    "ibv_reg_mr" => e810_verbs::mr::reg_mr,
    "ibv_reg_mr_iova" => e810_verbs::mr::reg_mr_iova,
    "ibv_reg_mr_iova2" => e810_verbs::mr::reg_mr_iova2,
    "ibv_rereg_mr" => e810_verbs::mr::rereg_mr,
    "ibv_dereg_mr" => e810_verbs::mr::dereg_mr,
}

// Completion queues and channels.
exports! {
    "ibv_create_cq" => e810_verbs::cq::create_cq,
    "ibv_resize_cq" => e810_verbs::cq::resize_cq,
    "ibv_destroy_cq" => e810_verbs::cq::destroy_cq,
    "ibv_create_comp_channel" => e810_verbs::channel::create_comp_channel,
    "ibv_destroy_comp_channel" => e810_verbs::channel::destroy_comp_channel,
    "ibv_get_cq_event" => e810_verbs::channel::get_cq_event,
    "ibv_ack_cq_events" => e810_verbs::channel::ack_cq_events,
}

// Queue pairs.
exports! {
    "ibv_create_qp" => e810_verbs::qp::create_qp,
    "ibv_modify_qp" => e810_verbs::qp::modify_qp,
    "ibv_query_qp" => e810_verbs::qp::query_qp,
    "ibv_query_qp_data_in_order" => e810_verbs::qp::query_qp_data_in_order,
    "ibv_destroy_qp" => e810_verbs::qp::destroy_qp,
    "ibv_qp_to_qp_ex" => e810_verbs::qp::qp_to_qp_ex,
}

// Address handles and groups.
exports! {
    "ibv_create_ah" => e810_verbs::ah::create_ah,
    "ibv_create_ah_from_wc" => e810_verbs::ah::answer::create_ah_from_wc,
    "ibv_init_ah_from_wc" => e810_verbs::ah::answer::init_ah_from_wc,
    "ibv_resolve_eth_l2_from_gid" => e810_verbs::resolve::resolve_eth_l2_from_gid,
    "ibv_destroy_ah" => e810_verbs::ah::destroy_ah,
    "ibv_attach_mcast" => e810_verbs::multicast::attach_mcast,
    "ibv_detach_mcast" => e810_verbs::multicast::detach_mcast,
}

// Import.
exports! {
    "ibv_import_device" => e810_verbs::import::import_device,
    "ibv_import_mr" => e810_verbs::import::import_mr,
    "ibv_import_pd" => e810_verbs::import::import_pd,
    "ibv_unimport_mr" => e810_verbs::import::unimport_mr,
    "ibv_unimport_pd" => e810_verbs::import::unimport_pd,
}

// What the card has not got.
exports! {
    "ibv_create_srq" => refusals::returns_null,
    "ibv_modify_srq" => refusals::returns_error,
    "ibv_query_srq" => refusals::returns_error,
    "ibv_destroy_srq" => refusals::returns_error,
    "ibv_query_ece" => refusals::returns_error,
    "ibv_set_ece" => refusals::returns_error,
    "ibv_reg_dmabuf_mr" => refusals::returns_null,
    "ibv_import_dm" => refusals::returns_null,
    "ibv_unimport_dm" => refusals::returns_nothing,
}

// For the librdmacm of the kernel, which this library is not.
exports! {
    "ibv_copy_path_rec_from_kern" => refusals::returns_nothing,
    "ibv_copy_path_rec_to_kern" => refusals::returns_nothing,
    "ibv_copy_qp_attr_from_kern" => refusals::returns_nothing,
    "ibv_copy_ah_attr_from_kern" => refusals::returns_nothing,
}
