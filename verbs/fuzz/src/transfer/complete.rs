//! The completions and the events of a transfer.

use core::ffi::c_int;
use std::time::{Duration, Instant};

use e810_verbs::abi::work::Wc;

use super::pair::Side;
use crate::api::Sym;
use crate::calls::cq::read;
use crate::engine::{Engine, null};
use crate::run::{call, through};
use crate::world::LiveCq;

/// How long completions may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A completion, as either interface has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    pub(super) wr_id: u64,
    pub(super) status: c_int,
    pub(super) length: u32,
    pub(super) imm: u32,
}

pub(super) fn notify(engine: &mut Engine, at: usize) {
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
pub(super) fn event(engine: &mut Engine, side: &Side) {
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
pub(super) fn completions(engine: &mut Engine, side: &Side, count: usize) -> Vec<Completion> {
    let cq = engine.world.cqs.get(side.cq).clone();
    let use_ex = cq.is_ex && engine.run.draw.once_in(2);
    let mut found = Vec::new();
    let since = Instant::now();
    while found.len() < count {
        let before = found.len();
        if use_ex {
            poll_ex(engine, &cq, &mut found);
        } else {
            let mut into = [Wc::default(); 4];
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
