//! Enabling, pending events and throttling of vectors.

use super::*;

/// 2 µs and 4 µs (control-path 2.5).
const MASKING: Rules = Rules {
    auto_mask: true,
    units: Units {
        itr: 2_000,
        intrl: 4_000,
    },
};

const NOT_MASKING: Rules = Rules {
    auto_mask: false,
    ..MASKING
};

/// What irdma writes to enable a vector (control-path 2.4).
const ENABLE: u32 = INTENA | CLEARPBA;

fn two_vectors() -> Interrupts {
    Interrupts::new(2, Variation::default())
}

#[test]
fn a_vector_fires_once_and_waits_for_the_driver() {
    let mut irq = two_vectors();
    assert!(irq.raise(1, NO_ITR, MASKING, 0));
    assert_eq!(irq.take_fired(), [0; 0], "disabled after reset");
    irq.set_control(1, ENABLE, MASKING, 0);
    assert_eq!(irq.take_fired(), [1], "the event waited");
    assert_eq!(irq.control(1) & INTENA, 0, "masked by itself");
    irq.raise(1, NO_ITR, MASKING, 0);
    irq.raise(1, NO_ITR, MASKING, 0);
    assert_eq!(irq.take_fired(), [0; 0]);
    irq.set_control(1, ENABLE, MASKING, 0);
    assert_eq!(irq.take_fired(), [1], "two events, one message");
    irq.set_control(1, ENABLE, MASKING, 0);
    assert_eq!(irq.take_fired(), [0; 0]);
    assert_eq!(irq.control(1) & INTENA, INTENA);
}

#[test]
fn without_auto_mask_every_event_is_a_message() {
    let mut irq = two_vectors();
    irq.set_control(0, ENABLE, NOT_MASKING, 0);
    irq.raise(0, NO_ITR, NOT_MASKING, 0);
    irq.raise(0, NO_ITR, NOT_MASKING, 0);
    assert_eq!(irq.take_fired(), [0, 0]);
}

#[test]
fn a_disabled_vector_keeps_quiet() {
    let mut irq = two_vectors();
    irq.set_control(0, ENABLE, MASKING, 0);
    irq.set_control(0, 0, MASKING, 0);
    irq.raise(0, NO_ITR, MASKING, 0);
    assert_eq!(irq.take_fired(), [0; 0]);
}

#[test]
fn intena_msk_leaves_the_enable_bit() {
    let mut irq = two_vectors();
    irq.set_control(0, ENABLE, MASKING, 0);
    // The OICR set-up value of control-path 2.4.
    irq.set_control(0, 0x8600_0000, MASKING, 0);
    assert_eq!(irq.control(0) & INTENA, INTENA);
    irq.set_control(1, 0x8000_0000 | INTENA, MASKING, 0);
    assert_eq!(irq.control(1) & INTENA, 0);
}

#[test]
fn a_software_interrupt_is_an_event() {
    let mut irq = two_vectors();
    irq.set_control(0, SWINT_TRIG, MASKING, 0);
    assert_eq!(irq.take_fired(), [0; 0]);
    irq.set_control(0, SWINT_TRIG | INTENA, MASKING, 0);
    assert_eq!(irq.take_fired(), [0]);
    assert_eq!(irq.control(0) & ACTIONS, 0);
}

#[test]
fn the_strict_reading_of_clearpba_forgets_the_event() {
    let mut irq = Interrupts::new(
        1,
        Variation {
            clear_pba: ClearPba::Drops,
            ..Variation::default()
        },
    );
    irq.raise(0, NO_ITR, MASKING, 0);
    irq.set_control(0, ENABLE, MASKING, 0);
    assert_eq!(irq.take_fired(), [0; 0]);
    irq.raise(0, NO_ITR, MASKING, 0);
    assert_eq!(irq.take_fired(), [0]);
    irq.raise(0, NO_ITR, MASKING, 0);
    irq.set_control(0, INTENA, MASKING, 0);
    assert_eq!(irq.take_fired(), [0], "without CLEARPBA it is kept");
}

