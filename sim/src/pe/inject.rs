//! Injected device failures: events and errors that no program and no peer can cause.

use super::aeq::{Event, Named};
use super::device::Device;
use super::env::{Env, OicrCause, PeReg};
use super::fpm::Kind;
use super::word::put;

/// The object that an injected event names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Subject {
    /// A queue pair, with its completion context and state if it exists.
    Qp(u32),
    /// A completion queue, with its context if it exists.
    Cq(u32),
    /// No object: id and context are 0.
    Function,
}

/// An injected failure report. The device is otherwise unaffected: a queue pair that is reported as
/// failed continues until the driver stops it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Breakage {
    /// An asynchronous event.
    Event {
        /// AECODE, 12 bits (control-path 7.5).
        code: u16,
        /// AESRC, 4 bits (control-path 7.4).
        source: u8,
        /// The object that it names.
        subject: Subject,
        /// WQDESCIDX, 15 bits: index of the request in quanta.
        wqe_index: u16,
    },
    /// PFINT_OICR.PE_CRITERR with this GLPE_CRITERR.
    Critical(u32),
    /// PFINT_OICR.PE_PUSH.
    Push,
    /// PFINT_OICR.HMC_ERR with these fields of PFHMC_ERRORINFO and PFHMC_ERRORDATA (control-path
    /// 2.3).
    Hmc {
        /// HMC_ERROR_TYPE, 4 bits.
        error_type: u8,
        /// HMC_OBJECT_TYPE, 5 bits.
        object_type: u8,
        /// HMC_ERROR_DATA, 30 bits.
        data: u32,
    },
}

impl Device {
    /// Makes the report.
    pub(crate) fn break_down(&mut self, what: Breakage, env: &mut dyn Env) {
        match what {
            Breakage::Event {
                code,
                source,
                subject,
                wqe_index,
            } => {
                let event = Event {
                    code,
                    source,
                    wqe_index,
                    ..self.about(subject, env)
                };
                // No encoder caused this.
                self.put_event(event, env);
            }
            Breakage::Critical(code) => {
                env.set_register(PeReg::CritErr, code);
                env.raise_oicr(OicrCause::PeCritErr);
            }
            Breakage::Push => env.raise_oicr(OicrCause::PePush),
            Breakage::Hmc {
                error_type,
                object_type,
                data,
            } => {
                let info = put(self.config.pf.into(), 4, 0)
                    | put(error_type.into(), 11, 8)
                    | put(object_type.into(), 20, 16)
                    | 1 << 31;
                env.set_register(PeReg::HmcErrorInfo, info as u32);
                env.set_register(PeReg::HmcErrorData, put(data.into(), 29, 0) as u32);
                env.raise_oicr(OicrCause::HmcErr);
            }
        }
    }

    /// An event with the id, context and state of the object it names.
    fn about(&mut self, subject: Subject, env: &mut dyn Env) -> Event {
        let id = match subject {
            Subject::Qp(id) | Subject::Cq(id) => id,
            Subject::Function => return Event::default(),
        };
        let mut event = Event {
            id,
            ..Event::default()
        };
        match subject {
            Subject::Qp(_) if u64::from(id) < self.hmc.count(Kind::Qp) => {
                if let Ok(Some(qp)) = self.qp(id, env) {
                    event.context = Named::Qp(qp.completion_context());
                    event.state = qp.state() as u8;
                }
            }
            Subject::Cq(_) if u64::from(id) < self.hmc.count(Kind::Cq) => {
                if let Ok(Some(cq)) = self.cq(id, env) {
                    event.context = Named::Cq(cq.context);
                }
            }
            _ => {}
        }
        event
    }
}
