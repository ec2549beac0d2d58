//! What programs have left behind that the device would not give up, and when it is tried again.
//! Each has at least one object of the device's tables, so there are never more than these have room
//! for.

use std::any::Any;
use std::mem;
use std::time::{Duration, Instant};

use e810_backends::interrupts::HostPlatform;

use super::objects::Objects;

/// How long the first one waits until it is tried again.
const FIRST: Duration = Duration::from_secs(1);
/// How long all of them wait at most: each time that they were tried, twice as long.
const LONGEST: Duration = Duration::from_secs(64);

/// What a program has left behind.
pub(super) struct Left<P: HostPlatform> {
    pub(super) objects: Objects<P>,
    /// The memory that the objects may use.
    pub(super) _memory: Box<dyn Any + Send>,
}

pub(super) struct Remains<T> {
    all: Vec<T>,
    wait: Duration,
    /// When they are tried again, if that was asked for since the first one came.
    next: Option<Instant>,
}

impl<T> Default for Remains<T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            wait: FIRST,
            next: None,
        }
    }
}

impl<T> Remains<T> {
    /// One more, which the device has refused to give up just now.
    pub(super) fn put(&mut self, left: T) {
        self.all.push(left);
    }

    /// All of them, if it is time to try again.
    pub(super) fn take(&mut self, now: Instant) -> Option<Vec<T>> {
        if self.all.is_empty() {
            (self.wait, self.next) = (FIRST, None);
            return None;
        }
        let next = *self.next.get_or_insert(now + self.wait);
        (now >= next).then(|| mem::take(&mut self.all))
    }

    /// Those that the device has refused again.
    pub(super) fn put_back(&mut self, refused: Vec<T>, now: Instant) {
        self.wait = (self.wait * 2).min(LONGEST);
        self.next = Some(now + self.wait);
        self.all.extend(refused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_tried_again_less_and_less_often() {
        let mut remains = Remains::default();
        let mut now = Instant::now();
        let second = Duration::from_secs(1);
        assert_eq!(remains.take(now), None);
        remains.put(1);
        for wait in [1, 2, 4, 8, 16, 32, 64, 64, 64] {
            assert_eq!(remains.take(now), None);
            now += second * (wait - 1);
            assert_eq!(remains.take(now), None, "{wait}");
            now += second;
            assert_eq!(remains.take(now), Some(vec![1]), "{wait}");
            remains.put_back(vec![1], now);
        }
        // One that comes later is tried with it.
        remains.put(2);
        now += LONGEST;
        assert_eq!(remains.take(now), Some(vec![1, 2]));
        // All are given up: the next one is tried soon.
        remains.put_back(Vec::new(), now);
        assert_eq!(remains.take(now), None);
        remains.put(3);
        assert_eq!(remains.take(now), None);
        assert_eq!(remains.take(now + second), Some(vec![3]));
    }
}
