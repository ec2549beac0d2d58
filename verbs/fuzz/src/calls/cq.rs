//! Completion queues, their channels and events, and polling.

use core::ffi::{c_int, c_void};
use core::mem;
use core::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use e810_verbs::abi::extended::CqEx;
use e810_verbs::abi::make::{CqInitAttrEx, PollCqAttr};
use e810_verbs::abi::objects::Cq;
use e810_verbs::abi::work::Wc;
use libc::{EAGAIN, EBUSY, EINVAL, ENOENT, EOPNOTSUPP};

use crate::api::Sym;
use crate::engine::{Engine, null};
use crate::run::{call, through};
use crate::world::{LiveChannel, LiveCq};

const MOST_CQS: usize = 10;
const MOST_CHANNELS: usize = 5;
/// Completions that a queue is made for when queue pairs are to be on it.
const LARGE: c_int = 4000;

/// Makes a channel, or destroys one.
pub(crate) fn channel(engine: &mut Engine) {
    let (world, run) = (&mut engine.world, &mut engine.run);
    if world.channels.len() < MOST_CHANNELS && run.draw.once_in(2) {
        let ctx = world.ctxs.pick(&mut run.draw, |ctx| !ctx.is_closed);
        let Some(ctx) = ctx else { return };
        let ptr = call!(run, create_comp_channel(world.ctxs.get(ctx).ptr));
        if run.made(Sym::create_comp_channel, ptr, &[0]) {
            // SAFETY: its descriptor.
            unsafe { libc::fcntl((*ptr).fd, libc::F_SETFL, libc::O_NONBLOCK) };
            world.channels.add(LiveChannel {
                ptr,
                ctx,
                cqs: 0,
                kept: false,
            });
        }
        return;
    }
    let channel = world.channels.pick(&mut run.draw, |channel| !channel.kept);
    if let Some(channel) = channel {
        destroy_channel(engine, channel);
    }
}

/// Destroys one if it can be; whether it is gone.
pub(crate) fn destroy_channel(engine: &mut Engine, at: usize) -> bool {
    let channel = engine.world.channels.get(at).clone();
    let is_closed = engine.world.ctxs.get(channel.ctx).is_closed;
    let expected = if channel.cqs > 0 && !is_closed {
        EBUSY
    } else {
        0
    };
    let used = engine
        .world
        .cqs
        .iter()
        .any(|(_, cq)| cq.channel == Some(at));
    if is_closed && used {
        // The queue's pointer to it would dangle.
        return false;
    }
    let answer = call!(engine.run, destroy_comp_channel(channel.ptr));
    if !engine
        .run
        .judge(Sym::destroy_comp_channel, answer, &[expected])
    {
        return false;
    }
    engine.world.channels.remove(at);
    true
}

/// Makes a completion queue, resizes or destroys one.
pub(crate) fn queue(engine: &mut Engine) {
    match engine.run.draw.below(20) {
        0..8 if engine.world.cqs.len() < MOST_CQS => create(engine),
        0..12 => {
            let cq = engine.world.cqs.pick(&mut engine.run.draw, |cq| !cq.kept);
            if let Some(cq) = cq {
                destroy_cq(engine, cq);
            }
        }
        _ => resize(engine),
    }
}

