//! What experiments work with.

mod engine;

use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use e810_adminq::AdminQ;
use e810_adminq::reset::{check_recovery, reset_function, wait_for_firmware};
use e810_backends::HostDevice;
use e810_backends::observed::Observed;
use e810_node::start::Start;
use e810_trace::record::Record;
use e810_trace::{Event, Recorder, TraceFile};

pub(crate) use engine::{Engine, Raw};

/// What a recorder has written since it was taken.
#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn all(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.all().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A function that nobody else uses, and a recording of all that is done with it.
#[derive(Debug)]
pub struct Bench {
    device: Observed,
    lines: Lines,
    start: Start,
    /// The port had no link when one was waited for: it is not waited for again.
    has_no_link: Cell<bool>,
    /// The function did not come up, for a reason that stays: it is not tried again.
    no_start: RefCell<Option<String>>,
}

impl Bench {
    /// For `device`, which is brought up as `start` says.
    ///
    /// # Errors
    /// The recording cannot be started.
    pub fn new<D: HostDevice>(device: D, start: Start) -> io::Result<Self> {
        let lines = Lines::default();
        let file = TraceFile::begin(lines.clone(), "e810 selftest", &[])?;
        let recorder = Recorder::new(0, Arc::new(Mutex::new(file)));
        Ok(Self {
            device: Observed::new(device, Arc::new(recorder)),
            lines,
            start,
            has_no_link: Cell::new(false),
            no_start: RefCell::new(None),
        })
    }

    /// Whether the port had no link when one was waited for.
    pub(crate) const fn has_no_link(&self) -> bool {
        self.has_no_link.get()
    }

    pub(crate) const fn device(&self) -> &Observed {
        &self.device
    }

    /// What has happened since this was called the last time.
    pub(crate) fn happened(&self) -> Vec<Event> {
        use e810_hal::Barrier as _;
        // The recorder looks at the queues.
        self.device.from_device();
        let lines = take(&mut *self.lines.all());
        let lines = lines.split(|byte| *byte == b'\n');
        let records = lines.filter_map(|line| serde_json::from_slice::<Record>(line).ok());
        records.map(|record| record.event).collect()
    }

    /// Resets the function, so that nothing is left of what an experiment did.
    ///
    /// # Errors
    /// The function does not come back.
    pub(crate) fn reset(&self) -> Result<()> {
        check_recovery(&self.device)?;
        wait_for_firmware(&self.device)?;
        reset_function(&self.device, false).context("resetting the function")?;
        Ok(())
    }

    /// Does `ask` with the AdminQ of a function that was just reset.
    ///
    /// # Errors
    /// The firmware does not answer, or what `ask` returns.
    pub(crate) fn firmware<T>(
        &self,
        ask: impl FnOnce(&mut AdminQ<Observed>) -> Result<T>,
    ) -> Result<T> {
        self.reset()?;
        let mut adminq = AdminQ::start(self.device.clone()).context("starting the AdminQ")?;
        let asked = ask(&mut adminq);
        let ended = adminq.shutdown().context("ending the AdminQ");
        // Also after a failure: the firmware would go on using memory of this process.
        let reset = self.reset();
        let asked = asked?;
        ended.and(reset)?;
        Ok(asked)
    }

    /// Does `act` with the engine of a function that was brought up from its reset on.
    ///
    /// # Errors
    /// The bring-up, what `act` returns, or the shutdown.
    pub(crate) fn engine<T>(&self, act: impl FnOnce(&mut Engine<'_>) -> Result<T>) -> Result<T> {
        if let Some(why) = &*self.no_start.borrow() {
            bail!("{why}");
        }
        let mut engine = match Engine::start(self) {
            Ok(engine) => engine,
            Err(error) => {
                let why = "the function does not come up, as told above".to_owned();
                *self.no_start.borrow_mut() = Some(why);
                self.reset()?;
                return Err(error);
            }
        };
        let acted = act(&mut engine);
        self.reset()?;
        engine.release_after_reset();
        acted
    }
}
