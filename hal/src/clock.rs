//! Time, and the only way to wait.
//!
//! Nothing in the core loops on its own: every wait goes through
//! [`poll_until`], which has a limit and a name. Both are in its error.

pub use e810_types::Ns;

/// A monotonic clock.
pub trait Clock {
    /// Time since an arbitrary start; never goes back.
    fn now(&self) -> Ns;

    /// Lets at least `time` pass. Virtual time advances by it.
    fn delay(&self, time: Ns);

    /// Called once for each empty turn of every loop: a spin hint on silicon, one event of the
    /// simulator in virtual time.
    fn relax(&self);
}

/// A wait ended without the thing waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum WaitError {
    /// The limit passed.
    #[error("{label}: nothing after {limit}; reset the function and start again")]
    Timeout {
        /// What was waited for.
        label: &'static str,
        /// The limit that passed.
        limit: Ns,
    },
    /// A register answered all-ones: the function left the bus, or its
    /// backend is gone.
    #[error(
        "{label}: the device is gone (a register reads all-ones); check that the function is still bound, powered and decodes memory, then start again"
    )]
    DeviceGone {
        /// What was waited for.
        label: &'static str,
    },
}

/// Least number of questions that a wait asks, however long each takes.
pub const MOST_QUESTIONS: u64 = 1_000;

/// Least pause of a wait that has asked [`MOST_QUESTIONS`] times. Existing drivers keep their interval
/// to the end (20 µs for an AdminQ, control-path 10). With ours, an answer that took 10 ms is noticed
/// at most 100 µs late.
pub const LATER_PAUSE: Ns = Ns::from_us(100);

/// Asks `ready` until it has an answer or `limit` has passed.
///
/// Between two questions it lets `pause` pass, or only relaxes when `pause` is zero. `ready` is
/// asked at least once, and once more after the limit, so that a late thread does not report a
/// timeout for a device that was on time.
///
/// Existing drivers count questions, not time (control-path 10: 1000 of them, 10 µs apart). Their
/// waits grow if asking is slow, or the thread does not run. So do these: the wait is not over
/// before as many questions were asked as fit into the limit, at most [`MOST_QUESTIONS`]. After
/// these, a pause is at least [`LATER_PAUSE`].
///
/// # Errors
/// [`WaitError::Timeout`], or what `ready` returns.
pub fn poll_until<C: Clock + ?Sized, T, E: From<WaitError>>(
    clock: &C,
    label: &'static str,
    limit: Ns,
    pause: Ns,
    mut ready: impl FnMut() -> Result<Option<T>, E>,
) -> Result<T, E> {
    let mut turns = Turns::new(clock, limit, pause);
    loop {
        let late = turns.late(clock);
        if let Some(answer) = ready()? {
            return Ok(answer);
        }
        if late {
            return Err(WaitError::Timeout { label, limit }.into());
        }
        turns.pause(clock);
    }
}

/// The timing of [`poll_until`], which is the same for all questions.
struct Turns {
    start: Ns,
    limit: Ns,
    pause: Ns,
    /// Least number of questions.
    owed: u64,
    asked: u64,
}

// Not inlined into every wait: none of them is in a hurry.
impl Turns {
    #[inline(never)]
    fn new<C: Clock + ?Sized>(clock: &C, limit: Ns, pause: Ns) -> Self {
        // A pause of zero gives no number of questions.
        let owed = limit.0.checked_div(pause.0).unwrap_or(0);
        Self {
            start: clock.now(),
            limit,
            pause,
            owed: owed.min(MOST_QUESTIONS),
            asked: 0,
        }
    }

    /// Whether the next question is the last.
    #[inline(never)]
    fn late<C: Clock + ?Sized>(&mut self, clock: &C) -> bool {
        let late = clock.now() - self.start >= self.limit && self.asked >= self.owed;
        self.asked = self.asked.saturating_add(1);
        late
    }

    #[inline(never)]
    fn pause<C: Clock + ?Sized>(&self, clock: &C) {
        if self.pause == Ns(0) {
            clock.relax();
        } else if self.asked <= MOST_QUESTIONS {
            clock.delay(self.pause);
        } else {
            clock.delay(self.pause.max(LATER_PAUSE));
        }
    }
}

