//! CREATE_QP, MODIFY_QP, DESTROY_QP (control-path 4.7, 5).

use super::command::{Command, DONE, Outcome, Refusal};
use crate::findings::kind;
use crate::pe::device::{Device, Unreachable};
use crate::pe::env::Env;
use crate::pe::fpm::Kind;
use crate::pe::hmc::PAGE_BYTES;
use crate::pe::host_context::{Pieces, undefined_bits};
use crate::pe::qp::{HOST_WORDS, Qp, QpType, State};
use crate::pe::word::{bit, bits, bits8, bits32};
use crate::rc::{Mode, QpRcState};
use crate::variation::ErrorRefused;

/// Bytes of a shadow area (control-path 5.1).
const SHADOW_BYTES: u64 = 64;

/// QPID of a command.
pub(super) fn qp_id(c: &Command) -> u32 {
    bits32(c.header(), 23, 0)
}

fn next_state(c: &Command) -> Option<State> {
    State::new(bits8(c.header(), 62, 60))
}

impl Device {
    /// The QP that a command names; it must exist.
    pub(super) fn named_qp(
        &mut self,
        id: u32,
        what: &str,
        env: &mut dyn Env,
    ) -> Result<Box<Qp>, Refusal> {
        self.in_range(Kind::Qp, id.into(), env)?;
        match self.qp(id, env)? {
            Some(qp) => Ok(qp),
            None => Err(Refusal::state(env, format!("{what}: there is no QP {id}"))),
        }
    }

    fn read_host_context(
        &mut self,
        c: &Command,
        id: u32,
        kind: QpType,
        env: &mut dyn Env,
    ) -> Result<[u64; HOST_WORDS], Refusal> {
        let mut host = [0; HOST_WORDS];
        for (n, word) in host.iter_mut().enumerate() {
            *word = env
                .load(c.q(16) + 8 * n as u64)
                .map_err(Unreachable::from)?;
        }
        if matches!(kind, QpType::RoceRc | QpType::RoceUd)
            && let Some((offset, extra)) = undefined_bits(&host)
        {
            let text =
                format!("QP {id}: host context word {offset} has undefined bits {extra:#x} set");
            env.finding(kind::QP_CONTEXT_BITS, text);
        }
        Ok(host)
    }

    /// Each CQ of a QP gets one more user, or none does if one of them is missing.
    fn use_cqs(&mut self, qp: &Qp, env: &mut dyn Env) -> Result<(), Refusal> {
        for id in [qp.send_cq(), qp.receive_cq()] {
            self.named_cq(id, "a QP's CQ", env)?;
        }
        for id in [qp.send_cq(), qp.receive_cq()] {
            let mut cq = self.named_cq(id, "a QP's CQ", env)?;
            cq.users += 1;
            self.put_cq(id, cq, env)?;
        }
        Ok(())
    }

    /// Each CQ of a QP loses one user.
    fn leave_cqs(&mut self, qp: &Qp, env: &mut dyn Env) -> Result<(), Refusal> {
        for id in [qp.send_cq(), qp.receive_cq()] {
            let mut cq = self.named_cq(id, "a QP's CQ", env)?;
            cq.users = cq.users.saturating_sub(1);
            self.put_cq(id, cq, env)?;
        }
        Ok(())
    }

    fn lint_queue_set(&self, id: u32, qp: &Qp, env: &mut dyn Env) {
        let handle = qp.queue_set();
        if !self.tables.queue_set_exists(handle) {
            let text =
                format!("QP {id}: QSHANDLE {handle} is not one that WORK_SCHED_NODE returned");
            env.finding(kind::QP_QUEUE_SET, text);
        } else if !self.tables.queue_set_enabled(handle) {
            let text = format!("QP {id}: the leaf of queue set {handle} is not enabled");
            env.finding(kind::QUEUE_SET_OFF, text);
        }
    }

