//! What is looked up: addresses, devices, names; and options of a vendor, which there are none of.

use core::ffi::{CStr, c_char, c_int};
use core::mem;
use core::ptr;

use e810_rdmacm::abi::{AddrInfo, port_space};
use e810_rdmacm::refused::Ece;
use e810_verbs::abi::constants::qp_type;
use libc::{EAFNOSUPPORT, EINVAL};

use crate::cm::api::Sym;
use crate::cm::engine::{CmEngine, none};
use crate::cm::events::judged;
use crate::cm::world::{own, storage_of};
use crate::run::{errno, rdma};

const PASSIVE: c_int = 1;
const NUMERIC_HOST: c_int = 2;

fn text(name: Option<&CStr>) -> *const c_char {
    name.map_or(ptr::null(), CStr::as_ptr)
}

/// Addresses of names that are numbers.
fn addresses(engine: &mut CmEngine) {
    let draw = &mut engine.run.draw;
    let node = draw.number(&[
        Some(c"10.8.1.1"),
        Some(c"10.8.1.2"),
        Some(c"fd00:8::1"),
        Some(c"127.0.0.1"),
        Some(c"not-an-address"),
        Some(c""),
        None,
    ]);
    let service = draw.number(&[None, Some(c"7000"), Some(c"0"), Some(c"70000000")]);
    // SAFETY: numbers and null pointers.
    let mut hints: AddrInfo = unsafe { mem::zeroed() };
    // No names: nobody is asked.
    hints.flags = NUMERIC_HOST | draw.number(&[0, 0, PASSIVE]);
    hints.family = draw.number(&[0, 0, libc::AF_INET, libc::AF_INET6, 27]);
    hints.port_space = draw.number(&[0, port_space::TCP, port_space::UDP, port_space::IB]);
    hints.qp_type = draw.number(&[0, 0, qp_type::RC, qp_type::UD]);
    let (mut source, length) = storage_of((own(draw.below(2), false), 0).into());
    if draw.once_in(3) {
        (hints.src_addr, hints.src_len) = (source.as_mut_ptr().cast(), length);
    }
    let has_source = hints.src_len != 0;
    let is_given = node.is_some() || service.is_some();
    let mut found: *mut AddrInfo = none();
    let answer = rdma!(
        engine.run,
        getaddrinfo(text(node), text(service), &raw const hints, &raw mut found)
    );
    let number = errno();
    let is_right = match answer {
        0 => !found.is_null() && (is_given || has_source) && hints.family != 27,
        -1 if hints.family == 27 => number == EAFNOSUPPORT || !is_given && !has_source,
        -1 => number == EINVAL && !is_given && !has_source,
        // The C library's own.
        _ => is_given && hints.family != 27,
    };
    engine
        .run
        .about(|| format!("{node:?} {service:?} {hints:?}"));
    if !is_right {
        engine
            .run
            .fail(&format!("rdma_getaddrinfo answers {answer}, {number}"));
    }
    if answer != 0 {
        return;
    }
    engine.run.good(Sym::getaddrinfo);
    // SAFETY: it was found just now.
    let info = unsafe { found.read() };
    let is_datagrams = info.port_space == port_space::UDP;
    let wanted = match (hints.qp_type, hints.port_space) {
        (0, _) if is_datagrams => qp_type::UD,
        (0, _) => qp_type::RC,
        (kind, _) => kind,
    };
    let has_one = match (is_given, hints.flags & PASSIVE != 0) {
        (true, true) => !info.src_addr.is_null(),
        (true, false) => !info.dst_addr.is_null() && has_source != info.src_addr.is_null(),
        (false, _) => !info.src_addr.is_null(),
    };
    if info.qp_type != wanted || info.port_space == 0 || !has_one {
        engine
            .run
            .fail(&format!("rdma_getaddrinfo has found {info:?}"));
    }
    rdma!(engine.run, freeaddrinfo(found));
    engine.run.good(Sym::freeaddrinfo);
}

/// The functions, with or without their number.
fn devices(engine: &mut CmEngine) {
    let mut count: c_int = 77;
    let is_counted = engine.run.draw.once_in(2);
    let place = if is_counted { &raw mut count } else { none() };
    let list = rdma!(engine.run, get_devices(place));
    engine.run.made(Sym::get_devices, list, &[0]);
    // SAFETY: two and a null pointer.
    let found = unsafe { [*list, *list.add(1), *list.add(2)] };
    let [first, second] = engine.ctxs;
    if found != [first, second, none()] || is_counted && count != 2 {
        engine.run.fail(&format!("devices are {found:?}, {count}"));
    }
    rdma!(engine.run, free_devices(list));
    engine.run.good(Sym::free_devices);
}

/// Names of events.
fn names(engine: &mut CmEngine) {
    let event = engine.run.draw.below(20) as c_int - 2;
    let name = rdma!(engine.run, event_str(event));
    // SAFETY: a string of the library.
    let name = unsafe { CStr::from_ptr(name) };
    let is_known = (0..16).contains(&event);
    let is_right = match is_known {
        true => name.to_bytes().starts_with(b"RDMA_CM_EVENT_"),
        false => name == c"UNKNOWN EVENT",
    };
    if !is_right {
        engine.run.fail(&format!("event {event} is {name:?}"));
    }
    if is_known {
        engine.run.good(Sym::event_str);
    }
}

/// Options of a vendor.
fn ece(engine: &mut CmEngine) {
    let Some(at) = engine.world.ids.pick(&mut engine.run.draw, |_| true) else {
        return;
    };
    let ptr = engine.world.ids.get(at).ptr;
    let mut options = Ece::default();
    let answer = rdma!(engine.run, get_remote_ece(ptr, &raw mut options));
    judged(engine, Sym::get_remote_ece, at, answer, &[0]);
    let answer = rdma!(engine.run, get_remote_ece(ptr, none()));
    judged(engine, Sym::get_remote_ece, at, answer, &[EINVAL]);
    let answer = rdma!(engine.run, set_local_ece(ptr, &raw mut options));
    judged(engine, Sym::set_local_ece, at, answer, &[0]);
}

pub(in crate::cm) fn any(engine: &mut CmEngine) {
    match engine.run.draw.below(6) {
        0 | 1 => addresses(engine),
        2 => devices(engine),
        3 | 4 => names(engine),
        _ => ece(engine),
    }
}
