//! The names of libibverbs and librdmacm, each a jump to a function of [`e810_verbs`] or [`e810_rdmacm`].
//! Both libraries are one object, under two file names: it has their state once.

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

// librdmacm: events and ids.
exports! {
    "rdma_accept" => e810_rdmacm::connecting::accept,
    "rdma_ack_cm_event" => e810_rdmacm::channel::ack_cm_event,
    "rdma_bind_addr" => e810_rdmacm::resolve::bind_addr,
    "rdma_connect" => e810_rdmacm::connecting::connect,
    "rdma_create_event_channel" => e810_rdmacm::channel::create_event_channel,
    "rdma_create_id" => e810_rdmacm::calls::create_id,
    "rdma_destroy_event_channel" => e810_rdmacm::channel::destroy_event_channel,
    "rdma_destroy_id" => e810_rdmacm::calls::destroy_id,
    "rdma_disconnect" => e810_rdmacm::calls::disconnect,
    "rdma_event_str" => e810_rdmacm::strings::event_str,
    "rdma_free_devices" => e810_rdmacm::devices::free_devices,
    "rdma_get_cm_event" => e810_rdmacm::channel::get_cm_event,
    "rdma_get_devices" => e810_rdmacm::devices::get_devices,
    "rdma_get_dst_port" => e810_rdmacm::calls::get_dst_port,
    "rdma_get_request" => e810_rdmacm::endpoints::get_request,
    "rdma_get_src_port" => e810_rdmacm::calls::get_src_port,
    "rdma_listen" => e810_rdmacm::calls::listen,
    "rdma_migrate_id" => e810_rdmacm::channel::migrate_id,
    "rdma_notify" => e810_rdmacm::calls::notify,
    "rdma_reject" => e810_rdmacm::calls::reject,
    "rdma_resolve_addr" => e810_rdmacm::resolve::resolve_addr,
    "rdma_resolve_route" => e810_rdmacm::resolve::resolve_route,
    "rdma_set_option" => e810_rdmacm::options::set_option,
    "rdma_establish" => e810_rdmacm::calls::establish,
}

// librdmacm: queue pairs, endpoints, groups.
exports! {
    "rdma_create_ep" => e810_rdmacm::endpoints::create_ep,
    "rdma_create_qp" => e810_rdmacm::queue_pairs::create_qp,
    "rdma_create_qp_ex" => e810_rdmacm::queue_pairs::create_qp_ex,
    "rdma_destroy_ep" => e810_rdmacm::endpoints::destroy_ep,
    "rdma_destroy_qp" => e810_rdmacm::queue_pairs::destroy_qp,
    "rdma_freeaddrinfo" => e810_rdmacm::info::freeaddrinfo,
    "rdma_getaddrinfo" => e810_rdmacm::info::getaddrinfo,
    "rdma_join_multicast" => e810_rdmacm::multicast::join_multicast,
    "rdma_leave_multicast" => e810_rdmacm::multicast::leave_multicast,
    "rpoll" => e810_rdmacm::refused::poll,
    "rselect" => e810_rdmacm::refused::select,
    "rdma_join_multicast_ex" => e810_rdmacm::multicast::join_multicast_ex,
    "rdma_init_qp_attr" => e810_rdmacm::queue_pairs::init_qp_attr,
    "rdma_get_remote_ece" => e810_rdmacm::refused::get_remote_ece,
    "rdma_reject_ece" => e810_rdmacm::refused::reject_ece,
    "rdma_set_local_ece" => e810_rdmacm::refused::set_local_ece,
}

// librdmacm: shared receive queues, which the card has not got, and rsockets.
exports! {
    "raccept" => refusals::returns_minus_one,
    "rbind" => refusals::returns_minus_one,
    "rclose" => refusals::returns_minus_one,
    "rconnect" => refusals::returns_minus_one,
    "rdma_create_srq" => refusals::returns_minus_one,
    "rdma_create_srq_ex" => refusals::returns_minus_one,
    "rdma_destroy_srq" => refusals::returns_nothing,
    "rfcntl" => refusals::returns_minus_one,
    "rgetpeername" => refusals::returns_minus_one,
    "rgetsockname" => refusals::returns_minus_one,
    "rgetsockopt" => refusals::returns_minus_one,
    "riomap" => refusals::returns_minus_one,
    "riounmap" => refusals::returns_minus_one,
    "riowrite" => refusals::returns_minus_one,
    "rlisten" => refusals::returns_minus_one,
    "rread" => refusals::returns_minus_one,
    "rreadv" => refusals::returns_minus_one,
    "rrecv" => refusals::returns_minus_one,
    "rrecvfrom" => refusals::returns_minus_one,
    "rrecvmsg" => refusals::returns_minus_one,
    "rsend" => refusals::returns_minus_one,
    "rsendmsg" => refusals::returns_minus_one,
    "rsendto" => refusals::returns_minus_one,
    "rsetsockopt" => refusals::returns_minus_one,
    "rshutdown" => refusals::returns_minus_one,
    "rsocket" => refusals::returns_minus_one,
    "rwrite" => refusals::returns_minus_one,
    "rwritev" => refusals::returns_minus_one,
}
