//! How many files of programs the server has mapped. Past the kernel's limit no thread can start any
//! more, and the server would end, with all programs. The owners of a process count together.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use crate::messages::Refused;

/// Mappings for everything else: threads, their memory, libraries.
const OTHERS: usize = 8192;
/// The kernel's limit, unless it says another one.
const USUAL: usize = 65_530;
const LIMIT: &str = "/proc/sys/vm/max_map_count";

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Room(Arc<Counted>);

#[derive(Debug)]
struct Counted {
    taken: AtomicUsize,
    most: usize,
}

/// Room for one file, until this is dropped.
#[derive(Debug)]
pub(crate) struct Taken(Arc<Counted>);

impl Room {
    /// As much as the kernel has for this process.
    pub(super) fn of_process() -> Self {
        static ROOM: LazyLock<Arc<Counted>> = LazyLock::new(|| Room::of_system().0);
        Self(ROOM.clone())
    }

    fn of_system() -> Self {
        let limit = fs::read_to_string(LIMIT).ok();
        let limit = limit.and_then(|text| text.trim().parse().ok());
        Self::of(limit.unwrap_or(USUAL))
    }

    fn of(limit: usize) -> Self {
        let taken = AtomicUsize::new(0);
        // Where the limit is small, half of it.
        let most = limit.saturating_sub(OTHERS).max(limit / 2);
        Self(Arc::new(Counted { taken, most }))
    }

    /// # Errors
    /// All is taken.
    pub(super) fn take(&self) -> Result<Taken, Refused> {
        // Dropped, it gives its place back.
        let taken = Taken(self.0.clone());
        if self.0.taken.fetch_add(1, Ordering::Relaxed) < self.0.most {
            return Ok(taken);
        }
        Err(Refused::no_mappings(self.0.most))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_and_given_back() {
        let room = Room::of(4);
        let taken = [room.take().unwrap(), room.take().unwrap()];
        for _ in 0..2 {
            let refused = room.take().unwrap_err();
            assert!(refused.why.contains("vm.max_map_count"), "{refused}");
        }
        drop(taken);
        room.take().unwrap();
    }
}
