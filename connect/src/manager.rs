//! The connection manager of a function: the state machine on queue pair 1.

use core::net::IpAddr;

use e810::{AccessFlags, Control, MacAddr, Mtu, Path, Platform, QpAttr, QpControl, QpState, Qpn};
use e810_cm::machine::{
    Accept, Connect, ConnectionId, Destination, Error, Event, Machine, Origin, Reply,
};
use e810_cm::{GID, Mad, Reason, ip};
use e810_hal::Ns;

use crate::gsi::{Gsi, GsiError};

/// What is known of the way to a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// The Ethernet address of the next hop, and the hop limit of the way.
    Known(MacAddr, u8),
    /// It is being asked for: look again later.
    Pending,
    /// There is no way, or nobody answers.
    Unreachable,
}

/// Who finds neighbours. A look does not wait.
pub trait Neighbours {
    /// The way to a destination from an address of our own.
    fn lookup(&mut self, own: IpAddr, destination: IpAddr) -> Lookup;
}

/// The changes that bring a connection's queue pair from INIT to RTS (cm-path 6.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

/// What [`Manager::progress`] tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happened {
    /// Of a connection.
    Event(Event),
    /// More datagrams may be there: call it again before anything is waited for.
    More,
    /// Nothing.
    Nothing,
}

/// Datagrams that one call of [`Manager::progress`] takes, and requests whose senders it looks for.
const ROUND: usize = 32;

/// The connection manager of a function.
#[derive(Debug)]
pub struct Manager<'t, P: Platform> {
    machine: Machine<'t>,
    gsi: Gsi<P>,
    /// The request of whose sender is looked for next.
    next: usize,
    /// Datagrams that were not sent: as if they were lost.
    not_sent: u64,
}

impl<'t, P: Platform> Manager<'t, P> {
    /// A manager on queue pair 1.
    #[must_use]
    pub const fn new(machine: Machine<'t>, gsi: Gsi<P>) -> Self {
        Self {
            machine,
            gsi,
            next: 0,
            not_sent: 0,
        }
    }

    /// Ends it: gives queue pair 1 back. Peers of connections that were not ended notice by
    /// themselves.
    ///
    /// # Errors
    /// As [`Gsi::close`].
    pub fn close(self, control: &mut Control<P>) -> Result<(), GsiError> {
        self.gsi.close(control)
    }

