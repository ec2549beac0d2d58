//! Opens the devices of a command, and traces them if asked to.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Error, Result};
use e810_backends::observed::Observed;
use e810_backends::spec::{DeviceSpec, SimSpec};
use e810_backends::{DeviceVisitor, HostDevice};
use e810_sim::Sim;
use e810_trace::{Ended, Recorder, TraceFile};

use crate::cli::BackendArgs;
use crate::output::file::OutputFile;
use crate::output::unwritten::{of_file, of_unfinished_file};

/// Opens devices as [`e810_backends::open`] does.
///
/// # Errors
/// The same, or a trace that cannot be started.
pub(crate) fn open<const N: usize, V: DeviceVisitor<N, Error = Error>>(
    specs: [&DeviceSpec; N],
    backend: &BackendArgs,
    visitor: V,
) -> Result<V::Outcome> {
    let options = backend.options();
    let Some(path) = backend.trace.as_deref() else {
        return e810_backends::open(specs, options, visitor);
    };
    let recording = TraceOption::begin(path, &specs)?;
    let traced = Traced {
        visitor,
        file: recording.file.clone(),
    };
    recording.finish(e810_backends::open(specs, options, traced))
}

/// The trace of the option `--trace`.
pub(crate) struct TraceOption<'a> {
    path: &'a Path,
    file: Arc<Mutex<TraceFile<OutputFile>>>,
}

impl<'a> TraceOption<'a> {
    /// Begins the trace of the devices `specs` in the file at `path`.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn begin(path: &'a Path, specs: &[&DeviceSpec]) -> Result<Self> {
        let names: Vec<String> = specs.iter().map(ToString::to_string).collect();
        let program = concat!("e810 ", env!("CARGO_PKG_VERSION"));
        let file = OutputFile::create(path);
        let file = file.and_then(|file| TraceFile::begin(file, program, &names));
        let file = file.map_err(|error| of_file("--trace", path, error))?;
        Ok(Self {
            path,
            file: Arc::new(Mutex::new(file)),
        })
    }

    /// A recorder of the device with this number among `specs`.
    pub(crate) fn recorder(&self, device: u8) -> Recorder<OutputFile> {
        Recorder::new(device, self.file.clone())
    }

    /// Ends the trace; the result is `outcome`, unless that is well and the trace is not.
    ///
    /// # Errors
    /// That of `outcome`, or a trace that could not be written.
    pub(crate) fn finish<T>(self, outcome: Result<T>) -> Result<T> {
        let ended = self
            .file
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .finish();
        let error = match ended {
            None => return outcome,
            Some(Ended::Full) => {
                log::warn!(
                    "--trace {}: the trace reached the largest size that can be read, and ends there",
                    self.path.display()
                );
                return outcome;
            }
            Some(Ended::Failed(error)) => of_unfinished_file("--trace", self.path, &error),
        };
        match outcome {
            Ok(_) => Err(error),
            Err(first) => {
                log::warn!("{error}");
                Err(first)
            }
        }
    }
}

/// A visitor whose devices are traced.
struct Traced<V> {
    visitor: V,
    file: Arc<Mutex<TraceFile<OutputFile>>>,
}

impl<const N: usize, V: DeviceVisitor<N, Error = Error>> DeviceVisitor<N> for Traced<V> {
    type Outcome = V::Outcome;
    type Error = Error;

    fn simulator(&mut self, spec: &SimSpec) -> Result<Sim> {
        self.visitor.simulator(spec)
    }

    fn visit<D: HostDevice>(self, devices: [D; N]) -> Result<Self::Outcome> {
        let mut number = 0..;
        let traced = devices.map(|device| {
            let number = number.next().unwrap_or(u8::MAX);
            let recorder = Recorder::new(number, self.file.clone());
            Observed::new(device, Arc::new(recorder))
        });
        self.visitor.visit(traced)
    }
}
