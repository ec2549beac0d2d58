//! [`Qp`]: a queue pair, as a program holds it, and its parts.
//!
//! A queue pair has three parts, each `Send`: its state on the control path ([`QpControl`]), its
//! send queue ([`QpSend`]) and its receive queue ([`QpRecv`]). Most programs keep them together.
//! A program whose threads post to both queues at once borrows them separately with
//! [`Qp::queues`]; one that keeps the control path elsewhere takes the parts with
//! [`Qp::into_parts`].

use core::fmt;
use core::ops::{Deref, DerefMut};

use e810_cqp::qpc::RoceContext;
use e810_datapath::slot::{QpKey, Slots};
use e810_datapath::{
    OneSge, PostError, RecvList, RecvQueue, RecvWr, Refused, SendFlags, SendList, SendQueue,
    SendWr, Sge,
};
use e810_hal::{DmaBuf, HostBuf, Ns, Platform};
use e810_types::{QpState, QpType};

use crate::attr::{QpAttr, QpCaps, Qpn};
use crate::error::{Error, Object, Result};
use crate::handover::{QpDestroyed, QpReopened};
use crate::route::TxPaths;
use crate::tuning::Tuning;

/// User handle to a queue pair: posts send and receive requests.
///
/// Made by [`Control::create_qp`](crate::Control::create_qp). It is `Send`, so the thread that
/// posts can own it. Calls of [`Control`](crate::Control) that take its [`QpControl`] accept the
/// `Qp` as well.
#[derive(Debug)]
#[must_use = "a queue pair is destroyed with Control::destroy_qp"]
#[doc(alias = "ibv_qp")]
pub struct Qp<P: Platform> {
    pub(crate) control: QpControl<P>,
    pub(crate) send: QpSend<P>,
    pub(crate) recv: QpRecv<P>,
}

/// The control path's part of a queue pair.
#[must_use = "a queue pair is destroyed with Control::destroy_qp"]
pub struct QpControl<P: Platform> {
    pub(crate) owner: u64,
    pub(crate) key: QpKey,
    pub(crate) pd: u32,
    /// The software copy that every change starts from.
    pub(crate) context: RoceContext,
    /// What it was made with.
    pub(crate) made: Made,
    /// Attributes of the changes so far, for `query_qp`.
    pub(crate) last_attr: QpAttr,
    /// Entries of shared tables that it uses.
    pub(crate) tx_paths: TxPaths,
    /// When the send queue began to drain.
    pub(crate) draining_since: Ns,
    pub(crate) slots: Slots<HostBuf<P>>,
}

/// The send queue of a queue pair.
#[derive(Debug)]
#[must_use = "the queues of a queue pair are freed when it is destroyed"]
pub struct QpSend<P: Platform> {
    pub(crate) owner: u64,
    pub(crate) queue: SendQueue<P, DmaBuf<P>, HostBuf<P>>,
}

/// The receive queue of a queue pair.
#[derive(Debug)]
#[must_use = "the queues of a queue pair are freed when it is destroyed"]
pub struct QpRecv<P: Platform> {
    pub(crate) owner: u64,
    pub(crate) queue: RecvQueue<P, DmaBuf<P>, HostBuf<P>>,
}

/// Sends that are being posted with one doorbell ([`QpSend::list`]).
pub type QpSendList<'q, P> = SendList<'q, P, DmaBuf<P>, HostBuf<P>>;
/// Receives that are being posted ([`QpRecv::list`]).
pub type QpRecvList<'q, P> = RecvList<'q, P, DmaBuf<P>, HostBuf<P>>;

/// What a queue pair was made with, as granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    pub(crate) qp_type: QpType,
    pub(crate) caps: QpCaps,
    pub(crate) signal_all: bool,
    pub(crate) fast_register: bool,
    /// Statistics instance, if it has counters of its own.
    pub(crate) counters: Option<u8>,
    pub(crate) tuning: Tuning,
    pub(crate) user_context: u64,
    pub(crate) presence: Presence,
    /// A change of its state was not answered: the device may have carried it out.
    pub(crate) is_open: bool,
}

/// Whether the device has a queue pair. A reset destroys the queue pair and makes it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Presence {
    Made,
    /// A reset has destroyed it, or the device has refused to make it again.
    Gone,
    /// Open under a new key, and not made again yet.
    Reopened,
    /// It was to be made again, but the device did not answer in time.
    Unanswered,
}

/// Prints what can be named.
impl<P: Platform> fmt::Debug for QpControl<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QpControl")
            .field("number", &self.number())
            .field("qp_type", &self.qp_type())
            .field("state", &self.state())
            .field("caps", &self.made.caps)
            .finish_non_exhaustive()
    }
}

impl<P: Platform> Deref for Qp<P> {
    type Target = QpControl<P>;

    fn deref(&self) -> &QpControl<P> {
        &self.control
    }
}

impl<P: Platform> DerefMut for Qp<P> {
    fn deref_mut(&mut self) -> &mut QpControl<P> {
        &mut self.control
    }
}

impl<P: Platform> QpControl<P> {
    /// Its number, for the peer.
    #[must_use]
    pub const fn number(&self) -> Qpn {
        Qpn(self.key.id())
    }

    /// Its state now; the device may move it to ERR at any time.
    #[must_use]
    pub fn state(&self) -> QpState {
        // Only its own Control removes the slot, and that consumes this.
        self.slots.qp_state(self.key).unwrap_or(QpState::Err)
    }

    /// Sizes granted.
    #[must_use]
    pub const fn caps(&self) -> QpCaps {
        self.made.caps
    }

