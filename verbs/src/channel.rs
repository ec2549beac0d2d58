//! Completion channels: where a program waits for the events of its completion queues.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_uint, c_void};
use core::ptr;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::abi::device::Context;
use crate::abi::objects::{CompChannel, Cq};
use crate::async_events::CqTarget;
use crate::control::Token;
use crate::cq::CqObject;
use crate::device::context::{Object, OpenContext};
use crate::errno::{self, fail, no_object};
use crate::panics::catch_panics;
use crate::units::Units;

/// Events that wait in a channel. A completion queue raises one for each request, so there are
/// about as many as queues.
const WAITING: usize = 1 << 20;

/// The events of a channel.
#[derive(Debug)]
pub(crate) struct ChannelEvents {
    waiting: Units<(Token, Arc<CqTarget>)>,
    /// Completion queues whose events come here.
    cqs: AtomicI32,
}

impl ChannelEvents {
    fn new() -> io::Result<Self> {
        Ok(Self {
            waiting: Units::new(WAITING)?,
            cqs: AtomicI32::new(0),
        })
    }

    pub(crate) fn put(&self, token: Token, cq: &Arc<CqTarget>) {
        self.waiting.put((token, cq.clone()));
    }

    /// No event comes any more; readers are told.
    pub(crate) fn close(&self) {
        self.waiting.close();
    }

    /// A completion queue has come.
    pub(crate) fn enter(&self) {
        self.cqs.fetch_add(1, Ordering::AcqRel);
    }

    /// It has gone, and its events that wait with it.
    pub(crate) fn leave(&self, token: Token) {
        self.waiting.purge(|(of, _)| *of != token);
        self.cqs.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What a channel has behind what libibverbs shows of it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ChannelObject {
    abi: UnsafeCell<CompChannel>,
    events: Arc<ChannelEvents>,
}

impl ChannelObject {
    /// The channel that a program names.
    ///
    /// # Safety
    /// `channel` came from [`create_comp_channel`] and is not destroyed.
    pub(crate) unsafe fn of<'a>(channel: *mut CompChannel) -> &'a Self {
        // SAFETY: the caller's: it is the first field of one.
        unsafe { &*channel.cast::<Self>() }
    }

    pub(crate) const fn events(&self) -> &Arc<ChannelEvents> {
        &self.events
    }

    pub(crate) fn context(&self) -> *mut Context {
        // SAFETY: it is never written after the creation.
        unsafe { (*self.abi.get()).context }
    }
}

/// `ibv_create_comp_channel`: null and errno without a descriptor.
///
/// # Safety
/// `context` is open.
pub unsafe extern "C" fn create_comp_channel(context: *mut Context) -> *mut CompChannel {
    catch_panics(ptr::null_mut(), || {
        // SAFETY: the caller's.
        let open = unsafe { OpenContext::of(context) };
        let events = match ChannelEvents::new() {
            Ok(events) => Arc::new(events),
            Err(error) => return no_object(error.raw_os_error().unwrap_or(libc::EMFILE)),
        };
        let channel = Box::new(ChannelObject {
            abi: UnsafeCell::new(CompChannel {
                context,
                fd: events.waiting.fd(),
                refcnt: 0,
            }),
            events,
        });
        open.events().enter_channel(&channel.events);
        let channel = Box::into_raw(channel).cast::<CompChannel>();
        open.enter(Object::Channel(channel));
        channel
    })
}

/// `ibv_destroy_comp_channel`: 0, or EBUSY while completion queues use it.
///
/// # Safety
/// `channel` came from [`create_comp_channel`], and is not used after this has returned 0.
pub unsafe extern "C" fn destroy_comp_channel(channel: *mut CompChannel) -> c_int {
    catch_panics(libc::EIO, || {
        // SAFETY: the caller's.
        let object = unsafe { ChannelObject::of(channel) };
        if object.events.cqs.load(Ordering::Acquire) > 0 {
            return libc::EBUSY;
        }
        // SAFETY: the caller's: made as a box, and nobody uses it any more.
        unsafe {
            OpenContext::leave(object.context(), &Object::Channel(channel));
            drop(Box::from_raw(channel.cast::<ChannelObject>()));
        }
        0
    })
}

/// `ibv_get_cq_event`: 0, or -1 and errno. Waits unless the descriptor is non-blocking; EIO when
/// the device is gone or the context is closed.
///
/// # Safety
/// `channel` is one, and both others can be written.
pub unsafe extern "C" fn get_cq_event(
    channel: *mut CompChannel,
    cq: *mut *mut Cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    catch_panics(fail(libc::EIO), || {
        // A copy: who waits is not left without it when the context is closed.
        // SAFETY: the caller's.
        let events = unsafe { ChannelObject::of(channel) }.events.clone();
        let taken = events.waiting.take(|(_, target)| {
            target.completions.taken();
            let taken = target.cq.0;
            // SAFETY: the queue's events are purged before it is destroyed.
            (taken, unsafe { CqObject::of(taken) }.program_context())
        });
        match taken {
            Ok((taken, word)) => {
                // SAFETY: the caller's.
                unsafe {
                    cq.write(taken);
                    cq_context.write(word);
                }
                0
            }
            Err(error) => errno::fail_io(&error),
        }
    })
}

/// `ibv_ack_cq_events`: so many events of the queue are done with.
///
/// # Safety
/// `cq` is a completion queue.
pub unsafe extern "C" fn ack_cq_events(cq: *mut Cq, events: c_uint) {
    catch_panics((), || {
        // SAFETY: the caller's.
        let cq = unsafe { CqObject::of(cq) };
        // A copy: with the last one the queue may go.
        let target = cq.target().clone();
        target.completions.acknowledge(events);
    });
}
