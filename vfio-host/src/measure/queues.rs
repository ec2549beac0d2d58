//! What a measurement needs of the function that it uses: one of its own
//! ([`Endpoint`]), or one that another process owns.

use anyhow::Result;
use e810::{Qpn, RecvWr, SendWr, Sge, Wc};
use e810_backends::interrupts::HostPlatform;
use e810_hal::{Ns, SharedBytes};

use super::endpoint::Endpoint;
use crate::handshake::RemoteQp;

/// Connected queue pairs with one completion queue, and registered memory.
pub trait Queues {
    /// The numbers of the queue pairs.
    fn numbers(&self) -> Vec<Qpn>;

    /// The peer of queue pair `index`.
    ///
    /// # Errors
    /// It is not connected.
    fn remote(&self, index: usize) -> Result<&RemoteQp>;

    /// Part of the registered memory.
    ///
    /// # Errors
    /// There is no such part.
    fn memory(&self, offset: usize, bytes: usize) -> Result<SharedBytes>;

    /// A scatter/gather element of registered memory.
    fn sge(&self, memory: SharedBytes) -> Sge;

    /// Posts requests to queue pair `index` with one doorbell.
    ///
    /// # Errors
    /// What the queue refused.
    fn post_send(&mut self, index: usize, requests: &[SendWr<'_>]) -> Result<()>;

    /// Posts receives to queue pair `index`.
    ///
    /// # Errors
    /// What the queue refused.
    fn post_recv(&mut self, index: usize, receives: &[RecvWr<'_>]) -> Result<()>;

    /// Takes completions; if there are none, handles events and deferred work.
    ///
    /// # Errors
    /// A device that is gone, or an asynchronous event.
    fn poll(&mut self, wcs: &mut [Wc]) -> Result<usize>;

    /// Makes what the device has written visible to reads.
    fn sync_from_device(&self);

    /// The time.
    fn now(&self) -> Ns;

    /// Rests after an empty turn, if these are the only queues of the thread.
    ///
    /// # Errors
    /// The host cannot wait.
    fn sleep(&mut self) -> Result<()>;
}

impl<P: HostPlatform> Queues for Endpoint<P> {
    fn numbers(&self) -> Vec<Qpn> {
        self.numbers().collect()
    }

    fn remote(&self, index: usize) -> Result<&RemoteQp> {
        self.remote(index)
    }

    fn memory(&self, offset: usize, bytes: usize) -> Result<SharedBytes> {
        self.memory(offset, bytes)
    }

    fn sge(&self, memory: SharedBytes) -> Sge {
        self.sge(memory)
    }

    fn post_send(&mut self, index: usize, requests: &[SendWr<'_>]) -> Result<()> {
        Ok(self.qp(index)?.post_send(requests)?)
    }

    fn post_recv(&mut self, index: usize, receives: &[RecvWr<'_>]) -> Result<()> {
        Ok(self.qp(index)?.post_recv(receives)?)
    }

    fn poll(&mut self, wcs: &mut [Wc]) -> Result<usize> {
        self.poll(wcs)
    }

    fn sync_from_device(&self) {
        self.sync_from_device();
    }

    fn now(&self) -> Ns {
        self.now()
    }

    fn sleep(&mut self) -> Result<()> {
        self.sleep()
    }
}
