//! Addresses of ids: their own, the peer's, and the way between both.

use core::cell::{Cell, RefCell};
use core::ffi::c_int;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use e810_attach::messages::{Limit, QueryPort, Resolve};
use e810_attach::threads::spawn;
use e810_verbs::errno::fail;
use e810_verbs::fork::PerProcess;
use e810_verbs::panics::catch_panics;
use libc::sockaddr;

use crate::abi::{CmId, PathRec, event, port_space};
use crate::address;
use crate::calls::done;
use crate::devices::{self, Device, is_itself};
use crate::id::{Id, Phase, space};

/// The first port of those that a program gets that names none.
const EPHEMERAL: u16 = 32_768;

/// How long one question for a neighbour takes at most: an id that was destroyed asks no further one.
const ONE_QUESTION: Duration = Duration::from_secs(1);
/// How long one that was refused for want of room waits.
const AGAIN: Duration = Duration::from_millis(50);

/// Binds an id to an address.
pub(crate) fn bind(id: &Arc<Id>, local: SocketAddr) -> Result<(), c_int> {
    if id.state().phase != Phase::Idle {
        return Err(libc::EINVAL);
    }
    let source = match local.ip() {
        ip if ip.is_unspecified() => None,
        // The machine itself is the first device.
        ip if ip.is_loopback() => devices::towards(ip)?.0.pop(),
        ip => Some(devices::with(ip)?),
    };
    if source.is_some() && is_for_infiniband(id) {
        return Err(libc::EINVAL);
    }
    let ip = source.as_ref().map_or(local.ip(), |(_, own)| own.ip);
    let reuses = id.state().options.reuses_address;
    let _ports = ports();
    let port = match local.port() {
        0 => free_port(id)?,
        port => {
            check_port(id, SocketAddr::new(ip, port), reuses)?;
            port
        }
    };
    let mut state = id.state();
    if state.phase != Phase::Idle {
        return Err(libc::EINVAL);
    }
    match &source {
        Some((device, own)) => id.bind_to(&mut state, device, *own, port),
        None => id.set_local(&mut state, SocketAddr::new(ip, port)),
    }
    state.has_any_port = local.port() == 0;
    state.phase = Phase::Bound;
    Ok(())
}

/// Port space IPOIB: as in the kernel, its ids get no device of another kind.
fn is_for_infiniband(id: &Id) -> bool {
    id.seen().ps == port_space::IPOIB
}

/// Held from the check of a port until an id has it.
pub(crate) fn ports() -> MutexGuard<'static, ()> {
    static PORTS: PerProcess<Mutex<()>> = PerProcess::new();
    let ports = PORTS.get_or_init(Mutex::default);
    ports.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether another id of the process is bound to this port, as the kernel's `cma_check_port` has it. Those
