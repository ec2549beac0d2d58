//! Two connected queue pairs, with queues, memory and a channel of their own.

use core::ffi::{c_int, c_void};
use core::mem;
use std::rc::Rc;

use e810_verbs::abi::constants::qp_type::UD;
use e810_verbs::abi::make::{CqInitAttrEx, QpCap, QpInitAttr, QpInitAttrEx};

use super::{SLOT, SLOTS};
use crate::api::Sym;
use crate::calls::qp::{ALL_RIGHTS, attributes, mask_to, next_uid, path};
use crate::engine::{Engine, null};
use crate::run::{call, through};
use crate::world::{Arena, LiveAh, LiveChannel, LiveCq, LiveMr, LivePd, LiveQp, PdRole};

/// Two queue pairs, connected.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(super) kind: c_int,
    pub(super) sides: [Side; 2],
    pub(super) is_across: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) qp: usize,
    pub(super) cq: usize,
    pub(super) mr: usize,
    pub(super) ah: Option<usize>,
    pub(super) channel: usize,
    pub(super) memory: Rc<Arena>,
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

    /// Destroys its regions and lets the teardown destroy the rest.
    pub(crate) fn release(self, engine: &mut Engine) {
        for side in self.sides {
            let world = &mut engine.world;
            world.qps.get_mut(side.qp).kept = false;
            world.cqs.get_mut(side.cq).kept = false;
            world.mrs.get_mut(side.mr).kept = false;
            world.channels.get_mut(side.channel).kept = false;
            let pd = world.mrs.get(side.mr).pd;
            world.pds.get_mut(pd).kept = false;
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
            reg_mr(pd_ptr, start, memory.bytes(), ALL_RIGHTS as c_int)
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
