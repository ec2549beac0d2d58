//! Asynchronous events: what happened to the device, its port or an object of the context, for
//! programs that read `ibv_context.async_fd`.

use core::ffi::c_int;
use std::collections::HashMap;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::abi::constants::event;
use crate::abi::device::Context;
use crate::abi::objects::{Cq, Qp};
use crate::abi::work::{AsyncElement, AsyncEvent};
use crate::acknowledged::Acknowledged;
use crate::channel::ChannelEvents;
use crate::control::{ControlEvent, DeviceEvent, EventSink, QpEvent, Token};
use crate::cq::CqObject;
use crate::device::context::OpenContext;
use crate::event_queue::EventQueue;
use crate::panics::catch_panics;
use crate::qp::QpObject;
use crate::wait;

/// The most events that wait for a program: a few for each object of a device.
const WAITING: usize = 1 << 14;

/// The number of an event of the device.
const fn of_device(event: DeviceEvent) -> c_int {
    match event {
        DeviceEvent::DeviceFatal => event::DEVICE_FATAL,
        DeviceEvent::PortActive => event::PORT_ACTIVE,
        DeviceEvent::PortError => event::PORT_ERR,
        DeviceEvent::GidChange => event::GID_CHANGE,
    }
}

/// The number of an event of a queue pair.
const fn of_qp(event: QpEvent) -> c_int {
    match event {
        QpEvent::Fatal => event::QP_FATAL,
        QpEvent::RequestError => event::QP_REQ_ERR,
        QpEvent::AccessError => event::QP_ACCESS_ERR,
        QpEvent::SqDrained => event::SQ_DRAINED,
    }
}

/// The program's pointer to an object: returned with events, and never followed here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ProgramPointer<T>(pub(crate) *mut T);

// SAFETY: on this side it is only a number.
unsafe impl<T> Send for ProgramPointer<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for ProgramPointer<T> {}

/// The target of a completion queue's events.
#[derive(Debug)]
pub(crate) struct CqTarget {
    pub(crate) cq: ProgramPointer<Cq>,
    pub(crate) channel: Option<Arc<ChannelEvents>>,
    /// Events that wait in the channel.
    pub(crate) waiting: AtomicU32,
    /// Events taken from the channel.
    pub(crate) completions: Acknowledged,
    /// Asynchronous events.
    pub(crate) errors: Acknowledged,
}

/// The target of a queue pair's events.
#[derive(Debug)]
pub(crate) struct QpTarget {
    pub(crate) qp: ProgramPointer<Qp>,
    pub(crate) events: Acknowledged,
}

/// An object of the context.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Cq(Arc<CqTarget>),
    Qp(Arc<QpTarget>),
}

/// An event that waits.
#[derive(Debug)]
enum Waiting {
    Device(DeviceEvent),
    CqError(Token, Arc<CqTarget>),
    Qp(Token, Arc<QpTarget>, QpEvent),
}

#[derive(Debug)]
pub(crate) struct ContextEvents {
    waiting: Arc<EventQueue<Waiting>>,
    objects: Mutex<HashMap<Token, Target>>,
    channels: Mutex<Channels>,
    /// The context, while it is open and has a function.
    context: Mutex<Option<ProgramPointer<Context>>>,
    /// The function is gone.
    are_over: AtomicBool,
}

#[derive(Debug, Default)]
struct Channels {
    open: Vec<Weak<ChannelEvents>>,
    /// The device is gone, or the context is closed.
    are_closed: bool,
}

