//! Choices about interrupt vectors and their timers.

/// A timer of a vector whose interval is changed while it runs. The card's description says that it
/// counts as expired `[inf changed_timer]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ChangedTimer {
    /// It has expired.
    Expires,
    /// It goes on to its end, and has the new interval from there on.
    RunsOn,
}

/// Which events the rate limit of a vector (GLINT_RATE) holds back. The description says that a timer
/// needs a credit; of events without a timer it says nothing `[inf rate_limits]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RateLimits {
    /// All.
    All,
    /// Those of a timer.
    Timed,
}

/// What GLINT_ITR reads as after GLINT_DYN_CTL has set an interval. Existing drivers never read it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ItrReads {
    /// The interval in force.
    InForce,
    /// What was written to GLINT_ITR.
    Written,
}

/// The unit of the timers of a vector. The field of GLINT_CTL is a number of µs; on a card of 25 Gb/s
/// drivers could also expect twice as long units `[inf itr_unit]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ItrUnit {
    /// The field's.
    Field,
    /// Twice as long.
    Double,
}

/// The unit of GLINT_RATE: 4 µs, or 8 µs on a card of 25 Gb/s (control-path 2.5). Linux writes with 4 µs on
/// every card `[inf rate_unit]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RateUnit {
    /// That of the card's speed.
    BySpeed,
    /// Twice as long.
    Double,
}

/// What a vector does with INTENA when it fires, with DIS_AUTOMASK of GLINT_CTL clear (control-path 2.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AutoMask {
    /// It clears it `[inf auto_mask]`.
    Clears,
    /// It leaves it.
    Leaves,
}

/// Whether LAN queues may share their vector with the asynchronous event queue (lan-path 6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SharedVector {
    /// They may `[inf shared_vector]`.
    Works,
    /// Their causes send nothing there.
    Silent,
}

/// A write of the interval that a timer already has. The description says what a changed one does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SameInterval {
    /// Nothing `[inf same_interval]`.
    Kept,
    /// The timer has expired.
    Expires,
}

/// The other timers of a vector whose causes are served: the description says that they are cleared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OtherTimers {
    /// They run again from then `[inf other_timers]`.
    RunAgain,
    /// They stay as they are.
    Stay,
}
