//! The kernel that answers the library's commands.

use std::collections::HashMap;
use std::ffi::c_int;
use std::rc::Rc;

use e810_verbs::abi::make::QpCap;
use e810_verbs::abi::state::AhAttr;

/// An `errno` value: why a command is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub c_int);

impl Errno {
    /// The object is not there.
    pub const MISSING: Self = Self(libc::ENOENT);
    /// The command makes no sense.
    pub const INVALID: Self = Self(libc::EINVAL);
    /// Nothing of the kind is left.
    pub const EXHAUSTED: Self = Self(libc::ENOMEM);
    /// This kernel does not do that.
    pub const UNSUPPORTED: Self = Self(libc::EOPNOTSUPP);
    /// The device refused.
    pub const DEVICE: Self = Self(libc::EIO);
}

/// Answer to a command.
pub type Answer<T> = Result<T, Errno>;

/// What memory is registered for (`irdma_memreg_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Payload, for SGEs and peers.
    Payload,
    /// The rings of a QP, with the pages of each.
    Qp {
        /// Pages of the send ring, which comes first.
        sq_pages: u16,
        /// Pages of the receive ring, which follows; then the shadow area.
        rq_pages: u16,
    },
    /// The ring of a CQ, or its shadow area.
    Cq,
}

/// Memory of the process to be made visible to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registration {
    pub pd: u32,
    /// First byte in this process.
    pub start: u64,
    /// Bytes.
    pub length: usize,
    /// Address the device knows the first byte by.
    pub address: u64,
    /// `ibv_access_flags`.
    pub access: c_int,
    pub purpose: Purpose,
}

/// A registered region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Names it to the kernel.
    pub handle: u32,
    /// Names it to the device, locally and to peers.
    pub key: u32,
}

/// A completion queue to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CqRequest {
    /// Address of the ring, registered before.
    pub ring: u64,
    /// Address of the shadow area, registered before.
    pub shadow: u64,
    /// Entries of the ring.
    pub entries: u32,
}

/// A queue pair to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpRequest {
    pub pd: u32,
    /// `ibv_qp_type`.
    pub qp_type: c_int,
    /// Id of the CQ of sends.
    pub send_cq: u32,
    /// Id of the CQ of receives.
    pub recv_cq: u32,
    /// Limits; the numbers of requests are those of the rings' slots.
    pub cap: QpCap,
    /// Address of the rings, registered before.
    pub buffer: u64,
    /// What CQEs carry to name this queue pair.
    pub context: u64,
}

/// Answers commands. Ids are handles, too.
pub trait Kernel {
    /// A protection domain; its id.
    ///
    /// # Errors
    /// None left.
    fn alloc_pd(&mut self) -> Answer<u32>;
    /// Makes memory visible to the device.
    ///
    /// # Errors
    /// The device's, or no key left.
    fn register(&mut self, registration: &Registration) -> Answer<Region>;
    /// Takes it away again, before its owner frees it.
    ///
    /// # Errors
    /// An unknown handle, or the device's.
    fn deregister(&mut self, handle: u32) -> Answer<()>;
    /// A completion queue; its id.
    ///
    /// # Errors
    /// Memory that is not registered, or the device's.
    fn create_cq(&mut self, request: &CqRequest) -> Answer<u32>;
    /// Ends a completion queue.
    ///
    /// # Errors
    /// An unknown id, or the device's.
    fn destroy_cq(&mut self, id: u32) -> Answer<()>;
    /// A queue pair; its number.
    ///
    /// # Errors
    /// Memory that is not registered, or the device's.
    fn create_qp(&mut self, request: &QpRequest) -> Answer<u32>;
    /// Ends a queue pair.
    ///
    /// # Errors
    /// An unknown id, or the device's.
    fn destroy_qp(&mut self, id: u32) -> Answer<()>;
    /// An address handle; its index.
    ///
    /// # Errors
    /// The device's.
    fn create_ah(&mut self, pd: u32, attr: &AhAttr) -> Answer<u32>;
    /// Ends an address handle.
    ///
    /// # Errors
    /// An unknown index, or the device's.
    fn destroy_ah(&mut self, index: u32) -> Answer<()>;
}

/// A kernel without a device: it counts, and finds nothing wrong.
#[derive(Debug, Default)]
pub struct Paper {
    next: u32,
}

/// First id; 0 would look like an empty field.
const FIRST: u32 = 16;

impl Paper {
    fn id(&mut self) -> Answer<u32> {
        self.next += 1;
        Ok(FIRST + self.next)
    }
}

impl Kernel for Paper {
    fn alloc_pd(&mut self) -> Answer<u32> {
        self.id()
    }
    fn register(&mut self, _: &Registration) -> Answer<Region> {
        let handle = self.id()?;
        Ok(Region {
            handle,
            key: handle << 8 | 1,
        })
    }
    fn deregister(&mut self, _: u32) -> Answer<()> {
        Ok(())
    }
    fn create_cq(&mut self, _: &CqRequest) -> Answer<u32> {
        self.id()
    }
    fn destroy_cq(&mut self, _: u32) -> Answer<()> {
        Ok(())
    }
    fn create_qp(&mut self, _: &QpRequest) -> Answer<u32> {
        self.id()
    }
    fn destroy_qp(&mut self, _: u32) -> Answer<()> {
        Ok(())
    }
    fn create_ah(&mut self, _: u32, _: &AhAttr) -> Answer<u32> {
        self.id()
    }
    fn destroy_ah(&mut self, _: u32) -> Answer<()> {
        Ok(())
    }
}

/// What was asked for when queues were made: where their rings are.
#[derive(Debug, Default)]
pub(crate) struct Made {
    pub(crate) registrations: HashMap<u32, Registration>,
    pub(crate) cqs: HashMap<u32, CqRequest>,
    pub(crate) qps: HashMap<u32, QpRequest>,
}

impl Made {
    /// Pages of both rings of the queue pair whose memory starts at `buffer`.
    pub(crate) fn pages(&self, buffer: u64) -> Option<(u16, u16)> {
        self.registrations
            .values()
            .find_map(|one| match one.purpose {
                Purpose::Qp { sq_pages, rq_pages } if one.start == buffer => {
                    Some((sq_pages, rq_pages))
                }
                _ => None,
            })
    }
}

/// The kernel that a device's commands go to, and its harness, hold it.
pub type SharedKernel = Rc<std::cell::RefCell<dyn Kernel>>;
