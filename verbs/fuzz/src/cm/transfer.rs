//! Messages over what is connected: each arrives once, with its bytes.

use core::ffi::c_int;
use core::mem;
use std::time::{Duration, Instant};

use e810_verbs::abi::constants::access::LOCAL_WRITE;
use e810_verbs::abi::constants::{opcode, send_flag};
use e810_verbs::abi::objects::{Cq, Pd, Qp};
use e810_verbs::abi::work::{RecvWr, SendTarget, SendWr, Sge, UdTarget, Wc};

use super::engine::{CmEngine, none};
use super::world::{LiveId, Phase, Region};
use crate::api::Sym;
use crate::run::{call, through};

/// How long a message may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The greatest message.
const MOST: usize = 1000;
/// What datagrams begin with.
const AREA: usize = 40;
/// Where messages come from, and where they go.
const FROM: usize = 0;
const TO: usize = 4096;
const QUEUE: c_int = 64;

/// What all messages of a sequence need.
pub(super) fn begin(engine: &mut CmEngine) {
    for ctx in engine.ctxs {
        let pd = call!(engine.run, alloc_pd(ctx));
        engine.run.made(Sym::alloc_pd, pd, &[0]);
        engine.world.pds.push(pd);
        let cq = call!(engine.run, create_cq(ctx, QUEUE, none(), none(), 0));
        engine.run.made(Sym::create_cq, cq, &[0]);
        engine.world.cqs.push(cq);
    }
}

/// Its end.
pub(super) fn end(engine: &mut CmEngine) {
    for region in mem::take(&mut engine.world.regions) {
        let answer = call!(engine.run, dereg_mr(region.mr));
        engine.run.judge(Sym::dereg_mr, answer, &[0]);
    }
    for cq in mem::take(&mut engine.world.cqs) {
        let answer = call!(engine.run, destroy_cq(cq));
        engine.run.judge(Sym::destroy_cq, answer, &[0]);
    }
    for pd in mem::take(&mut engine.world.pds) {
        let answer = call!(engine.run, dealloc_pd(pd));
        engine.run.judge(Sym::dealloc_pd, answer, &[0]);
    }
}

/// The key of the sequence's memory in a protection domain.
fn key(engine: &mut CmEngine, pd: *mut Pd) -> u32 {
    let known = engine.world.regions.iter().find(|region| region.pd == pd);
    let mr = known.map(|region| region.mr).unwrap_or_else(|| {
        let arena = engine.world.arena.as_ref().expect("its memory");
        let (start, length) = (arena.address() as *mut _, arena.bytes());
        let mr = call!(engine.run, reg_mr(pd, start, length, LOCAL_WRITE as c_int));
        engine.run.made(Sym::reg_mr, mr, &[0]);
        engine.world.regions.push(Region { pd, mr });
        mr
    });
    // SAFETY: it is live.
    unsafe { (*mr).lkey }
}

fn is_ready(engine: &CmEngine, at: usize) -> bool {
    let id = engine.world.ids.get(at);
    let conn = id.conn.map(|conn| engine.world.conns.get(conn));
    let is_whole = conn.is_some_and(|conn| !conn.odd && conn.is_down == [false; 2]);
    id.phase == Phase::Connected && is_whole && !id.qp().is_null() && !id.is_stopped
}

/// Any two that are connected.
pub(super) fn any(engine: &mut CmEngine) {
    let wanted = |id: &LiveId| id.phase == Phase::Connected;
    if let Some(at) = engine.world.ids.pick(&mut engine.run.draw, wanted) {
        of(engine, at);
    }
}

