//! Moving a queue pair from state to state.
//!
//! RESET and INIT are one state of the device (idle); INIT costs no command
//! (control-path 5.5). The whole context is rebuilt before each command, whose
//! flags say which parts the device takes.

use e810_cqp::limits::{MAX_IRD, MAX_ORD};
use e810_cqp::op::{FlushWqes, ModifyQp, QpState as HwState, QpType};
use e810_cqp::qpc::RoceContext;
use e810_datapath::state::{QpState, Service, check};
use e810_hal::Platform;

use super::{Control, run};
use crate::addr::{Path, udp_source_port};
use crate::attr::QpAttr;
use crate::error::{Error, Object, Result};
use crate::memory::AccessFlags;
use crate::pair::Qp;

impl<P: Platform> Control<P> {
    /// Changes a queue pair's state and attributes.
    ///
    /// # Errors
    /// A transition that does not exist, an attribute missing, out of place or
    /// out of range (nothing is changed then), or the device's refusal.
    pub fn modify_qp(&mut self, qp: &mut Qp<P>, attr: &QpAttr) -> Result<()> {
        self.own(qp.owner, Object::Qp, qp.key.id())?;
        let from = qp.state();
        let to = attr.state.unwrap_or(from);
        check(Service::Rc, from, to, attr.mask()).map_err(e810_datapath::Error::from)?;
        check_ranges(attr)?;
        if matches!(to, QpState::Reset | QpState::Sqd | QpState::Sqe) {
            return Err(Error::Invalid {
                what: "this transition is not built yet: destroy the queue pair and make a new one",
            });
        }
        let mut context = qp.context;
        let arp = self.apply(qp, attr, &mut context)?;
        let result = self.command_for(qp, attr, from, to, &context);
        match result {
            Ok(()) => {
                qp.context = context;
                if let Some(old) = arp.and_then(|new| qp.arp.replace(new)) {
                    self.neighbours.leave(&mut self.cqp, old)?;
                }
                Ok(())
            }
            Err(error) => {
                if let Some(new) = arp {
                    // The first error says more than one that undoing may add.
                    let _ = self.neighbours.leave(&mut self.cqp, new);
                }
                Err(error)
            }
        }
    }

