//! Queries without a command: answered from what the bring-up found, what the program set, and
//! what events reported.

use e810_cqp::hmc::Object as HmcObject;
use e810_cqp::limits::{MAX_GROUP_MEMBERS, MAX_MR_BYTES};
use e810_datapath::sizing::{MAX_CQE, MAX_INLINE, MAX_MESSAGE, MAX_SGES};
use e810_datapath::state::AttrMask;
use e810_datapath::state::query::{CHANGED_BY_DEVICE, valid};
use e810_hal::Platform;
use e810_types::QpType;

use super::Control;
use crate::addr::{Mtu, link_local};
use crate::attr::{QpAttr, QpCaps};
use crate::error::{Error, Object, Result};
use crate::limits::{DEFAULT_PKEY, GIDS, MAX_FAST_PAGES, MAX_QP_WR, PKEYS, PORTS};
use crate::port::{DeviceAttr, PortAttr, PortState};
use crate::qp::QpControl;

/// The attributes of a queue pair (`query_qp`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct QueriedQp {
    /// The attributes asked for, as far as they have a meaning in this state.
    pub attr: QpAttr,
    /// The send queue is being drained: in SQD, until the device says that it has finished what
    /// was begun.
    pub sq_draining: bool,
    /// What it was made with.
    pub init: QueriedInit,
}

/// What a queue pair was made with, as granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct QueriedInit {
    /// Kind of service.
    pub qp_type: QpType,
    /// Number of the CQ for sends.
    pub send_cq: u32,
    /// Number of the CQ for receives.
    pub recv_cq: u32,
    /// Sizes granted.
    pub caps: QpCaps,
    /// Every send request is signaled.
    pub signal_all: bool,
    /// It takes fast registrations.
    pub fast_register: bool,
    /// Protection domain.
    pub pd: u32,
    /// The program's own word (`qp_context`).
    pub user_context: u64,
}

impl QueriedQp {
    /// Attributes that may change without the program's doing. All others are cached, because
    /// this device reports nothing else about a queue pair. [`sq_draining`](Self::sq_draining)
    /// may change too: verbs have no mask bit for it.
    pub const CHANGED_BY_DEVICE: AttrMask = CHANGED_BY_DEVICE;
}

impl<P: Platform> Control<P> {
    /// The attributes of a queue pair, as set and as changed by the device. No command: the device
    /// has none that reads a context back.
    ///
    /// `mask` says which attributes are wanted; those without a meaning in the queue pair's state
    /// are left out ([`valid`](e810_datapath::state::query::valid) is the table).
    ///
    /// # Errors
    /// [`Error::Foreign`].
    #[doc(alias = "ibv_query_qp")]
    pub fn query_qp(&self, qp: &QpControl<P>, mask: AttrMask) -> Result<QueriedQp> {
        self.own(qp.owner, Object::Qp, qp.key.id())?;
        let state = qp.state();
        let known = QpAttr {
            state: Some(state),
            cur_state: Some(state),
            caps: Some(qp.made.caps),
            ..qp.last_attr
        };
        Ok(QueriedQp {
            attr: known.masked(mask & valid(qp.made.qp_type, state)),
            sq_draining: qp.slots.is_draining(qp.key),
            init: QueriedInit {
                qp_type: qp.made.qp_type,
                send_cq: qp.context.sq.cq,
                recv_cq: qp.context.rq.cq,
                caps: qp.made.caps,
                signal_all: qp.made.signal_all,
                fast_register: qp.made.fast_register,
                pd: qp.pd,
                user_context: qp.made.user_context,
            },
        })
    }

    /// What the device offers.
    #[must_use]
    #[doc(alias("ibv_query_device", "ib_device"))]
    pub fn query_device(&self) -> DeviceAttr {
        let groups = self.hmc.count(HmcObject::FsiMc).saturating_sub(1);
        let pbles = self.hmc.count(HmcObject::Pble);
        // The lower half of a link-local address.
        let address = u128::from(link_local(self.lan.mac));
        DeviceAttr {
            firmware: self.hmc.features.firmware(),
            node_guid: address as u64,
            max_qp: self.qps.capacity(),
            max_qp_wr: MAX_QP_WR,
            max_sge: MAX_SGES,
            max_sge_read: MAX_SGES,
            max_inline: MAX_INLINE,
            max_cq: self.cqs.capacity(),
            max_cqe: MAX_CQE,
            max_mr: self.mrs.capacity(),
            max_mr_size: MAX_MR_BYTES,
            page_sizes: 1 << 12 | 1 << 21 | 1 << 30,
            max_pd: self.pds.capacity(),
            max_ah: self.ahs.capacity(),
            max_dest_rd_atomic: self.tuning.max_dest_rd_atomic.into(),
            max_rd_atomic: self.tuning.max_rd_atomic.into(),
            max_mcast_groups: groups,
            max_mcast_qp_attach: MAX_GROUP_MEMBERS as u32,
            max_fast_reg_pages: pbles.min(MAX_FAST_PAGES),
            completion_vectors: self.completion_vectors().into(),
            ports: PORTS,
            max_srq: 0,
            atomics: self.hmc.features.atomics(),
        }
    }

    /// The attributes of port `port`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for any port but 1.
    #[doc(alias = "ibv_query_port")]
    pub fn query_port(&self, port: u8) -> Result<PortAttr> {
        only_port(port)?;
        let link = self.lan_side.owned().map(|lan| lan.link());
        let is_up = link.is_none_or(|link| link.info.contains(e810_adminq::op::LinkInfo::UP));
        Ok(PortAttr {
            state: if is_up {
                PortState::Active
            } else {
                PortState::Down
            },
            max_mtu: Mtu::Mtu4096,
            active_mtu: Mtu::fitting(self.lan.mtu),
            max_msg_sz: MAX_MESSAGE,
            gids: GIDS as u8,
            pkeys: PKEYS,
            lid: 0,
            mbps: link.map_or(0, |link| link.mbps),
            fec: link.map(|link| link.fec),
            mac: self.lan.mac,
            vsi: self.lan.vsi,
        })
    }

    /// The P_Key at an index; there is one, the default partition's.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for any port but 1 and any index but 0.
    #[doc(alias = "ibv_query_pkey")]
    pub fn query_pkey(&self, port: u8, index: u16) -> Result<u16> {
        only_port(port)?;
        if index >= PKEYS {
            return Err(Error::OutOfRange {
                what: "P_Key index",
                value: index.into(),
                min: 0,
                max: u64::from(PKEYS) - 1,
            });
        }
        Ok(DEFAULT_PKEY)
    }
}

fn only_port(port: u8) -> Result<()> {
    if (1..=PORTS).contains(&port) {
        return Ok(());
    }
    Err(Error::OutOfRange {
        what: "port",
        value: port.into(),
        min: 1,
        max: PORTS.into(),
    })
}
