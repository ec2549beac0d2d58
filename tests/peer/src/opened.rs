//! An open device of the library, and its objects.

// UNSAFETY: calls C with pointers to its own structures.

use std::ffi::{c_int, c_void};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use e810_datapath::sizing::wqe_shift;
use e810_hal::SharedBytes;
use e810_verbs::abi::device::Context;
use e810_verbs::abi::make::{QpCap, QpInitAttr};
use e810_verbs::abi::objects::{Ah, Cq, Mr, Pd, Qp};
use e810_verbs::abi::state::AhAttr;

use crate::abi::{ContextOps, PollCq, PostRecv, PostSend};
use crate::answers;
use crate::device::Device;
use crate::doorbells::Doorbells;
use crate::kernel::SharedKernel;
use crate::library::{Library, NotRun};

/// An open device. Objects are destroyed by hand; a device that is dropped
/// stays open.
pub struct Opened {
    device: &'static Device,
    context: NonNull<Context>,
    ops: ContextOps,
    doorbells: Doorbells,
}

#[derive(Clone, Copy, Debug)]
pub struct Domain(NonNull<Pd>);

#[derive(Debug)]
pub struct LibraryMr(NonNull<Mr>);

impl LibraryMr {
    /// Its key, local and remote.
    #[must_use]
    pub fn key(&self) -> u32 {
        // SAFETY: lives until it is deregistered, which takes it.
        unsafe { self.0.as_ref() }.lkey
    }
}

#[derive(Debug)]
pub struct LibraryAh(NonNull<Ah>);

impl LibraryAh {
    /// For requests.
    #[must_use]
    pub const fn as_ptr(&self) -> *mut Ah {
        self.0.as_ptr()
    }

    /// Its index in the device.
    #[must_use]
    pub fn index(&self) -> u32 {
        // SAFETY: lives until it is destroyed, which takes it.
        unsafe { self.0.as_ref() }.handle
    }
}

/// Words of a ring of the library's.
#[derive(Clone, Copy, Debug)]
struct Ring {
    first: NonNull<AtomicU64>,
    words: usize,
}

impl Ring {
    /// The ring of `bytes` bytes at an address that the library gave.
    fn at(address: u64, bytes: usize) -> Option<Self> {
        let first = std::ptr::with_exposed_provenance_mut(usize::try_from(address).ok()?);
        Some(Self {
            first: NonNull::new(first)?,
            words: bytes / 8,
        })
    }

    const fn words(&self) -> &[AtomicU64] {
        // SAFETY: memory of the library that lives as long as the object it
        // belongs to, which holds this. Only one thread uses both.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.words) }
    }
}

#[derive(Debug)]
pub struct LibraryCq {
    raw: NonNull<Cq>,
    pub id: u32,
    ring: Ring,
}

impl LibraryCq {
    /// The ring, as the device sees it.
    #[must_use]
    pub const fn ring(&self) -> &[AtomicU64] {
        self.ring.words()
    }

    pub(crate) const fn as_ptr(&self) -> *mut Cq {
        self.raw.as_ptr()
    }
}

#[derive(Debug)]
pub struct LibraryQp {
    raw: NonNull<Qp>,
    pub id: u32,
    /// What CQEs name it by.
    pub context: u64,
    /// log2 of the quanta of a receive.
    pub rq_shift: u8,
    /// Limits, as granted.
    pub cap: QpCap,
    sq: Ring,
    rq: Ring,
}

impl LibraryQp {
    /// The send ring, as the device sees it.
    #[must_use]
    pub const fn sq(&self) -> &[AtomicU64] {
        self.sq.words()
    }

    /// The receive ring.
    #[must_use]
    pub const fn rq(&self) -> &[AtomicU64] {
        self.rq.words()
    }

    pub(crate) const fn as_ptr(&self) -> *mut Qp {
        self.raw.as_ptr()
    }
}

/// The library's functions of the data path.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// `ibv_post_send`.
    pub post_send: PostSend,
    /// `ibv_post_recv`.
    pub post_recv: PostRecv,
    /// `ibv_poll_cq`.
    pub poll_cq: PollCq,
}

fn refused<T>(object: Option<NonNull<T>>) -> io::Result<NonNull<T>> {
    object.ok_or_else(io::Error::last_os_error)
}

fn done(code: i32) -> io::Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(code))
    }
}

fn missing_call() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOSYS)
}

