//! Connections: asked for, accepted, refused, established, ended.

use core::ffi::{c_int, c_void};
use core::mem;

use e810_rdmacm::abi::{ConnParam, port_space};
use e810_verbs::abi::state::QpAttr;
use libc::{EINVAL, EISCONN};

use super::queue_pairs;
use crate::cm::api::Sym;
use crate::cm::engine::{CmEngine, none};
use crate::cm::events::{judged, of_refusal, of_reply, of_request, padded};
use crate::cm::world::{Conn, LiveId, Phase, address_of};
use crate::run::rdma;

/// As many READs as the device has.
const MOST: u8 = 255;
/// Numbers from here on are no queue pair's.
const NO_QP: u32 = 0x80_0000;

/// What is said to a peer.
struct Said {
    data: Vec<u8>,
    /// More is said than there are bytes: the pointer is null.
    is_null: bool,
    resources: [u8; 2],
    qpn: u32,
    /// Nothing is said.
    is_none: bool,
}

impl Said {
    fn draw(engine: &mut CmEngine, most: usize) -> Self {
        let count = engine.number();
        let [answers, asks] = engine.depths;
        let draw = &mut engine.run.draw;
        let length = match draw.once_in(12) {
            true => draw.number(&[most + 1, 255]),
            false => draw
                .number(&[0, 1, 7, 8, most / 2, most - 1, most])
                .min(most),
        };
        let mut data: Vec<u8> = (0..length).map(|_| draw.word() as u8).collect();
        // So that requests are unlike.
        for (place, byte) in data.iter_mut().zip(count.to_be_bytes()) {
            *place = byte;
        }
        let resources = match draw.below(12) {
            0 => [answers.saturating_add(1).min(MOST - 1), 0],
            1 => [0, asks.saturating_add(1).min(MOST - 1)],
            2 | 3 => [MOST, MOST],
            4 => [0, 0],
            5 => [answers, asks],
            _ => [1, 1],
        };
        Self {
            data,
            is_null: draw.once_in(30),
            resources,
            qpn: NO_QP + count,
            is_none: draw.once_in(12),
        }
    }

    /// What arrives.
    fn data(&self) -> &[u8] {
        match self.is_none || self.is_null {
            true => &[],
            false => &self.data,
        }
    }

    fn has_too_much(&self, engine: &CmEngine) -> bool {
        let more = |n: usize| self.resources[n] != MOST && self.resources[n] > engine.depths[n];
        !self.is_none && (more(0) || more(1))
    }

    fn param(&self) -> ConnParam {
        let data: *const c_void = match self.is_null {
            true => none(),
            false => self.data.as_ptr().cast(),
        };
        ConnParam {
            private_data: data,
            private_data_len: self.data.len() as u8,
            responder_resources: self.resources[0],
            initiator_depth: self.resources[1],
            flow_control: 0,
            retry_count: 7,
            rnr_retry_count: 7,
            srq: 0,
            qp_num: self.qpn,
        }
    }

    /// The queue pair that is named.
    fn number(&self, id: &LiveId) -> u32 {
        match (id.shown().qp.is_null(), self.is_none) {
            // SAFETY: it is live.
            (false, _) => unsafe { (*id.shown().qp).qp_num },
            (true, true) => 0,
            (true, false) => self.qpn,
        }
    }
}

/// Says it with the number of the program's own queue pair.
fn with_hand(said: &mut Said, id: &LiveId) {
    if let Some(qp) = id.hand {
        // SAFETY: it is live.
        said.qpn = unsafe { (*qp).qp_num };
        said.is_none = false;
    }
}

