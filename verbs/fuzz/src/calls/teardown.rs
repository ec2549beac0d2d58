//! The end of a sequence.

use core::mem;
use std::thread;
use std::time::{Duration, Instant};

use crate::api::Sym;
use crate::calls::address::{destroy_ah, leave_groups};
use crate::calls::cq::{destroy_channel, destroy_cq, poll_some};
use crate::calls::device::async_events;
use crate::calls::memory::{destroy_mr, destroy_pd, destroy_td};
use crate::calls::qp::attributes;
use crate::calls::qp::destroy_qp;
use crate::engine::Engine;
use crate::run::call;

/// How long completions may take that must come.
const PATIENCE: Duration = Duration::from_secs(10);

/// Destroys everything of this thread.
pub(crate) fn all(engine: &mut Engine) {
    let ctxs: Vec<_> = engine
        .world
        .ctxs
        .iter()
        .map(|(_, ctx)| ctx.clone())
        .collect();
    for ctx in ctxs.iter().filter(|ctx| !ctx.is_closed) {
        async_events(engine, ctx);
    }
    if engine.flushes {
        flush(engine);
    }
    let qps: Vec<_> = engine.world.qps.iter().map(|(at, _)| at).collect();
    for at in qps {
        leave_groups(engine, at);
    }
    while !engine.world.tds.is_empty() {
        let td = engine.world.tds.pick(&mut engine.run.draw, |_| true);
        destroy_td(engine, td.expect("some"));
    }
    if !engine.is_shared {
        close_some(engine);
    }
    let since = Instant::now();
    while left(engine) > 0 {
        match engine.run.draw.below(6) {
            0 => one(
                engine,
                |engine| engine.world.qps.pick(&mut engine.run.draw, |qp| !qp.shared),
                |engine, at| {
                    destroy_qp(engine, at);
                },
            ),
            1 => one(
                engine,
                |engine| engine.world.mrs.pick(&mut engine.run.draw, |_| true),
                |engine, at| {
                    destroy_mr(engine, at);
                },
            ),
            2 => one(
                engine,
                |engine| engine.world.ahs.pick(&mut engine.run.draw, |_| true),
                destroy_ah,
            ),
            3 => one(
                engine,
                |engine| engine.world.cqs.pick(&mut engine.run.draw, |cq| !cq.shared),
                |engine, at| {
                    destroy_cq(engine, at);
                },
            ),
            4 => one(
                engine,
                |engine| {
                    let shared = engine.is_shared;
                    engine
                        .world
                        .channels
                        .pick(&mut engine.run.draw, |channel| !(shared && channel.kept))
                },
                |engine, at| {
                    destroy_channel(engine, at);
                },
            ),
            _ => one(
                engine,
                |engine| {
                    let shared = engine.is_shared;
                    engine
                        .world
                        .pds
                        .pick(&mut engine.run.draw, |pd| !(shared && pd.kept))
                },
                |engine, at| {
                    destroy_pd(engine, at);
                },
            ),
        }
        if since.elapsed() > PATIENCE {
            engine
                .run
                .fail(&format!("objects are left: {:?}", engine.world));
        }
    }
    if engine.is_shared {
        engine.world = Default::default();
        return;
    }
    for (_, ctx) in mem::take(&mut engine.world).ctxs.iter() {
        if !ctx.is_closed {
            let answer = call!(engine.run, close_device(ctx.ptr));
            engine.run.judge(Sym::close_device, answer, &[0]);
        }
    }
}

fn one(
    engine: &mut Engine,
    pick: impl FnOnce(&mut Engine) -> Option<usize>,
    destroy: impl FnOnce(&mut Engine, usize),
) {
    if let Some(at) = pick(engine) {
        destroy(engine, at);
    }
}

fn left(engine: &Engine) -> usize {
    let (world, shared) = (&engine.world, engine.is_shared);
    let channels = world.channels.iter();
    let pds = world.pds.iter();
    world.qps.iter().filter(|(_, qp)| !qp.shared).count()
        + world.mrs.len()
        + world.ahs.len()
        + world.cqs.iter().filter(|(_, cq)| !cq.shared).count()
        + channels
            .filter(|(_, channel)| !(shared && channel.kept))
            .count()
        + pds.filter(|(_, pd)| !(shared && pd.kept)).count()
}

/// Closes contexts whose objects are live, as far as another context has nothing of them.
fn close_some(engine: &mut Engine) {
    let ctxs: Vec<_> = engine.world.ctxs.iter().map(|(at, _)| at).collect();
    for at in ctxs {
        let is_last = engine
            .world
            .ctxs
            .iter()
            .filter(|(_, ctx)| !ctx.is_closed)
            .count()
            == 1;
        if is_last || !engine.run.draw.once_in(3) {
            continue;
        }
        let ctx = engine.world.ctxs.get(at).clone();
        let answer = call!(engine.run, close_device(ctx.ptr));
        engine.run.judge(Sym::close_device, answer, &[0]);
        engine.world.ctxs.get_mut(at).is_closed = true;
    }
}

/// Takes queue pairs to ERR: every receive that was posted completes, and after it nothing.
fn flush(engine: &mut Engine) {
    let qps: Vec<_> = engine.world.qps.iter().map(|(at, _)| at).collect();
    let mut waiting = Vec::new();
    for at in qps {
        let qp = engine.world.qps.get(at).clone();
        let [send, recv] = qp.cqs.map(|cq| engine.world.cqs.get(cq).shared);
        if qp.shared || send || recv || qp.state == 0 || engine.run.draw.once_in(4) {
            continue;
        }
        let own = engine.own[engine.world.ctxs.get(qp.ctx).device];
        let mut attr = attributes(&own, 0, 0);
        attr.qp_state = 6;
        let answer = call!(engine.run, modify_qp(qp.ptr, &raw mut attr, 1));
        engine.run.judge(Sym::modify_qp, answer, &[0]);
        engine.world.qps.get_mut(at).state = 6;
        waiting.push(at);
    }
    let since = Instant::now();
    loop {
        waiting.retain(|at| {
            let qp = engine.world.qps.get(*at);
            let done = engine.world.done.get(&qp.uid).copied().unwrap_or_default();
            done.received < qp.received
        });
        let Some(at) = waiting.first() else { return };
        let cqs = engine.world.qps.get(*at).cqs;
        let found: usize = cqs.iter().map(|cq| poll_some(engine, *cq, 8)).sum();
        if found == 0 {
            thread::sleep(Duration::from_micros(100));
        }
        if since.elapsed() > PATIENCE {
            let qp = engine.world.qps.get(*at).clone();
            let done = engine.world.done.get(&qp.uid);
            engine
                .run
                .fail(&format!("receives are lost: {qp:?}, {done:?}"));
        }
    }
}
