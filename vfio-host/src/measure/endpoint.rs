//! One side of a measurement: a device with its PD, CQ, queue pairs and registered
//! memory.
//!
//! This module creates, connects, polls and destroys them in the same order for every measurement.
//! Each measurement decides what it posts and what it expects.

use crate::handshake::{Link, RemoteQp, Rendezvous};
use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};
use e810::{
    AccessFlags, Control, Cq, EventSet, FastMr, Mr, Path, Pd, Qp, QpCaps, QpInit, QpType, Qpn,
    Remaining, Sge, Stats, Tuning, UdTarget, Wc,
};
use e810::{Ah, ConnectOptions, Mtu, QpInfo};
use e810_backends::buffer::Buffer;
use e810_backends::interrupts::HostPlatform;
use e810_hal::{Ns, SharedBytes};

use super::meeting::OwnEnd;
use super::progress_loop::ProgressLoop;
use super::wait_mode::WaitMode;
use crate::monitor::SnapshotPublisher;
use crate::output::ending::after_failure;
use e810_node::neighbours::NeighbourTracker;
use e810_node::station::Network;
use e810_node::tap::TapPlan;

/// A device with its objects.
#[derive(Debug)]
pub struct Endpoint<P: HostPlatform> {
    device: ProgressLoop<P>,
    pd: Pd,
    cq: Cq<P>,
    qps: Vec<Qp<P>>,
    ahs: Vec<Ah>,
    mr: Mr<P>,
    buffer: Buffer,
    qkey: u32,
    counters: bool,
    /// A key of this side that the peer's first message must invalidate.
    invalidate: Option<u32>,
    remote: Vec<RemoteQp>,
}

/// The objects of an [`Endpoint`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EndpointPlan {
    /// Bytes of registered memory.
    pub(crate) bytes: usize,
    /// Access rights of the memory.
    pub(crate) access: AccessFlags,
    /// Entries of the completion queue.
    pub(crate) cqes: u32,
    /// Queue pairs, all alike.
    pub(crate) qps: usize,
    pub(crate) qp_type: QpType,
    /// Their capacities.
    pub(crate) caps: QpCaps,
    /// The queue pairs take fast registrations.
    pub(crate) fast_register: bool,
    pub(crate) counters: bool,
    /// The tuning of the queue pairs.
    pub(crate) tuning: Tuning,
    /// Q_Key announced to the peer; meaningless for a connection.
    pub(crate) qkey: u32,
    /// How the endpoint waits for completions.
    pub(crate) wait_mode: WaitMode,
    /// Command line options that size the CQ and the queue pairs, for the error if one of these is
    /// refused.
    pub(crate) options: Option<SizeOptions>,
}

/// The options that size the queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SizeOptions {
    /// Options for the completion queue.
    pub(crate) cq: &'static str,
    /// Options for the queue pairs.
    pub(crate) qp: &'static str,
}

impl<P: HostPlatform> Endpoint<P> {
    /// Creates the objects of `plan` on a ready device, whose snapshots go to `publisher`.
    ///
    /// # Errors
    /// What the device refused, and which object.
    pub(crate) fn new(
        platform: P,
        mut control: Control<P>,
        events: EventSet<P>,
        plan: &EndpointPlan,
        publisher: Option<SnapshotPublisher>,
    ) -> Result<Self> {
        let mut made = Remaining {
            qps: Vec::new(),
            ahs: [],
            cqs: None,
            mrs: None,
            pds: None,
        };
        let buffer = match make_objects(&platform, &mut control, plan, &mut made) {
            Ok(buffer) => buffer,
            Err(error) => {
                let closed = control.shutdown_with(events, made);
                return Err(after_failure(error, closed.context("shutting down")));
            }
        };
        let (Some(pd), Some(cq), Some(mr)) = (made.pds, made.cqs, made.mrs) else {
            bail!("an endpoint without its objects");
        };
        let qps = made.qps;
        Ok(Self {
            device: ProgressLoop::new(platform, control, events, plan.wait_mode, publisher),
            pd,
            cq,
            qps,
            ahs: Vec::new(),
            mr,
            buffer,
            qkey: plan.qkey,
            counters: plan.counters,
            invalidate: None,
            remote: Vec::new(),
        })
    }

    /// The control path of the device.
    pub(crate) const fn control(&mut self) -> &mut Control<P> {
        &mut self.device.control
    }

    /// A region of at most `pages` pages, which requests register.
    ///
    /// # Errors
    /// The device's refusal.
    pub(crate) fn alloc_fast_mr(&mut self, pages: u32) -> Result<FastMr<P>> {
        Ok(self.device.control.alloc_fast_mr(&self.pd, pages)?)
    }

    /// Makes [`Endpoint::describe`] name a key that the peer's first message must invalidate.
    pub(crate) fn offer_key(&mut self, key: u32) {
        self.invalidate = Some(key);
    }

