use super::*;
use crate::error::Error;
use core::cell::RefCell;
use e810_hal::{RegOffset, WaitError};
use std::vec;
use std::vec::Vec;

/// Remembers writes; reads come from a list of registers, any other is a
/// mistake.
#[derive(Default)]
struct Log {
    writes: RefCell<Vec<(u32, u32)>>,
    reads: Vec<(u32, u32)>,
}

impl Bus for Log {
    fn read32(&self, off: RegOffset) -> u32 {
        let known = self.reads.iter().find(|(at, _)| *at == off.get());
        known.map(|(_, value)| *value).unwrap()
    }
    fn write32(&self, off: RegOffset, value: u32) {
        self.writes.borrow_mut().push((off.get(), value));
    }
}

const DYN_CTL: u32 = 0x16_0000;
const CEQCTL: u32 = 0x15_C000;
const AEQCTL: u32 = 0x16_CB00;
const ITR: u32 = 0x15_4000;
const RATE: u32 = 0x15_A000;
const CTL: u32 = 0x16_CC54;
const PWR_MODE_CTL: u32 = 0xB_820C;

fn writes(act: impl FnOnce(&Log)) -> Vec<(u32, u32)> {
    let log = Log::default();
    act(&log);
    log.writes.into_inner()
}

fn vector(index: u16) -> Vector {
    Vector::new(index).unwrap()
}

#[test]
fn a_ceq_is_bound_cause_first_and_unbound_cause_first() {
    let ceq = CeqId::new(7).unwrap();
    for (shared, timer) in [(false, 0), (true, 1)] {
        let named = ceq_timer(shared);
        assert_eq!(
            writes(|bus| bind_ceq(bus, ceq, vector(5), named, Itr::from_us(8).unwrap())),
            [
                (RATE + 20, 0),
                (CEQCTL + 28, 0x4000_0005 | timer << 11),
                (DYN_CTL + 20, 0x83 | timer << 3)
            ]
        );
        assert_eq!(
            writes(|bus| unbind_ceq(bus, ceq, vector(5), named)),
            [
                (CEQCTL + 28, 0x5 | timer << 11),
                (DYN_CTL + 20, 0),
                (RATE + 20, 0)
            ]
        );
    }
}

#[test]
fn the_aeq_leaves_a_shared_vector_alone() {
    assert_eq!(
        writes(|bus| bind_aeq(bus, vector(2047), false)),
        [(AEQCTL, 0x4000_1FFF), (DYN_CTL + 8188, 0x1B)]
    );
    assert_eq!(
        writes(|bus| unbind_aeq(bus, vector(1), false)),
        [(AEQCTL, 0x1801), (DYN_CTL + 4, 0), (AEQCTL, 0)]
    );
    assert_eq!(
        writes(|bus| bind_aeq(bus, vector(1), true)),
        [(AEQCTL, 0x4000_1801)]
    );
    assert_eq!(
        writes(|bus| unbind_aeq(bus, vector(1), true)),
        [(AEQCTL, 0)]
    );
}

#[test]
fn intervals_are_in_units_of_2_us() {
    let enable = |us| {
        let itr = Itr::from_us(us).unwrap();
        writes(|bus| enable_vector(bus, vector(0), Timer::Itr0, itr))
    };
    assert_eq!(enable(20), [(DYN_CTL, 0x143)]);
    assert_eq!(enable(1), [(DYN_CTL, 0x3)]);
    assert_eq!(enable(8160), [(DYN_CTL, 4080 << 5 | 3)]);
    assert_eq!(Itr::from_us(21).map(Itr::us), Ok(20));
    assert_eq!(
        Itr::from_us(8161),
        Err(Error::Interval {
            us: 8161,
            max: 8160
        })
    );
    assert_eq!(Itr::default(), Itr::NONE);
    assert_eq!(Itr::at_most(51).us(), 50);
    assert_eq!(Itr::at_most(u32::MAX).us(), 8160);
}

