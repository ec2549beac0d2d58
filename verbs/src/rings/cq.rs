//! Polling completion queues, and requesting events from them.

use core::ffi::c_int;
use core::fmt;
use core::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use e810::{CqDestroyed, CqResized, CqRing, CqRingPlace, Notify, Platform, Wc};

use super::completion::Place;
use super::lock::{Lock, leak, this_thread};
use super::{Ask, CqRings, LockedCq};
use crate::abi::objects::Cq;
use crate::abi::work::Wc as ProgramWc;
use crate::control::{Kind, Refused};
use crate::cq::CqObject;

/// The number of empty polls after which the thread yields its processor, which the device may
/// need.
const EMPTY: u32 = 16;

/// How long a device that is a program may take for what a card does at once.
const SLOW: Duration = Duration::from_millis(20);

pub struct PlatformCqRings<P: Platform> {
    polled: Lock<Polled<P>>,
    /// The thread that is between `ibv_start_poll` and `ibv_end_poll`, and holds the lock; 0: none.
    polling: AtomicUsize,
    /// The device is a program too, and may need the processor of a program that polls in a loop.
    yields: bool,
}

/// The state of polling.
pub(super) struct Polled<P: Platform> {
    ring: CqRing<P>,
    /// Empty polls until the thread yields; 0: it never does.
    left: u32,
}

impl<P: Platform> PlatformCqRings<P> {
    /// For a completion queue that was created. `yields`: the device is a program too, and may need
    /// the processor of a program that polls in a loop.
    pub fn new(ring: CqRing<P>, yields: bool) -> Self {
        let left = if yields { EMPTY } else { 0 };
        Self {
            polled: Lock::new(Polled { ring, left }),
            polling: AtomicUsize::new(0),
            yields,
        }
    }

    pub(super) const fn polled(&self) -> &Lock<Polled<P>> {
        &self.polled
    }

    /// This thread keeps the lock until it has polled. Each thread compares the number only with
    /// its own, so no memory order is needed.
    pub(super) fn begin_polling(&self) {
        self.polling.store(this_thread(), Ordering::Relaxed);
    }

    /// This thread releases the lock.
    pub(super) fn end_polling(&self) {
        self.polling.store(0, Ordering::Relaxed);
    }

    /// The rings of a program's completion queue.
    ///
    /// # Safety
    /// `cq` was made by a control plane on this platform, and is not destroyed.
    #[inline(always)]
    pub(crate) unsafe fn of<'a>(cq: *mut Cq) -> &'a Self {
        // SAFETY: the caller's.
        unsafe { &*CqObject::rings_of(cq).cast::<Self>() }
    }

    /// `ibv_poll_cq`: the number of completions found.
    ///
    /// # Safety
    /// `cq` was made by a control plane on this platform, and is not destroyed; `count` completions
    /// can be written at `into`.
    pub unsafe extern "C" fn poll_cq(cq: *mut Cq, count: c_int, into: *mut ProgramWc) -> c_int {
        // SAFETY: the caller's.
        let rings = unsafe { Self::of(cq) };
        let Some(polled) = rings.polled.try_lock() else {
            // SAFETY: the caller's.
            return unsafe { rings.poll_later(count, into) };
        };
        // Most polls find nothing.
        if polled.ring.is_idle() && polled.left == 0 {
            return 0;
        }
        leak(polled);
        // SAFETY: the caller's; the lock is this thread's.
        unsafe {
            match count {
                1 => rings.poll_one_locked(into),
                _ => rings.poll_locked(count, into),
            }
        }
    }

    /// Polls for one completion, and releases the lock. It needs fewer registers.
    ///
    /// # Safety
    /// As [`poll_cq`](Self::poll_cq); the lock is this thread's.
    #[inline(never)]
    unsafe fn poll_one_locked(&self, into: *mut ProgramWc) -> c_int {
        // SAFETY: the lock is this thread's.
        let polled = unsafe { &mut *self.polled.as_mut_ptr() };
        // SAFETY: the caller's; a place for a completion may have any content.
        let done = polled
            .ring
            .poll(unsafe { slice::from_raw_parts_mut(into.cast::<Place>(), 1) });
        if done == 0 && polled.left != 0 {
            // SAFETY: as above.
            return unsafe { self.found_nothing() };
        }
        // SAFETY: as above.
        unsafe { self.polled.force_unlock() };
        done as c_int
    }