/// A message from an id to its peer, if both are ready.
pub(super) fn of(engine: &mut CmEngine, at: usize) {
    let Some(peer) = engine.world.peer(at) else {
        return;
    };
    if !is_ready(engine, at) || !is_ready(engine, peer) {
        return;
    }
    let id = engine.world.ids.get(at).clone();
    if id.is_datagrams() && id.to.is_none() {
        return;
    }
    let (from, to) = (id.qp(), engine.world.ids.get(peer).qp());
    // SAFETY: both are live.
    let [sender, receiver] = unsafe { [from.read(), to.read()] };
    let keys = [sender.pd, receiver.pd].map(|pd| key(engine, pd));
    let length = engine.run.draw.number(&[0, 1, 8, 64, 500, MOST]);
    let area = if id.is_datagrams() { AREA } else { 0 };
    let stamp = engine.number();
    let bytes: Vec<u8> = (0..length)
        .map(|at| (stamp as usize + at * 7) as u8)
        .collect();
    let arena = engine.world.arena.as_ref().expect("its memory");
    arena.put(FROM, &bytes);
    arena.fill(TO, MOST + AREA + 64, 0xEE);
    let start = arena.address();
    engine
        .run
        .about(|| format!("{length} bytes from id {at} to {peer}"));
    receive(engine, to, (start + TO, length + area, keys[1]), stamp);
    let ah = match id.to {
        Some((mut address, ..)) if id.is_datagrams() => {
            let ah = call!(engine.run, create_ah(sender.pd, &raw mut address));
            engine.run.made(Sym::create_ah, ah, &[0]);
            ah
        }
        _ => none(),
    };
    let target = id
        .to
        .map_or_else(SendTarget::default, |(_, qpn, qkey)| SendTarget {
            ud: UdTarget {
                ah,
                remote_qpn: qpn,
                remote_qkey: qkey,
            },
        });
    if id.to.is_some_and(|(_, qpn, _)| qpn != receiver.qp_num) {
        engine.wrong(at, "its peer has another queue pair");
    }
    send(engine, from, (start + FROM, length, keys[0]), target, stamp);
    complete(engine, sender.send_cq, stamp, None);
    complete(engine, receiver.recv_cq, stamp, Some(length + area));
    if !ah.is_null() {
        let answer = call!(engine.run, destroy_ah(ah));
        engine.run.judge(Sym::destroy_ah, answer, &[0]);
    }
    let arena = engine.world.arena.as_ref().expect("its memory");
    let got = arena.bytes_at(TO + area, length);
    let behind = arena.bytes_at(TO + area + length, 64);
    if got != bytes || behind.iter().any(|byte| *byte != 0xEE) {
        engine.wrong(at, &format!("{length} bytes: they are wrong"));
    }
    let are_two = sender.context != receiver.context;
    engine.run.tally.transfers[usize::from(are_two)] += 1;
    engine.run.tally.bytes += length as u64;
}

fn sge((addr, length, lkey): (usize, usize, u32)) -> Sge {
    Sge {
        addr: addr as u64,
        length: length as u32,
        lkey,
    }
}

fn receive(engine: &mut CmEngine, qp: *mut Qp, place: (usize, usize, u32), stamp: u32) {
    let mut sge = sge(place);
    let mut wr = RecvWr {
        wr_id: stamp.into(),
        sg_list: &raw mut sge,
        num_sge: 1,
        ..RecvWr::default()
    };
    let mut bad = none();
    let run = &mut engine.run;
    let answer = through!(
        run,
        ctx_post_recv,
        (*(*qp).context).ops.post_recv,
        (qp, &raw mut wr, &raw mut bad)
    );
    run.judge(Sym::ctx_post_recv, answer, &[0]);
}

fn send(
    engine: &mut CmEngine,
    qp: *mut Qp,
    place: (usize, usize, u32),
    target: SendTarget,
    stamp: u32,
) {
    let mut sge = sge(place);
    let mut wr = SendWr {
        wr_id: stamp.into(),
        sg_list: &raw mut sge,
        num_sge: 1,
        opcode: opcode::SEND,
        send_flags: send_flag::SIGNALED,
        wr: target,
        ..SendWr::default()
    };
    let mut bad = none();
    let run = &mut engine.run;
    let answer = through!(
        run,
        ctx_post_send,
        (*(*qp).context).ops.post_send,
        (qp, &raw mut wr, &raw mut bad)
    );
    run.judge(Sym::ctx_post_send, answer, &[0]);
}

/// Its completion, and of a receive its length.
fn complete(engine: &mut CmEngine, cq: *mut Cq, stamp: u32, length: Option<usize>) {
    let since = Instant::now();
    loop {
        let mut wc = Wc::default();
        let run = &mut engine.run;
        let answer = through!(
            run,
            ctx_poll_cq,
            (*(*cq).context).ops.poll_cq,
            (cq, 1, &raw mut wc)
        );
        if answer == 1 {
            run.good(Sym::ctx_poll_cq);
            let is_length = length.is_none_or(|length| wc.byte_len == length as u32);
            if wc.wr_id != u64::from(stamp) || wc.status != 0 || !is_length {
                run.fail(&format!("message {stamp} of {length:?} bytes: {wc:?}"));
            }
            return;
        }
        run.again(Sym::ctx_poll_cq);
        if answer != 0 || since.elapsed() > PATIENCE {
            run.fail(&format!("a completion is lost: {stamp}, {answer}"));
        }
    }
}
