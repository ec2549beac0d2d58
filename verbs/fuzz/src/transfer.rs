//! Messages between queue pairs that nobody else uses: every completion comes, and every byte is
//! where it belongs, and nowhere else.

use core::ffi::{c_int, c_void};
use core::mem;
use std::rc::Rc;
use std::time::{Duration, Instant};

use e810_verbs::abi::make::{CqInitAttrEx, QpCap, QpInitAttr, QpInitAttrEx};
use e810_verbs::abi::work::{RdmaTarget, RecvWr, SendTarget, SendWr, Sge, UdTarget, Wc};

use crate::api::Sym;
use crate::calls::cq::{RECEIVE, read};
use crate::calls::qp::{QKEY, RC, UD, attributes, mask_to, next_uid, path};
use crate::engine::{Engine, null};
use crate::run::{call, through};
use crate::world::{Arena, LiveAh, LiveChannel, LiveCq, LiveMr, LivePd, LiveQp, PdRole, access};

/// How long completions may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a message's place: a half that is sent from, and one that is received into.
const SLOT: usize = 1 << 15;
const SLOTS: usize = 3;
/// Bytes around what is received into, which stay as they are.
const GUARD: usize = 64;
/// What datagrams begin with.
const AREA: usize = 40;

/// Two queue pairs, connected.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    kind: c_int,
    sides: [Side; 2],
    is_across: bool,
}

/// One of them.
#[derive(Clone, Debug)]
struct Side {
    qp: usize,
    cq: usize,
    mr: usize,
    ah: Option<usize>,
    channel: usize,
    memory: Rc<Arena>,
}

impl Pair {
    /// Makes two, on these contexts.
    pub(crate) fn new(engine: &mut Engine, kind: c_int, ctxs: [usize; 2]) -> Self {
        let sides = ctxs.map(|ctx| Side::new(engine, kind, ctx));
        let devices = ctxs.map(|ctx| engine.world.ctxs.get(ctx).device);
        let pair = Self {
            kind,
            is_across: devices[0] != devices[1],
            sides,
        };
        for (at, side) in pair.sides.iter().enumerate() {
            let peer = engine.world.qps.get(pair.sides[1 - at].qp).number();
            let own = engine.own[devices[at]];
            let mut attr = attributes(&own, devices[1 - at], peer);
            // Machines are slow.
            (attr.timeout, attr.retry_cnt, attr.rnr_retry) = (19, 7, 7);
            for to in 1..4 {
                attr.qp_state = to;
                let qp = engine.world.qps.get(side.qp).ptr;
                let mask = mask_to(kind, to - 1, to);
                let answer = call!(engine.run, modify_qp(qp, &raw mut attr, mask));
                engine.run.judge(Sym::modify_qp, answer, &[0]);
                engine.world.qps.get_mut(side.qp).state = to;
                engine.run.tally.edges.insert((kind, to - 1, to));
            }
        }
        pair
    }

    pub(crate) fn has_cq(&self, cq: usize) -> bool {
        self.sides.iter().any(|side| side.cq == cq)
    }

    pub(crate) fn qps(&self) -> [usize; 2] {
        [self.sides[0].qp, self.sides[1].qp]
    }

    /// Leaves what it is to who destroys all.
    pub(crate) fn release(self, engine: &mut Engine) {
        for side in self.sides {
            let world = &mut engine.world;
            world.qps.get_mut(side.qp).kept = false;
            world.cqs.get_mut(side.cq).kept = false;
            world.mrs.get_mut(side.mr).kept = false;
            world.channels.get_mut(side.channel).kept = false;
            let pd = world.mrs.get(side.mr).pd;
            world.pds.get_mut(pd).kept = false;
            let key = world.mrs.get(side.mr).key;
            let names = world.mrs.iter();
            let names = names.filter(|(_, mr)| mr.imported && mr.key == key);
            let _ = names.count();
            // Nobody reaches its memory once the queue pairs are gone; the region goes first, so
            // that the memory is there as long as it.
            crate::calls::memory::destroy_mr(engine, side.mr);
        }
    }
}