fn create(engine: &mut Engine) {
    let (world, run) = (&mut engine.world, &mut engine.run);
    let ctx = world.ctxs.pick(&mut run.draw, |ctx| !ctx.is_closed);
    let Some(ctx) = ctx else { return };
    let open = world.ctxs.get(ctx).clone();
    let shared = engine.is_shared;
    let channels = &world.channels;
    let channel = channels.pick(&mut run.draw, |channel| !channel.kept || shared);
    let channel = channel.filter(|_| run.draw.once_in(2));
    // SAFETY: it is open.
    let vectors = unsafe { (*open.ptr).num_comp_vectors };
    let entries: &[c_int] = &[
        LARGE,
        LARGE,
        LARGE,
        LARGE,
        16,
        1,
        0,
        -1,
        8_000_000,
        c_int::MAX,
        c_int::MIN,
    ];
    let is_right = !run.draw.once_in(3);
    let entries = run
        .draw
        .number(if is_right { &entries[..5] } else { entries });
    let places: &[c_int] = &[0, 0, vectors - 1, vectors, -1, 65536];
    let vector = run
        .draw
        .number(if is_right { &places[..3] } else { places });
    let channel = channel.filter(|at| !is_right || world.channels.get(*at).ctx == ctx);
    let of_channel = match channel {
        Some(at) => world.channels.get(at).ctx == ctx,
        None => true,
    };
    let fits = of_channel && (1..=LARGE).contains(&entries) && (0..vectors).contains(&vector);
    let channel_ptr = channel.map_or(null(), |at| world.channels.get(at).ptr);
    run.about(|| format!("entries {entries}, vector {vector}, channel {of_channel}"));
    let is_ex = run.draw.once_in(2);
    let (symbol, ptr, expected) = if is_ex {
        let fields: &[u64] = &[0x7F, 0x7F, 0x7F, 0, 0x15, 1 << 7, 1 << 40];
        let wc_flags = run
            .draw
            .number(if is_right { &fields[..5] } else { fields });
        let comp_mask = if is_right {
            0
        } else {
            run.draw.number(&[0, 1, 1, 2, 1 << 20])
        };
        let flags = run.draw.number(&[0, 1, 1, 2, 1 << 20]);
        let mut attr = CqInitAttrEx {
            cqe: entries as u32,
            cq_context: 0x77 as *mut c_void,
            channel: channel_ptr,
            comp_vector: vector as u32,
            wc_flags,
            comp_mask,
            flags,
            parent_domain: null(),
        };
        let ptr = through!(
            run,
            vctx_create_cq_ex,
            (*open.verbs()).create_cq_ex,
            (open.ptr, &raw mut attr)
        );
        let unknown =
            comp_mask & !3 != 0 || wc_flags & !0x7F != 0 || comp_mask & 1 != 0 && flags & !1 != 0;
        let expected = match fits {
            _ if unknown => EOPNOTSUPP,
            true => 0,
            false => EINVAL,
        };
        (Sym::vctx_create_cq_ex, ptr.cast::<Cq>(), expected)
    } else {
        let word = 0x77 as *mut c_void;
        let ptr = call!(run, create_cq(open.ptr, entries, word, channel_ptr, vector));
        (Sym::create_cq, ptr, if fits { 0 } else { EINVAL })
    };
    if !run.made(symbol, ptr, &[expected]) {
        return;
    }
    // SAFETY: it was made just now.
    let granted = unsafe { (*ptr).cqe };
    if granted < entries {
        run.fail(&format!("{granted} entries instead of {entries}"));
    }
    if let Some(channel) = channel {
        world.channels.get_mut(channel).cqs += 1;
    }
    world.cqs.add(LiveCq {
        ptr,
        ctx,
        is_ex,
        channel,
        users: 0,
        room: entries as u32,
        taken: 0,
        shared: false,
        kept: false,
    });
}

fn resize(engine: &mut Engine) {
    let cq = engine.world.cqs.pick(&mut engine.run.draw, |cq| !cq.kept);
    let Some(at) = cq else { return };
    let cq = engine.world.cqs.get(at).clone();
    if engine.world.ctxs.get(cq.ctx).is_closed {
        return;
    }
    let run = &mut engine.run;
    // One that is carried out waits for what the simulated device does at once, so there are few.
    let entries = match run.draw.once_in(120) {
        true => run.draw.number(&[LARGE, LARGE + 2000, 8000]),
        false => run.draw.number(&[0, -1, c_int::MIN]),
    };
    let answer = call!(run, resize_cq(cq.ptr, entries));
    let allowed: &[c_int] = if entries > 0 { &[0, EBUSY] } else { &[EINVAL] };
    if run.judge(Sym::resize_cq, answer, allowed) {
        let live = engine.world.cqs.get_mut(at);
        live.room = live.room.min(1000);
    }
}

/// Destroys one if it can be; whether it is gone.
pub(crate) fn destroy_cq(engine: &mut Engine, at: usize) -> bool {
    let cq = engine.world.cqs.get(at).clone();
    let is_closed = engine.world.ctxs.get(cq.ctx).is_closed;
    if is_closed && cq.users > 0 {
        return false;
    }
    if cq.users > 0 {
        let answer = call!(engine.run, destroy_cq(cq.ptr));
        engine.run.judge(Sym::destroy_cq, answer, &[EBUSY]);
        return false;
    }
    let run = &mut engine.run;
    // Another thread acknowledges what was taken, and the destruction waits for it. Of a context
    // that is closed nobody may.
    let taken = if is_closed { 0 } else { cq.taken };
    let has_begun = AtomicBool::new(false);
    let (answer, has_waited) = thread::scope(|scope| {
        if taken > 0 {
            let address = cq.ptr as usize;
            let acknowledge = run.api.ack_cq_events;
            let has_begun = &has_begun;
            scope.spawn(move || {
                thread::sleep(Duration::from_micros(200));
                has_begun.store(true, Ordering::Release);
                // SAFETY: it is not destroyed before this.
                unsafe { acknowledge(address as *mut Cq, taken) };
            });
        }
        let answer = call!(run, destroy_cq(cq.ptr));
        (answer, taken == 0 || has_begun.load(Ordering::Acquire))
    });
    if !has_waited {
        run.fail("a completion queue is destroyed before its events are acknowledged");
    }
    run.judge(Sym::destroy_cq, answer, &[0]);
    if let Some(channel) = cq.channel {
        engine.world.channels.get_mut(channel).cqs -= 1;
    }
    engine.world.cqs.remove(at);
    true
}

