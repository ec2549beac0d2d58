//! What events only marked, finished: the flush of a failed queue pair.
//!
//! The card reports a failing queue pair by an asynchronous event and stops it;
//! it completes nothing until software moves it to ERROR and posts FLUSH_WQES
//! with the code taken from the event (control-path 7.6, data-path 8.4).
//! [`Control::service`] posts both without waiting and finishes them on a
//! later call.

use e810_cqp::Ticket;
use e810_cqp::op::{FlushCode, FlushWqes};
use e810_datapath::error::Queue;
use e810_datapath::slot::{Cause, QpKey, Signalled};
use e810_datapath::state::{QpState, Service};
use e810_hal::{Ns, Platform};
use heapless::Vec;

use super::Control;
use crate::LinkStatus;
use crate::cold::LanEvent;
use crate::error::Result;

/// Queue pairs whose failure is being dealt with at one time; more wait on the
/// list of marked ones.
const AT_ONCE: usize = 16;

/// How long after FLUSH_WQES the pollers complete what is left by themselves:
/// the device's own flush CQEs come first then (data-path 4.10, 20 ms).
const SETTLE: Ns = Ns::from_ms(20);

/// Major code of every flush (control-path 4.12).
const FLUSH_MAJOR: u16 = 1;

/// How far the failure of one queue pair has been dealt with.
#[derive(Debug)]
pub(super) enum Phase {
    /// To be moved to ERROR as soon as the CQP has room.
    Marked(Cause),
    /// MODIFY_QP to ERROR is posted.
    Stopping(Cause, Ticket),
    /// Stopped; the flush waits for room in the CQP.
    Stopped(Cause),
    /// FLUSH_WQES is posted.
    Flushing(Ticket),
    /// The device's flush CQEs are on their way until then.
    Settling(Ns),
    /// A command failed, and the pollers complete what was there; at that time once
    /// more, for what was just being posted.
    GivenUp(Ns),
}

/// Failures being dealt with.
pub(super) type Failing = Vec<(QpKey, Phase), AT_ONCE>;

/// What a call of [`Control::service`] left behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Served {
    /// Queue pairs whose failure is not finished: call again.
    pub unfinished: usize,
    /// Events of the LAN side that wait for [`Control::take_lan_event`]. Only
    /// after a cold start.
    pub lan_events: usize,
}

impl<P: Platform> Control<P> {
    /// Finishes what events marked; never waits. A program that only polls
    /// calls it in its loop, a host on its event thread.
    ///
    /// After a cold start it also takes events of the LAN side, for which it
    /// reads a register at most every 10 ms.
    ///
    /// # Errors
    /// The device failed a command, or is gone. The queue pair concerned is
    /// given up: its requests are completed by software.
    pub fn service(&mut self) -> Result<Served> {
        let lan_events = match &mut self.lan_side.0 {
            Some(lan) => lan.poll(&self.platform)?,
            None => 0,
        };
        let unfinished = self.serve_failing()?;
        let wakers = &self.wakers;
        self.registry
            .take_waiting(|channel| wakers.wake(Some(channel)));
        Ok(Served {
            unfinished,
            lan_events,
        })
    }

    /// The oldest event of the LAN side that [`Control::service`] has taken:
    /// link up or down, a reset that is coming. Always `None` on a function that
    /// another driver has set up.
    pub fn take_lan_event(&mut self) -> Option<LanEvent> {
        self.lan_side.0.as_mut()?.take_event()
    }

    /// Waits for the port's link, at most `limit`, after a cold start that did
    /// not ([`LinkPolicy::GoOn`](crate::LinkPolicy::GoOn)). `None` on a function
    /// that another driver has set up: its link is not known.
    ///
    /// # Errors
    /// The firmware's reason why there is no link at the limit.
    pub fn wait_link(&mut self, limit: Ns) -> Result<Option<LinkStatus>> {
        let lan = self.lan_side.0.as_mut();
        lan.map(|lan| lan.wait_link(limit)).transpose()
    }

    /// Queue pairs that failed; gives the number of those not finished.
    fn serve_failing(&mut self) -> Result<usize> {
        while !self.failing.is_full() {
            let Some(attention) = self.registry.take_attention() else {
                break;
            };
            // There is room, as just asked.
            let _ = self
                .failing
                .push((attention.qp, Phase::Marked(attention.cause)));
        }
        if self.failing.is_empty() {
            return Ok(0);
        }
        self.collect()?;
        let mut result = Ok(());
        let mut all = core::mem::take(&mut self.failing);
        while let Some((key, phase)) = all.pop() {
            match self.advance(key, phase) {
                // There is room: one was taken from a list of the same size.
                Ok(Some(phase)) => drop(self.failing.push((key, phase))),
                Ok(None) => {}
                Err(error) => {
                    // Nothing more will come from the device for it.
                    self.sweep(key);
                    let until = self.platform.now() + SETTLE;
                    drop(self.failing.push((key, Phase::GivenUp(until))));
                    result = Err(error);
                }
            }
        }
        result.map(|()| self.failing.len())
    }

