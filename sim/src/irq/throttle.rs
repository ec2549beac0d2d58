//! Interrupt throttling of a vector: three timers (ITR) and a rate limit (INTRL).
//!
//! The rules are those of the card's description that the project began with
//! (docs/hardware-notes.md, "Throttling"):
//!
//! * a timer runs from the vector's last interrupt; an event of that timer before its end waits for
//!   the end, one after it goes out at once;
//! * a timer whose interval is changed counts as expired;
//! * when a timer with a pending event has expired, the vector's other timers are cleared and all
//!   its causes are served;
//! * the rate limit must have a credit, whatever the timer.

use crate::variation::{
    ChangedTimer, ItrUnit, OtherTimers, RateLimits, RateUnit, SameInterval, Variation,
};

/// ITR_INDX value for "no timer": the interrupt waits for the rate limit only.
pub(crate) const NO_ITR: u32 = 3;

/// INTRL_ENA of GLINT_RATE (control-path 2.5).
const INTRL_ENA: u32 = 1 << 6;
/// INTERVAL of GLINT_RATE.
const RATE_INTERVAL: u32 = 0x3f;

/// Units of the intervals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Units {
    /// Unit of GLINT_ITR and GLINT_DYN_CTL.INTERVAL, in ns.
    pub(crate) itr: u64,
    /// Unit of GLINT_RATE, in ns.
    pub(crate) intrl: u64,
}

impl Units {
    /// The units from GL_PWR_MODE_CTL and GLINT_CTL (control-path 2.5).
    ///
    /// The granularity field for the card's bandwidth is a number of µs; with 0 every interval ends
    /// at once `[inf zero_granularity]`.
    pub(crate) fn of(power_mode: u32, glint_ctl: u32, choices: &Variation) -> Self {
        // CAR_MAX_BW: 0 = 200G, 1 = 100G, 2 = 50G, 3 = 25G; ITR_GRAN_200 [19:16] and so on upwards.
        let class = power_mode >> 30;
        let granularity = glint_ctl >> (16 + 4 * class) & 0xf;
        let intrl = if class == 3 { 8 } else { 4 };
        let times = |is_double| if is_double { 2_000 } else { 1_000 };
        Self {
            itr: u64::from(granularity) * times(choices.itr_unit == ItrUnit::Double),
            intrl: intrl * times(choices.rate_unit == RateUnit::Double),
        }
    }
}

/// One timer of a vector.
#[derive(Clone, Copy, Default, Debug)]
struct Timer {
    /// Interval, in units of the ITR granularity.
    interval: u16,
    /// Time of expiry, in ns.
    expires: u64,
}

/// Waiting events, by timer; the last entry is for events without a timer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Waiting(u8);

impl Waiting {
    pub(super) fn add(&mut self, itr: u32) {
        self.0 |= 1 << (itr & 3);
    }

    fn has(self, itr: u32) -> bool {
        self.0 & 1 << itr != 0
    }
}

/// Timers and rate limit of one vector.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Throttle {
    timers: [Timer; 3],
    /// GLINT_RATE as written.
    rate: u32,
    /// Time at which the credit taken by the last message is restored, in ns.
    ///
    /// There is one credit, restored an interval after it was taken: the description only says that
    /// the credit must be positive `[inf one_credit]`.
    credit: u64,
}

impl Throttle {
    pub(super) fn interval(&self, itr: u32) -> u16 {
        self.timers
            .get(itr as usize)
            .map_or(0, |timer| timer.interval)
    }

    /// Sets the interval of a timer; false when there is no such timer.
    pub(super) fn set_interval(&mut self, itr: u32, interval: u16, choices: &Variation) -> bool {
        let Some(timer) = self.timers.get_mut(itr as usize) else {
            return false;
        };
        let has_expired = match timer.interval == interval {
            true => choices.same_interval == SameInterval::Expires,
            false => choices.changed_timer == ChangedTimer::Expires,
        };
        timer.interval = interval;
        if has_expired {
            timer.expires = 0;
        }
        true
    }

    pub(super) fn rate(&self) -> u32 {
        self.rate
    }

    pub(super) fn set_rate(&mut self, rate: u32) {
        self.rate = rate;
    }

    fn limits(&self) -> bool {
        self.rate & INTRL_ENA != 0
    }

    /// Time at which the first waiting event may be served; `None` when none waits.
    pub(super) fn due(&self, waiting: Waiting, limits: RateLimits) -> Option<u64> {
        let credit = if self.limits() { self.credit } else { 0 };
        let timers = (0..).zip(&self.timers);
        let timed = timers
            .filter(|(itr, _)| waiting.has(*itr))
            .map(|(_, timer)| timer.expires.max(credit));
        let untimed = match limits {
            RateLimits::All => credit,
            RateLimits::Timed => 0,
        };
        timed.chain(waiting.has(NO_ITR).then_some(untimed)).min()
    }

