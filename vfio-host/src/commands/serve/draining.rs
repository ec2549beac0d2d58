//! The end of a server: its programs may have time to end first.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use e810_attach::reception::Reception;
use e810_attach::socket::named;
use e810_backends::HostDevice;
use e810_hal::Ns;

use super::notify;
use crate::output::terminal::say;
use crate::stop::Interrupted;

/// The programs of a function of any kind.
trait Inside: Send + Sync {
    fn close(&self);
    fn programs(&self) -> u64;
    /// The processes, as messages name them.
    fn names(&self) -> String;
}

/// Processes that a line names; of more it has the number.
const NAMED: usize = 8;

impl<D: HostDevice> Inside for Reception<D> {
    fn close(&self) {
        Self::close(self);
    }

    fn programs(&self) -> u64 {
        Self::programs(self)
    }

    fn names(&self) -> String {
        let pids: BTreeSet<u32> = self.peers().iter().map(|peer| peer.pid).collect();
        let some: Vec<_> = pids.iter().take(NAMED).copied().map(named).collect();
        let more = pids.len().saturating_sub(NAMED);
        match more {
            0 => some.join(", "),
            more => format!("{} and {more} more", some.join(", ")),
        }
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
    /// It stays while programs are waited for, so that `e810 ps` shows them. `None`: it is gone, or
    /// not the command's.
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
            notify::tell("STOPPING=1");
            if inside.programs() > 0 && !self.limit.is_zero() {
                let (names, seconds) = (inside.names(), self.limit.as_secs_f64());
                say(&format!(
                    "e810 serve: {signal}: waiting for {names}, at most {seconds} s; a second signal ends it at once"
                ));
            }
            now + self.limit
        });
        self.until.set(Some(until));
        let is_late = now >= until;
        if is_late && inside.programs() > 0 {
            let names = inside.names();
            let passed = match self.limit {
                Duration::ZERO => String::new(),
                limit => format!(" {} s are over:", limit.as_secs_f64()),
            };
            say(&format!(
                "e810 serve: {signal}:{passed} the function ends under {names}"
            ));
        }
        is_late || inside.programs() == 0
    }
}
