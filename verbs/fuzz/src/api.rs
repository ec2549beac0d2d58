//! The functions of the library: each exported name, from this program or from a file, and the
//! names of those that are called through pointers.

use core::ffi::{c_char, c_int, c_uint, c_void};
use std::ffi::CString;
use std::path::Path;

use e810_verbs::abi::device::{Context, Device};
use e810_verbs::abi::extended::QpEx;
use e810_verbs::abi::make::{QpInitAttr, SrqInitAttr};
use e810_verbs::abi::objects::{Ah, CompChannel, Cq, Mr, Pd, Qp, Srq};
use e810_verbs::abi::query::{DeviceAttr, Ece, GidEntry, PortAttr};
use e810_verbs::abi::state::{AhAttr, Gid, Grh, QpAttr};
use e810_verbs::abi::work::{AsyncEvent, Wc};
use e810_verbs_names::refusals;

/// Functions that refuse whatever is asked of them take no arguments; these do.
mod refused {
    use super::*;

    macro_rules! refused {
        ($($name:ident($($kind:ty),*) $(-> $ret:ty)? = $by:ident;)+) => {
            $(pub(super) unsafe extern "C" fn $name($(_: $kind),*) $(-> $ret)? {
                refusals::$by().into_it()
            })+
        };
    }

    /// Pointers of any type.
    trait IntoIt<T> {
        fn into_it(self) -> T;
    }
    impl<T> IntoIt<*mut T> for *mut c_void {
        fn into_it(self) -> *mut T {
            self.cast()
        }
    }
    impl IntoIt<Self> for c_int {
        fn into_it(self) -> Self {
            self
        }
    }
    impl IntoIt<Self> for () {
        fn into_it(self) {}
    }

    refused! {
        create_srq(*mut Pd, *mut SrqInitAttr) -> *mut Srq = returns_null;
        modify_srq(*mut Srq, *mut c_void, c_int) -> c_int = returns_error;
        query_srq(*mut Srq, *mut c_void) -> c_int = returns_error;
        destroy_srq(*mut Srq) -> c_int = returns_error;
        query_ece(*mut Qp, *mut Ece) -> c_int = returns_error;
        set_ece(*mut Qp, *mut Ece) -> c_int = returns_error;
        reg_dmabuf_mr(*mut Pd, u64, usize, u64, c_int, c_int) -> *mut Mr = returns_null;
        import_dm(*mut Context, u32) -> *mut c_void = returns_null;
        unimport_dm(*mut c_void) = returns_nothing;
        copy(*mut c_void, *mut c_void) = returns_nothing;
    }
}

/// Functions that unwind where their thread is cancelled, which no thread of this program is.
mod waits {
    use super::*;

    pub(super) unsafe extern "C" fn get_async_event(
        context: *mut Context,
        event: *mut AsyncEvent,
    ) -> c_int {
        // SAFETY: the caller's.
        unsafe { e810_verbs::async_events::get_async_event(context, event) }
    }

    pub(super) unsafe extern "C" fn get_cq_event(
        channel: *mut CompChannel,
        cq: *mut *mut Cq,
        word: *mut *mut c_void,
    ) -> c_int {
        // SAFETY: the caller's.
        unsafe { e810_verbs::channel::get_cq_event(channel, cq, word) }
    }
}

/// A table of functions: field, name, type, the function of this program; and names of others.
macro_rules! api {
    (
        $($field:ident = $name:literal, ($($kind:ty),*) $(-> $ret:ty)?, $path:path;)+
        @ $($pointer:ident)*
    ) => {
        /// The exported functions.
        #[derive(Clone, Copy, Debug)]
        #[expect(missing_docs, reason = "each is the library's function of that name")]
        pub struct Api {
            $(pub $field: unsafe extern "C" fn($($kind),*) $(-> $ret)?,)+
        }

        /// What is called.
        #[expect(missing_docs, non_camel_case_types, reason = "names of the library")]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(usize)]
        pub enum Sym { $($field,)+ $($pointer,)* }

        /// The names.
        pub const EXPORTED: &[&str] = &[$($name),+];

        /// All that is called: exported names, and those behind pointers.
        pub const SYMBOLS: &[&str] = &[$($name,)+ $(stringify!($pointer),)*];

        impl Api {
            /// Those of this program.
            #[must_use]
            pub fn linked() -> Self {
                Self { $($field: $path,)+ }
            }

            /// Those of a library in a file, which stays loaded.
            ///
            /// # Errors
            /// It cannot be loaded, or has not all names.
            pub fn loaded(path: &std::path::Path) -> Result<Self, String> {
                let library = $crate::api::load(path)?;
                Ok(Self { $($field: {
                    let found = $crate::api::find(library, $name)?;
                    // SAFETY: the name is that of a function of this type.
                    unsafe { core::mem::transmute::<
                        *mut core::ffi::c_void,
                        unsafe extern "C" fn($($kind),*) $(-> $ret)?,
                    >(found) }
                },)+ })
            }
        }
    };
}

