//! Protection domains, regions, and domains of the extended interface.

use core::ffi::{c_int, c_uint, c_void};
use core::mem;
use std::ptr;

use e810_verbs::abi::make::ParentDomainInitAttr;
use libc::{EBUSY, EFAULT, EINVAL, ENOMEM, EOPNOTSUPP};

use crate::api::Sym;
use crate::engine::{Engine, null};
use crate::run::{call, errno, through};
use crate::world::{LiveMr, LivePd, LiveTd, PdRole};

const MOST_PDS: usize = 10;
const MOST_MRS: usize = 20;

/// Makes a protection domain, or destroys one.
pub(crate) fn pd(engine: &mut Engine) {
    let world = &mut engine.world;
    let run = &mut engine.run;
    if world.pds.len() < MOST_PDS && run.draw.once_in(2) {
        let ctx = world.ctxs.pick(&mut run.draw, |ctx| !ctx.is_closed);
        let Some(ctx) = ctx else { return };
        let ptr = call!(run, alloc_pd(world.ctxs.get(ctx).ptr));
        if run.made(Sym::alloc_pd, ptr, &[0]) {
            world.pds.add(LivePd {
                ptr,
                ctx,
                role: PdRole::Own,
                parents: 0,
                users: 0,
                kept: false,
            });
        }
        return;
    }
    let pd = world.pds.pick(&mut run.draw, |pd| !pd.kept);
    if let Some(pd) = pd {
        destroy_pd(engine, pd);
    }
}

/// Destroys one if it can be; whether it is gone.
pub(crate) fn destroy_pd(engine: &mut Engine, at: usize) -> bool {
    let (world, run) = (&mut engine.world, &mut engine.run);
    let pd = world.pds.get(at).clone();
    let is_named = world
        .pds
        .iter()
        .any(|(_, other)| other.role == PdRole::Imported(at));
    if is_named {
        // Its number may be given again while the other name is in use: the program's mistake.
        return false;
    }
    if let PdRole::Imported(_) = pd.role
        && run.draw.once_in(2)
    {
        call!(run, unimport_pd(pd.ptr));
        run.good(Sym::unimport_pd);
        world.pds.remove(at);
        return true;
    }
    let is_closed = world.ctxs.get(pd.ctx).is_closed;
    // What was made through another name of it went with that context.
    let some_closed = pd.users > 0 && world.ctxs.iter().any(|(_, ctx)| ctx.is_closed);
    let allowed: &[c_int] = match pd.role {
        PdRole::Own if pd.parents > 0 => &[EBUSY],
        // What other contexts have in it keeps it.
        PdRole::Own if is_closed || some_closed => &[0, EBUSY],
        PdRole::Own if pd.users > 0 => &[EBUSY],
        _ => &[0],
    };
    let answer = call!(run, dealloc_pd(pd.ptr));
    if !run.judge(Sym::dealloc_pd, answer, allowed) {
        return false;
    }
    if let PdRole::Parent(own) = pd.role {
        world.pds.get_mut(own).parents -= 1;
    }
    world.pds.remove(at);
    true
}

/// Makes a region, changes or destroys one.
pub(crate) fn mr(engine: &mut Engine) {
    match engine.run.draw.below(10) {
        0..5 if engine.world.mrs.len() < MOST_MRS => register(engine),
        5..8 => change(engine),
        _ => {
            let mr = engine.world.mrs.pick(&mut engine.run.draw, |mr| !mr.kept);
            if let Some(mr) = mr {
                destroy_mr(engine, mr);
            }
        }
    }
}

/// What a region's rights may be asked to be, and whether they can be had.
fn rights(engine: &mut Engine) -> (c_uint, c_int) {
    let rows: &[(c_uint, c_int)] = &[
        (7, 0),
        (7, 0),
        (7, 0),
        (0, 0),
        (1, 0),
        (5, 0),
        (9, 0),
        (7 | 1 << 20, 0),
        (7 | 1 << 29, 0),
        (4, 0),
        // Memory windows and huge pages: ignored, as by irdma.
        (7 | 1 << 4, 0),
        (7 | 1 << 7, 0),
        (2, EINVAL),
        (8, EINVAL),
        (7 | 1 << 15, EINVAL),
        (7 | 1 << 30, EINVAL),
        (7 | 1 << 31, EINVAL),
        (7 | 1 << 6, EOPNOTSUPP),
    ];
    engine.run.draw.number(rows)
}

