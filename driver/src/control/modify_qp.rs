//! MODIFY_QP: moving a queue pair from state to state.
//!
//! RESET and INIT are one state of the device (idle); INIT costs no command
//! (control-path 5.5). The whole context is rebuilt before each command but that to
//! ERR; the command's flags say which parts the device takes.

use e810_cqp::op::ModifyQp;
use e810_cqp::qpc::RoceContext;
use e810_datapath::state::{TransitionError, check};
use e810_hal::{Ns, Platform, WaitError};
use e810_types::{HwQpState, QpState};

use super::qp_context::hardware_type;
use super::{Control, run};
use crate::addr::{Mtu, Path, udp_source_port};
use crate::attr::QpAttr;
use crate::error::{Error, Object, Result};
use crate::limits::{PKEYS, PORTS};
use crate::mr::AccessFlags;
use crate::qp::{Presence, QpControl};
use crate::route::TxPath;
use crate::tuning::Tuning;
use crate::unsupported::Unsupported;

/// How long the device may take to drain a send queue, as existing drivers wait
/// (data-path 8.3, row SQD).
const DRAIN_LIMIT: Ns = Ns::from_ms(5_000);

impl<P: Platform> Control<P> {
    /// Changes a queue pair's state and attributes.
    ///
    /// A change to SQD returns once the command is done. [`Control::query_qp`] then reports
    /// `sq_draining` until the device has drained the send queue, which it reports to an event
    /// handler. Until then only ERR and RESET can follow. Changes made in SQD reach the device on
    /// the way back to RTS.
    ///
    /// RESET also needs the completion queues: [`Control::reset_qp`].
    ///
    /// A queue pair that the device did not move to ERROR is in ERR, but its requests do not
    /// complete, because the device may still write for them. [`Control::progress`] tries to move
    /// it again, and so does another call; [`Progress::unstopped`](crate::Progress::unstopped)
    /// counts the queue pairs that it has given up on.
    ///
    /// # Errors
    /// A transition that does not exist, an attribute missing, out of place,
    /// out of range or not on this device (nothing is changed then); a drain
    /// that takes longer than 5 s; or the device's refusal. After a command that was not
    /// answered only ERR and RESET can follow.
    #[doc(alias = "ibv_modify_qp")]
    pub fn modify_qp(&mut self, qp: &mut QpControl<P>, attr: &QpAttr) -> Result<()> {
        self.usable_qp(qp)?;
        let from = qp.state();
        let to = attr.state.unwrap_or(from);
        check_supported(attr)?;
        self.allowed(qp, attr, from, to)?;
        if to == QpState::Reset {
            if from == QpState::Reset {
                return Ok(());
            }
            return Err(Error::Invalid {
                what: "RESET also discards completions: use Control::reset_qp with the completion queues",
            });
        }
        let mut context = qp.context;
        let taken = self.apply(qp, attr, &mut context)?;
        let result = self.command_for(qp, attr, from, to, &context);
        // Paths that the device does not use, and will not use.
        let unused = match &result {
            Ok(ChangeOutcome::Sent) => qp.tx_paths.taken(taken),
            Ok(ChangeOutcome::Deferred) => [taken.and_then(|new| qp.tx_paths.planned(new)), None],
            // The device may yet take the entries that the command names.
            Err(error) if error.leaves_command_open() => {
                qp.tx_paths.open(taken);
                qp.made.is_open |= to != QpState::Err;
                [None, None]
            }
            Err(_) => [taken, None],
        };
        for tx_path in unused.into_iter().flatten() {
            self.leave_tables(qp.key.id(), tx_path);
        }
        result?;
        qp.context = context;
        qp.last_attr = attr.over(&qp.last_attr);
        if let Some(qkey) = attr.qkey {
            let set = self.registry.set_qkey(qp.key, qkey);
            set.map_err(e810_datapath::Error::from)?;
        }
        // An event may have failed it meanwhile: what was changed stays changed.
        match to {
            QpState::Init | QpState::Rtr | QpState::Rts => self.note(qp, to),
            _ => Ok(()),
        }
    }

    /// Checks whether [`reset_qp`](Self::reset_qp) may begin for a program that named these
    /// attributes with it: RESET takes only the state and the current state.
    ///
    /// # Errors
    /// [`Error::Foreign`], an attribute out of place, or a current state that does not match.
    pub fn check_reset(&self, qp: &QpControl<P>, attr: &QpAttr) -> Result<()> {
        self.own(qp.owner, Object::Qp, qp.key.id())?;
        check_supported(attr)?;
        self.allowed(qp, attr, qp.state(), QpState::Reset)
    }

    /// Checks that the queue pair is of this device and that no destruction or reset of it was
    /// begun without ending. After one that did not end, the device may not have it.
    pub(super) fn usable_qp(&self, qp: &QpControl<P>) -> Result<()> {
        self.own(qp.owner, Object::Qp, qp.key.id())?;
        if qp.made.presence != Presence::Made || !self.lives(qp.key) {
            return Err(Error::Invalid {
                what: "a destruction or a reset of this queue pair has failed: destroy it or reset it again",
            });
        }
        Ok(())
    }