    /// CREATE_QP 0x00.
    pub(super) fn create_qp(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let id = qp_id(c);
        self.in_range(Kind::Qp, id.into(), env)?;
        if self.qp(id, env)?.is_some() {
            return Err(Refusal::state(env, format!("CREATE_QP: QP {id} exists")));
        }
        let code = bits8(c.header(), 50, 48);
        let Some(kind) = QpType::new(code) else {
            return Err(Refusal::parameter(
                env,
                format!("CREATE_QP {id}: QPTYPE {code}"),
            ));
        };
        if !kind.is_served() {
            return Err(Refusal::parameter(
                env,
                format!("CREATE_QP {id}: QPTYPE {code}: iWARP is not served here"),
            ));
        }
        if next_state(c) != Some(State::Idle) {
            return Err(Refusal::parameter(
                env,
                format!("CREATE_QP {id}: NEXTIWSTATE is not idle"),
            ));
        }
        let pieces = Pieces::new(c.header());
        if !pieces.cq_numbers {
            return Err(Refusal::parameter(
                env,
                format!("CREATE_QP {id} without CQNUMVALID"),
            ));
        }
        let mut host = self.read_host_context(c, id, kind, env)?;
        if !pieces.mac {
            host[19] = 0;
        }
        let mut qp = Qp::new(kind, host, bit(c.header(), 45), c.q(40));
        self.check_queues(id, &qp, env)?;
        self.lint_shadow(&format!("QP {id}"), qp.shadow, env)?;
        // The checks are the same for both; only a connection has the state. The queue set matters
        // only when the QP is to send: Linux creates its first QP before there is any.
        let config = qp
            .rc_config(id, &self.config)
            .map_err(|bad| Refusal::parameter(env, format!("CREATE_QP {id}: {bad}")))?;
        qp.rc = (kind == QpType::RoceRc).then(|| Box::new(QpRcState::new(config)));
        self.use_cqs(&qp, env)?;
        let created = self.qps.create(id.into(), Box::new(qp), &mut self.hmc, env);
        self.reached(created, env)?;
        self.destroyed_qps.remove(&id);
        DONE
    }

    /// All known drivers pass a zeroed shadow area: their own kernel memory, or user memory that
    /// was cleared (data-path 3).
    pub(super) fn lint_shadow(
        &self,
        owner: &str,
        shadow: u64,
        env: &mut dyn Env,
    ) -> Result<(), Refusal> {
        for offset in (0..SHADOW_BYTES).step_by(8) {
            let word = env
                .load(shadow.wrapping_add(offset))
                .map_err(Unreachable::from)?;
            if word != 0 {
                let text = format!("{owner}: shadow area with {word:#x} at {offset}");
                env.finding(kind::SHADOW_CONTENT, text);
                break;
            }
        }
        Ok(())
    }

    /// The ARP entry of a connection is added before it (control-path 5.5).
    fn lint_neighbour(&mut self, id: u32, qp: &Qp, env: &mut dyn Env) -> Result<(), Refusal> {
        let arp = qp.arp_index();
        if self.arp(arp, env)?.is_none() {
            let text = format!("QP {id}: ARP entry {arp} is not valid");
            env.finding(kind::QP_ARP, text);
        }
        Ok(())
    }

    /// MODIFY_QP and DESTROY_QP name the shadow area again.
    fn lint_same_shadow(&self, name: &str, c: &Command, qp: &Qp, env: &mut dyn Env) {
        if c.q(40) != qp.shadow {
            let text = format!("{name} {}: another shadow area", qp_id(c));
            env.finding(kind::QP_OTHER_SHADOW, text);
        }
    }

    /// Queue memory: alignment, or PBLEs that are committed.
    fn check_queues(&mut self, id: u32, qp: &Qp, env: &mut dyn Env) -> Result<(), Refusal> {
        let queues = [
            ("SQ", qp.host[1], qp.send_quanta()),
            ("RQ", qp.host[2], qp.receive_quanta()),
        ];
        for (name, base, quanta) in queues {
            if qp.mapped {
                self.pbles(base, (u64::from(quanta) * 32).div_ceil(PAGE_BYTES), env)?;
            } else if !base.is_multiple_of(256) {
                // Work requests must not cross a 256-byte chunk, and Linux aligns queues
                // accordingly.
                let text = format!("QP {id}: {name} at {base:#x} is not 256-aligned");
                env.finding(kind::QP_ALIGNMENT, text);
            }
        }
        if !qp.shadow.is_multiple_of(8) {
            return Err(Refusal::parameter(
                env,
                format!("QP {id}: shadow area at {:#x}", qp.shadow),
            ));
        }
        Ok(())
    }

