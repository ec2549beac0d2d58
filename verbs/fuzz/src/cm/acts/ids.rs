//! Ids: made, bound, listening, with options, and destroyed.

use core::ffi::{c_int, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::thread;

use e810_rdmacm::abi::{CmId, port_space};
use libc::{EADDRINUSE, EADDRNOTAVAIL, EINVAL, ENOMEM, ENOSYS};

use super::{multicast, queue_pairs};
use crate::cm::api::Sym;
use crate::cm::engine::{CmEngine, none};
use crate::cm::events::{acknowledge_all, judged};
use crate::cm::world::{LiveId, Phase, address_of, own, storage_of};
use crate::run::rdma;

/// Makes an id in a channel.
pub(in crate::cm) fn create(engine: &mut CmEngine, space: c_int) -> usize {
    let channel = engine.world.channels.pick(&mut engine.run.draw, |_| true);
    let channel = channel.expect("a channel");
    let word = engine.number() as usize;
    let mut ptr: *mut CmId = none();
    let of = engine.world.channels.get(channel).ptr;
    let answer = rdma!(
        engine.run,
        create_id(of, &raw mut ptr, word as *mut c_void, space)
    );
    engine.run.minus(Sym::create_id, answer, &[0]);
    let at = engine.world.ids.add(LiveId {
        ptr,
        channel,
        space,
        word,
        phase: Phase::Idle,
        local: None,
        conn: None,
        side: 0,
        hand: None,
        is_stopped: false,
        seen: 0,
        held: 0,
        reuses: false,
        is_lost: false,
        is_hasty: false,
        to: None,
        groups: Vec::new(),
    });
    let shown = engine.world.ids.get(at).shown();
    let is_new = shown.verbs.is_null() && shown.qp.is_null() && shown.pd.is_null();
    if !is_new || (shown.channel, shown.context.addr(), shown.ps) != (of, word, space) {
        engine.wrong(at, &format!("a new id is {shown:?}"));
    }
    at
}

/// One that is made to ask somebody; or none, of a port space that is none.
pub(in crate::cm) fn create_any(engine: &mut CmEngine) {
    if !engine.run.draw.once_in(20) {
        let space = engine.space();
        create(engine, space);
        return;
    }
    let space = engine.run.draw.number(&[0, 1, 0x0107, -1, c_int::MAX]);
    let mut ptr: *mut CmId = none();
    let channel = engine.world.channels.iter().next();
    let channel = channel.map_or(none(), |(_, channel)| channel.ptr);
    let answer = rdma!(engine.run, create_id(channel, &raw mut ptr, none(), space));
    engine.run.minus(Sym::create_id, answer, &[EINVAL]);
}

/// An own address, any address, or the machine itself.
fn address(engine: &mut CmEngine) -> IpAddr {
    let draw = &mut engine.run.draw;
    let is_v6 = draw.once_in(4);
    match draw.below(8) {
        0 if is_v6 => Ipv6Addr::LOCALHOST.into(),
        0 => Ipv4Addr::LOCALHOST.into(),
        1 | 2 if is_v6 => Ipv6Addr::UNSPECIFIED.into(),
        1 | 2 => Ipv4Addr::UNSPECIFIED.into(),
        _ => own(draw.below(2), is_v6),
    }
}

/// Whether another id has the port, as far as this one cannot have it.
fn is_taken(engine: &CmEngine, at: usize, local: SocketAddr, of_family: bool) -> bool {
    let this = engine.world.ids.get(at);
    let mut others = engine.world.ids.iter();
    others.any(|(other, id)| {
        let Some(there) = id.local.filter(|_| other != at && id.side == 0) else {
            return false;
        };
        let meets =
            there.ip() == local.ip() || there.ip().is_unspecified() || local.ip().is_unspecified();
        let both = this.reuses && id.reuses && id.phase != Phase::Listening;
        let is_same_family = there.is_ipv4() == local.is_ipv4();
        id.space == this.space
            && there.port() == local.port()
            && meets
            && !both
            && (is_same_family || !of_family)
    })
}

/// Gives an id an address that is right, or not.
pub(in crate::cm) fn bind(engine: &mut CmEngine, at: usize) {
    let is_idle = engine.world.ids.get(at).phase == Phase::Idle;
    if engine.run.draw.once_in(15) {
        let mut storage = [u64::from(engine.run.draw.number::<u16>(&[0, 1, 27, 99])); 16];
        let address = match engine.run.draw.once_in(4) {
            true => none(),
            false => storage.as_mut_ptr().cast(),
        };
        let ptr = engine.world.ids.get(at).ptr;
        let answer = rdma!(engine.run, bind_addr(ptr, address));
        judged(engine, Sym::bind_addr, at, answer, &[EINVAL]);
        return;
    }
    let is_foreign = engine.run.draw.once_in(12);
    let ip = match is_foreign {
        true => IpAddr::from([10, 9, 9, 9]),
        false => address(engine),
    };
    let port = match engine.run.draw.once_in(3) {
        true => 0,
        false => engine.port(),
    };
    let local = SocketAddr::new(ip, port);
    let found = match ip.is_loopback() {
        true => SocketAddr::new(own(0, ip.is_ipv6()), port),
        false => local,
    };
    // One of the other family may be there, if both are for their own alone.
    let [is_taken, is_met] =
        [true, false].map(|of_family| port != 0 && is_taken(engine, at, found, of_family));
    // One that resolves gets a narrower address, before it is told.
    let mut others = engine.world.ids.iter();
    let may_be_free = others.any(|(_, id)| {
        id.phase == Phase::Resolving && id.local.is_some_and(|local| local.port() == port)
    });
    drop(others);
    let allowed: &[c_int] = match (is_idle, is_taken, is_foreign) {
        (true, true, false) if may_be_free => &[0, EADDRINUSE, EADDRNOTAVAIL],
        (false, ..) => &[EINVAL],
        (_, true, _) => &[EADDRINUSE, EADDRNOTAVAIL],
        (_, false, false) if is_met => &[0, EADDRNOTAVAIL],
        (_, _, true) => &[EADDRNOTAVAIL],
        _ => &[0],
    };
    bind_to(engine, at, local, allowed);
}

/// Gives it this address.
pub(in crate::cm) fn bind_to(
    engine: &mut CmEngine,
    at: usize,
    local: SocketAddr,
    allowed: &[c_int],
) {
    let (ip, port) = (local.ip(), local.port());
    let found = match ip.is_loopback() {
        true => own(0, ip.is_ipv6()),
        false => ip,
    };
    let (mut storage, _) = storage_of(local);
    let ptr = engine.world.ids.get(at).ptr;
    engine.run.about(|| format!("id {at} to {local}"));
    let answer = rdma!(engine.run, bind_addr(ptr, storage.as_mut_ptr().cast()));
    if !judged(engine, Sym::bind_addr, at, answer, allowed) {
        return;
    }
    let shown = engine.world.ids.get(at).shown();
    let has_device = !shown.verbs.is_null();
    let got = address_of(&shown.route.addr.src);
    let is_right = got.is_some_and(|got| {
        got.ip() == found && got.port() != 0 && (port == 0 || got.port() == port)
    });
    if !is_right || has_device == ip.is_unspecified() {
        engine.wrong(at, &format!("bound to {local} it has {got:?}"));
    }
    let id = engine.world.ids.get_mut(at);
    (id.phase, id.local) = (Phase::Bound, got);
}

/// Any id.
pub(in crate::cm) fn bind_any(engine: &mut CmEngine) {
    if let Some(at) = engine.world.ids.pick(&mut engine.run.draw, |_| true) {
        bind(engine, at);
    }
}

/// Whether one may not listen beside another.
fn meets(one: SocketAddr, two: SocketAddr) -> bool {
    let meets = one.ip() == two.ip() || one.ip().is_unspecified() || two.ip().is_unspecified();
    one.port() == two.port() && meets
}

/// Lets an id take requests, or not.
fn listen(engine: &mut CmEngine, at: usize) {
    let id = engine.world.ids.get(at).clone();
    let may_be_taken = id.local.is_some_and(|local| {
        engine.world.ids.iter().any(|(other, known)| {
            let is_there = known.side == 0 && known.space == id.space;
            other != at && is_there && known.local.is_some_and(|there| meets(there, local))
        })
    });
    let allowed: &[c_int] = match id.phase {
        Phase::Idle => &[0],
        // It has an address only if it was bound.
        Phase::Bound if id.local.is_none() => &[0, EINVAL],
        Phase::Bound if may_be_taken => &[0, EADDRINUSE, EADDRNOTAVAIL],
        Phase::Bound => &[0, ENOMEM],
        _ => &[EINVAL],
    };
    let backlog = engine.run.draw.number(&[0, 1, 2, 16, -1, c_int::MAX]);
    let answer = rdma!(engine.run, listen(id.ptr, backlog));
    if !judged(engine, Sym::listen, at, answer, allowed) {
        return;
    }
    let id = engine.world.ids.get_mut(at);
    id.local = address_of(&id.shown().route.addr.src);
    id.phase = Phase::Listening;
    if id.local.is_none_or(|local| local.port() == 0) {
        engine.wrong(at, "it listens at no port");
    }
}

/// Any id.
pub(in crate::cm) fn listen_any(engine: &mut CmEngine) {
    let wanted = |id: &LiveId| !matches!(id.phase, Phase::Resolving);
    if let Some(at) = engine.world.ids.pick(&mut engine.run.draw, wanted) {
        listen(engine, at);
    }
}

/// Makes a listener; its port may be somebody's.
pub(in crate::cm) fn listener(engine: &mut CmEngine, space: c_int) {
    let at = create(engine, space);
    if engine.run.draw.once_in(6) {
        return listen(engine, at);
    }
    bind(engine, at);
    if engine.world.ids.get(at).phase == Phase::Bound {
        listen(engine, at);
    }
}

/// Sets an option of an id.
pub(in crate::cm) fn option(engine: &mut CmEngine) {
    let Some(at) = engine.world.ids.pick(&mut engine.run.draw, |_| true) else {
        return;
    };
    let id = engine.world.ids.get(at).clone();
    // Its phase may change meanwhile.
    if matches!(id.phase, Phase::Resolving) {
        return;
    }
    let draw = &mut engine.run.draw;
    let level = draw.number(&[0, 0, 0, 0, 1, 99]);
    let name = draw.number(&[0, 1, 2, 3, 3, 4, -1]);
    let length = draw.number(&[1_usize, 4, 1, 4, 0, 8, 2]);
    let mut value = draw.number(&[0_u64, 1, 16, 14, 32, 255]);
    let is_null = draw.once_in(20);
    let is_early = matches!(id.phase, Phase::Idle | Phase::Bound);
    // Taken back only before there is an address.
    let may_reuse = value != 0 && id.phase != Phase::Listening;
    let allowed: &[c_int] = match (level, name, length) {
        (0, 3, _) if id.is_datagrams() => &[EINVAL],
        (0, 0 | 3, 1) if !is_null => &[0],
        (0, 1, 4) if !is_null && (may_reuse || value == 0 && id.phase == Phase::Idle) => &[0],
        (0, 2, 4) if is_early && !is_null => &[0],
        (0, 0..=3, _) => &[EINVAL],
        _ if is_null => &[EINVAL, ENOSYS],
        _ => &[ENOSYS],
    };
    let place: *mut c_void = match is_null {
        true => none(),
        false => (&raw mut value).cast(),
    };
    let answer = rdma!(engine.run, set_option(id.ptr, level, name, place, length));
    if judged(engine, Sym::set_option, at, answer, allowed) && name == 1 {
        engine.world.ids.get_mut(at).reuses = value != 0;
    }
}

/// Its ports are those that it shows.
pub(in crate::cm) fn ports(engine: &mut CmEngine) {
    let Some(at) = engine.world.ids.pick(&mut engine.run.draw, |_| true) else {
        return;
    };
    let id = engine.world.ids.get(at).clone();
    let own = u16::from_be(rdma!(engine.run, get_src_port(id.ptr)));
    let peers = u16::from_be(rdma!(engine.run, get_dst_port(id.ptr)));
    engine.run.good(Sym::get_src_port);
    engine.run.good(Sym::get_dst_port);
    let route = id.shown().route.addr;
    let port = |storage| address_of(storage).map_or(0, |address| address.port());
    let shown = [port(&route.src), port(&route.dst)];
    if id.phase != Phase::Resolving && shown != [own, peers] {
        engine.wrong(at, &format!("ports {own} and {peers}, and shown {shown:?}"));
    }
}

/// Any id; mostly one that is of no use any more.
pub(in crate::cm) fn destroy_any(engine: &mut CmEngine) {
    let draw = &mut engine.run.draw;
    let is_over = |id: &LiveId| matches!(id.phase, Phase::Over | Phase::Ended);
    let at = match draw.once_in(3) {
        true => engine.world.ids.pick(draw, |_| true),
        false => engine.world.ids.pick(draw, is_over),
    };
    let at = at.or_else(|| engine.world.ids.pick(&mut engine.run.draw, |_| true));
    if let Some(at) = at {
        destroy(engine, at);
    }
}

/// Destroys an id; its queue pair before it, or later.
pub(in crate::cm) fn destroy(engine: &mut CmEngine, at: usize) {
    multicast::leave_all(engine, at);
    let is_first = engine.run.draw.once_in(4);
    queue_pairs::put_away(engine, at, is_first);
    let id = engine.world.ids.get(at).clone();
    ends(engine, at);
    if id.held > 0 && engine.run.draw.once_in(8) {
        destroy_and_acknowledge(engine, at);
    } else {
        acknowledge_all(engine, at);
        let answer = rdma!(engine.run, destroy_id(id.ptr));
        judged(engine, Sym::destroy_id, at, answer, &[0]);
    }
    engine.world.ids.remove(at);
}

/// It waits until its events are acknowledged, which happens meanwhile.
fn destroy_and_acknowledge(engine: &mut CmEngine, at: usize) {
    struct Sent(*mut CmId);
    // SAFETY: ids are for any thread.
    unsafe impl Send for Sent {}
    impl Sent {
        fn destroy(self, function: unsafe extern "C" fn(*mut CmId) -> c_int) -> c_int {
            // SAFETY: it is live, and nobody uses it any more.
            unsafe { function(self.0) }
        }
    }
    let (id, function) = (Sent(engine.world.ids.get(at).ptr), engine.run.cm.destroy_id);
    let destroying = thread::spawn(move || id.destroy(function));
    thread::yield_now();
    let is_early = destroying.is_finished();
    acknowledge_all(engine, at);
    let answer = destroying.join().expect("a thread that ends");
    engine.run.enter(Sym::destroy_id);
    engine.run.leave();
    if is_early {
        engine.wrong(at, "it is destroyed before its events are acknowledged");
    }
    judged(engine, Sym::destroy_id, at, answer, &[0]);
}

/// What its end means for others.
fn ends(engine: &mut CmEngine, at: usize) {
    let id = engine.world.ids.get(at).clone();
    let all: Vec<usize> = engine.world.conns.iter().map(|(at, _)| at).collect();
    for of in all {
        let conn = engine.world.conns.get_mut(of);
        if conn.listener == Some(at) {
            conn.listener = None;
        }
    }
    let Some(of) = id.conn else {
        return;
    };
    let peer = engine
        .world
        .peer(at)
        .map(|peer| engine.world.ids.get(peer).phase);
    let conn = engine.world.conns.get_mut(of);
    let is_plain = match id.phase {
        // Refused for its part: its peer hears of it as of a refusal, and nothing crosses it.
        Phase::Requested if !conn.odd => {
            let data = vec![0; crate::cm::events::of_refusal(id.is_datagrams())];
            let status = if id.is_datagrams() { 2 } else { 28 };
            conn.refusal = Some((status, data));
            true
        }
        Phase::Connected => matches!(peer, Some(Phase::Connected | Phase::Ended) | None),
        Phase::Ended | Phase::Over => true,
        _ => false,
    };
    conn.odd |= !is_plain && !id.is_datagrams() || id.is_datagrams() && id.side == 0;
    conn.is_down[id.side] = true;
    conn.ends[id.side] = None;
    let is_over = conn.ends == [None; 2] && conn.is_requested;
    if is_over {
        engine.world.conns.remove(of);
    }
}

/// Whether a listener takes requests to an address.
pub(in crate::cm) fn takes(listener: &LiveId, space: c_int, remote: SocketAddr) -> bool {
    let Some(local) = listener
        .local
        .filter(|_| listener.phase == Phase::Listening)
    else {
        return false;
    };
    // Without addresses in its requests, all of its function's are the listener's.
    let of = |ip: IpAddr| [0, 1].map(|device| [false, true].map(|is_v6| own(device, is_v6) == ip));
    let is_there = match local.ip() {
        ip if ip.is_unspecified() => local.is_ipv6() || remote.is_ipv4() || space == port_space::IB,
        ip if space == port_space::IB => {
            let [one, two] = [of(ip), of(remote.ip())].map(|of| of.map(|of| of.contains(&true)));
            one == two
        }
        ip => ip == remote.ip(),
    };
    listener.space == space && local.port() == remote.port() && is_there
}
