//! A device that a loop attends to between two looks at its completions.
//!
//! Whatever the loop is for, what a device wants meanwhile is the same: its
//! events taken, and the driver's deferred work done. How a loop rests until
//! something may have happened is decided here too, so that every command rests
//! in the same ways.

use anyhow::{Context, Result, bail};
use e810::{AsyncEvent, Control, Cq, Event, EventSet, Notify, VectorEvents, Wc};
use e810_backends::interrupts::HostPlatform;
use e810_hal::{Ns, Platform, Vector};

use super::wait_mode::Waits;
use crate::monitor::{Counts, FunctionSeen, Tap, look};

/// How long a thread sleeps at a time: then it looks whether all is well.
const SLEEP: Ns = Ns::from_ms(10);

/// A ready device and what it tells.
#[derive(Debug)]
pub(crate) struct Attended<P: Platform> {
    pub(crate) platform: P,
    pub(crate) control: Control<P>,
    events: EventSet<P>,
    waits: Waits,
    /// There may be completions.
    awake: bool,
    fired: Vec<Vector>,
    counts: Counts,
    tap: Option<Tap>,
}

impl<P: HostPlatform> Attended<P> {
    /// Takes charge of a device that is ready, whose only queue is `cq`. Through
    /// `tap` others can look at it.
    ///
    /// # Errors
    /// Moderation that the card does not have.
    pub(crate) fn new(
        platform: P,
        mut control: Control<P>,
        events: EventSet<P>,
        cq: &mut Cq<P>,
        waits: Waits,
        tap: Option<Tap>,
    ) -> Result<Self> {
        if let Waits::ForEvents(moderation) = waits {
            control.modify_cq(cq, moderation).context("--moderation")?;
        }
        Ok(Self {
            platform,
            control,
            counts: Counts {
                interrupts: vec![0; events.len()],
                ..Counts::default()
            },
            events,
            waits,
            awake: true,
            fired: Vec::new(),
            tap,
        })
    }

    /// Takes completions of `cq`, the only queue; attends to the device when there
    /// are none.
    ///
    /// # Errors
    /// As [`Attended::attend`].
    pub(crate) fn poll(&mut self, cq: &mut Cq<P>, wcs: &mut [Wc]) -> Result<usize> {
        if let Some(tap) = self.tap.take_if(|tap| tap.is_wanted()) {
            tap.show(self.look(&tap, cq));
            self.tap = Some(tap);
        }
        if self.awake || self.waits == Waits::Polls {
            let polled = cq.poll(wcs);
            if polled > 0 {
                self.counts.completions += polled as u64;
                return Ok(polled);
            }
            // What came while the event was asked for is found in the next turn.
            self.awake = self.waits == Waits::Polls || cq.arm(Notify::Any);
        }
        let attended = self.attend();
        if attended.is_err()
            && let Some(tap) = self.tap.take()
        {
            // Who looks wants to see that before all is gone.
            let seen = self.look(&tap, cq);
            tap.leave(seen);
        }
        attended?;
        if cq.take_event() {
            self.counts.events += 1;
            self.awake = true;
        }
        Ok(0)
    }

    /// What there is to see.
    fn look(&mut self, tap: &Tap, cq: &Cq<P>) -> FunctionSeen {
        let now = self.platform.now();
        let (control, events) = (&mut self.control, &self.events);
        look(tap, now, control, events, cq, &self.counts)
    }

    /// Takes all events, or those of vectors that fired, and does the deferred
    /// work.
    ///
    /// # Errors
    /// A device that only a reset helps, or an asynchronous event: a run in which
    /// nothing goes wrong has none.
    fn attend(&mut self) -> Result<()> {
        let mut failure = None;
        let progress = match self.waits {
            Waits::Polls => e810::progress(&mut self.control, &mut self.events, |event| {
                note(event, &mut failure);
            }),
            Waits::ForEvents(_) => {
                self.platform.take_fired(Ns(0), &mut self.fired)?;
                for vector in self.fired.drain(..) {
                    let parts = self.events.iter_mut().zip(&mut self.counts.interrupts);
                    parts
                        .filter(|(events, _)| events.vector() == vector)
                        .for_each(|(events, interrupts)| {
                            *interrupts += 1;
                            serve(events, &mut failure);
                        });
                }
                self.control.progress()
            }
        };
        match progress {
            Err(error) if error.needs_reset() => return Err(error.into()),
            // What could not be told to the card of one queue pair ends with its
            // completions, which say so.
            Err(error) => log::warn!("{error}"),
            Ok(served) if served.reset_needed => bail!("the card asks for a reset of the function"),
            Ok(_) => {}
        }
        match failure {
            Some(event) => bail!("{event}"),
            None => Ok(()),
        }
    }

    /// Rests after a turn in which nothing happened, while other devices have
    /// theirs.
    pub(crate) fn rest(&self) {
        self.platform.relax();
    }

    /// Rests until something may have happened: the device is the only one.
    ///
    /// # Errors
    /// The host cannot wait for interrupts.
    pub(crate) fn sleep(&mut self) -> Result<()> {
        if self.awake || self.waits == Waits::Polls {
            self.rest();
            return Ok(());
        }
        self.platform.take_fired(SLEEP, &mut self.fired)
    }

    /// Interrupts so far.
    pub(crate) fn interrupts(&self) -> u64 {
        self.counts.interrupts.iter().sum()
    }

    /// The time.
    pub(crate) fn now(&self) -> Ns {
        self.platform.now()
    }

    /// What the device is shut down with.
    pub(crate) fn into_parts(self) -> (Control<P>, EventSet<P>) {
        (self.control, self.events)
    }
}

/// What an interrupt handler does.
fn serve<P: Platform>(events: &mut VectorEvents<P>, failure: &mut Option<AsyncEvent>) {
    while events.on_vector(&mut |event| note(event, failure)).more {}
}

fn note(event: Event, failure: &mut Option<AsyncEvent>) {
    if let Event::Async(event) = event {
        *failure = Some(event);
    }
}
