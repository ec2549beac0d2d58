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
use crate::errno::{self, no_object};
use crate::event_queue::EventQueue;
#[cfg(test)]
use crate::event_queue::Taken;
use crate::memory;
use crate::panics::catch_panics;
use crate::wait;

/// The most events that wait in a channel. A completion queue raises one event for each request, so
/// there are about as many as queues, unless a program requests again and again and takes none.
const WAITING: usize = 1 << 20;

type CqEvent = (Token, Arc<CqTarget>);

#[derive(Debug)]
pub(crate) struct ChannelEvents {
    waiting: Arc<EventQueue<CqEvent>>,
    /// Completion queues whose events arrive here.
    cqs: AtomicI32,
}

impl ChannelEvents {
    pub(crate) fn new(device: &str) -> io::Result<Self> {
        let what = format!("{device}: events of a completion channel");
        Ok(Self {
            waiting: Arc::new(EventQueue::new(WAITING, what)?),
            cqs: AtomicI32::new(0),
        })
    }

    /// Puts an event in. When too many wait, an event is dropped if another one of the same
    /// completion queue waits: both say that there is something to poll.
    pub(crate) fn put(&self, token: Token, cq: &Arc<CqTarget>) {
        let event = (token, cq.clone());
        let is_in = match cq.waiting.fetch_add(1, Ordering::AcqRel) {
            0 => self.waiting.put_past_the_most(event),
            _ => self.waiting.put(event),
        };
        if !is_in {
            cq.waiting.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Whether nothing waits.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.take(|_| ()) == Taken::Nothing
    }

    /// No event comes any more; readers are told.
    pub(crate) fn close(&self) {
        self.waiting.close();
    }

    /// A completion queue was added.
    pub(crate) fn enter(&self) {
        self.cqs.fetch_add(1, Ordering::AcqRel);
    }

    /// A completion queue was removed, with its waiting events.
    pub(crate) fn leave(&self, token: Token) {
        self.waiting.purge(|(of, _)| *of != token);
        self.cqs.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The object behind the `ibv_comp_channel` that a program sees.
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

/// `ibv_create_comp_channel`: null and errno if no descriptor is left.
///
/// # Safety
/// `context` is open.
pub unsafe extern "C" fn create_comp_channel(context: *mut Context) -> *mut CompChannel {
    catch_panics(ptr::null_mut(), || {
        // SAFETY: the caller's.
        let open = unsafe { OpenContext::of(context) };
        if !open.is_here() {
            return no_object(libc::EIO);
        }
        if let Err(refused) = memory::check() {
            return no_object(refused.errno);
        }
        let events = match ChannelEvents::new(&open.device_name()) {
            Ok(events) => Arc::new(events),
            Err(error) => return no_object(errno::of_io(&error)),
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
        if !object.events.waiting.is_here() {
            return libc::EIO;
        }
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
/// the device is gone or the context is closed. A waiting thread can be cancelled.
///
/// # Safety
/// `channel` is a completion channel, and both others can be written.
pub unsafe extern "C-unwind" fn get_cq_event(
    channel: *mut CompChannel,
    cq: *mut *mut Cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // A copy: a thread that waits keeps it when the context is closed.
    // SAFETY: the caller's.
    let queue = || unsafe { ChannelObject::of(channel) }.events.waiting.clone();
    wait::take(queue, |(_, target): &CqEvent| {
        target.completions.taken();
        target.waiting.fetch_sub(1, Ordering::AcqRel);
        let taken = target.cq.0;
        // SAFETY: the queue exists: its events are purged before it is destroyed, and none comes
        // afterwards, because `ContextEvents::tell` holds the lock of the objects while it puts one
        // in. The rest is the caller's.
        unsafe {
            cq.write(taken);
            cq_context.write(CqObject::of(taken).program_context());
        }
    })
}

/// `ibv_ack_cq_events`: acknowledges this many events of the queue.
///
/// # Safety
/// `cq` is a completion queue.
pub unsafe extern "C" fn ack_cq_events(cq: *mut Cq, events: c_uint) {
    catch_panics((), || {
        // SAFETY: the caller's.
        let cq = unsafe { CqObject::of(cq) };
        // A copy: the queue may be destroyed with the last acknowledgement.
        let target = cq.target().clone();
        // A child of fork has no events.
        // SAFETY: the caller's: a context outlives its objects.
        if unsafe { cq.open() }.is_here() {
            target.completions.acknowledge(events);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acknowledged::Acknowledged;
    use crate::async_events::ProgramPointer;
    use std::sync::atomic::AtomicU32;

    /// A program that asks for events and takes none: it still gets an event of each completion
    /// queue.
    #[test]
    fn an_event_that_is_left_out_says_what_another_does() {
        let mut events = ChannelEvents::new("test").unwrap();
        events.waiting = Arc::new(EventQueue::new(3, "test".to_owned()).unwrap());
        let cqs = [(), (), ()].map(|()| {
            let target = Arc::new(CqTarget {
                cq: ProgramPointer(ptr::null_mut()),
                channel: None,
                waiting: AtomicU32::new(0),
                completions: Acknowledged::default(),
                errors: Acknowledged::default(),
            });
            (Token::next(), target)
        });
        let [one, two, three] = &cqs;
        for (token, cq) in [one, one, one, one, two, two, three] {
            events.put(*token, cq);
        }
        let next = || match events.waiting.take(|(token, cq)| {
            cq.waiting.fetch_sub(1, Ordering::AcqRel);
            *token
        }) {
            Taken::Event(token) => Some(token),
            _ => None,
        };
        let taken: Vec<_> = std::iter::from_fn(next).collect();
        assert_eq!(taken, [one.0, one.0, one.0, two.0, three.0]);
        assert!(
            cqs.iter()
                .all(|(_, cq)| cq.waiting.load(Ordering::Acquire) == 0)
        );
    }
}
