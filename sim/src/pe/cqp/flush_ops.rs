//! FLUSH_WQES and GEN_AE, one opcode (control-path 4.12, data-path 8.4).

use super::command::{Command, Outcome, Refusal, Reply};
use super::qp_ops::qp_id;
use crate::findings::kind;
use crate::pe::aeq::{Event, Named};
use crate::pe::cq::Completion;
use crate::pe::device::{Device, Unreachable};
use crate::pe::env::Env;
use crate::pe::qp::{Qp, QpType, State};
use crate::pe::word::{bit, bits, bits8, bits16};
use crate::rc::Ring;
use crate::variation::{FlushQpId, FlushStyle, FlushedBoth, NothingToFlush};
use crate::wqe::{Cqe, is_valid, send_quanta};

/// "Flushed" (control-path 4.12), used when the command has no code of its own.
const FLUSH_MAJOR: u16 = 1;
const FLUSH_GENERAL: u16 = 1;

/// An entry to flush.
struct Flushed {
    wqe_index: u16,
    op: u8,
}

impl Device {
    /// 0x22: GENERATE_AE and the flush flags are independent of each other.
    pub(super) fn flush_or_generate(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let id = qp_id(c);
        let mut qp = self.named_qp(id, "FLUSH_WQES", env)?;
        let header = c.header();
        let (generate, send, receive) = (bit(header, 59), bit(header, 61), bit(header, 62));
        if !generate && !send && !receive {
            env.finding(
                kind::FLUSH_NOTHING,
                format!("QP {id}: FLUSH_WQES that asks for nothing"),
            );
        }
        if generate {
            let event = Event {
                code: bits16(c.q(8), 15, 0) & 0xFFF,
                source: bits8(c.q(8), 19, 16),
                id,
                context: Named::Qp(qp.completion_context()),
                state: qp.state() as u8,
                wqe_index: 0,
            };
            self.async_event(event, env);
        }
        let stopped = matches!(qp.state(), State::Error | State::Sqd | State::Terminate);
        if (send || receive) && !stopped && !qp.error_requested {
            // Linux flushes after it has moved the QP to ERROR, or to SQD (5.5).
            env.finding(
                kind::FLUSH_STATE,
                format!("QP {id}: flushed in state {:?}", qp.state()),
            );
        }
        let own = bit(header, 60);
        let code = |minor: u64, major: u64| {
            if own {
                (major as u16, minor as u16)
            } else {
                (FLUSH_MAJOR, FLUSH_GENERAL)
            }
        };
        let style = match self.config.variation.flush {
            FlushStyle::Mixed if env.random() & 1 == 0 => FlushStyle::PerQueue,
            FlushStyle::Mixed => FlushStyle::PerWqe,
            always => always,
        };
        let codes = c.q(16);
        let send_code = code(bits(codes, 47, 32), bits(codes, 63, 48));
        let receive_code = code(bits(codes, 15, 0), bits(codes, 31, 16));
        let send_done = send && self.flush_ring(id, &mut qp, Ring::Send, send_code, style, env)?;
        let receive_done =
            receive && self.flush_ring(id, &mut qp, Ring::Receive, receive_code, style, env)?;
        self.put_qp(id, qp, env)?;
        let nothing = !generate && !send_done && !receive_done;
        if nothing && self.config.variation.nothing_to_flush == NothingToFlush::Refused {
            return Err(Refusal::nothing_to_flush());
        }
        // 0 nothing, 2 only the RQ, 3 only the SQ; the value for both is any other one
        // [inf flushed_both].
        let minor = match (send_done, receive_done) {
            (false, false) => 0,
            (false, true) => 2,
            (true, false) => 3,
            (true, true) if self.config.variation.flushed_both == FlushedBoth::Zero => 0,
            (true, true) => 4,
        };
        Ok(Reply { value: 0, minor })
    }

