//! [`Wire`]: the link of a simulator joined to a wire.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use e810_shared::seqpacket::Acceptor;
use e810_sim::Sim;
use e810_sim::link::Mac;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::announcement;
use crate::counts::Counts;
use crate::endpoints::UdpEnds;
use crate::ends::Ends;
use crate::error::WireError;
use crate::hearing::Hearing;
use crate::name::WireName;
use crate::receiver::{Receiver, Segment, Source};
use crate::report::LinkReport;
use crate::rings::{Incoming, Outgoing, Rings, listen, locked};
use crate::sender::{Sender, Target};
use crate::socket::{bind_shared, only_where_joined, remember_refused, wait};
use crate::socket_buffers::{self, Buffers};
use crate::spec::WireSpec;
use crate::uplink::WireUplink;

/// How long an announcement may take to come back. On an idle machine it is there when it was sent.
const MAX_RETURN: Duration = Duration::from_secs(2);

/// A wire that the link of a simulator is joined to, until this is dropped.
#[derive(Debug)]
pub struct Wire {
    sim: Sim,
    spec: WireSpec,
    local: SocketAddr,
    sockets: Vec<Arc<UdpSocket>>,
    buffers: Buffers,
    counts: Arc<Counts>,
    uplink: Arc<WireUplink>,
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

/// The sockets of a wire, and where its frames go and come from.
struct Bound {
    /// The one that sends, and the one for the group of a segment.
    sockets: Vec<Arc<UdpSocket>>,
    socket: Arc<UdpSocket>,
    local: SocketAddr,
    target: Target,
    source: Source,
    counts: Arc<Counts>,
    /// Where ends of a segment offer rings.
    acceptor: Option<Acceptor>,
}

impl Wire {
    /// Joins the link of `sim`: frames that are for none of its functions, and those to groups, go
    /// to the wire, and frames that come from there to its functions.
    ///
    /// # Errors
    /// [`WireError`]: an address that cannot be had, a group that cannot be used, no thread.
    pub fn join(sim: &Sim, spec: &WireSpec) -> Result<Self, WireError> {
        let bound = match spec {
            WireSpec::Pair(ends) => pair(*ends)?,
            WireSpec::Segment(name) => segment(sim, name)?,
        };
        let sizes = bound.sockets.iter().map(|one| socket_buffers::enlarge(one));
        let buffers = sizes
            .reduce(|one, other| Ok(one?.min(other?)))
            .unwrap_or_else(|| Ok(Buffers::default()))
            .map_err(WireError::system("sizing the wire's buffers"))?;
        buffers.warn_if_small();
        let event = || {
            let event = EventFd::new(EFD_NONBLOCK | libc::EFD_CLOEXEC);
            event.map(Arc::new)
        };
        let stop = event().map_err(WireError::system("making an event"))?;
        let counts = Arc::clone(&bound.counts);
        let mut sender = Sender {
            socket: Arc::clone(&bound.socket),
            target: bound.target,
            counts: Arc::clone(&counts),
            warned: false,
            outgoing: None,
            mac: sim.function(0).mac(),
        };
        let mut incoming = None;
        let nudge = event().map_err(WireError::system("making an event"))?;
        if let Source::Ends(segment) = &bound.source {
            let known = Arc::clone(&segment.hearing.known);
            sender.outgoing = Some(Outgoing::new(known, Arc::clone(&nudge)));
            let hearing = Arc::clone(&segment.hearing);
            incoming = Some(Arc::new(Mutex::new(Incoming::new(hearing))));
        }
        let sender = Arc::new(Mutex::new(sender));
        let rings = match (&bound.source, spec, &incoming, bound.acceptor) {
            (Source::Ends(segment), WireSpec::Segment(name), Some(incoming), Some(acceptor)) => {
                let end = (name, bound.local, segment.hearing.macs.clone());
                let (incoming, sender) = (Arc::clone(incoming), Arc::clone(&sender));
                Some(Rings::new(acceptor, end, nudge, incoming, sender))
            }
            _ => {
                locked(&sender).outgoing = None;
                None
            }
        };
        let receiver = Receiver {
            sim: sim.clone(),
            socket: bound.socket,
            source: bound.source,
            counts: Arc::clone(&counts),
            stop: Arc::clone(&stop),
            rings,
        };
        let thread = thread::Builder::new()
            .name("e810-wire".to_owned())
            .spawn(move || receiver.run())
            .map_err(WireError::system("starting the wire's thread"))?;
        let uplink = Arc::new(WireUplink { sender, incoming });
        sim.set_uplink(Some(uplink.clone()));
        Ok(Self {
            sim: sim.clone(),
            spec: spec.clone(),
            local: bound.local,
            sockets: bound.sockets,
            buffers,
            counts,
            uplink,
            stop,
            thread: Some(thread),
        })
    }

