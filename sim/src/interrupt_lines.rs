//! Interrupt delivery at the host: one line per vector, which is polled, waited for or hooked.
//!
//! The lines have a lock of their own, so that a thread waiting for an interrupt does not block the
//! device.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use e810_hal::Vector;

/// Called after a vector fired, outside all locks of the simulator.
///
/// It may use the platform, but must not wait for another interrupt.
pub type InterruptHook = Box<dyn Fn(Vector) + Send + Sync>;

#[derive(Clone, Copy, Default, Debug)]
struct InterruptLine {
    raised: bool,
    count: u64,
}

/// The lines of one function.
pub(crate) struct InterruptLines {
    state: Mutex<Vec<InterruptLine>>,
    changed: Condvar,
    hook: Mutex<Option<Arc<InterruptHook>>>,
}

impl InterruptLines {
    pub(crate) fn new(vectors: u16) -> Self {
        Self {
            state: Mutex::new(vec![InterruptLine::default(); usize::from(vectors)]),
            changed: Condvar::new(),
            hook: Mutex::new(None),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<InterruptLine>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_hook(&self, hook: Option<InterruptHook>) {
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = hook.map(Arc::new);
    }

    /// Whether a hook would be called.
    pub(crate) fn has_hook(&self) -> bool {
        self.hook
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
    }

    /// Raises the lines of `vectors` and calls the hook.
    pub(crate) fn raise(&self, vectors: &[u16]) {
        if vectors.is_empty() {
            return;
        }
        let mut lines = self.lock();
        for vector in vectors {
            if let Some(line) = lines.get_mut(usize::from(*vector)) {
                line.raised = true;
                line.count += 1;
            }
        }
        drop(lines);
        self.changed.notify_all();
        // A clone, so that the hook may replace itself.
        let hook = self
            .hook
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(hook) = hook {
            vectors
                .iter()
                .copied()
                .filter_map(Vector::new)
                .for_each(|vector| hook(vector));
        }
    }

    /// Returns all raised lines and lowers them.
    pub(crate) fn take(&self) -> Vec<Vector> {
        let mut lines = self.lock();
        let raised = |(index, line): (usize, &mut InterruptLine)| {
            let was_raised = std::mem::take(&mut line.raised);
            was_raised.then(|| Vector::new(index as u16)).flatten()
        };
        lines.iter_mut().enumerate().filter_map(raised).collect()
    }

    /// Sleeps until any line is raised, for `limit` at most; takes all raised lines.
    pub(crate) fn wait_any(&self, limit: Duration) -> Vec<Vector> {
        let lines = self.lock();
        let none = |lines: &mut Vec<InterruptLine>| !lines.iter().any(|line| line.raised);
        drop(self.changed.wait_timeout_while(lines, limit, none));
        self.take()
    }

    /// Whether `vector` was raised; lowers its line.
    pub(crate) fn take_one(&self, vector: Vector) -> bool {
        let mut lines = self.lock();
        lines
            .get_mut(vector.get() as usize)
            .is_some_and(|line| std::mem::take(&mut line.raised))
    }

    /// Number of messages of `vector` so far.
    pub(crate) fn count(&self, vector: Vector) -> u64 {
        let lines = self.lock();
        lines
            .get(vector.get() as usize)
            .map_or(0, |line| line.count)
    }

    /// Sleeps until the line of `vector` is raised and lowers it; false after `limit`.
    pub(crate) fn wait(&self, vector: Vector, limit: Duration) -> bool {
        let start = Instant::now();
        let mut lines = self.lock();
        loop {
            let line = lines.get_mut(vector.get() as usize);
            if line.is_some_and(|line| std::mem::take(&mut line.raised)) {
                return true;
            }
            let Some(left) = limit.checked_sub(start.elapsed()) else {
                return false;
            };
            let waited = self.changed.wait_timeout(lines, left);
            lines = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl std::fmt::Debug for InterruptLines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn vector(index: u16) -> Vector {
        Vector::new(index).unwrap()
    }

    #[test]
    fn lines_stay_raised_until_they_are_taken() {
        let lines = InterruptLines::new(3);
        lines.raise(&[2, 0, 2]);
        assert_eq!(lines.count(vector(2)), 2);
        assert!(lines.take_one(vector(0)));
        assert!(!lines.take_one(vector(0)));
        assert_eq!(lines.take(), [vector(2)]);
        assert_eq!(lines.take(), []);
        lines.raise(&[99]);
        assert_eq!(lines.count(vector(99)), 0);
    }

    #[test]
    fn a_waiting_thread_wakes() {
        let lines = Arc::new(InterruptLines::new(2));
        let other = Arc::clone(&lines);
        let thread = std::thread::spawn(move || other.wait(vector(1), Duration::from_secs(60)));
        lines.raise(&[1]);
        assert!(thread.join().unwrap());
        assert!(
            !lines.wait(vector(1), Duration::ZERO),
            "taken by the thread"
        );
    }

    #[test]
    fn who_waits_for_any_line_takes_all() {
        let lines = InterruptLines::new(3);
        lines.raise(&[2, 0]);
        let taken = lines.wait_any(Duration::from_secs(60));
        assert_eq!(taken, [vector(0), vector(2)]);
        assert_eq!(lines.wait_any(Duration::ZERO), []);
    }

    #[test]
    fn a_hook_hears_every_message_and_can_be_removed() {
        let lines = InterruptLines::new(2);
        let heard = Arc::new(AtomicU32::new(0));
        let ear = Arc::clone(&heard);
        lines.set_hook(Some(Box::new(move |v| {
            ear.fetch_add(1 + v.get(), Ordering::Relaxed);
        })));
        lines.raise(&[1, 0]);
        assert_eq!(heard.load(Ordering::Relaxed), 3);
        lines.set_hook(None);
        lines.raise(&[1]);
        assert_eq!(heard.load(Ordering::Relaxed), 3);
    }
}