/// of other programs are seen when it listens.
///
/// # Errors
/// EADDRINUSE: to this address. EADDRNOTAVAIL: one of the two is for every address.
pub(crate) fn check_port(id: &Arc<Id>, local: SocketAddr, reuses: bool) -> Result<(), c_int> {
    let (space, options) = (space(id.seen().ps), id.state().options);
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
        let both_reuse = reuses && state.options.reuses_address && state.phase != Phase::Listening;
        let are_apart = there.is_ipv4() != local.is_ipv4()
            && options.is_of_family(local)
            && state.options.is_of_family(there);
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
///
/// # Errors
/// EADDRNOTAVAIL: all are taken.
pub(crate) fn free_port(id: &Arc<Id>) -> Result<u16, c_int> {
    use std::hash::{BuildHasher as _, RandomState};
    let taken = RefCell::new(vec![false; usize::from(u16::MAX) + 1]);
    let _ = crate::id::all(|other| {
        let local = other.state().local.filter(|_| other.token != id.token);
        let port = local.map_or(0, |local| local.port());
        if let Some(taken) = taken.borrow_mut().get_mut(usize::from(port)) {
            *taken = true;
        }
        false
    });
    let taken = taken.into_inner();
    let range = u16::MAX - EPHEMERAL;
    let first = (RandomState::new().hash_one(id.token) % u64::from(range)) as u16;
    let mut ports = (0..range).map(|n| EPHEMERAL + (first.wrapping_add(n) % range));
    let free = ports.find(|port| taken.get(usize::from(*port)) == Some(&false));
    free.ok_or(libc::EADDRNOTAVAIL)
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
pub unsafe extern "C-unwind" fn resolve_addr(
    id: *mut CmId,
    source: *mut sockaddr,
    destination: *mut sockaddr,
    timeout_ms: c_int,
) -> c_int {
    let begun = catch_panics(Err(libc::EIO), || {
        // SAFETY: the caller's.
        let id = unsafe { Id::of(id) };
        // SAFETY: as above.
        let (from, to) = unsafe { (address::read(source), address::read(destination)) };
        let is_known = source.is_null() || from.is_some();
        let to = to.filter(|_| is_known).ok_or(libc::EINVAL)?;
        begin_resolve(&id, from, to, timeout_ms)
    });
    // SAFETY: the caller's.
    unsafe { done(id, begun) }
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
    let before = id.step(&[Phase::Idle, Phase::Bound], Phase::Resolving)?;
    let begun = resolve(id, destination, limit);
    if begun.is_err() {
        let _ = id.step(&[Phase::Resolving], before);
    }
    begun
}

fn resolve(id: &Arc<Id>, destination: SocketAddr, limit: Duration) -> Result<(), c_int> {
    let (own, device, local) = {
        let state = id.state();
        (state.own, state.device.clone(), state.local)
    };
    let is_other_family = |ip: IpAddr| ip.is_ipv4() != destination.is_ipv4();
    if local.is_some_and(|local| is_other_family(local.ip())) {
        return Err(libc::EINVAL);
    }
    let (sources, to) = match (device, own) {
        (Some(device), Some(own)) => {
            let to = match is_itself(destination.ip()) {
                true => own.ip,
                false => destination.ip(),
            };
            (vec![(device, own)], to)
        }
        _ => devices::towards(destination.ip())?,
    };
    let port = {
        let _ports = ports();
        let port = local.map_or_else(|| free_port(id), |local| Ok(local.port()))?;
        let mut state = id.state();
        if local.is_none() {
            // Nobody else gets the port meanwhile.
            id.set_local(&mut state, SocketAddr::new(address::any(&to), port));
        }
        id.set_remote(&mut state, SocketAddr::new(to, destination.port()));
        port
    };
    let asks = id.clone();
    let ask = move || {
        let deadline = Instant::now() + limit;
        let mut found = Err(libc::ENETUNREACH);
        for (device, own) in sources {
            // Nobody is asked about a group.
            found = match to.is_multicast() {
                _ if is_for_infiniband(&asks) => Err(libc::EINVAL),
                true => Ok(()),
                false => ask(&asks, &device, (to, own.vlan), deadline),
            };
            match found {
                Ok(()) => asks.bind_to(&mut asks.state(), &device, own, port),
                // Another function may have a way.
                Err(libc::ENETUNREACH) => continue,
                Err(_) => {}
            }
            break;
        }
        let (phase, event, status) = match found {
            Ok(()) => (Phase::Resolved, event::ADDR_RESOLVED, 0),
            Err(number) => (Phase::Bound, event::ADDR_ERROR, -number),
        };
        asks.state().phase = phase;
        asks.tell_plainly(event, status);
    };
    let begun = spawn("e810-resolve", ask);
    begun.map(drop).map_err(|_| libc::EAGAIN)
}

/// Asks until somebody answers, nobody waits for it any more, or until the deadline.
///
/// # Errors
/// The number for `errno`.
fn ask(
    id: &Id,
    device: &Device,
    (destination, vlan): (IpAddr, Option<u16>),
    deadline: Instant,
) -> Result<(), c_int> {
    let control = device.control();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let asked = control.ask(Resolve {
            destination,
            vlan,
            limit: Some(left.min(ONE_QUESTION).as_millis() as u32),
        });
        let Err(refused) = asked else {
            return Ok(());
        };
        // The program has asked for as many peers as its server lets it: others are answered first.
        let has_too_many = matches!(refused.limit, Some(Limit::OfServer(_)));
        if !has_too_many && refused.errno != libc::ETIMEDOUT {
            return Err(refused.errno);
        }
        if Instant::now() >= deadline || id.state().is_over {
            return Err(libc::ETIMEDOUT);
        }
        if has_too_many {
            thread::sleep(AGAIN);
        }
    }
}

/// `rdma_resolve_route`: 0, or -1 and errno; ROUTE_RESOLVED follows.
///
/// # Safety
/// `id` exists.
pub unsafe extern "C-unwind" fn resolve_route(id: *mut CmId, _timeout_ms: c_int) -> c_int {
    // SAFETY: the caller's.
    let asked = catch_panics(Err(libc::EIO), || route(&unsafe { Id::of(id) }));
    // SAFETY: as above.
    unsafe { done(id, asked) }
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
    id.step(&[Phase::Resolved], Phase::Routed)?;
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
