//! How the queue pair of a connection is changed (cm-path 6.6).

use e810::{AccessFlags, Control, Mtu, Path, Platform, QpAttr, QpState, Qpn};
use e810_cm::machine::{ConnectionId, Error, Reply, State};
use e810_cm::{Reason, ip};

use crate::manager::{Manager, Neighbours, NoPath, path_of};
use crate::service::Refused;

/// The changes that bring a connection's queue pair from INIT to RTS (cm-path 6.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Attributes {
    /// To RTR.
    pub to_rtr: QpAttr,
    /// To RTS.
    pub to_rts: QpAttr,
}

impl Attributes {
    /// RESET to INIT, and INIT to INIT before a connection. Peers may write; they may read, where
    /// READs of theirs are answered.
    #[must_use]
    pub fn to_init(responder_resources: u8) -> QpAttr {
        let reads = if responder_resources == 0 {
            AccessFlags::empty()
        } else {
            AccessFlags::REMOTE_READ
        };
        QpAttr::to_init(AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | reads)
    }
}

impl<P: Platform> Manager<'_, P> {
    /// The changes of a connection's queue pair: on the active side once it is accepted, on the
    /// passive side once it is requested, with the `responder_resources` and `initiator_depth` that
    /// it will accept with.
    ///
    /// # Errors
    /// [`Refused::Machine`] where it is not to be answered now, as a request that was accepted
    /// before. [`Refused::PathPending`]: call it again. [`Refused::Peer`]: the reason to reject with,
    /// which is no way to the peer, or values of the peer that cannot be used.
    pub fn attributes(
        &mut self,
        control: &Control<P>,
        neighbours: &mut dyn Neighbours,
        id: ConnectionId,
        [responder_resources, initiator_depth]: [u8; 2],
    ) -> Result<Attributes, Refused> {
        let state = self.machine.state(id).ok_or(Error::NoSuch(id))?;
        if !matches!(state, State::ReqReceived | State::RepReceived) {
            return Err(Error::State { id, state }.into());
        }
        let (origin, via) = self.machine.origin(id).ok_or(Error::NoSuch(id))?;
        let way = path_of(control, neighbours, &origin, via);
        let way = way.map_err(|why| match why {
            // Soon it is known.
            NoPath::Pending => Refused::PathPending,
            NoPath::Unreachable => Reason::INVALID_GID.into(),
        })?;
        let rq_psn = self.machine.local_psn(id);
        let timeout = self.machine.ack_timeout(id);
        let peer = match self.machine.request(id).and_then(|request| request.req) {
            // The passive side takes the peer's path (cm-path 1.3).
            Some(req) => Peer {
                qpn: req.local_qpn,
                psn: req.starting_psn,
                mtu: req.path_packet_payload_mtu,
                retry_cnt: req.retry_count,
                rnr_retry: req.rnr_retry_count,
                responder_resources,
                initiator_depth,
                path: Path {
                    destination: ip::address(req.primary_local_port_gid),
                    traffic_class: req.primary_traffic_class,
                    flow_label: req.primary_flow_label,
                    priority: req.primary_sl & 7,
                    ..way
                },
            },
            None => {
                let Some(Reply::Rep(rep)) = self.machine.reply(id) else {
                    return Err(Reason::INVALID_COMM_INSTANCE.into());
                };
                let asked = self.machine.asked(id);
                let asked = asked.ok_or(Reason::INVALID_COMM_INSTANCE)?;
                Peer {
                    qpn: rep.local_qpn,
                    psn: rep.starting_psn,
                    mtu: asked.path_packet_payload_mtu,
                    retry_cnt: asked.retry_count,
                    rnr_retry: rep.rnr_retry_count,
                    responder_resources: rep.initiator_depth,
                    initiator_depth: rep.responder_resources,
                    path: Path {
                        traffic_class: asked.primary_traffic_class,
                        flow_label: asked.primary_flow_label,
                        priority: asked.primary_sl & 7,
                        ..way
                    },
                }
            }
        };
        let mtu = Mtu::of_code(peer.mtu).ok_or(Reason::INVALID_MTU)?;
        // What the card has; the peer is told what was agreed.
        let card = control.query_device();
        let most = |wanted: u8, of: u32| wanted.min(u8::try_from(of).unwrap_or(u8::MAX));
        let qpn = Qpn::new(peer.qpn).ok_or(Reason::NO_QP)?;
        Ok(Attributes {
            to_rtr: QpAttr {
                state: Some(QpState::Rtr),
                path: Some(peer.path),
                path_mtu: Some(mtu),
                dest_qpn: Some(qpn),
                rq_psn,
                max_dest_rd_atomic: Some(most(peer.responder_resources, card.max_dest_rd_atomic)),
                // 655.36 ms, the longest.
                min_rnr_timer: Some(0),
                ..QpAttr::default()
            },
            to_rts: QpAttr {
                state: Some(QpState::Rts),
                sq_psn: Some(peer.psn),
                retry_cnt: Some(peer.retry_cnt),
                rnr_retry: Some(peer.rnr_retry),
                max_rd_atomic: Some(most(peer.initiator_depth, card.max_rd_atomic)),
                timeout,
                ..QpAttr::default()
            },
        })
    }
}

/// What a queue pair needs to know of its peer.
struct Peer {
    qpn: u32,
    psn: u32,
    mtu: u8,
    retry_cnt: u8,
    rnr_retry: u8,
    responder_resources: u8,
    initiator_depth: u8,
    path: Path,
}