    /// Where this end sends from.
    #[must_use]
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// What it saw so far.
    #[must_use]
    pub fn report(&self) -> LinkReport {
        let counts = &self.counts;
        let (wire, peer) = match &self.spec {
            WireSpec::Pair(ends) => (None, ends.peer),
            WireSpec::Segment(name) => (Some(name.to_string()), name.group().into()),
        };
        let outgoing = locked(&self.uplink.sender);
        let rings_out = outgoing.outgoing.as_ref().map_or(0, Outgoing::count);
        drop(outgoing);
        let incoming = self.uplink.incoming.as_ref();
        let rings_in = incoming.map_or(0, |incoming| locked(incoming).count());
        let overflows = self.sockets.iter().map(|one| socket_buffers::dropped(one));
        LinkReport {
            wire,
            local: self.local.to_string(),
            peer: peer.to_string(),
            sent: counts.sent.get(),
            sent_to_all: counts.sent_to_all.get(),
            sent_by_ring: counts.sent_by_ring.get(),
            not_sent: counts.not_sent.get(),
            rings_full: counts.rings_full.get(),
            received: counts.received.get(),
            received_by_ring: counts.received_by_ring.get(),
            not_ours: counts.not_ours.get(),
            strangers: counts.strangers.get(),
            no_frame: counts.no_frame.get(),
            too_long: counts.too_long.get(),
            truncated: counts.truncated.get(),
            own_addresses: counts.own_addresses.get(),
            rings_out,
            rings_in,
            receive_errors: counts.receive_errors.get(),
            receive_overflows: overflows.sum(),
            receive_buffer: self.buffers.receive,
            send_buffer: self.buffers.send,
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.sim.set_uplink(None);
        if let Err(error) = self.stop.write(1) {
            log::error!("the wire's thread cannot be stopped: {error}");
            return;
        }
        // A panic of the thread was already printed.
        let _ = self.thread.take().map(JoinHandle::join);
        log::info!("wire {}: {:?}", self.spec, self.report());
    }
}

/// The socket of a wire between two.
fn pair(ends: UdpEnds) -> Result<Bound, WireError> {
    let bind = || {
        let socket = UdpSocket::bind(ends.local)?;
        socket.set_nonblocking(true)?;
        Ok(Arc::new(socket))
    };
    let socket = bind().map_err(|cause: std::io::Error| WireError::Local {
        at: ends.local,
        errno: cause.raw_os_error(),
        cause: cause.to_string(),
    })?;
    Ok(Bound {
        sockets: vec![Arc::clone(&socket)],
        socket,
        local: ends.local,
        target: Target::Peer(ends.peer),
        source: Source::Peer(ends.peer),
        counts: Arc::default(),
        acceptor: None,
    })
}

/// The sockets of a segment: one receives what is sent to its group; another, of an address of its
/// own, sends and receives what is for this end alone.
fn segment(sim: &Sim, name: &WireName) -> Result<Bound, WireError> {
    let group = name.group();
    let failed = |during| WireError::group(name, during);
    let to_all = bind_shared(group).map_err(failed("receiving at the group's port"))?;
    only_where_joined(&to_all).map_err(failed("leaving the group of other interfaces"))?;
    to_all
        .join_multicast_v4(group.ip(), &Ipv4Addr::LOCALHOST)
        .map_err(failed("joining the group"))?;
    // The group is sent to through the interface of this address.
    let bind = || {
        let socket = UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        socket.set_nonblocking(true)?;
        // Not beyond this machine, whatever its routes are.
        socket.set_multicast_ttl_v4(0)?;
        remember_refused(&socket)?;
        let local = socket.local_addr()?;
        Ok((socket, local))
    };
    let (socket, local) = bind().map_err(failed("sending from 127.0.0.1"))?;
    // Before others know of this end.
    let acceptor =
        listen(name, local).inspect_err(|error| log::info!("wire {name}: only datagrams: {error}"));
    let macs: Vec<Mac> = (0..sim.functions())
        .map(|function| sim.function(function).mac())
        .collect();
    announce(name, &macs, &socket, (&to_all, local))?;
    let (socket, to_all) = (Arc::new(socket), Arc::new(to_all));
    let known = Arc::<Ends>::default();
    let counts = Arc::<Counts>::default();
    Ok(Bound {
        sockets: vec![Arc::clone(&socket), Arc::clone(&to_all)],
        socket,
        local,
        target: Target::Ends {
            known: Arc::clone(&known),
            group: group.into(),
        },
        source: Source::Ends(Segment {
            hearing: Arc::new(Hearing {
                known,
                macs,
                shared_port: group.port(),
                counts: Arc::clone(&counts),
            }),
            to_all,
            own: local,
        }),
        counts,
        acceptor: acceptor.ok(),
    })
}

/// Announces the addresses of the functions here to all, and waits until an announcement comes
/// back: then frames to all arrive.
fn announce(
    name: &WireName,
    macs: &[Mac],
    socket: &UdpSocket,
    (to_all, local): (&UdpSocket, SocketAddr),
) -> Result<(), WireError> {
    let group = name.group();
    let failed = || WireError::group(name, "sending to the group");
    for mac in macs {
        let sent = socket.send_to(&announcement::of(*mac), group);
        sent.map_err(failed())?;
    }
    let start = Instant::now();
    // Frames of others may come first; they are lost, as all that was sent before.
    while let Some(left) = MAX_RETURN.checked_sub(start.elapsed()) {
        wait([to_all.as_raw_fd()], Some(left)).map_err(failed())?;
        let received = to_all.recv_from(&mut [0; 1]);
        if received.is_ok_and(|(_, from)| from == local) {
            return Ok(());
        }
    }
    Err(WireError::Silent {
        name: name.clone(),
        group,
    })
}

#[cfg(test)]
mod tests;
