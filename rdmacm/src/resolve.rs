//! Addresses of ids: their own, the peer's, and the way between both.

use core::cell::Cell;
use core::ffi::c_int;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use e810_attach::messages::{QueryPort, Resolve};
use e810_attach::threads::spawn;
use e810_verbs::errno::fail;
use e810_verbs::panics::catch_panics;
use libc::sockaddr;

use crate::abi::{CmId, PathRec, event};
use crate::address;
use crate::calls::done;
use crate::devices::{self, Device, is_itself};
use crate::id::{Id, Phase, space};
use crate::options::Options;

/// The first port of those that a program gets that names none.
const EPHEMERAL: u16 = 32_768;

/// How long one question for a neighbour takes at most.
const ONE_QUESTION: Duration = Duration::from_secs(10);

/// Binds an id to an address.
pub(crate) fn bind(id: &Arc<Id>, local: SocketAddr) -> Result<(), c_int> {
    if id.state().phase != Phase::Idle {
        return Err(libc::EINVAL);
    }
    // The machine itself is the first device.
    let itself = match local.ip().is_loopback() {
        true => Some(devices::towards(local.ip())?),
        false => None,
    };
    let found = match &itself {
        Some((_, own, _)) => SocketAddr::new(own.ip, local.port()),
        None => local,
    };
    let port = match local.port() {
        0 => free_port(id),
        port => {
            check_port(id, found)?;
            port
        }
    };
    if local.ip().is_unspecified() {
        let mut state = id.state();
        id.set_local(&mut state, SocketAddr::new(local.ip(), port));
        state.phase = Phase::Bound;
        return Ok(());
    }
    let (device, own) = match itself {
        Some((device, own, _)) => (device, own),
        None => devices::with(local.ip())?,
    };
    let mut state = id.state();
    id.bind_to(&mut state, &device, own, port);
    state.phase = Phase::Bound;
    Ok(())
}

/// Whether another id of the process is bound to this port, as the kernel's `cma_check_port` has it. Those
/// of other programs are seen when it listens.
///
/// # Errors
/// EADDRINUSE: to this address. EADDRNOTAVAIL: one of the two is for every address.
fn check_port(id: &Arc<Id>, local: SocketAddr) -> Result<(), c_int> {
    let (space, options) = (space(id.seen().ps), id.state().options);
    let only_family = |options: &Options, local: SocketAddr| options.only_family || local.is_ipv4();
    let is_here = Cell::new(false);
    let is_there = |other: &Id| {
        if other.token == id.token || crate::id::space(other.seen().ps) != space {
            return false;
        }
        let state = other.state();
        // Those of accepted connections have the port of their listener.
        let bound = state.local.filter(|_| state.request.is_none());
        let Some(there) = bound.filter(|there| there.port() == local.port()) else {
            return false;
        };
        let both_reuse = options.reuses_address
            && state.options.reuses_address
            && state.phase != Phase::Listening;
        let are_apart = there.is_ipv4() != local.is_ipv4()
            && only_family(&options, local)
            && only_family(&state.options, there);
        let (one, two) = (there.ip(), local.ip());
        let meets_any = one.is_unspecified() || two.is_unspecified();
        let is_taken = !both_reuse && !are_apart && (meets_any || one == two);
        is_here.set(is_here.get() || is_taken && !meets_any);
        is_taken
    };
    match crate::id::all(is_there).is_empty() {
        true => Ok(()),
        false if is_here.get() => Err(libc::EADDRINUSE),
        false => Err(libc::EADDRNOTAVAIL),
    }
}

/// A port that no id of the process has.
fn free_port(id: &Arc<Id>) -> u16 {
    use std::hash::{BuildHasher as _, RandomState};
    let taken: Vec<u16> = crate::id::all(|other| other.token != id.token)
        .iter()
        .filter_map(|other| Some(other.state().local?.port()))
        .collect();
    let range = u16::MAX - EPHEMERAL;
    let first = (RandomState::new().hash_one(id.token) % u64::from(range)) as u16;
    let ports = (0..range).map(|n| EPHEMERAL + (first.wrapping_add(n) % range));
    ports
        .into_iter()
        .find(|port| !taken.contains(port))
        .unwrap_or(EPHEMERAL)
}

/// `rdma_bind_addr`: 0, or -1 and errno.
///
/// # Safety
/// `id` exists, and `address` can be read.
pub unsafe extern "C" fn bind_addr(id: *mut CmId, address: *mut sockaddr) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's.
        let (id, local) = unsafe { (Id::of(id), address::read(address)) };
        let bound = local.ok_or(libc::EINVAL).and_then(|local| bind(&id, local));
        match bound {
            Ok(()) => 0,
            Err(number) => fail(number),
        }
    })
}