    /// The vector's causes were served at `now`, which restarts all its timers. `message`: a
    /// message was sent, which takes a credit.
    pub(super) fn served(
        &mut self,
        now: u64,
        units: Units,
        message: bool,
        waiting: Waiting,
        others: OtherTimers,
    ) {
        for (itr, timer) in (0..).zip(&mut self.timers) {
            if others == OtherTimers::Stay && !waiting.has(itr) {
                continue;
            }
            timer.expires = now + u64::from(timer.interval) * units.itr;
        }
        if message && self.limits() {
            let interval = u64::from(self.rate & RATE_INTERVAL);
            self.credit = now + interval * units.intrl;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: Units = Units {
        itr: 2_000,
        intrl: 4_000,
    };

    fn waiting(itr: u32) -> Waiting {
        let mut waiting = Waiting::default();
        waiting.add(itr);
        waiting
    }

    #[test]
    fn units_go_by_the_bandwidth_of_the_card() {
        let two = 0x2222_0000;
        for (class, itr, intrl) in [(0, 2, 4), (1, 2, 4), (2, 2, 4), (3, 2, 8)] {
            let units = Units::of(class << 30, two, &Variation::default());
            assert_eq!(
                (units.itr, units.intrl),
                (itr * 1_000, intrl * 1_000),
                "{class}"
            );
        }
        let usual = Variation::default();
        // Each bandwidth has a field of its own.
        for (class, itr) in [(0, 1), (1, 2), (2, 3), (3, 4)] {
            assert_eq!(Units::of(class << 30, 0x4321_0000, &usual).itr, itr * 1_000);
        }
        assert_eq!(Units::of(1 << 30, 0, &usual).itr, 0);
    }

    #[test]
    fn a_timer_runs_from_the_last_interrupt() {
        let mut throttle = Throttle::default();
        assert!(throttle.set_interval(1, 25, &Variation::default()));
        assert_eq!(
            throttle.due(waiting(1), RateLimits::All),
            Some(0),
            "never served: expired"
        );
        throttle.served(
            1_000,
            UNITS,
            true,
            Waiting::default(),
            OtherTimers::RunAgain,
        );
        assert_eq!(throttle.due(waiting(1), RateLimits::All), Some(51_000));
        // The other timers have no interval, so none waits for a timer.
        assert_eq!(throttle.due(waiting(0), RateLimits::All), Some(1_000));
        assert_eq!(throttle.due(waiting(NO_ITR), RateLimits::All), Some(0));
        assert_eq!(throttle.due(Waiting::default(), RateLimits::All), None);
    }

    #[test]
    fn the_first_timer_to_expire_speaks_for_all() {
        let mut throttle = Throttle::default();
        throttle.set_interval(0, 100, &Variation::default());
        throttle.set_interval(2, 10, &Variation::default());
        throttle.served(0, UNITS, true, Waiting::default(), OtherTimers::RunAgain);
        let mut both = waiting(0);
        assert_eq!(throttle.due(both, RateLimits::All), Some(200_000));
        both.add(2);
        assert_eq!(throttle.due(both, RateLimits::All), Some(20_000));
        throttle.served(
            20_000,
            UNITS,
            true,
            Waiting::default(),
            OtherTimers::RunAgain,
        );
        assert_eq!(
            throttle.due(waiting(0), RateLimits::All),
            Some(220_000),
            "cleared, too"
        );
    }

    #[test]
    fn a_changed_interval_counts_as_expired_and_an_unchanged_one_does_not() {
        let mut throttle = Throttle::default();
        throttle.set_interval(0, 50, &Variation::default());
        throttle.served(
            7_000,
            UNITS,
            true,
            Waiting::default(),
            OtherTimers::RunAgain,
        );
        throttle.set_interval(0, 50, &Variation::default());
        assert_eq!(throttle.due(waiting(0), RateLimits::All), Some(107_000));
        throttle.set_interval(0, 51, &Variation::default());
        assert_eq!(throttle.due(waiting(0), RateLimits::All), Some(0));
        assert!(!throttle.set_interval(3, 1, &Variation::default()));
        assert_eq!((throttle.interval(0), throttle.interval(3)), (51, 0));
    }

    #[test]
    fn a_message_takes_the_credit_for_an_interval() {
        let mut throttle = Throttle::default();
        throttle.set_rate(INTRL_ENA | 5);
        assert_eq!(
            throttle.due(waiting(NO_ITR), RateLimits::All),
            Some(0),
            "there at first"
        );
        throttle.served(
            1_000,
            UNITS,
            true,
            Waiting::default(),
            OtherTimers::RunAgain,
        );
        assert_eq!(throttle.due(waiting(NO_ITR), RateLimits::All), Some(21_000));
        // A write-back takes no credit.
        throttle.served(
            30_000,
            UNITS,
            false,
            Waiting::default(),
            OtherTimers::RunAgain,
        );
        assert_eq!(throttle.due(waiting(NO_ITR), RateLimits::All), Some(21_000));
        // Whichever is later.
        throttle.set_interval(0, 4, &Variation::default());
        throttle.served(
            30_000,
            UNITS,
            true,
            Waiting::default(),
            OtherTimers::RunAgain,
        );
        assert_eq!(throttle.due(waiting(0), RateLimits::All), Some(50_000));
        throttle.set_interval(0, 30, &Variation::default());
        throttle.served(
            50_000,
            UNITS,
            true,
            Waiting::default(),
            OtherTimers::RunAgain,
        );
        assert_eq!(throttle.due(waiting(0), RateLimits::All), Some(110_000));
        throttle.set_rate(5);
        assert_eq!(
            throttle.due(waiting(NO_ITR), RateLimits::All),
            Some(0),
            "not enabled"
        );
    }
}