    /// Makes the function answer for its addresses and resolve others until it is closed. If it
    /// cannot, messages continue without that.
    pub(crate) fn start_station(&mut self, network: &Network) {
        if let Err(error) = self.device.start_station(network) {
            log::warn!(
                "{error:#}: nothing answers ARP requests, neighbour solicitations and pings for this function, and addresses of peers are not resolved"
            );
        }
    }

    /// Makes the host's network stack answer for its addresses and resolve others until it is
    /// closed.
    ///
    /// # Errors
    /// The interface cannot be opened.
    pub(crate) fn start_tap(&mut self, plan: &TapPlan) -> Result<()> {
        self.device.start_tap(plan)
    }

    /// Meets the peer by the connection manager. `watch` is called meanwhile, and its error ends
    /// the wait.
    ///
    /// # Errors
    /// As [`ProgressLoop::meet`].
    pub(crate) fn meet(
        &mut self,
        rendezvous: &Rendezvous,
        own: OwnEnd,
        watch: &dyn Fn() -> Result<()>,
    ) -> Result<Link> {
        self.device.meet(&self.pd, &self.cq, rendezvous, own, watch)
    }

    /// The default GID entry, if a TAP interface determines it. The GID table then has the
    /// interface's current addresses.
    ///
    /// # Errors
    /// As [`NeighbourTracker::progress`].
    pub(crate) fn usual_gid(&mut self, vlan: Option<u16>) -> Result<Option<u8>> {
        let Some(neighbours) = &mut self.device.neighbours else {
            return Ok(None);
        };
        neighbours.progress(&mut self.device.control)?;
        Ok(neighbours.usual_gid(vlan))
    }

    /// Its neighbours, if it has a station or a TAP interface.
    pub(crate) fn neighbours(&mut self) -> Option<&mut NeighbourTracker<P>> {
        self.device.neighbours.as_deref_mut()
    }

    /// Queue pair `index`, in order of creation.
    pub(crate) fn qp(&mut self, index: usize) -> Result<&mut Qp<P>> {
        self.qps.get_mut(index).context("no such queue pair")
    }

    /// The numbers of the queue pairs.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = Qpn> {
        self.qps.iter().map(|qp| qp.number())
    }

    /// What the peer needs to know of each queue pair, whose packets come from entry
    /// `sgid_index` of the GID table.
    ///
    /// # Errors
    /// There is no such entry.
    pub(crate) fn describe(&self, sgid_index: u8) -> Result<Vec<RemoteQp>> {
        let describe = |qp: &Qp<P>| {
            let info = qp.info(&self.device.control, sgid_index)?;
            Ok(RemoteQp {
                qpn: info.qpn,
                psn: info.psn,
                qkey: self.qkey,
                address: self.mr.address(),
                rkey: self.mr.rkey(),
                invalidate: self.invalidate,
            })
        };
        self.qps.iter().map(describe).collect()
    }

    /// Takes each queue pair to RTS, connected to the peer's queue pair of the same index if it is
    /// not a datagram queue pair.
    ///
    /// # Errors
    /// The transition that failed.
    pub(crate) fn connect(&mut self, remote: Vec<RemoteQp>, path: Path, mtu: Mtu) -> Result<()> {
        ensure!(remote.len() == self.qps.len(), "queue pairs without a peer");
        let options = ConnectOptions {
            sgid_index: path.sgid_index,
            access: AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ,
            path: Some(path),
            mtu: Some(mtu),
        };
        for (peer, qp) in remote.iter().zip(&mut self.qps) {
            let peer = QpInfo {
                qpn: peer.qpn,
                psn: peer.psn,
                qkey: peer.qkey,
                gid: path.destination.into(),
                mac: path.destination_mac,
                mtu,
            };
            qp.connect(&mut self.device.control, &peer, &options)?;
        }
        self.remote = remote;
        Ok(())
    }

    /// The peer of queue pair `index`.
    ///
    /// # Errors
    /// It is not connected.
    pub(crate) fn remote(&self, index: usize) -> Result<&RemoteQp> {
        self.remote.get(index).context("not connected")
    }

    /// Where datagrams to the peer go, with an address handle that lives as long as
    /// the endpoint.
    ///
    /// # Errors
    /// The device refused the address handle, or nothing is connected.
    pub(crate) fn target(&mut self, path: &Path) -> Result<UdTarget> {
        let ah = self.device.control.create_ah(&self.pd, path)?;
        let peer = self.remote(0)?;
        let target = ah.target(peer.qpn, peer.qkey);
        self.ahs.push(ah);
        Ok(target)
    }

    /// Where datagrams to the members of a group go, as [`Endpoint::target`].
    ///
    /// # Errors
    /// The device refused the address handle, or nothing is connected.
    pub(crate) fn group_target(&mut self, path: &Path, group: IpAddr) -> Result<UdTarget> {
        let path = Path {
            priority: path.priority,
            ..Path::to_group(path.sgid_index, group)
        };
        let to_peer = self.target(&path)?;
        Ok(UdTarget {
            qpn: Qpn::MULTICAST.get(),
            ..to_peer
        })
    }

    /// Makes the first queue pair a member of a group.
    ///
    /// # Errors
    /// What the device or the firmware refused.
    pub(crate) fn join(&mut self, sgid_index: u8, group: IpAddr) -> Result<()> {
        let qp = self.qps.first().context("no queue pair")?;
        self.device.control.attach_mcast(qp, sgid_index, group)?;
        if let Some(neighbours) = &self.device.neighbours {
            neighbours.join(group);
        }
        Ok(())
    }

    /// Part of the registered memory.
    pub(crate) fn memory(&self, offset: usize, bytes: usize) -> Result<SharedBytes> {
        Ok(self.buffer.bytes().window(offset, bytes)?)
    }

    /// Makes what the device has written visible to reads.
    pub(crate) fn sync_from_device(&self) {
        self.device.platform.from_device();
    }

    /// A scatter/gather element of registered memory.
    pub(crate) fn sge(&self, memory: SharedBytes) -> Sge {
        Sge {
            addr: memory.address(),
            // At most a message: 32 bits.
            length: memory.len() as u32,
            lkey: self.mr.lkey(),
        }
    }

    /// Takes completions; if there are none, handles events and deferred work.
    ///
    /// # Errors
    /// A device that only a reset helps, or an asynchronous event.
    pub(crate) fn poll(&mut self, wcs: &mut [Wc]) -> Result<usize> {
        self.device.poll(&mut self.cq, wcs)
    }

    /// The counters of the first queue pair if it has its own, else of the function.
    ///
    /// # Errors
    /// No memory, or the device's refusal.
    pub fn counters(&mut self) -> e810::Result<Stats> {
        match self.qps.first() {
            Some(qp) if self.counters => self.device.control.gather_qp_stats(qp),
            _ => self.device.control.gather_stats(),
        }
    }

    /// Interrupts taken so far.
    #[must_use]
    pub fn interrupts(&self) -> u64 {
        self.device.interrupts()
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Ns {
        self.device.now()
    }

    /// Rests after an empty turn, if the thread has other endpoints.
    pub fn relax(&self) {
        self.device.rest();
    }

    /// Rests after an empty turn, if this is the only endpoint of the thread.
    ///
    /// # Errors
    /// The host cannot wait.
    pub fn sleep(&mut self) -> Result<()> {
        self.device.sleep()
    }

    /// Destroys all objects and shuts the device down.
    ///
    /// # Errors
    /// The first step that failed. Memory that the device may still write is leaked.
    pub fn close(mut self) -> Result<()> {
        let (left, parted) = self.device.part();
        // Until the objects are destroyed.
        let _memory = left.buffer;
        let (mut control, events, neighbours) = self.device.into_parts();
        let closed = neighbours.map_or(Ok(()), |station| station.close(&mut control));
        let objects = Remaining {
            qps: self.qps.into_iter().chain(left.qp),
            ahs: self.ahs,
            cqs: [self.cq].into_iter().chain(left.cq),
            mrs: [self.mr].into_iter().chain(left.mr),
            pds: [self.pd],
        };
        let end = control.shutdown_with(events, objects);
        end.context("shutting down")?;
        parted.and(closed)
    }
}

