//! Address handles and multicast groups.

use core::ffi::c_int;

use e810_verbs::abi::constants::qp_type::UD;
use e810_verbs::abi::state::{AhAttr, Gid, Grh};
use e810_verbs::abi::work::Wc;
use libc::{EINVAL, ENOMEM};

use crate::api::Sym;
use crate::calls::qp::path;
use crate::engine::{Engine, gid_of};
use crate::run::call;
use crate::world::LiveAh;

const MOST: usize = 8;

/// Makes one, resolves an address, or destroys one.
pub(crate) fn handle(engine: &mut Engine) {
    match engine.run.draw.below(8) {
        0..3 if engine.world.ahs.len() < MOST => create(engine),
        3 => resolve(engine),
        4 | 5 => of_completion(engine),
        _ => {
            let ah = engine.world.ahs.pick(&mut engine.run.draw, |ah| !ah.kept);
            if let Some(ah) = ah {
                destroy_ah(engine, ah);
            }
        }
    }
}

/// An address, and what it answers.
fn address(engine: &mut Engine, device: usize) -> (AhAttr, c_int) {
    let own = engine.own[device];
    let draw = &mut engine.run.draw;
    let to = draw.below(2);
    let mut attr = path(&own, to);
    let mut wrong = EINVAL;
    match draw.below(12) {
        0 => attr.is_global = 0,
        1 => attr.port_num = draw.number(&[0, 2, 255]),
        2 => attr.grh.sgid_index = draw.number(&[3, 31, 200, 255]),
        3 => attr.grh.dgid.raw = [0; 16],
        4 => {
            attr.grh.flow_label = u32::MAX;
            attr.sl = 0xFF;
            attr.static_rate = 99;
            attr.dlid = 5;
            attr.grh.hop_limit = 0;
            wrong = 0;
        }
        _ => wrong = 0,
    }
    (attr, wrong)
}

fn create(engine: &mut Engine) {
    let pd = engine.world.pds.pick(&mut engine.run.draw, |_| true);
    let Some(pd) = pd else { return };
    let given = engine.world.pds.get(pd).clone();
    let ctx = engine.world.ctxs.get(given.ctx).clone();
    if ctx.is_closed {
        return;
    }
    let (mut attr, expected) = address(engine, ctx.device);
    let ptr = call!(engine.run, create_ah(given.ptr, &raw mut attr));
    if !engine.run.made(Sym::create_ah, ptr, &[expected]) {
        return;
    }
    let in_pd = engine.world.own_pd(pd);
    engine.world.pds.get_mut(in_pd).users += 1;
    engine.world.ahs.add(LiveAh {
        ptr,
        ctx: given.ctx,
        pd: in_pd,
        kept: false,
    });
}

fn resolve(engine: &mut Engine) {
    let ctx = engine
        .world
        .ctxs
        .pick(&mut engine.run.draw, |ctx| !ctx.is_closed);
    let Some(ctx) = ctx else { return };
    let ctx = engine.world.ctxs.get(ctx).clone();
    let (mut attr, expected) = address(engine, ctx.device);
    let (mut mac, mut vlan) = ([0; 6], 0);
    let answer = call!(
        engine.run,
        resolve_eth_l2_from_gid(ctx.ptr, &raw mut attr, mac.as_mut_ptr(), &raw mut vlan)
    );
    engine
        .run
        .judge(Sym::resolve_eth_l2_from_gid, answer, &[expected]);
}

/// The area of a datagram from one function to another.
fn area(from: usize, to: usize) -> Grh {
    Grh {
        version_tclass_flow: (6u32 << 28).to_be(),
        sgid: gid_of(from),
        dgid: gid_of(to),
        ..Grh::default()
    }
}

