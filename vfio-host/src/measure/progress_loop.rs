//! The progress loop of a device: completions, events, and the driver's deferred work.
//!
//! Every measurement runs this loop. It also waits ([`WaitMode`]), so that all commands wait in the
//! same way.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use e810::{AsyncEvent, Control, Cq, Event, EventSet, Notify, Pd, PortState, VectorEvents, Wc};
use e810_backends::interrupts::HostPlatform;
use e810_hal::{Ns, Platform, Vector};

use super::meeting::{Left, Meeting, OwnEnd};
use super::wait_mode::WaitMode;
use crate::handshake::{Link, Rendezvous};
use crate::monitor::{Counts, FunctionSnapshot, SnapshotPublisher, collect_snapshot};
use e810_node::neighbours::NeighbourTracker;
use e810_node::station::{Network, Pace, Station};
use e810_node::tap::{Tap, TapPlan};

/// Empty polls before the loop checks for events and deferred work, which cost much more.
const POLLS: u32 = 32;
/// How long a thread sleeps before it runs its checks.
const SLEEP: Ns = Ns::from_ms(10);
/// Pause between two looks for a peer.
const LOOK: Duration = Duration::from_millis(1);

/// A ready device, its events and its counts.
#[derive(Debug)]
pub(crate) struct ProgressLoop<P: HostPlatform> {
    pub(crate) platform: P,
    pub(crate) control: Control<P>,
    events: EventSet<P>,
    wait_mode: WaitMode,
    /// There may be completions.
    awake: bool,
    /// Consecutive polls that found the completion queue empty.
    empty_polls: u32,
    fired: Vec<Vector>,
    counts: Counts,
    /// Of each part of the events.
    interrupts: Vec<u64>,
    publisher: Option<SnapshotPublisher>,
    /// The function on its link, if it has LAN queues. Boxed, because not every turn uses it.
    pub(crate) neighbours: Option<Box<NeighbourTracker<P>>>,
    /// The connection to the peer, if the connection manager makes it.
    meeting: Option<Box<Meeting<P>>>,
}

impl<P: HostPlatform> ProgressLoop<P> {
    /// Takes a ready device, whose snapshots go to `publisher`.
    pub(crate) fn new(
        platform: P,
        control: Control<P>,
        events: EventSet<P>,
        wait_mode: WaitMode,
        publisher: Option<SnapshotPublisher>,
    ) -> Self {
        Self {
            platform,
            control,
            counts: Counts::default(),
            interrupts: vec![0; events.len()],
            events,
            wait_mode,
            awake: true,
            empty_polls: 0,
            fired: Vec::new(),
            publisher,
            neighbours: None,
            meeting: None,
        }
    }

    /// Makes the function answer for its addresses.
    ///
    /// # Errors
    /// As [`Station::start`].
    pub(crate) fn start_station(&mut self, network: &Network) -> Result<()> {
        let platform = self.platform.clone();
        let station = Station::start(platform, &mut self.control, network, Pace::Calm)?;
        self.neighbours = Some(Box::new(NeighbourTracker::new(station)));
        Ok(())
    }

    /// Makes the host's network stack answer for its addresses, which become GIDs.
    ///
    /// # Errors
    /// As [`Tap::start`].
    pub(crate) fn start_tap(&mut self, plan: &TapPlan) -> Result<()> {
        let platform = self.platform.clone();
        let neighbours = Tap::tracker(platform, &mut self.control, plan)?;
        self.neighbours = Some(Box::new(neighbours));
        Ok(())
    }

    /// Meets the peer by the connection manager. `watch` is called meanwhile, and its error ends
    /// the wait.
    ///
    /// # Errors
    /// The device's refusal, no peer within the time of `rendezvous`, or the error of `watch`.
    pub(crate) fn meet(
        &mut self,
        pd: &Pd,
        cq: &Cq<P>,
        rendezvous: &Rendezvous,
        own: OwnEnd,
        watch: &dyn Fn() -> Result<()>,
    ) -> Result<Link> {
        let meeting = Meeting::open(&self.platform, &mut self.control, rendezvous, own)?;
        let meeting = self.meeting.insert(Box::new(meeting));
        meeting.begin(&mut self.control, self.neighbours.as_deref(), pd)?;
        let began = Instant::now();
        loop {
            watch()?;
            self.publish_if_wanted(cq);
            self.progress()?;
            if let Some(meeting) = &mut self.meeting
                && let Some(link) = meeting.link(began)?
            {
                return Ok(link);
            }
            thread::sleep(LOOK);
        }
    }

    /// Ends the connection to the peer, whose [`Link`] is gone. Returns what it leaves.
    pub(super) fn part(&mut self) -> (Left<P>, Result<()>) {
        if let Some(meeting) = &mut self.meeting {
            meeting.ends();
        }
        while self.meeting.as_deref().is_some_and(Meeting::is_carrying) {
            // A queue pair whose peer is gone fails by an event.
            if let Err(error) = self.progress() {
                log::debug!("{error:#}");
            }
            thread::sleep(LOOK);
        }
        match self.meeting.take() {
            Some(meeting) => meeting.close(&mut self.control, self.neighbours.as_deref()),
            None => (Left::NOTHING, Ok(())),
        }
    }