    /// Checks that the transition exists, and takes these attributes.
    fn allowed(&self, qp: &QpControl<P>, attr: &QpAttr, from: QpState, to: QpState) -> Result<()> {
        let wrong = |error: TransitionError| e810_datapath::Error::from(error).into();
        let qp_type = qp.made.qp_type;
        check(qp_type, from, to, attr.mask()).map_err(wrong)?;
        if let Some(given) = attr.cur_state.filter(|given| *given != from) {
            return Err(wrong(TransitionError::OtherState { from, given }));
        }
        check_ranges(attr, &qp.made.tuning)?;
        if qp.made.is_open && !matches!(to, QpState::Err | QpState::Reset) {
            return Err(Error::Invalid {
                what: "the device did not answer an earlier change of this queue pair, and may be in either state: take it to ERR or RESET",
            });
        }
        if from == QpState::Sqe && to == QpState::Rts {
            return Err(Unsupported::SqeRecovery.into());
        }
        let goes_on = matches!(to, QpState::Sqd | QpState::Rts);
        if goes_on && qp.slots.is_draining(qp.key) {
            let now = self.platform.now();
            if now - qp.draining_since > DRAIN_LIMIT {
                return Err(WaitError::Timeout {
                    label: "drained send queue",
                    limit: DRAIN_LIMIT,
                }
                .into());
            }
            return Err(wrong(TransitionError::Draining));
        }
        Ok(())
    }

    /// Puts the attributes into a copy of the context; returns what a new path took.
    fn apply(
        &mut self,
        qp: &QpControl<P>,
        attr: &QpAttr,
        context: &mut RoceContext,
    ) -> Result<Option<TxPath>> {
        if let Some(access) = attr.access {
            // The P_Key table has one entry, 0xFFFF (data-path 8.10).
            context.pd = qp.pd;
            context.privileges.remote_read = access.contains(AccessFlags::REMOTE_READ);
            // WRRDRSPOK covers read responses too (control-path 5.2), so it stays set: a
            // requester whose QP lets nobody write must still read.
            context.privileges.remote_write = true;
        }
        if let Some(mtu) = attr.path_mtu {
            // With its headers a packet is longer than the path MTU.
            let most = Mtu::fitting(self.lan.mtu).map_or(0, Mtu::bytes);
            if mtu.bytes() > most {
                return Err(Error::OutOfRange {
                    what: "path MTU, for the interface's MTU",
                    value: mtu.bytes().into(),
                    min: 256,
                    max: most.into(),
                });
            }
            context.path_mtu = mtu.bytes() as u16;
        }
        if let Some(qkey) = attr.qkey {
            context.qkey = qkey;
        }
        if let Some(peer) = attr.dest_qpn {
            context.peer.qp = peer.get();
        }
        if let Some(psn) = attr.rq_psn {
            context.psn_expected = psn;
        }
        if let Some(psn) = attr.sq_psn {
            // control-path 5.5, row RTS.
            context.psn_next = psn;
            context.psn_unacked = psn;
            context.psn_max = psn;
            context.lsn = 0xFFFF;
        }
        // 0 keeps the previous value (data-path 8.3).
        if let Some(reads) = attr.max_dest_rd_atomic.filter(|reads| *reads > 0) {
            context.ird = reads.into();
        }
        if let Some(reads) = attr.max_rd_atomic.filter(|reads| *reads > 0) {
            context.ord = reads.into();
        }
        if let Some(retries) = attr.retry_cnt {
            context.retries = retries;
        }
        if let Some(retries) = attr.rnr_retry {
            context.rnr_retries = retries;
        }
        match attr.path {
            Some(path) => self.apply_path(qp, &path, context).map(Some),
            None => Ok(None),
        }
    }

    fn apply_path(
        &mut self,
        qp: &QpControl<P>,
        path: &Path,
        context: &mut RoceContext,
    ) -> Result<TxPath> {
        let (route, target) = self.take_route(path)?;
        let class = self.class_of(path.priority);
        let lan = &mut self.lan_side;
        let qs_handle = match self.scheduler.join(&mut self.cqp, lan, class) {
            Ok(handle) => handle,
            Err(error) => {
                // The first error says more than one that undoing may add.
                let _ = self.give_route(route);
                return Err(error);
            }
        };
        let peer = &mut context.peer;
        peer.addresses = target.addresses;
        peer.hop_limit = target.hop_limit;
        peer.traffic_class = path.traffic_class;
        peer.flow_label = path.flow_label;
        peer.source_port = udp_source_port(path.flow_label, qp.key.id(), peer.qp);
        peer.vlan = target.vlan;
        peer.arp_index = route.arp;
        peer.endpoint_index = route.arp.into();
        context.qs_handle = qs_handle;
        Ok(TxPath {
            route: Some(route),
            class,
        })
    }