/// The objects of an endpoint during creation.
type Made<P> = Remaining<Vec<Qp<P>>, [Ah; 0], Option<Cq<P>>, Option<Mr<P>>, Option<Pd>>;

/// Creates the objects of `plan` and returns the registered memory. After a failure, `made` has the
/// objects created so far.
fn make_objects<P: HostPlatform>(
    platform: &P,
    control: &mut Control<P>,
    plan: &EndpointPlan,
    made: &mut Made<P>,
) -> Result<Buffer> {
    let buffer = platform.payload(plan.bytes)?;
    let pd = made.pds.insert(control.alloc_pd()?);
    let cq = control.create_cq(plan.cqes, 0);
    let cq = made
        .cqs
        .insert(sized(cq, plan.options.map(|options| options.cq))?);
    if let WaitMode::Interrupt(moderation) = plan.wait_mode {
        control.modify_cq(cq, moderation).context("--moderation")?;
    }
    let mr = control.reg_mr(pd, buffer.bytes(), plan.access)?;
    made.mrs = Some(mr);
    let init = QpInit {
        counters: plan.counters,
        fast_register: plan.fast_register,
        tuning: Some(plan.tuning),
        ..QpInit::new(plan.qp_type, cq, cq, plan.caps)
    };
    for _ in 0..plan.qps {
        let qp = control.create_qp(pd, &init);
        made.qps
            .push(sized(qp, plan.options.map(|options| options.qp))?);
    }
    Ok(buffer)
}

/// The object, or an error with the options that size it.
fn sized<T>(object: e810::Result<T>, options: Option<&'static str>) -> Result<T> {
    match options {
        Some(options) => object.context(options),
        None => Ok(object?),
    }
}

/// Fails if a request failed.
pub(crate) fn succeeded(wc: &Wc) -> Result<()> {
    ensure!(
        wc.status.is_success(),
        "request {} of queue pair {} completed with {}",
        wc.wr_id,
        wc.qp_num,
        wc.status
    );
    Ok(())
}