impl Side {
    fn new(engine: &mut Engine, kind: c_int, ctx: usize) -> Self {
        let own = engine.own[engine.world.ctxs.get(ctx).device];
        let device = engine.world.ctxs.get(ctx).device;
        let (world, run) = (&mut engine.world, &mut engine.run);
        let open = world.ctxs.get(ctx).clone();
        let pd_ptr = call!(run, alloc_pd(open.ptr));
        run.made(Sym::alloc_pd, pd_ptr, &[0]);
        let pd = world.pds.add(LivePd {
            ptr: pd_ptr,
            ctx,
            role: PdRole::Own,
            parents: 0,
            users: 2,
            kept: true,
        });
        let memory = Rc::new(Arena::new(SLOT * SLOTS));
        let start = memory.address() as *mut c_void;
        let mr = call!(
            run,
            reg_mr(pd_ptr, start, memory.bytes(), access::ALL as c_int)
        );
        run.made(Sym::reg_mr, mr, &[0]);
        // SAFETY: it was made just now.
        let key = unsafe { (*mr).lkey };
        let mr = world.mrs.add(LiveMr {
            ptr: mr,
            ctx,
            pd,
            address: memory.address(),
            length: memory.bytes(),
            key,
            iova: memory.address() as u64,
            imported: false,
            own: None,
            gone: false,
            kept: true,
        });
        let channel_ptr = call!(run, create_comp_channel(open.ptr));
        run.made(Sym::create_comp_channel, channel_ptr, &[0]);
        // SAFETY: its descriptor.
        unsafe { libc::fcntl((*channel_ptr).fd, libc::F_SETFL, libc::O_NONBLOCK) };
        let channel = world.channels.add(LiveChannel {
            ptr: channel_ptr,
            ctx,
            cqs: 1,
            kept: true,
        });
        let is_ex = run.draw.once_in(2);
        let word = 0x77 as *mut c_void;
        let cq_ptr = if is_ex {
            let mut attr = CqInitAttrEx {
                cqe: 64,
                cq_context: word,
                channel: channel_ptr,
                comp_vector: 0,
                wc_flags: 0x7F,
                comp_mask: 0,
                flags: 0,
                parent_domain: null(),
            };
            let cq = through!(
                run,
                vctx_create_cq_ex,
                (*open.verbs()).create_cq_ex,
                (open.ptr, &raw mut attr)
            );
            run.made(Sym::vctx_create_cq_ex, cq, &[0]);
            cq.cast()
        } else {
            let cq = call!(run, create_cq(open.ptr, 64, word, channel_ptr, 0));
            run.made(Sym::create_cq, cq, &[0]);
            cq
        };
        let cq = world.cqs.add(LiveCq {
            ptr: cq_ptr,
            ctx,
            is_ex,
            channel: Some(channel),
            // Of sends and of receives.
            users: 2,
            room: 0,
            taken: 0,
            shared: false,
            kept: true,
        });
        let cap = QpCap {
            max_send_wr: 8,
            max_recv_wr: 8,
            max_send_sge: 2,
            max_recv_sge: 2,
            max_inline_data: 64,
        };
        let is_ex = run.draw.once_in(2);
        let qp = if is_ex {
            // SAFETY: numbers and null pointers.
            let nothing: QpInitAttrEx = unsafe { mem::zeroed() };
            let mut attr = QpInitAttrEx {
                send_cq: cq_ptr,
                recv_cq: cq_ptr,
                cap,
                qp_type: kind,
                comp_mask: 0x41,
                pd: pd_ptr,
                send_ops_flags: if kind == UD { 0xC } else { 0x29F },
                ..nothing
            };
            let qp = through!(
                run,
                vctx_create_qp_ex,
                (*open.verbs()).create_qp_ex,
                (open.ptr, &raw mut attr)
            );
            run.made(Sym::vctx_create_qp_ex, qp, &[0]);
            qp
        } else {
            let mut attr = QpInitAttr {
                qp_context: null(),
                send_cq: cq_ptr,
                recv_cq: cq_ptr,
                srq: null(),
                cap,
                qp_type: kind,
                sq_sig_all: 0,
            };
            let qp = call!(run, create_qp(pd_ptr, &raw mut attr));
            run.made(Sym::create_qp, qp, &[0]);
            qp
        };
        let qp = world.qps.add(LiveQp {
            ptr: qp,
            ctx,
            pd,
            cqs: [cq, cq],
            kind,
            is_ex,
            state: 0,
            caps: [8, 8, 2, 2, 64],
            uid: next_uid(),
            sent: 0,
            received: 0,
            groups: 0,
            shared: false,
            kept: true,
        });
        let ah = (kind == UD).then(|| {
            // Both are on one function.
            let mut attr = path(&own, device);
            let ptr = call!(run, create_ah(pd_ptr, &raw mut attr));
            run.made(Sym::create_ah, ptr, &[0]);
            world.pds.get_mut(pd).users += 1;
            world.ahs.add(LiveAh {
                ptr,
                ctx,
                pd,
                kept: true,
            })
        });
        Self {
            qp,
            cq,
            mr,
            ah,
            channel,
            memory,
        }
    }
}

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Message {
    Write = 0,
    WriteImm = 1,
    Send = 2,
    SendImm = 3,
    Read = 4,
}

