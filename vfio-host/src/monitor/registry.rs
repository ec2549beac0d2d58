//! Connects the monitor's server with the threads that own devices.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::snapshot::{FunctionSnapshot, Snapshot};

/// The functions of a process. A clone is the same registry.
#[derive(Clone, Debug)]
pub struct MonitorRegistry(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    command: String,
    opened: Instant,
    functions: Mutex<Vec<Arc<Function>>>,
    /// Allows one snapshot at a time, because an answer belongs to one.
    snapshot_lock: Mutex<()>,
}

#[derive(Debug)]
struct Function {
    name: String,
    device: String,
    wanted: AtomicBool,
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The answer, until it is taken.
    snapshot: Option<FunctionSnapshot>,
    last: Option<FunctionSnapshot>,
    /// No more answers come.
    closed: bool,
}

/// A function's entry in the registry, held by its progress loop. Dropping it removes
/// the function.
#[derive(Debug)]
pub struct SnapshotPublisher(Arc<Function>);

impl MonitorRegistry {
    /// The registry of a process that runs `command`.
    #[must_use]
    pub fn new(command: &str) -> Self {
        Self(Arc::new(Shared {
            command: command.to_owned(),
            opened: Instant::now(),
            functions: Mutex::default(),
            snapshot_lock: Mutex::default(),
        }))
    }

    /// Adds the function `name` of `device`.
    #[must_use]
    pub fn register(&self, name: &str, device: &str) -> SnapshotPublisher {
        let function = Arc::new(Function {
            name: name.to_owned(),
            device: device.to_owned(),
            wanted: AtomicBool::new(false),
            state: Mutex::default(),
            answered: Condvar::new(),
        });
        lock(&self.0.functions).push(Arc::clone(&function));
        SnapshotPublisher(function)
    }

    /// Asks all functions for a snapshot, and names those that do not answer within `limit`. A
    /// function that is gone is returned once more if it published a last snapshot.
    #[must_use]
    pub fn snapshot(&self, limit: Duration) -> Snapshot {
        let _one_snapshot = lock(&self.0.snapshot_lock);
        // More functions may be registered meanwhile.
        let all = lock(&self.0.functions).clone();
        // All are asked before the first answer is waited for.
        for function in &all {
            // Drop an answer that came too late for an earlier request.
            lock(&function.state).snapshot = None;
            function.wanted.store(true, Ordering::Release);
        }
        let until = Instant::now() + limit;
        let mut snapshot = Snapshot {
            command: self.0.command.clone(),
            pid: std::process::id(),
            at_ns: 0,
            functions: Vec::new(),
            silent: Vec::new(),
        };
        for function in &all {
            let (answer, is_closed) = function.answer(until);
            match answer {
                Some(answer) => snapshot.functions.push(answer),
                None if is_closed => {}
                None => snapshot.silent.push(function.name.clone()),
            }
            if is_closed {
                lock(&self.0.functions).retain(|kept| !Arc::ptr_eq(kept, function));
            }
        }
        // 64 bits of nanoseconds last for centuries.
        snapshot.at_ns = self.0.opened.elapsed().as_nanos() as u64;
        snapshot
    }

    /// Number of functions, including those that left a last snapshot.
    #[must_use]
    pub fn functions(&self) -> usize {
        lock(&self.0.functions).len()
    }
}

impl Function {
    /// Waits for the answer until then; also returns whether the function is gone.
    fn answer(&self, until: Instant) -> (Option<FunctionSnapshot>, bool) {
        let mut state = lock(&self.state);
        loop {
            if state.closed {
                return (state.last.take(), true);
            }
            if state.snapshot.is_some() {
                return (state.snapshot.take(), false);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return (None, false);
            }
            let waited = self.answered.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl SnapshotPublisher {
    /// Whether a snapshot is wanted: one load.
    #[inline]
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.0.wanted.load(Ordering::Relaxed)
    }

    pub fn publish(&self, snapshot: FunctionSnapshot) {
        self.0.wanted.store(false, Ordering::Relaxed);
        lock(&self.0.state).snapshot = Some(snapshot);
        self.0.answered.notify_all();
    }

    /// Publishes the last snapshot, for the next request.
    pub fn publish_last(self, snapshot: FunctionSnapshot) {
        lock(&self.0.state).last = Some(snapshot);
    }

    /// The function's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// How it is reached.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.0.device
    }
}

impl Drop for SnapshotPublisher {
    fn drop(&mut self) {
        lock(&self.0.state).closed = true;
        self.0.answered.notify_all();
    }
}

/// The data is consistent at any time, even after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