impl Library {
    /// Opens a device whose commands `kernel` answers.
    ///
    /// # Errors
    /// The table of functions has another shape, or no memory.
    pub fn open(&self, kernel: SharedKernel) -> Result<Opened, NotRun> {
        let no_memory = |_| NotRun::NotLoaded("no doorbell page".to_owned());
        let doorbells = Doorbells::new().map_err(no_memory)?;
        let device: &'static Device = Box::leak(Device::new(kernel));
        let alloc = self
            .driver
            .alloc_context
            .ok_or(NotRun::OtherShape("it makes no contexts"))?;
        let pointer = std::ptr::from_ref(device).cast_mut().cast::<c_void>();
        // SAFETY: a device that lives for ever, in the form the library expects,
        // which it does not write to.
        let verbs = unsafe { alloc(pointer, doorbells.file(), std::ptr::null_mut()) };
        let verbs = NonNull::new(verbs).ok_or(NotRun::OtherShape("it opened no context"))?;
        // SAFETY: the table that the library named while it opened the context.
        let ops = unsafe { answers::context_ops().as_ref() };
        let ops = *ops.ok_or(NotRun::OtherShape("its contexts have no functions"))?;
        if !ops.has_the_known_shape() {
            return Err(NotRun::OtherShape("its contexts have other functions"));
        }
        // SAFETY: a field of what the library just made.
        let context = unsafe { NonNull::new_unchecked(&raw mut (*verbs.as_ptr()).context) };
        Ok(Opened {
            device,
            context,
            ops,
            doorbells,
        })
    }
}

impl Opened {
    /// The doorbell page.
    #[must_use]
    pub const fn doorbells(&self) -> &Doorbells {
        &self.doorbells
    }

    /// The functions of the data path.
    ///
    /// # Errors
    /// None, on a library of the known shape.
    pub fn calls(&self) -> io::Result<Calls> {
        let ops = &self.ops;
        Ok(Calls {
            post_send: ops.post_send.ok_or_else(missing_call)?,
            post_recv: ops.post_recv.ok_or_else(missing_call)?,
            poll_cq: ops.poll_cq.ok_or_else(missing_call)?,
        })
    }

    /// A protection domain.
    ///
    /// # Errors
    /// The library's.
    pub fn alloc_pd(&self) -> io::Result<Domain> {
        let alloc = self.ops.alloc_pd.ok_or_else(missing_call)?;
        // SAFETY: an open context.
        refused(NonNull::new(unsafe { alloc(self.context.as_ptr()) })).map(Domain)
    }

    /// Registers memory, VA based.
    ///
    /// # Errors
    /// The library's.
    pub fn reg_mr(&self, pd: Domain, memory: SharedBytes, access: i32) -> io::Result<LibraryMr> {
        let register = self.ops.reg_mr.ok_or_else(missing_call)?;
        let start = memory.as_ptr().as_ptr().cast();
        // SAFETY: a protection domain of this context; the library does not
        // touch the memory.
        let mr = unsafe { register(pd.0.as_ptr(), start, memory.len(), memory.address(), access) };
        refused(NonNull::new(mr)).map(LibraryMr)
    }

    /// Deregisters memory.
    ///
    /// # Errors
    /// The kernel's.
    pub fn dereg_mr(&self, mr: LibraryMr) -> io::Result<()> {
        let deregister = self.ops.dereg_mr.ok_or_else(missing_call)?;
        // SAFETY: a region of this context, given up here.
        done(unsafe { deregister(mr.0.as_ptr()) })
    }

    /// A completion queue for `cqe` completions.
    ///
    /// # Errors
    /// The library's.
    pub fn create_cq(&self, cqe: i32) -> io::Result<LibraryCq> {
        let create = self.ops.create_cq.ok_or_else(missing_call)?;
        // SAFETY: an open context, no channel.
        let cq = unsafe { create(self.context.as_ptr(), cqe, std::ptr::null_mut(), 0) };
        let raw = refused(NonNull::new(cq))?;
        // SAFETY: just made.
        let id = unsafe { raw.as_ref() }.handle;
        let made = self.device.made.borrow();
        let request = made.cqs.get(&id).ok_or_else(missing_call)?;
        let ring =
            Ring::at(request.ring, request.entries as usize * 32).ok_or_else(missing_call)?;
        Ok(LibraryCq { raw, id, ring })
    }