pub(crate) use api;

pub(crate) fn load(path: &Path) -> Result<*mut c_void, String> {
    let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|why| why.to_string())?;
    // SAFETY: a string; what it runs when it is loaded is the library's business.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    match library.is_null() {
        true => Err(format!("{}: it cannot be loaded", path.display())),
        false => Ok(library),
    }
}

pub(crate) fn find(library: *mut c_void, name: &str) -> Result<*mut c_void, String> {
    let text = CString::new(name).map_err(|why| why.to_string())?;
    // SAFETY: the library stays loaded.
    let found = unsafe { libc::dlsym(library, text.as_ptr()) };
    match found.is_null() {
        true => Err(format!("the library has no {name}")),
        false => Ok(found),
    }
}

type Str = *const c_char;

api! {
    node_type_str = "ibv_node_type_str", (c_int) -> Str, e810_verbs::strings::node_type_str;
    port_state_str = "ibv_port_state_str", (c_int) -> Str, e810_verbs::strings::port_state_str;
    event_type_str = "ibv_event_type_str", (c_int) -> Str, e810_verbs::strings::event_type_str;
    wc_status_str = "ibv_wc_status_str", (c_int) -> Str, e810_verbs::strings::wc_status_str;
    rate_to_mult = "ibv_rate_to_mult", (c_int) -> c_int, e810_verbs::rates::rate_to_mult;
    mult_to_rate = "mult_to_ibv_rate", (c_int) -> c_int, e810_verbs::rates::mult_to_rate;
    rate_to_mbps = "ibv_rate_to_mbps", (c_int) -> c_int, e810_verbs::rates::rate_to_mbps;
    mbps_to_rate = "mbps_to_ibv_rate", (c_int) -> c_int, e810_verbs::rates::mbps_to_rate;
    get_sysfs_path = "ibv_get_sysfs_path", () -> Str, e810_verbs::sysfs::get_sysfs_path;
    read_sysfs_file = "ibv_read_sysfs_file", (Str, Str, *mut c_char, usize) -> c_int, e810_verbs::sysfs::read_sysfs_file;
    fork_init = "ibv_fork_init", () -> c_int, e810_verbs::fork::fork_init;
    is_fork_initialized = "ibv_is_fork_initialized", () -> c_int, e810_verbs::fork::is_fork_initialized;
    dofork_range = "ibv_dofork_range", (*mut c_void, usize) -> c_int, e810_verbs::fork::dofork_range;
    dontfork_range = "ibv_dontfork_range", (*mut c_void, usize) -> c_int, e810_verbs::fork::dontfork_range;
    get_device_list = "ibv_get_device_list", (*mut c_int) -> *mut *mut Device, e810_verbs::device::get_device_list;
    free_device_list = "ibv_free_device_list", (*mut *mut Device), e810_verbs::device::free_device_list;
    get_device_name = "ibv_get_device_name", (*mut Device) -> Str, e810_verbs::device::get_device_name;
    get_device_guid = "ibv_get_device_guid", (*mut Device) -> u64, e810_verbs::device::get_device_guid;
    get_device_index = "ibv_get_device_index", (*mut Device) -> c_int, e810_verbs::device::get_device_index;
    open_device = "ibv_open_device", (*mut Device) -> *mut Context, e810_verbs::device::context::open_device;
    close_device = "ibv_close_device", (*mut Context) -> c_int, e810_verbs::device::context::close_device;
    get_async_event = "ibv_get_async_event", (*mut Context, *mut AsyncEvent) -> c_int, waits::get_async_event;
    ack_async_event = "ibv_ack_async_event", (*mut AsyncEvent), e810_verbs::async_events::ack_async_event;
    query_device = "ibv_query_device", (*mut Context, *mut DeviceAttr) -> c_int, e810_verbs::query::device::query_device;
    query_port = "ibv_query_port", (*mut Context, u8, *mut PortAttr) -> c_int, e810_verbs::query::port::query_port;
    query_gid = "ibv_query_gid", (*mut Context, u8, c_int, *mut Gid) -> c_int, e810_verbs::query::gid::query_gid;
    query_gid_type = "ibv_query_gid_type", (*mut Context, u8, c_uint, *mut c_int) -> c_int, e810_verbs::query::gid::query_gid_type;
    query_gid_ex = "_ibv_query_gid_ex", (*mut Context, u32, u32, *mut GidEntry, u32, usize) -> c_int, e810_verbs::query::gid::query_gid_ex;
    query_gid_table = "_ibv_query_gid_table", (*mut Context, *mut GidEntry, usize, u32, usize) -> isize, e810_verbs::query::gid::query_gid_table;
    query_pkey = "ibv_query_pkey", (*mut Context, u8, c_int, *mut u16) -> c_int, e810_verbs::query::port::query_pkey;
    get_pkey_index = "ibv_get_pkey_index", (*mut Context, u8, u16) -> c_int, e810_verbs::query::port::get_pkey_index;
    alloc_pd = "ibv_alloc_pd", (*mut Context) -> *mut Pd, e810_verbs::pd::alloc_pd;
    dealloc_pd = "ibv_dealloc_pd", (*mut Pd) -> c_int, e810_verbs::pd::dealloc_pd;
    reg_mr = "ibv_reg_mr", (*mut Pd, *mut c_void, usize, c_int) -> *mut Mr, e810_verbs::mr::reg_mr;
    reg_mr_iova = "ibv_reg_mr_iova", (*mut Pd, *mut c_void, usize, u64, c_int) -> *mut Mr, e810_verbs::mr::reg_mr_iova;
    reg_mr_iova2 = "ibv_reg_mr_iova2", (*mut Pd, *mut c_void, usize, u64, c_uint) -> *mut Mr, e810_verbs::mr::reg_mr_iova2;
    rereg_mr = "ibv_rereg_mr", (*mut Mr, c_int, *mut Pd, *mut c_void, usize, c_int) -> c_int, e810_verbs::mr::rereg_mr;
    dereg_mr = "ibv_dereg_mr", (*mut Mr) -> c_int, e810_verbs::mr::dereg_mr;
    create_cq = "ibv_create_cq", (*mut Context, c_int, *mut c_void, *mut CompChannel, c_int) -> *mut Cq, e810_verbs::cq::create_cq;
    resize_cq = "ibv_resize_cq", (*mut Cq, c_int) -> c_int, e810_verbs::cq::resize_cq;
    destroy_cq = "ibv_destroy_cq", (*mut Cq) -> c_int, e810_verbs::cq::destroy_cq;
    create_comp_channel = "ibv_create_comp_channel", (*mut Context) -> *mut CompChannel, e810_verbs::channel::create_comp_channel;
    destroy_comp_channel = "ibv_destroy_comp_channel", (*mut CompChannel) -> c_int, e810_verbs::channel::destroy_comp_channel;
    get_cq_event = "ibv_get_cq_event", (*mut CompChannel, *mut *mut Cq, *mut *mut c_void) -> c_int, waits::get_cq_event;
    ack_cq_events = "ibv_ack_cq_events", (*mut Cq, c_uint), e810_verbs::channel::ack_cq_events;
    create_qp = "ibv_create_qp", (*mut Pd, *mut QpInitAttr) -> *mut Qp, e810_verbs::qp::create_qp;
    modify_qp = "ibv_modify_qp", (*mut Qp, *mut QpAttr, c_int) -> c_int, e810_verbs::qp::modify_qp;
    query_qp = "ibv_query_qp", (*mut Qp, *mut QpAttr, c_int, *mut QpInitAttr) -> c_int, e810_verbs::qp::query_qp;
    query_qp_data_in_order = "ibv_query_qp_data_in_order", (*mut Qp, c_int, u32) -> c_int, e810_verbs::qp::query_qp_data_in_order;
    destroy_qp = "ibv_destroy_qp", (*mut Qp) -> c_int, e810_verbs::qp::destroy_qp;
    qp_to_qp_ex = "ibv_qp_to_qp_ex", (*mut Qp) -> *mut QpEx, e810_verbs::qp::qp_to_qp_ex;
    create_ah = "ibv_create_ah", (*mut Pd, *mut AhAttr) -> *mut Ah, e810_verbs::ah::create_ah;
    create_ah_from_wc = "ibv_create_ah_from_wc", (*mut Pd, *mut Wc, *mut Grh, u8) -> *mut Ah, e810_verbs::ah::answer::create_ah_from_wc;
    init_ah_from_wc = "ibv_init_ah_from_wc", (*mut Context, u8, *mut Wc, *mut Grh, *mut AhAttr) -> c_int, e810_verbs::ah::answer::init_ah_from_wc;
    resolve_eth_l2_from_gid = "ibv_resolve_eth_l2_from_gid", (*mut Context, *mut AhAttr, *mut u8, *mut u16) -> c_int, e810_verbs::resolve::resolve_eth_l2_from_gid;
    destroy_ah = "ibv_destroy_ah", (*mut Ah) -> c_int, e810_verbs::ah::destroy_ah;
    attach_mcast = "ibv_attach_mcast", (*mut Qp, *const Gid, u16) -> c_int, e810_verbs::multicast::attach_mcast;
    detach_mcast = "ibv_detach_mcast", (*mut Qp, *const Gid, u16) -> c_int, e810_verbs::multicast::detach_mcast;
    import_device = "ibv_import_device", (c_int) -> *mut Context, e810_verbs::import::import_device;
    import_mr = "ibv_import_mr", (*mut Pd, u32) -> *mut Mr, e810_verbs::import::import_mr;
    import_pd = "ibv_import_pd", (*mut Context, u32) -> *mut Pd, e810_verbs::import::import_pd;
    unimport_mr = "ibv_unimport_mr", (*mut Mr), e810_verbs::import::unimport_mr;
    unimport_pd = "ibv_unimport_pd", (*mut Pd), e810_verbs::import::unimport_pd;
    create_srq = "ibv_create_srq", (*mut Pd, *mut SrqInitAttr) -> *mut Srq, refused::create_srq;
    modify_srq = "ibv_modify_srq", (*mut Srq, *mut c_void, c_int) -> c_int, refused::modify_srq;
    query_srq = "ibv_query_srq", (*mut Srq, *mut c_void) -> c_int, refused::query_srq;
    destroy_srq = "ibv_destroy_srq", (*mut Srq) -> c_int, refused::destroy_srq;
    query_ece = "ibv_query_ece", (*mut Qp, *mut Ece) -> c_int, refused::query_ece;
    set_ece = "ibv_set_ece", (*mut Qp, *mut Ece) -> c_int, refused::set_ece;
    reg_dmabuf_mr = "ibv_reg_dmabuf_mr", (*mut Pd, u64, usize, u64, c_int, c_int) -> *mut Mr, refused::reg_dmabuf_mr;
    import_dm = "ibv_import_dm", (*mut Context, u32) -> *mut c_void, refused::import_dm;
    unimport_dm = "ibv_unimport_dm", (*mut c_void), refused::unimport_dm;
    copy_path_rec_from_kern = "ibv_copy_path_rec_from_kern", (*mut c_void, *mut c_void), refused::copy;
    copy_path_rec_to_kern = "ibv_copy_path_rec_to_kern", (*mut c_void, *mut c_void), refused::copy;
    copy_qp_attr_from_kern = "ibv_copy_qp_attr_from_kern", (*mut c_void, *mut c_void), refused::copy;
    copy_ah_attr_from_kern = "ibv_copy_ah_attr_from_kern", (*mut c_void, *mut c_void), refused::copy;

    @
    ctx_poll_cq ctx_req_notify_cq ctx_post_send ctx_post_recv
    vctx_query_port vctx_alloc_parent_domain vctx_dealloc_td vctx_alloc_td vctx_create_cq_ex
    vctx_query_device_ex vctx_create_qp_ex
    cq_start_poll cq_next_poll cq_end_poll cq_read_opcode cq_read_vendor_err cq_read_byte_len
    cq_read_imm_data cq_read_qp_num cq_read_src_qp cq_read_wc_flags cq_read_slid cq_read_sl
    cq_read_dlid_path_bits
    qp_wr_local_inv qp_wr_rdma_read qp_wr_rdma_write qp_wr_rdma_write_imm qp_wr_send
    qp_wr_send_imm qp_wr_send_inv qp_wr_set_ud_addr qp_wr_set_inline_data
    qp_wr_set_inline_data_list qp_wr_set_sge qp_wr_set_sge_list qp_wr_start qp_wr_complete
    qp_wr_abort
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_libibverbs_that_the_library_exports() {
        let source = include_str!("../../so/src/lib.rs");
        let mut exported: Vec<&str> = source
            .lines()
            .filter_map(|line| line.trim().strip_prefix('"')?.split_once("\" =>"))
            .map(|(name, _)| name)
            // Those of librdmacm are not called here.
            .filter(|name| name.contains("ibv_"))
            .collect();
        let mut called = EXPORTED.to_vec();
        exported.sort_unstable();
        called.sort_unstable();
        assert_eq!(called, exported);
    }
}
