//! Queue pairs.

use core::ffi::{c_int, c_uint};
use core::{mem, ptr};
use std::sync::atomic::{AtomicU64, Ordering};

use e810_verbs::abi::constants::access;
use e810_verbs::abi::constants::qp_type::{RC, UD};
use e810_verbs::abi::make::{QpCap, QpInitAttr, QpInitAttrEx};
use e810_verbs::abi::state::{AhAttr, GlobalRoute, QpAttr};
use libc::{EBUSY, EINVAL, EOPNOTSUPP};

use crate::api::Sym;
use crate::engine::{Engine, gid_of, null};
use crate::run::{call, is_edge, through};
use crate::world::{LiveQp, Own};

const MOST_QPS: usize = 12;
pub(crate) const ALL_RIGHTS: c_uint =
    access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ;
/// Of datagrams here.
pub(crate) const QKEY: u32 = 0x1111_1111;

/// Numbers in ids of requests: not given twice in a process.
pub(crate) fn next_uid() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Attributes for a change, all right.
pub(crate) fn attributes(own: &Own, to_device: usize, number: u32) -> QpAttr {
    // SAFETY: numbers.
    let nothing: QpAttr = unsafe { mem::zeroed() };
    QpAttr {
        path_mtu: 3,
        qkey: QKEY,
        rq_psn: 0x11,
        sq_psn: 0x11,
        dest_qp_num: number,
        qp_access_flags: ALL_RIGHTS,
        ah_attr: path(own, to_device),
        max_rd_atomic: 1,
        max_dest_rd_atomic: 1,
        min_rnr_timer: 1,
        port_num: 1,
        timeout: 8,
        retry_cnt: 1,
        rnr_retry: 1,
        ..nothing
    }
}

/// The way to a function.
pub(crate) fn path(own: &Own, to_device: usize) -> AhAttr {
    AhAttr {
        grh: GlobalRoute {
            dgid: gid_of(to_device),
            flow_label: 0,
            sgid_index: own.index,
            hop_limit: 64,
            traffic_class: 0,
        },
        is_global: 1,
        port_num: 1,
        ..AhAttr::default()
    }
}

/// What a change to a state needs.
pub(crate) const fn mask_to(kind: c_int, from: c_int, to: c_int) -> c_int {
    const STATE: c_int = 1;
    const PATH: c_int = 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20;
    const TIMES: c_int = 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16;
    STATE
        | match (kind, to) {
            (RC, 1) => 1 << 3 | 1 << 4 | 1 << 5,
            (RC, 2) => PATH,
            (RC, 3) if from == 2 => TIMES,
            (UD, 1) => 1 << 4 | 1 << 5 | 1 << 6,
            (UD, 3) if from == 2 => 1 << 16,
            _ => 0,
        }
}

/// Makes one, or destroys one.
pub(crate) fn queue_pair(engine: &mut Engine) {
    if engine.world.qps.len() < MOST_QPS && !engine.run.draw.once_in(3) {
        return create(engine);
    }
    let qp = engine.world.qps.pick(&mut engine.run.draw, |qp| !qp.kept);
    if let Some(qp) = qp {
        destroy_qp(engine, qp);
    }
}

