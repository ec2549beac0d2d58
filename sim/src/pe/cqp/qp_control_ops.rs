//! UPLOAD_CONTEXT, SUSPEND_QP, RESUME_QP (control-path 4.12).

use super::command::{Command, DONE, Outcome, Refusal, Reply};
use super::hmc_ops::write_words;
use super::qp_ops::qp_id;
use crate::findings::kind;
use crate::pe::device::Device;
use crate::pe::env::Env;
use crate::pe::qp::State;
use crate::pe::word::{bits8, bits32, replace};
use crate::rc::Mode;

/// Suspend pending (control-path 4.5).
const MINOR_SUSPEND_PENDING: u16 = 0x0005;

impl Device {
    /// UPLOAD_CONTEXT 0x13. The effect of RAWFORMAT and FREEZEQP is not in the sources: the host
    /// context is written as it was taken, with the current PSNs.
    pub(super) fn upload_context(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let id = qp_id(c);
        let qp = self.named_qp(id, "UPLOAD_CONTEXT", env)?;
        if bits8(c.header(), 51, 48) != qp.kind as u8 {
            return Err(Refusal::parameter(
                env,
                format!("UPLOAD_CONTEXT {id}: QPTYPE differs from CREATE_QP"),
            ));
        }
        let mut host = qp.host;
        if let Some(rc) = &qp.rc {
            let (next, oldest, expected) = rc.psns();
            host[10] = replace(host[10], next.into(), 23, 0);
            host[11] = replace(host[11], expected.into(), 23, 0);
            host[12] = replace(replace(host[12], next.into(), 23, 0), oldest.into(), 55, 32);
        }
        write_words(c.q(16), &host, env)?;
        DONE
    }

    /// SUSPEND_QP 0x29: AE 0x0900 follows when the send queue is idle.
    pub(super) fn suspend_qp(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let id = qp_id(c);
        let mut qp = self.named_qp(id, "SUSPEND_QP", env)?;
        if qp.suspended {
            env.finding(kind::QP_SUSPEND, format!("QP {id} is suspended already"));
        }
        qp.suspended = true;
        qp.draining = true;
        let mut pending = false;
        if let Some(rc) = &mut qp.rc
            && rc.mode() == Mode::Rts
        {
            rc.set_mode(Mode::Sqd);
            pending = !rc.send_queue_idle();
        }
        self.put_qp(id, qp, env)?;
        self.schedule.wake(id);
        Ok(Reply {
            value: 0,
            minor: if pending { MINOR_SUSPEND_PENDING } else { 0 },
        })
    }

    /// RESUME_QP 0x2a, with a new queue set.
    pub(super) fn resume_qp(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let id = qp_id(c);
        let mut qp = self.named_qp(id, "RESUME_QP", env)?;
        if !qp.suspended {
            return Err(Refusal::state(
                env,
                format!("RESUME_QP: QP {id} is not suspended"),
            ));
        }
        let handle = bits32(c.q(16), 31, 0);
        if !u16::try_from(handle).is_ok_and(|handle| self.tables.queue_set_exists(handle)) {
            let text =
                format!("QP {id}: QSHANDLE {handle} is not one that WORK_SCHED_NODE returned");
            env.finding(kind::QP_QUEUE_SET, text);
        }
        qp.host[22] = replace(qp.host[22], handle.into(), 25, 16);
        qp.suspended = false;
        if qp.state() == State::Sqd
            && let Some(rc) = &mut qp.rc
        {
            rc.set_mode(Mode::Rts);
        }
        self.put_qp(id, qp, env)?;
        self.schedule.wake(id);
        DONE
    }
}
