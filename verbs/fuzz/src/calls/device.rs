//! Devices, ports and their tables; what needs no object.

use core::ffi::{CStr, c_char, c_int};
use core::mem;

use libc::{EAGAIN, EINVAL, ENODATA, ENOENT, EOPNOTSUPP};

use crate::api::Sym;
use crate::engine::{Engine, null};
use crate::run::{call, through};
use crate::world::OpenCtx;

const NUMBERS: &[c_int] = &[
    0,
    1,
    2,
    3,
    7,
    8,
    18,
    19,
    20,
    255,
    -1,
    c_int::MAX,
    c_int::MIN,
];
/// Addresses of a function: its own of the link, and two that it was given.
const ENTRIES: usize = 3;
/// Entries of the GID table.
const GIDS: c_int = 32;

pub(crate) fn any(engine: &mut Engine) {
    let run = &mut engine.run;
    let number = run.draw.number(NUMBERS);
    match run.draw.below(24) {
        0 => {
            let texts = [
                (Sym::node_type_str, call!(run, node_type_str(number))),
                (Sym::port_state_str, call!(run, port_state_str(number))),
                (Sym::event_type_str, call!(run, event_type_str(number))),
                (Sym::wc_status_str, call!(run, wc_status_str(number))),
            ];
            for (symbol, text) in texts {
                // SAFETY: all of them give a string that stays.
                let text = unsafe { CStr::from_ptr(text) };
                let answer = if text.is_empty() { EINVAL } else { 0 };
                run.judge(symbol, answer, &[0]);
            }
        }
        1 => {
            let rate = call!(run, rate_to_mult(number));
            let back = call!(run, mult_to_rate(rate));
            let mbps = call!(run, rate_to_mbps(number));
            let rate = call!(run, mbps_to_rate(mbps));
            let known = (1..=23).contains(&number);
            let answer = |is_right| if is_right { 0 } else { EINVAL };
            run.judge(Sym::rate_to_mult, answer(!known || back >= 0), &[0]);
            run.judge(Sym::mult_to_rate, answer(back >= 0), &[0]);
            run.judge(Sym::rate_to_mbps, answer(mbps != 0), &[0]);
            run.judge(Sym::mbps_to_rate, answer(rate >= 0), &[0]);
        }
        2 => files_and_forks(engine),
        3 => list(engine),
        4 => refused(engine),
        5 => open_and_close(engine),
        _ => {
            let Some(ctx) = pick(engine) else { return };
            tables(engine, &ctx);
        }
    }
}

/// An open context.
fn pick(engine: &mut Engine) -> Option<OpenCtx> {
    let ctxs = &engine.world.ctxs;
    let at = ctxs.pick(&mut engine.run.draw, |ctx| !ctx.is_closed)?;
    Some(ctxs.get(at).clone())
}

fn files_and_forks(engine: &mut Engine) {
    let run = &mut engine.run;
    let path = call!(run, get_sysfs_path());
    run.made(Sym::get_sysfs_path, path.cast_mut(), &[0]);
    let mut text = [0 as c_char; 16];
    let (folder, file) = (c"/sys/class".as_ptr(), c"board_id".as_ptr());
    let answer = call!(run, read_sysfs_file(folder, file, text.as_mut_ptr(), 16));
    run.minus(Sym::read_sysfs_file, answer, &[ENOENT]);
    let answer = call!(run, fork_init());
    run.judge(Sym::fork_init, answer, &[0]);
    let answer = call!(run, is_fork_initialized());
    run.judge(Sym::is_fork_initialized, answer - 2, &[0]);
    let answer = call!(run, dontfork_range(null(), 4096));
    run.judge(Sym::dontfork_range, answer, &[0]);
    let answer = call!(run, dofork_range(null(), 4096));
    run.judge(Sym::dofork_range, answer, &[0]);
}

fn list(engine: &mut Engine) {
    let run = &mut engine.run;
    let mut count: c_int = -1;
    let into = if run.draw.once_in(3) {
        null()
    } else {
        &raw mut count
    };
    let list = call!(run, get_device_list(into));
    run.made(Sym::get_device_list, list, &[0]);
    call!(run, free_device_list(list));
    run.good(Sym::free_device_list);
    let device = engine.devices[run.draw.below(2)];
    let name = call!(run, get_device_name(device));
    run.made(Sym::get_device_name, name.cast_mut(), &[0]);
    let guid = call!(run, get_device_guid(device));
    run.judge(
        Sym::get_device_guid,
        if guid == 0 { EINVAL } else { 0 },
        &[0],
    );
    let index = call!(run, get_device_index(device));
    run.judge(Sym::get_device_index, index + 1, &[0]);
}

