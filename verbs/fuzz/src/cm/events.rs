//! Events: which may come, and what they say.

use core::ffi::c_int;
use core::slice;

use e810_rdmacm::abi::{CmEvent, event, port_space};

use super::acts::migrate::blocks;
use super::api::Sym;
use super::engine::{CmEngine, none};
use super::world::{Conn, HeldEvent, LiveId, Phase, address_of};
use crate::run::{errno, rdma};

/// Events that are held at a time.
const HELD: usize = 8;
/// Bytes of private data that events show.
const OF_REPLY: usize = 196;
const OF_ANSWER: usize = 136;
const OF_REFUSAL: usize = 148;
/// A queue pair's key of the connection manager, and the number of a group's.
const QKEY: u32 = 0x0123_4567;
const OF_GROUP: u32 = 0xFF_FFFF;

/// Bytes that a request shows.
pub(super) const fn of_request(space: c_int) -> usize {
    match space {
        port_space::TCP => 56,
        port_space::IB => 92,
        _ => 180,
    }
}

/// Bytes that an answer to a request has at most.
pub(super) const fn of_reply(is_datagrams: bool) -> usize {
    if is_datagrams { OF_ANSWER } else { OF_REPLY }
}

/// Bytes that a refusal has at most.
pub(super) const fn of_refusal(is_datagrams: bool) -> usize {
    if is_datagrams { OF_ANSWER } else { OF_REFUSAL }
}

/// With zeros at the end.
pub(super) fn padded(data: &[u8], length: usize) -> Vec<u8> {
    let mut padded = data.to_vec();
    padded.resize(length, 0);
    padded
}

/// Whether a channel has something to read, at once or within a time.
fn is_readable(engine: &mut CmEngine, at: usize, limit: c_int) -> bool {
    let channel = engine.world.channels.get(at).ptr;
    let mut poll = libc::pollfd {
        // SAFETY: it is live.
        fd: unsafe { (*channel).fd },
        events: libc::POLLIN,
        revents: 0,
    };
    let found = match engine.run.draw.once_in(4) {
        true => {
            let found = rdma!(engine.run, rpoll(&raw mut poll, 1, limit));
            engine.run.good(Sym::rpoll);
            found
        }
        // SAFETY: one descriptor.
        false => unsafe { libc::poll(&raw mut poll, 1, limit) },
    };
    if found < 0 || found > 0 && poll.revents != libc::POLLIN {
        engine
            .run
            .fail(&format!("a poll of a channel: {found}, {poll:?}"));
    }
    found > 0
}

/// Takes what waits, one event a channel; waits for up to `limit` ms where nothing does.
pub(super) fn pump(engine: &mut CmEngine, limit: c_int) {
    let all: Vec<usize> = engine.world.channels.iter().map(|(at, _)| at).collect();
    let mut is_any = false;
    for at in &all {
        if is_readable(engine, *at, 0) {
            is_any = true;
            take(engine, *at);
        } else if engine.run.draw.once_in(10) {
            try_take(engine, *at);
        }
    }
    if let (false, true, Some(at)) = (is_any, limit > 0, engine.run.draw.one_of(&all))
        && is_readable(engine, at, limit)
    {
        take(engine, at);
    }
}

/// Takes an event that is there.
fn take(engine: &mut CmEngine, at: usize) {
    if !try_take(engine, at) {
        engine.run.fail("a channel is readable, and has no event");
    }
}

/// Takes one by a call that waits for it.
pub(super) fn take_blocking(engine: &mut CmEngine, at: usize) {
    // SAFETY: it is live.
    let fd = unsafe { (*engine.world.channels.get(at).ptr).fd };
    blocks(fd, true);
    take(engine, at);
    blocks(fd, false);
}

