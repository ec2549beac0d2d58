//! Requests and receives on queue pairs of which nothing is promised.

use core::ffi::c_int;

use e810_verbs::abi::constants::qp_type::UD;
use e810_verbs::abi::work::{RdmaTarget, RecvWr, SendTarget, SendWr, Sge, UdTarget};
use libc::{EINVAL, ENOMEM};

use crate::api::Sym;
use crate::calls::cq::{COUNT, RECEIVE};
use crate::calls::qp::QKEY;
use crate::engine::{Engine, null};
use crate::run::through;
use crate::world::LiveQp;

/// The operations that the device has.
const OPERATIONS: [c_int; 7] = [0, 1, 2, 3, 4, 7, 9];

/// Posts to one.
pub(crate) fn any(engine: &mut Engine) {
    let in_pairs: Vec<usize> = engine.pairs.iter().flat_map(|pair| pair.qps()).collect();
    let qp = engine.world.qps.pick(&mut engine.run.draw, |_| true);
    let Some(at) = qp.filter(|at| !in_pairs.contains(at)) else {
        return;
    };
    if engine.world.has_closed(at) {
        return;
    }
    match engine.run.draw.below(2) {
        0 => send(engine, at),
        _ => receive(engine, at),
    }
}

/// What posting answers in a state, if nothing is wrong.
pub(crate) fn in_state(qp: &LiveQp, is_receive: bool) -> &'static [c_int] {
    match qp.state {
        _ if qp.shared => &[0, ENOMEM, EINVAL],
        0 => &[EINVAL],
        1 if !is_receive => &[EINVAL],
        // A peer may have taken it to ERR.
        2 if !is_receive => &[EINVAL, 0, ENOMEM],
        _ => &[0, ENOMEM],
    }
}

/// An SGE: of a region, mostly, and within it, mostly.
pub(crate) fn sge(engine: &mut Engine) -> Sge {
    let mr = engine.world.mrs.pick(&mut engine.run.draw, |mr| !mr.kept);
    let draw = &mut engine.run.draw;
    let length = draw.number(&[0, 1, 8, 64, 64, 1000, 4096, 1 << 20]);
    let Some(mr) = mr else {
        return Sge {
            addr: 0x1000,
            length,
            lkey: draw.number(&[0, 1, 0x1234_5600, u32::MAX]),
        };
    };
    let mr = engine.world.mrs.get(mr);
    let most = mr.length as u32;
    let wrong_key = draw.once_in(20);
    // Of no region: a request may also invalidate what it names.
    let wrong = draw.number(&[mr.key ^ 1, mr.key | 0xFFFF_FF00, 0, u32::MAX]);
    let length = if draw.once_in(20) {
        length
    } else {
        length.min(most)
    };
    Sge {
        addr: mr.iova + draw.number(&[0, 0, 0, 0, 0, 1, u64::from(most)]),
        length,
        lkey: if wrong_key { wrong } else { mr.key },
    }
}