/// What the card has not got.
fn refused(engine: &mut Engine) {
    let Some(ctx) = pick(engine) else { return };
    let pd = engine.world.pds.pick(&mut engine.run.draw, |_| true);
    let pd = pd.map_or(null(), |pd| engine.world.pds.get(pd).ptr);
    let qp = engine.world.qps.pick(&mut engine.run.draw, |_| true);
    let qp = qp.map_or(null(), |qp| engine.world.qps.get(qp).ptr);
    let run = &mut engine.run;
    // SAFETY: numbers and null pointers.
    let (mut srq, mut ece) = unsafe { (mem::zeroed(), mem::zeroed()) };
    const NOT: &[c_int] = &[EOPNOTSUPP];
    let made = call!(run, create_srq(pd, &raw mut srq));
    run.made(Sym::create_srq, made, NOT);
    let answer = call!(run, modify_srq(null(), null(), 1));
    run.judge(Sym::modify_srq, answer, NOT);
    let answer = call!(run, query_srq(null(), null()));
    run.judge(Sym::query_srq, answer, NOT);
    let answer = call!(run, destroy_srq(null()));
    run.judge(Sym::destroy_srq, answer, NOT);
    let answer = call!(run, query_ece(qp, &raw mut ece));
    run.judge(Sym::query_ece, answer, NOT);
    let answer = call!(run, set_ece(qp, &raw mut ece));
    run.judge(Sym::set_ece, answer, NOT);
    let made = call!(run, reg_dmabuf_mr(pd, 0, 4096, 0, -1, 1));
    run.made(Sym::reg_dmabuf_mr, made, NOT);
    let made = call!(run, import_dm(ctx.ptr, 7));
    run.made(Sym::import_dm, made, NOT);
    call!(run, unimport_dm(null()));
    call!(run, copy_path_rec_from_kern(null(), null()));
    call!(run, copy_path_rec_to_kern(null(), null()));
    call!(run, copy_qp_attr_from_kern(null(), null()));
    call!(run, copy_ah_attr_from_kern(null(), null()));
}

/// A context with an object, which is closed first in half of the cases.
fn open_and_close(engine: &mut Engine) {
    let run = &mut engine.run;
    let device = engine.devices[run.draw.below(2)];
    let ctx = call!(run, open_device(device));
    run.made(Sym::open_device, ctx, &[0]);
    let pd = call!(run, alloc_pd(ctx));
    run.made(Sym::alloc_pd, pd, &[0]);
    let channel = call!(run, create_comp_channel(ctx));
    run.made(Sym::create_comp_channel, channel, &[0]);
    let cq = call!(run, create_cq(ctx, 16, null(), channel, 0));
    run.made(Sym::create_cq, cq, &[0]);
    let close_first = run.draw.once_in(2);
    if close_first {
        let answer = call!(run, close_device(ctx));
        run.judge(Sym::close_device, answer, &[0]);
    }
    let answer = call!(run, destroy_cq(cq));
    run.judge(Sym::destroy_cq, answer, &[0]);
    let answer = call!(run, destroy_comp_channel(channel));
    run.judge(Sym::destroy_comp_channel, answer, &[0]);
    let answer = call!(run, dealloc_pd(pd));
    run.judge(Sym::dealloc_pd, answer, &[0]);
    if !close_first {
        let answer = call!(run, close_device(ctx));
        run.judge(Sym::close_device, answer, &[0]);
    }
}