fn of_completion(engine: &mut Engine) {
    let pd = engine.world.pds.pick(&mut engine.run.draw, |_| true);
    let Some(pd) = pd else { return };
    let given = engine.world.pds.get(pd).clone();
    let ctx = engine.world.ctxs.get(given.ctx).clone();
    if ctx.is_closed {
        return;
    }
    let mut attr = AhAttr::default();
    let mut wc = Wc {
        wc_flags: 1,
        ..Wc::default()
    };
    let mut grh = area(1 - ctx.device, ctx.device);
    let run = &mut engine.run;
    let port = run.draw.number(&[1, 1, 1, 1, 0, 2]);
    let mut expected = if port == 1 { 0 } else { EINVAL };
    match run.draw.below(6) {
        0 => wc.wc_flags = 0,
        1 => grh.version_tclass_flow = 0,
        2 => grh.dgid.raw[15] ^= 0x55,
        _ => {}
    }
    if wc.wc_flags == 0 || grh.version_tclass_flow == 0 || grh.dgid != gid_of(ctx.device) {
        expected = EINVAL;
    }
    let answer = call!(
        run,
        init_ah_from_wc(ctx.ptr, port, &raw mut wc, &raw mut grh, &raw mut attr)
    );
    run.minus(Sym::init_ah_from_wc, answer, &[expected]);
    let ptr = call!(
        run,
        create_ah_from_wc(given.ptr, &raw mut wc, &raw mut grh, port)
    );
    if run.made(Sym::create_ah_from_wc, ptr, &[expected]) {
        let answer = call!(run, destroy_ah(ptr));
        run.judge(Sym::destroy_ah, answer, &[0]);
    }
}

pub(crate) fn destroy_ah(engine: &mut Engine, at: usize) {
    let ah = engine.world.ahs.remove(at);
    let answer = call!(engine.run, destroy_ah(ah.ptr));
    engine.run.judge(Sym::destroy_ah, answer, &[0]);
    engine.world.leave_pd(ah.pd);
}

/// Takes a queue pair into a group, or out.
pub(crate) fn group(engine: &mut Engine) {
    let qp = engine.world.qps.pick(&mut engine.run.draw, |qp| !qp.kept);
    let Some(at) = qp else { return };
    let qp = engine.world.qps.get(at).clone();
    if engine.world.has_closed(at) {
        return;
    }
    let run = &mut engine.run;
    let mut raw = [0; 16];
    raw[..2].copy_from_slice(&[0xFF, 0x0E]);
    let number = run.draw.below(3) as u8;
    raw[15] = number + 5;
    let is_group = !run.draw.once_in(8);
    if !is_group {
        raw[0] = 0x20;
    }
    let gid = Gid { raw };
    if run.draw.once_in(2) {
        let answer = call!(run, attach_mcast(qp.ptr, &raw const gid, 0));
        let allowed: &[c_int] = match is_group && qp.kind == UD {
            true => &[0, ENOMEM],
            false => &[EINVAL],
        };
        if run.judge(Sym::attach_mcast, answer, allowed) {
            engine.world.qps.get_mut(at).groups |= 1 << number;
        }
        return;
    }
    detach(engine, at, gid, is_group, number);
}

fn detach(engine: &mut Engine, at: usize, gid: Gid, is_group: bool, number: u8) {
    let qp = engine.world.qps.get(at).clone();
    let is_in = is_group && qp.groups & 1 << number != 0;
    let answer = call!(engine.run, detach_mcast(qp.ptr, &raw const gid, 0));
    let expected = if is_in { 0 } else { EINVAL };
    if engine.run.judge(Sym::detach_mcast, answer, &[expected]) {
        engine.world.qps.get_mut(at).groups &= !(1 << number);
    }
}

/// Takes one out of all its groups.
pub(crate) fn leave_groups(engine: &mut Engine, at: usize) {
    for number in 0..3 {
        if engine.world.qps.get(at).groups & 1 << number != 0 {
            let mut raw = [0; 16];
            raw[..2].copy_from_slice(&[0xFF, 0x0E]);
            raw[15] = number + 5;
            detach(engine, at, Gid { raw }, true, number);
        }
    }
}

/// Takes one into a group, and out.
pub(crate) fn in_and_out(engine: &mut Engine, at: usize) {
    let qp = engine.world.qps.get(at).ptr;
    let mut raw = [0; 16];
    raw[..2].copy_from_slice(&[0xFF, 0x0E]);
    raw[15] = 9;
    let gid = Gid { raw };
    let run = &mut engine.run;
    let answer = call!(run, attach_mcast(qp, &raw const gid, 0));
    run.judge(Sym::attach_mcast, answer, &[0]);
    let answer = call!(run, detach_mcast(qp, &raw const gid, 0));
    run.judge(Sym::detach_mcast, answer, &[0]);
}
