//! [`VectorEvents`]: the consumer of one interrupt vector's event queues.
//!
//! [`VectorEvents::poll`] may be called from an interrupt handler: it posts no command, waits for
//! nothing and takes no lock. It only marks slots; work that takes a command is left to the
//! control path's [`progress`](crate::Control::progress).
//!
//! While `deliver` runs for an object, no other thread destroys the object: the destruction
//! waits, and afterwards no event of the object is delivered. So `deliver` must not destroy the
//! object it is called for.

use core::fmt;

use e810_adminq::oicr::{self, Causes, Details, RequiredReset};
use e810_ceq::event::{EventLog, Kind};
use e810_ceq::{Aeq, AsyncEvent, Ceq, CqRef, Delivery, Itr, Timer, ceq, irq};
use e810_datapath::slot::{CqKey, NotifyResult, Slots};
use e810_hal::{
    CeqId, DmaBuf, HostBuf, HostList, HostShared, Platform, Vector, log_error, log_warn,
};

use crate::channel::Wakers;
use crate::moderation::Shared;
use crate::monitoring::Depth;

mod mark;

use mark::{Marking, mark};

/// Asynchronous events remembered.
pub const LOGGED: usize = 16;

/// Log of a part without asynchronous events.
static NOTHING: EventLog<LOGGED> = EventLog::new();

/// Entries taken in one call, so that a handler's time is bounded.
const BUDGET: u32 = 64;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[doc(alias("ibv_async_event", "ibv_event_type"))]
pub enum Event {
    /// A completion queue that was armed has something to poll.
    Completion {
        /// Its number.
        cq: u32,
    },
    /// The completion queue of the commands has an entry. It is armed once, at the bring-up, so
    /// this comes once: the control path polls for its commands.
    CqpCompletion,
    /// An asynchronous event: an error, or a change of state.
    #[doc(alias("IBV_EVENT_CQ_ERR", "IB_EVENT_CQ_ERR"))]
    Async(AsyncEvent),
    /// The send queue of a queue pair in SQD is drained, and its program asked for this event
    /// (IBV_EVENT_SQ_DRAINED).
    #[doc(alias = "IBV_EVENT_SQ_DRAINED")]
    SqDrained {
        /// Number of the queue pair.
        qp: u32,
    },
    /// The card reports an error of another kind, and the reset that it requires. Only after a
    /// cold start.
    OtherCause(Causes, RequiredReset),
}

/// What one call of [`VectorEvents::poll`] or [`VectorEvents::on_vector`] took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Polled {
    /// Events delivered.
    pub events: u32,
    /// Events of completion queues whose request had already been answered: the device may answer
    /// both of two requests without an event between them. Taken and not delivered.
    pub surplus: u32,
    /// Entries of destroyed or unknown objects, counted and skipped.
    pub skipped: u32,
    /// There is more: call again before the vector is enabled.
    pub more: bool,
}

/// The event queues of one interrupt vector. It is `Send`, so an interrupt handler
/// can own it.
#[doc(alias = "fi_eq_open")]
pub struct VectorEvents<P: Platform> {
    pub(crate) platform: P,
    /// Whose events these are.
    pub(crate) tag: u64,
    pub(crate) vector: Vector,
    pub(crate) ceq: Option<(CeqId, Ceq<DmaBuf<P>>)>,
    /// What delays its completions.
    pub(crate) timer: Timer,
    /// A register is read after the vector was enabled ([`Quirks`](crate::Quirks)).
    pub(crate) reads_back: bool,
    pub(crate) moderation: Shared<P>,
    pub(crate) aeq: Option<Aeq<DmaBuf<P>>>,
    /// The vector also has the other causes: the LAN side is ours.
    pub(crate) other_causes: bool,
    pub(crate) slots: Slots<HostBuf<P>>,
    pub(crate) wakers: Wakers<P>,
    /// The log of the part with the asynchronous events. Not stored in place: there are many
    /// parts, and they are moved.
    pub(crate) log: Option<HostShared<P, EventLog<LOGGED>>>,
    pub(crate) overflow_reported: bool,
}

/// All vectors of a device; vector 0 has the asynchronous events.
///
/// It has room for the greatest possible number. Push back the ones that other threads or
/// handlers had before the shutdown.
pub type EventSet<P> = HostList<P, VectorEvents<P>>;