/// A completion, as either interface has it.
#[derive(Clone, Copy, Debug)]
struct Completion {
    wr_id: u64,
    status: c_int,
    length: u32,
    imm: u32,
}

/// Some messages from one side to the other.
pub(crate) fn transfer(engine: &mut Engine, at: usize) {
    let pair = engine.pairs[at].clone();
    let draw = &mut engine.run.draw;
    let from = draw.below(2);
    let (source, target) = (&pair.sides[from], &pair.sides[1 - from]);
    let count = 1 + draw.below(SLOTS);
    let message = match pair.kind {
        UD => draw.number(&[2, 3]),
        _ => draw.below(5),
    };
    let message = match message {
        0 => Message::Write,
        1 => Message::WriteImm,
        2 => Message::Send,
        3 => Message::SendImm,
        _ => Message::Read,
    };
    let most = if pair.kind == UD { 1000 } else { 12_000 };
    let sizes: Vec<usize> = (0..count)
        .map(|_| {
            draw.number(&[0, 1, 8, 63, 64, 200, 1000, 1024, 5000, most])
                .min(most)
        })
        .collect();
    let is_inline = message != Message::Read && sizes.iter().all(|size| *size <= 64);
    let is_inline = is_inline && draw.once_in(2);
    let with_event = draw.once_in(4);
    let stamp = draw.word();
    let has_area = if pair.kind == UD { AREA } else { 0 };
    let is_received = matches!(
        message,
        Message::WriteImm | Message::Send | Message::SendImm
    );
    // Where the bytes come from, and where they go.
    let (giver, taker) = match message {
        Message::Read => (target, source),
        _ => (source, target),
    };
    let to = |slot: usize| slot * SLOT + SLOT / 2 + GUARD;
    for (slot, size) in sizes.iter().enumerate() {
        let bytes: Vec<u8> = (0..*size)
            .map(|at| (stamp.rotate_left(at as u32 % 64) as u8) ^ at as u8 ^ slot as u8)
            .collect();
        giver.memory.put(slot * SLOT, &bytes);
        taker
            .memory
            .fill(to(slot) - GUARD, size + has_area + 2 * GUARD, 0xEE);
    }
    engine
        .run
        .about(|| format!("{message:?} of {sizes:?} on pair {at} from {from}, inline {is_inline}"));
    if with_event {
        notify(engine, target.cq);
        notify(engine, source.cq);
    }
    if is_received {
        for (slot, size) in sizes.iter().enumerate() {
            receive(engine, target, slot, to(slot), size + has_area);
        }
    }
    let targets: Vec<(usize, usize, usize)> = sizes
        .iter()
        .enumerate()
        .map(|(slot, size)| match message {
            Message::Read => (to(slot), slot * SLOT, *size),
            _ => (slot * SLOT, to(slot), *size),
        })
        .collect();
    let use_ex = engine.world.qps.get(source.qp).is_ex && engine.run.draw.once_in(2);
    if use_ex {
        post_ex(engine, [source, target], message, &targets, is_inline);
    } else {
        post(engine, [source, target], message, &targets, is_inline);
    }
    // Both sides of a pair have a queue each.
    let sent = completions(engine, source, count);
    for (slot, done) in sent.iter().enumerate() {
        if done.status != 0 || done.wr_id != slot as u64 + 1 {
            engine.run.fail(&format!("request {slot}: {done:?}"));
        }
    }
    if is_received {
        let received = completions(engine, target, count);
        for (slot, done) in received.iter().enumerate() {
            let length = (sizes[slot] + has_area) as u32;
            let has_imm = matches!(message, Message::WriteImm | Message::SendImm);
            let wrong_imm = has_imm && done.imm != (slot as u32 + 7).to_be();
            let wrong = done.status != 0 || done.wr_id != RECEIVE | slot as u64;
            if wrong || wrong_imm || done.length != length {
                engine
                    .run
                    .fail(&format!("receive {slot} of {length} bytes: {done:?}"));
            }
        }
    }
    if with_event {
        // Where nothing completes there is no event, and the request for one stays.
        if is_received {
            event(engine, target);
        }
        event(engine, source);
    }
    for (slot, size) in sizes.iter().enumerate() {
        let expected = giver.memory.bytes_at(slot * SLOT, *size);
        let start = to(slot) + has_area;
        let got = taker.memory.bytes_at(start, *size);
        let before = taker.memory.bytes_at(to(slot) - GUARD, GUARD);
        let behind = taker.memory.bytes_at(start + size, GUARD);
        if got != expected || before.iter().chain(&behind).any(|byte| *byte != 0xEE) {
            engine
                .run
                .fail(&format!("{message:?} of {size} bytes: they are wrong"));
        }
        engine.run.tally.bytes += *size as u64;
    }
    engine.run.tally.transfers[usize::from(pair.is_across)] += count as u64;
}

