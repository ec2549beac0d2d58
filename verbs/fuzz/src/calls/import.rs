//! Contexts and objects of another part of the process. Not those of transfers that are looked
//! at: by another name of its region any request could write there, or invalidate it.

use libc::EINVAL;

use crate::api::Sym;
use crate::engine::Engine;
use crate::run::call;
use crate::world::{LiveMr, LivePd, OpenCtx, PdRole};

pub(crate) fn any(engine: &mut Engine) {
    match engine.run.draw.below(3) {
        0 => device(engine),
        1 => pd(engine),
        _ => mr(engine),
    }
}

fn device(engine: &mut Engine) {
    let ctx = engine
        .world
        .ctxs
        .pick(&mut engine.run.draw, |ctx| !ctx.is_closed);
    let Some(at) = ctx else { return };
    let ctx = engine.world.ctxs.get(at).clone();
    let run = &mut engine.run;
    if run.draw.once_in(2) {
        // SAFETY: a descriptor that reads as nothing of this library's; closed below.
        let other = unsafe { libc::open(c"/dev/zero".as_ptr(), libc::O_RDONLY) };
        for fd in [-1, other] {
            let ptr = call!(run, import_device(fd));
            run.made(Sym::import_device, ptr, &[EINVAL]);
        }
        // SAFETY: opened above.
        unsafe { libc::close(other) };
        return;
    }
    // SAFETY: it is open; the copy is given away.
    let fd = unsafe { libc::dup((*ctx.ptr).cmd_fd) };
    let ptr = call!(run, import_device(fd));
    run.made(Sym::import_device, ptr, &[0]);
    if engine.world.ctxs.len() < 6 && !engine.is_shared {
        // SAFETY: it is open.
        unsafe { libc::fcntl((*ptr).async_fd, libc::F_SETFL, libc::O_NONBLOCK) };
        engine.world.ctxs.add(OpenCtx {
            ptr,
            device: ctx.device,
            is_closed: false,
            kept: false,
        });
        return;
    }
    let answer = call!(run, close_device(ptr));
    run.judge(Sym::close_device, answer, &[0]);
}

fn pd(engine: &mut Engine) {
    let ctx = engine
        .world
        .ctxs
        .pick(&mut engine.run.draw, |ctx| !ctx.is_closed);
    let own = engine.world.pds.pick(&mut engine.run.draw, |pd| {
        pd.role == PdRole::Own && !pd.kept
    });
    let (Some(ctx), Some(own)) = (ctx, own) else {
        return;
    };
    let open = engine.world.ctxs.get(ctx).clone();
    let theirs = engine.world.ctxs.get(engine.world.pds.get(own).ctx).clone();
    let run = &mut engine.run;
    if run.draw.once_in(4) || theirs.device != open.device || theirs.is_closed {
        let ptr = call!(run, import_pd(open.ptr, 0x00FF_FFF0));
        run.made(Sym::import_pd, ptr, &[EINVAL]);
        return;
    }
    // SAFETY: it is live.
    let handle = unsafe { (*engine.world.pds.get(own).ptr).handle };
    let ptr = call!(run, import_pd(open.ptr, handle));
    if !run.made(Sym::import_pd, ptr, &[0]) {
        return;
    }
    if engine.world.pds.len() >= 12 {
        call!(run, unimport_pd(ptr));
        run.good(Sym::unimport_pd);
        return;
    }
    engine.world.pds.add(LivePd {
        ptr,
        ctx,
        role: PdRole::Imported(own),
        parents: 0,
        users: 0,
        kept: false,
    });
}

fn mr(engine: &mut Engine) {
    let pd = engine.world.pds.pick(&mut engine.run.draw, |_| true);
    let mr = engine
        .world
        .mrs
        .pick(&mut engine.run.draw, |mr| !mr.imported && !mr.kept);
    let (Some(pd), Some(at)) = (pd, mr) else {
        return;
    };
    let given = engine.world.pds.get(pd).clone();
    let mr = engine.world.mrs.get(at).clone();
    let (open, theirs) = (
        engine.world.ctxs.get(given.ctx).clone(),
        engine.world.ctxs.get(mr.ctx).clone(),
    );
    if open.is_closed {
        return;
    }
    let run = &mut engine.run;
    if run.draw.once_in(4) || theirs.device != open.device || theirs.is_closed {
        let ptr = call!(run, import_mr(given.ptr, 0xFFFF_FFF0));
        run.made(Sym::import_mr, ptr, &[EINVAL]);
        return;
    }
    let ptr = call!(run, import_mr(given.ptr, mr.key));
    if !run.made(Sym::import_mr, ptr, &[0]) {
        return;
    }
    if engine.world.mrs.len() >= 22 {
        call!(run, unimport_mr(ptr));
        run.good(Sym::unimport_mr);
        return;
    }
    engine.world.mrs.add(LiveMr {
        ptr,
        ctx: given.ctx,
        pd: mr.pd,
        imported: true,
        own: None,
        kept: false,
        ..mr
    });
}