fn create(engine: &mut Engine) {
    let (world, run) = (&mut engine.world, &mut engine.run);
    let pd = world.pds.pick(&mut run.draw, |_| true);
    let Some(pd) = pd else { return };
    let ctx = world.pds.get(pd).ctx;
    if world.ctxs.get(ctx).is_closed {
        return;
    }
    let in_pairs = |at| engine.pairs.iter().any(|pair| pair.has_cq(at));
    // Most are right in everything: others are made of them.
    let is_right = !run.draw.once_in(3);
    let foreign = !is_right && run.draw.once_in(4);
    let mut cq = || {
        let found = world.cqs.pick(&mut run.draw, |cq| {
            (cq.ctx == ctx) != foreign && cq.room >= 600
        });
        found.filter(|at| !in_pairs(*at))
    };
    let (Some(send), Some(recv)) = (cq(), cq()) else {
        return;
    };
    let open = world.ctxs.get(ctx).clone();
    let kinds: &[(c_int, c_int)] = &[
        (RC, 0),
        (RC, 0),
        (RC, 0),
        (RC, 0),
        (RC, 0),
        (UD, 0),
        (UD, 0),
        (UD, 0),
        (3, EOPNOTSUPP),
        (8, EOPNOTSUPP),
        (9, EOPNOTSUPP),
        (10, EOPNOTSUPP),
        (0xFF, EOPNOTSUPP),
        (0, EINVAL),
        (99, EINVAL),
        (-1, EINVAL),
    ];
    let kinds = if is_right { &kinds[..8] } else { kinds };
    let (kind, of_kind) = run.draw.number(kinds);
    let sizes: &[([u32; 5], c_int)] = &[
        ([16, 16, 1, 1, 0], 0),
        ([16, 16, 1, 1, 0], 0),
        ([16, 16, 3, 2, 48], 0),
        ([16, 16, 13, 13, 96], 0),
        ([1, 1, 1, 1, 1], 0),
        ([4, 4, 2, 2, 101], 0),
        ([0, 0, 0, 0, 0], 0),
        ([u32::MAX, 1, 1, 1, 0], EINVAL),
        ([1, u32::MAX, 1, 1, 0], EINVAL),
        ([1, 1, 14, 1, 0], EINVAL),
        ([1, 1, 1, 14, 0], EINVAL),
        ([1, 1, 1, 1, 1000], EINVAL),
        ([1, 1, 1, u32::MAX, u32::MAX], EINVAL),
    ];
    let sizes = if is_right { &sizes[..7] } else { sizes };
    let (size, of_size) = run.draw.number(sizes);
    let cap = QpCap {
        max_send_wr: size[0],
        max_recv_wr: size[1],
        max_send_sge: size[2],
        max_recv_sge: size[3],
        max_inline_data: size[4],
    };
    let no_cq = !is_right && run.draw.once_in(10);
    let send_ptr = if no_cq {
        null()
    } else {
        world.cqs.get(send).ptr
    };
    let recv_ptr = world.cqs.get(recv).ptr;
    let with_srq = !is_right && run.draw.once_in(10);
    let srq = if with_srq {
        ptr::dangling_mut()
    } else {
        null()
    };
    let signal_all = run.draw.number(&[0, 1, 1, -1]);
    run.about(|| format!("kind {kind}, {size:?}, other context {foreign}, no queue {no_cq}"));
    let plain_error = match 0 {
        _ if of_kind != 0 => of_kind,
        _ if with_srq => EOPNOTSUPP,
        _ if no_cq || foreign => EINVAL,
        _ => of_size,
    };
    let mut is_ex = false;
    let (symbol, ptr, cap, allowed) = if run.draw.once_in(2) {
        let mut attr = QpInitAttr {
            qp_context: null(),
            send_cq: send_ptr,
            recv_cq: recv_ptr,
            srq,
            cap,
            qp_type: kind,
            sq_sig_all: signal_all,
        };
        let ptr = call!(run, create_qp(world.pds.get(pd).ptr, &raw mut attr));
        (Sym::create_qp, ptr, attr.cap, [plain_error, plain_error])
    } else {
        let masks: &[u32] = &[0x41, 0x41, 0x41, 1, 5, 0x45, 0, 0x40, 3, 1 << 20];
        let masks = if is_right { &masks[..4] } else { masks };
        let comp_mask = run.draw.number(masks);
        let create_flags = run.draw.number(&[0, 0, 0, 1]);
        let has = if kind == UD { 0xC } else { 0x29F };
        let ops: &[u64] = &[has, has, has, 0, 1 << 5, 1 << 8, 0x29F, u64::MAX];
        let ops = if is_right { &ops[..4] } else { ops };
        let ops = run.draw.number(ops);
        let other = world.pds.pick(&mut run.draw, |_| true).unwrap_or(pd);
        let given = if run.draw.once_in(10) { other } else { pd };
        // SAFETY: numbers and null pointers.
        let nothing: QpInitAttrEx = unsafe { mem::zeroed() };
        let mut attr = QpInitAttrEx {
            send_cq: send_ptr,
            recv_cq: recv_ptr,
            srq,
            cap,
            qp_type: kind,
            sq_sig_all: signal_all,
            comp_mask,
            pd: world.pds.get(given).ptr,
            create_flags,
            send_ops_flags: ops,
            ..nothing
        };
        run.about(|| format!("mask {comp_mask:#x}, flags {create_flags}, operations {ops:#x}"));
        let ptr = through!(
            run,
            vctx_create_qp_ex,
            (*open.verbs()).create_qp_ex,
            (open.ptr, &raw mut attr)
        );
        is_ex = comp_mask & 0x40 != 0;
        let ex_error = match 0 {
            _ if comp_mask & 1 == 0 => EINVAL,
            _ if world.pds.get(given).ctx != ctx => EINVAL,
            _ if comp_mask & !0x45 != 0 => EOPNOTSUPP,
            _ if comp_mask & 4 != 0 && create_flags != 0 => EOPNOTSUPP,
            _ if is_ex && ops & !has != 0 => EOPNOTSUPP,
            _ => plain_error,
        };
        // What is wrong with two things may answer either.
        let other = if ex_error != 0 { EINVAL } else { 0 };
        (Sym::vctx_create_qp_ex, ptr, attr.cap, [ex_error, other])
    };
    if !run.made(symbol, ptr, &allowed) {
        return;
    }
    let granted = [
        cap.max_send_wr,
        cap.max_recv_wr,
        cap.max_send_sge,
        cap.max_recv_sge,
        cap.max_inline_data,
    ];
    if granted
        .iter()
        .zip(&size)
        .any(|(granted, asked)| granted < asked)
    {
        run.fail(&format!("{granted:?} granted of {size:?}"));
    }
    let ex = call!(run, qp_to_qp_ex(ptr));
    run.judge(Sym::qp_to_qp_ex, (ex.is_null() == is_ex).into(), &[0]);
    // SAFETY: it was made just now.
    let named = unsafe { (*ptr).pd };
    let named = world.pds.iter().find(|(_, pd)| pd.ptr == named);
    let in_pd = world.own_pd(named.expect("live").0);
    world.pds.get_mut(in_pd).users += 1;
    for (cq, needs) in [(send, granted[0]), (recv, granted[1])] {
        let cq = world.cqs.get_mut(cq);
        cq.users += 1;
        cq.room = cq.room.saturating_sub(needs + 1);
    }
    world.qps.add(LiveQp {
        ptr,
        ctx,
        pd: in_pd,
        cqs: [send, recv],
        kind,
        is_ex,
        state: 0,
        caps: granted,
        uid: next_uid(),
        sent: 0,
        received: 0,
        groups: 0,
        shared: false,
        kept: false,
    });
}