/// Asks a peer.
pub(in crate::cm) fn ask(engine: &mut CmEngine, at: usize) {
    let id = engine.world.ids.get(at).clone();
    let mut said = Said::draw(engine, of_request(id.space));
    with_hand(&mut said, &id);
    let is_plain = id.space == port_space::TCP;
    let has_no_qp = said.is_none && id.shown().qp.is_null();
    let is_wrong = is_plain && (said.has_too_much(engine) || has_no_qp)
        || said.data().len() > of_request(id.space);
    let allowed: &[c_int] = match id.phase {
        Phase::Routed if is_wrong => &[EINVAL],
        // Two without a queue pair are one to the peer.
        Phase::Routed if has_no_qp && !id.is_datagrams() => return,
        Phase::Routed => &[0],
        _ => &[EINVAL],
    };
    let mut param = said.param();
    let place = match said.is_none {
        true => none(),
        false => &raw mut param,
    };
    engine
        .run
        .about(|| format!("id {at} asks, {} bytes", said.data().len()));
    let answer = rdma!(engine.run, connect(id.ptr, place));
    if !judged(engine, Sym::connect, at, answer, allowed) {
        return;
    }
    let route = id.shown().route.addr;
    let (local, remote) = (address_of(&route.src), address_of(&route.dst));
    let (Some(local), Some(remote)) = (local, remote) else {
        engine.wrong(at, "it asks from or to no address");
    };
    let takes = |other: &LiveId| super::ids::takes(other, id.space, remote);
    let listener = engine.world.ids.pick(&mut engine.run.draw, takes);
    let conn = engine.world.conns.add(Conn {
        ends: [Some(at), None],
        port: local.port(),
        qpn: said.number(&id),
        space: id.space,
        listener,
        data: padded(said.data(), of_request(id.space)),
        is_requested: false,
        reply: None,
        refusal: None,
        is_down: [false; 2],
        // Its queue pair can not be connected.
        odd: id.is_stopped,
    });
    let id = engine.world.ids.get_mut(at);
    (id.phase, id.conn) = (Phase::Asked, Some(conn));
}

/// Accepts a peer's request.
pub(in crate::cm) fn accept(engine: &mut CmEngine, at: usize) {
    let id = engine.world.ids.get(at).clone();
    let most = of_reply(id.is_datagrams());
    let mut said = Said::draw(engine, most);
    with_hand(&mut said, &id);
    let is_odd = id.conn.is_none_or(|conn| engine.world.conns.get(conn).odd);
    let is_plain = id.space == port_space::TCP;
    let has_no_qp = said.is_none && id.shown().qp.is_null();
    let is_wrong = is_plain && (said.has_too_much(engine) || has_no_qp);
    let is_long = said.data().len() > most;
    let is_requested = id.phase == Phase::Requested;
    if is_requested && has_no_qp && !is_wrong {
        // Its number were that of others.
        return;
    }
    let allowed: &[c_int] = match is_requested {
        true if is_wrong || is_long => &[EINVAL],
        true if is_odd || id.is_stopped => &[0, EINVAL],
        true => &[0],
        false => &[EINVAL],
    };
    let mut param = said.param();
    let place = match said.is_none {
        true => none(),
        false => &raw mut param,
    };
    engine
        .run
        .about(|| format!("id {at} accepts, {} bytes", said.data().len()));
    let answer = rdma!(engine.run, accept(id.ptr, place));
    let is_done = judged(engine, Sym::accept, at, answer, allowed);
    let Some(of) = id.conn.filter(|_| is_requested) else {
        return;
    };
    let conn = engine.world.conns.get_mut(of);
    match (is_done, id.is_datagrams()) {
        (true, is_datagrams) => {
            conn.reply = Some(padded(said.data(), most));
            let next = if is_datagrams {
                Phase::Connected
            } else {
                Phase::Accepted
            };
            engine.world.ids.get_mut(at).phase = next;
            if !is_datagrams && engine.run.draw.once_in(12) {
                notify(engine, at);
            }
        }
        // What cannot be accepted is refused.
        (false, is_datagrams) if !is_wrong && is_long => {
            let status = if is_datagrams { 2 } else { 28 };
            conn.refusal = Some((status, vec![0; of_refusal(is_datagrams)]));
            engine.world.ids.get_mut(at).phase = Phase::Over;
        }
        (false, false) if !is_wrong => {
            conn.odd = true;
            engine.world.ids.get_mut(at).phase = Phase::Over;
        }
        _ => {}
    }
}

