//! Queue pairs of ids, and those that the program makes itself and brings up by what the library says.

use core::ffi::c_int;
use core::mem;

use e810_verbs::abi::constants::qp_type;
use e810_verbs::abi::make::{QpCap, QpInitAttr, QpInitAttrEx};
use e810_verbs::abi::objects::Qp;
use e810_verbs::abi::state::QpAttr;
use libc::{EINVAL, ENOMEM};

use crate::api::Sym as Verb;
use crate::cm::api::Sym;
use crate::cm::engine::{CmEngine, none};
use crate::cm::events::judged;
use crate::cm::world::{Left, LiveId, Phase};
use crate::run::{call, rdma};

/// Says that the attributes have a protection domain.
const PD: u32 = 1;

/// What is asked for.
struct Wanted {
    attr: QpInitAttr,
    /// 0: none, 1: the sequence's, 2: that of the other function.
    pd: usize,
    is_right: bool,
}

fn draw(engine: &mut CmEngine, at: usize, is_right: bool) -> Wanted {
    let id = engine.world.ids.get(at).clone();
    let kind = if id.is_datagrams() {
        qp_type::UD
    } else {
        qp_type::RC
    };
    let device = engine.device_of(id.shown().verbs);
    let draw = &mut engine.run.draw;
    let mut attr = QpInitAttr {
        qp_context: at as *mut _,
        send_cq: none(),
        recv_cq: none(),
        srq: none(),
        cap: QpCap {
            max_send_wr: draw.number(&[4, 8]),
            max_recv_wr: draw.number(&[4, 8]),
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: draw.number(&[0, 32]),
        },
        qp_type: kind,
        sq_sig_all: draw.number(&[0, 1]),
    };
    let mut pd = draw.number(&[0, 1]);
    match draw.below(4) {
        0 => attr.send_cq = engine.world.cqs[device],
        1 => (attr.send_cq, attr.recv_cq) = (engine.world.cqs[device], engine.world.cqs[device]),
        _ => {}
    }
    let mut wrong = false;
    if !is_right {
        wrong = true;
        match draw.below(5) {
            0 => attr.qp_type = qp_type::RC + qp_type::UD - kind,
            1 => attr.qp_type = 99,
            2 => attr.cap.max_send_wr = 1 << 24,
            3 => pd = 2,
            _ => wrong = false,
        }
    }
    Wanted {
        attr,
        pd,
        is_right: !wrong,
    }
}

/// A queue pair by the id, or by hand.
pub(in crate::cm) fn create_right(engine: &mut CmEngine, at: usize) {
    let id = engine.world.ids.get(at);
    match !id.is_datagrams() && engine.run.draw.once_in(5) {
        true => by_hand(engine, at),
        false => create(engine, at, true),
    }
}

pub(in crate::cm) fn create(engine: &mut CmEngine, at: usize, is_right: bool) {
    let id = engine.world.ids.get(at).clone();
    let mut wanted = draw(engine, at, is_right);
    let shown = id.shown();
    let device = engine.device_of(shown.verbs);
    let pd = match wanted.pd {
        0 => none(),
        1 => engine.world.pds[device],
        _ => engine.world.pds[1 - device],
    };
    let is_possible = !shown.verbs.is_null() && shown.qp.is_null() && wanted.is_right;
    let allowed: &[c_int] = match is_possible {
        true => &[0],
        // The device says so.
        false if wanted.attr.cap.max_send_wr > 1000 => &[EINVAL, ENOMEM],
        false => &[EINVAL, libc::EOPNOTSUPP],
    };
    let symbol = match engine.run.draw.once_in(3) {
        true => Sym::create_qp_ex,
        false => Sym::create_qp,
    };
    let (answer, cqs) = match symbol {
        Sym::create_qp_ex => {
            let attr = wanted.attr;
            // SAFETY: numbers and null pointers.
            let mut more: QpInitAttrEx = unsafe { mem::zeroed() };
            (more.qp_context, more.cap) = (attr.qp_context, attr.cap);
            (more.send_cq, more.recv_cq) = (attr.send_cq, attr.recv_cq);
            (more.qp_type, more.sq_sig_all) = (attr.qp_type, attr.sq_sig_all);
            if !pd.is_null() {
                (more.comp_mask, more.pd) = (PD, pd);
            }
            let answer = rdma!(engine.run, create_qp_ex(id.ptr, &raw mut more));
            (answer, [more.send_cq, more.recv_cq])
        }
        _ => {
            let attr = &mut wanted.attr;
            let answer = rdma!(engine.run, create_qp(id.ptr, pd, &raw mut *attr));
            (answer, [attr.send_cq, attr.recv_cq])
        }
    };
    let given = [wanted.attr.send_cq, wanted.attr.recv_cq];
    if !judged(engine, symbol, at, answer, allowed) {
        return;
    }
    engine.world.ids.get_mut(at).is_stopped = false;
    let shown = id.shown();
    // SAFETY: made just now.
    let made = unsafe { shown.qp.read() };
    let is_right = shown.pd == made.pd
        && cqs == [made.send_cq, made.recv_cq]
        && (pd.is_null() || made.pd == pd)
        && made.state == if id.is_datagrams() { 3 } else { 1 };
    if !is_right {
        engine.wrong(at, &format!("its queue pair is {made:?}, given {given:?}"));
    }
}

