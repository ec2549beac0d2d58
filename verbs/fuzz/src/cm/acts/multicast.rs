//! Groups.

use core::ffi::c_int;
use std::net::{IpAddr, SocketAddr};

use e810_rdmacm::abi::{JoinMcAttr, port_space};
use libc::{EADDRNOTAVAIL, EINVAL, EOPNOTSUPP};

use super::{ids, queue_pairs};
use crate::cm::api::Sym;
use crate::cm::engine::{CmEngine, none};
use crate::cm::events::judged;
use crate::cm::world::{Group, LiveId, Phase, own, storage_of};
use crate::run::rdma;

/// Groups that an id is in at a time.
const MOST: usize = 3;

fn group(engine: &mut CmEngine, is_v6: bool) -> SocketAddr {
    let last = engine.run.draw.below(4) as u8;
    let ip = match is_v6 {
        false => IpAddr::from([239, 1, 2, last]),
        true => IpAddr::from([0xFF0E, 0, 0, 0, 0, 0, 0, u16::from(last)]),
    };
    SocketAddr::new(ip, 0)
}

/// A queue pair that is in a group for a while: what the driver has for groups from the first one on, it
/// keeps.
pub(in crate::cm) fn in_and_out(engine: &mut CmEngine, device: usize) {
    let at = ids::create(engine, port_space::UDP);
    ids::bind_to(engine, at, (own(device, false), 0).into(), &[0]);
    queue_pairs::create(engine, at, true);
    while engine.world.ids.get(at).groups.is_empty() {
        join(engine, at);
    }
    while !engine
        .world
        .ids
        .get(at)
        .groups
        .iter()
        .all(|group| group.is_told)
    {
        crate::cm::events::pump(engine, 1);
    }
    ids::destroy(engine, at);
}

/// Joins a group, or what is none.
fn join(engine: &mut CmEngine, at: usize) {
    let id = engine.world.ids.get(at).clone();
    let is_v6 = engine.run.draw.once_in(4);
    let is_none = engine.run.draw.once_in(8);
    let address = match is_none {
        true => SocketAddr::new([192, 0, 2, 1].into(), 0),
        false => group(engine, is_v6),
    };
    let own = id.local.filter(|_| !id.shown().verbs.is_null());
    let is_possible = id.is_datagrams()
        && !is_none
        && matches!(id.phase, Phase::Bound | Phase::Resolved)
        && own.is_some_and(|own| own.is_ipv4() == address.is_ipv4());
    // Twice the same is two groups to the id, and one to its queue pair.
    let is_known = id.groups.iter().any(|group| group.address == address);
    if is_possible && (is_known || id.groups.len() >= MOST) {
        return;
    }
    let allowed: &[c_int] = if is_possible { &[0] } else { &[EINVAL] };
    let (mut storage, _) = storage_of(address);
    let word = engine.number() as usize;
    let place = storage.as_mut_ptr().cast();
    let symbol = match engine.run.draw.once_in(2) {
        true => Sym::join_multicast_ex,
        false => Sym::join_multicast,
    };
    let answer = match symbol {
        Sym::join_multicast_ex => {
            let kind = engine.run.draw.below(8);
            let (comp_mask, join_flags, only): (u32, u32, Option<c_int>) = match kind {
                0 => (3, 1, Some(EOPNOTSUPP)),
                1 => (2, 0, Some(EINVAL)),
                2 => (7, 0, Some(EINVAL)),
                3 => (1, 77, None),
                _ => (3, 0, None),
            };
            let mut attr = JoinMcAttr {
                comp_mask,
                join_flags,
                addr: place,
            };
            let answer = rdma!(
                engine.run,
                join_multicast_ex(id.ptr, &raw mut attr, word as *mut _)
            );
            if let Some(only) = only {
                judged(engine, symbol, at, answer, &[only]);
                return;
            }
            answer
        }
        _ => rdma!(engine.run, join_multicast(id.ptr, place, word as *mut _)),
    };
    if judged(engine, symbol, at, answer, allowed) {
        engine.world.ids.get_mut(at).groups.push(Group {
            address,
            word,
            is_told: false,
        });
    }
}

/// Leaves the group with a place.
fn leave(engine: &mut CmEngine, at: usize, nth: usize) {
    let group = engine.world.ids.get_mut(at).groups.swap_remove(nth);
    let (mut storage, _) = storage_of(group.address);
    let ptr = engine.world.ids.get(at).ptr;
    let answer = rdma!(
        engine.run,
        leave_multicast(ptr, storage.as_mut_ptr().cast())
    );
    judged(engine, Sym::leave_multicast, at, answer, &[0]);
}

/// Leaves all groups. Events of them are acknowledged: they belong to the id.
pub(in crate::cm) fn leave_all(engine: &mut CmEngine, at: usize) {
    if !engine.world.ids.get(at).groups.is_empty() {
        crate::cm::events::acknowledge_all(engine, at);
    }
    while !engine.world.ids.get(at).groups.is_empty() {
        leave(engine, at, 0);
    }
}

/// Joins or leaves.
pub(in crate::cm) fn any(engine: &mut CmEngine) {
    let draw = &mut engine.run.draw;
    // Its address comes at a time that is not known.
    let wanted = |id: &LiveId| id.phase != Phase::Resolving;
    let of_groups = |id: &LiveId| wanted(id) && id.is_datagrams();
    let at = match draw.once_in(4) {
        true => engine.world.ids.pick(draw, wanted),
        false => engine.world.ids.pick(draw, of_groups),
    };
    let Some(at) = at else {
        return;
    };
    let count = engine.world.ids.get(at).groups.len();
    if !engine.run.draw.once_in(3) {
        return join(engine, at);
    }
    if count > 0 {
        crate::cm::events::acknowledge_all(engine, at);
        let nth = engine.run.draw.below(count);
        return leave(engine, at, nth);
    }
    let address = group(engine, false);
    let (mut storage, _) = storage_of(address);
    let place = match engine.run.draw.once_in(4) {
        true => none(),
        false => storage.as_mut_ptr().cast(),
    };
    let ptr = engine.world.ids.get(at).ptr;
    let answer = rdma!(engine.run, leave_multicast(ptr, place));
    judged(
        engine,
        Sym::leave_multicast,
        at,
        answer,
        &[EADDRNOTAVAIL, EINVAL],
    );
}
