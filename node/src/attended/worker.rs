//! The thread of an attended function: its events, and the work that they leave.

use std::mem;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, MutexGuard};
use std::task::Waker;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use e810::{Event, EventSet};
use e810_backends::HostDevice;
use e810_hal::Ns;

use super::{Shared, State};

/// How long the thread sleeps at most; then it looks for what causes no interrupt.
const SLEEP: Ns = Ns::from_ms(10);

/// What the thread works on.
type Work<P> = (Arc<Shared<P>>, EventSet<P>);

/// The thread, which gives the events back; without work it ends.
pub(super) type Worker<P> = JoinHandle<Option<EventSet<P>>>;

/// Starts the thread. It is there before the function is up: if there is no thread, nothing is left
/// behind.
pub(super) fn start<P: HostDevice>() -> Result<(SyncSender<Work<P>>, Worker<P>)> {
    let (sender, receiver) = mpsc::sync_channel::<Work<P>>(1);
    let thread = thread::Builder::new().name("e810".to_owned());
    let thread = thread.spawn(move || {
        let (shared, events) = receiver.recv().ok()?;
        Some(run(&shared, events))
    });
    Ok((
        sender,
        thread.context("a thread for the function's events")?,
    ))
}

/// Says that the function is gone if the thread ends by a panic, as one of a program's waker.
struct Watched<'a, P: HostDevice>(&'a Shared<P>);

impl<P: HostDevice> Drop for Watched<'_, P> {
    fn drop(&mut self) {
        if thread::panicking() {
            let mut state = self.0.lock();
            state.gone = Some("the function's thread has panicked".to_owned());
            wake(self.0, state);
        }
    }
}

fn run<P: HostDevice>(shared: &Shared<P>, mut events: EventSet<P>) -> EventSet<P> {
    let _watched = Watched(shared);
    let mut sleep = Ns::ZERO;
    let mut fired = Vec::new();
    let why = loop {
        fired.clear();
        if let Err(error) = shared.platform.wait_fired(sleep, &mut fired) {
            break error;
        }
        let mut fatal = None;
        for vector in events.iter_mut() {
            let mut deliver = |event: Event| match event {
                Event::Async(event) if event.needs_reset() => fatal = Some(anyhow!("{event}")),
                Event::OtherCause(causes, reset) => {
                    fatal = Some(anyhow!("the card reports {causes:?}; wanted: {reset:?}"));
                }
                // A queue pair's own trouble shows at its completions.
                Event::Async(event) => log::debug!("{event}"),
                _ => {}
            };
            match fired.contains(&vector.vector()) {
                true => drop(vector.on_vector(&mut deliver)),
                false => drop(vector.poll(&mut deliver)),
            }
        }
        let mut guard = shared.lock();
        let state = &mut *guard;
        if state.is_ending {
            // Whoever still waits for something of it waits no longer.
            state.gone = Some("the function was closed".to_owned());
            wake(shared, guard);
            return events;
        }
        let progress = state.control.progress();
        if let Some(failure) = shared.platform.failure() {
            break anyhow!("{failure}");
        }
        if let Some((_, notice)) = shared.platform.notice() {
            break anyhow!("{notice:?}");
        }
        if let Err(error) = progress
            && error.needs_reset()
        {
            break error.into();
        }
        while state.control.take_lan_event().is_some() {}
        if let Some(tracker) = &mut state.tracker
            && let Err(error) = tracker.progress(&mut state.control)
        {
            fatal = fatal.or(Some(error));
        }
        match state.progress() {
            Ok(at) => {
                let now = shared.platform.now();
                let left = at.map_or(SLEEP, |at| Ns(at.0.saturating_sub(now.0)));
                sleep = left.min(SLEEP);
            }
            Err(error) => fatal = fatal.or(Some(error)),
        }
        wake(shared, guard);
        if let Some(why) = fatal {
            break why;
        }
    };
    let mut state = shared.lock();
    log::error!("the function is gone: {why:#}");
    state.gone = Some(format!("the function is gone: {why:#}"));
    wake(shared, state);
    events
}

/// Tells all who wait. The lock is free by then: a task that is woken may use the function at once,
/// and one that nobody else has ends here, with its connections.
fn wake<P: HostDevice>(shared: &Shared<P>, mut state: MutexGuard<'_, State<P>>) {
    let wakers = mem::take(&mut state.wakers);
    drop(state);
    shared.changed.notify_all();
    wakers.into_iter().for_each(Waker::wake);
}