fn tables(engine: &mut Engine, ctx: &OpenCtx) {
    let run = &mut engine.run;
    let ports = [0, 1, 1, 1, 1, 2, 3, 255];
    let port: u8 = run.draw.number(&ports);
    let of_port = if port == 1 { 0 } else { EINVAL };
    let index = run.draw.number(&[
        0,
        1,
        1,
        2,
        31,
        32,
        200,
        255,
        256,
        -1,
        c_int::MAX,
        c_int::MIN,
    ]);
    let in_table = (0..GIDS).contains(&index) || port != 1;
    match run.draw.below(10) {
        0 => {
            // SAFETY: numbers.
            let mut attr = unsafe { mem::zeroed() };
            let answer = call!(run, query_device(ctx.ptr, &raw mut attr));
            run.judge(Sym::query_device, answer, &[0]);
        }
        1 => {
            // SAFETY: numbers.
            let mut attr = unsafe { mem::zeroed() };
            let answer = call!(run, query_port(ctx.ptr, port, &raw mut attr));
            run.judge(Sym::query_port, answer, &[of_port]);
        }
        2 => {
            // SAFETY: numbers.
            let mut gid = unsafe { mem::zeroed() };
            let answer = call!(run, query_gid(ctx.ptr, port, index, &raw mut gid));
            let expected = if port == 1 && in_table { 0 } else { EINVAL };
            run.minus(Sym::query_gid, answer, &[expected]);
        }
        3 => {
            let mut kind = -1;
            let answer = call!(
                run,
                query_gid_type(ctx.ptr, port, index as u32, &raw mut kind)
            );
            let expected = if port == 1 && in_table { 0 } else { EINVAL };
            run.minus(Sym::query_gid_type, answer, &[expected]);
        }
        4 => {
            // SAFETY: numbers.
            let mut entry = unsafe { mem::zeroed() };
            let flags = run.draw.number(&[0, 0, 0, 1, u32::MAX]);
            let size = run.draw.number(&[32, 32, 0, 1, 24]);
            let port: u32 = run.draw.number(&[1, 1, 1, 0, 2, 257, u32::MAX]);
            let answer = call!(
                run,
                query_gid_ex(ctx.ptr, port, index as u32, &raw mut entry, flags, size)
            );
            let allowed: &[c_int] = match (0..GIDS).contains(&index) {
                _ if flags != 0 || port != 1 => &[EINVAL],
                true if index < ENTRIES as c_int => &[0],
                true => &[ENODATA],
                false => &[EINVAL],
            };
            run.judge(Sym::query_gid_ex, answer, allowed);
        }
        5 => {
            // SAFETY: numbers.
            let mut entries: [_; 4] = unsafe { mem::zeroed() };
            let most = run.draw.below(5);
            let flags = run.draw.number(&[0, 0, 0, 9]);
            let answer = call!(
                run,
                query_gid_table(ctx.ptr, entries.as_mut_ptr(), most, flags, 32)
            );
            let expected = if most < ENTRIES || flags != 0 {
                EINVAL
            } else {
                0
            };
            let answer = if answer == ENTRIES as isize {
                0
            } else {
                -answer as c_int
            };
            run.judge(Sym::query_gid_table, answer, &[expected]);
        }
        6 => {
            let mut key = 0;
            let index = run.draw.number(&[0, 0, 0, 1, -1, 65536, c_int::MIN]);
            let answer = call!(run, query_pkey(ctx.ptr, port, index, &raw mut key));
            let expected = if port == 1 && index == 0 { 0 } else { EINVAL };
            run.minus(Sym::query_pkey, answer, &[expected]);
            let key = run.draw.number(&[0xFFFF, 0x7FFF, 0]);
            let answer = call!(run, get_pkey_index(ctx.ptr, port, key));
            let expected = if port == 1 && key == 0xFFFF { 0 } else { -1 };
            run.judge(Sym::get_pkey_index, answer, &[expected]);
        }
        7 => {
            // SAFETY: numbers.
            let mut attr: e810_verbs::abi::query::PortAttr = unsafe { mem::zeroed() };
            let size = run.draw.number(&[52, 52, 48, 0, 1]);
            let answer = through!(
                run,
                vctx_query_port,
                (*ctx.verbs()).query_port,
                (ctx.ptr, port, &raw mut attr, size)
            );
            run.judge(Sym::vctx_query_port, answer, &[of_port]);
        }
        8 => {
            // SAFETY: numbers.
            let mut attr: e810_verbs::abi::query::DeviceAttrEx = unsafe { mem::zeroed() };
            let size = run.draw.number(&[400, 400, 0, 232, 7]);
            let answer = through!(
                run,
                vctx_query_device_ex,
                (*ctx.verbs()).query_device_ex,
                (
                    ctx.ptr,
                    null::<core::ffi::c_void>().cast_const(),
                    &raw mut attr,
                    size
                )
            );
            run.judge(Sym::vctx_query_device_ex, answer, &[0]);
        }
        _ => async_events(engine, ctx),
    }
}

/// Takes what there is; the descriptor does not block.
pub(crate) fn async_events(engine: &mut Engine, ctx: &OpenCtx) {
    let run = &mut engine.run;
    loop {
        // SAFETY: numbers.
        let mut event = unsafe { mem::zeroed() };
        let answer = call!(run, get_async_event(ctx.ptr, &raw mut event));
        if !run.minus(Sym::get_async_event, answer, &[0, EAGAIN]) {
            return;
        }
        if event.event_type == 0 || event.event_type == 8 {
            run.fail(&format!("asynchronous event {}", event.event_type));
        }
        call!(run, ack_async_event(&raw mut event));
        run.good(Sym::ack_async_event);
    }
}
