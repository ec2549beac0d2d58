//! A control path behind a channel: commands go to another thread, and events come back from one.
//!
//! Nothing but commands, answers and events passes between the two sides, as it would between two
//! processes. The environment variable [`CONTROL`] chooses it, for tests: all that programs do
//! works over it as well.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use anyhow::Context as _;

use super::{Answer, Command, ControlPlane, Refused};
use crate::async_events::DeviceEvent;
use crate::events::{EventSink, Happened};
use crate::fork::Process;
use crate::rings::DataPathOps;

/// The environment variable that puts a channel before the control path: `channel`.
pub const CONTROL: &str = "E810_VERBS_CONTROL";

type Asked = (Command, Sender<Result<Answer, Refused>>);

/// This side of the channel.
#[derive(Debug)]
struct OverChannel {
    commands: Mutex<Sender<Asked>>,
    listeners: Listeners,
    data_path: &'static DataPathOps,
    /// Whose threads the other side's are.
    process: Process,
    /// Held so that the other side goes on telling.
    _events: Arc<dyn EventSink>,
}

/// Who hears of events on this side.
#[derive(Debug, Default)]
struct Listeners(Mutex<Vec<Weak<dyn EventSink>>>);

/// The other side's listener, which sends events over.
#[derive(Debug)]
struct Forward(Mutex<Sender<Happened>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts a channel before a control path.
///
/// # Errors
/// One line: no thread can be made.
pub(crate) fn over_channel(inner: Arc<dyn ControlPlane>) -> anyhow::Result<Arc<dyn ControlPlane>> {
    let data_path = inner.data_path();
    let (give_event, take_event) = channel();
    let events: Arc<dyn EventSink> = Arc::new(Forward(Mutex::new(give_event)));
    inner.listen(&events);
    let (give, take) = channel();
    spawn("e810-commands", move || carry_out(&inner, &take))?;
    let control = Arc::new(OverChannel {
        commands: Mutex::new(give),
        listeners: Listeners::default(),
        data_path,
        process: Process::this(),
        _events: events,
    });
    // As the function's own thread, it holds the control path until the function is gone.
    let tells = control.clone();
    spawn("e810-events", move || tells.listeners.forward(&take_event))?;
    Ok(control)
}

fn spawn(name: &'static str, work: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    let thread = thread::Builder::new().name(name.to_owned());
    let spawned = thread.spawn(move || {
        super::in_process::take_no_signals();
        work();
    });
    spawned.map(drop).context(name)
}

fn carry_out(inner: &Arc<dyn ControlPlane>, commands: &Receiver<Asked>) {
    for (command, answer) in commands {
        // The one that waits for others; who has asked may be gone.
        if matches!(command, Command::Resolve(..)) {
            let inner = inner.clone();
            let asked = spawn("e810-resolve", move || {
                let _ = answer.send(inner.call(command));
            });
            drop(asked);
            continue;
        }
        let _ = answer.send(inner.call(command));
    }
}

impl Listeners {
    fn forward(&self, events: &Receiver<Happened>) {
        for happened in events {
            lock(&self.0).retain(|sink| match sink.upgrade() {
                Some(sink) => {
                    sink.tell(happened);
                    true
                }
                None => false,
            });
            if happened == Happened::Device(DeviceEvent::DeviceFatal) {
                break;
            }
        }
    }
}

impl EventSink for Forward {
    fn tell(&self, happened: Happened) {
        let _ = lock(&self.0).send(happened);
    }
}

impl ControlPlane for OverChannel {
    fn call(&self, command: Command) -> Result<Answer, Refused> {
        self.process.check()?;
        let gone = || Refused::Gone("the control path's thread has ended".to_owned());
        let (give, take) = channel();
        lock(&self.commands)
            .send((command, give))
            .map_err(|_| gone())?;
        take.recv().map_err(|_| gone())?
    }

    fn listen(&self, sink: &Arc<dyn EventSink>) {
        let mut listeners = lock(&self.listeners.0);
        // As in the control path itself.
        listeners.retain(|sink| sink.strong_count() > 0);
        listeners.push(Arc::downgrade(sink));
    }

    fn data_path(&self) -> &'static DataPathOps {
        self.data_path
    }
}
