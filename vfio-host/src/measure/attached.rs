//! One side of a measurement on a function that another process owns.

use std::mem::ManuallyDrop;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use e810::{Mtu, Path, Qpn, RecvWr, SendWr, Sge, Wc};
use e810_attach::client::{Client, ClientCq, ClientMr, ClientPd, ClientQp};
use e810_hal::{Ns, Platform, SharedBytes};

use super::perf::{ACCESS, Plan};
use super::queues::Queues;
use crate::handshake::RemoteQp;

/// Empty polls before the program looks whether its function still is there, which costs more.
const POLLS: u32 = 32;

/// The objects of a program on a shared function.
#[derive(Debug)]
pub(crate) struct AttachedQueues<P: Platform> {
    client: Client<P>,
    pd: ClientPd,
    cq: ClientCq<P>,
    qps: Vec<ClientQp<P>>,
    mr: ClientMr,
    remote: Vec<RemoteQp>,
    began: Instant,
    empty_polls: u32,
}

impl<P: Platform> AttachedQueues<P> {
    /// Creates the objects of `plan`.
    ///
    /// # Errors
    /// What the owner refused.
    pub(crate) fn new(client: Client<P>, plan: &Plan) -> Result<Self> {
        let pd = client.alloc_pd()?;
        let mr = client.alloc_mr(&pd, plan.bytes(), ACCESS)?;
        let cq = client.create_cq(plan.cqes());
        let cq = cq.context("--qps and --depth")?;
        let qp = |_| client.create_qp(&pd, &cq, plan.caps());
        let qps: Result<Vec<_>, _> = (0..plan.qps).map(qp).collect();
        let qps = qps.context("--qps, --depth, --inline")?;
        Ok(Self {
            client,
            pd,
            cq,
            qps,
            mr,
            remote: Vec::new(),
            began: Instant::now(),
            empty_polls: 0,
        })
    }

    pub(crate) const fn client(&self) -> &Client<P> {
        &self.client
    }

    /// What the peer needs to know of each queue pair.
    pub(crate) fn describe(&self) -> Vec<RemoteQp> {
        let describe = |qp: &ClientQp<P>| RemoteQp {
            qpn: qp.number(),
            psn: qp.psn(),
            qkey: 0,
            address: self.mr.bytes().address(),
            rkey: self.mr.key(),
            invalidate: None,
        };
        self.qps.iter().map(describe).collect()
    }

    /// Takes each queue pair to RTS, connected to the peer's of the same index.
    ///
    /// # Errors
    /// The transition that failed.
    pub(crate) fn connect(&mut self, remote: Vec<RemoteQp>, path: Path, mtu: Mtu) -> Result<()> {
        ensure!(remote.len() == self.qps.len(), "queue pairs without a peer");
        for (peer, qp) in remote.iter().zip(&self.qps) {
            let peer = (peer.qpn, peer.psn);
            self.client.connect(qp, ACCESS, (path, mtu), peer)?;
        }
        self.remote = remote;
        Ok(())
    }

    /// Destroys all objects.
    ///
    /// # Errors
    /// The first step that failed. The owner destroys what is left when this process ends.
    pub(crate) fn close(self) -> Result<()> {
        // Without a server nothing is destroyed, and the run says why it has ended. Memory of rings
        // that is not freed is warned about where a device may still use it: there is none.
        if self.client.check().is_err() {
            let _ = ManuallyDrop::new(self);
            return Ok(());
        }
        for qp in self.qps {
            self.client.destroy_qp(qp)?;
        }
        self.client.destroy_cq(self.cq)?;
        self.client.dereg_mr(self.mr)?;
        Ok(self.client.dealloc_pd(self.pd)?)
    }
}

impl<P: Platform> Queues for AttachedQueues<P> {
    fn numbers(&self) -> Vec<Qpn> {
        self.qps.iter().map(ClientQp::number).collect()
    }

    fn remote(&self, index: usize) -> Result<&RemoteQp> {
        self.remote.get(index).context("not connected")
    }

    fn memory(&self, offset: usize, bytes: usize) -> Result<SharedBytes> {
        Ok(self.mr.bytes().window(offset, bytes)?)
    }

    fn sge(&self, memory: SharedBytes) -> Sge {
        Sge {
            addr: memory.address(),
            // At most a message: 32 bits.
            length: memory.len() as u32,
            lkey: self.mr.key(),
        }
    }

    fn post_send(&mut self, index: usize, requests: &[SendWr<'_>]) -> Result<()> {
        let qp = self.qps.get_mut(index).context("no such queue pair")?;
        Ok(qp.send.post_send(requests)?)
    }

    fn post_recv(&mut self, index: usize, receives: &[RecvWr<'_>]) -> Result<()> {
        let qp = self.qps.get_mut(index).context("no such queue pair")?;
        Ok(qp.recv.post_recv(receives)?)
    }

    fn poll(&mut self, wcs: &mut [Wc]) -> Result<usize> {
        let polled = self.cq.ring.poll(wcs);
        if polled > 0 {
            self.empty_polls = 0;
            return Ok(polled);
        }
        self.empty_polls += 1;
        if self.empty_polls.is_multiple_of(POLLS) {
            self.client.check()?;
        }
        Ok(0)
    }

    fn sync_from_device(&self) {
        self.client.sync_from_device();
    }

    fn now(&self) -> Ns {
        Ns(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn sleep(&mut self) -> Result<()> {
        // A device that is a program may need this processor.
        match self.empty_polls >= POLLS && self.client.is_simulated() {
            true => thread::yield_now(),
            false => std::hint::spin_loop(),
        }
        Ok(())
    }
}
