//! Resets, and firmware that is not ready.

use e810_adminq::Error;
use e810_adminq::reset::{self, GlobalReset, ResetDone};
use e810_hal::{Clock, Ns, WaitError};

use super::fake::Fake;

#[test]
fn a_function_reset_is_waited_for() {
    let fake = Fake::default();
    assert_eq!(reset::reset_function(&fake, false), Ok(ResetDone::Function));
    // One that existing drivers would report as failed, and one that is.
    fake.device_mut().reset_reads = 301;
    assert_eq!(reset::reset_function(&fake, false), Ok(ResetDone::Function));
    fake.device_mut().reset_reads = u32::MAX;
    let start = fake.now();
    assert!(reset::reset_function(&fake, false).is_err());
    assert!(fake.now() - start >= Ns::from_ms(5_300));
}

#[test]
fn a_running_reset_of_the_card_is_waited_for_instead() {
    let fake = Fake::default();
    fake.device_mut().set(0xB_8188, 1);
    let start = fake.now();
    let error = reset::reset_function(&fake, false).unwrap_err();
    assert!(matches!(error, Error::Wait(WaitError::Timeout { .. })));
    // GRSTDEL is 2: (2 + 10) times 100 ms.
    assert_eq!(fake.now() - start, Ns::from_ms(1_200));
    fake.device_mut().set(0xB_8188, 0);
    fake.device_mut().set(0xB_6008, 0x23B);
    assert!(
        reset::reset_function(&fake, false).is_err(),
        "a unit is missing"
    );
    fake.device_mut().set(0xB_6008, 0x33B);
    assert_eq!(reset::reset_function(&fake, false), Ok(ResetDone::Function));
    assert!(
        reset::reset_card(&fake, GlobalReset::Core, true).is_err(),
        "no engine"
    );
    assert_eq!(reset::reset_card(&fake, GlobalReset::Global, false), Ok(()));
}

#[test]
fn firmware_that_loads_or_is_in_recovery_mode() {
    let fake = Fake::default();
    reset::wait_for_firmware(&fake).unwrap();
    fake.device_mut().set(0xB_6134, 1 << 30);
    assert!(matches!(
        reset::wait_for_firmware(&fake),
        Err(Error::Wait(WaitError::Timeout { .. }))
    ));
    fake.device_mut().set(0xB_6134, 2);
    assert_eq!(
        reset::wait_for_firmware(&fake),
        Err(Error::RecoveryMode { fwsm: 2 })
    );
}

/// What existing drivers wait at most on an E810 (field-evidence 3.10).
#[test]
fn units_have_five_seconds() {
    let fake = Fake::default();
    fake.device_mut().set(0xB_6008, 0x23B);
    let start = fake.now();
    assert!(reset::wait_for_card(&fake, false).is_err());
    assert!(fake.now() - start >= Ns::from_ms(5_000));
}

/// The state need not show the reset at once.
#[test]
fn a_reset_of_the_card_is_checked_after_a_while() {
    let fake = Fake::default();
    let start = fake.now();
    reset::reset_card(&fake, GlobalReset::Core, false).unwrap();
    assert!(fake.now() - start >= Ns::from_ms(100));
}
