//! The work that events leave to the control path, one turn at a time.

use e810_adminq::op::LinkStatus;
use e810_datapath::slot::QpChange;
use e810_hal::{Ns, Platform};

use super::Control;
use crate::attr::Qpn;
use crate::error::Result;
use crate::lan::LanEvent;
use crate::program_queues::ProgramLimits;

/// What a call of [`Control::progress`] left undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Queue pairs whose end is not finished, including those that the program ended itself: call
    /// again.
    pub unfinished: usize,
    /// Queue pairs in ERR that the device refused to move to ERROR eight times, or did not answer
    /// about. It may still write into the memory of their receives, and let peers write. So their
    /// requests do not complete: they end with [`Control::destroy_qp`] or a reset of the
    /// function, unless another [`Control::modify_qp`] to ERR succeeds.
    pub unstopped: u32,
    /// Events of the LAN side that wait for [`Control::take_lan_event`]. Only after a cold start.
    pub lan_events: usize,
    /// The device has asked for a reset of the function by failing a command (0xFFFF/0x8029,
    /// control-path 4.5): nothing else helps, and its other answers are not reliable. Stays set.
    /// Existing drivers reset the function.
    pub reset_needed: bool,
}

impl<P: Platform> Control<P> {
    /// Does the work that events left to the control path; never waits. A program that only polls
    /// calls it in its loop, a host on its event thread.
    ///
    /// After a cold start it also takes events of the LAN side, for which it
    /// reads a register at most every 10 ms.
    ///
    /// # Errors
    /// The device failed a command, has not ended one for 5 s, or is gone. A queue pair that it
    /// did not flush is completed by software. One that it did not move to ERROR is tried again
    /// every 20 ms, and not completed before ([`Progress::unstopped`]). Everything else was done
    /// all the same, so a program that gets an error can continue to call this, unless
    /// [`Error::needs_reset`](crate::Error::needs_reset). An error of the LAN side is returned if
    /// queue pairs had none.
    pub fn progress(&mut self) -> Result<Progress> {
        let served = self.serve_failing();
        let lan_events = match self.lan_side.owned_mut() {
            Some(lan) => lan.poll(&self.platform),
            None => Ok(0),
        };
        let wakers = &self.wakers;
        self.registry
            .take_waiting(|channel| wakers.wake(Some(channel)));
        served?;
        Ok(Progress {
            unfinished: self.failures.len().wrapping_add(self.stops.settling()),
            unstopped: self.stops.unstopped(),
            lan_events: lan_events?,
            reset_needed: self.cqp.counters().reset_requests > 0,
        })
    }

    /// The oldest event of the LAN side that [`Control::progress`] has taken, for example link up
    /// or down, or a coming reset. Always `None` on a function that another driver has set up.
    pub fn take_lan_event(&mut self) -> Option<LanEvent> {
        self.lan_side.owned_mut()?.take_event()
    }

    /// What has changed about a queue pair whose queues are in another process
    /// ([`CqInit::elsewhere`](crate::CqInit::elsewhere)), to be passed on to that program's
    /// [`ProgramQueues::apply`](crate::ProgramQueues::apply). Ask after each command about such
    /// queue pairs, before its answer goes out, and after [`Control::progress`], until there is
    /// none.
    pub fn take_qp_change(&mut self) -> Option<QpChange> {
        self.registry.take_changed()
    }

    /// The limits of a program that has as much room as this control path.
    #[must_use]
    pub fn program_limits(&self) -> ProgramLimits {
        let layout = self.registry.slots().layout();
        ProgramLimits {
            cqs: layout.cqs,
            qps: layout.qps,
            tracker_words: layout.tracker_words,
        }
    }

    /// A program's [`ProgramQueues`](crate::ProgramQueues) have forgotten a destroyed queue pair,
    /// or the program is gone: the number is free.
    ///
    /// # Errors
    /// No destroyed queue pair waits for this.
    pub fn forgotten(&mut self, qp: Qpn) -> Result<()> {
        let forgotten = self.registry.forgotten(qp.get());
        forgotten.map_err(e810_datapath::Error::from)?;
        self.reap();
        Ok(())
    }

    /// Waits for the port's link, at most `limit`, after a cold start that did not
    /// ([`LinkPolicy::GoOn`](crate::LinkPolicy::GoOn)). `None` on a function that another driver
    /// has set up: its link is not known.
    ///
    /// The first call with a limit of 6 s or more restarts a link that is still down after half
    /// the limit: it may have been switched off. No other call changes anything.
    ///
    /// # Errors
    /// The firmware's reason why there is no link at the limit.
    pub fn wait_link(&mut self, limit: Ns) -> Result<Option<LinkStatus>> {
        let lan = self.lan_side.owned_mut();
        lan.map(|lan| lan.wait_link(limit)).transpose()
    }
}
