//! A device that a loop attends to between two looks at its completions.
//!
//! Whatever the loop is for, what a device wants meanwhile is the same: its
//! events taken, and the driver's deferred work done. How a loop rests until
//! something may have happened is decided here too, so that every command rests
//! in the same ways.

use anyhow::{Context, Result, bail};
use e810::{Control, Event, EventSet, Platform};
use e810_hal::Ns;

/// A ready device and what it tells.
#[derive(Debug)]
pub(crate) struct Attended<P: Platform> {
    pub(crate) platform: P,
    pub(crate) control: Control<P>,
    events: EventSet<P>,
}

impl<P: Platform> Attended<P> {
    /// Takes charge of a device that is ready.
    pub(crate) const fn new(platform: P, control: Control<P>, events: EventSet<P>) -> Self {
        Self {
            platform,
            control,
            events,
        }
    }

    /// Takes all events and does the deferred work.
    ///
    /// # Errors
    /// What the driver could not do, or an asynchronous event: a run in which
    /// nothing goes wrong has none.
    pub(crate) fn attend(&mut self) -> Result<()> {
        let mut failure = None;
        for events in &mut self.events {
            events.poll(&mut |event| {
                if let Event::Async(event) = event {
                    failure = Some(event);
                }
            });
        }
        self.control.service()?;
        match failure {
            Some(event) => bail!("{event}"),
            None => Ok(()),
        }
    }

    /// Rests after a turn in which nothing happened.
    pub(crate) fn rest(&self) {
        self.platform.relax();
    }

    /// The time.
    pub(crate) fn now(&self) -> Ns {
        self.platform.now()
    }

    /// Shuts the device down, its objects being gone.
    ///
    /// # Errors
    /// The first step that failed; what the device may still write is leaked.
    pub(crate) fn shut_down(self) -> Result<()> {
        let end = self.control.shutdown(self.events);
        end.map_err(|failed| failed.error)
            .context("shutting down")?;
        Ok(())
    }
}