#[test]
fn intervals_are_kept_by_timer() {
    let mut irq = two_vectors();
    // INTERVAL 25 into ITR 0, then ITR_INDX 3, which names no timer.
    irq.set_control(0, ENABLE | 25 << 5, MASKING, 0);
    irq.set_control(0, ENABLE | NO_ITR << 3 | 99 << 5, MASKING, 0);
    assert_eq!([irq.itr(0, 0), irq.itr(1, 0), irq.itr(2, 0)], [25, 0, 0]);
    assert!(irq.set_itr(2, 0, 0xffff, MASKING, 0));
    assert_eq!(irq.itr(2, 0), 0xfff);
    assert!(!irq.set_itr(3, 0, 1, MASKING, 0));
    irq.reset();
    assert_eq!(irq.itr(0, 0), 0);
    assert_eq!(irq.control(0), 0);
}

#[test]
fn vectors_that_do_not_exist_are_refused() {
    let mut irq = two_vectors();
    assert!(!irq.raise(2, NO_ITR, MASKING, 0));
    assert!(!irq.set_control(2, ENABLE, MASKING, 0));
    assert!(!irq.set_itr(0, 2, 1, MASKING, 0));
    assert_eq!(irq.control(2), 0);
}

#[test]
fn a_cause_register_names_vector_timer_and_enable() {
    // GLINT_CEQCTL as control-path 8 programs it.
    let cause = Cause::from(0x4000_1800 | 5);
    assert_eq!(
        cause,
        Cause {
            vector: 5,
            itr: NO_ITR,
            enabled: true
        }
    );
    assert!(!Cause::from(0x1805).enabled);
}

/// GLINT_RATE: 3 units of 4 µs.
const RATE: u32 = 1 << 6 | 3;

#[test]
fn an_event_before_the_timer_waits_for_it_and_one_after_it_does_not() {
    let mut irq = two_vectors();
    irq.set_itr(0, 1, 50, MASKING, 0);
    irq.set_control(1, DYN_CTL_KEEP, MASKING, 0);
    irq.raise(1, 0, MASKING, 500);
    assert_eq!(irq.take_fired(), [1], "expired before the first event");
    irq.set_control(1, DYN_CTL_KEEP, MASKING, 600);
    irq.raise(1, 0, MASKING, 700);
    assert_eq!((irq.take_fired(), irq.next_due()), (vec![], Some(100_500)));
    irq.pass_time(MASKING, 100_499);
    assert_eq!(irq.take_fired(), [0; 0]);
    irq.pass_time(MASKING, 100_500);
    assert_eq!((irq.take_fired(), irq.next_due()), (vec![1], None));
    irq.set_control(1, DYN_CTL_KEEP, MASKING, 100_600);
    irq.raise(1, 0, MASKING, 200_500);
    assert_eq!(irq.take_fired(), [1], "exactly at the end");
}

/// Re-enabling, leaving the intervals alone (control-path 2.4).
const DYN_CTL_KEEP: u32 = ENABLE | NO_ITR << 3;

#[test]
fn one_interrupt_serves_the_causes_of_all_timers() {
    let mut irq = two_vectors();
    irq.set_itr(0, 0, 10, MASKING, 0);
    irq.set_itr(1, 0, 20, MASKING, 0);
    irq.set_control(0, DYN_CTL_KEEP, MASKING, 0);
    irq.raise(0, NO_ITR, MASKING, 0);
    assert_eq!(irq.take_fired(), [0]);
    irq.raise(0, 0, MASKING, 1);
    irq.raise(0, 1, MASKING, 2);
    irq.set_control(0, DYN_CTL_KEEP, MASKING, 3);
    assert_eq!(irq.next_due(), Some(20_000));
    irq.pass_time(MASKING, 20_000);
    assert_eq!(irq.take_fired(), [0]);
    irq.set_control(0, DYN_CTL_KEEP, MASKING, 20_001);
    irq.pass_time(MASKING, 1_000_000);
    assert_eq!(
        irq.take_fired(),
        [0; 0],
        "that of timer 1 was served with it"
    );
}

