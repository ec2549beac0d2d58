//! A token bucket.

use crate::time::Ns;

/// Echo replies a second: Linux' default of `net.ipv4.icmp_msgs_per_sec`.
pub(crate) const ECHO_PER_SECOND: u32 = 1000;
/// Echo replies at once: Linux' default of `net.ipv4.icmp_msgs_burst`.
pub(crate) const ECHO_BURST: u32 = 50;

/// So many at once, and so many a second.
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    tokens: u32,
    burst: u32,
    interval: u64,
    /// When the tokens were last counted.
    at: Ns,
}

impl TokenBucket {
    /// A full bucket; `per_second` of zero counts as one.
    pub(crate) fn new(per_second: u32, burst: u32, now: Ns) -> Self {
        Self {
            tokens: burst,
            burst,
            interval: 1_000_000_000 / u64::from(per_second.max(1)),
            at: now,
        }
    }

    /// Takes a token, if there is one.
    pub(crate) fn take(&mut self, now: Ns) -> bool {
        let new = (now - self.at).0 / self.interval.max(1);
        let room = self.burst.saturating_sub(self.tokens);
        if new >= u64::from(room) {
            self.tokens = self.burst;
            self.at = self.at.max(now);
        } else {
            self.tokens += new as u32;
            self.at = self.at + Ns(new * self.interval);
        }
        let taken = self.tokens.checked_sub(1);
        self.tokens = taken.unwrap_or(0);
        taken.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_the_rate() {
        let mut bucket = TokenBucket::new(1000, 50, Ns::ZERO);
        let taken = (0..1000).filter(|_| bucket.take(Ns::ZERO)).count();
        assert_eq!(taken, 50);
        // A request each 100 µs for a second: one in ten is answered.
        let taken = (1..=10_000)
            .filter(|n| bucket.take(Ns(n * 100_000)))
            .count();
        assert_eq!(taken, 1000);
        // A clock that goes back gives nothing.
        assert!(!bucket.take(Ns::ZERO));
        assert!(bucket.take(Ns::from_secs(100)));
    }
}