impl ContextEvents {
    /// For the device called `device`, without objects and events.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new(device: &str) -> io::Result<Self> {
        let what = format!("{device}: asynchronous events");
        Ok(Self {
            waiting: Arc::new(EventQueue::new(WAITING, what)?),
            objects: Mutex::default(),
            channels: Mutex::default(),
            context: Mutex::default(),
            are_over: AtomicBool::new(false),
        })
    }

    /// The descriptor that a program reads.
    pub(crate) fn fd(&self) -> RawFd {
        self.waiting.fd()
    }

    fn objects(&self) -> MutexGuard<'_, HashMap<Token, Target>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn channels(&self) -> MutexGuard<'_, Channels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A channel was made.
    pub(crate) fn enter_channel(&self, channel: &Arc<ChannelEvents>) {
        let mut channels = self.channels();
        channels.open.retain(|known| known.strong_count() > 0);
        channels.open.push(Arc::downgrade(channel));
        if channels.are_closed {
            channel.close();
        }
    }

    fn context(&self) -> MutexGuard<'_, Option<ProgramPointer<Context>>> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The context is open.
    pub(crate) fn enter_context(&self, context: *mut Context) {
        *self.context() = Some(ProgramPointer(context));
        if self.are_over() {
            self.end_context();
        }
    }

    /// Whether the function is gone.
    pub(crate) fn are_over(&self) -> bool {
        self.are_over.load(Ordering::SeqCst)
    }

    fn end_context(&self) {
        // Held meanwhile: the context is not freed before it was taken out.
        let context = self.context();
        if let Some(ProgramPointer(context)) = *context {
            // SAFETY: it is open.
            unsafe { OpenContext::of(context) }.end();
        }
    }

    /// The program closes the context.
    pub(crate) fn close(&self) {
        *self.context() = None;
        self.end();
        self.waiting.report_lost(true);
    }

    /// Ends the events: everybody who waits for one is told, also on a channel.
    fn end(&self) {
        self.waiting.close();
        let mut channels = self.channels();
        channels.are_closed = true;
        for channel in channels.open.iter().filter_map(Weak::upgrade) {
            channel.close();
        }
    }

    /// From now on events of this object are reported.
    pub(crate) fn enter(&self, token: Token, target: Target) {
        self.objects().insert(token, target);
    }

    /// From now on none is reported, and those that wait are dropped.
    pub(crate) fn leave(&self, token: Token) {
        self.objects().remove(&token);
        self.waiting.purge(|waiting| match waiting {
            Waiting::Device(_) => true,
            Waiting::CqError(of, _) | Waiting::Qp(of, ..) => *of != token,
        });
    }
}

impl EventSink for ContextEvents {
    fn notify(&self, event: ControlEvent) {
        // Held until the event is reported: a purge after an object has left then drops all of its
        // events.
        let objects = self.objects();
        match event {
            ControlEvent::Device(DeviceEvent::DeviceFatal) => {
                drop(objects);
                // First, so that who hears of it finds what it says.
                self.are_over.store(true, Ordering::SeqCst);
                self.end_context();
                // The last one.
                let fatal = Waiting::Device(DeviceEvent::DeviceFatal);
                self.waiting.put_past_the_most(fatal);
                self.end();
            }
            ControlEvent::Device(event) => drop(self.waiting.put(Waiting::Device(event))),
            ControlEvent::Completion(token) => {
                if let Some(Target::Cq(cq)) = objects.get(&token)
                    && let Some(channel) = &cq.channel
                {
                    channel.put(token, cq);
                }
            }
            ControlEvent::CqError(token) => {
                if let Some(Target::Cq(cq)) = objects.get(&token) {
                    self.waiting.put(Waiting::CqError(token, cq.clone()));
                }
            }
            ControlEvent::Qp(token, event) => {
                if let Some(Target::Qp(qp)) = objects.get(&token) {
                    self.waiting.put(Waiting::Qp(token, qp.clone(), event));
                }
            }
        }
    }
}

impl Waiting {
    /// The event as a program gets it.
    fn given(&self) -> AsyncEvent {
        match self {
            Self::Device(event) => AsyncEvent {
                // The only port.
                element: AsyncElement { port_num: 1 },
                event_type: of_device(*event),
            },
            Self::CqError(_, target) => {
                target.errors.taken();
                AsyncEvent {
                    element: AsyncElement { cq: target.cq.0 },
                    event_type: event::CQ_ERR,
                }
            }
            Self::Qp(_, target, event) => {
                target.events.taken();
                AsyncEvent {
                    element: AsyncElement { qp: target.qp.0 },
                    event_type: of_qp(*event),
                }
            }
        }
    }
}

/// `ibv_get_async_event`: 0, or -1 and errno; EIO after DEVICE_FATAL, or when the context is closed
/// meanwhile. A waiting thread can be cancelled.
///
/// # Safety
/// `context` is open and `event` can be written.
pub unsafe extern "C-unwind" fn get_async_event(
    context: *mut Context,
    event: *mut AsyncEvent,
) -> c_int {
    // A copy: a thread that waits keeps it when the context is closed.
    // SAFETY: the caller's.
    let queue = || unsafe { OpenContext::of(context) }.events().waiting.clone();
    // SAFETY: the caller's.
    wait::take(queue, |waiting: &Waiting| unsafe {
        event.write(waiting.given());
    })
}