/// Makes a queue pair in the id's protection domain, and brings it up as far as it can be.
fn by_hand(engine: &mut CmEngine, at: usize) {
    let id = engine.world.ids.get(at).clone();
    let shown = id.shown();
    let mut wanted = draw(engine, at, true);
    let cq = engine.world.cqs[engine.device_of(shown.verbs)];
    (wanted.attr.send_cq, wanted.attr.recv_cq) = (cq, cq);
    let qp = call!(engine.run, create_qp(shown.pd, &raw mut wanted.attr));
    engine.run.made(Verb::create_qp, qp, &[0]);
    engine.world.ids.get_mut(at).hand = Some(qp);
    step(engine, at, 1);
    if id.phase == Phase::Requested {
        bring_up(engine, at);
    }
}

/// Brings the program's own queue pair from INIT to RTS.
pub(in crate::cm) fn bring_up(engine: &mut CmEngine, at: usize) {
    if step(engine, at, 2) {
        step(engine, at, 3);
    }
}

/// To a state, as the library says.
fn step(engine: &mut CmEngine, at: usize, state: c_int) -> bool {
    let id = engine.world.ids.get(at).clone();
    let is_odd = id.conn.is_some_and(|conn| engine.world.conns.get(conn).odd);
    // SAFETY: numbers only.
    let mut attr: QpAttr = unsafe { mem::zeroed() };
    attr.qp_state = state;
    let mut mask = 0;
    let answer = rdma!(
        engine.run,
        init_qp_attr(id.ptr, &raw mut attr, &raw mut mask)
    );
    let allowed: &[c_int] = if is_odd { &[0, EINVAL] } else { &[0] };
    if !judged(engine, Sym::init_qp_attr, at, answer, allowed) {
        return false;
    }
    let Some(qp) = id.hand else {
        return false;
    };
    let answer = call!(engine.run, modify_qp(qp, &raw mut attr, mask));
    let allowed: &[c_int] = if is_odd { &[0, EINVAL] } else { &[0] };
    engine.run.judge(Verb::modify_qp, answer, allowed)
}

/// Destroys a queue pair of the program.
fn end_by_hand(engine: &mut CmEngine, qp: *mut Qp) {
    let answer = call!(engine.run, destroy_qp(qp));
    engine.run.judge(Verb::destroy_qp, answer, &[0]);
}

/// Destroys an id's queue pair.
fn destroy(engine: &mut CmEngine, at: usize) {
    let ptr = engine.world.ids.get(at).ptr;
    rdma!(engine.run, destroy_qp(ptr));
    engine.run.good(Sym::destroy_qp);
    let shown = engine.world.ids.get(at).shown();
    let is_clean = shown.qp.is_null()
        && shown.send_cq.is_null()
        && shown.recv_cq.is_null()
        && shown.send_cq_channel.is_null()
        && shown.recv_cq_channel.is_null();
    if !is_clean {
        engine.wrong(
            at,
            &format!("its queue pair is destroyed, and it has {shown:?}"),
        );
    }
}

/// Before an id is destroyed: its queue pair is, or is left for later.
pub(in crate::cm) fn put_away(engine: &mut CmEngine, at: usize, is_left: bool) {
    let shown = engine.world.ids.get(at).shown();
    if let Some(qp) = engine.world.ids.get_mut(at).hand.take() {
        end_by_hand(engine, qp);
    }
    if shown.qp.is_null() {
        return;
    }
    if !is_left {
        return destroy(engine, at);
    }
    engine.world.left.push(Left {
        qp: shown.qp,
        cqs: [shown.send_cq, shown.recv_cq],
        channels: [shown.send_cq_channel, shown.recv_cq_channel],
    });
}

/// Destroys what ids have left behind.
pub(in crate::cm) fn end_left(engine: &mut CmEngine) {
    for left in mem::take(&mut engine.world.left) {
        end_by_hand(engine, left.qp);
        for cq in left.cqs.into_iter().filter(|cq| !cq.is_null()) {
            let answer = call!(engine.run, destroy_cq(cq));
            engine.run.judge(Verb::destroy_cq, answer, &[0]);
        }
        let channels = left.channels.into_iter();
        for channel in channels.filter(|channel| !channel.is_null()) {
            let answer = call!(engine.run, destroy_comp_channel(channel));
            engine.run.judge(Verb::destroy_comp_channel, answer, &[0]);
        }
    }
}

/// A queue pair for an id that is to have none, or a wrong one; or its end.
pub(in crate::cm) fn any(engine: &mut CmEngine) {
    // It gets its device at a time that is not known; and one that is asked for has what it has.
    let wanted = |id: &LiveId| {
        let is_open = matches!(
            id.phase,
            Phase::Resolving | Phase::Asked | Phase::Accepted | Phase::Responded | Phase::Connected
        );
        !is_open && id.hand.is_none()
    };
    let Some(at) = engine.world.ids.pick(&mut engine.run.draw, wanted) else {
        return;
    };
    let id = engine.world.ids.get(at).clone();
    let is_in_group = !id.groups.is_empty();
    match engine.run.draw.below(6) {
        // One that its program has not asked with yet, or is done with.
        0 if !id.shown().qp.is_null() && !is_in_group => destroy(engine, at),
        1 => create(engine, at, true),
        _ => create(engine, at, false),
    }
}