fn receive(engine: &mut Engine, side: &Side, slot: usize, at: usize, length: usize) {
    let key = engine.world.mrs.get(side.mr).key;
    let qp = engine.world.qps.get(side.qp).ptr;
    let mut sge = Sge {
        addr: (side.memory.address() + at) as u64,
        length: length as u32,
        lkey: key,
    };
    let mut wr = RecvWr {
        wr_id: RECEIVE | slot as u64,
        next: null(),
        sg_list: &raw mut sge,
        num_sge: 1,
    };
    let mut bad = null();
    let run = &mut engine.run;
    let answer = through!(
        run,
        ctx_post_recv,
        (*(*qp).context).ops.post_recv,
        (qp, &raw mut wr, &raw mut bad)
    );
    run.judge(Sym::ctx_post_recv, answer, &[0]);
}

/// Posts a list: from, to, length each.
fn post(
    engine: &mut Engine,
    [source, target]: [&Side; 2],
    message: Message,
    targets: &[(usize, usize, usize)],
    is_inline: bool,
) {
    let keys = [source, target].map(|side| engine.world.mrs.get(side.mr).key);
    let qp = engine.world.qps.get(source.qp).clone();
    let peer = engine.world.qps.get(target.qp).number();
    let ah = source.ah.map_or(null(), |ah| engine.world.ahs.get(ah).ptr);
    let half = |length: usize| if is_inline { length } else { length / 2 };
    // In two pieces.
    let mut sges: Vec<[Sge; 2]> = targets
        .iter()
        .map(|(local, _, length)| {
            let piece = |at: usize, length: usize| Sge {
                addr: (source.memory.address() + at) as u64,
                length: length as u32,
                lkey: keys[0],
            };
            let first = half(*length);
            [piece(*local, first), piece(local + first, length - first)]
        })
        .collect();
    // SAFETY: numbers and null pointers.
    let mut wrs: Vec<SendWr> = targets.iter().map(|_| unsafe { mem::zeroed() }).collect();
    for (slot, (_, remote, length)) in targets.iter().enumerate() {
        let wr = match qp.kind {
            RC => SendTarget {
                rdma: RdmaTarget {
                    remote_addr: (target.memory.address() + remote) as u64,
                    rkey: keys[1],
                },
            },
            _ => SendTarget {
                ud: UdTarget {
                    ah,
                    remote_qpn: peer,
                    remote_qkey: QKEY,
                },
            },
        };
        wrs[slot] = SendWr {
            wr_id: slot as u64 + 1,
            sg_list: sges[slot].as_mut_ptr(),
            num_sge: match length {
                0 => 0,
                1 => 2,
                _ if is_inline => 1,
                _ => 2,
            },
            opcode: message as c_int,
            send_flags: 2 | if is_inline { 8 } else { 0 },
            imm_data: (slot as u32 + 7).to_be(),
            wr,
            ..wrs[slot]
        };
        // One byte is all in one piece.
        if wrs[slot].num_sge == 2 && *length == 1 {
            wrs[slot].num_sge = 1;
            sges[slot][0].length = 1;
        }
    }
    for slot in 1..wrs.len() {
        let next = &raw mut wrs[slot];
        wrs[slot - 1].next = next;
    }
    let mut bad = null();
    let run = &mut engine.run;
    let answer = through!(
        run,
        ctx_post_send,
        (*(*qp.ptr).context).ops.post_send,
        (qp.ptr, wrs.as_mut_ptr(), &raw mut bad)
    );
    run.judge(Sym::ctx_post_send, answer, &[0]);
}