/// `rdma_resolve_addr`: 0, or -1 and errno; ADDR_RESOLVED or ADDR_ERROR follows, within `timeout_ms`.
///
/// # Safety
/// `id` exists; `source` is null or can be read, and `destination` can be.
pub unsafe extern "C" fn resolve_addr(
    id: *mut CmId,
    source: *mut sockaddr,
    destination: *mut sockaddr,
    timeout_ms: c_int,
) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's.
        let id = unsafe { Id::of(id) };
        // SAFETY: as above.
        let (from, to) = unsafe { (address::read(source), address::read(destination)) };
        let is_known = source.is_null() || from.is_some();
        let begun = to
            .filter(|_| is_known)
            .ok_or(libc::EINVAL)
            .and_then(|to| begin_resolve(&id, from, to, timeout_ms));
        done(&id, begun)
    })
}

fn begin_resolve(
    id: &Arc<Id>,
    source: Option<SocketAddr>,
    destination: SocketAddr,
    timeout_ms: c_int,
) -> Result<(), c_int> {
    // The kernel takes it for a number without a sign.
    let limit = Duration::from_millis(timeout_ms.cast_unsigned().into());
    let phase = id.state().phase;
    if let (Phase::Idle, Some(source)) = (phase, source) {
        bind(id, source)?;
    }
    let (phase, own, device, local) = {
        let state = id.state();
        (state.phase, state.own, state.device.clone(), state.local)
    };
    if !matches!(phase, Phase::Idle | Phase::Bound) {
        return Err(libc::EINVAL);
    }
    let is_other_family = |ip: IpAddr| ip.is_ipv4() != destination.is_ipv4();
    if local.is_some_and(|local| is_other_family(local.ip())) {
        return Err(libc::EINVAL);
    }
    let (device, own, to) = match (device, own) {
        (Some(device), Some(own)) => {
            let to = match is_itself(destination.ip()) {
                true => own.ip,
                false => destination.ip(),
            };
            (device, own, to)
        }
        _ => devices::towards(destination.ip())?,
    };
    let port = match local {
        Some(local) => local.port(),
        None => free_port(id),
    };
    let remote = SocketAddr::new(to, destination.port());
    {
        let mut state = id.state();
        if local.is_none() {
            // Nobody else gets the port meanwhile.
            id.set_local(&mut state, SocketAddr::new(address::any(&to), port));
        }
        id.set_remote(&mut state, remote);
        state.phase = Phase::Resolving;
    }
    let (asks, control) = (id.clone(), device.control());
    let resolve = move || {
        let deadline = Instant::now() + limit;
        let found = loop {
            // Nobody is asked about a group.
            if to.is_multicast() {
                break Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let asked = Resolve {
                destination: to,
                vlan: own.vlan,
                limit: Some(left.min(ONE_QUESTION).as_millis() as u32),
            };
            match control.ask(asked) {
                Err(refused) if refused.errno == libc::ETIMEDOUT => {
                    let is_over = Instant::now() >= deadline;
                    // Nobody waits for it any more, or not for longer.
                    if is_over || asks.state().is_over {
                        break Err(refused);
                    }
                }
                found => break found.map(drop),
            }
        };
        match found {
            Ok(()) => {
                let mut state = asks.state();
                asks.bind_to(&mut state, &device, own, port);
                state.phase = Phase::Resolved;
                drop(state);
                asks.tell_plainly(event::ADDR_RESOLVED, 0);
            }
            Err(refused) => {
                asks.state().phase = Phase::Bound;
                asks.tell_plainly(event::ADDR_ERROR, -refused.errno);
            }
        }
    };
    let begun = spawn("e810-resolve", resolve);
    begun.map(drop).map_err(|_| {
        id.state().phase = phase;
        libc::EAGAIN
    })
}

/// `rdma_resolve_route`: 0, or -1 and errno; ROUTE_RESOLVED follows.
///
/// # Safety
/// `id` exists.
pub unsafe extern "C" fn resolve_route(id: *mut CmId, _timeout_ms: c_int) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's.
        let id = unsafe { Id::of(id) };
        done(&id, route(&id))
    })
}

fn route(id: &Arc<Id>) -> Result<(), c_int> {
    if id.state().phase != Phase::Resolved {
        return Err(libc::EINVAL);
    }
    let (own, _, remote) = id.ends()?;
    let device = id.device()?;
    let mtu = mtu_of(&device)?;
    let gid = |ip: IpAddr| e810_verbs::abi::state::Gid {
        raw: e810::GidEntry::untagged(ip).gid.0,
    };
    let mut state = id.state();
    let path = PathRec {
        dgid: gid(remote.ip()),
        sgid: gid(own.ip),
        hop_limit: 64,
        traffic_class: state.options.tos,
        reversible: 1,
        numb_path: 1,
        pkey: 0xFFFF_u16.to_be(),
        // Exactly.
        mtu_selector: 2,
        mtu,
        packet_life_time_selector: 2,
        packet_life_time: 16,
        ..PathRec::default()
    };
    id.show_path(&mut state, path);
    state.phase = Phase::Routed;
    drop(state);
    id.tell_plainly(event::ROUTE_RESOLVED, 0);
    Ok(())
}

/// The path MTU of a device's port, as `enum ibv_mtu`.
fn mtu_of(device: &Device) -> Result<u8, c_int> {
    let port = device.control().ask(QueryPort { port: 1 });
    let port = port.map_err(|refused| refused.errno)?;
    Ok(port.active_mtu.map_or(1, e810::Mtu::code))
}
