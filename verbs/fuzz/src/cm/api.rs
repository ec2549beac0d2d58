//! The functions of librdmacm: each exported name, from this program or from a file.

use core::ffi::{c_char, c_int, c_void};

use e810_rdmacm::abi::{AddrInfo, CmEvent, CmId, ConnParam, EventChannel, JoinMcAttr};
use e810_rdmacm::refused::Ece;
use e810_rdmacm::{
    calls, channel, connecting, devices, endpoints, info, multicast, options, queue_pairs, refused,
    resolve, strings,
};
use e810_verbs::abi::device::Context;
use e810_verbs::abi::make::{QpInitAttr, QpInitAttrEx, SrqInitAttr};
use e810_verbs::abi::objects::Pd;
use e810_verbs::abi::state::QpAttr;
use libc::{fd_set, iovec, msghdr, nfds_t, off_t, pollfd, sockaddr, socklen_t, timeval};

use crate::api::api;

/// Functions that refuse whatever is asked of them take no arguments; these do.
mod none {
    use super::*;
    use e810_verbs_names::refusals;

    macro_rules! none {
        ($($name:ident($($kind:ty),*) -> $ret:ty;)+) => {
            $(pub(super) unsafe extern "C" fn $name($(_: $kind),*) -> $ret {
                refusals::returns_minus_one() as $ret
            })+
        };
    }