/// The same through the extended interface.
fn post_ex(
    engine: &mut Engine,
    [source, target]: [&Side; 2],
    message: Message,
    targets: &[(usize, usize, usize)],
    is_inline: bool,
) {
    let keys = [source, target].map(|side| engine.world.mrs.get(side.mr).key);
    let qp = engine.world.qps.get(source.qp).clone();
    let peer = engine.world.qps.get(target.qp).number();
    let ah = source.ah.map_or(null(), |ah| engine.world.ahs.get(ah).ptr);
    let ex = qp.ex();
    let run = &mut engine.run;
    through!(run, qp_wr_start, (*ex).wr_start, (ex));
    run.good(Sym::qp_wr_start);
    for (slot, (local, remote, length)) in targets.iter().enumerate() {
        // SAFETY: its send queue is this thread's.
        unsafe {
            (*ex).wr_id = slot as u64 + 1;
            (*ex).wr_flags = 2;
        }
        let (key, addr) = (keys[1], (target.memory.address() + remote) as u64);
        let imm = (slot as u32 + 7).to_be();
        let symbol = match message {
            Message::Write => {
                through!(run, qp_wr_rdma_write, (*ex).wr_rdma_write, (ex, key, addr));
                Sym::qp_wr_rdma_write
            }
            Message::WriteImm => {
                through!(
                    run,
                    qp_wr_rdma_write_imm,
                    (*ex).wr_rdma_write_imm,
                    (ex, key, addr, imm)
                );
                Sym::qp_wr_rdma_write_imm
            }
            Message::Send => {
                through!(run, qp_wr_send, (*ex).wr_send, (ex));
                Sym::qp_wr_send
            }
            Message::SendImm => {
                through!(run, qp_wr_send_imm, (*ex).wr_send_imm, (ex, imm));
                Sym::qp_wr_send_imm
            }
            Message::Read => {
                through!(run, qp_wr_rdma_read, (*ex).wr_rdma_read, (ex, key, addr));
                Sym::qp_wr_rdma_read
            }
        };
        run.good(symbol);
        if qp.kind == UD {
            through!(
                run,
                qp_wr_set_ud_addr,
                (*ex).wr_set_ud_addr,
                (ex, ah, peer, QKEY)
            );
            run.good(Sym::qp_wr_set_ud_addr);
        }
        let start = source.memory.address() + local;
        if is_inline {
            let start = start as *mut c_void;
            through!(
                run,
                qp_wr_set_inline_data,
                (*ex).wr_set_inline_data,
                (ex, start, *length)
            );
            run.good(Sym::qp_wr_set_inline_data);
        } else if *length > 0 {
            let length = *length as u32;
            through!(
                run,
                qp_wr_set_sge,
                (*ex).wr_set_sge,
                (ex, keys[0], start as u64, length)
            );
            run.good(Sym::qp_wr_set_sge);
        }
    }
    let answer = through!(run, qp_wr_complete, (*ex).wr_complete, (ex));
    run.judge(Sym::qp_wr_complete, answer, &[0]);
}

