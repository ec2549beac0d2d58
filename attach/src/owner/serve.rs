//! The thread of a function: it handles events and the work that they leave.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use e810::{AsyncEvent, Control, Event, EventSet, LanEvent, Progress};
use e810_backends::HostDevice;
use e810_backends::interrupts::HostPlatform;
use e810_hal::Ns;
use e810_node::connections::Connections;

use super::names::CqName;
use super::{OWN, Owner};
use crate::lock;
use crate::messages::{ControlEvent, DeviceEvent, QpEvent, Token};

/// How long the thread sleeps at a time; then it looks for what causes no interrupt.
const SLEEP: Ns = Ns::from_ms(50);
/// The same while queue pairs are being flushed: software completes, some milliseconds later, what
/// the device does not.
const SHORT_SLEEP: Ns = Ns::from_ms(5);
/// How long notices of the kernel may wait while vectors fire.
const NOTICE_INTERVAL: Duration = Duration::from_millis(50);

/// A function at work, as its own thread sees it.
#[derive(Debug)]
pub struct Seen<'a, P: HostPlatform> {
    pub control: &'a mut Control<P>,
    pub events: &'a EventSet<P>,
    /// How often each part of the events had an interrupt.
    pub interrupts: &'a [u64],
    /// Absent before a program connects.
    pub connections: Option<&'a mut Connections<P>>,
}