/// Refuses a peer's request, or its acceptance.
pub(in crate::cm) fn reject(engine: &mut CmEngine, at: usize) {
    let id = engine.world.ids.get(at).clone();
    let most = of_refusal(id.is_datagrams());
    let said = Said::draw(engine, most);
    let with_ece = engine.run.draw.once_in(4);
    let is_odd = id.conn.is_some_and(|conn| engine.world.conns.get(conn).odd);
    let is_long = !said.is_null && said.data.len() > most;
    let allowed: &[c_int] = match id.phase {
        _ if is_long => &[EINVAL],
        Phase::Requested | Phase::Responded if is_odd => &[0, EINVAL],
        Phase::Requested | Phase::Responded => &[0],
        // As long as it is no connection, and was not refused.
        Phase::Asked | Phase::Accepted if !id.is_datagrams() => &[0, EINVAL],
        _ => &[EINVAL],
    };
    let data: *const c_void = match said.is_null {
        true => none(),
        false => said.data.as_ptr().cast(),
    };
    let length = said.data.len() as u8;
    let symbol = if with_ece {
        Sym::reject_ece
    } else {
        Sym::reject
    };
    let answer = match with_ece {
        true => rdma!(engine.run, reject_ece(id.ptr, data, length)),
        false => rdma!(engine.run, reject(id.ptr, data, length)),
    };
    if !judged(engine, symbol, at, answer, allowed) {
        return;
    }
    engine.world.ids.get_mut(at).phase = Phase::Over;
    let Some(of) = id.conn else {
        return;
    };
    let conn = engine.world.conns.get_mut(of);
    conn.odd |= id.phase != Phase::Requested;
    let status = match (id.is_datagrams(), with_ece) {
        (true, _) => 2,
        (false, true) => 35,
        (false, false) => 28,
    };
    let data = if said.is_null { &[][..] } else { &said.data };
    conn.refusal = Some((status, padded(data, most)));
}

/// Says that the own queue pair is ready.
pub(in crate::cm) fn establish(engine: &mut CmEngine, at: usize) {
    let id = engine.world.ids.get(at).clone();
    let is_ready = id.phase == Phase::Responded;
    if is_ready && id.hand.is_some() {
        queue_pairs::bring_up(engine, at);
    }
    let is_odd = id.conn.is_some_and(|conn| engine.world.conns.get(conn).odd);
    let allowed: &[c_int] = match is_ready && id.shown().qp.is_null() {
        true if is_odd => &[0, EINVAL],
        true => &[0],
        false => &[EINVAL],
    };
    let answer = rdma!(engine.run, establish(id.ptr));
    let is_done = judged(engine, Sym::establish, at, answer, allowed);
    if is_ready {
        let next = if is_done {
            Phase::Connected
        } else {
            Phase::Over
        };
        engine.world.ids.get_mut(at).phase = next;
    }
}

/// Ends a connection, or what is none yet.
pub(in crate::cm) fn disconnect(engine: &mut CmEngine, at: usize) {
    let id = engine.world.ids.get(at).clone();
    let allowed: &[c_int] = match id.phase {
        Phase::Listening => &[0],
        _ if id.conn.is_none() => &[EINVAL],
        _ => &[0],
    };
    let answer = rdma!(engine.run, disconnect(id.ptr));
    let is_done = judged(engine, Sym::disconnect, at, answer, allowed);
    let peer = engine
        .world
        .peer(at)
        .map(|peer| engine.world.ids.get(peer).phase);
    if !id.is_datagrams() && id.phase != Phase::Listening && !id.shown().qp.is_null() {
        engine.world.ids.get_mut(at).is_stopped = true;
    }
    let Some(of) = id.conn.filter(|_| !id.is_datagrams()) else {
        return;
    };
    let conn = engine.world.conns.get_mut(of);
    let is_plain = match id.phase {
        Phase::Connected => matches!(peer, Some(Phase::Connected | Phase::Ended) | None),
        Phase::Ended | Phase::Over => true,
        _ => false,
    };
    conn.odd |= !is_plain;
    conn.is_down[id.side] |= is_done;
}