    /// Takes completions of `cq`, the only queue; if there are none, handles the device's events
    /// and deferred work.
    ///
    /// # Errors
    /// As [`ProgressLoop::progress`].
    pub(crate) fn poll(&mut self, cq: &mut Cq<P>, wcs: &mut [Wc]) -> Result<usize> {
        self.publish_if_wanted(cq);
        if self.awake || self.wait_mode == WaitMode::BusyPoll {
            let polled = cq.poll(wcs);
            if polled > 0 {
                self.empty_polls = 0;
                self.counts.completions += polled as u64;
                return Ok(polled);
            }
            if self.wait_mode == WaitMode::BusyPoll {
                self.empty_polls += 1;
                if !self.empty_polls.is_multiple_of(POLLS) {
                    return Ok(0);
                }
                self.empty_polls = 0;
            }
            // The next turn finds what came while the queue was armed.
            self.awake = self.wait_mode == WaitMode::BusyPoll || cq.arm(Notify::Any);
        }
        let progressed = self.progress();
        if progressed.is_err()
            && let Some(publisher) = self.publisher.take()
        {
            // The last snapshot, before the objects are destroyed.
            let snapshot = self.collect_snapshot(&publisher, cq);
            publisher.publish_last(snapshot);
        }
        progressed?;
        if cq.take_event() {
            self.counts.events += 1;
            self.awake = true;
        }
        Ok(0)
    }

    /// Publishes the state, if somebody wants it.
    fn publish_if_wanted(&mut self, cq: &Cq<P>) {
        if let Some(publisher) = self.publisher.take_if(|publisher| publisher.is_wanted()) {
            publisher.publish(self.collect_snapshot(&publisher, cq));
            self.publisher = Some(publisher);
        }
    }

    /// The state now.
    fn collect_snapshot(&mut self, publisher: &SnapshotPublisher, cq: &Cq<P>) -> FunctionSnapshot {
        let now = self.platform.now();
        let (control, events) = (&mut self.control, &self.events);
        let meeting = self.meeting.as_deref_mut();
        let manager = meeting.map(|meeting| meeting.snapshot(now));
        let queue = Some((cq, self.counts));
        collect_snapshot(
            publisher,
            now,
            control,
            events,
            &self.interrupts,
            queue,
            manager,
        )
    }

    /// Takes all events, or those of vectors that fired, and does the deferred
    /// work.
    ///
    /// # Errors
    /// A device that only a reset helps, or an asynchronous event: a run in which
    /// nothing goes wrong has none.
    fn progress(&mut self) -> Result<()> {
        if let Some(neighbours) = &mut self.neighbours {
            neighbours.progress(&mut self.control)?;
        }
        if let Some(meeting) = &mut self.meeting {
            meeting.progress(&mut self.control, self.neighbours.as_deref())?;
        }
        let mut failure = None;
        let meeting = self.meeting.as_deref();
        let mut note = |event| note(event, meeting, &mut failure);
        let progress = match self.wait_mode {
            WaitMode::BusyPoll => e810::progress(&mut self.control, &mut self.events, note),
            WaitMode::Interrupt(_) => {
                self.platform.wait_fired(Ns(0), &mut self.fired)?;
                for vector in self.fired.drain(..) {
                    let parts = self.events.iter_mut().zip(&mut self.interrupts);
                    parts
                        .filter(|(events, _)| events.vector() == vector)
                        .for_each(|(events, interrupts)| {
                            *interrupts += 1;
                            handle_vector(events, &mut note);
                        });
                }
                self.control.progress()
            }
        };
        match progress {
            Err(error) if error.needs_reset() => return Err(error.into()),
            // A command that failed for one queue pair ends with its
            // completions, which say so.
            Err(error) => log::warn!("{error}"),
            Ok(served) if served.reset_needed => bail!("the card asks for a reset of the function"),
            Ok(_) => {}
        }
        match failure {
            Some(event) => match self.control.query_port(1).map(|port| port.state) {
                Ok(PortState::Down) => bail!(
                    "the port has no link: check the cable and the port at its other end ({event})"
                ),
                _ => bail!("{event}"),
            },
            None => Ok(()),
        }
    }

    /// Rests after an empty turn, if the thread has other devices.
    pub(crate) fn rest(&self) {
        self.platform.relax();
    }

    /// Rests until something may have happened, if this is the only device.
    ///
    /// # Errors
    /// The host cannot wait for interrupts.
    pub(crate) fn sleep(&mut self) -> Result<()> {
        if self.awake || self.wait_mode == WaitMode::BusyPoll {
            self.rest();
            return Ok(());
        }
        self.platform.wait_fired(SLEEP, &mut self.fired)
    }

    /// Interrupts so far.
    pub(crate) fn interrupts(&self) -> u64 {
        self.interrupts.iter().sum()
    }

    /// The time.
    pub(crate) fn now(&self) -> Ns {
        self.platform.now()
    }

    /// What the device is shut down with.
    pub(crate) fn into_parts(self) -> (Control<P>, EventSet<P>, Option<Box<NeighbourTracker<P>>>) {
        (self.control, self.events, self.neighbours)
    }
}

/// What an interrupt handler does.
fn handle_vector<P: Platform>(events: &mut VectorEvents<P>, note: &mut dyn FnMut(Event)) {
    while events.on_vector(&mut |event| note(event)).more {}
}

fn note<P: HostPlatform>(
    event: Event,
    meeting: Option<&Meeting<P>>,
    failure: &mut Option<AsyncEvent>,
) {
    match (event, meeting) {
        (Event::Async(event), Some(meeting)) if meeting.is_about(&event) => log::debug!("{event}"),
        (Event::Async(event), _) => *failure = Some(event),
        _ => {}
    }
}
