//! Second tries of commands whose answers came late, or not.

use e810_cqp::limits::LATE_ANSWERS;
use e810_cqp::{Cqp, Error, Opcode};
use e810_hal::{Clock, Ns};

use super::{arp, close, with_ccq};
use crate::fake::{Fake, Script};

/// Commands are not taken meanwhile.
fn silently<T>(fake: &Fake, cqp: &mut Cqp<Fake>, what: impl FnOnce(&mut Cqp<Fake>) -> T) -> T {
    fake.device_mut().script.silent = true;
    let done = what(cqp);
    fake.device_mut().script.silent = false;
    done
}

fn taken(fake: &Fake) -> usize {
    fake.device().taken.len()
}

#[test]
#[cfg_attr(miri, ignore = "seconds of polling")]
fn one_that_worked_in_the_end_is_not_posted_again() {
    let (fake, mut cqp) = with_ccq(Script::default());
    let before = taken(&fake);
    let late = silently(&fake, &mut cqp, |cqp| cqp.execute_again(&arp(1), 7));
    assert!(late.unwrap_err().leaves_command_open());
    // Its end has come by the next look, or while it is waited for.
    cqp.execute_again(&arp(1), 7).unwrap();
    assert_eq!(taken(&fake) - before, 1);
    // A third try is a new command, and so is one for another object.
    let late = silently(&fake, &mut cqp, |cqp| cqp.execute_again(&arp(1), 7));
    assert!(late.is_err());
    cqp.execute_again(&arp(2), 8).unwrap();
    assert_eq!(taken(&fake) - before, 3);
    cqp.execute_again(&arp(1), 7).unwrap();
    cqp.execute_again(&arp(1), 7).unwrap();
    assert_eq!(taken(&fake) - before, 4);
    close(&fake, cqp);
}

#[test]
#[cfg_attr(miri, ignore = "seconds of polling")]
fn one_that_failed_in_the_end_is_posted_again() {
    let (fake, mut cqp) = with_ccq(Script::default());
    let before = taken(&fake);
    fake.device_mut().script.fail_op = Some(Opcode::ManageArp.code());
    let late = silently(&fake, &mut cqp, |cqp| cqp.execute_again(&arp(1), 7));
    assert!(late.is_err());
    fake.delay(Ns(1));
    fake.delay(Ns(1));
    fake.device_mut().script.fail_op = None;
    cqp.execute_again(&arp(1), 7).unwrap();
    assert_eq!(taken(&fake) - before, 2);
    close(&fake, cqp);
}

#[test]
#[cfg_attr(miri, ignore = "seconds of polling")]
fn one_that_has_not_ended_stays_one() {
    let (fake, mut cqp) = with_ccq(Script::default());
    let before = taken(&fake);
    silently(&fake, &mut cqp, |cqp| {
        for _ in 0..3 {
            let late = cqp.execute_again(&arp(1), 7);
            assert!(late.unwrap_err().leaves_command_open());
        }
        assert_eq!(cqp.late_end(Opcode::ManageArp, 7, false), Ok(None));
        assert_eq!(cqp.outstanding(), 1);
    });
    let ended = cqp.late_end(Opcode::ManageArp, 7, true).unwrap();
    assert!(matches!(ended, Some(Ok(_))));
    // Each end is given once.
    assert_eq!(cqp.late_end(Opcode::ManageArp, 7, true), Ok(None));
    assert_eq!(taken(&fake) - before, 1);
    close(&fake, cqp);
}

/// The oldest of too many is forgotten, and tried anew.
#[test]
#[cfg_attr(miri, ignore = "seconds of polling")]
fn so_many_are_remembered() {
    let (fake, mut cqp) = with_ccq(Script::default());
    for subject in 0..=LATE_ANSWERS as u64 {
        let late = silently(&fake, &mut cqp, |cqp| cqp.execute_again(&arp(1), subject));
        assert!(matches!(late, Err(Error::Wait(_))));
        // It ends, so that there is room in the ring.
        fake.delay(Ns(1));
        fake.delay(Ns(1));
        assert_eq!(cqp.poll(), Ok(None));
    }
    let before = taken(&fake);
    cqp.execute_again(&arp(1), 0).unwrap();
    assert_eq!(taken(&fake) - before, 1);
    for subject in 1..=LATE_ANSWERS as u64 {
        cqp.execute_again(&arp(1), subject).unwrap();
    }
    assert_eq!(taken(&fake) - before, 1);
    close(&fake, cqp);
}