    /// MODIFY_QP 0x01.
    pub(super) fn modify_qp(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let id = qp_id(c);
        let old = self.named_qp(id, "MODIFY_QP", env)?;
        if bits8(c.header(), 50, 48) != old.kind as u8 || bit(c.header(), 45) != old.mapped {
            return Err(Refusal::parameter(
                env,
                format!("MODIFY_QP {id}: QPTYPE or VQ differ from CREATE_QP"),
            ));
        }
        self.lint_same_shadow("MODIFY_QP", c, &old, env);
        let Some(next) = next_state(c) else {
            return Err(Refusal::parameter(
                env,
                format!("MODIFY_QP {id}: NEXTIWSTATE 7"),
            ));
        };
        let present = old.state();
        // No source says what state 0 requests; it is taken as "stay" [inf modify_to_state_0].
        let next = if next == State::Invalid {
            present
        } else {
            next
        };
        let termination = bits(c.header(), 57, 56);
        if termination != 0 && next != State::Terminate {
            let text = format!("MODIFY_QP {id}: TERMACT {termination} for {next:?}");
            env.finding(kind::QP_TERMACT, text);
        }
        if next == State::Error {
            self.check_error_request(id, &old, env)?;
        }
        if !present.may_become(next, old.kind) {
            // The device may have stopped the QP while the driver posted this.
            return Err(if old.stopped {
                Refusal::state_race()
            } else {
                Refusal::state(env, format!("MODIFY_QP {id}: from {present:?} to {next:?}"))
            });
        }
        let host = self.read_host_context(c, id, old.kind, env)?;
        let mut qp = old.clone();
        let pieces = Pieces::new(c.header());
        qp.take(&host, pieces, next);
        if (qp.send_cq(), qp.receive_cq()) != (old.send_cq(), old.receive_cq()) {
            self.use_cqs(&qp, env)?;
            self.leave_cqs(&old, env)?;
        }
        if next != State::Error {
            self.lint_queue_set(id, &qp, env);
        }
        self.move_qp(id, &mut qp, next, env)?;
        if matches!(
            (old.state(), next),
            (State::Idle, State::Rtr) | (State::Rtr, State::Rts)
        ) {
            lint_pieces(id, &qp, pieces, next, env);
        }
        if next == State::Rtr && pieces.arp_index && qp.rc.is_some() {
            self.lint_neighbour(id, &qp, env)?;
        }
        if next == State::Rts {
            self.tables.senders.insert(id, qp.queue_set());
        }
        qp.error_requested |= next == State::Error;
        qp.modified_to_error |= next == State::Error;
        self.put_qp(id, qp, env)?;
        DONE
    }

    /// MODIFY_QP to ERROR: refused where the queue pair cannot, or need not, go there. A repeated
    /// request is no mistake: Linux remembers the state (control-path 5.5), but an event and a
    /// program may make it send the request at the same time.
    fn check_error_request(&mut self, id: u32, qp: &Qp, env: &mut dyn Env) -> Result<(), Refusal> {
        let again = qp.modified_to_error;
        let known = again || qp.state() == State::Idle;
        let refused = match self.config.variation.error_refused {
            ErrorRefused::Never => false,
            ErrorRefused::Again => again,
            ErrorRefused::Known => known,
            ErrorRefused::Always => known || qp.state() == State::Error,
        };
        if !refused {
            return Ok(());
        }
        let mut qp = Box::new(qp.clone());
        qp.error_requested = true;
        self.put_qp(id, qp, env)?;
        Err(Refusal::state_race())
    }

