//! `rdma_getaddrinfo`.

use core::ffi::{c_char, c_int, c_void};
use std::ptr;

use e810_verbs::abi::constants::qp_type;
use e810_verbs::errno::fail;
use e810_verbs::panics::catch_panics;

use crate::abi::{AddrInfo, port_space};
use crate::endpoints::PASSIVE;

/// One more flag of [`AddrInfo`].
const NUMERIC_HOST: c_int = 2;
/// `AF_IB`, which RoCE does not have.
const AF_IB: c_int = 27;

/// A copy of an address, by `malloc`.
///
/// # Safety
/// `length` bytes can be read.
unsafe fn copied(address: *const libc::sockaddr, length: libc::socklen_t) -> *mut libc::sockaddr {
    let length = length as usize;
    // SAFETY: any size will do; the result is checked.
    let copy = unsafe { libc::malloc(length.max(1)) };
    if !copy.is_null() {
        // SAFETY: the caller's; there is room.
        unsafe { ptr::copy_nonoverlapping(address.cast::<c_void>(), copy, length) };
    }
    copy.cast()
}

/// `rdma_getaddrinfo`: 0, or -1 and errno, or an error of `getaddrinfo`.
///
/// # Safety
/// The strings and `hints` are null or can be read; `result` can be written.
pub unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const AddrInfo,
    result: *mut *mut AddrInfo,
) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's.
        let hints = (!hints.is_null()).then(|| unsafe { hints.read() });
        let flags = hints.map_or(0, |hints| hints.flags);
        let has_source = hints.is_some_and(|hints| hints.src_len != 0);
        let has_destination = hints.is_some_and(|hints| hints.dst_len != 0);
        if node.is_null() && service.is_null() && !has_source && !has_destination {
            return fail(libc::EINVAL);
        }
        let family = hints.map_or(0, |hints| hints.family);
        if family == AF_IB {
            return fail(libc::EAFNOSUPPORT);
        }
        // SAFETY: numbers and null pointers.
        let mut asked: libc::addrinfo = unsafe { core::mem::zeroed() };
        asked.ai_family = family;
        asked.ai_socktype = libc::SOCK_STREAM;
        if flags & PASSIVE != 0 {
            asked.ai_flags |= libc::AI_PASSIVE;
        }
        if flags & NUMERIC_HOST != 0 {
            asked.ai_flags |= libc::AI_NUMERICHOST;
        }
        let mut found: *mut libc::addrinfo = ptr::null_mut();
        if !(node.is_null() && service.is_null()) {
            // SAFETY: the caller's.
            let code =
                unsafe { libc::getaddrinfo(node, service, &raw const asked, &raw mut found) };
            if code != 0 {
                return code;
            }
        }
        // SAFETY: what was found can be read.
        let made = unsafe { make(found.as_ref(), hints.as_ref(), flags) };
        if !found.is_null() {
            // SAFETY: it came from `getaddrinfo`.
            unsafe { libc::freeaddrinfo(found) };
        }
        if made.is_null() {
            return fail(libc::ENOMEM);
        }
        // SAFETY: the caller's.
        unsafe { result.write(made) };
        0
    })
}

/// # Safety
/// The addresses in both can be read.
unsafe fn make(
    found: Option<&libc::addrinfo>,
    hints: Option<&AddrInfo>,
    flags: c_int,
) -> *mut AddrInfo {
    let space = hints.map_or(0, |hints| hints.port_space);
    let kind = hints.map_or(0, |hints| hints.qp_type);
    let (space, kind) = match (space, kind) {
        (0, qp_type::UD) => (port_space::UDP, qp_type::UD),
        (0, _) => (port_space::TCP, qp_type::RC),
        (space @ (port_space::UDP | port_space::IPOIB), 0) => (space, qp_type::UD),
        (space, 0) => (space, qp_type::RC),
        given => given,
    };
    let mut info = AddrInfo {
        flags,
        family: 0,
        qp_type: kind,
        port_space: space,
        src_len: 0,
        dst_len: 0,
        src_addr: ptr::null_mut(),
        dst_addr: ptr::null_mut(),
        src_canonname: ptr::null_mut(),
        dst_canonname: ptr::null_mut(),
        route_len: 0,
        route: ptr::null_mut(),
        connect_len: 0,
        connect: ptr::null_mut(),
        next: ptr::null_mut(),
    };
    // SAFETY: the caller's.
    unsafe {
        if let Some(found) = found {
            info.family = found.ai_family;
            let copy = copied(found.ai_addr, found.ai_addrlen);
            match flags & PASSIVE {
                0 => (info.dst_addr, info.dst_len) = (copy, found.ai_addrlen),
                _ => (info.src_addr, info.src_len) = (copy, found.ai_addrlen),
            }
        }
        if let Some(hints) = hints {
            if info.src_len == 0 && hints.src_len != 0 && !hints.src_addr.is_null() {
                info.src_addr = copied(hints.src_addr, hints.src_len);
                info.src_len = hints.src_len;
                info.family = (*hints.src_addr).sa_family.into();
            }
            if info.dst_len == 0 && hints.dst_len != 0 && !hints.dst_addr.is_null() {
                info.dst_addr = copied(hints.dst_addr, hints.dst_len);
                info.dst_len = hints.dst_len;
                info.family = (*hints.dst_addr).sa_family.into();
            }
        }
        // SAFETY: any size will do; the result is checked.
        let made = libc::malloc(size_of::<AddrInfo>()).cast::<AddrInfo>();
        if !made.is_null() {
            made.write(info);
        }
        made
    }
}

/// `rdma_freeaddrinfo`.
///
/// # Safety
/// `info` is null, or came from [`getaddrinfo`] and was not freed.
pub unsafe extern "C" fn freeaddrinfo(info: *mut AddrInfo) {
    let mut at = info;
    while !at.is_null() {
        // SAFETY: the caller's; all of it came from `malloc`.
        unsafe {
            let AddrInfo {
                src_addr,
                dst_addr,
                next,
                ..
            } = at.read();
            libc::free(src_addr.cast());
            libc::free(dst_addr.cast());
            libc::free(at.cast());
            at = next;
        }
    }
}
