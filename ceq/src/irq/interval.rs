//! How long a vector waits: timers, intervals, and their units.

use e810_hal::bus::ItrIndex;
use e810_hal::clock::live;
use e810_hal::regs::{
    GL_PWR_MODE_CTL, GLINT_CTL, GLINT_DYN_CTL, GLINT_ITR, GLINT_RATE, INTRL_UNIT_25G_US,
    INTRL_UNIT_US, ITR_GRAN_ALL, ITR_MAX_US, ITR_UNIT_US,
};
use e810_hal::{Bus, Vector, WaitError, log_info};

use crate::error::{Error, Result};

/// The timer of a vector that delays a cause, or whose interval a write sets: the ITR_INDX fields
/// (control-path 2.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Timer {
    /// ITR 0.
    Itr0,
    /// ITR 1.
    Itr1,
    /// ITR 2.
    Itr2,
    /// None: the cause is not delayed, the write sets no interval.
    #[default]
    None,
}

impl Timer {
    /// The value of ITR_INDX fields for it.
    #[must_use]
    pub const fn field(self) -> u32 {
        match self {
            Self::Itr0 => 0,
            Self::Itr1 => 1,
            Self::Itr2 => 2,
            Self::None => 3,
        }
    }

    /// Index of its register; `None` has none.
    const fn index(self) -> Option<ItrIndex> {
        match self {
            Self::Itr0 => ItrIndex::new(0),
            Self::Itr1 => ItrIndex::new(1),
            Self::Itr2 => ItrIndex::new(2),
            Self::None => None,
        }
    }
}

/// Interval of a timer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Itr {
    /// At most the greatest value of INTERVAL fields.
    units: u32,
}

impl Itr {
    /// No interval: what existing drivers use.
    pub const NONE: Self = Self { units: 0 };

    /// An interval of `us` µs, rounded down to the register's unit of 2 µs (control-path 2.4,
    /// 2.5), which [`set_units`] ensures.
    ///
    /// # Errors
    /// [`Error::Interval`] above 8160 µs.
    pub const fn from_us(us: u32) -> Result<Self> {
        if us > ITR_MAX_US {
            return Err(Error::Interval {
                us,
                max: ITR_MAX_US,
            });
        }
        Ok(Self {
            units: us / ITR_UNIT_US,
        })
    }

    /// As [`Itr::from_us`]; the longest interval if `us` is above it.
    #[must_use]
    pub const fn at_most(us: u32) -> Self {
        let us = if us > ITR_MAX_US { ITR_MAX_US } else { us };
        Self {
            units: us / ITR_UNIT_US,
        }
    }

    /// The interval in µs.
    #[must_use]
    pub const fn us(self) -> u32 {
        self.units.wrapping_mul(ITR_UNIT_US)
    }

    /// The bits of a write to GLINT_DYN_CTL that set it.
    pub(super) const fn dyn_ctl(self, timer: Timer) -> u32 {
        let index = GLINT_DYN_CTL::ITR_INDX.val(timer.field()).value;
        match timer {
            // Without a timer the field has no meaning: existing drivers leave
            // it 0.
            Timer::None => index,
            _ => index | GLINT_DYN_CTL::INTERVAL.val(self.units).value,
        }
    }
}

/// Least time between two interrupts of a vector, whatever their cause (INTRL).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Intrl {
    /// GLINT_RATE.
    value: u32,
}

/// Greatest INTERVAL of GLINT_RATE.
const INTRL_MAX: u32 = 63;

impl Intrl {
    /// No limit.
    pub const NONE: Self = Self { value: 0 };

    /// A limit of one interrupt in `us` µs, rounded down to the unit of the
    /// card; below one unit there is no limit.
    ///
    /// # Errors
    /// [`Error::Interval`] above 63 units.
    pub const fn from_us(us: u32, units: Units) -> Result<Self> {
        let unit = units.intrl_us();
        let max = unit.wrapping_mul(INTRL_MAX);
        if us > max {
            return Err(Error::Interval { us, max });
        }
        let count = match us.checked_div(unit) {
            None | Some(0) => return Ok(Self::NONE),
            Some(count) => count,
        };
        let interval = GLINT_RATE::INTERVAL.val(count).value;
        Ok(Self {
            value: interval | GLINT_RATE::INTRL_ENA::SET.value,
        })
    }

    /// GLINT_RATE.
    #[must_use]
    pub const fn value(self) -> u32 {
        self.value
    }

    /// The least time between two interrupts in µs; 0 without a limit.
    #[must_use]
    pub const fn us(self, units: Units) -> u32 {
        (self.value & INTRL_MAX).wrapping_mul(units.intrl_us())
    }
}