fn notify(engine: &mut Engine, at: usize) {
    let cq = engine.world.cqs.get(at).ptr;
    let run = &mut engine.run;
    let answer = through!(
        run,
        ctx_req_notify_cq,
        (*(*cq).context).ops.req_notify_cq,
        (cq, 0)
    );
    run.judge(Sym::ctx_req_notify_cq, answer, &[0]);
}

/// The event that was asked for.
fn event(engine: &mut Engine, side: &Side) {
    let channel = engine.world.channels.get(side.channel).ptr;
    let own = engine.world.cqs.get(side.cq).ptr;
    let run = &mut engine.run;
    let since = Instant::now();
    loop {
        let (mut cq, mut word) = (null(), null());
        let answer = call!(run, get_cq_event(channel, &raw mut cq, &raw mut word));
        if answer == 0 {
            run.judge(Sym::get_cq_event, (cq != own).into(), &[0]);
            call!(run, ack_cq_events(cq, 1));
            run.good(Sym::ack_cq_events);
            return;
        }
        run.again(Sym::get_cq_event);
        if since.elapsed() > PATIENCE {
            run.fail("an event that was asked for does not come");
        }
        // SAFETY: one descriptor of the channel.
        unsafe {
            let mut poll = libc::pollfd {
                fd: (*channel).fd,
                events: libc::POLLIN,
                revents: 0,
            };
            libc::poll(&raw mut poll, 1, 100);
        }
    }
}

/// As many completions, in their order.
fn completions(engine: &mut Engine, side: &Side, count: usize) -> Vec<Completion> {
    let cq = engine.world.cqs.get(side.cq).clone();
    let use_ex = cq.is_ex && engine.run.draw.once_in(2);
    let mut found = Vec::new();
    let since = Instant::now();
    while found.len() < count {
        let before = found.len();
        if use_ex {
            poll_ex(engine, &cq, &mut found);
        } else {
            // SAFETY: numbers.
            let mut into: [Wc; 4] = unsafe { mem::zeroed() };
            let run = &mut engine.run;
            let answer = through!(
                run,
                ctx_poll_cq,
                (*(*cq.ptr).context).ops.poll_cq,
                (cq.ptr, 4, into.as_mut_ptr())
            );
            if answer == 0 {
                run.again(Sym::ctx_poll_cq);
            } else {
                run.judge(Sym::ctx_poll_cq, 0, &[0]);
            }
            found.extend(into.iter().take(answer as usize).map(|wc| Completion {
                wr_id: wc.wr_id,
                status: wc.status,
                length: wc.byte_len,
                imm: wc.imm_data,
            }));
        }
        if found.len() == before && since.elapsed() > PATIENCE {
            engine.run.fail(&format!(
                "completions are lost: {found:?}, of {count}; {side:?}"
            ));
        }
    }
    found
}

fn poll_ex(engine: &mut Engine, cq: &LiveCq, found: &mut Vec<Completion>) {
    let ex = cq.ex();
    let run = &mut engine.run;
    let answer = through!(run, cq_start_poll, (*ex).start_poll, (ex, null()));
    if answer != 0 {
        run.again(Sym::cq_start_poll);
        return;
    }
    run.good(Sym::cq_start_poll);
    loop {
        // SAFETY: between start and end, with all functions.
        let done = unsafe {
            Completion {
                wr_id: (*ex).wr_id,
                status: (*ex).status,
                length: (*ex).read_byte_len.expect("asked for")(ex),
                imm: (*ex).read_imm_data.expect("asked for")(ex),
            }
        };
        found.push(done);
        read(engine, ex);
        let run = &mut engine.run;
        let answer = through!(run, cq_next_poll, (*ex).next_poll, (ex));
        if !run.judge(Sym::cq_next_poll, answer, &[0, libc::ENOENT]) {
            break;
        }
    }
    let run = &mut engine.run;
    through!(run, cq_end_poll, (*ex).end_poll, (ex));
    run.good(Sym::cq_end_poll);
}