    /// Destroys a completion queue.
    ///
    /// # Errors
    /// The kernel's.
    pub fn destroy_cq(&self, cq: LibraryCq) -> io::Result<()> {
        let destroy = self.ops.destroy_cq.ok_or_else(missing_call)?;
        // SAFETY: a CQ of this context, given up here.
        done(unsafe { destroy(cq.raw.as_ptr()) })
    }

    /// Asks for an event at the next completion.
    ///
    /// # Errors
    /// The library's.
    pub fn req_notify(&self, cq: &LibraryCq, solicited_only: bool) -> io::Result<()> {
        let notify = self.ops.req_notify_cq.ok_or_else(missing_call)?;
        // SAFETY: a CQ of this context.
        done(unsafe { notify(cq.raw.as_ptr(), solicited_only.into()) })
    }

    /// Tells the library that an event of a CQ was taken.
    ///
    /// # Errors
    /// None, on a library of the known shape.
    pub fn event_taken(&self, cq: &LibraryCq) -> io::Result<()> {
        let taken = self.ops.cq_event.ok_or_else(missing_call)?;
        // SAFETY: a CQ of this context.
        unsafe { taken(cq.raw.as_ptr()) };
        Ok(())
    }

    /// A queue pair of `qp_type` (`ibv_qp_type`) whose queues both complete into
    /// `cq`.
    ///
    /// # Errors
    /// The library's.
    pub fn create_qp(
        &self,
        pd: Domain,
        cq: &LibraryCq,
        qp_type: c_int,
        cap: QpCap,
        signal_all: bool,
    ) -> io::Result<LibraryQp> {
        let create = self.ops.create_qp.ok_or_else(missing_call)?;
        let mut attr = QpInitAttr {
            qp_context: std::ptr::null_mut(),
            send_cq: cq.raw.as_ptr(),
            recv_cq: cq.raw.as_ptr(),
            srq: std::ptr::null_mut(),
            cap,
            qp_type,
            sq_sig_all: signal_all.into(),
        };
        // SAFETY: objects of this context, and attributes to be changed.
        let raw = refused(NonNull::new(unsafe { create(pd.0.as_ptr(), &mut attr) }))?;
        // SAFETY: just made.
        let id = unsafe { raw.as_ref() }.handle;
        let made = self.device.made.borrow();
        let request = made.qps.get(&id).ok_or_else(missing_call)?;
        let (sq_pages, _) = made.pages(request.buffer).ok_or_else(missing_call)?;
        let sq_shift = wqe_shift(cap.max_send_sge + 1, cap.max_inline_data);
        let rq_shift = wqe_shift(cap.max_recv_sge, 0);
        let bytes = |slots: u32, shift: u8| (slots as usize) << shift << 5;
        let rq_start = request.buffer + u64::from(sq_pages) * 4096;
        let sq = Ring::at(request.buffer, bytes(request.cap.max_send_wr, sq_shift));
        let rq = Ring::at(rq_start, bytes(request.cap.max_recv_wr, rq_shift));
        let (sq, rq) = sq.zip(rq).ok_or_else(missing_call)?;
        Ok(LibraryQp {
            raw,
            id,
            context: request.context,
            rq_shift,
            cap: attr.cap,
            sq,
            rq,
        })
    }

    /// Destroys a queue pair.
    ///
    /// # Errors
    /// The kernel's.
    pub fn destroy_qp(&self, qp: LibraryQp) -> io::Result<()> {
        let destroy = self.ops.destroy_qp.ok_or_else(missing_call)?;
        // SAFETY: a QP of this context, given up here.
        done(unsafe { destroy(qp.raw.as_ptr()) })
    }

    /// An address handle.
    ///
    /// # Errors
    /// The library's.
    pub fn create_ah(&self, pd: Domain, mut attr: AhAttr) -> io::Result<LibraryAh> {
        let create = self.ops.create_ah.ok_or_else(missing_call)?;
        // SAFETY: a protection domain of this context.
        refused(NonNull::new(unsafe { create(pd.0.as_ptr(), &mut attr) })).map(LibraryAh)
    }

    /// Destroys an address handle.
    ///
    /// # Errors
    /// The kernel's.
    pub fn destroy_ah(&self, ah: LibraryAh) -> io::Result<()> {
        let destroy = self.ops.destroy_ah.ok_or_else(missing_call)?;
        // SAFETY: an address handle of this context, given up here.
        done(unsafe { destroy(ah.0.as_ptr()) })
    }
}
