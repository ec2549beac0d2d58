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
    let file = begin(path, &specs).map_err(|error| of_file("--trace", path, error))?;
    let file = Arc::new(Mutex::new(file));
    let traced = Traced {
        visitor,
        file: file.clone(),
    };
    let outcome = e810_backends::open(specs, options, traced);
    let ended = file.lock().unwrap_or_else(PoisonError::into_inner).finish();
    let error = match ended {
        None => return outcome,
        Some(Ended::Full) => {
            log::warn!(
                "--trace {}: the trace reached the largest size that can be read, and ends there",
                path.display()
            );
            return outcome;
        }
        Some(Ended::Failed(error)) => of_unfinished_file("--trace", path, &error),
    };
    match outcome {
        Ok(_) => Err(error),
        Err(first) => {
            log::warn!("{error}");
            Err(first)
        }
    }
}

fn begin(path: &Path, specs: &[&DeviceSpec]) -> Result<TraceFile<OutputFile>> {
    let names: Vec<String> = specs.iter().map(ToString::to_string).collect();
    let program = concat!("e810 ", env!("CARGO_PKG_VERSION"));
    Ok(TraceFile::begin(
        OutputFile::create(path)?,
        program,
        &names,
    )?)
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