/// The units of intervals on this card. Those of the timers are 2 µs on every card, once
/// [`set_units`] has run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Units {
    slow: bool,
    doubled: Doubled,
}

/// Units that a card has twice as long as drivers expect: what an experiment may have found
/// (`itr_unit` and `rate_unit` of docs/hardware-notes.md).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Doubled {
    /// Those of the timers, for a field of GLINT_CTL.
    pub timers: bool,
    /// That of the rate limit.
    pub rate: bool,
}

impl Units {
    /// By GL_PWR_MODE_CTL (control-path 2.5).
    #[must_use]
    pub fn of(power_mode: u32, doubled: Doubled) -> Self {
        Self {
            doubled,
            slow: GL_PWR_MODE_CTL::CAR_MAX_BW::Gbps25.matches_all(power_mode),
        }
    }

    /// Unit of [`Intrl`] in µs.
    #[must_use]
    pub const fn intrl_us(self) -> u32 {
        let unit = if self.slow {
            INTRL_UNIT_25G_US
        } else {
            INTRL_UNIT_US
        };
        unit << (self.doubled.rate as u32)
    }

    /// Unit of [`Itr`] in µs.
    #[must_use]
    pub const fn itr_us(self) -> u32 {
        ITR_UNIT_US
    }
}

/// The fields of GLINT_CTL that must be right; the others are reserved.
const GLINT_CTL_JUDGED: u32 = GLINT_CTL::DIS_AUTOMASK::SET.value
    | GLINT_CTL::ITR_GRAN_200::SET.value
    | GLINT_CTL::ITR_GRAN_100::SET.value
    | GLINT_CTL::ITR_GRAN_50::SET.value
    | GLINT_CTL::ITR_GRAN_25::SET.value;

/// Makes sure that a vector masks itself when it fires and that its timers count in units of 2
/// µs: GLINT_CTL = 0x22220000. It is written only when it holds anything else, because all
/// functions of the card share it. A card that nobody has set up has units of 0, with which no
/// interval delays anything.
///
/// With [`Doubled::timers`] half of that is written, which such a card takes for 2 µs.
///
/// Returns the units of intervals; two reads of registers.
///
/// # Errors
/// [`WaitError::DeviceGone`] when the device answers all-ones.
pub fn set_units(bus: &(impl Bus + ?Sized), doubled: Doubled) -> Result<Units, WaitError> {
    let wanted = ITR_GRAN_ALL >> u32::from(doubled.timers);
    let power_mode = GL_PWR_MODE_CTL.get(bus);
    let control = live("GLINT_CTL", GLINT_CTL.get(bus))?;
    if control & GLINT_CTL_JUDGED != wanted {
        log_info!("GLINT_CTL is {:#x}, {:#x} is written", control, wanted);
        GLINT_CTL.set(bus, wanted);
    }
    Ok(Units::of(power_mode, doubled))
}

/// Sets the interval of a vector's timer at once: GLINT_ITR(timer, v). Does nothing without a
/// timer.
pub fn set_interval(bus: &(impl Bus + ?Sized), vector: Vector, timer: Timer, itr: Itr) {
    if let Some(index) = timer.index() {
        GLINT_ITR
            .at(index, vector)
            .write(bus, GLINT_ITR::INTERVAL.val(itr.units));
    }
}

/// The interval of a vector's timer: GLINT_ITR(timer, v). None without a timer.
#[must_use]
pub fn interval(bus: &(impl Bus + ?Sized), vector: Vector, timer: Timer) -> Itr {
    let read = |index| GLINT_ITR.at(index, vector).get(bus) & GLINT_ITR::INTERVAL::SET.value;
    Itr {
        units: timer.index().map_or(0, read),
    }
}

/// The limit that a vector has: GLINT_RATE(v).
#[must_use]
pub fn rate_limit(bus: &(impl Bus + ?Sized), vector: Vector) -> Intrl {
    let fields = GLINT_RATE::INTRL_ENA::SET.value | GLINT_RATE::INTERVAL::SET.value;
    let value = GLINT_RATE.at(vector).get(bus) & fields;
    if value & GLINT_RATE::INTRL_ENA::SET.value == 0 {
        return Intrl::NONE;
    }
    Intrl { value }
}

/// Limits the rate of a vector's interrupts: GLINT_RATE(v).
pub fn limit_rate(bus: &(impl Bus + ?Sized), vector: Vector, limit: Intrl) {
    GLINT_RATE.at(vector).set(bus, limit.value);
}
