//! A control path behind a channel: commands go to another thread, and events come back from it.
//!
//! Only the bytes of commands, answers and events (`bytes.rs`) pass between the two sides, as they
//! would between two processes. The environment variable [`CONTROL`] selects it, for tests:
//! everything that programs do works over it as well.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use anyhow::Context as _;

use super::{Answer, Command, ControlPlane, Refused, bytes};
use crate::async_events::DeviceEvent;
use crate::events::{ControlEvent, EventSink};
use crate::fork::Process;
use crate::memory;
use crate::rings::{DataPathOps, RingMaker};

/// The environment variable that puts a channel before the control path: `channel`.
pub const CONTROL: &str = "E810_VERBS_CONTROL";

/// A command, and where its answer goes.
type Asked = (Vec<u8>, Sender<Vec<u8>>);

/// This side of the channel.
#[derive(Debug)]
struct OverChannel {
    commands: Mutex<Sender<Asked>>,
    listeners: Listeners,
    rings: Arc<dyn RingMaker>,
    data_path: &'static DataPathOps,
    /// The process whose threads serve the other side.
    process: Process,
    /// Held so that the other side goes on reporting.
    _events: Arc<dyn EventSink>,
}

/// The listeners on this side.
#[derive(Debug, Default)]
struct Listeners(Mutex<Vec<Weak<dyn EventSink>>>);

/// The other side's listener, which sends events over.
#[derive(Debug)]
struct Forward(Mutex<Sender<Vec<u8>>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts a channel before a control path.
///
/// # Errors
/// One line: no thread can be made.
pub(crate) fn over_channel(inner: Arc<dyn ControlPlane>) -> anyhow::Result<Arc<dyn ControlPlane>> {
    let rings = inner.rings()?;
    let data_path = inner.data_path();
    let (give_event, take_event) = channel();
    let events: Arc<dyn EventSink> = Arc::new(Forward(Mutex::new(give_event)));
    inner.listen(&events);
    let (give, take) = channel();
    spawn("e810-commands", move || carry_out(&inner, &take))?;
    let control = Arc::new(OverChannel {
        commands: Mutex::new(give),
        listeners: Listeners::default(),
        rings,
        data_path,
        process: Process::this(),
        _events: events,
    });
    // Like the function's own thread, it holds the control path until the function is gone.
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
        let reply = |answered: Result<Answer, Refused>| {
            // The caller may be gone.
            let _ = answer.send(bytes::encode(&answered));
        };
        let command = match bytes::decode(&command) {
            Ok(command) => command,
            Err(error) => {
                reply(Err(Refused::unexpected(error)));
                continue;
            }
        };
        // The command that waits for others.
        if matches!(command, Command::Resolve(_)) {
            let inner = inner.clone();
            let asked = spawn("e810-resolve", move || {
                let _ = answer.send(bytes::encode(&inner.call(command)));
            });
            drop(asked);
            continue;
        }
        reply(inner.call(command));
    }
}

impl Listeners {
    fn forward(&self, events: &Receiver<Vec<u8>>) {
        for event in events {
            // The other side sends nothing else.
            let Ok(event) = bytes::decode::<ControlEvent>(&event) else {
                continue;
            };
            lock(&self.0).retain(|sink| match sink.upgrade() {
                Some(sink) => {
                    sink.notify(event);
                    true
                }
                None => false,
            });
            if event == ControlEvent::Device(DeviceEvent::DeviceFatal) {
                break;
            }
        }
    }
}

impl EventSink for Forward {
    fn notify(&self, event: ControlEvent) {
        let _ = lock(&self.0).send(bytes::encode(&event));
    }
}

impl ControlPlane for OverChannel {
    fn call(&self, command: Command) -> Result<Answer, Refused> {
        self.process.check()?;
        if command.makes_something() {
            // For the message itself; the rings were made before.
            memory::check()?;
        }
        let gone = || Refused::gone("the control path's thread has ended");
        let (give, take) = channel();
        lock(&self.commands)
            .send((bytes::encode(&command), give))
            .map_err(|_| gone())?;
        let answered = take.recv().map_err(|_| gone())?;
        bytes::decode::<Result<Answer, Refused>>(&answered).map_err(Refused::unexpected)?
    }

    fn listen(&self, sink: &Arc<dyn EventSink>) {
        let mut listeners = lock(&self.listeners.0);
        // As in the control path itself.
        listeners.retain(|sink| sink.strong_count() > 0);
        listeners.push(Arc::downgrade(sink));
    }

    fn rings(&self) -> Result<Arc<dyn RingMaker>, Refused> {
        self.process.check()?;
        Ok(self.rings.clone())
    }

    fn data_path(&self) -> &'static DataPathOps {
        self.data_path
    }
}
