//! Posting to the queues of queue pairs.

use core::ffi::c_int;
use core::fmt;
use std::any::Any;

use e810::{Platform, QpDestroyed, QpRecv, QpReopened, QpSend, RecvWr, SendWr, Sge};

use super::cq::OTHERS;
use super::lock::{Guard, Lock};
use super::{LockedQp, QpRings, request};
use crate::abi::objects::Qp;
use crate::abi::work::{RecvWr as ProgramRecvWr, SendWr as ProgramSendWr};
use crate::qp::QpObject;

/// The queues of a queue pair, on a platform.
pub struct PlatformQpRings<P: Platform> {
    send: Lock<QpSend<P>>,
    recv: Lock<QpRecv<P>>,
    /// Requests name an address handle each.
    is_datagram: bool,
}

impl<P: Platform> PlatformQpRings<P> {
    /// For a queue pair that was made.
    pub fn new(send: QpSend<P>, recv: QpRecv<P>, is_datagram: bool) -> Self {
        Self {
            send: Lock::new(send),
            recv: Lock::new(recv),
            is_datagram,
        }
    }

    pub(super) const fn send(&self) -> &Lock<QpSend<P>> {
        &self.send
    }

    pub(super) const fn is_datagram(&self) -> bool {
        self.is_datagram
    }

    /// The rings of a program's queue pair.
    ///
    /// # Safety
    /// `qp` was made by a control plane on this platform, and is not destroyed.
    #[inline(always)]
    pub(crate) unsafe fn of<'a>(qp: *mut Qp) -> &'a Self {
        // SAFETY: the caller's.
        unsafe { &*QpObject::rings_of(qp).cast::<Self>() }
    }

    /// `ibv_post_send`: 0, or the error of the request that `bad` then names; those before it are
    /// posted.
    ///
    /// # Safety
    /// As [`of`](Self::of); `wr` is a list as verbs has it, and `bad` can be written.
    pub unsafe extern "C" fn post_send(
        qp: *mut Qp,
        wr: *mut ProgramSendWr,
        bad: *mut *mut ProgramSendWr,
    ) -> c_int {
        // SAFETY: the caller's.
        let rings = unsafe { Self::of(qp) };
        let refused = |at: *mut ProgramSendWr, number: c_int| {
            // SAFETY: the caller's.
            unsafe { bad.write(at) };
            number
        };
        let mut queue = rings.send.lock();
        let mut list = match queue.list() {
            Ok(list) => list,
            Err(error) => return refused(wr, error.errno()),
        };
        let mut at = wr;
        // SAFETY: the caller's: each of the list can be read.
        while let Some(request) = unsafe { at.as_ref() } {
            let mut post = |wr: &SendWr<'_>| list.post(wr).map_err(|error| error.errno());
            // SAFETY: the caller's: what it names can be read.
            let posted = unsafe { request::with_send(request, rings.is_datagram, &mut post) };
            if let Err(number) = posted {
                return refused(at, number);
            }
            at = request.next;
        }
        0
    }

    /// `ibv_post_recv`: as [`post_send`](Self::post_send).
    ///
    /// # Safety
    /// As there.
    pub unsafe extern "C" fn post_recv(
        qp: *mut Qp,
        wr: *mut ProgramRecvWr,
        bad: *mut *mut ProgramRecvWr,
    ) -> c_int {
        // SAFETY: the caller's.
        let rings = unsafe { Self::of(qp) };
        let refused = |at: *mut ProgramRecvWr, number: c_int| {
            // SAFETY: the caller's.
            unsafe { bad.write(at) };
            number
        };
        let mut queue = rings.recv.lock();
        let mut list = match queue.list() {
            Ok(list) => list,
            Err(error) => return refused(wr, error.errno()),
        };
        let mut at = wr;
        // SAFETY: the caller's: each of the list can be read.
        while let Some(request) = unsafe { at.as_ref() } {
            // SAFETY: the caller's: what it names can be read.
            let sges = unsafe { request::sges(request.sg_list, request.num_sge) };
            let posted = sges.and_then(|sges: &[Sge]| {
                let wr = RecvWr {
                    wr_id: request.wr_id,
                    sges,
                };
                list.post(&wr).map_err(|error| error.errno())
            });
            if let Err(number) = posted {
                return refused(at, number);
            }
            at = request.next;
        }
        0
    }
}

impl<P: Platform> fmt::Debug for PlatformQpRings<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlatformQpRings")
    }
}

impl<P: Platform + Send + Sync + 'static> QpRings for PlatformQpRings<P>
where
    QpSend<P>: Send,
    QpRecv<P>: Send,
{
    fn lock(&self) -> Box<dyn LockedQp + '_> {
        Box::new(Locked {
            send: self.send.lock(),
            recv: self.recv.lock(),
        })
    }

    fn release(self: Box<Self>, destroyed: &dyn Any) {
        // Without it the device may read there still.
        if let Some(destroyed) = destroyed.downcast_ref::<QpDestroyed>() {
            self.send.into_inner().release(destroyed);
            self.recv.into_inner().release(destroyed);
        }
    }
}

/// Queues to which nobody posts.
struct Locked<'a, P: Platform> {
    send: Guard<'a, QpSend<P>>,
    recv: Guard<'a, QpRecv<P>>,
}

impl<P: Platform + 'static> LockedQp for Locked<'_, P> {
    fn restart(&mut self, reopened: &dyn Any) -> e810::Result<()> {
        let reopened = reopened.downcast_ref::<QpReopened<P>>().ok_or(OTHERS)?;
        self.send.restart(reopened)?;
        self.recv.restart(reopened)
    }
}
