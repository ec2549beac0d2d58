//! Requests of the extended interface, on queue pairs of which nothing is promised.

use core::ffi::{c_int, c_void};

use e810_verbs::abi::constants::qp_type::UD;
use e810_verbs::abi::work::DataBuf;
use libc::{EINVAL, ENOMEM};

use crate::api::Sym;
use crate::calls::cq::COUNT;
use crate::calls::post::{in_state, sge};
use crate::calls::qp::QKEY;
use crate::engine::{Engine, null};
use crate::run::through;

/// A list of requests, completed or aborted.
pub(crate) fn requests(engine: &mut Engine) {
    let in_pairs: Vec<usize> = engine.pairs.iter().flat_map(|pair| pair.qps()).collect();
    let qp = engine.world.qps.pick(&mut engine.run.draw, |qp| qp.is_ex);
    let Some(at) = qp.filter(|at| !in_pairs.contains(at)) else {
        return;
    };
    let qp = engine.world.qps.get(at).clone();
    if engine.world.has_closed(at) {
        return;
    }
    let ex = qp.ex();
    let count = engine.run.draw.below(4);
    let data = [0x5A_u8; 128];
    let start = data.as_ptr().cast_mut().cast::<c_void>();
    through!(engine.run, qp_wr_start, (*ex).wr_start, (ex));
    engine.run.good(Sym::qp_wr_start);
    if engine.run.draw.once_in(30) {
        // Data of no request.
        through!(engine.run, qp_wr_set_sge, (*ex).wr_set_sge, (ex, 1, 0, 8));
    }
    for index in 0..count {
        let local: [_; 3] = core::array::from_fn(|_| sge(engine));
        let remote = sge(engine);
        let ah = engine.world.ahs.pick(&mut engine.run.draw, |_| true);
        let ah = ah.map_or(null(), |ah| engine.world.ahs.get(ah).ptr);
        let run = &mut engine.run;
        // SAFETY: it is live, and its send queue is this thread's.
        unsafe {
            (*ex).wr_id = qp.uid << COUNT | (qp.sent + index as u64 + 1);
            (*ex).wr_flags = run.draw.number(&[2, 2, 2, 0, 6, 3, 8, 1 << 20]);
        }
        let (key, addr) = (remote.lkey, remote.addr);
        let operation = match qp.kind {
            UD if !run.draw.once_in(10) => run.draw.below(2),
            _ => run.draw.below(7),
        };
        match operation {
            0 => through!(run, qp_wr_send, (*ex).wr_send, (ex)),
            1 => through!(run, qp_wr_send_imm, (*ex).wr_send_imm, (ex, 7)),
            2 => through!(run, qp_wr_rdma_write, (*ex).wr_rdma_write, (ex, key, addr)),
            3 => through!(run, qp_wr_rdma_read, (*ex).wr_rdma_read, (ex, key, addr)),
            4 => through!(
                run,
                qp_wr_rdma_write_imm,
                (*ex).wr_rdma_write_imm,
                (ex, key, addr, 7)
            ),
            5 => through!(run, qp_wr_send_inv, (*ex).wr_send_inv, (ex, key)),
            _ => through!(run, qp_wr_local_inv, (*ex).wr_local_inv, (ex, key)),
        }
        if qp.kind == UD && !run.draw.once_in(12) {
            let peer = qp.number();
            through!(
                run,
                qp_wr_set_ud_addr,
                (*ex).wr_set_ud_addr,
                (ex, ah, peer, QKEY)
            );
        }
        let length = run.draw.number(&[0, 1, 8, 64, 101, 102, 1 << 20]);
        let buffers = [(start, 1), (start, 0), (start, 30)];
        let buffers = buffers.map(|(addr, length)| DataBuf { addr, length });
        let pieces = run.draw.number(&[0, 1, 2, 3]);
        match run.draw.below(5) {
            0 => through!(
                run,
                qp_wr_set_sge,
                (*ex).wr_set_sge,
                (ex, local[0].lkey, local[0].addr, local[0].length)
            ),
            1 => through!(
                run,
                qp_wr_set_sge_list,
                (*ex).wr_set_sge_list,
                (ex, pieces, local.as_ptr())
            ),
            2 => through!(
                run,
                qp_wr_set_inline_data,
                (*ex).wr_set_inline_data,
                (ex, start, length)
            ),
            3 => through!(
                run,
                qp_wr_set_inline_data_list,
                (*ex).wr_set_inline_data_list,
                (ex, pieces, buffers.as_ptr())
            ),
            _ => {}
        }
    }
    let run = &mut engine.run;
    if run.draw.once_in(5) {
        through!(run, qp_wr_abort, (*ex).wr_abort, (ex));
        run.good(Sym::qp_wr_abort);
        return;
    }
    let answer = through!(run, qp_wr_complete, (*ex).wr_complete, (ex));
    let cannot: &[c_int] = &[EINVAL];
    let allowed: &[c_int] = match in_state(&qp, false) {
        [EINVAL] if count > 0 => cannot,
        _ => &[0, EINVAL, ENOMEM],
    };
    let posted = run.judge(Sym::qp_wr_complete, answer, allowed);
    // Those before the first that is refused may be posted, whose number nobody is told: they
    // are counted, and may complete or not.
    let live = engine.world.qps.get_mut(at);
    let _ = posted;
    live.sent += count as u64;
}