    fn command_for(
        &mut self,
        qp: &mut QpControl<P>,
        attr: &QpAttr,
        from: QpState,
        to: QpState,
        context: &RoceContext,
    ) -> Result<ChangeOutcome> {
        let id = qp.key.id();
        let kind = hardware_type(qp.made.qp_type);
        // Idle already; and in SQD the device takes nothing before RTS.
        if to == QpState::Init || (from, to) == (QpState::Sqd, QpState::Sqd) {
            return Ok(ChangeOutcome::Deferred);
        }
        // On the way to ERR it takes nothing from the context, and an earlier command that it has
        // not answered may still read it.
        if to != QpState::Err {
            self.write_context(id, context)?;
        }
        let (address, shadow) = (self.context_of(id), self.shadow_of(id));
        let command = |state| ModifyQp::new(id, kind, address, shadow, state);
        match to {
            QpState::Rtr => {
                let command = ModifyQp {
                    arp_valid: true,
                    cqs_valid: true,
                    ..command(HwQpState::Rtr)
                };
                run(&mut self.cqp, &command)?;
            }
            QpState::Rts => {
                let command = ModifyQp {
                    arp_valid: true,
                    cqs_valid: true,
                    // Also set whenever max_rd_atomic is given.
                    ord_valid: from != QpState::Rts || attr.max_rd_atomic.is_some(),
                    ..command(HwQpState::Rts)
                };
                run(&mut self.cqp, &command)?;
            }
            QpState::Sqd => {
                // Before the command: the device may be quicker than we are.
                let notify = attr.en_sqd_async_notify.unwrap_or(false);
                self.registry
                    .begin_drain(qp.key, notify)
                    .map_err(e810_datapath::Error::from)?;
                qp.draining_since = self.platform.now();
                let stopped = run(&mut self.cqp, &command(HwQpState::Sqd));
                if stopped.is_err() {
                    // The queue continues to send.
                    let _ = self.note(qp, from);
                }
                stopped?;
                // The device takes no path with that.
                return Ok(ChangeOutcome::Deferred);
            }
            // ERR; the others were refused.
            _ => {
                if from == QpState::Err && self.stops.is_stopped(id) {
                    return Ok(ChangeOutcome::Deferred);
                }
                // Software sees ERR first: what is posted from now on is
                // flushed with the rest.
                self.note(qp, QpState::Err)?;
                self.stops.ask_again(id);
                // A queue pair that may be beyond INIT is not idle.
                let from = match qp.made.is_open {
                    true => QpState::Rts,
                    false => from,
                };
                let stopped = self.stop_qp(qp.key, qp.made.qp_type, from);
                if self.stops.is_stopped(id) {
                    // Whatever became of the flush: software completes what the device leaves.
                    self.settle(qp.key);
                } else {
                    self.not_stopped(qp.key);
                }
                stopped?;
                return Ok(ChangeOutcome::Deferred);
            }
        }
        Ok(ChangeOutcome::Sent)
    }

    fn note(&mut self, qp: &QpControl<P>, state: QpState) -> Result<()> {
        self.registry
            .set_state(qp.key, state)
            .map_err(|error| e810_datapath::Error::from(error).into())
    }
}

/// What became of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ChangeOutcome {
    /// The device has taken the context.
    Sent,
    /// The context was not sent to the device, or the device took no path from it.
    Deferred,
}

/// Refuses attributes that verbs have and this device does not support.
fn check_supported(attr: &QpAttr) -> Result<()> {
    if attr.caps.is_some() {
        return Err(Unsupported::QueueResize.into());
    }
    if attr.alt_path.is_some() {
        return Err(Unsupported::AlternatePath.into());
    }
    Ok(())
}

/// Ranges that hold in every state.
fn check_ranges(attr: &QpAttr, tuning: &Tuning) -> Result<()> {
    const PSN_MAX: u32 = (1 << 24) - 1;
    let ranges: [(&str, u32, u32); 10] = [
        ("P_Key index", 0, u32::from(PKEYS) - 1),
        ("port", 1, PORTS.into()),
        ("receive PSN", 0, PSN_MAX),
        ("send PSN", 0, PSN_MAX),
        ("max_dest_rd_atomic", 0, tuning.max_dest_rd_atomic.into()),
        ("max_rd_atomic", 0, tuning.max_rd_atomic.into()),
        ("min_rnr_timer", 0, 31),
        ("timeout", 0, 31),
        ("retry_cnt", 0, 7),
        ("rnr_retry", 0, 7),
    ];
    let values = [
        attr.pkey_index.map(u32::from),
        attr.port.map(u32::from),
        attr.rq_psn,
        attr.sq_psn,
        attr.max_dest_rd_atomic.map(u32::from),
        attr.max_rd_atomic.map(u32::from),
        attr.min_rnr_timer.map(u32::from),
        attr.timeout.map(u32::from),
        attr.retry_cnt.map(u32::from),
        attr.rnr_retry.map(u32::from),
    ];
    for (&(what, min, max), value) in ranges.iter().zip(&values) {
        if let Some(value) = *value
            && !(min..=max).contains(&value)
        {
            return Err(Error::OutOfRange {
                what,
                value: value.into(),
                min: min.into(),
                max: max.into(),
            });
        }
    }
    Ok(())
}