/// Destroys one if it can be; whether it is gone.
pub(crate) fn destroy_qp(engine: &mut Engine, at: usize) -> bool {
    let qp = engine.world.qps.get(at).clone();
    let is_closed = engine.world.ctxs.get(qp.ctx).is_closed;
    let expected = if qp.groups > 0 && !is_closed {
        EBUSY
    } else {
        0
    };
    let run = &mut engine.run;
    let answer = call!(run, destroy_qp(qp.ptr));
    if !run.judge(Sym::destroy_qp, answer, &[expected]) {
        return false;
    }
    engine.world.leave_pd(qp.pd);
    for cq in qp.cqs {
        engine.world.cqs.get_mut(cq).users -= 1;
    }
    engine.world.done.insert(qp.uid, Default::default());
    engine.world.qps.remove(at);
    true
}

/// Its state as the library knows it.
pub(crate) fn state_of(engine: &mut Engine, at: usize) -> c_int {
    let qp = engine.world.qps.get(at).ptr;
    // SAFETY: numbers and null pointers.
    let (mut attr, mut init): (QpAttr, QpInitAttr) = unsafe { (mem::zeroed(), mem::zeroed()) };
    let mask = engine.run.draw.number(&[1, 0, -1, 0xF_FFFF]);
    let answer = call!(engine.run, query_qp(qp, &raw mut attr, mask, &raw mut init));
    engine.run.judge(Sym::query_qp, answer, &[0]);
    attr.qp_state
}

/// Asks one.
pub(crate) fn query(engine: &mut Engine) {
    let qp = engine.world.qps.pick(&mut engine.run.draw, |_| true);
    let Some(at) = qp else { return };
    if engine.world.has_closed(at) {
        return;
    }
    let now = state_of(engine, at);
    let qp = engine.world.qps.get(at).clone();
    let has_failed = now == 6 || now == 5 && qp.kind == UD;
    if !qp.shared && now != qp.state && !has_failed {
        let known = qp.state;
        engine.run.fail(&format!("state {now} instead of {known}"));
    }
    let run = &mut engine.run;
    let answer = call!(run, query_qp_data_in_order(qp.ptr, 2, 0));
    run.judge(Sym::query_qp_data_in_order, answer, &[0]);
}

/// Changes one, some times.
pub(crate) fn modify(engine: &mut Engine) {
    let qp = engine.world.qps.pick(&mut engine.run.draw, |qp| !qp.kept);
    let Some(at) = qp else { return };
    for _ in 0..1 + engine.run.draw.below(4) {
        change(engine, at);
    }
}