    /// Flushes the outstanding entries of one queue; `true` if there were any.
    fn flush_ring(
        &mut self,
        id: u32,
        qp: &mut Qp,
        ring: Ring,
        (major, minor): (u16, u16),
        style: FlushStyle,
        env: &mut dyn Env,
    ) -> Result<bool, Unreachable> {
        let outstanding = self.outstanding(qp, ring, env)?;
        let before = match ring {
            Ring::Send => &mut qp.send_flushed,
            Ring::Receive => &mut qp.receive_flushed,
        };
        if core::mem::replace(before, true) && outstanding.is_empty() {
            // Linux flushes a side again only for entries posted after that (control-path 4.12,
            // data-path 8.4).
            let text = format!("QP {id}: {ring:?} queue flushed again, with nothing posted since");
            env.finding(kind::FLUSH_AGAIN, text);
        }
        let reported = match style {
            FlushStyle::PerQueue => 1,
            FlushStyle::Mixed | FlushStyle::PerWqe => outstanding.len(),
        };
        let (cq, send_queue) = match ring {
            Ring::Send => (qp.send_cq(), true),
            Ring::Receive => (qp.receive_cq(), false),
        };
        for entry in outstanding.iter().take(reported) {
            let cqe = Cqe {
                context: qp.completion_context(),
                qp_id: match self.config.variation.flush_qp_id {
                    FlushQpId::Present => id,
                    FlushQpId::Zero => 0,
                },
                wqe_index: entry.wqe_index,
                op: entry.op,
                send_queue,
                error: true,
                major,
                minor,
                ..Cqe::default()
            };
            let encode = |polarity, next| cqe.encode(polarity, next);
            let completion = Completion {
                slots: 1,
                encode: &encode,
                solicited: true,
            };
            self.complete(cq, &completion, env)?;
        }
        Ok(!outstanding.is_empty())
    }

    /// The entries of a queue that are valid and neither completed nor flushed, except NOPs. From
    /// here on they count as flushed.
    fn outstanding(
        &mut self,
        qp: &mut Qp,
        ring: Ring,
        env: &mut dyn Env,
    ) -> Result<Vec<Flushed>, Unreachable> {
        if !matches!(qp.kind, QpType::RoceRc | QpType::RoceUd) {
            // No other type of QP completes work here.
            return Ok(Vec::new());
        }
        let (memory, size, (head, first_lap), already) = match ring {
            Ring::Send => (
                qp.send_memory(),
                qp.send_quanta(),
                qp.send_head(),
                qp.flushed_send,
            ),
            Ring::Receive => (
                qp.receive_memory(),
                qp.receive_quanta(),
                qp.receive_head(),
                qp.flushed_receive,
            ),
        };
        let mut found = Vec::new();
        let mut passed = already;
        // One lap at most: outstanding entries never fill the ring.
        while passed - already < size {
            let at = u32::from(head) + passed;
            let (index, polarity) = (at % size, first_lap == (at / size).is_multiple_of(2));
            let iova = memory.at(u64::from(index) * 32 + 24, &mut self.hmc, env);
            let iova = self.reached(iova, env)?;
            let header = env.load(iova)?;
            if !is_valid(header, polarity) {
                break;
            }
            let op = bits8(header, 37, 32);
            let quanta = match ring {
                Ring::Send => send_quanta(header),
                Ring::Receive => Ok(qp.receive_slot_quanta() as u8),
            };
            let nop = ring == Ring::Send && op == 0x0c;
            if !nop {
                found.push(Flushed {
                    wqe_index: index as u16,
                    op: if ring == Ring::Send { op } else { 0 },
                });
            }
            match quanta {
                Ok(quanta) => passed += u32::from(quanta),
                // Its length is unknown, so the entries behind it cannot be found.
                Err(_) => {
                    passed += 1;
                    break;
                }
            }
        }
        match ring {
            Ring::Send => qp.flushed_send = passed,
            Ring::Receive => qp.flushed_receive = passed,
        }
        Ok(found)
    }
}