/// `ibv_ack_async_event`: the object of the event may be destroyed. Events of the device and its
/// port hold no object.
///
/// # Safety
/// `event` came from [`get_async_event`], and was not acknowledged before.
pub unsafe extern "C" fn ack_async_event(event: *mut AsyncEvent) {
    catch_panics((), || {
        // SAFETY: the caller's.
        let event = unsafe { event.read() };
        match event.event_type {
            event::CQ_ERR => {
                // SAFETY: the kind of event says which field is valid; the object is not destroyed
                // before this.
                let cq = unsafe { CqObject::of(event.element.cq) };
                // A child of fork has no events.
                // SAFETY: a context outlives its objects.
                if unsafe { cq.open() }.is_here() {
                    // A copy: the queue may be destroyed with the last acknowledgement.
                    let target = cq.target().clone();
                    target.errors.acknowledge(1);
                }
            }
            event::QP_FATAL | event::QP_REQ_ERR | event::QP_ACCESS_ERR | event::SQ_DRAINED => {
                // SAFETY: as above.
                let qp = unsafe { QpObject::of(event.element.qp) };
                // A child of fork has no events.
                // SAFETY: a context outlives its objects.
                if unsafe { qp.open() }.is_here() {
                    let target = qp.target().clone();
                    target.events.acknowledge(1);
                }
            }
            _ => {}
        }
    });
}

#[cfg(test)]
mod tests {
    use std::ptr;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;
    use crate::event_queue::Taken;

    fn events() -> ContextEvents {
        ContextEvents::new("test").unwrap()
    }

    fn queue_pair() -> Target {
        Target::Qp(Arc::new(QpTarget {
            qp: ProgramPointer(ptr::null_mut()),
            events: Acknowledged::default(),
        }))
    }

    fn cq(channel: &Arc<ChannelEvents>) -> Target {
        Target::Cq(Arc::new(CqTarget {
            cq: ProgramPointer(ptr::null_mut()),
            channel: Some(channel.clone()),
            waiting: AtomicU32::new(0),
            completions: Acknowledged::default(),
            errors: Acknowledged::default(),
        }))
    }

    /// The kinds of events that wait.
    fn taken(events: &ContextEvents) -> Vec<c_int> {
        let next = || match events.waiting.take(|waiting| waiting.given().event_type) {
            Taken::Event(kind) => Some(kind),
            _ => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn the_oldest_events_stay_and_so_does_the_last() {
        let events = events();
        let [one, other] = [(), ()].map(|()| Token::next());
        events.enter(one, queue_pair());
        events.enter(other, queue_pair());
        events.notify(ControlEvent::Device(DeviceEvent::PortError));
        for _ in 0..WAITING {
            events.notify(ControlEvent::Qp(one, QpEvent::AccessError));
        }
        events.notify(ControlEvent::Qp(other, QpEvent::Fatal));
        events.notify(ControlEvent::Device(DeviceEvent::DeviceFatal));
        events.notify(ControlEvent::Device(DeviceEvent::PortActive));
        events.leave(one);
        assert_eq!(taken(&events), [event::PORT_ERR, event::DEVICE_FATAL]);
    }

    /// One object comes and goes while another thread reports its events: no event is left
    /// afterwards.
    #[test]
    fn an_object_that_has_gone_leaves_no_event() {
        let events = events();
        let channel = Arc::new(ChannelEvents::new("test").unwrap());
        let tokens = [(), ()].map(|()| Token::next());
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    events.notify(ControlEvent::Completion(tokens[0]));
                    events.notify(ControlEvent::Qp(tokens[1], QpEvent::Fatal));
                }
            });
            let left = (0..4_000).find(|turn| {
                events.enter(tokens[0], cq(&channel));
                events.enter(tokens[1], queue_pair());
                channel.enter();
                if turn % 16 == 0 {
                    thread::yield_now();
                }
                events.leave(tokens[0]);
                events.leave(tokens[1]);
                channel.leave(tokens[0]);
                thread::yield_now();
                !taken(&events).is_empty() || !channel.is_empty()
            });
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(left, None, "the first turn after which an event was left");
        });
    }
}
