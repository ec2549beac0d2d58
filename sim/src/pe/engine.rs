//! Entry points of the engine: doorbells, steps, packets, resets.
//!
//! There is one [`ProtocolEngine`] per function; see the [module](super) page for how to drive it.

use crate::findings::kind;
use std::collections::VecDeque;

use super::cqp::Cqp;
use super::device::Device;
use super::env::PeReg;
use super::stats::Statistics;
use super::word::{bit, bits};
use super::{Breakage, Config, Doorbell, Env, LeftBehind, ResetKind};

/// The protocol engine of one function.
#[derive(Debug)]
pub struct ProtocolEngine {
    cqp: Cqp,
    device: Device,
    /// Doorbells that were not processed yet.
    inbox: VecDeque<(Waiting, u32)>,
    /// A reset of the card cleared the engine, and no CQP has been created since.
    taken_away: bool,
}

/// Doorbells processed in one step.
const DOORBELLS: usize = 16;

/// A doorbell that needs a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waiting {
    Post,
    Arm,
    Acknowledge,
}

impl ProtocolEngine {
    /// An engine after power-up: no CQP, no SD, no queue.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            cqp: Cqp::default(),
            device: Device::new(config, 0),
            inbox: VecDeque::new(),
            taken_away: false,
        }
    }

    /// The configuration of this engine.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.device.config
    }

    /// Changes the configuration from now on; `pf` and `profile` take effect at the next CQP
    /// create.
    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.device.config
    }

    /// Whether `handle` is the queue set of a work-scheduler leaf, so that AQ 0x0C33 may register
    /// it (control-path 9.8).
    #[must_use]
    pub fn queue_set_exists(&self, handle: u16) -> bool {
        self.device.tables.queue_set_exists(handle)
    }

    /// Traffic class of the work-scheduler leaf that has the queue set `handle`.
    #[must_use]
    pub fn queue_set_class(&self, handle: u16) -> Option<u8> {
        self.device.tables.queue_set_class(handle)
    }

    /// Makes a leaf of the work scheduler with the queue set `handle`, as WORK_SCHED_NODE does.
    #[cfg(test)]
    pub(crate) fn add_leaf(&mut self, handle: u16, class: u8) {
        let leaf = super::tables::Node {
            parent: 0,
            queue_set: Some(handle),
            enabled: true,
            vsi: 0,
            class,
            weight: 1,
            priority: 0,
        };
        self.device.tables.nodes.insert(handle, leaf);
    }

    /// Objects that the driver had left in its tables when it last destroyed the CQP.
    #[must_use]
    pub fn left_behind(&self) -> LeftBehind {
        self.device.left_behind
    }

    /// Whether the engine can report asynchronous events.
    #[must_use]
    pub fn has_aeq(&self) -> bool {
        self.device.aeq.is_some()
    }

    /// Bytes of host memory that valid SDs name.
    #[must_use]
    pub fn hmc_bytes(&self) -> u64 {
        self.device.hmc.backed_bytes()
    }

    /// The driver wrote `value` to a doorbell register.
    ///
    /// A doorbell that only changes on-chip state takes effect at once; one that needs a context
    /// waits for [`step`](Self::step).
    pub fn doorbell(&mut self, doorbell: Doorbell, value: u32, env: &mut dyn Env) {
        if self.taken_away && names_an_object(doorbell) {
            // The card was reset under a driver that cannot know yet: Linux keeps ringing until its
            // wait is over.
            return;
        }
        let device = &mut self.device;
        match doorbell {
            Doorbell::CqpDb => self.cqp.ring(value, env),
            Doorbell::CcqpHigh => self.cqp.write_high(value),
            Doorbell::CcqpLow => {
                self.cqp.write_low(value, device, env);
                // Not a destroy: the driver starts over.
                self.taken_away &= value == 0;
            }
            Doorbell::CqpTail => {
                // Read-only while a CQP exists; drivers clear it before.
                if !self.cqp.exists() {
                    env.set_register(PeReg::CqpTail, value);
                }
            }
            Doorbell::AeqAlloc => device.return_aeqes(value, env),
            Doorbell::PdInv => {
                let value = u64::from(value);
                if !bit(value, 15) {
                    // PDs in the LAN part of the function.
                    let text = format!("PFHMC_PDINV = {value:#x}: PMSDPARTSEL is not set");
                    env.finding(kind::DOORBELL_PARTSEL, text);
                }
                device
                    .hmc
                    .invalidate_pd(bits(value, 11, 0), bits(value, 24, 16));
            }
            Doorbell::WqeAlloc => self.inbox.push_back((Waiting::Post, value)),
            Doorbell::CqArm => self.inbox.push_back((Waiting::Arm, value)),
            Doorbell::CqAck => self.inbox.push_back((Waiting::Acknowledge, value)),
        }
    }

    fn act(&mut self, what: Waiting, value: u32, env: &mut dyn Env) {
        // An access that fails records its own report.
        let _ = match what {
            Waiting::Post => {
                self.device.ring_qp(value, env);
                Ok(())
            }
            Waiting::Arm => self.device.arm_cq(value, env),
            Waiting::Acknowledge => self.device.acknowledge_cq(value, env),
        };
    }

    /// Executes a bounded amount of work of each kind: some doorbells, the CQP, a timer, a queue
    /// pair. Returns `true` if there is more to do now.
    pub fn step(&mut self, env: &mut dyn Env) -> bool {
        for _ in 0..DOORBELLS {
            if let Some((what, value)) = self.inbox.pop_front() {
                self.act(what, value, env);
            }
        }
        if self.inbox.is_empty() {
            // A command does not overtake a doorbell that was written before it.
            self.cqp.step(&mut self.device, env);
        }
        self.device.expire(env);
        self.device.serve_next(env);
        self.write_through(env);
        let now = env.now();
        !self.inbox.is_empty()
            || self.device.schedule.has_work()
            || self.next_deadline().is_some_and(|deadline| deadline <= now)
    }

    /// The time ([`Env::now`]) at which `step` has work even without a doorbell or packet; 0 is
    /// now.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        if !self.inbox.is_empty() || self.device.schedule.has_work() {
            return Some(0);
        }
        [self.cqp.deadline(), self.device.schedule.next_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// A frame (without FCS) arrived for this function. A later [`step`](Self::step) sends the
    /// response.
    pub fn receive(&mut self, frame: &[u8], env: &mut dyn Env) {
        self.device.receive(frame, env);
        self.write_through(env);
    }

    /// Makes the device report a failure.
    pub fn break_down(&mut self, what: Breakage, env: &mut dyn Env) {
        self.device.break_down(what, env);
    }

    fn write_through(&mut self, env: &mut dyn Env) {
        if self.device.config.write_through {
            self.device.flush_contexts(None, env);
        }
    }

    /// A reset reached the PE. Nothing is written back: the SDs are gone before the next step. The
    /// caller clears the registers.
    pub fn reset(&mut self, kind: ResetKind) {
        self.cqp = Cqp::default();
        self.inbox.clear();
        self.device.restart(0);
        if kind == ResetKind::Core {
            self.device.statistics = Statistics::default();
            self.taken_away = true;
        }
    }
}

/// Whether a doorbell refers to an object that a driver created.
const fn names_an_object(doorbell: Doorbell) -> bool {
    match doorbell {
        Doorbell::CqpDb
        | Doorbell::WqeAlloc
        | Doorbell::CqArm
        | Doorbell::CqAck
        | Doorbell::AeqAlloc
        | Doorbell::PdInv => true,
        Doorbell::CcqpHigh | Doorbell::CcqpLow | Doorbell::CqpTail => false,
    }
}