fn try_take(engine: &mut CmEngine, at: usize) -> bool {
    let channel = engine.world.channels.get(at).ptr;
    if engine.run.draw.once_in(50) {
        let answer = rdma!(engine.run, get_cm_event(channel, none()));
        engine.run.minus(Sym::get_cm_event, answer, &[libc::EINVAL]);
    }
    let mut found: *mut CmEvent = none();
    let answer = rdma!(engine.run, get_cm_event(channel, &raw mut found));
    if !engine
        .run
        .minus(Sym::get_cm_event, answer, &[0, libc::EAGAIN])
    {
        return false;
    }
    // SAFETY: it was given just now.
    let event = unsafe { found.read() };
    engine.run.about(|| {
        format!(
            "event {} of {:?}, listener {:?}, status {}",
            event.event, event.id, event.listen_id, event.status
        )
    });
    *engine.run.tally.events.entry(event.event).or_default() += 1;
    let of = match event.event {
        event::CONNECT_REQUEST => request(engine, at, &event),
        _ => told(engine, at, &event),
    };
    engine.world.ids.get_mut(of).held += 1;
    engine.world.held.push(HeldEvent { ptr: found, of });
    if engine.run.draw.once_in(2) || engine.world.held.len() > HELD {
        acknowledge(engine);
    }
    true
}

/// Acknowledges one of the events that are held.
pub(super) fn acknowledge(engine: &mut CmEngine) {
    if engine.run.draw.once_in(20) {
        let answer = rdma!(engine.run, ack_cm_event(none()));
        engine.run.minus(Sym::ack_cm_event, answer, &[libc::EINVAL]);
    }
    let count = engine.world.held.len();
    if count == 0 {
        return;
    }
    let nth = engine.run.draw.below(count);
    acknowledge_nth(engine, nth);
}

fn acknowledge_nth(engine: &mut CmEngine, nth: usize) {
    let held = engine.world.held.swap_remove(nth);
    let answer = rdma!(engine.run, ack_cm_event(held.ptr));
    engine.run.minus(Sym::ack_cm_event, answer, &[0]);
    engine.world.ids.get_mut(held.of).held -= 1;
}

/// Acknowledges all events of an id.
pub(super) fn acknowledge_all(engine: &mut CmEngine, of: usize) {
    while let Some(nth) = engine.world.held.iter().position(|held| held.of == of) {
        acknowledge_nth(engine, nth);
    }
}

/// The private data of an event.
///
/// # Safety
/// The event is held, and is of a connection.
unsafe fn data_of(event: &CmEvent) -> Vec<u8> {
    // SAFETY: the caller's; both kinds of parameters begin alike.
    let conn = unsafe { event.param.conn };
    match conn.private_data.is_null() {
        true => Vec::new(),
        // SAFETY: as many as it says.
        false => unsafe {
            slice::from_raw_parts(conn.private_data.cast(), conn.private_data_len.into()).to_vec()
        },
    }
}