/// `value`, unless it is the all-ones that a missing device reads as.
///
/// # Errors
/// [`WaitError::DeviceGone`].
pub const fn live(label: &'static str, value: u32) -> Result<u32, WaitError> {
    if value == u32::MAX {
        Err(WaitError::DeviceGone { label })
    } else {
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use std::string::ToString;

    struct Ticks(Cell<u64>);
    impl Clock for Ticks {
        fn now(&self) -> Ns {
            Ns(self.0.get())
        }
        fn delay(&self, time: Ns) {
            self.0.set(self.0.get() + time.0);
        }
        fn relax(&self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn a_wait_ends_at_its_limit_and_says_so() {
        let clock = Ticks(Cell::new(0));
        let mut asked = 0;
        let got: Result<(), WaitError> = poll_until(
            &clock,
            "the thing",
            Ns::from_us(100),
            Ns::from_us(10),
            || {
                asked += 1;
                Ok(None)
            },
        );
        let error = got.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the thing: nothing after 100 µs; reset the function and start again"
        );
        assert_eq!(asked, 11, "ten pauses and a last look");
    }

    #[test]
    fn a_limit_of_zero_polls_once() {
        let clock = Ticks(Cell::new(5));
        let got: Result<u8, WaitError> = poll_until(&clock, "now", Ns(0), Ns(0), || Ok(Some(3)));
        assert_eq!(got, Ok(3));
        let mut asked = 0;
        let got: Result<u8, WaitError> = poll_until(&clock, "now", Ns(0), Ns(0), || {
            asked += 1;
            Ok(None)
        });
        assert!(got.is_err());
        assert_eq!(asked, 1);
    }

    #[test]
    fn a_late_answer_still_counts() {
        let clock = Ticks(Cell::new(0));
        let got: Result<u8, WaitError> = poll_until(&clock, "late", Ns(10), Ns(1_000), || {
            Ok((clock.0.get() > 0).then_some(1))
        });
        assert_eq!(got, Ok(1));
    }

    /// A thread that slept through the limit continues to ask, but not for ever.
    #[test]
    fn a_slow_question_does_not_eat_the_others() {
        let clock = Ticks(Cell::new(0));
        for (limit, most) in [(Ns::from_us(50), 6), (Ns::from_ms(100_000), 1_001)] {
            let mut asked = 0;
            let got: Result<(), WaitError> =
                poll_until(&clock, "slow", limit, Ns::from_us(10), || {
                    asked += 1;
                    clock.delay(limit);
                    Ok(None)
                });
            assert!(got.is_err());
            assert_eq!(asked, most);
        }
    }

    /// What asks fewer questions than 1000 keeps to its pause up to the end.
    #[test]
    fn a_short_wait_is_not_made_longer() {
        for (limit, pause) in [(50, 10), (35, 10), (5, 10), (9_990, 10)] {
            let (limit, pause) = (Ns::from_us(limit), Ns::from_us(pause));
            let clock = Ticks(Cell::new(0));
            let got: Result<(), WaitError> = poll_until(&clock, "short", limit, pause, || Ok(None));
            assert!(got.is_err());
            assert!(clock.now() < limit + pause, "{limit}: {}", clock.now());
        }
    }

    /// 1000 questions in 10 ms, and one every 100 µs from then on.
    #[test]
    fn a_long_wait_asks_less_often() {
        let clock = Ticks(Cell::new(0));
        let mut asked = 0;
        let limit = Ns::from_ms(1_000);
        let got: Result<(), WaitError> = poll_until(&clock, "long", limit, Ns::from_us(10), || {
            asked += 1;
            Ok(None)
        });
        assert!(got.is_err());
        assert_eq!(asked, 1_000 + 9_900 + 1);
        assert_eq!(clock.now(), limit);
    }

    #[test]
    fn all_ones_is_a_missing_device() {
        assert_eq!(live("x", 0x80), Ok(0x80));
        assert_eq!(
            live("x", u32::MAX),
            Err(WaitError::DeviceGone { label: "x" })
        );
    }
}
