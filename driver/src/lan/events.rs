//! Events of the LAN side: link, priorities, firmware.

use e810_adminq::event::{EventKind, Faults};
use e810_adminq::link::NoLink;
use e810_adminq::op::LinkStatus;
use e810_adminq::{Error as AdminqError, Event as RawEvent};
use e810_hal::{Ns, Platform, log_warn};

use crate::error::Result;
use crate::lan::{LanSide, priorities};

/// Events kept until they are asked for; older ones are dropped and counted.
pub const LAN_EVENTS: usize = 8;

/// How often the event queue is polled: each poll is a register read, and a program that polls
/// asks far more often.
const INTERVAL: Ns = Ns::from_ms(10);

/// Events taken at one look, so that a call's time is bounded.
const AT_ONCE: u32 = 16;

/// Something the LAN side reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LanEvent {
    /// The link is up.
    LinkUp(LinkStatus),
    /// The link is down, as far as known for this reason.
    LinkDown(NoLink),
    /// The neighbour negotiated other traffic classes: new queue pairs use them.
    Priorities([u8; 8]),
    /// The firmware ends the AdminQ: a reset is coming. Shut down and start again.
    FirmwareStops,
    /// The AdminQ's registers report faults; with an overflow, events are lost.
    Faults(Faults),
    /// Any other event, as it came.
    Other(RawEvent),
    /// Too many events came; this many were dropped.
    Lost(u32),
}

impl<P: Platform> LanSide<P> {
    /// Takes events off the queue, if it is time to look; returns the number of kept events.
    pub(crate) fn poll(&mut self, platform: &P) -> Result<usize> {
        let now = platform.now();
        if now - self.events_polled >= INTERVAL {
            self.events_polled = now;
            self.collect(platform)?;
        }
        Ok(self.events.len())
    }

    fn collect(&mut self, platform: &P) -> Result<()> {
        for turn in 0..AT_ONCE {
            let event = match self.adminq.poll_event() {
                Ok(Some(event)) => event,
                // Where nothing came, nothing was lost either.
                Ok(None) if turn > 0 => return Ok(self.poll_faults()?),
                Ok(None) => break,
                Err(error) => return Err(error.into()),
            };
            let lan_event = match event.kind {
                EventKind::Link(status) => {
                    self.link.now = status;
                    match NoLink::of(&status) {
                        None => LanEvent::LinkUp(status),
                        Some(reason) => LanEvent::LinkDown(reason),
                    }
                }
                EventKind::LldpMib => {
                    self.up2tc = priorities(platform)?;
                    LanEvent::Priorities(self.up2tc)
                }
                EventKind::Shutdown => LanEvent::FirmwareStops,
                _ => LanEvent::Other(event),
            };
            self.keep(lan_event);
        }
        Ok(())
    }

    fn poll_faults(&mut self) -> Result<(), AdminqError> {
        let faults = self.adminq.take_faults()?;
        if !faults.is_empty() {
            self.keep(LanEvent::Faults(faults));
        }
        Ok(())
    }

    fn keep(&mut self, event: LanEvent) {
        if self.events.is_full() {
            let _ = self.events.pop_front();
            self.lost = self.lost.saturating_add(1);
            log_warn!("an event of the LAN side was dropped: nobody asked for it");
        }
        // There is room, as just seen.
        let _ = self.events.push_back(event);
    }

    /// The oldest event; but first, whether some were dropped.
    pub(crate) fn take_event(&mut self) -> Option<LanEvent> {
        match core::mem::take(&mut self.lost) {
            0 => self.events.pop_front(),
            lost => Some(LanEvent::Lost(lost)),
        }
    }
}