    /// Puts the attributes into a copy of the context; gives the ARP index that
    /// a new path took.
    fn apply(
        &mut self,
        qp: &Qp<P>,
        attr: &QpAttr,
        context: &mut RoceContext,
    ) -> Result<Option<u16>> {
        if let Some(access) = attr.access {
            // The P_Key table has one entry, 0xFFFF (data-path 8.10).
            context.pd = qp.pd;
            context.privileges.remote_read = access.contains(AccessFlags::REMOTE_READ);
            // WRRDRSPOK covers read responses too (control-path 5.2), so it
            // stays set: a requester whose QP lets nobody write still reads.
            context.privileges.remote_write = true;
        }
        if let Some(mtu) = attr.path_mtu {
            let interface = u32::from(self.lan.mtu);
            if mtu.bytes() > interface {
                return Err(Error::OutOfRange {
                    what: "path MTU",
                    value: mtu.bytes().into(),
                    min: 256,
                    max: interface.into(),
                });
            }
            context.path_mtu = mtu.bytes() as u16;
        }
        if let Some(peer) = attr.dest_qpn {
            context.peer.qp = peer.get();
        }
        if let Some(psn) = attr.rq_psn {
            context.psn_expected = psn;
        }
        if let Some(psn) = attr.sq_psn {
            // control-path 5.5, RTS.
            context.psn_next = psn;
            context.psn_unacked = psn;
            context.psn_max = psn;
            context.lsn = 0xFFFF;
        }
        // 0 keeps the value before (data-path 8.3).
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

    fn apply_path(&mut self, qp: &Qp<P>, path: &Path, context: &mut RoceContext) -> Result<u16> {
        let peer = &mut context.peer;
        peer.addresses = path.addresses()?;
        peer.hop_limit = if path.hop_limit == 0 {
            64
        } else {
            path.hop_limit
        };
        peer.traffic_class = path.traffic_class;
        peer.flow_label = path.flow_label;
        peer.source_port = udp_source_port(path.flow_label, qp.key.id(), peer.qp);
        peer.vlan = path.vlan_tag()?;
        let arp = self.neighbours.join(&mut self.cqp, path.destination_mac)?;
        peer.arp_index = arp;
        peer.endpoint_index = arp.into();
        Ok(arp)
    }

    fn command_for(
        &mut self,
        qp: &Qp<P>,
        attr: &QpAttr,
        from: QpState,
        to: QpState,
        context: &RoceContext,
    ) -> Result<()> {
        let id = qp.key.id();
        let address = self.write_context(id, context)?;
        let shadow = self.shadow_of(id);
        let command = |state| ModifyQp::new(id, QpType::RoceRc, address, shadow, state);
        match to {
            // Idle already.
            QpState::Init => {}
            QpState::Rtr => {
                let command = ModifyQp {
                    arp_valid: true,
                    cqs_valid: true,
                    ..command(HwState::Rtr)
                };
                run(&mut self.cqp, &command)?;
            }
            QpState::Rts => {
                let command = ModifyQp {
                    arp_valid: true,
                    cqs_valid: true,
                    // Also set whenever max_rd_atomic is given.
                    ord_valid: from == QpState::Rtr || attr.max_rd_atomic.is_some(),
                    ..command(HwState::Rts)
                };
                run(&mut self.cqp, &command)?;
            }
            // ERR; the others were refused.
            _ => {
                if from == QpState::Err {
                    return Ok(());
                }
                // Software sees ERR first: what is posted from now on is
                // flushed with the rest.
                self.note(qp, QpState::Err)?;
                let told = run(&mut self.cqp, &command(HwState::Error))
                    .and_then(|()| run(&mut self.cqp, &Self::general_flush(id)));
                // Whatever the device said: what it leaves is completed.
                self.settle(qp.key);
                return told;
            }
        }
        self.note(qp, to)
    }

    fn note(&mut self, qp: &Qp<P>, state: QpState) -> Result<()> {
        self.registry
            .set_state(qp.key, state)
            .map_err(|error| e810_datapath::Error::from(error).into())
    }

    pub(super) const fn general_flush(id: u32) -> FlushWqes {
        use e810_cqp::op::FlushCode;
        FlushWqes::both(id, FlushCode::GENERAL, FlushCode::GENERAL)
    }
}

/// Ranges that hold in every state.
fn check_ranges(attr: &QpAttr) -> Result<()> {
    const PSN_MAX: u64 = (1 << 24) - 1;
    let checks: [(&'static str, Option<u64>, u64, u64); 10] = [
        ("P_Key index", attr.pkey_index.map(u64::from), 0, 0),
        ("port", attr.port.map(u64::from), 1, 1),
        ("receive PSN", attr.rq_psn.map(u64::from), 0, PSN_MAX),
        ("send PSN", attr.sq_psn.map(u64::from), 0, PSN_MAX),
        (
            "max_dest_rd_atomic",
            attr.max_dest_rd_atomic.map(u64::from),
            0,
            u64::from(MAX_IRD),
        ),
        (
            "max_rd_atomic",
            attr.max_rd_atomic.map(u64::from),
            0,
            u64::from(MAX_ORD),
        ),
        ("min_rnr_timer", attr.min_rnr_timer.map(u64::from), 0, 31),
        ("timeout", attr.timeout.map(u64::from), 0, 31),
        ("retry_cnt", attr.retry_cnt.map(u64::from), 0, 7),
        ("rnr_retry", attr.rnr_retry.map(u64::from), 0, 7),
    ];
    for (what, value, min, max) in checks {
        if let Some(value) = value
            && !(min..=max).contains(&value)
        {
            return Err(Error::OutOfRange {
                what,
                value,
                min,
                max,
            });
        }
    }
    Ok(())
}
