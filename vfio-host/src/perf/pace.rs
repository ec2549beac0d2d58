//! The best stretch of a stream: how many messages, and how long from the first
//! one's post to the last one's completion.
//!
//! Completions are found in bunches, so the time between two of them says nothing;
//! a stretch that begins with a post does, because no message of it was under way
//! before.

use e810_hal::Ns;

/// Times kept at most, of posts and of completions.
const KEPT: u64 = 1 << 16;

/// Times of a stream.
#[derive(Debug)]
pub(super) struct Pace {
    /// Messages between two times that are kept.
    stride: u64,
    /// When message `n * stride` was about to be posted.
    posts: Vec<Ns>,
    /// When `(n + 1) * stride` messages were completed.
    completions: Vec<Ns>,
}

impl Pace {
    /// Of a stream of `messages`.
    pub(super) fn new(messages: u64) -> Self {
        Self {
            stride: messages.div_ceil(KEPT).max(1),
            posts: Vec::new(),
            completions: Vec::new(),
        }
    }

    /// More messages are about to be posted, `posted` with them.
    pub(super) fn post(&mut self, now: Ns, posted: u64) {
        while (self.posts.len() as u64) * self.stride < posted {
            self.posts.push(now);
        }
    }

    /// So many messages are completed.
    pub(super) fn complete(&mut self, now: Ns, completed: u64) {
        while (self.completions.len() as u64 + 1) * self.stride <= completed {
            self.completions.push(now);
        }
    }

    /// The fastest stretch among those of a power of two of strides.
    pub(super) fn best(&self) -> Option<(u64, Ns)> {
        let lengths = (0..u32::BITS).map(|power| 1usize << power);
        let lengths = lengths.take_while(|length| *length <= self.completions.len());
        let stretch = |length: usize| {
            let ends = self.completions.iter().skip(length - 1);
            let times = ends.zip(&self.posts).map(|(end, start)| *end - *start);
            Some((length as u64 * self.stride, times.min()?))
        };
        // Messages that took no time are of virtual time, or of a clock that
        // ticks too slowly.
        let rate = |(messages, time): &(u64, Ns)| *messages as f64 / time.0.max(1) as f64;
        lengths
            .filter_map(stretch)
            .max_by(|a, b| rate(a).total_cmp(&rate(b)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_in_bunches_are_no_speed() {
        let mut pace = Pace::new(8);
        pace.post(Ns(0), 8);
        // All are found at once.
        pace.complete(Ns(800), 1);
        pace.complete(Ns(801), 8);
        assert_eq!(pace.best(), Some((8, Ns(801))));
    }

    #[test]
    fn a_fast_stretch_in_a_slow_run_is_the_peak() {
        let mut pace = Pace::new(6);
        for (n, (posted, completed)) in (1..).zip([
            (0, 100),
            (100, 200),
            (200, 210),
            (210, 221),
            (220, 300),
            (300, 400),
        ]) {
            pace.post(Ns(posted), n);
            pace.complete(Ns(completed), n);
        }
        assert_eq!(pace.best(), Some((1, Ns(10))));
        assert_eq!(Pace::new(0).best(), None);
    }

    #[test]
    fn a_long_stream_keeps_few_times() {
        let messages = KEPT * 10;
        let mut pace = Pace::new(messages);
        for n in 1..=messages {
            pace.post(Ns(n * 10), n);
            pace.complete(Ns(n * 10 + 10), n);
        }
        assert_eq!(pace.completions.len() as u64, KEPT);
        let (messages, time) = pace.best().unwrap();
        assert_eq!(messages, time.0 / 10);
    }
}
