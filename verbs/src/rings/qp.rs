//! Posting to the queues of queue pairs.

use core::ffi::c_int;
use core::fmt;

use e810::{Platform, QpDestroyed, QpRecv, QpReopened, QpSend, QpSendList, RecvWr, SendWr};

use super::lock::{Guard, Lock, leak};
use super::request::Aligned;
use super::{LockedQp, QpRings, request};
use crate::abi::objects::Qp;
use crate::abi::work::{RecvWr as ProgramRecvWr, SendWr as ProgramSendWr};
use crate::qp::QpObject;

pub struct PlatformQpRings<P: Platform> {
    send: Lock<QpSend<P>>,
    recv: Lock<QpRecv<P>>,
    /// Each request names an address handle.
    is_datagram: bool,
}

impl<P: Platform> PlatformQpRings<P> {
    /// For a queue pair that was created.
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

    /// `ibv_post_send`: 0, or the error of the request that `bad` then names; the requests before
    /// it are posted.
    ///
    /// # Safety
    /// `qp` was made by a control plane on this platform, and is not destroyed; `wr` is a list as
    /// verbs has it, and `bad` can be written, or is null.
    pub unsafe extern "C" fn post_send(
        qp: *mut Qp,
        wr: *mut ProgramSendWr,
        bad: *mut *mut ProgramSendWr,
    ) -> c_int {
        // SAFETY: the caller's.
        let rings = unsafe { Self::of(qp) };
        let Some(mut queue) = rings.send.try_lock() else {
            // SAFETY: the caller's.
            return unsafe { rings.post_sends_later(wr, bad) };
        };
        // Most lists have one request with one SGE, which needs no conversion.
        // SAFETY: the caller's: the request and what it names can be read.
        let alone = unsafe { wr.as_ref() }.filter(|request| request.next.is_null());
        // SAFETY: as above.
        let one = alone.and_then(|request| Some((request, unsafe { request::one_sge(request) }?)));
        let posted = one.and_then(|(request, (sge, what))| {
            let flags = request::flags(request.send_flags);
            queue.post_one_sge(request.wr_id, flags, &sge, what)
        });
        if posted.is_some() {
            return 0;
        }
        leak(queue);
        // SAFETY: the caller's; the lock is this thread's.
        unsafe { rings.post_sends(wr, bad) }
    }

    /// Posts a list, after waiting for the lock.
    ///
    /// # Safety
    /// As [`post_send`](Self::post_send).
    #[cold]
    #[inline(never)]
    unsafe fn post_sends_later(
        &self,
        wr: *mut ProgramSendWr,
        bad: *mut *mut ProgramSendWr,
    ) -> c_int {
        leak(self.send.lock());
        // SAFETY: the caller's; the lock is this thread's.
        unsafe { self.post_sends(wr, bad) }
    }

    /// Posts any list, and releases the lock.
    ///
    /// # Safety
    /// As [`post_send`](Self::post_send); the lock of the send queue is this thread's.
    #[inline(never)]
    unsafe fn post_sends(&self, wr: *mut ProgramSendWr, bad: *mut *mut ProgramSendWr) -> c_int {
        let mut at = wr;
        // SAFETY: the lock is this thread's.
        let queue = unsafe { &mut *self.send.as_mut_ptr() };
        let posted = queue.list().map_err(|error| error.errno());
        let posted = posted.and_then(|mut list| {
            // SAFETY: the caller's: each request of the list can be read.
            while let Some(request) = unsafe { at.as_ref() } {
                // SAFETY: the caller's: what it names can be read.
                let one = unsafe { request::one_sge(request) };
                let fast = one.and_then(|(sge, what)| {
                    let flags = request::flags(request.send_flags);
                    list.post_one_sge(request.wr_id, flags, &sge, what)
                });
                let fast = fast.or_else(|| {
                    // SAFETY: as above.
                    let (bytes, what) = unsafe { request::one_piece(request) }?;
                    let flags = request::flags(request.send_flags);
                    list.post_one_piece(request.wr_id, flags, bytes, what)
                });
                if fast.is_none() {
                    // SAFETY: as above.
                    unsafe { post_any(&mut list, request, self.is_datagram) }?;
                }
                at = request.next;
            }
            Ok(())
        });
        // SAFETY: the lock is this thread's.
        unsafe { self.send.force_unlock() };
        // SAFETY: the caller's.
        posted.map_or_else(|number| unsafe { refused(at, bad, number) }, |()| 0)
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
        let Some(mut queue) = rings.recv.try_lock() else {
            // SAFETY: the caller's.
            return unsafe { rings.post_receives_later(wr, bad) };
        };
        // SAFETY: the caller's: the request and what it names can be read.
        let alone = unsafe { wr.as_ref() };
        let alone = alone.filter(|request| request.next.is_null() && request.num_sge == 1);
        let posted = alone.and_then(|request| {
            // SAFETY: as above.
            let sge = unsafe { request::only(request.sg_list) }?;
            queue.post_one_sge(request.wr_id, &sge)
        });
        if posted.is_some() {
            return 0;
        }
        leak(queue);
        // SAFETY: the caller's; the lock is this thread's.
        unsafe { rings.post_receives(wr, bad) }
    }

