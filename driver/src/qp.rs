//! [`Qp`]: a queue pair, as a program holds it.

use e810_cqp::qpc::RoceContext;
use e810_datapath::slot::{QpKey, Slots};
use e810_datapath::{RecvQueue, RecvWr, Refused, SendQueue, SendWr};
use e810_hal::{DmaBuf, HostBuf, Ns, Platform};
use e810_types::{QpState, QpType};

use crate::attr::{QpAttr, QpCaps, Qpn};
use crate::route::TxPaths;
use crate::tuning::Tuning;

/// User handle to a queue pair: posts send and receive requests.
///
/// Made by [`Control::create_qp`](crate::Control::create_qp). It is `Send`, so the
/// thread that posts can own it.
#[derive(Debug)]
#[must_use = "a queue pair is destroyed with Control::destroy_qp"]
#[doc(alias = "ibv_qp")]
pub struct Qp<P: Platform> {
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
    pub(crate) send: SendQueue<P, DmaBuf<P>, HostBuf<P>>,
    pub(crate) recv: RecvQueue<P, DmaBuf<P>, HostBuf<P>>,
}

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
    /// The QP exists in the device: false if creating it again after RESET failed.
    pub(crate) exists: bool,
}

impl<P: Platform> Qp<P> {
    /// Its number, for the peer.
    #[must_use]
    pub const fn number(&self) -> Qpn {
        Qpn(self.key.id())
    }

    /// Its state now; the device may move it to ERR at any time.
    #[must_use]
    pub fn state(&self) -> QpState {
        // Only its own Control takes the slot away, and consumes this.
        self.slots.qp_state(self.key).unwrap_or(QpState::Err)
    }

    /// Frees its memory without a word to the device, after the function was
    /// reset: see [`Control::release_after_reset`](crate::Control::release_after_reset).
    pub fn release_after_reset(self) {
        self.send.into_ring().release();
        self.recv.into_ring().release();
    }

    /// Sizes granted.
    #[must_use]
    pub const fn caps(&self) -> QpCaps {
        self.made.caps
    }

    /// What it was made with ([`QpInit::user_context`](crate::QpInit)); a reset keeps it.
    #[must_use]
    pub const fn user_context(&self) -> u64 {
        self.made.user_context
    }

    /// Kind of service.
    #[must_use]
    pub const fn qp_type(&self) -> QpType {
        self.made.qp_type
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
}