    none! {
        socket(c_int, c_int, c_int) -> c_int;
        bind(c_int, *const sockaddr, socklen_t) -> c_int;
        listen(c_int, c_int) -> c_int;
        accept(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
        close(c_int) -> c_int;
        recv(c_int, *mut c_void, usize, c_int) -> isize;
        recvfrom(c_int, *mut c_void, usize, c_int, *mut sockaddr, *mut socklen_t) -> isize;
        recvmsg(c_int, *mut msghdr, c_int) -> isize;
        send(c_int, *const c_void, usize, c_int) -> isize;
        sendto(c_int, *const c_void, usize, c_int, *const sockaddr, socklen_t) -> isize;
        sendmsg(c_int, *const msghdr, c_int) -> isize;
        read(c_int, *mut c_void, usize) -> isize;
        write(c_int, *const c_void, usize) -> isize;
        readv(c_int, *const iovec, c_int) -> isize;
        setsockopt(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int;
        getsockopt(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
        fcntl(c_int, c_int, isize) -> c_int;
        iomap(c_int, *mut c_void, usize, c_int, c_int, off_t) -> off_t;
        iounmap(c_int, *mut c_void, usize) -> c_int;
        iowrite(c_int, *const c_void, usize, off_t, c_int) -> usize;
        create_srq(*mut CmId, *mut Pd, *mut SrqInitAttr) -> c_int;
        create_srq_ex(*mut CmId, *mut c_void) -> c_int;
    }

    pub(super) unsafe extern "C" fn destroy_srq(_: *mut CmId) {
        refusals::returns_nothing();
    }
}

/// Functions that unwind where their thread is cancelled, which no thread of this program is.
mod waits {
    use super::*;

    macro_rules! waits {
        ($($name:ident($($argument:ident: $kind:ty),*) = $path:path;)+) => {
            $(pub(super) unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                // SAFETY: the caller's.
                unsafe { $path($($argument),*) }
            })+
        };
    }

    waits! {
        accept(id: IdPtr, param: *mut ConnParam) = connecting::accept;
        connect(id: IdPtr, param: *mut ConnParam) = connecting::connect;
        disconnect(id: IdPtr) = calls::disconnect;
        get_cm_event(from: *mut EventChannel, event: *mut *mut CmEvent) = channel::get_cm_event;
        get_request(listener: IdPtr, id: *mut IdPtr) = endpoints::get_request;
        join_multicast(id: IdPtr, group: *mut sockaddr, context: *mut c_void) = multicast::join_multicast;
        join_multicast_ex(id: IdPtr, attr: *mut JoinMcAttr, context: *mut c_void) = multicast::join_multicast_ex;
        poll(fds: *mut pollfd, count: nfds_t, limit: c_int) = refused::poll;
        resolve_addr(id: IdPtr, from: *mut sockaddr, to: *mut sockaddr, limit: c_int) = resolve::resolve_addr;
        resolve_route(id: IdPtr, limit: c_int) = resolve::resolve_route;
        select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, limit: *mut timeval) = refused::select;
    }
}

type Str = *const c_char;
type IdPtr = *mut CmId;

api! {
    accept = "rdma_accept", (IdPtr, *mut ConnParam) -> c_int, waits::accept;
    ack_cm_event = "rdma_ack_cm_event", (*mut CmEvent) -> c_int, channel::ack_cm_event;
    bind_addr = "rdma_bind_addr", (IdPtr, *mut sockaddr) -> c_int, resolve::bind_addr;
    connect = "rdma_connect", (IdPtr, *mut ConnParam) -> c_int, waits::connect;
    create_event_channel = "rdma_create_event_channel", () -> *mut EventChannel, channel::create_event_channel;
    create_id = "rdma_create_id", (*mut EventChannel, *mut IdPtr, *mut c_void, c_int) -> c_int, calls::create_id;
    destroy_event_channel = "rdma_destroy_event_channel", (*mut EventChannel), channel::destroy_event_channel;
    destroy_id = "rdma_destroy_id", (IdPtr) -> c_int, calls::destroy_id;
    disconnect = "rdma_disconnect", (IdPtr) -> c_int, waits::disconnect;
    event_str = "rdma_event_str", (c_int) -> Str, strings::event_str;
    free_devices = "rdma_free_devices", (*mut *mut Context), devices::free_devices;
    get_cm_event = "rdma_get_cm_event", (*mut EventChannel, *mut *mut CmEvent) -> c_int, waits::get_cm_event;
    get_devices = "rdma_get_devices", (*mut c_int) -> *mut *mut Context, devices::get_devices;
    get_dst_port = "rdma_get_dst_port", (IdPtr) -> u16, calls::get_dst_port;
    get_request = "rdma_get_request", (IdPtr, *mut IdPtr) -> c_int, waits::get_request;
    get_src_port = "rdma_get_src_port", (IdPtr) -> u16, calls::get_src_port;
    listen = "rdma_listen", (IdPtr, c_int) -> c_int, calls::listen;
    migrate_id = "rdma_migrate_id", (IdPtr, *mut EventChannel) -> c_int, channel::migrate_id;
    notify = "rdma_notify", (IdPtr, c_int) -> c_int, calls::notify;
    reject = "rdma_reject", (IdPtr, *const c_void, u8) -> c_int, calls::reject;
    resolve_addr = "rdma_resolve_addr", (IdPtr, *mut sockaddr, *mut sockaddr, c_int) -> c_int, waits::resolve_addr;
    resolve_route = "rdma_resolve_route", (IdPtr, c_int) -> c_int, waits::resolve_route;
    set_option = "rdma_set_option", (IdPtr, c_int, c_int, *mut c_void, usize) -> c_int, options::set_option;
    establish = "rdma_establish", (IdPtr) -> c_int, calls::establish;
    create_ep = "rdma_create_ep", (*mut IdPtr, *mut AddrInfo, *mut Pd, *mut QpInitAttr) -> c_int, endpoints::create_ep;
    create_qp = "rdma_create_qp", (IdPtr, *mut Pd, *mut QpInitAttr) -> c_int, queue_pairs::create_qp;
    create_qp_ex = "rdma_create_qp_ex", (IdPtr, *mut QpInitAttrEx) -> c_int, queue_pairs::create_qp_ex;
    destroy_ep = "rdma_destroy_ep", (IdPtr), endpoints::destroy_ep;
    destroy_qp = "rdma_destroy_qp", (IdPtr), queue_pairs::destroy_qp;
    freeaddrinfo = "rdma_freeaddrinfo", (*mut AddrInfo), info::freeaddrinfo;
    getaddrinfo = "rdma_getaddrinfo", (Str, Str, *const AddrInfo, *mut *mut AddrInfo) -> c_int, info::getaddrinfo;
    join_multicast = "rdma_join_multicast", (IdPtr, *mut sockaddr, *mut c_void) -> c_int, waits::join_multicast;
    leave_multicast = "rdma_leave_multicast", (IdPtr, *mut sockaddr) -> c_int, multicast::leave_multicast;
    join_multicast_ex = "rdma_join_multicast_ex", (IdPtr, *mut JoinMcAttr, *mut c_void) -> c_int, waits::join_multicast_ex;
    init_qp_attr = "rdma_init_qp_attr", (IdPtr, *mut QpAttr, *mut c_int) -> c_int, queue_pairs::init_qp_attr;
    get_remote_ece = "rdma_get_remote_ece", (IdPtr, *mut Ece) -> c_int, refused::get_remote_ece;
    reject_ece = "rdma_reject_ece", (IdPtr, *const c_void, u8) -> c_int, refused::reject_ece;
    set_local_ece = "rdma_set_local_ece", (IdPtr, *mut Ece) -> c_int, refused::set_local_ece;
    rpoll = "rpoll", (*mut pollfd, nfds_t, c_int) -> c_int, waits::poll;
    rselect = "rselect", (c_int, *mut fd_set, *mut fd_set, *mut fd_set, *mut timeval) -> c_int, waits::select;
    raccept = "raccept", (c_int, *mut sockaddr, *mut socklen_t) -> c_int, none::accept;
    rbind = "rbind", (c_int, *const sockaddr, socklen_t) -> c_int, none::bind;
    rclose = "rclose", (c_int) -> c_int, none::close;
    rconnect = "rconnect", (c_int, *const sockaddr, socklen_t) -> c_int, none::bind;
    create_srq = "rdma_create_srq", (IdPtr, *mut Pd, *mut SrqInitAttr) -> c_int, none::create_srq;
    create_srq_ex = "rdma_create_srq_ex", (IdPtr, *mut c_void) -> c_int, none::create_srq_ex;
    destroy_srq = "rdma_destroy_srq", (IdPtr), none::destroy_srq;
    rfcntl = "rfcntl", (c_int, c_int, isize) -> c_int, none::fcntl;
    rgetpeername = "rgetpeername", (c_int, *mut sockaddr, *mut socklen_t) -> c_int, none::accept;
    rgetsockname = "rgetsockname", (c_int, *mut sockaddr, *mut socklen_t) -> c_int, none::accept;
    rgetsockopt = "rgetsockopt", (c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int, none::getsockopt;
    riomap = "riomap", (c_int, *mut c_void, usize, c_int, c_int, off_t) -> off_t, none::iomap;
    riounmap = "riounmap", (c_int, *mut c_void, usize) -> c_int, none::iounmap;
    riowrite = "riowrite", (c_int, *const c_void, usize, off_t, c_int) -> usize, none::iowrite;
    rlisten = "rlisten", (c_int, c_int) -> c_int, none::listen;
    rread = "rread", (c_int, *mut c_void, usize) -> isize, none::read;
    rreadv = "rreadv", (c_int, *const iovec, c_int) -> isize, none::readv;
    rrecv = "rrecv", (c_int, *mut c_void, usize, c_int) -> isize, none::recv;
    rrecvfrom = "rrecvfrom", (c_int, *mut c_void, usize, c_int, *mut sockaddr, *mut socklen_t) -> isize, none::recvfrom;
    rrecvmsg = "rrecvmsg", (c_int, *mut msghdr, c_int) -> isize, none::recvmsg;
    rsend = "rsend", (c_int, *const c_void, usize, c_int) -> isize, none::send;
    rsendmsg = "rsendmsg", (c_int, *const msghdr, c_int) -> isize, none::sendmsg;
    rsendto = "rsendto", (c_int, *const c_void, usize, c_int, *const sockaddr, socklen_t) -> isize, none::sendto;
    rsetsockopt = "rsetsockopt", (c_int, c_int, c_int, *const c_void, socklen_t) -> c_int, none::setsockopt;
    rshutdown = "rshutdown", (c_int, c_int) -> c_int, none::listen;
    rsocket = "rsocket", (c_int, c_int, c_int) -> c_int, none::socket;
    rwrite = "rwrite", (c_int, *const c_void, usize) -> isize, none::write;
    rwritev = "rwritev", (c_int, *const iovec, c_int) -> isize, none::readv;

    @
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_librdmacm_that_the_library_exports() {
        let map = include_str!("../../../so/ibverbs.map");
        let (_, map) = map.split_once("\nRDMACM_1.0 {").expect("its nodes");
        let names = map.lines().filter_map(|line| line.trim().strip_suffix(';'));
        let mut exported: Vec<&str> = names.filter(|name| !name.contains(['}', '*'])).collect();
        let mut called = EXPORTED.to_vec();
        exported.sort_unstable();
        called.sort_unstable();
        assert_eq!(called, exported);
    }
}