    /// Releases the lock after an empty poll, and then yields now and then: if it yielded before, a
    /// thread that waits for the lock would find it taken whenever that thread has the processor.
    ///
    /// # Safety
    /// The lock is this thread's.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn found_nothing(&self) -> c_int {
        // SAFETY: the caller's.
        let polled = unsafe { &mut *self.polled.as_mut_ptr() };
        let offers = polled.left == 1;
        polled.left = match polled.left {
            0 => 0,
            1 => EMPTY,
            left => left - 1,
        };
        // SAFETY: the caller's.
        unsafe { self.polled.force_unlock() };
        if offers {
            thread::yield_now();
        }
        0
    }

    /// Polls, after waiting for the lock.
    ///
    /// # Safety
    /// As [`poll_cq`](Self::poll_cq).
    #[cold]
    #[inline(never)]
    unsafe fn poll_later(&self, count: c_int, into: *mut ProgramWc) -> c_int {
        leak(self.polled.lock());
        // SAFETY: the caller's; the lock is this thread's.
        unsafe { self.poll_locked(count, into) }
    }

    /// Polls, and releases the lock.
    ///
    /// # Safety
    /// As [`poll_cq`](Self::poll_cq); the lock is this thread's.
    #[inline(never)]
    unsafe fn poll_locked(&self, count: c_int, into: *mut ProgramWc) -> c_int {
        let into = if count > 0 {
            // SAFETY: the caller's; a place for a completion may have any content.
            unsafe { slice::from_raw_parts_mut(into.cast::<Place>(), count as usize) }
        } else {
            &mut []
        };
        // SAFETY: the lock is this thread's.
        let polled = unsafe { &mut *self.polled.as_mut_ptr() };
        let done = polled.ring.poll(into);
        if done == 0 && polled.left != 0 {
            // SAFETY: as above.
            return unsafe { self.found_nothing() };
        }
        // SAFETY: as above.
        unsafe { self.polled.force_unlock() };
        done as c_int
    }

    /// `ibv_req_notify_cq`: 0. Completions that are already there may cause an event, or none: a
    /// program polls once more after the request.
    ///
    /// # Safety
    /// `cq` was made by a control plane on this platform, and is not destroyed.
    pub unsafe extern "C" fn req_notify_cq(cq: *mut Cq, solicited_only: c_int) -> c_int {
        // SAFETY: the caller's.
        let rings = unsafe { Self::of(cq) };
        let notify = match solicited_only {
            0 => Notify::Any,
            _ => Notify::Solicited,
        };
        let _ = rings.polled.lock().ring.arm(notify);
        0
    }
}

impl<P: Platform> Polled<P> {
    /// The next completion.
    pub(super) fn poll_one(&mut self) -> Option<Wc> {
        let mut wc = [Wc::default()];
        if self.ring.poll(&mut wc) == 1 {
            let [wc] = wc;
            return Some(wc);
        }
        None
    }
}

impl<P: Platform> fmt::Debug for PlatformCqRings<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlatformCqRings")
    }
}

impl<P: Platform + Send + Sync + 'static> CqRings for PlatformCqRings<P>
where
    CqRing<P>: Send,
{
    fn let_device_end(&self) {
        if self.yields {
            thread::sleep(SLOW);
        }
    }

    fn lock(&self) -> Box<dyn LockedCq + '_> {
        let is_own = self.polling.load(Ordering::Relaxed) == this_thread();
        if !is_own {
            leak(self.polled.lock());
        }
        Box::new(Locked {
            rings: self,
            is_own,
        })
    }

    fn release(self: Box<Self>, destroyed: &CqDestroyed) {
        self.polled.into_inner().ring.release(destroyed);
    }
}

/// A ring that nobody polls; or this thread does, but is not in the middle of a poll.
struct Locked<'a, P: Platform> {
    rings: &'a PlatformCqRings<P>,
    /// The thread held the lock before, and keeps it.
    is_own: bool,
}

impl<P: Platform> Locked<'_, P> {
    fn ring(&mut self) -> &mut CqRing<P> {
        // SAFETY: the lock is this thread's, and it borrows the ring nowhere else.
        unsafe { &mut (*self.rings.polled.as_mut_ptr()).ring }
    }
}

impl<P: Platform> Drop for Locked<'_, P> {
    fn drop(&mut self) {
        if !self.is_own {
            // SAFETY: it was taken for this object.
            unsafe { self.rings.polled.force_unlock() };
        }
    }
}

impl<P: Platform + 'static> LockedCq for Locked<'_, P> {
    fn waiting(&mut self) -> u32 {
        self.ring().depth().waiting
    }

    fn can_resize(&mut self) -> bool {
        self.ring().can_resize()
    }

    fn resize(
        &mut self,
        entries: u32,
        ask: Ask<'_, CqRingPlace, Option<CqResized>>,
    ) -> Result<(), Refused> {
        let memory = self.ring().memory_for(entries)?;
        match ask(memory.place()) {
            Ok(Some(resized)) => self.ring().resized(memory, resized)?,
            Ok(None) => memory.release(),
            Err(refused) if refused.kind == Kind::MayUseMemory => {
                self.ring().keep(memory);
                return Err(refused);
            }
            Err(refused) => {
                memory.release();
                return Err(refused);
            }
        }
        Ok(())
    }

    fn forget_gone(&mut self) {
        self.ring().forget_gone();
    }
}
