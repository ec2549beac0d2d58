//! The ways to addresses.

use core::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use e810_rdmacm::abi::port_space;
use libc::{EADDRINUSE, EADDRNOTAVAIL, EINVAL};

use super::ids;
use crate::cm::api::Sym;
use crate::cm::engine::{CmEngine, none};
use crate::cm::events::{judged, take_blocking};
use crate::cm::world::{LiveId, Phase, address_of, own, storage_of};
use crate::run::rdma;

/// Milliseconds, without a sign.
const LIMITS: &[c_int] = &[2000, 0, 1, -1, c_int::MAX];

/// Somebody who listens, as seen from outside; or an address at which nobody does, or that nobody has.
fn target(engine: &mut CmEngine, at: usize) -> SocketAddr {
    let ports = engine.world.ids.get(at).space;
    let listens = |id: &LiveId| id.phase == Phase::Listening && id.space == ports;
    let listener = engine.world.ids.pick(&mut engine.run.draw, listens);
    let local = listener.and_then(|listener| engine.world.ids.get(listener).local);
    let no_port = engine.no_port();
    let draw = &mut engine.run.draw;
    let is_v6 = draw.once_in(4);
    let other = own(draw.below(2), is_v6);
    if let (Some(local), false) = (local, draw.once_in(8)) {
        let ip = match local.ip() {
            _ if draw.once_in(20) => other,
            ip if ip.is_unspecified() && ip.is_ipv4() => match draw.below(6) {
                0 => Ipv4Addr::LOCALHOST.into(),
                1 => Ipv4Addr::UNSPECIFIED.into(),
                _ => own(draw.below(2), false),
            },
            ip if ip.is_unspecified() => match draw.below(6) {
                0 => Ipv6Addr::LOCALHOST.into(),
                1 => Ipv6Addr::UNSPECIFIED.into(),
                _ => other,
            },
            ip => ip,
        };
        return SocketAddr::new(ip, local.port());
    }
    let ip = match draw.below(100) {
        // Nobody has it, and the question for it takes seconds.
        0 => IpAddr::from([10, 8, 1, 77]),
        _ => other,
    };
    SocketAddr::new(ip, no_port)
}

/// Resolves an address from where an id is.
pub(in crate::cm) fn address(engine: &mut CmEngine, at: usize) {
    let id = engine.world.ids.get(at).clone();
    let to = target(engine, at);
    if engine.run.draw.once_in(20) {
        return wrong(engine, at, to);
    }
    // From an own address, from none, or from a foreign one.
    let source = match engine.run.draw.below(8) {
        0..5 => Some(SocketAddr::new(
            own(engine.run.draw.below(2), to.is_ipv6()),
            0,
        )),
        5 => Some(SocketAddr::new([10, 9, 9, 9].into(), 0)),
        _ => None,
    };
    let is_bound = id.phase == Phase::Bound;
    let source_ip = match (is_bound, source) {
        (true, _) => id.local.map(|local| local.ip()),
        (false, source) => source.map(|source| source.ip()),
    };
    let is_other_family = source_ip.is_some_and(|ip| ip.is_ipv4() != to.is_ipv4());
    let is_foreign =
        !is_bound && source.is_some_and(|source| source.ip() == IpAddr::from([10, 9, 9, 9]));
    let allowed: &[c_int] = match id.phase {
        Phase::Idle if is_foreign => &[EADDRNOTAVAIL],
        Phase::Idle | Phase::Bound if is_other_family => &[EINVAL],
        Phase::Idle | Phase::Bound => &[0],
        _ => &[EINVAL, EADDRINUSE],
    };
    let (mut from, _) = source.map_or(([0; 16], 0), storage_of);
    let from = match source {
        Some(_) => from.as_mut_ptr().cast(),
        None => none(),
    };
    let (mut storage, _) = storage_of(to);
    let limit = engine.run.draw.number(LIMITS);
    engine
        .run
        .about(|| format!("id {at} from {source:?} to {to}"));
    let answer = rdma!(
        engine.run,
        resolve_addr(id.ptr, from, storage.as_mut_ptr().cast(), limit)
    );
    let is_done = judged(engine, Sym::resolve_addr, at, answer, allowed);
    let id = engine.world.ids.get_mut(at);
    if is_done {
        id.phase = Phase::Resolving;
        id.is_lost = to.ip() == IpAddr::from([10, 8, 1, 77]);
        id.is_hasty = (0..=2000).contains(&limit);
    } else if id.phase == Phase::Idle {
        // It may be bound now.
        id.local = address_of(&id.shown().route.addr.src);
        if id.local.is_some() {
            id.phase = Phase::Bound;
        }
    }
}

/// Asks for an address that nobody has.
pub(in crate::cm) fn nobody(engine: &mut CmEngine) {
    let at = ids::create(engine, port_space::TCP);
    let (mut storage, _) = storage_of(([10, 8, 1, 77], 7000).into());
    let ptr = engine.world.ids.get(at).ptr;
    let place = storage.as_mut_ptr().cast();
    let answer = rdma!(engine.run, resolve_addr(ptr, none(), place, 1000));
    judged(engine, Sym::resolve_addr, at, answer, &[0]);
    let id = engine.world.ids.get_mut(at);
    (id.phase, id.is_lost, id.is_hasty) = (Phase::Resolving, true, true);
}

/// Addresses that are none.
fn wrong(engine: &mut CmEngine, at: usize, to: SocketAddr) {
    let ptr = engine.world.ids.get(at).ptr;
    let (mut right, _) = storage_of(to);
    let mut wrong = [u64::from(engine.run.draw.number::<u16>(&[0, 1, 27, 99])); 16];
    let [from, to] = match engine.run.draw.below(3) {
        0 => [none(), wrong.as_mut_ptr()],
        1 => [none(), none()],
        _ => [wrong.as_mut_ptr(), right.as_mut_ptr()],
    };
    let answer = rdma!(engine.run, resolve_addr(ptr, from.cast(), to.cast(), 100));
    judged(engine, Sym::resolve_addr, at, answer, &[EINVAL]);
}

/// Resolves the route of an id that has an address.
pub(in crate::cm) fn route(engine: &mut CmEngine, at: usize) {
    let id = engine.world.ids.get(at).clone();
    let allowed: &[c_int] = match id.phase {
        Phase::Resolved => &[0],
        _ => &[EINVAL],
    };
    let limit = engine.run.draw.number(LIMITS);
    let answer = rdma!(engine.run, resolve_route(id.ptr, limit));
    if judged(engine, Sym::resolve_route, at, answer, allowed) {
        engine.world.ids.get_mut(at).phase = Phase::Routing;
        if engine.run.draw.once_in(6) {
            // Something comes: a call may wait for it.
            take_blocking(engine, id.channel);
        }
    }
}

/// Either, of any id whose phase does not change by itself.
pub(in crate::cm) fn any(engine: &mut CmEngine) {
    let wanted = |id: &LiveId| id.phase != Phase::Resolving;
    let Some(at) = engine.world.ids.pick(&mut engine.run.draw, wanted) else {
        return;
    };
    match engine.run.draw.once_in(2) {
        true => address(engine, at),
        false => route(engine, at),
    }
}