/// Called after each turn of the function's thread, at least every 50 ms. Commands wait meanwhile.
pub type Watch<P> = Box<dyn Fn(Seen<'_, P>) + Send + Sync>;

impl<D: HostDevice> Owner<D> {
    /// From now on, `watch` looks at the function.
    pub fn set_watch(&self, watch: Watch<D>) {
        // The first one stays.
        let _ = self.watch.set(watch);
    }

    /// Serves the function's events until it is gone, and says why.
    pub(super) fn serve(&self, function: &D, mut events: EventSet<D>) -> anyhow::Error {
        let mut fired = Vec::new();
        let mut interrupts = vec![0_u64; events.len()];
        let mut sleep = SLEEP;
        let mut noticed = Instant::now();
        loop {
            fired.clear();
            if let Err(error) = function.wait_fired(sleep, &mut fired) {
                return error;
            }
            let mut fatal = None;
            for (vector, interrupts) in events.iter_mut().zip(&mut interrupts) {
                let mut deliver = |event: Event| {
                    if let Some(why) = self.deliver(event) {
                        fatal = Some(why);
                    }
                };
                match fired.contains(&vector.vector()) {
                    true => {
                        *interrupts += 1;
                        let _ = vector.on_vector(&mut deliver);
                    }
                    false => drop(vector.poll(&mut deliver)),
                }
            }
            // Before it takes the lock of the objects, which a command may hold for long.
            self.tell_completions();
            let mut happened = Vec::new();
            let mut state = self.state.lock(OWN);
            // This reads a register, which shows a failed transport.
            let progress: e810::Result<Progress> = state.control.progress();
            self.tell_changes(&mut state);
            if let Some(failure) = function.failure() {
                return anyhow!("{failure}");
            }
            // A notice wakes this thread too, without a vector. Asking for notices costs system
            // calls; interrupts in quick succession share one.
            if fired.is_empty() || noticed.elapsed() > NOTICE_INTERVAL {
                noticed = Instant::now();
                if let Some((_, notice)) = function.notice() {
                    fatal = Some(anyhow!("{notice:?}"));
                }
            }
            sleep = match progress {
                Ok(progress) if progress.unfinished > 0 => SHORT_SLEEP,
                Err(error) if error.needs_reset() => return error.into(),
                _ => SLEEP,
            };
            while let Some(event) = state.control.take_lan_event() {
                match event {
                    LanEvent::LinkUp(_) => happened.push(DeviceEvent::PortActive),
                    LanEvent::LinkDown(_) => happened.push(DeviceEvent::PortError),
                    LanEvent::FirmwareStops => {
                        fatal = Some(anyhow!("the firmware ends its queue: a reset is coming"));
                    }
                    _ => {}
                }
            }
            // Not while somebody begins a resolution: the next turn will do.
            if let Ok(mut resolver) = self.resolver.try_lock() {
                match resolver.progress(&mut state.control) {
                    Ok(true) => happened.push(DeviceEvent::GidChange),
                    Ok(false) => {}
                    Err(error) => fatal = Some(error),
                }
            }
            match self.progress_connections(&mut state) {
                Ok(Some(at)) => sleep = sleep.min(Ns(at.0.saturating_sub(self.platform.now().0))),
                Ok(None) => {}
                Err(error) => fatal = Some(error),
            }
            if let Some(watch) = self.watch.get() {
                let state = &mut *state;
                watch(Seen {
                    control: &mut state.control,
                    events: &events,
                    interrupts: &interrupts,
                    connections: state.connections.as_mut(),
                });
            }
            drop(state);
            self.clear_away(Instant::now());
            // What software has completed.
            self.tell_completions();
            for event in happened {
                self.tell_all(event);
            }
            if let Some(why) = fatal {
                return why;
            }
        }
    }

    /// Reports the completion queues that have something to poll, completed by the device or by
    /// software, and that are polled with the owner's slots.
    fn tell_completions(&self) {
        // Nobody closes the channel. The device's events come through this thread, so the loop
        // ends.
        while let Ok(Some(event)) = self.channel.try_next() {
            let name = lock(&self.names).cqs.get(&event.cq().id()).copied();
            if let Some(CqName { program, .. }) = name {
                let told = ControlEvent::Completion(Token(event.user_context()));
                self.tell(program, |program| program.event(told));
            }
            // The event was taken just now; the queue's destruction waits for this.
            let _ = self.channel.acknowledge(event, 1);
        }
    }

    /// Reports an event; returns the error if it ends the device.
    fn deliver(&self, event: Event) -> Option<anyhow::Error> {
        match event {
            // The channel reports those that are polled with the owner's slots, together with those
            // that software completes.
            Event::Completion { cq } => {
                let name = lock(&self.names).cqs.get(&cq).copied();
                if let Some(CqName {
                    program,
                    elsewhere: Some(key),
                    ..
                }) = name
                {
                    self.tell(program, |program| program.cq_event(key));
                }
            }
            Event::SqDrained { qp } => self.tell_of_qp(qp, QpEvent::SqDrained),
            Event::Async(event) => {
                self.tell_of(&event);
                if event.needs_reset() {
                    return Some(anyhow!("{event}"));
                }
            }
            Event::OtherCause(causes, reset) => {
                return Some(anyhow!("the card reports {causes:?}; wanted: {reset:?}"));
            }
            _ => {}
        }
        None
    }

    fn tell_of_qp(&self, qp: u32, event: QpEvent) {
        let name = lock(&self.names).qps.get(&qp).copied();
        if let Some(name) = name {
            let told = ControlEvent::Qp(name.token, event);
            self.tell(name.program, |program| program.event(told));
        }
    }

    /// Tells of an asynchronous event that a program gets.
    fn tell_of(&self, event: &AsyncEvent) {
        use e810::AsyncObject;
        match event.object {
            AsyncObject::Qp(qp) => match event.qp_event() {
                Some(e810::QpEvent::Fatal) => self.tell_of_qp(qp, QpEvent::Fatal),
                Some(e810::QpEvent::AccessError) => self.tell_of_qp(qp, QpEvent::AccessError),
                Some(e810::QpEvent::RequestError) => self.tell_of_qp(qp, QpEvent::RequestError),
                None => {}
            },
            AsyncObject::Cq(cq) => {
                let name = lock(&self.names).cqs.get(&cq).copied();
                if let Some(CqName {
                    program,
                    token,
                    elsewhere,
                }) = name
                {
                    self.tell(program, |program| {
                        if let Some(key) = elsewhere {
                            program.cq_failed(key);
                        }
                        program.event(ControlEvent::CqError(token));
                    });
                }
            }
            _ => {}
        }
    }
}