/// A timer keeps running while the vector is disabled: the event then waits for the enable only.
#[test]
fn enabling_finds_the_timer_expired() {
    let mut irq = two_vectors();
    irq.set_itr(0, 0, 10, MASKING, 0);
    irq.set_control(0, DYN_CTL_KEEP, MASKING, 0);
    irq.raise(0, 0, MASKING, 0);
    irq.raise(0, 0, MASKING, 5_000);
    assert_eq!((irq.take_fired(), irq.next_due()), (vec![0], None));
    irq.set_control(0, DYN_CTL_KEEP, MASKING, 25_000);
    assert_eq!(irq.take_fired(), [0]);
}

#[test]
fn a_new_interval_fires_what_waits() {
    for by_control in [false, true] {
        let mut irq = two_vectors();
        irq.set_itr(0, 0, 100, NOT_MASKING, 0);
        irq.set_control(0, DYN_CTL_KEEP, NOT_MASKING, 0);
        irq.raise(0, 0, NOT_MASKING, 0);
        irq.raise(0, 0, NOT_MASKING, 1_000);
        assert_eq!(irq.take_fired(), [0]);
        if by_control {
            irq.set_control(0, ENABLE | 100 << 5, NOT_MASKING, 2_000);
            assert_eq!(irq.take_fired(), [0; 0], "the same interval");
            irq.set_control(0, ENABLE | 99 << 5, NOT_MASKING, 2_000);
        } else {
            irq.set_itr(0, 0, 100, NOT_MASKING, 2_000);
            assert_eq!(irq.take_fired(), [0; 0], "the same interval");
            irq.set_itr(0, 0, 99, NOT_MASKING, 2_000);
        }
        assert_eq!(irq.take_fired(), [0]);
        irq.raise(0, 0, NOT_MASKING, 3_000);
        assert_eq!(irq.next_due(), Some(2_000 + 99 * 2_000));
    }
}

#[test]
fn the_rate_limit_holds_for_every_timer_and_for_none() {
    let mut irq = two_vectors();
    irq.set_rate(0, RATE, NOT_MASKING, 0);
    assert_eq!(irq.rate(0), RATE);
    irq.set_control(0, ENABLE, NOT_MASKING, 0);
    irq.raise(0, NO_ITR, NOT_MASKING, 1_000);
    assert_eq!(irq.take_fired(), [0], "a credit is there at first");
    for itr in [NO_ITR, 2] {
        irq.raise(0, itr, NOT_MASKING, 2_000);
    }
    assert_eq!(irq.next_due(), Some(13_000));
    irq.pass_time(NOT_MASKING, 12_999);
    assert_eq!(irq.take_fired(), [0; 0]);
    irq.pass_time(NOT_MASKING, 13_000);
    assert_eq!(irq.take_fired(), [0], "one for both");
    irq.raise(0, NO_ITR, NOT_MASKING, 14_000);
    irq.set_rate(0, 0, NOT_MASKING, 15_000);
    assert_eq!(irq.take_fired(), [0], "no limit any more");
}

/// Another vector does not have this one's interval and does not wait with it.
#[test]
fn each_vector_has_intervals_of_its_own() {
    let mut irq = two_vectors();
    for (vector, interval) in [(0, 10), (1, 25)] {
        irq.set_itr(0, vector, interval, MASKING, 0);
        irq.set_control(vector, DYN_CTL_KEEP, MASKING, 0);
        irq.raise(vector, 0, MASKING, 0);
    }
    assert_eq!([irq.itr(0, 0), irq.itr(0, 1)], [10, 25]);
    assert_eq!(irq.take_fired(), [0, 1]);
    for vector in [0, 1] {
        irq.set_control(vector, DYN_CTL_KEEP, MASKING, 100);
        irq.raise(vector, 0, MASKING, 1_000);
    }
    for (now, fired) in [
        (19_999, vec![]),
        (20_000, vec![0]),
        (49_999, vec![]),
        (50_000, vec![1]),
    ] {
        irq.pass_time(MASKING, now);
        assert_eq!(irq.take_fired(), fired, "{now} ns");
    }
}

