//! `--pcap FILE`: the frames of simulated functions, in a file for network analysers.

use std::fmt;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use clap::Args;
use e810_attach::places;
use e810_sim::Sim;
use e810_sim::pcap::Writer;

use super::file::{checked, output};
use crate::output::file::OutputFile;
use crate::output::unwritten::{of_file, of_unfinished_file};
use crate::usage::refuse;

/// Bytes that are buffered before they are written, so that the simulated device rarely waits for
/// the file.
const BUFFER: usize = 1 << 20;

/// Whether frames are recorded.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Records and memory")]
pub struct CaptureArgs {
    /// Write every frame that simulated functions of this process send, or receive from other
    /// processes, to this capture file, for tshark and similar tools.
    ///
    /// Frames are in the order in which they are sent, with the simulator's time (0 when it
    /// starts), including those that the wire later loses or changes. Frames of other processes are
    /// written when they arrive.
    #[arg(long, value_name = "FILE", value_parser = checked(output))]
    pub pcap: Option<PathBuf>,
}

impl CaptureArgs {
    /// For one of several functions that are simulated apart: the first has the file that is named, the others have
    /// files beside it, which end in .1, .2 and so on.
    #[must_use]
    pub fn of_function(&self, index: usize) -> Self {
        let of_it = |path: &PathBuf| places::of_function(path, index);
        Self {
            pcap: self.pcap.as_ref().map(of_it),
        }
    }

    /// Starts to record the functions of `sim`, if that was asked for.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn record(&self, sim: &Sim) -> Result<Option<Recording>> {
        let path = self.pcap.as_deref();
        path.map(|path| Recording::start(sim, path)).transpose()
    }

    /// Refuses to record a device that this process does not simulate.
    ///
    /// # Errors
    /// `--pcap` was given.
    pub fn refuse(&self, device: &dyn fmt::Display) -> Result<()> {
        if self.pcap.is_some() {
            refuse!(
                "--pcap: the frames of {device} do not pass through this process; record them where it is served, with `e810 sim --pcap`, or on its network"
            );
        }
        Ok(())
    }
}

/// A capture that runs until this is finished or dropped.
#[derive(Debug)]
pub struct Recording {
    sim: Sim,
    path: PathBuf,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    file: Writer<BufWriter<OutputFile>>,
    frames: u64,
    /// The first error; nothing is written after it.
    failed: Option<io::Error>,
}

impl Shared {
    fn attempt(
        &mut self,
        write: impl FnOnce(&mut Writer<BufWriter<OutputFile>>) -> io::Result<()>,
    ) -> bool {
        if self.failed.is_none() {
            self.failed = write(&mut self.file).err();
            if let Some(error) = &self.failed {
                log::warn!("--pcap: {error}; the command continues without recording frames");
            }
        }
        self.failed.is_none()
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // Nothing panics while the lock is held.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recording {
    fn start(sim: &Sim, path: &Path) -> Result<Self> {
        let create = || {
            let file = OutputFile::create(path)?;
            let mut file = Writer::new(BufWriter::with_capacity(BUFFER, file))?;
            file.flush()?;
            Ok::<_, io::Error>(file)
        };
        let file = create().map_err(|error| of_file("--pcap", path, error))?;
        let shared = Arc::new(Mutex::new(Shared {
            file,
            frames: 0,
            failed: None,
        }));
        let sink = Arc::clone(&shared);
        sim.set_capture(Some(Box::new(move |frame| {
            let mut shared = lock(&sink);
            let written = shared.attempt(|file| file.frame(frame.time, frame.bytes));
            shared.frames += u64::from(written);
        })));
        Ok(Self {
            sim: sim.clone(),
            path: path.to_owned(),
            shared,
        })
    }

    /// Writes the frames so far to the file and returns their number.
    ///
    /// # Errors
    /// The first error of the file; the capture ended there.
    pub fn flush(&self) -> Result<u64> {
        let mut shared = lock(&self.shared);
        shared.attempt(Writer::flush);
        let frames = shared.frames;
        match &shared.failed {
            None => Ok(frames),
            Some(error) => Err(of_unfinished_file("--pcap", &self.path, error)),
        }
    }

    /// Ends the capture and returns the number of frames in the file.
    ///
    /// # Errors
    /// As [`Recording::flush`].
    pub fn finish(self) -> Result<u64> {
        self.sim.set_capture(None);
        self.flush()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.sim.set_capture(None);
        // A caller that wants the error calls `finish`.
        lock(&self.shared).attempt(Writer::flush);
    }
}