/// Asks for events, takes and acknowledges them.
pub(crate) fn events(engine: &mut Engine) {
    let (world, run) = (&mut engine.world, &mut engine.run);
    if run.draw.once_in(2) {
        let cq = world.cqs.pick(&mut run.draw, |cq| !cq.kept || cq.shared);
        let Some(at) = cq else { return };
        let cq = world.cqs.get(at).clone();
        if world.ctxs.get(cq.ctx).is_closed {
            return;
        }
        let solicited = run.draw.number(&[0, 1, -1]);
        let answer = through!(
            run,
            ctx_req_notify_cq,
            (*(*cq.ptr).context).ops.req_notify_cq,
            (cq.ptr, solicited)
        );
        run.judge(Sym::ctx_req_notify_cq, answer, &[0]);
        return;
    }
    let is_shared = engine.is_shared;
    let channel = world
        .channels
        .pick(&mut run.draw, |channel| !channel.kept || is_shared);
    let Some(at) = channel else { return };
    let channel = world.channels.get(at).clone();
    let (mut of, mut word) = (null::<Cq>(), null::<c_void>());
    let answer = call!(run, get_cq_event(channel.ptr, &raw mut of, &raw mut word));
    if !run.minus(Sym::get_cq_event, answer, &[0, EAGAIN]) {
        return;
    }
    let found = world.cqs.iter().find(|(_, cq)| cq.ptr == of);
    let Some((cq, _)) = found else {
        // Another thread's on a shared channel.
        call!(run, ack_cq_events(of, 1));
        if !channel.kept {
            run.fail("an event of a completion queue that there is not");
        }
        return;
    };
    if word != 0x77 as *mut c_void {
        run.fail("an event with another word than its queue's");
    }
    let live = world.cqs.get_mut(cq);
    if live.kept || run.draw.once_in(2) {
        let events = live.taken + 1;
        live.taken = 0;
        call!(run, ack_cq_events(of, events));
        run.good(Sym::ack_cq_events);
    } else {
        live.taken += 1;
    }
}

pub(crate) fn poll(engine: &mut Engine) {
    let in_pair = |engine: &Engine, at| engine.pairs.iter().any(|pair| pair.has_cq(at));
    let cq = engine.world.cqs.pick(&mut engine.run.draw, |_| true);
    let Some(at) = cq else { return };
    if in_pair(engine, at)
        || engine
            .world
            .ctxs
            .get(engine.world.cqs.get(at).ctx)
            .is_closed
    {
        return;
    }
    let count = engine.run.draw.number(&[1, 1, 1, 8, 8, 0, -1, c_int::MIN]);
    poll_some(engine, at, count);
}

pub(crate) fn poll_some(engine: &mut Engine, at: usize, count: c_int) -> usize {
    let cq = engine.world.cqs.get(at).clone();
    if cq.is_ex && engine.run.draw.once_in(2) {
        return poll_ex(engine, at, count);
    }
    let mut into = [Wc::default(); 8];
    let run = &mut engine.run;
    let answer = through!(
        run,
        ctx_poll_cq,
        (*(*cq.ptr).context).ops.poll_cq,
        (cq.ptr, count, into.as_mut_ptr())
    );
    if answer > count.max(0) || answer < 0 {
        run.fail(&format!("poll_cq of {count} gives {answer}"));
    }
    run.judge(Sym::ctx_poll_cq, 0, &[0]);
    for wc in into.iter().take(answer as usize) {
        completed(engine, at, wc.wr_id, wc.status, wc.qp_num);
    }
    answer as usize
}

