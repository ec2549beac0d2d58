//! Event channels, and ids that go from one to another.

use core::ffi::c_int;

use libc::EINVAL;

use crate::cm::api::Sym;
use crate::cm::engine::{CmEngine, none};
use crate::cm::events::{acknowledge_all, judged};
use crate::cm::world::LiveChannel;
use crate::run::rdma;

/// Makes a channel whose reads do not wait.
pub(in crate::cm) fn new_channel(engine: &mut CmEngine) -> usize {
    let ptr = rdma!(engine.run, create_event_channel());
    engine.run.made(Sym::create_event_channel, ptr, &[0]);
    // SAFETY: its descriptor.
    let set = unsafe { libc::fcntl((*ptr).fd, libc::F_SETFL, libc::O_NONBLOCK) };
    assert_eq!(set, 0, "a descriptor");
    engine.world.channels.add(LiveChannel { ptr })
}

/// Destroys one that no id uses.
pub(in crate::cm) fn end_channel(engine: &mut CmEngine, at: usize) {
    let channel = engine.world.channels.remove(at);
    // SAFETY: it is live until the next call.
    let fd = unsafe { (*channel.ptr).fd };
    rdma!(engine.run, destroy_event_channel(channel.ptr));
    engine.run.good(Sym::destroy_event_channel);
    // Another thread may have the number by now.
    let _ = fd;
}

/// Lets the events of an id come elsewhere.
fn migrate(engine: &mut CmEngine, at: usize, to: usize) {
    // The call waits for those that were taken.
    acknowledge_all(engine, at);
    let id = engine.world.ids.get(at).clone();
    let channel = engine.world.channels.get(to).ptr;
    let mut calls = vec![channel];
    if engine.run.draw.once_in(4) {
        // It is synchronous for a while.
        calls.insert(0, none());
    }
    for to in calls {
        let answer = rdma!(engine.run, migrate_id(id.ptr, to));
        judged(engine, Sym::migrate_id, at, answer, &[0]);
        let shown = id.shown().channel;
        if shown.is_null() || !to.is_null() && shown != to {
            engine.wrong(at, "its channel is not the one that it went to");
        }
        if to.is_null() && engine.run.draw.once_in(2) {
            let answer = rdma!(engine.run, migrate_id(id.ptr, none()));
            judged(engine, Sym::migrate_id, at, answer, &[EINVAL]);
        }
    }
    engine.world.ids.get_mut(at).channel = to;
}

/// A channel more or less, or an id that goes to another.
pub(in crate::cm) fn any(engine: &mut CmEngine) {
    let count = engine.world.channels.len();
    match engine.run.draw.below(6) {
        0 if count < 5 => {
            new_channel(engine);
        }
        1 if count > 2 => {
            let world = &engine.world;
            let used = |at: usize| world.ids.iter().any(|(_, id)| id.channel == at);
            let unused = world.channels.iter().map(|(at, _)| at);
            let unused: Vec<usize> = unused.filter(|at| !used(*at)).collect();
            match unused.first() {
                Some(at) => end_channel(engine, *at),
                None => empty_one(engine),
            }
        }
        _ => {
            let draw = &mut engine.run.draw;
            let at = engine.world.ids.pick(draw, |_| true);
            let to = engine.world.channels.pick(draw, |_| true);
            if let (Some(at), Some(to)) = (at, to) {
                migrate(engine, at, to);
            }
        }
    }
}

/// Lets all ids of a channel go to another, and destroys it.
fn empty_one(engine: &mut CmEngine) {
    let draw = &mut engine.run.draw;
    let (Some(from), Some(to)) = (
        engine.world.channels.pick(draw, |_| true),
        engine.world.channels.pick(draw, |_| true),
    ) else {
        return;
    };
    if from == to {
        return;
    }
    let ids: Vec<usize> = engine
        .world
        .ids
        .iter()
        .filter(|(_, id)| id.channel == from)
        .map(|(at, _)| at)
        .collect();
    for at in ids {
        migrate(engine, at, to);
    }
    end_channel(engine, from);
}

/// The flags of a channel's descriptor.
pub(in crate::cm) fn blocks(fd: c_int, blocks: bool) {
    let flags = if blocks { 0 } else { libc::O_NONBLOCK };
    // SAFETY: a descriptor of a live channel.
    let set = unsafe { libc::fcntl(fd, libc::F_SETFL, flags) };
    assert_eq!(set, 0, "a descriptor");
}