    /// The word that it was made with ([`QpInit::user_context`](crate::QpInit)); a reset keeps
    /// it.
    #[must_use]
    pub const fn user_context(&self) -> u64 {
        self.made.user_context
    }

    /// Kind of service.
    #[must_use]
    pub const fn qp_type(&self) -> QpType {
        self.made.qp_type
    }
}

impl<P: Platform> Qp<P> {
    /// Frees its memory without a command to the device, after the function was reset: see
    /// [`Control::release_after_reset`](crate::Control::release_after_reset).
    pub fn release_after_reset(self) {
        self.send.queue.into_ring().release();
        self.recv.queue.into_ring().release();
    }

    /// Posts send requests, in order, with one doorbell.
    ///
    /// # Errors
    /// The first request refused, and why; those before it are posted.
    #[inline]
    #[doc(alias = "ibv_post_send")]
    pub fn post_send(&mut self, requests: &[SendWr<'_>]) -> Result<(), Refused> {
        self.send.post_send(requests)
    }

    /// Posts receives, in order.
    ///
    /// # Errors
    /// The first receive refused, and why; those before it are posted.
    #[inline]
    #[doc(alias = "ibv_post_recv")]
    pub fn post_recv(&mut self, receives: &[RecvWr<'_>]) -> Result<(), Refused> {
        self.recv.post_recv(receives)
    }

    /// Its queues, one for each of two threads.
    pub const fn queues(&mut self) -> (&mut QpSend<P>, &mut QpRecv<P>) {
        (&mut self.send, &mut self.recv)
    }

    /// Its parts, for a program that keeps the control path elsewhere.
    pub fn into_parts(self) -> (QpControl<P>, QpSend<P>, QpRecv<P>) {
        (self.control, self.send, self.recv)
    }
}

impl<P: Platform> QpSend<P> {
    /// A queue that no control path has made, for benches.
    #[cfg(feature = "testing")]
    pub const fn over(queue: SendQueue<P, DmaBuf<P>, HostBuf<P>>) -> Self {
        Self { owner: 0, queue }
    }

    /// Posts send requests, in order, with one doorbell.
    ///
    /// # Errors
    /// The first request refused, and why; those before it are posted.
    #[inline]
    pub fn post_send(&mut self, requests: &[SendWr<'_>]) -> Result<(), Refused> {
        self.queue.post_send(requests)
    }

    /// Posts a single request of one SGE, as [`SendQueue::post_one_sge`].
    #[inline(always)]
    pub fn post_one_sge(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        sge: &Sge,
        what: OneSge,
    ) -> Option<()> {
        self.queue.post_one_sge(wr_id, flags, sge, what)
    }

    /// Begins a list of requests that are posted one by one, with one doorbell when
    /// the list is dropped.
    ///
    /// # Errors
    /// [`PostError::WrongState`].
    #[inline]
    pub fn list(&mut self) -> Result<QpSendList<'_, P>, PostError> {
        self.queue.list()
    }

    /// Restarts the queue, empty, as part of a reset.
    ///
    /// # Errors
    /// The queue belongs to another queue pair, or has already restarted for this reset; then
    /// nothing is changed.
    pub fn restart(&mut self, reopened: &QpReopened) -> Result<()> {
        own_reset(self.owner, reopened)?;
        let restarted = self.queue.restart(reopened.key);
        restarted.map_err(|error| e810_datapath::Error::from(error).into())
    }

    /// Frees its memory, once its queue pair is destroyed. If `destroyed` is of another queue
    /// pair, or of an earlier one with the same number, the memory is leaked: the device may
    /// still use it.
    pub fn release(self, destroyed: &QpDestroyed) {
        if (self.owner, self.queue.key()) == (destroyed.owner, destroyed.key) {
            self.queue.into_ring().release();
        }
    }
}

impl<P: Platform> QpRecv<P> {
    /// As [`QpSend::over`].
    #[cfg(feature = "testing")]
    pub const fn over(queue: RecvQueue<P, DmaBuf<P>, HostBuf<P>>) -> Self {
        Self { owner: 0, queue }
    }

    /// Posts receives, in order.
    ///
    /// # Errors
    /// The first receive refused, and why; those before it are posted.
    #[inline]
    pub fn post_recv(&mut self, receives: &[RecvWr<'_>]) -> Result<(), Refused> {
        self.queue.post_recv(receives)
    }

    /// Posts a receive of one SGE, as [`RecvQueue::post_one_sge`].
    #[inline(always)]
    pub fn post_one_sge(&mut self, wr_id: u64, sge: &Sge) -> Option<()> {
        self.queue.post_one_sge(wr_id, sge)
    }

    /// Begins a list of receives that are posted one by one.
    ///
    /// # Errors
    /// [`PostError::WrongState`].
    #[inline]
    pub fn list(&mut self) -> Result<QpRecvList<'_, P>, PostError> {
        self.queue.list()
    }

    /// As [`QpSend::restart`].
    ///
    /// # Errors
    /// As there.
    pub fn restart(&mut self, reopened: &QpReopened) -> Result<()> {
        own_reset(self.owner, reopened)?;
        let restarted = self.queue.restart(reopened.key);
        restarted.map_err(|error| e810_datapath::Error::from(error).into())
    }

    /// As [`QpSend::release`].
    pub fn release(self, destroyed: &QpDestroyed) {
        if (self.owner, self.queue.key()) == (destroyed.owner, destroyed.key) {
            self.queue.into_ring().release();
        }
    }
}

fn own_reset(owner: u64, reopened: &QpReopened) -> Result<()> {
    if owner == reopened.owner {
        return Ok(());
    }
    let id = reopened.key.id();
    Err(Error::Foreign {
        object: Object::Qp,
        id,
    })
}