/// Changes one: to the next state, to any, with a mask or a value that is wrong.
fn change(engine: &mut Engine, at: usize) {
    if engine.world.has_closed(at) {
        return;
    }
    let from = state_of(engine, at);
    let qp = engine.world.qps.get(at).clone();
    let run = &mut engine.run;
    let to = match run.draw.below(10) {
        0..6 => match from {
            0 => 1,
            1 => 2,
            2 => 3,
            3 => run.draw.number(&[3, 3, 3, 3, 3, 3, 4, 6, 0]),
            4 => run.draw.number(&[3, 3, 4, 6, 0]),
            5 => run.draw.number(&[3, 6, 0, 0]),
            _ => 0,
        },
        _ => run.draw.number(&[0, 1, 2, 3, 4, 5, 6, 7, 99, -1]),
    };
    let own = engine.own[engine.world.ctxs.get(qp.ctx).device];
    let peer = engine.world.qps.pick(&mut engine.run.draw, |other| {
        other.kind == qp.kind && !other.kept
    });
    let peer = engine.world.qps.get(peer.unwrap_or(at)).clone();
    let device = engine.world.ctxs.get(peer.ctx).device;
    let mut attr = attributes(&own, device, peer.number());
    attr.qp_state = to;
    attr.cur_qp_state = from;
    let right = mask_to(qp.kind, from, to);
    let run = &mut engine.run;
    let can = is_edge(qp.kind, (from, to));
    let mut mask = right;
    let mut wrong: Option<&[c_int]> = None;
    match run.draw.below(8) {
        // A bit more or less.
        0 => {
            mask ^= 1 << run.draw.below(31);
            wrong = Some(&[0, EINVAL, EOPNOTSUPP]);
        }
        // Bits that have no place in the number are left out.
        2 if to == 2 && qp.kind == RC => attr.dest_qp_num |= 1 << 24,
        1 if to == 2 && qp.kind == RC => {
            match run.draw.below(7) {
                0 => attr.path_mtu = 99,
                1 => attr.max_dest_rd_atomic = 255,
                2 => attr.min_rnr_timer = 32,
                3 => attr.ah_attr.is_global = 0,
                4 => attr.ah_attr.grh.sgid_index = 200,
                5 => attr.ah_attr.port_num = 2,
                _ => attr.ah_attr.grh.dgid.raw = [0; 16],
            }
            wrong = Some(&[EINVAL]);
        }
        1 if to == 3 && from == 2 && qp.kind == RC => {
            match run.draw.below(3) {
                0 => attr.timeout = 32,
                1 => attr.retry_cnt = 8,
                _ => attr.rnr_retry = 8,
            }
            wrong = Some(&[EINVAL]);
        }
        1 if to == 1 => {
            match run.draw.below(2) {
                0 => attr.port_num = 2,
                _ => attr.pkey_index = 1,
            }
            wrong = Some(&[EINVAL]);
        }
        _ => {}
    }
    run.about(|| format!("{from} to {to}, service {}, mask {mask:#x}", qp.kind));
    let answer = call!(run, modify_qp(qp.ptr, &raw mut attr, mask));
    // The device may take it to ERR between the two calls.
    let may_fail = matches!(from, 2..=5);
    let allowed: &[c_int] = match wrong {
        Some(allowed) => allowed,
        // The device has no way back (docs/verbs.md).
        None if (from, to) == (5, 3) => &[EOPNOTSUPP, EINVAL],
        None if can && to == 3 && qp.kind == UD => &[0, EINVAL, EBUSY, EOPNOTSUPP],
        None if can && may_fail && !matches!(to, 0 | 6) => &[0, EINVAL, EBUSY],
        None if can => &[0],
        None if may_fail && matches!(to, 0 | 6) => &[0],
        None => &[EINVAL],
    };
    let changed = run.judge(Sym::modify_qp, answer, allowed);
    if changed && mask & 1 != 0 {
        run.tally.edges.insert((qp.kind, from, to));
    }
    // SAFETY: it is live.
    let shown = unsafe { (*qp.ptr).state };
    let live = engine.world.qps.get_mut(at);
    if changed && mask & 1 != 0 {
        live.state = to;
        if shown != to {
            engine
                .run
                .fail(&format!("it shows state {shown}, not {to}"));
        }
        if to == 0 {
            // What was posted is forgotten.
            engine.world.done.remove(&qp.uid);
            live.uid = next_uid();
            (live.sent, live.received) = (0, 0);
            // Completions that were in the queue before may be there still.
            engine.world.done.insert(qp.uid, Default::default());
        }
    } else {
        live.state = from;
    }
}