fn send(engine: &mut Engine, at: usize) {
    let qp = engine.world.qps.get(at).clone();
    let count = engine.run.draw.number(&[1, 1, 1, 2, 3]);
    let mut sges: [[Sge; 16]; 3] = [0, 1, 2].map(|_| core::array::from_fn(|_| sge(engine)));
    let mut wrs = [SendWr::default(); 3];
    let data = vec![0x5A_u8; 4096];
    let mut wrong_at = None;
    for index in 0..count {
        let address = engine.world.ahs.pick(&mut engine.run.draw, |_| true);
        let address = address.map(|ah| engine.world.ahs.get(ah).clone());
        let peer = engine.world.qps.pick(&mut engine.run.draw, |qp| !qp.kept);
        let peer = engine.world.qps.get(peer.unwrap_or(at)).number();
        let remote = sge(engine);
        let draw = &mut engine.run.draw;
        let most = qp.caps[2] as c_int;
        let pieces = draw.number(&[1, 1, 1, 1, 1, 0, most, most, most + 1, -1, c_int::MAX]);
        let few = if qp.kind == UD {
            &[2, 2, 2, 3][..]
        } else {
            &OPERATIONS[..5]
        };
        let opcode = match draw.below(20) {
            0 => draw.number(&[5, 6, 8, 10, 11, 99, -1]),
            1 => draw.number(&OPERATIONS),
            _ => draw.number(few),
        };
        let mut flags = draw.number(&[2, 2, 2, 0, 2 | 4, 1 | 2, 2 | 16, 2 | 1 << 20]);
        let mut wrong = pieces < 0 || pieces > most || !OPERATIONS.contains(&opcode);
        if pieces > 0 && draw.once_in(6) {
            flags |= 8;
            let length = draw.number(&[1, 8, qp.caps[4], qp.caps[4] + 1, 4096]);
            for sge in &mut sges[index] {
                *sge = Sge {
                    addr: data.as_ptr() as u64,
                    length: 0,
                    lkey: 0,
                };
            }
            sges[index][0].length = length;
            if draw.once_in(4) {
                sges[index][0].addr = 0;
                wrong |= length != 0 && opcode != 4 && opcode != 7;
            }
            // An RDMA READ has no inline data; the flag is ignored.
            wrong |= length > qp.caps[4] && opcode != 4 && opcode != 7;
        } else if draw.once_in(60) {
            sges[index][0].length = draw.number(&[1 << 31, u32::MAX]);
            // Of whatever is not sent at all.
            wrong |= pieces > 0 && opcode != 7;
        }
        let list = match draw.once_in(50) && pieces != 0 {
            true => {
                wrong = true;
                null()
            }
            false => sges[index].as_mut_ptr(),
        };
        let wr = if qp.kind == UD {
            let given = address.filter(|_| !draw.once_in(20));
            wrong |= given.is_none() || !matches!(opcode, 2 | 3);
            SendTarget {
                ud: UdTarget {
                    ah: given.map_or(null(), |ah| ah.ptr),
                    remote_qpn: peer,
                    remote_qkey: draw.number(&[QKEY, QKEY, QKEY, 5]),
                },
            }
        } else {
            SendTarget {
                rdma: RdmaTarget {
                    remote_addr: remote.addr,
                    rkey: remote.lkey,
                },
            }
        };
        if wrong && wrong_at.is_none() {
            wrong_at = Some(index);
        }
        engine.run.about(|| {
            format!("operation {opcode}, {pieces} pieces, flags {flags:#x}, wrong {wrong}")
        });
        wrs[index] = SendWr {
            wr_id: qp.uid << COUNT | (qp.sent + index as u64 + 1),
            sg_list: list,
            num_sge: pieces,
            opcode,
            send_flags: flags,
            imm_data: remote.lkey,
            wr,
            ..wrs[index]
        };
    }
    for index in 1..count {
        let next = &raw mut wrs[index];
        wrs[index - 1].next = next;
    }
    let first = wrs.as_mut_ptr();
    let mut bad = null();
    let run = &mut engine.run;
    let answer = through!(
        run,
        ctx_post_send,
        (*(*qp.ptr).context).ops.post_send,
        (qp.ptr, first, &raw mut bad)
    );
    // What may be wrong with an operation of another kind is not known exactly: local
    // invalidation, and what depends on a length.
    let doubtful = wrs[..count]
        .iter()
        .any(|wr| matches!(wr.opcode, 7 | 9 | 4) || wr.num_sge == 0);
    let of_state = in_state(&qp, false);
    let allowed: &[c_int] = match wrong_at {
        None if doubtful => &[0, EINVAL, ENOMEM],
        None => of_state,
        Some(_) if doubtful => &[0, EINVAL, ENOMEM],
        Some(_) => &[EINVAL, ENOMEM],
    };
    let all = run.judge(Sym::ctx_post_send, answer, allowed);
    let posted = match all {
        true => count,
        false => {
            let found = (0..count).find(|index| core::ptr::eq(bad, &raw const wrs[*index]));
            let Some(found) = found else {
                run.fail("bad_wr names no request of the list");
            };
            let is_sure = of_state.contains(&0) && !of_state.contains(&EINVAL);
            if !doubtful && answer == EINVAL && is_sure && Some(found) != wrong_at {
                run.fail(&format!(
                    "request {found} is refused, not {wrong_at:?}; {qp:?}; {:?}",
                    &sges[found][..2]
                ));
            }
            found
        }
    };
    engine.world.qps.get_mut(at).sent += posted as u64;
}

fn receive(engine: &mut Engine, at: usize) {
    let qp = engine.world.qps.get(at).clone();
    let count = engine.run.draw.number(&[1, 1, 1, 2, 3]);
    let mut sges: [[Sge; 16]; 3] = [0, 1, 2].map(|_| core::array::from_fn(|_| sge(engine)));
    let mut wrs = [RecvWr::default(); 3];
    let mut wrong_at = None;
    for index in 0..count {
        let draw = &mut engine.run.draw;
        let most = qp.caps[3] as c_int;
        let pieces = draw.number(&[1, 1, 1, 1, 1, 0, most, most, most + 1, -1, c_int::MAX]);
        let is_missing = pieces != 0 && draw.once_in(50);
        let wrong = pieces < 0 || pieces > most || is_missing;
        if wrong && wrong_at.is_none() {
            wrong_at = Some(index);
        }
        wrs[index] = RecvWr {
            wr_id: RECEIVE | qp.uid << COUNT | (qp.received + index as u64 + 1),
            sg_list: if is_missing {
                null()
            } else {
                sges[index].as_mut_ptr()
            },
            num_sge: pieces,
            ..RecvWr::default()
        };
        engine
            .run
            .about(|| format!("{pieces} pieces, wrong {wrong}"));
    }
    for index in 1..count {
        let next = &raw mut wrs[index];
        wrs[index - 1].next = next;
    }
    let first = wrs.as_mut_ptr();
    let mut bad = null();
    let run = &mut engine.run;
    let answer = through!(
        run,
        ctx_post_recv,
        (*(*qp.ptr).context).ops.post_recv,
        (qp.ptr, first, &raw mut bad)
    );
    let of_state = in_state(&qp, true);
    let allowed: &[c_int] = match wrong_at {
        None => of_state,
        Some(_) => &[EINVAL, ENOMEM],
    };
    let all = run.judge(Sym::ctx_post_recv, answer, allowed);
    let posted = match all {
        true => count,
        false => {
            let found = (0..count).find(|index| core::ptr::eq(bad, &raw const wrs[*index]));
            let Some(found) = found else {
                run.fail("bad_wr names no receive of the list");
            };
            if answer == EINVAL && of_state.contains(&0) && !qp.shared && Some(found) != wrong_at {
                run.fail(&format!("receive {found} is refused, not {wrong_at:?}"));
            }
            found
        }
    };
    engine.world.qps.get_mut(at).received += posted as u64;
}
