//! The extended interface on the rings: it polls one completion at a time, and posts collected
//! requests together. The ring's lock is held from the first call to the last.

use core::ffi::c_int;

use e810::{Platform, SendPlan, SendWr};

use super::lock::leak;
use super::{PlatformCqRings, PlatformQpRings};
use crate::abi::extended::{CqEx, QpEx};
use crate::abi::make::PollCqAttr;
use crate::cq::CqObject;
use crate::qp::QpObject;

impl<P: Platform> PlatformCqRings<P> {
    /// `ibv_start_poll`: 0 with a completion, ENOENT without. After 0 the ring is the caller's
    /// until `ibv_end_poll`.
    ///
    /// # Safety
    /// `cq` was made by a control plane on this platform, and is not destroyed.
    pub unsafe extern "C" fn start_poll(cq: *mut CqEx, attr: *mut PollCqAttr) -> c_int {
        // SAFETY: the caller's; attributes may be left out.
        if unsafe { attr.as_ref() }.is_some_and(|attr| attr.comp_mask != 0) {
            return libc::EINVAL;
        }
        // SAFETY: the caller's.
        let rings = unsafe { Self::of(cq.cast()) };
        leak(rings.polled().lock());
        // SAFETY: the lock was taken just now.
        let found = unsafe { Self::next_poll(cq) };
        if found == 0 {
            rings.begin_polling();
        } else {
            // SAFETY: the lock is this thread's.
            unsafe { rings.found_nothing() };
        }
        found
    }

    /// `ibv_next_poll`: 0 with the next completion, ENOENT without one.
    ///
    /// # Safety
    /// Between `ibv_start_poll` and `ibv_end_poll`.
    pub unsafe extern "C" fn next_poll(cq: *mut CqEx) -> c_int {
        // SAFETY: the caller's.
        let (rings, object) = unsafe { (Self::of(cq.cast()), CqObject::of(cq.cast())) };
        // SAFETY: the lock is the caller's.
        let polled = unsafe { &mut *rings.polled().as_mut_ptr() };
        match polled.poll_one() {
            Some(wc) => {
                // SAFETY: as above.
                unsafe { object.set_current(wc) };
                0
            }
            None => libc::ENOENT,
        }
    }

    /// `ibv_end_poll`.
    ///
    /// # Safety
    /// After `ibv_start_poll` has returned 0.
    pub unsafe extern "C" fn end_poll(cq: *mut CqEx) {
        // SAFETY: the caller's.
        let rings = unsafe { Self::of(cq.cast()) };
        rings.end_polling();
        // SAFETY: the lock is the caller's.
        unsafe { rings.polled().force_unlock() };
    }
}

impl<P: Platform> PlatformQpRings<P> {
    /// `ibv_wr_start`: the send queue is the caller's until `ibv_wr_complete` or `ibv_wr_abort`.
    ///
    /// # Safety
    /// `qp` was made by a control plane on this platform, and is not destroyed.
    pub unsafe extern "C" fn wr_start(qp: *mut QpEx) {
        // SAFETY: the caller's.
        let (rings, object) = unsafe { (Self::of(qp.cast()), QpObject::of(qp.cast())) };
        leak(rings.send().lock());
        // SAFETY: the lock was taken just now.
        unsafe { object.collected() }.clear();
    }

    /// `ibv_wr_complete`: posts the collected requests, all of them or none: 0, or the first error.
    ///
    /// # Safety
    /// After `ibv_wr_start`.
    pub unsafe extern "C" fn wr_complete(qp: *mut QpEx) -> c_int {
        // SAFETY: the caller's.
        let (rings, object) = unsafe { (Self::of(qp.cast()), QpObject::of(qp.cast())) };
        // SAFETY: the lock is the caller's.
        let (send, collected) = unsafe { (&mut *rings.send().as_mut_ptr(), object.collected()) };
        let is_datagram = rings.is_datagram();
        let posted = match collected.error() {
            Some(number) => Err(number),
            None => match send.list() {
                Ok(mut list) => {
                    let mut plan = SendPlan::default();
                    let planned = collected.each(is_datagram, &mut |wr: &SendWr<'_>| {
                        list.plan(&mut plan, wr).map_err(|error| error.errno())
                    });
                    planned.and_then(|()| {
                        collected.each(is_datagram, &mut |wr: &SendWr<'_>| {
                            list.post(wr).map_err(|error| error.errno())
                        })
                    })
                }
                // No request was collected.
                Err(_) if collected.is_empty() => Ok(()),
                Err(error) => Err(error.errno()),
            },
        };
        // SAFETY: the lock is the caller's.
        unsafe { rings.send().force_unlock() };
        posted.err().unwrap_or(0)
    }

    /// `ibv_wr_abort`: posts nothing.
    ///
    /// # Safety
    /// After `ibv_wr_start`.
    pub unsafe extern "C" fn wr_abort(qp: *mut QpEx) {
        // SAFETY: the caller's; the lock is its own.
        unsafe { Self::of(qp.cast()).send().force_unlock() };
    }
}