/// Memory of the sequence: address, length, what it answers. `None` of the last: it is there.
fn memory(engine: &mut Engine) -> (usize, usize, Option<&'static [c_int]>) {
    let (run, arena) = (&mut engine.run, &engine.arena);
    let pages = arena.bytes() / 4096;
    match run.draw.below(12) {
        0 => (arena.address(), 0, Some(&[EINVAL])),
        1 => (0, 4096, Some(&[EFAULT])),
        2 => (0x10000, 4096, Some(&[EFAULT])),
        3 => (usize::MAX - 8191, 4096, Some(&[EINVAL, EFAULT])),
        4 => (usize::MAX - 4095, 8192, Some(&[EINVAL, EFAULT])),
        5 => (arena.address(), usize::MAX / 2, Some(&[EINVAL, EFAULT])),
        _ => {
            let start = run.draw.below(pages / 2) * 4096 + run.draw.number(&[0, 0, 1, 4095, 64]);
            let length = run.draw.number(&[1, 64, 4096, 4097, 65536, 200_000]);
            (arena.address() + start, length, None)
        }
    }
}

fn register(engine: &mut Engine) {
    let pd = engine.world.pds.pick(&mut engine.run.draw, |_| true);
    let Some(pd) = pd else { return };
    if engine
        .world
        .ctxs
        .get(engine.world.pds.get(pd).ctx)
        .is_closed
    {
        return;
    }
    let (flags, of_rights) = rights(engine);
    let (mut address, mut length, mut of_memory) = memory(engine);
    let mut own = None;
    if engine.run.draw.once_in(12) {
        // Memory that goes away while it is registered.
        // SAFETY: a new mapping.
        let mapped = unsafe {
            libc::mmap(
                ptr::null_mut(),
                8192,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        (address, length, of_memory) = (mapped as usize, 8192, None);
        own = Some((address, length));
    }
    let given = engine.world.pds.get(pd).clone();
    let run = &mut engine.run;
    let which = run.draw.below(3);
    let iova = match which {
        0 => address as u64,
        _ => run.draw.number(&[
            address as u64,
            address as u64 & 0xFFF,
            (address as u64 & 0xFFF) + (1 << 40),
            address as u64 + 1,
            u64::MAX - 100,
        ]),
    };
    run.about(|| format!("{address:#x} {length:#x} as {iova:#x}, rights {flags:#x}"));
    let start = address as *mut c_void;
    let (symbol, ptr) = match which {
        0 => (
            Sym::reg_mr,
            call!(run, reg_mr(given.ptr, start, length, flags as c_int)),
        ),
        1 => (
            Sym::reg_mr_iova,
            call!(
                run,
                reg_mr_iova(given.ptr, start, length, iova, flags as c_int)
            ),
        ),
        _ => (
            Sym::reg_mr_iova2,
            call!(run, reg_mr_iova2(given.ptr, start, length, iova, flags)),
        ),
    };
    let fits = iova & 0xFFF == address as u64 & 0xFFF && iova.checked_add(length as u64).is_some();
    let refusal = [of_rights, EINVAL];
    let allowed: &[c_int] = match of_memory {
        _ if of_rights != 0 => &refusal[..1],
        Some(allowed) if fits => allowed,
        Some(_) => &[EINVAL, EFAULT],
        None if fits => &[0],
        None => &[EINVAL],
    };
    if !run.made(symbol, ptr, allowed) {
        if let Some((address, length)) = own {
            // SAFETY: mapped above.
            unsafe { libc::munmap(address as *mut c_void, length) };
        }
        return;
    }
    let in_pd = engine.world.own_pd(pd);
    engine.world.pds.get_mut(in_pd).users += 1;
    // SAFETY: it was made just now.
    let key = unsafe { (*ptr).lkey };
    engine.world.mrs.add(LiveMr {
        ptr,
        ctx: given.ctx,
        pd: in_pd,
        address,
        length,
        key,
        iova,
        imported: false,
        own,
        gone: false,
        kept: false,
    });
    if let Some((address, length)) = own
        && engine.run.draw.once_in(2)
    {
        // SAFETY: mapped above; the device finds that it is gone.
        unsafe { libc::munmap(address as *mut c_void, length) };
        let (at, _) = engine
            .world
            .mrs
            .iter()
            .find(|(_, mr)| mr.ptr == ptr)
            .expect("live");
        let live = engine.world.mrs.get_mut(at);
        (live.own, live.gone) = (None, true);
    }
}

fn change(engine: &mut Engine) {
    let mr = engine
        .world
        .mrs
        .pick(&mut engine.run.draw, |mr| !mr.kept && !mr.imported);
    let Some(at) = mr else { return };
    let mr = engine.world.mrs.get(at).clone();
    let is_closed = engine.world.ctxs.get(mr.ctx).is_closed;
    let is_named = engine
        .world
        .mrs
        .iter()
        .any(|(_, other)| other.imported && other.key == mr.key);
    if is_closed || is_named {
        return;
    }
    let (flags, of_rights) = rights(engine);
    let (address, length, of_memory) = memory(engine);
    let run = &mut engine.run;
    let what = run
        .draw
        .number(&[0, 1, 2, 3, 4, 4, 4, 5, 6, 7, 8, 1 << 10, -1]);
    let pd = engine.world.pds.pick(&mut run.draw, |_| true);
    let pd = pd.filter(|_| !run.draw.once_in(6));
    let given = pd.map(|pd| engine.world.pds.get(pd).clone());
    let of_pd = match &given {
        None => EINVAL,
        Some(pd) if pd.ctx != mr.ctx => EINVAL,
        Some(_) => 0,
    };
    run.about(|| format!("{what}: {address:#x} {length:#x}, rights {flags:#x}, pd {of_pd}"));
    let pd_ptr = given.map_or(null(), |pd| pd.ptr);
    let start = address as *mut c_void;
    let answer = call!(
        run,
        rereg_mr(mr.ptr, what, pd_ptr, start, length, flags as c_int)
    );
    let wrong = (what & !7 != 0 || what == 0)
        || what & 4 != 0 && of_rights != 0
        || what & 1 != 0 && of_memory.is_some()
        || what & 2 != 0 && of_pd != 0;
    // -1 leaves it as it is. -4: it is gone; no change here is refused by the device itself.
    let number = match answer {
        0 => 0,
        -1 => errno().max(1),
        other => other - 1000,
    };
    let allowed: &[c_int] = match wrong {
        true => &[EINVAL, EFAULT, EOPNOTSUPP],
        // The kernel says ENOMEM of what is not there, and another thread may map it just then.
        false if mr.gone && what & 1 == 0 => &[0, EFAULT, ENOMEM],
        false => &[0],
    };
    if !run.judge(Sym::rereg_mr, number, allowed) {
        return;
    }
    // SAFETY: it is live.
    let key = unsafe { (*mr.ptr).lkey };
    let live = engine.world.mrs.get_mut(at);
    live.key = key;
    if what & 1 != 0 {
        let own = mem::take(&mut live.own);
        (live.address, live.length) = (address, length);
        live.iova = address as u64;
        live.gone = false;
        if let Some((address, length)) = own {
            // SAFETY: mapped for this region, which is elsewhere now.
            unsafe { libc::munmap(address as *mut c_void, length) };
        }
    }
    if what & 2 != 0 {
        let to = engine.world.own_pd(pd.expect("given"));
        engine.world.leave_pd(mr.pd);
        engine.world.pds.get_mut(to).users += 1;
        engine.world.mrs.get_mut(at).pd = to;
    }
}

/// Destroys one; whether it is gone.
pub(crate) fn destroy_mr(engine: &mut Engine, at: usize) -> bool {
    let mr = engine.world.mrs.get(at).clone();
    let run = &mut engine.run;
    if mr.imported {
        call!(run, unimport_mr(mr.ptr));
        run.good(Sym::unimport_mr);
        engine.world.mrs.remove(at);
        return true;
    }
    let answer = call!(run, dereg_mr(mr.ptr));
    run.judge(Sym::dereg_mr, answer, &[0]);
    engine.world.leave_pd(mr.pd);
    engine.world.mrs.remove(at);
    if let Some((address, length)) = mr.own {
        // SAFETY: mapped for this region.
        unsafe { libc::munmap(address as *mut c_void, length) };
    }
    true
}

/// Thread domains and parent domains.
pub(crate) fn domains(engine: &mut Engine) {
    let (world, run) = (&mut engine.world, &mut engine.run);
    match run.draw.below(3) {
        0 => {
            let ctx = world.ctxs.pick(&mut run.draw, |ctx| !ctx.is_closed);
            let Some(ctx) = ctx.filter(|_| world.tds.len() < 4) else {
                return;
            };
            let ctx = world.ctxs.get(ctx).clone();
            let ptr = through!(
                run,
                vctx_alloc_td,
                (*ctx.verbs()).alloc_td,
                (ctx.ptr, null())
            );
            if run.made(Sym::vctx_alloc_td, ptr, &[0]) {
                world.tds.add(LiveTd { ptr });
            }
        }
        1 => {
            let td = world.tds.pick(&mut run.draw, |_| true);
            if let Some(td) = td {
                destroy_td(engine, td);
            }
        }
        _ => parent(engine),
    }
}

pub(crate) fn destroy_td(engine: &mut Engine, at: usize) {
    let td = engine.world.tds.remove(at);
    let run = &mut engine.run;
    let open = engine.world.ctxs.pick(&mut run.draw, |ctx| !ctx.is_closed);
    let open = engine.world.ctxs.get(open.expect("open")).clone();
    let answer = through!(run, vctx_dealloc_td, (*open.verbs()).dealloc_td, (td.ptr));
    run.judge(Sym::vctx_dealloc_td, answer, &[0]);
}

fn parent(engine: &mut Engine) {
    let (world, run) = (&mut engine.world, &mut engine.run);
    let ctx = world.ctxs.pick(&mut run.draw, |ctx| !ctx.is_closed);
    let pd = world.pds.pick(&mut run.draw, |_| true);
    let (Some(ctx), Some(pd)) = (ctx, pd.filter(|_| world.pds.len() < MOST_PDS)) else {
        return;
    };
    let open = world.ctxs.get(ctx).clone();
    let td = world.tds.pick(&mut run.draw, |_| true);
    // SAFETY: numbers and null pointers.
    let nothing: ParentDomainInitAttr = unsafe { mem::zeroed() };
    let is_given = !run.draw.once_in(8);
    let comp_mask = run.draw.number(&[0, 0, 0, 0, 1, 2, u32::MAX]);
    let mut attr = ParentDomainInitAttr {
        pd: if is_given {
            world.pds.get(pd).ptr
        } else {
            null()
        },
        td: td.map_or(null(), |td| world.tds.get(td).ptr),
        comp_mask,
        ..nothing
    };
    let ptr = through!(
        run,
        vctx_alloc_parent_domain,
        (*open.verbs()).alloc_parent_domain,
        (open.ptr, &raw mut attr)
    );
    let expected = match comp_mask {
        _ if !is_given => EINVAL,
        0 if world.pds.get(pd).ctx != ctx => EINVAL,
        0 => 0,
        _ => EOPNOTSUPP,
    };
    if !run.made(Sym::vctx_alloc_parent_domain, ptr, &[expected]) {
        return;
    }
    let role = match world.pds.get(pd).role {
        PdRole::Own => PdRole::Parent(pd),
        role @ (PdRole::Parent(_) | PdRole::Imported(_)) => role,
    };
    if let PdRole::Parent(own) = role {
        world.pds.get_mut(own).parents += 1;
    }
    world.pds.add(LivePd {
        ptr,
        ctx,
        role,
        parents: 0,
        users: 0,
        kept: false,
    });
}