/// Prints what can be named.
impl<P: Platform> fmt::Debug for VectorEvents<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VectorEvents")
            .field("vector", &self.vector)
            .field("completion_vector", &self.completion_vector())
            .field("has_async", &self.has_async())
            .finish_non_exhaustive()
    }
}

impl<P: Platform> VectorEvents<P> {
    /// The interrupt vector.
    #[must_use]
    pub const fn vector(&self) -> Vector {
        self.vector
    }

    /// The completion vector whose events come here, by which a completion queue names it. `None`
    /// if only asynchronous events come.
    #[must_use]
    pub fn completion_vector(&self) -> Option<u16> {
        // Ten bits.
        self.ceq.as_ref().map(|(id, _)| id.get() as u16)
    }

    /// Whether the asynchronous events come here.
    #[must_use]
    pub const fn has_async(&self) -> bool {
        self.aeq.is_some()
    }

    /// How full its completion event queue is; `None` where only asynchronous
    /// events come.
    #[must_use]
    pub fn depth(&self) -> Option<Depth> {
        self.ceq.as_ref().map(|(_, queue)| Depth {
            entries: queue.position().size(),
            waiting: queue.waiting(),
        })
    }

    /// The last asynchronous events, oldest first.
    #[must_use]
    pub fn log(&self) -> &EventLog<LOGGED> {
        self.log.as_deref().unwrap_or(&NOTHING)
    }

    /// Call this when the vector has fired. It empties the queues, enables the vector again and
    /// checks the queues once more: if the device forgets an event that it wrote in between
    /// (docs/hardware-notes.md, CLEARPBA), this finds it, except for what comes while the
    /// enabling write is still on its way. Returns what was found. When `more` is set the vector
    /// is still masked, or fires again by itself; repeat the call.
    ///
    /// After a cold start the vector of the asynchronous events also signals errors of the card,
    /// which are read here, and AdminQ events, which
    /// [`Control::progress`](crate::Control::progress) takes.
    #[doc(alias("ibv_get_async_event", "ibv_ack_async_event"))]
    pub fn on_vector(&mut self, deliver: &mut impl FnMut(Event)) -> Polled {
        let causes = self.poll_causes(deliver);
        let mut polled = self.poll(deliver);
        polled.events = polled.events.wrapping_add(causes);
        if !polled.more {
            self.enable_vector();
            self.poll_into(&mut polled, deliver);
        }
        polled
    }

    /// Enables the vector, with the wait that its completion queues allow; that takes only the
    /// one access that enables it. Without such queues the timers stay as they are, because the
    /// other causes use them.
    #[inline]
    fn enable_vector(&self) {
        let (timer, itr) = match &self.ceq {
            Some((id, _)) => (self.timer, self.moderation.itr(*id)),
            None => (Timer::None, Itr::NONE),
        };
        irq::enable_vector(&self.platform, self.vector, timer, itr);
        if self.reads_back {
            irq::wait_enabled(&self.platform, self.vector);
        }
    }

    /// Empties the queues (a bounded number of entries) without touching the
    /// vector: for a program that polls.
    #[doc(alias("ibv_get_async_event", "ibv_ack_async_event"))]
    pub fn poll(&mut self, deliver: &mut impl FnMut(Event)) -> Polled {
        let mut polled = Polled::default();
        self.poll_into(&mut polled, deliver);
        polled
    }

    fn poll_into(&mut self, polled: &mut Polled, deliver: &mut impl FnMut(Event)) {
        // The CEQ before the AEQ (control-path 8).
        self.poll_ceq(polled, deliver);
        self.poll_aeq(polled, deliver);
    }

    /// Removes the entries of a destroyed completion queue from the completion event queue, and
    /// returns how many there were (control-path 7.2). This is optional: such entries are skipped
    /// when they are met.
    pub fn scrub(&mut self, cq: CqKey) -> u32 {
        let context = CqRef::from_context(cq.bits());
        let queue = self.ceq.as_mut();
        queue.map_or(0, |(_, queue)| queue.scrub(context))
    }

    /// Reads the card's other causes, which clears them; returns the number of events delivered.
    /// One register read, for a program that polls and wants to know of errors of the card now
    /// and then; [`VectorEvents::on_vector`] does it by itself. A device that is gone shows in
    /// the next command.
    pub fn poll_causes(&mut self, deliver: &mut impl FnMut(Event)) -> u32 {
        if !self.other_causes {
            return 0;
        }
        match oicr::take(&self.platform) {
            Ok((causes, required_reset)) if !causes.is_empty() => {
                self.log_engine_errors(causes);
                deliver(Event::OtherCause(causes, required_reset));
                1
            }
            _ => 0,
        }
    }

