//! The end of a server: its programs may have time to end first.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use e810_attach::reception::Reception;
use e810_backends::HostDevice;
use e810_hal::Ns;

use super::notify;
use crate::output::terminal::say;
use crate::stop::Interrupted;

/// The programs of a function of any kind.
trait Inside: Send + Sync {
    fn close(&self);
    fn programs(&self) -> u64;
}

impl<D: HostDevice> Inside for Reception<D> {
    fn close(&self) {
        Self::close(self);
    }

    fn programs(&self) -> u64 {
        Self::programs(self)
    }
}

/// Where the programs are, when the function is up.
#[derive(Clone, Default)]
pub(super) struct Guests(Arc<OnceLock<Arc<dyn Inside>>>);

impl Guests {
    pub(super) fn are_at<D: HostDevice>(&self, reception: Arc<Reception<D>>) {
        // There is one function.
        let _ = self.0.set(reception);
    }
}

/// How a server waits for its programs.
pub(super) struct Draining {
    guests: Guests,
    /// Removed first, so that others can listen there. `None`: it is gone, or not the command's.
    socket: Cell<Option<PathBuf>>,
    limit: Duration,
    until: Cell<Option<Instant>>,
}

impl Draining {
    pub(super) fn new(socket: Option<PathBuf>, limit: Option<Ns>) -> Self {
        Self {
            guests: Guests::default(),
            socket: Cell::new(socket),
            limit: limit.map_or(Duration::ZERO, |limit| Duration::from_nanos(limit.0)),
            until: Cell::new(None),
        }
    }

    pub(super) fn guests(&self) -> Guests {
        self.guests.clone()
    }

    /// Nobody finds a socket without an owner.
    pub(super) fn remove_socket(&self) {
        if let Some(path) = self.socket.take() {
            let _ = std::fs::remove_file(path);
        }
    }

    /// A signal has come, and this is asked until it says yes.
    pub(super) fn is_over(&self, signal: &Interrupted) -> bool {
        let Some(inside) = self.guests.0.get() else {
            return true;
        };
        let now = Instant::now();
        let until = self.until.get().unwrap_or_else(|| {
            inside.close();
            self.remove_socket();
            notify::tell("STOPPING=1");
            let (programs, seconds) = (inside.programs(), self.limit.as_secs_f64());
            if programs > 0 && !self.limit.is_zero() {
                say(&format!(
                    "e810 serve: {signal}: waiting for {programs} programs, at most {seconds} s; a second signal ends it at once"
                ));
            }
            now + self.limit
        });
        self.until.set(Some(until));
        now >= until || inside.programs() == 0
    }
}