fn poll_ex(engine: &mut Engine, at: usize, count: c_int) -> usize {
    let cq = engine.world.cqs.get(at).ex();
    let run = &mut engine.run;
    let comp_mask = run.draw.number(&[0, 0, 0, 0, 1]);
    let mut attr = PollCqAttr { comp_mask };
    let attr = if comp_mask == 0 && run.draw.once_in(3) {
        null()
    } else {
        &raw mut attr
    };
    let answer = through!(run, cq_start_poll, (*cq).start_poll, (cq, attr));
    let allowed: &[c_int] = if comp_mask == 0 {
        &[0, ENOENT]
    } else {
        &[EINVAL]
    };
    if !run.judge(Sym::cq_start_poll, answer, allowed) {
        return 0;
    }
    let mut found = Vec::new();
    loop {
        // SAFETY: between start and end.
        let (wr_id, status) = unsafe { ((*cq).wr_id, (*cq).status) };
        let number = read(engine, cq);
        found.push((wr_id, status, number));
        let run = &mut engine.run;
        if found.len() as c_int >= count {
            break;
        }
        let answer = through!(run, cq_next_poll, (*cq).next_poll, (cq));
        if !run.judge(Sym::cq_next_poll, answer, &[0, ENOENT]) {
            break;
        }
    }
    let run = &mut engine.run;
    through!(run, cq_end_poll, (*cq).end_poll, (cq));
    run.good(Sym::cq_end_poll);
    for &(wr_id, status, number) in &found {
        completed(engine, at, wr_id, status, number);
    }
    found.len()
}

/// Reads all that the queue has functions for; the queue pair's number, or 0.
pub(crate) fn read(engine: &mut Engine, cq: *mut CqEx) -> u32 {
    let run = &mut engine.run;
    macro_rules! each {
        ($($symbol:ident = $field:ident),+) => {
            $(
                // SAFETY: it is live.
                if unsafe { (*cq).$field }.is_some() {
                    through!(run, $symbol, (*cq).$field, (cq));
                    run.good(Sym::$symbol);
                }
            )+
        };
    }
    each!(
        cq_read_opcode = read_opcode,
        cq_read_vendor_err = read_vendor_err,
        cq_read_byte_len = read_byte_len,
        cq_read_imm_data = read_imm_data,
        cq_read_src_qp = read_src_qp,
        cq_read_wc_flags = read_wc_flags,
        cq_read_slid = read_slid,
        cq_read_sl = read_sl,
        cq_read_dlid_path_bits = read_dlid_path_bits
    );
    // SAFETY: it is live.
    if unsafe { (*cq).read_qp_num }.is_none() {
        return 0;
    }
    let number = through!(run, cq_read_qp_num, (*cq).read_qp_num, (cq));
    run.good(Sym::cq_read_qp_num);
    number
}

/// Ids of receives have this bit; the number of the queue pair is above the count.
pub(crate) const RECEIVE: u64 = 1 << 63;
/// Bits of the count.
pub(crate) const COUNT: u32 = 24;

/// `IBV_WC_SUCCESS`, `IBV_WC_WR_FLUSH_ERR`, and the last status that there is.
const SUCCESS: c_int = 0;
const FLUSHED: c_int = 5;
const LAST: c_int = 23;

/// Holds a completion against what was posted.
fn completed(engine: &mut Engine, at: usize, wr_id: u64, status: c_int, number: u32) {
    let (world, run) = (&mut engine.world, &mut engine.run);
    if !(0..=LAST).contains(&status) {
        run.fail(&format!("status {status}"));
    }
    let uid = (wr_id & !RECEIVE) >> COUNT;
    let count = wr_id & ((1 << COUNT) - 1);
    if world.cqs.get(at).shared {
        return;
    }
    let qp = world.qps.iter().find(|(_, qp)| qp.uid == uid);
    let Some((qp, live)) = qp else {
        if world.done.remove(&uid).is_none() {
            run.fail(&format!("a completion of nobody: {wr_id:#x}"));
        }
        world.done.insert(uid, Default::default());
        return;
    };
    if number != 0 && number != live.number() || live.shared {
        if live.shared {
            return;
        }
        run.fail(&format!("{wr_id:#x} has completed on queue pair {number}"));
    }
    let is_receive = wr_id & RECEIVE != 0;
    let (posted, kind, state) = match is_receive {
        true => (live.received, live.kind, live.state),
        false => (live.sent, live.kind, live.state),
    };
    let done = world.done.entry(uid).or_default();
    let last = if is_receive {
        mem::replace(&mut done.received, count)
    } else {
        mem::replace(&mut done.sent, count)
    };
    let skips = is_receive && count != last + 1;
    if count <= last || count > posted || skips {
        run.fail(&format!(
            "{wr_id:#x} completes behind {last}, of {posted} posted"
        ));
    }
    if status != SUCCESS {
        done.flushed |= !is_receive;
        if state == 3 && kind == 2 {
            run.tally.edges.insert((kind, 3, 6 + 100));
        }
    } else if done.flushed && kind == 2 && status != FLUSHED && !is_receive {
        run.fail(&format!("{wr_id:#x} succeeds behind a failure"));
    }
    let _ = qp;
}
