//! Finds the best stretch of a stream: the number of messages, and the time from the first post to
//! the last completion.
//!
//! Completions are found in bunches, so the time between two of them says nothing. A stretch that
//! begins with a post is valid, because none of its messages was in flight before.

use e810_hal::Ns;

/// Maximum times kept, of posts and of completions.
const KEPT: u64 = 1 << 16;

/// Times of a stream.
#[derive(Debug)]
pub(super) struct Pace {
    /// Messages from one kept time to the next.
    stride: u64,
    /// When message `n * stride` was about to be posted.
    posts: Vec<Ns>,
    /// When `(n + 1) * stride` messages were completed.
    completions: Vec<Ns>,
}

impl Pace {
    pub(super) const fn new() -> Self {
        Self {
            stride: 1,
            posts: Vec::new(),
            completions: Vec::new(),
        }
    }

    /// More messages are about to be posted; `posted` includes them.
    pub(super) fn post(&mut self, now: Ns, posted: u64) {
        while (self.posts.len() as u64) * self.stride < posted {
            self.posts.push(now);
        }
        self.thin();
    }

    /// `completed` messages are completed.
    pub(super) fn complete(&mut self, now: Ns, completed: u64) {
        while (self.completions.len() as u64 + 1) * self.stride <= completed {
            self.completions.push(now);
        }
        self.thin();
    }

    /// Drops every second time if there are too many, and keeps those that begin, or end, a stride
    /// of the new length.
    fn thin(&mut self) {
        while self.posts.len().max(self.completions.len()) as u64 > KEPT {
            let every_second = |times: &[Ns], first| {
                let times = times.iter().skip(first).step_by(2);
                times.copied().collect::<Vec<Ns>>()
            };
            self.posts = every_second(&self.posts, 0);
            self.completions = every_second(&self.completions, 1);
            self.stride *= 2;
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
        // Messages take no time in virtual time, or if the clock ticks too slowly.
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
        let mut pace = Pace::new();
        pace.post(Ns(0), 8);
        // All are found at once.
        pace.complete(Ns(800), 1);
        pace.complete(Ns(801), 8);
        assert_eq!(pace.best(), Some((8, Ns(801))));
    }

    #[test]
    fn a_fast_stretch_in_a_slow_run_is_the_peak() {
        let mut pace = Pace::new();
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
        assert_eq!(Pace::new().best(), None);
    }

    #[test]
    fn a_long_stream_keeps_few_times() {
        let messages = KEPT * 10;
        let mut pace = Pace::new();
        for n in 1..=messages {
            pace.post(Ns(n * 10), n);
            pace.complete(Ns(n * 10 + 10), n);
        }
        let kept = pace.completions.len() as u64;
        assert!((KEPT / 2..=KEPT).contains(&kept), "{kept}");
        assert_eq!(pace.stride, 16);
        let (messages, time) = pace.best().unwrap();
        assert_eq!(messages, time.0 / 10);
    }
}