/// Says that a message has come.
fn notify(engine: &mut CmEngine, at: usize) {
    let id = engine.world.ids.get(at).clone();
    let event = engine.run.draw.number(&[4, 4, 4, 6, 0, -1]);
    let is_odd = id.conn.is_some_and(|conn| engine.world.conns.get(conn).odd);
    let allowed: &[c_int] = match id.phase {
        _ if event != 4 || id.conn.is_none() => &[EINVAL],
        Phase::Connected if id.side == 0 || !is_odd => &[EISCONN, EINVAL],
        // What is told of it may not be taken yet.
        Phase::Accepted => &[0, EISCONN, EINVAL],
        _ => &[EINVAL, EISCONN],
    };
    let answer = rdma!(engine.run, notify(id.ptr, event));
    if judged(engine, Sym::notify, at, answer, allowed) {
        engine.world.odd(at);
    }
}

/// How the own queue pair is brought up.
fn attributes(engine: &mut CmEngine, at: usize) {
    let id = engine.world.ids.get(at).clone();
    let has_device = !id.shown().verbs.is_null();
    // SAFETY: numbers only.
    let mut attr: QpAttr = unsafe { mem::zeroed() };
    attr.qp_state = engine.run.draw.number(&[0, 1, 2, 3, 6, 99]);
    let mut mask = 0;
    let is_alone = id.conn.is_none();
    let allowed: &[c_int] = match (has_device, attr.qp_state) {
        (false, _) => &[EINVAL],
        _ if id.is_datagrams() || is_alone => &[0],
        (_, 1) if id.phase == Phase::Requested => &[0],
        (_, 1) if id.phase == Phase::Ended => &[EINVAL],
        // Either side may have ended it.
        (_, 1..=3) => &[0, EINVAL],
        _ => &[EINVAL],
    };
    let answer = rdma!(
        engine.run,
        init_qp_attr(id.ptr, &raw mut attr, &raw mut mask)
    );
    let state = attr.qp_state;
    if judged(engine, Sym::init_qp_attr, at, answer, allowed) {
        let wanted = match (id.is_datagrams(), is_alone, state) {
            (true, ..) => 0x71,
            (_, true, _) | (_, _, 1) => 0x39,
            _ => mask,
        };
        if mask != wanted || mask & 1 == 0 {
            engine.wrong(at, &format!("attributes {mask:#x} for {state}"));
        }
    }
}

/// What an id may or may not do now.
pub(in crate::cm) fn any(engine: &mut CmEngine) {
    // What is under way decides.
    let wanted = |id: &LiveId| !matches!(id.phase, Phase::Resolving | Phase::Routing);
    let Some(at) = engine.world.ids.pick(&mut engine.run.draw, wanted) else {
        return;
    };
    let phase = engine.world.ids.get(at).phase;
    match engine.run.draw.below(16) {
        0 | 1 => ask(engine, at),
        2 | 3 => accept(engine, at),
        // It depends on what has come meanwhile.
        4 | 5 if matches!(phase, Phase::Asked | Phase::Accepted) => notify(engine, at),
        4 | 5 => reject(engine, at),
        6 | 7 => establish(engine, at),
        8 if !matches!(phase, Phase::Asked | Phase::Accepted | Phase::Requested)
            || engine.run.draw.once_in(4) =>
        {
            disconnect(engine, at);
        }
        9..12 => {
            let accepted = |id: &LiveId| id.phase == Phase::Accepted;
            let first = engine.world.ids.pick(&mut engine.run.draw, accepted);
            notify(engine, first.unwrap_or(at));
        }
        _ => attributes(engine, at),
    }
}
