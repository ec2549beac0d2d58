//! Event channels.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use e810_verbs::errno::{self, fail, no_object};
use e810_verbs::event_queue::EventQueue;
use e810_verbs::panics::catch_panics;
use e810_verbs::wait;

use crate::abi::{CmEvent, CmId, EventChannel};
use crate::happening::{Given, Happening};
use crate::id::Id;

/// The most events that wait in a channel: those of connections have a bound, and a listener's
/// requests its backlog.
const WAITING: usize = 1 << 20;

/// The object behind the `rdma_event_channel` that a program sees.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Channel {
    abi: UnsafeCell<EventChannel>,
    queue: Arc<Queue>,
}

pub(crate) type Queue = EventQueue<Arc<Happening>>;

impl Channel {
    /// # Safety
    /// `channel` came from [`Self::make`] and is not destroyed.
    pub(crate) unsafe fn of<'a>(channel: *mut EventChannel) -> &'a Self {
        // SAFETY: the caller's: it is the first field of one.
        unsafe { &*channel.cast::<Self>() }
    }

    pub(crate) const fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// # Errors
    /// The number for `errno`: no descriptor is left.
    pub(crate) fn make() -> Result<*mut EventChannel, c_int> {
        let queue = EventQueue::new(WAITING, "events of connections".to_owned());
        let queue = queue.map_err(|error| errno::of_io(&error))?;
        let channel = Box::new(Self {
            abi: UnsafeCell::new(EventChannel { fd: queue.fd() }),
            queue: Arc::new(queue),
        });
        Ok(Box::into_raw(channel).cast())
    }

    /// # Safety
    /// `channel` came from [`Self::make`], and nobody uses it any more.
    pub(crate) unsafe fn free(channel: *mut EventChannel) {
        // SAFETY: the caller's.
        drop(unsafe { Box::from_raw(channel.cast::<Self>()) });
    }
}

/// `rdma_create_event_channel`: null and errno if no descriptor is left.
pub extern "C" fn create_event_channel() -> *mut EventChannel {
    catch_panics(ptr::null_mut(), || {
        Channel::make().unwrap_or_else(no_object)
    })
}

/// `rdma_destroy_event_channel`.
///
/// # Safety
/// `channel` came from [`create_event_channel`]; no id uses it any more.
pub unsafe extern "C" fn destroy_event_channel(channel: *mut EventChannel) {
    // SAFETY: the caller's.
    catch_panics((), || unsafe { Channel::free(channel) });
}

/// `rdma_get_cm_event`: 0, or -1 and errno. Waits unless the descriptor is non-blocking. A waiting
/// thread can be cancelled.
///
/// # Safety
/// `channel` is an event channel, and `event` is null or can be written.
pub unsafe extern "C-unwind" fn get_cm_event(
    channel: *mut EventChannel,
    event: *mut *mut CmEvent,
) -> c_int {
    if event.is_null() {
        return fail(libc::EINVAL);
    }
    loop {
        // Of a thread that is cancelled nothing is dropped, so this is a pointer.
        let mut taken: *const Happening = ptr::null();
        let place = &raw mut taken;
        // SAFETY: the caller's.
        let queue = || unsafe { Channel::of(channel) }.queue.clone();
        let code = wait::take(queue, |happening: &Arc<Happening>| {
            // From now on its id is not destroyed: another thread may want to.
            happening.reported().events().taken();
            // SAFETY: this function's own.
            unsafe { place.write(Arc::into_raw(happening.clone())) };
        });
        if code != 0 {
            return code;
        }
        let given = catch_panics(ptr::null_mut(), || {
            // SAFETY: made of an `Arc` just now, once.
            let happening = unsafe { Arc::from_raw(taken) };
            happening.give()
        });
        if !given.is_null() {
            // SAFETY: the caller's.
            unsafe { event.write(given) };
            return 0;
        }
    }
}

/// `rdma_ack_cm_event`: frees an event.
///
/// # Safety
/// `event` came from [`get_cm_event`] and was not freed.
pub unsafe extern "C" fn ack_cm_event(event: *mut CmEvent) -> c_int {
    catch_panics(-1, || {
        if event.is_null() {
            return fail(libc::EINVAL);
        }
        // SAFETY: the caller's: it is the first field of one.
        unsafe { Given::take_back(event) };
        0
    })
}

/// `rdma_migrate_id`: the id's events come to another channel from now on, also those that wait. Null
/// makes the id synchronous, and is refused with EINVAL if it is. Waits until events that were taken
/// are acknowledged.
///
/// # Safety
/// `id` exists; `channel` is null or an event channel.
pub unsafe extern "C" fn migrate_id(id: *mut CmId, channel: *mut EventChannel) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's.
        let id = unsafe { Id::of(id) };
        // SAFETY: as above.
        match unsafe { id.migrate(channel) } {
            Ok(()) => 0,
            Err(number) => fail(number),
        }
    })
}