    /// Posts a list, after waiting for the lock.
    ///
    /// # Safety
    /// As [`post_recv`](Self::post_recv).
    #[cold]
    #[inline(never)]
    unsafe fn post_receives_later(
        &self,
        wr: *mut ProgramRecvWr,
        bad: *mut *mut ProgramRecvWr,
    ) -> c_int {
        leak(self.recv.lock());
        // SAFETY: the caller's; the lock is this thread's.
        unsafe { self.post_receives(wr, bad) }
    }

    /// Posts any list, and releases the lock.
    ///
    /// # Safety
    /// As [`post_recv`](Self::post_recv); the lock of the receive queue is this thread's.
    #[inline(never)]
    unsafe fn post_receives(&self, wr: *mut ProgramRecvWr, bad: *mut *mut ProgramRecvWr) -> c_int {
        let mut at = wr;
        // SAFETY: the lock is this thread's.
        let queue = unsafe { &mut *self.recv.as_mut_ptr() };
        let posted = queue.list().map_err(|error| error.errno());
        let posted = posted.and_then(|mut list| {
            // SAFETY: the caller's: each request of the list can be read.
            while let Some(request) = unsafe { at.as_ref() } {
                let mut aligned = Aligned::uninit();
                // SAFETY: the caller's: what it names can be read.
                let sges =
                    unsafe { request::sges(request.sg_list, request.num_sge, &mut aligned) }?;
                let wr = RecvWr {
                    wr_id: request.wr_id,
                    sges,
                };
                list.post(&wr).map_err(|error| error.errno())?;
                at = request.next;
            }
            Ok(())
        });
        // SAFETY: the lock is this thread's.
        unsafe { self.recv.force_unlock() };
        // SAFETY: the caller's.
        posted.map_or_else(|number| unsafe { refused(at, bad, number) }, |()| 0)
    }
}

/// Stores the refused request where the program asked for it.
///
/// # Safety
/// `bad` can be written, or is null.
unsafe fn refused<T>(at: *mut T, bad: *mut *mut T, number: c_int) -> c_int {
    if !bad.is_null() {
        // SAFETY: the caller's.
        unsafe { bad.write(at) };
    }
    number
}

/// Posts any request of a program.
///
/// # Safety
/// What it names can be read.
#[inline(never)]
unsafe fn post_any<P: Platform>(
    list: &mut QpSendList<'_, P>,
    request: &ProgramSendWr,
    is_datagram: bool,
) -> Result<(), c_int> {
    let mut post = |wr: &SendWr<'_>| list.post(wr).map_err(|error| error.errno());
    // SAFETY: the caller's.
    unsafe { request::with_send(request, is_datagram, &mut post) }
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
    fn try_lock(&self) -> Option<Box<dyn LockedQp + '_>> {
        Some(Box::new(Locked {
            send: self.send.try_lock()?,
            recv: self.recv.try_lock()?,
        }))
    }

    fn release(self: Box<Self>, destroyed: &QpDestroyed) {
        self.send.into_inner().release(destroyed);
        self.recv.into_inner().release(destroyed);
    }
}

/// Queues to which nobody posts.
struct Locked<'a, P: Platform> {
    send: Guard<'a, QpSend<P>>,
    recv: Guard<'a, QpRecv<P>>,
}

impl<P: Platform + 'static> LockedQp for Locked<'_, P> {
    fn restart(&mut self, reopened: &QpReopened) -> e810::Result<()> {
        self.send.restart(reopened)?;
        self.recv.restart(reopened)
    }
}
