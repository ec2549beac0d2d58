//! Queue pairs: `create`, `modify` and `query` have a file each; `extended` is the extended
//! interface, whose requests are `collected` first.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi::extended::QpEx;
use crate::abi::objects::Qp;
use crate::abi::state::AhAttr;
use crate::async_events::QpTarget;
use crate::control::{DestroyQp, Token};
use crate::cq::CqObject;
use crate::device::context::OpenContext;
use crate::rings::{CqRings, QpRings};

mod collected;
mod create;
pub mod extended;
mod modify;
mod query;

pub(crate) use collected::Collected;
pub use create::{create_qp, destroy_qp};
pub use extended::qp_to_qp_ex;
pub use modify::modify_qp;
pub use query::{query_qp, query_qp_data_in_order};

/// Words that later versions have after `ibv_qp_ex` of rdma-core 44: pointers, which are null.
const LATER: usize = 8;

/// The object behind the `ibv_qp` that a program sees.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct QpObject {
    /// The same layout for a queue pair that the extended interface did not make: it begins as any.
    abi: UnsafeCell<QpEx>,
    later: [usize; LATER],
    /// The data of `rings`, which the data path uses.
    data: *const (),
    /// Taken out when the device no longer has the queue pair.
    rings: UnsafeCell<Option<Box<dyn QpRings>>>,
    number: u32,
    signals_all: bool,
    token: Token,
    target: Arc<QpTarget>,
    /// The address that the program set last.
    address: Mutex<AhAttr>,
    /// Groups that the program has attached it to.
    groups: Mutex<Vec<IpAddr>>,
    /// Belongs to whoever holds the send queue.
    collected: UnsafeCell<Collected>,
}

impl QpObject {
    /// The queue pair that a program names.
    ///
    /// # Safety
    /// `qp` came from [`create_qp`] and is not destroyed.
    pub(crate) unsafe fn of<'a>(qp: *mut Qp) -> &'a Self {
        // SAFETY: the caller's: it is the first field of one.
        unsafe { &*qp.cast::<Self>() }
    }

    /// Its rings, of the type that the functions of its context know.
    ///
    /// # Safety
    /// As [`of`](Self::of).
    #[inline(always)]
    pub(crate) unsafe fn rings_of(qp: *mut Qp) -> *const () {
        // SAFETY: the caller's.
        unsafe { (*qp.cast::<Self>()).data }
    }

    /// Its queues; `None` after its context was closed.
    fn rings(&self) -> Option<&dyn QpRings> {
        // SAFETY: they are taken out only when nobody uses the queue pair any more.
        unsafe { (*self.rings.get()).as_deref() }
    }

    /// Destroys it in the device, unless that is done already: 0, or the error.
    ///
    /// # Safety
    /// Its context exists, and nobody else uses the queue pair.
    pub(crate) unsafe fn retire(&self) -> c_int {
        if self.rings().is_none() {
            return 0;
        }
        // SAFETY: the caller's.
        let open = unsafe { self.open() };
        let control = open.control();
        let destroyed = match control.ask(DestroyQp {
            number: self.number,
        }) {
            Ok(destroyed) => destroyed,
            Err(_) if control.is_over() => {
                open.events().leave(self.token);
                // SAFETY: the caller's.
                return unsafe { self.abandon() };
            }
            Err(refused) => return refused.errno,
        };
        open.events().leave(self.token);
        // Its completions are no longer polled, on any thread.
        // SAFETY: the caller's: a program destroys the completion queues after it.
        for rings in unsafe { self.cq_rings() } {
            rings.lock().forget_gone();
        }
        // SAFETY: the caller's.
        if let Some(rings) = unsafe { (*self.rings.get()).take() } {
            rings.release(&destroyed);
        }
        0
    }

    /// Frees its memory with the function, which is gone: 0.
    ///
    /// # Safety
    /// Nobody else uses the queue pair.
    pub(crate) unsafe fn abandon(&self) -> c_int {
        // SAFETY: the caller's.
        drop(unsafe { (*self.rings.get()).take() });
        0
    }

    pub(crate) fn groups(&self) -> MutexGuard<'_, Vec<IpAddr>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address that the program set last, including values that mean nothing to the device.
    fn address(&self) -> MutexGuard<'_, AhAttr> {
        self.address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) const fn target(&self) -> &Arc<QpTarget> {
        &self.target
    }

    /// Requests of the extended interface that are not posted yet.
    ///
    /// # Safety
    /// The send queue is the caller's.
    #[expect(
        clippy::mut_from_ref,
        reason = "the lock of the send queue is held from call to call"
    )]
    pub(crate) unsafe fn collected(&self) -> &mut Collected {
        // SAFETY: the caller's.
        unsafe { &mut *self.collected.get() }
    }

    pub(crate) const fn number(&self) -> u32 {
        self.number
    }

    /// The part that programs see, as it is now.
    fn shown(&self) -> Qp {
        // SAFETY: of the fields that a program reads only the state is ever written, by
        // `set_state`.
        unsafe { (*self.abi.get()).qp_base }
    }

    fn set_state(&self, state: c_int) {
        // SAFETY: as with libibverbs, a program that changes a queue pair in two threads at a time
        // does not know its state.
        unsafe { (*self.abi.get()).qp_base.state = state };
    }

    /// Its context.
    ///
    /// # Safety
    /// The context is open.
    pub(crate) unsafe fn open<'a>(&self) -> &'a OpenContext {
        // SAFETY: the caller's.
        unsafe { OpenContext::of(self.shown().context) }
    }

    /// The rings of its completion queues, ordered by address, each once; without those that the
    /// device no longer has.
    ///
    /// # Safety
    /// Its completion queues are not destroyed.
    unsafe fn cq_rings(&self) -> impl Iterator<Item = &dyn CqRings> {
        let Qp {
            send_cq, recv_cq, ..
        } = self.shown();
        let (first, second) = (send_cq.min(recv_cq), send_cq.max(recv_cq));
        let second = (first != second).then_some(second);
        let cqs = [Some(first), second].into_iter().flatten();
        // SAFETY: the caller's. A queue pair without a context has null pointers: no completion
        // queues.
        let cqs = cqs
            .filter(|cq| !cq.is_null())
            .map(|cq| unsafe { CqObject::of(cq) });
        cqs.filter_map(CqObject::rings)
    }
}
