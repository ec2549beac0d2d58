//! The thread of a function: it handles events and the work that they leave.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use e810::{AsyncEvent, Event, EventSet, LanEvent, Progress};
use e810_backends::HostDevice;
use e810_hal::Ns;

use super::{InProcess, lock};
use crate::async_events::DeviceEvent;
use crate::control::Token;
use crate::events::{ControlEvent, QpEvent};

/// How long the thread sleeps at a time; then it looks for what causes no interrupt.
const SLEEP: Ns = Ns::from_ms(50);
/// The same while queue pairs are being flushed: software completes, some milliseconds later, what
/// the device does not.
const SHORT_SLEEP: Ns = Ns::from_ms(5);
/// How long notices of the kernel may wait while vectors fire.
const NOTICE_INTERVAL: Duration = Duration::from_millis(50);

impl<D: HostDevice> InProcess<D> {
    /// Serves the function's events until it is gone, and says why.
    pub(super) fn serve(&self, function: &D, mut events: EventSet<D>) -> anyhow::Error {
        let mut fired = Vec::new();
        let mut sleep = SLEEP;
        let mut noticed = Instant::now();
        loop {
            fired.clear();
            if let Err(error) = function.wait_fired(sleep, &mut fired) {
                return error;
            }
            let mut fatal = None;
            for vector in events.iter_mut() {
                let mut deliver = |event: Event| {
                    if let Some(why) = self.deliver(event) {
                        fatal = Some(why);
                    }
                };
                match fired.contains(&vector.vector()) {
                    true => drop(vector.on_vector(&mut deliver)),
                    false => drop(vector.poll(&mut deliver)),
                }
            }
            // Before it takes the lock of the objects, which a command may hold for long.
            self.tell_completions();
            let mut happened = Vec::new();
            let mut objects = lock(&self.objects);
            // This reads a register, which shows a failed transport.
            let progress: e810::Result<Progress> = objects.control.progress();
            self.tell_changes(&mut objects);
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
            while let Some(event) = objects.control.take_lan_event() {
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
                match resolver.progress(&mut objects.control) {
                    Ok(true) => happened.push(DeviceEvent::GidChange),
                    Ok(false) => {}
                    Err(error) => fatal = Some(error),
                }
            }
            drop(objects);
            // What software has completed.
            self.tell_completions();
            for event in happened {
                self.notify(ControlEvent::Device(event));
            }
            if let Some(why) = fatal {
                return why;
            }
        }
    }

    /// Reports the completion queues that have something to poll, completed by the device or by
    /// software.
    fn tell_completions(&self) {
        // Nobody closes the channel. The device's events come through this thread, so the loop
        // ends.
        while let Ok(Some(event)) = self.channel.try_next() {
            self.notify(ControlEvent::Completion(Token(event.user_context())));
            // The event was taken just now; the queue's destruction waits for this.
            let _ = self.channel.acknowledge(event, 1);
        }
    }

    /// Reports an event; returns the error if it ends the device.
    fn deliver(&self, event: Event) -> Option<anyhow::Error> {
        match event {
            // The channel reports these, together with those that software completes.
            Event::Completion { cq } => {
                if let Some(program) = &self.to_program
                    && let Some((_, key)) = lock(&self.tokens).cqs.get(&cq)
                {
                    program.cq_event(*key);
                }
            }
            Event::SqDrained { qp } => {
                let token = lock(&self.tokens).qps.get(&qp).copied();
                self.notify_if(token.map(|token| ControlEvent::Qp(token, QpEvent::SqDrained)));
            }
            Event::Async(event) => {
                self.notify_if(self.async_event(&event));
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

    fn notify_if(&self, event: Option<ControlEvent>) {
        if let Some(event) = event {
            self.notify(event);
        }
    }

    /// The asynchronous event that a program gets.
    fn async_event(&self, event: &AsyncEvent) -> Option<ControlEvent> {
        use e810::AsyncObject;
        match event.object {
            AsyncObject::Qp(qp) => {
                let kind = match event.qp_event()? {
                    e810::QpEvent::Fatal => QpEvent::Fatal,
                    e810::QpEvent::AccessError => QpEvent::AccessError,
                    e810::QpEvent::RequestError => QpEvent::RequestError,
                };
                let token = lock(&self.tokens).qps.get(&qp).copied()?;
                Some(ControlEvent::Qp(token, kind))
            }
            AsyncObject::Cq(cq) => {
                let (token, key) = lock(&self.tokens).cqs.get(&cq).copied()?;
                if let Some(program) = &self.to_program {
                    program.cq_failed(key);
                }
                Some(ControlEvent::CqError(token))
            }
            _ => None,
        }
    }
}