    /// The state machine, for calls about connections and listeners.
    pub const fn machine(&mut self) -> &mut Machine<'t> {
        &mut self.machine
    }

    /// Queue pair 1.
    pub const fn gsi(&mut self) -> &mut Gsi<P> {
        &mut self.gsi
    }

    /// Datagrams that could not be sent.
    #[must_use]
    pub const fn not_sent(&self) -> u64 {
        self.not_sent
    }

    /// When [`progress`](Self::progress) has something to do, without a datagram; `None` if never.
    #[must_use]
    pub fn deadline(&self) -> Option<Ns> {
        self.machine.deadline()
    }

    /// Takes datagrams, repeats what was not answered, sends, and tells one event at most.
    ///
    /// # Errors
    /// Queue pair 1 takes no receives any more.
    pub fn progress(
        &mut self,
        control: &mut Control<P>,
        neighbours: &mut dyn Neighbours,
        now: Ns,
    ) -> Result<Happened, GsiError> {
        let mut taken = 0;
        while taken < ROUND
            && let Some(received) = self.gsi.receive(control)?
        {
            let bytes = received.mad.get(..received.len).unwrap_or_default();
            self.machine.receive(bytes, &received.origin, now);
            taken = taken.saturating_add(1);
        }
        let more = self.machine.poll(now) || taken == ROUND;
        self.look_for_senders(neighbours, now);
        self.send(control, neighbours, now);
        Ok(match self.machine.event() {
            Some(event) => Happened::Event(event),
            None if more => Happened::More,
            None => Happened::Nothing,
        })
    }

    /// Looks for the senders of some requests, round and round.
    fn look_for_senders(&mut self, neighbours: &mut dyn Neighbours, now: Ns) {
        for _ in 0..ROUND.min(self.machine.unreached_len()) {
            let Some((id, origin)) = self.machine.unreached(self.next) else {
                self.next = 0;
                continue;
            };
            let [own, destination] = [origin.local, origin.remote].map(ip::address);
            // One that is gone from the list leaves its place to another.
            let _ = match neighbours.lookup(own, destination) {
                Lookup::Known(..) => self.machine.reached(id, now),
                Lookup::Unreachable => self.machine.ignore(id),
                Lookup::Pending => {
                    self.next = self.next.wrapping_add(1);
                    Ok(())
                }
            };
        }
    }

    fn send(&mut self, control: &mut Control<P>, neighbours: &mut dyn Neighbours, now: Ns) {
        let mut mad: Mad = [0; 256];
        while self.gsi.has_room()
            && let Some(to) = self.machine.transmit(now, &mut mad)
        {
            let sent = match self.path(control, neighbours, &to) {
                Some(path) => self.gsi.send(control, &path, &mad),
                None => Err(GsiError::Busy),
            };
            if sent.is_err() {
                self.not_sent = self.not_sent.wrapping_add(1);
            }
        }
    }

    /// The way of a datagram.
    fn path(
        &self,
        control: &Control<P>,
        neighbours: &mut dyn Neighbours,
        to: &Destination,
    ) -> Option<Path> {
        let Origin { mac, .. } = to.origin;
        match to.connection {
            // Back where it came from: nobody is asked on behalf of a stranger.
            None => way(control, &to.origin, mac, 64),
            Some(_) => self.way_of(control, neighbours, &to.origin, to.via),
        }
    }

    fn way_of(
        &self,
        control: &Control<P>,
        neighbours: &mut dyn Neighbours,
        origin: &Origin,
        via: [u8; GID],
    ) -> Option<Path> {
        let [own, destination] = [origin.local, via].map(ip::address);
        match neighbours.lookup(own, destination) {
            Lookup::Known(mac, hop_limit) => way(control, origin, mac, hop_limit),
            Lookup::Pending | Lookup::Unreachable => None,
        }
    }

    /// Asks for a connection; its queue pair is in INIT with receives posted. The neighbour is to
    /// be known already, or the request is lost and repeated after 4.6 s.
    ///
    /// # Errors
    /// As [`Machine::connect`].
    pub fn connect(&mut self, connect: &Connect<'_>) -> Result<ConnectionId, Error> {
        self.machine.connect(connect)
    }

    /// Accepts a request on a queue pair in INIT, with receives posted: brings it to RTS and answers.
    /// If that cannot be, the peer is told why, and the connection is over.
    ///
    /// # Errors
    /// [`NotConnected`].
    pub fn accept(
        &mut self,
        control: &mut Control<P>,
        neighbours: &mut dyn Neighbours,
        (id, qp): (ConnectionId, &mut QpControl<P>),
        accept: &Accept<'_>,
    ) -> Result<(), NotConnected> {
        let depths = [accept.responder_resources, accept.initiator_depth];
        self.bring_to_rts(control, neighbours, (id, qp), depths)?;
        Ok(self.machine.accept(id, accept)?)
    }

    /// Completes a connection that the peer has accepted, on its queue pair in INIT: brings it to
    /// RTS and tells the peer. If that cannot be, the peer is told why, and the connection is over.
    ///
    /// # Errors
    /// [`NotConnected`].
    pub fn complete(
        &mut self,
        control: &mut Control<P>,
        neighbours: &mut dyn Neighbours,
        (id, qp): (ConnectionId, &mut QpControl<P>),
    ) -> Result<(), NotConnected> {
        self.bring_to_rts(control, neighbours, (id, qp), [0, 0])?;
        Ok(self.machine.ready(id)?)
    }

    fn bring_to_rts(
        &mut self,
        control: &mut Control<P>,
        neighbours: &mut dyn Neighbours,
        (id, qp): (ConnectionId, &mut QpControl<P>),
        depths: [u8; 2],
    ) -> Result<(), NotConnected> {
        let attributes = match self.attributes(control, neighbours, id, depths) {
            Ok(attributes) => attributes,
            Err(reason) => {
                self.machine.reject(id, reason, &[])?;
                return Err(NotConnected::Peer(reason));
            }
        };
        for attr in [&attributes.to_rtr, &attributes.to_rts] {
            if let Err(error) = control.modify_qp(qp, attr) {
                self.machine.reject(id, Reason::CONSUMER_DEFINED, &[])?;
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Ends a connection, or answers the peer's end: first its queue pair goes to ERROR, so that
    /// nothing of it arrives any more.
    ///
    /// # Errors
    /// [`NotConnected`]. The peer is told even if the device refuses.
    pub fn disconnect(
        &mut self,
        control: &mut Control<P>,
        (id, qp): (ConnectionId, &mut QpControl<P>),
        now: Ns,
    ) -> Result<(), NotConnected> {
        let to_error = QpAttr {
            state: Some(QpState::Err),
            ..QpAttr::default()
        };
        let failed = match qp.state() {
            QpState::Err | QpState::Reset => Ok(()),
            _ => control.modify_qp(qp, &to_error),
        };
        self.machine.disconnect(id, now)?;
        Ok(failed?)
    }

    /// The changes of a connection's queue pair: on the active side once it is accepted, on the
    /// passive side once it is requested, with the `responder_resources` and `initiator_depth` that
    /// it will accept with.
    ///
    /// # Errors
    /// The reason to reject with: no way to the peer, or values of the peer that cannot be used.
    pub fn attributes(
        &mut self,
        control: &Control<P>,
        neighbours: &mut dyn Neighbours,
        id: ConnectionId,
        [responder_resources, initiator_depth]: [u8; 2],
    ) -> Result<Attributes, Reason> {
        let (origin, via) = self.machine.origin(id).ok_or(Reason::INVALID_COMM_ID)?;
        let way = self.way_of(control, neighbours, &origin, via);
        let way = way.ok_or(Reason::INVALID_GID)?;
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
                    return Err(Reason::INVALID_COMM_INSTANCE);
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
        let qpn = Qpn::new(peer.qpn).ok_or(Reason::NO_QP)?;
        Ok(Attributes {
            to_rtr: QpAttr {
                state: Some(QpState::Rtr),
                path: Some(peer.path),
                path_mtu: Some(mtu),
                dest_qpn: Some(qpn),
                rq_psn,
                max_dest_rd_atomic: Some(peer.responder_resources),
                // 655.36 ms, the longest.
                min_rnr_timer: Some(0),
                ..QpAttr::default()
            },
            to_rts: QpAttr {
                state: Some(QpState::Rts),
                sq_psn: Some(peer.psn),
                retry_cnt: Some(peer.retry_cnt),
                rnr_retry: Some(peer.rnr_retry),
                max_rd_atomic: Some(peer.initiator_depth),
                timeout,
                ..QpAttr::default()
            },
        })
    }
}

/// Why a queue pair is not connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotConnected {
    /// The device refuses a change of the queue pair.
    #[error(transparent)]
    Control(#[from] e810::Error),
    /// The connection does not allow it.
    #[error(transparent)]
    Machine(#[from] Error),
    /// What the peer asks for cannot be: it was refused with this reason.
    #[error("the peer was refused: {0:?}")]
    Peer(Reason),
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

/// A path from the address that a datagram came to.
fn way<P: Platform>(
    control: &Control<P>,
    origin: &Origin,
    mac: MacAddr,
    hop_limit: u8,
) -> Option<Path> {
    let index = control.find_gid(ip::address(origin.local), origin.vlan)?;
    Some(Path {
        hop_limit,
        traffic_class: origin.traffic_class,
        flow_label: origin.flow_label,
        priority: Path::priority_of(origin.traffic_class),
        ..Path::new(index, ip::address(origin.remote), mac)
    })
}
