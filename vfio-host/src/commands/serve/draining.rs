//! The end of a server: its programs may have time to end first.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use e810_attach::listener::Made;
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
    fn pids(&self) -> Vec<u32>;
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

    fn pids(&self) -> Vec<u32> {
        self.peers().iter().map(|peer| peer.pid).collect()
    }
}

/// Where the programs are: at the functions that are up.
#[derive(Clone, Default)]
pub(super) struct Guests(Arc<Mutex<Vec<Arc<dyn Inside>>>>);

impl Guests {
    pub(super) fn are_also_at<D: HostDevice>(&self, reception: Arc<Reception<D>>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(reception);
    }

    fn all(&self) -> Vec<Arc<dyn Inside>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.clone()
    }

    /// One that uses several functions is so many programs.
    fn programs(&self) -> u64 {
        self.all().iter().map(|one| one.programs()).sum()
    }

    /// The processes, as messages name them.
    fn names(&self) -> String {
        let pids: BTreeSet<u32> = self.all().iter().flat_map(|one| one.pids()).collect();
        let some: Vec<_> = pids.iter().take(NAMED).copied().map(named).collect();
        let more = pids.len().saturating_sub(NAMED);
        match more {
            0 => some.join(", "),
            more => format!("{} and {more} more", some.join(", ")),
        }
    }
}

/// How a server waits for its programs.
pub(super) struct Draining {
    guests: Guests,
    /// Those that this command has made. They stay while programs are waited for, so that `e810 ps`
    /// shows these.
    sockets: Cell<Vec<Made>>,
    limit: Duration,
    until: Cell<Option<Instant>>,
}

impl Draining {
    pub(super) fn new(sockets: Vec<Made>, limit: Option<Ns>) -> Self {
        Self {
            guests: Guests::default(),
            sockets: Cell::new(sockets),
            limit: limit.map_or(Duration::ZERO, |limit| Duration::from_nanos(limit.0)),
            until: Cell::new(None),
        }
    }

    pub(super) fn guests(&self) -> Guests {
        self.guests.clone()
    }

    /// Nobody finds a socket without an owner.
    pub(super) fn remove_sockets(&self) {
        for socket in self.sockets.take() {
            socket.remove();
        }
    }

    /// A signal has come, and this is asked until it says yes.
    pub(super) fn is_over(&self, signal: &Interrupted) -> bool {
        let all = self.guests.all();
        if all.is_empty() {
            return true;
        }
        // Also one that has come up since.
        all.iter().for_each(|one| one.close());
        let guests = &self.guests;
        let now = Instant::now();
        let until = self.until.get().unwrap_or_else(|| {
            notify::tell("STOPPING=1");
            if guests.programs() > 0 && !self.limit.is_zero() {
                let (names, seconds) = (guests.names(), self.limit.as_secs_f64());
                say(&format!(
                    "e810 serve: {signal}: waiting for {names}, at most {seconds} s; a second signal ends it at once"
                ));
            }
            now + self.limit
        });
        self.until.set(Some(until));
        let is_late = now >= until;
        if is_late && guests.programs() > 0 {
            let names = guests.names();
            let passed = match self.limit {
                Duration::ZERO => String::new(),
                limit => format!(" {} s are over:", limit.as_secs_f64()),
            };
            say(&format!(
                "e810 serve: {signal}:{passed} the server ends under {names}"
            ));
        }
        is_late || guests.programs() == 0
    }
}