/// Another vector does not take this one's credit.
#[test]
fn each_vector_has_a_rate_limit_of_its_own() {
    let mut irq = two_vectors();
    for (vector, units) in [(0, 3), (1, 7)] {
        irq.set_rate(vector, 1 << 6 | units, NOT_MASKING, 0);
        irq.set_control(vector, ENABLE, NOT_MASKING, 0);
        irq.raise(vector, NO_ITR, NOT_MASKING, 1_000);
    }
    assert_eq!(irq.take_fired(), [0, 1], "each has a credit");
    for vector in [0, 1] {
        irq.raise(vector, NO_ITR, NOT_MASKING, 2_000);
    }
    for (now, fired) in [
        (12_999, vec![]),
        (13_000, vec![0]),
        (28_999, vec![]),
        (29_000, vec![1]),
    ] {
        irq.pass_time(NOT_MASKING, now);
        assert_eq!(irq.take_fired(), fired, "{now} ns");
    }
    assert_eq!([irq.rate(0), irq.rate(1)], [1 << 6 | 3, 1 << 6 | 7]);
}

#[test]
fn a_software_interrupt_may_name_a_timer() {
    let mut irq = two_vectors();
    irq.set_itr(1, 0, 10, NOT_MASKING, 0);
    irq.set_control(0, DYN_CTL_KEEP, NOT_MASKING, 0);
    irq.raise(0, NO_ITR, NOT_MASKING, 0);
    let timed = DYN_CTL_KEEP | SWINT_TRIG | SW_ITR_INDX_ENA | 1 << 25;
    irq.set_control(0, timed, NOT_MASKING, 1_000);
    assert_eq!((irq.take_fired(), irq.next_due()), (vec![0], Some(20_000)));
    irq.set_control(0, DYN_CTL_KEEP | SWINT_TRIG, NOT_MASKING, 2_000);
    assert_eq!(irq.take_fired(), [0], "without the enable bit at once");
}

#[test]
fn a_write_back_sends_no_message_and_loses_none() {
    let mut irq = two_vectors();
    irq.set_itr(0, 0, 10, MASKING, 0);
    irq.set_control(0, WB_ON_ITR | NO_ITR << 3, MASKING, 0);
    irq.raise(0, 0, MASKING, 0);
    // Served, so the timer runs again.
    irq.raise(0, 0, MASKING, 1_000);
    assert_eq!((irq.take_fired(), irq.next_due()), (vec![], Some(20_000)));
    irq.pass_time(MASKING, 20_000);
    assert_eq!((irq.take_fired(), irq.next_due()), (vec![], None));
    irq.set_control(0, DYN_CTL_KEEP, MASKING, 21_000);
    assert_eq!(irq.take_fired(), [0]);
    irq.set_control(0, DYN_CTL_KEEP, MASKING, 22_000);
    irq.pass_time(MASKING, 1_000_000);
    assert_eq!(irq.take_fired(), [0; 0], "told once");
}

#[test]
fn a_disabled_vector_is_not_waited_for() {
    let mut irq = two_vectors();
    irq.set_itr(0, 0, 10, NOT_MASKING, 0);
    irq.set_control(0, DYN_CTL_KEEP, NOT_MASKING, 0);
    irq.raise(0, 0, NOT_MASKING, 0);
    irq.raise(0, 0, NOT_MASKING, 1);
    assert_eq!(irq.next_due(), Some(20_000));
    irq.set_control(0, 0, NOT_MASKING, 2);
    assert_eq!(irq.next_due(), None);
    irq.pass_time(NOT_MASKING, 30_000);
    assert_eq!(irq.take_fired(), [0], "the first only");
    irq.reset();
    assert_eq!((irq.next_due(), irq.rate(0)), (None, 0));
}