#[test]
fn an_interval_belongs_to_a_timer() {
    let itr = Itr::from_us(124).unwrap();
    for (timer, at, enable) in [
        (Timer::Itr0, Some(ITR), 62 << 5 | 0x3),
        (Timer::Itr1, Some(ITR + 8192), 62 << 5 | 0xB),
        (Timer::Itr2, Some(ITR + 2 * 8192), 62 << 5 | 0x13),
        // No interval for a timer that there is not.
        (Timer::None, None, 0x1B),
    ] {
        let set: Vec<_> = at.map(|at| (at + 12, 62)).into_iter().collect();
        assert_eq!(writes(|bus| set_interval(bus, vector(3), timer, itr)), set);
        assert_eq!(
            writes(|bus| enable_vector(bus, vector(3), timer, itr)),
            [(DYN_CTL + 12, enable)]
        );
    }
}

/// Whether GLINT_CTL is written, and the unit of INTRL.
fn units(power_mode: u32, control: u32) -> (Vec<(u32, u32)>, Result<Units, WaitError>) {
    let log = Log {
        reads: [(PWR_MODE_CTL, power_mode), (CTL, control)].into(),
        ..Log::default()
    };
    let units = set_units(&log, Doubled::default());
    (log.writes.into_inner(), units)
}

#[test]
fn units_are_set_where_they_differ_only() {
    for control in [
        0,
        0x2222_0001,
        0x2222_0000 ^ 1 << 31,
        0x2224_0000,
        0x2242_0000,
        0x2422_0000,
        0x4222_0000,
    ] {
        assert_eq!(units(0, control).0, [(CTL, 0x2222_0000)], "{control:#x}");
    }
    // Reserved bits are not ours to judge.
    for control in [0x2222_0000, 0x2222_FFFE] {
        assert_eq!(units(0, control).0, []);
    }
    let gone = units(0, u32::MAX);
    assert_eq!(gone.0, []);
    assert!(matches!(gone.1, Err(WaitError::DeviceGone { .. })));
}

#[test]
fn the_rate_limit_goes_by_the_bandwidth_of_the_card() {
    for (class, unit) in [(0, 4), (1, 4), (2, 4), (3, 8)] {
        let units = units(class << 30 | 0x7, 0x2222_0000).1.unwrap();
        assert_eq!((units.intrl_us(), units.itr_us()), (unit, 2));
        let rate = |us| {
            let limit = Intrl::from_us(us, units).unwrap();
            writes(|bus| limit_rate(bus, vector(9), limit))
        };
        assert_eq!(rate(0), [(RATE + 36, 0)]);
        assert_eq!(rate(unit - 1), [(RATE + 36, 0)]);
        assert_eq!(rate(unit), [(RATE + 36, 0x41)]);
        assert_eq!(rate(5 * unit + unit - 1), [(RATE + 36, 0x45)]);
        assert_eq!(rate(63 * unit), [(RATE + 36, 0x7F)]);
        assert_eq!(
            Intrl::from_us(63 * unit + 1, units),
            Err(Error::Interval {
                us: 63 * unit + 1,
                max: 63 * unit
            })
        );
    }
}

/// For monitoring: what the registers hold, reserved bits aside.
#[test]
fn intervals_and_limits_are_read_back() {
    let log = Log {
        reads: vec![(ITR + 8192 + 12, 0xF000 | 25), (RATE + 12, 0xFF80 | 0x45)],
        ..Log::default()
    };
    assert_eq!(interval(&log, vector(3), Timer::Itr1).us(), 50);
    assert_eq!(interval(&log, vector(3), Timer::None), Itr::NONE);
    for (class, us) in [(0, 20), (3, 40)] {
        let units = Units::of(class << 30, Doubled::default());
        assert_eq!(rate_limit(&log, vector(3)).us(units), us);
    }
    // Without the enable bit an interval limits nothing.
    let off = Log {
        reads: vec![(RATE + 12, 5)],
        ..Log::default()
    };
    assert_eq!(rate_limit(&off, vector(3)), Intrl::NONE);
    assert_eq!(log.writes.into_inner(), []);
}

#[test]
fn doubled_units_are_taken_into_account() {
    let log = Log {
        reads: [(PWR_MODE_CTL, 1 << 30), (CTL, 0x2222_0000)].into(),
        ..Log::default()
    };
    let doubled = Doubled {
        timers: true,
        rate: true,
    };
    let units = set_units(&log, doubled).unwrap();
    assert_eq!(log.writes.into_inner(), [(CTL, 0x1111_0000)]);
    assert_eq!((units.itr_us(), units.intrl_us()), (2, 8));
}
