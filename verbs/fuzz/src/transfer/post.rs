//! The requests of a transfer, through `ibv_post_*` and through `ibv_wr_*`.

use core::ffi::{c_int, c_void};

use e810_verbs::abi::constants::qp_type::{RC, UD};
use e810_verbs::abi::work::{RdmaTarget, RecvWr, SendTarget, SendWr, Sge, UdTarget};

use super::Message;
use super::pair::Side;
use crate::api::Sym;
use crate::calls::cq::RECEIVE;
use crate::calls::qp::QKEY;
use crate::engine::{Engine, null};
use crate::run::through;

pub(super) fn receive(engine: &mut Engine, side: &Side, slot: usize, at: usize, length: usize) {
    let key = engine.world.mrs.get(side.mr).key;
    let qp = engine.world.qps.get(side.qp).ptr;
    let mut sge = Sge {
        addr: (side.memory.address() + at) as u64,
        length: length as u32,
        lkey: key,
    };
    let mut wr = RecvWr {
        wr_id: RECEIVE | slot as u64,
        sg_list: &raw mut sge,
        num_sge: 1,
        ..RecvWr::default()
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
pub(super) fn post(
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
    // In two pieces, but for one byte and for inline data.
    let pieces = |length: usize| match length {
        0 => 0,
        1 => 1,
        _ if is_inline => 1,
        _ => 2,
    };
    let mut sges: Vec<[Sge; 2]> = targets
        .iter()
        .map(|(local, _, length)| {
            let piece = |at: usize, length: usize| Sge {
                addr: (source.memory.address() + at) as u64,
                length: length as u32,
                lkey: keys[0],
            };
            let first = length / pieces(*length).max(1);
            [piece(*local, first), piece(local + first, length - first)]
        })
        .collect();
    let mut wrs = vec![SendWr::default(); targets.len()];
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
            num_sge: pieces(*length) as c_int,
            opcode: message as c_int,
            send_flags: 2 | if is_inline { 8 } else { 0 },
            imm_data: (slot as u32 + 7).to_be(),
            wr,
            ..wrs[slot]
        };
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
pub(super) fn post_ex(
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