    /// Logs what the engine's registers say about its errors: a reset clears that, and programs
    /// that reset at once never ask.
    fn log_engine_errors(&self, causes: Causes) {
        let Ok(details) = Details::read(&self.platform, causes) else {
            return;
        };
        if let Some([info, data]) = details.hmc_registers {
            log_error!(
                "HMC error: PFHMC_ERRORINFO {:#x}, PFHMC_ERRORDATA {:#x} (erratum E16)",
                info,
                data
            );
        }
        match details.critical {
            Some(code) if code.is_harmless() => {
                log_warn!(
                    "GLPE_CRITERR {:#x}: too few entries for inbound READs (Q1, erratum E19)",
                    code.0
                );
            }
            Some(code) => log_error!("GLPE_CRITERR {:#x} (errata E17, E19)", code.0),
            None => {}
        }
    }

    fn poll_ceq(&mut self, polled: &mut Polled, deliver: &mut impl FnMut(Event)) {
        let Some((_, queue)) = &mut self.ceq else {
            return;
        };
        let (platform, slots, wakers) = (&self.platform, &self.slots, &self.wakers);
        let mut surplus = 0u32;
        let drained = queue.drain(BUDGET, |cq: CqRef| {
            if cq.is_ccq() {
                ceq::acknowledge(platform, cq);
                deliver(Event::CqpCompletion);
                return Delivery::Live;
            }
            let Some(key) = CqKey::from_bits(cq.context()) else {
                return Delivery::Stale;
            };
            match slots.signal_cq(key) {
                NotifyResult::NoSuchCq => Delivery::Stale,
                // Acknowledged before its handler runs (control-path 7.1).
                // Not for one that is being destroyed: the device may no longer know it.
                NotifyResult::Delivered { channel } => {
                    slots.notify_cq(key, || {
                        ceq::acknowledge(platform, cq);
                        deliver(Event::Completion { cq: key.id() });
                    });
                    wakers.wake(channel);
                    Delivery::Live
                }
                NotifyResult::Spurious => {
                    slots.notify_cq(key, || ceq::acknowledge(platform, cq));
                    surplus = surplus.wrapping_add(1);
                    Delivery::Live
                }
            }
        });
        polled.events = polled
            .events
            .wrapping_add(drained.live.wrapping_sub(surplus));
        polled.surplus = polled.surplus.wrapping_add(surplus);
        polled.skipped = polled
            .skipped
            .wrapping_add(drained.skipped)
            .wrapping_add(drained.stale);
        polled.more |= drained.more;
    }

    fn poll_aeq(&mut self, polled: &mut Polled, deliver: &mut impl FnMut(Event)) {
        let Some(queue) = &mut self.aeq else {
            return;
        };
        let (slots, now) = (&self.slots, self.platform.now());
        let mut log = self.log.as_mut().and_then(HostShared::get_mut);
        let mut note = |event| {
            if let Some(log) = &mut log {
                log.push(now, event);
            }
        };
        let mut unknown = 0u32;
        let drained = queue.drain(&self.platform, BUDGET, |entry| {
            let event = AsyncEvent::from(entry);
            note(event);
            let delivered = match mark(slots, &entry) {
                Marking::Function => {
                    deliver(Event::Async(event));
                    true
                }
                Marking::Qp(key) => slots.notify_qp(key, || deliver(Event::Async(event))),
                Marking::Cq(key) => slots.notify_cq(key, || deliver(Event::Async(event))),
                Marking::Drained(key) => {
                    slots.notify_qp(key, || deliver(Event::SqDrained { qp: key.id() }))
                }
                Marking::Quiet => false,
            };
            unknown = unknown.wrapping_add(u32::from(!delivered));
        });
        match drained {
            Ok(drained) => {
                polled.events = polled
                    .events
                    .wrapping_add(drained.events.wrapping_sub(unknown));
                polled.skipped = polled
                    .skipped
                    .wrapping_add(drained.skipped)
                    .wrapping_add(unknown);
                polled.more |= drained.more;
            }
            // The queue overflowed, and stays so until a reset: reported once.
            Err(_) if !self.overflow_reported => {
                self.overflow_reported = true;
                let event = AsyncEvent::function(Kind::AeqOverflow);
                note(event);
                deliver(Event::Async(event));
                polled.events = polled.events.wrapping_add(1);
            }
            Err(_) => {}
        }
    }
}