    /// Executes a state change that is allowed.
    fn move_qp(
        &mut self,
        id: u32,
        qp: &mut Qp,
        next: State,
        env: &mut dyn Env,
    ) -> Result<(), Refusal> {
        let present = qp.state();
        if next == State::Rtr || next == State::Rts {
            if qp.host[19] >> 16 == 0 {
                let text = format!("QP {id}: no source MAC was ever marked valid (MACVALID)");
                env.finding(kind::QP_MAC, text);
            }
            if next == State::Rts && !env.has_queue_set(qp.queue_set()) {
                let handle = qp.queue_set();
                return Err(Refusal::state(
                    env,
                    format!(
                        "QP {id}: queue set {handle} is not registered with the LAN's scheduler"
                    ),
                ));
            }
            self.take_pool_entries(id, qp, next, env)?;
        }
        if next != State::Error && (qp.send_flushed || qp.receive_flushed) {
            // Existing drivers flush a queue pair in SQD, and return it to RTS (data-path 8.3).
            qp.pass_flushed();
        }
        qp.other_state = next;
        // On iWARP this number means "closing".
        let drains = matches!(qp.kind, QpType::RoceRc | QpType::RoceUd);
        qp.draining |= drains && next == State::Sqd && present != State::Sqd;
        self.schedule.wake(id);
        let (send_psn, receive_psn) = qp.psns();
        let send_limit = qp.send_limit();
        let config = qp.rc_config(id, &self.config);
        let Some(rc) = &mut qp.rc else {
            return Ok(());
        };
        if next != State::Error {
            rc.config =
                config.map_err(|bad| Refusal::parameter(env, format!("MODIFY_QP {id}: {bad}")))?;
        }
        if next == State::Rtr && present == State::Idle {
            rc.set_receive_psn(receive_psn);
        }
        if next == State::Rts && present == State::Rtr {
            rc.set_send_psn(send_psn);
            rc.set_send_limit(send_limit);
        }
        rc.set_mode(match next {
            State::Idle | State::Invalid => Mode::Idle,
            State::Rtr => Mode::Rtr,
            State::Rts => Mode::Rts,
            State::Sqd => Mode::Sqd,
            State::Terminate | State::Error => Mode::Error,
        });
        Ok(())
    }

    /// Allocates the entries that the device manages itself.
    fn take_pool_entries(
        &mut self,
        id: u32,
        qp: &Qp,
        next: State,
        env: &mut dyn Env,
    ) -> Result<(), Refusal> {
        let reads = qp
            .rc_config(id, &self.config)
            .map_or(0, |config| 2 * u64::from(config.ird));
        let enough = self.reserve_receive(id, reads, env)?
            && (next == State::Rtr || self.reserve_send(id, env)?);
        if !enough {
            return Err(Refusal::parameter(
                env,
                format!("QP {id}: no Q1, XF or RRF entry is left"),
            ));
        }
        Ok(())
    }

    /// DESTROY_QP 0x02.
    pub(super) fn destroy_qp(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let id = qp_id(c);
        let qp = self.named_qp(id, "DESTROY_QP", env)?;
        if bits(c.header(), 50, 48) != qp.kind as u64 {
            return Err(Refusal::parameter(
                env,
                format!("DESTROY_QP {id}: QPTYPE differs from CREATE_QP"),
            ));
        }
        self.lint_same_shadow("DESTROY_QP", c, &qp, env);
        let verbs = matches!(qp.kind, QpType::RoceRc | QpType::RoceUd);
        let sends = !matches!(qp.state(), State::Idle | State::Rtr | State::Error);
        if verbs && sends && !qp.error_requested {
            // Linux moves a QP in RTS to ERROR first (control-path 5.5, row destroy), but not one
            // in RTR (seen with irdma 6.12). A QP in RESET or INIT of verbs is idle.
            let text = format!("QP {id}: destroyed in state {:?}", qp.state());
            env.finding(kind::QP_DESTROY_STATE, text);
        }
        self.leave_cqs(&qp, env)?;
        self.release(id);
        self.schedule.forget(id);
        let destroyed = self.qps.destroy(id.into(), &mut self.hmc, env);
        self.reached(destroyed, env)?;
        self.destroyed_qps.insert(id);
        self.tables.senders.remove(&id);
        DONE
    }
}

/// The fields that existing drivers set with every step to RTR and RTS (control-path 5.5).
fn lint_pieces(id: u32, qp: &Qp, pieces: Pieces, next: State, env: &mut dyn Env) {
    let is_connection = qp.rc.is_some();
    for (flag, is_missing) in [
        ("CQNUMVALID", !pieces.cq_numbers),
        ("ARPTABIDXVALID", is_connection && !pieces.arp_index),
        (
            "ORDVALID",
            is_connection && next == State::Rts && !pieces.ord,
        ),
    ] {
        if is_missing {
            let text = format!("QP {id}: to {next:?} without {flag}");
            env.finding(kind::QP_PIECES, text);
        }
    }
    let (first, [greatest, unacknowledged]) = (qp.psns().0, qp.send_psns());
    if is_connection && next == State::Rts && [greatest, unacknowledged] != [first; 2] {
        let text = format!(
            "QP {id}: to RTS with PSNNXT {first}, PSNMAX {greatest} and PSNUNA {unacknowledged}"
        );
        env.finding(kind::QP_PIECES, text);
    }
}