/// A peer asks; returns the listener.
fn request(engine: &mut CmEngine, channel: usize, event: &CmEvent) -> usize {
    let Some(listener) = engine.world.id_of(event.listen_id) else {
        engine.run.fail("a request at a listener that is not live");
    };
    let of = engine.world.ids.get(listener).clone();
    if of.phase != Phase::Listening || of.channel != channel || event.status != 0 {
        engine.wrong(listener, "it gets a request");
    }
    if engine.world.id_of(event.id).is_some() {
        engine.wrong(listener, "a request with the id of another");
    }
    let word = engine.number() as usize;
    // SAFETY: the new id is live, and its context is the program's.
    let shown = unsafe {
        let shown = event.id.read();
        (*event.id).context = word as *mut _;
        shown
    };
    let like = of.shown();
    if (shown.channel, shown.context, shown.ps) != (like.channel, like.context, like.ps)
        || shown.verbs.is_null()
        || !shown.qp.is_null()
    {
        engine.wrong(listener, &format!("the id of a request is {shown:?}"));
    }
    // SAFETY: the event is held.
    let (data, conn) = unsafe { (data_of(event), event.param.conn) };
    let port = u16::from_be(rdma!(engine.run, get_dst_port(event.id)));
    engine.run.good(Sym::get_dst_port);
    let is_it = |known: &Conn| {
        let names = match of.space {
            // Its requests have no port.
            port_space::IB => known.qpn == conn.qp_num,
            port_space::TCP => (known.port, known.qpn) == (port, conn.qp_num),
            _ => known.port == port,
        };
        !known.is_requested && names && known.data == data && known.space == of.space
    };
    let mut found: Vec<(usize, bool)> = engine
        .world
        .conns
        .iter()
        .filter(|(_, conn)| is_it(conn))
        .map(|(at, conn)| (at, conn.ends[0].is_none()))
        .collect();
    // Of two that look alike, the one that is live.
    found.sort_by_key(|(_, is_gone)| *is_gone);
    let Some((of_conn, _)) = found.first().copied() else {
        engine.wrong(
            listener,
            &format!(
                "a request of nobody: port {port}, {conn:?}, {data:?}; connections {:?}",
                engine.world.conns
            ),
        );
    };
    let made = engine.world.ids.add(LiveId {
        ptr: event.id,
        channel,
        space: of.space,
        word,
        phase: Phase::Requested,
        local: address_of(&shown.route.addr.src),
        conn: Some(of_conn),
        side: 1,
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
    let known = engine.world.conns.get_mut(of_conn);
    known.ends[1] = Some(made);
    known.is_requested = true;
    listener
}

/// Anything else; returns the id.
fn told(engine: &mut CmEngine, channel: usize, told: &CmEvent) -> usize {
    let Some(at) = engine.world.id_of(told.id) else {
        engine.run.fail("an event of an id that is not live");
    };
    let id = engine.world.ids.get(at).clone();
    if id.channel != channel || !told.listen_id.is_null() {
        engine.wrong(at, "an event in the wrong channel, or with a listener");
    }
    let next = match (told.event, id.phase) {
        (event::ADDR_RESOLVED, Phase::Resolving) if told.status == 0 && !id.is_lost => {
            let shown = id.shown();
            if shown.verbs.is_null() || shown.pd.is_null() || shown.port_num != 1 {
                engine.wrong(at, "it has an address, and no device");
            }
            engine.world.ids.get_mut(at).local = address_of(&shown.route.addr.src);
            Phase::Resolved
        }
        (event::ADDR_ERROR, Phase::Resolving)
            if told.status == -libc::ETIMEDOUT && (id.is_lost || id.is_hasty) =>
        {
            engine.world.ids.get_mut(at).local = address_of(&id.shown().route.addr.src);
            Phase::Bound
        }
        (event::ROUTE_RESOLVED, Phase::Routing) if told.status == 0 => {
            let route = id.shown().route;
            if route.num_paths != 1 || route.path_rec.is_null() {
                engine.wrong(at, "a route without a path");
            }
            Phase::Routed
        }
        (event::MULTICAST_JOIN, phase) if told.status == 0 => {
            joined(engine, at, told);
            phase
        }
        (
            event::CONNECT_RESPONSE
            | event::CONNECT_ERROR
            | event::UNREACHABLE
            | event::REJECTED
            | event::ESTABLISHED
            | event::DISCONNECTED
            | event::TIMEWAIT_EXIT,
            _,
        ) => connected(engine, at, told),
        _ => engine.wrong(at, &format!("event {} comes", told.event)),
    };
    engine.world.ids.get_mut(at).phase = next;
    at
}

fn joined(engine: &mut CmEngine, at: usize, told: &CmEvent) {
    // SAFETY: what an event of a group has.
    let ud = unsafe { told.param.ud };
    let word = ud.private_data.addr();
    let groups = &mut engine.world.ids.get_mut(at).groups;
    let group = groups
        .iter_mut()
        .find(|group| group.word == word && !group.is_told);
    let Some(group) = group else {
        engine.wrong(at, "it has joined what it has not asked for");
    };
    group.is_told = true;
    if (ud.qp_num, ud.qkey) != (OF_GROUP, QKEY) {
        engine.wrong(at, &format!("it has joined {ud:?}"));
    }
}

/// An event of a connection; returns where the id stands then.
fn connected(engine: &mut CmEngine, at: usize, told: &CmEvent) -> Phase {
    let id = engine.world.ids.get(at).clone();
    let kind = told.event;
    let Some(conn) = id.conn.map(|conn| engine.world.conns.get(conn).clone()) else {
        engine.wrong(at, "an event of a connection that it has not");
    };
    if id.has_seen(kind) {
        engine.wrong(at, &format!("event {kind} comes again"));
    }
    engine.world.ids.get_mut(at).seen |= 1 << kind;
    // SAFETY: the event is held.
    let data = unsafe { data_of(told) };
    let is_own = id.shown().qp.is_null();
    let peer = conn.ends[1 - id.side];
    let peer = peer.map(|peer| engine.world.ids.get(peer).phase);
    let is_right = match (kind, id.side, id.phase) {
        (event::CONNECT_RESPONSE, 0, Phase::Asked) => {
            is_own && conn.reply.as_ref() == Some(&data) && told.status == 0
        }
        (event::ESTABLISHED, 0, Phase::Asked) if id.is_datagrams() => {
            conn.reply.as_ref() == Some(&data) && told.status == 0
        }
        (event::ESTABLISHED, 0, Phase::Asked) => {
            !is_own && conn.reply.as_ref() == Some(&data) && told.status == 0
        }
        (event::ESTABLISHED, 1, Phase::Accepted) => {
            told.status == 0 && matches!(peer, Some(Phase::Connected | Phase::Ended))
        }
        (event::REJECTED, 0, Phase::Asked) if !id.is_datagrams() => refused(&conn, told, &data),
        (event::UNREACHABLE, 0, Phase::Asked) if id.is_datagrams() => refused(&conn, told, &data),
        (event::DISCONNECTED, _, Phase::Connected) => conn.is_down.contains(&true),
        (event::TIMEWAIT_EXIT, _, Phase::Ended) => conn.is_down[id.side],
        _ => false,
    };
    if !is_right && !conn.odd {
        engine.wrong(
            at,
            &format!("event {kind}, status {}, data {data:?}", told.status),
        );
    }
    if kind == event::ESTABLISHED && id.side == 0 && id.is_datagrams() {
        // SAFETY: what an answer about a queue pair for datagrams has.
        let ud = unsafe { told.param.ud };
        if ud.qkey != QKEY {
            engine.wrong(at, &format!("the answer {ud:?}"));
        }
        engine.world.ids.get_mut(at).to = Some((ud.ah_attr, ud.qp_num, ud.qkey));
    }
    match kind {
        event::CONNECT_RESPONSE => Phase::Responded,
        event::ESTABLISHED => Phase::Connected,
        event::DISCONNECTED => Phase::Ended,
        event::TIMEWAIT_EXIT => id.phase,
        _ => {
            // Its queue pair is in ERROR.
            engine.world.ids.get_mut(at).is_stopped = true;
            Phase::Over
        }
    }
}

/// Whether a refusal says what it has to.
fn refused(conn: &Conn, told: &CmEvent, data: &[u8]) -> bool {
    let is_datagrams = matches!(conn.space, port_space::UDP | port_space::IPOIB);
    match &conn.refusal {
        Some((status, given)) => (*status, given.as_slice()) == (told.status, data),
        // Nobody listens there, or not at this address; or the listener has ended.
        None => {
            let statuses: &[c_int] = if is_datagrams { &[1, 2] } else { &[8, 28] };
            conn.ends[1].is_none()
                && conn.listener.is_none()
                && statuses.contains(&told.status)
                && data.iter().all(|byte| *byte == 0)
                && data.len() == of_refusal(is_datagrams)
        }
    }
}

/// -1 and a number of these, or 0.
pub(super) fn judged(
    engine: &mut CmEngine,
    symbol: Sym,
    at: usize,
    answer: c_int,
    allowed: &[c_int],
) -> bool {
    let number = match answer {
        -1 => errno().max(1),
        other => other,
    };
    if !allowed.contains(&number) || !matches!(answer, -1 | 0) {
        let name = super::api::SYMBOLS[symbol as usize];
        engine.wrong(
            at,
            &format!("{name} answers {answer}, {number}, not one of {allowed:?}"),
        );
    }
    engine.run.minus(symbol, answer, allowed)
}