    /// Takes one queue pair off the list.
    fn take_failing(&mut self, key: QpKey) -> Option<Phase> {
        let mut found = None;
        let mut all = core::mem::take(&mut self.failing);
        while let Some((failing, phase)) = all.pop() {
            if failing == key {
                found = Some(phase);
            } else {
                drop(self.failing.push((failing, phase)));
            }
        }
        found
    }

    /// One step of one queue pair; `None` when it is done.
    fn advance(&mut self, key: QpKey, phase: Phase) -> Result<Option<Phase>> {
        let posted = match phase {
            Phase::Marked(_) => {
                let stop = self.to_error(key.id(), self.service_of(key));
                self.cqp.submit(&stop)
            }
            Phase::Stopping(..) | Phase::Flushing(_) => return Ok(Some(phase)),
            Phase::Stopped(cause) => {
                let flush = self.flush_for(key, cause);
                self.cqp.submit(&flush)
            }
            Phase::Settling(until) | Phase::GivenUp(until) => {
                if self.platform.now() >= until {
                    self.sweep(key);
                    return Ok(None);
                }
                return Ok(Some(phase));
            }
        };
        match (posted, phase) {
            (Ok(ticket), Phase::Marked(cause)) => Ok(Some(Phase::Stopping(cause, ticket))),
            (Ok(ticket), _) => Ok(Some(Phase::Flushing(ticket))),
            // The CQP is full at the moment.
            (Err(e810_cqp::Error::RingFull { .. }), phase) => Ok(Some(phase)),
            (Err(error), _) => Err(error.into()),
        }
    }

    /// Takes the completions that are there and moves their queue pairs on.
    fn collect(&mut self) -> Result<()> {
        let mut result = Ok(());
        while let Some(done) = self.cqp.poll()? {
            let now = self.platform.now();
            for (_, phase) in &mut self.failing {
                match *phase {
                    Phase::Stopping(cause, ticket) if ticket == done.ticket => {
                        *phase = Phase::Stopped(cause);
                    }
                    Phase::Flushing(ticket) if ticket == done.ticket => {
                        *phase = Phase::Settling(now + SETTLE);
                    }
                    _ => continue,
                }
                // A queue pair that cannot be stopped is still flushed, and
                // one that cannot be flushed is completed by software.
                if let Err(error) = done.check() {
                    result = Err(error.into());
                }
            }
        }
        result
    }

    fn service_of(&self, key: QpKey) -> Service {
        self.slots().service(key).unwrap_or(Service::Rc)
    }

    /// The flush of a queue pair that failed. In SQE receives stay until the
    /// program moves it on.
    fn flush_for(&self, key: QpKey, cause: Cause) -> FlushWqes {
        FlushWqes {
            rq: self.slots().qp_state(key) != Some(QpState::Sqe),
            ..flush_both(key.id(), cause)
        }
    }

    /// After an error transition that this program asked for: what the device
    /// does not flush is completed after a while.
    pub(super) fn settle(&mut self, key: QpKey) {
        let until = self.platform.now() + SETTLE;
        if self.failing.push((key, Phase::Settling(until))).is_err() {
            // Too many at once: the flush CQEs of this one have to be quick.
            self.sweep(key);
        }
    }

    /// Lets the pollers complete what is left, and tells those that asked for an
    /// event, because the device will not (data-path 4.10).
    fn sweep(&mut self, key: QpKey) {
        // A queue pair that was destroyed meanwhile has nothing left.
        let Ok(pending) = self.registry.sweep(key) else {
            return;
        };
        for cq in [pending.send_cq, pending.recv_cq].into_iter().flatten() {
            if let Signalled::Told { channel } = self.registry.slots().signal_by_software(cq) {
                self.wakers.wake(channel);
            }
        }
    }

    /// Waits for what is in flight for a queue pair that is about to be
    /// destroyed; `true` when the device has been told to stop and flush it.
    pub(super) fn forget_failing(&mut self, key: QpKey) -> Result<bool> {
        let Some(phase) = self.take_failing(key) else {
            return Ok(false);
        };
        match phase {
            Phase::Marked(_) | Phase::GivenUp(_) => return Ok(false),
            Phase::Stopping(cause, ticket) => {
                self.cqp.wait(ticket).map(drop)?;
                self.last_flush(&flush_both(key.id(), cause))?;
            }
            Phase::Stopped(cause) => {
                self.last_flush(&flush_both(key.id(), cause))?;
            }
            Phase::Flushing(ticket) => {
                self.cqp.wait(ticket).map(drop)?;
            }
            Phase::Settling(_) => {}
        }
        Ok(true)
    }
}

/// The flush that an event asks for: its code on the side it blames, "general"
/// on the other (control-path 4.12, 7.6).
fn flush_both(id: u32, cause: Cause) -> FlushWqes {
    let blamed = FlushCode {
        major: FLUSH_MAJOR,
        minor: cause.code.0,
    };
    let (sq, rq) = match cause.queue {
        Some(Queue::Send) => (blamed, FlushCode::GENERAL),
        Some(Queue::Recv) => (FlushCode::GENERAL, blamed),
        None => (FlushCode::GENERAL, FlushCode::GENERAL),
    };
    FlushWqes::both(id, sq, rq)
}
