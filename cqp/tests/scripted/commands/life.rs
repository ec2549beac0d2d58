//! The CQP and the CCQ made and destroyed, and where their memory goes.

use e810_cqp::{Config, Cqp, Error, Opcode};
use e810_hal::WaitError;

use super::{arp, close, create, small, with_ccq};
use crate::ccq_config;
use crate::fake::{Fake, Script, pf, scripted};

#[test]
fn the_ccq_completes_its_own_creation() {
    let (fake, mut cqp) = create(Script::default());
    assert_eq!(cqp.detach_ccq(), Err(Error::NoCcq));
    assert_eq!(cqp.arm_ccq(), Err(Error::NoCcq));
    fake.device_mut().static_announced = true;
    cqp.attach_ccq(ccq_config()).unwrap();
    assert!(cqp.has_ccq());
    assert_eq!(cqp.attach_ccq(ccq_config()), Err(Error::CcqAttached));
    let create = fake.device().taken[0];
    assert_eq!((create.op(), create.wqe[1]), (0x03, 0x123));
    // CHKOVERFLOW.
    assert_eq!(create.wqe[3] >> 46 & 1, 1);
    // The first entry was given back.
    let shadow = fake.device().ccq_shadow();
    assert_eq!(fake.word(shadow), Some(1));
    for n in 1..4 {
        cqp.arm_ccq().unwrap();
        assert_eq!(fake.device().arms.last(), Some(&(1 << 14 | n << 16)));
    }
    close(&fake, cqp);
}

#[test]
fn creation_fails_cleanly() {
    let create = |script: Script| {
        let fake = scripted(script);
        (Cqp::create(fake.clone(), small()).unwrap_err(), fake)
    };
    let (error, fake) = create(Script {
        refuse_cqp: true,
        ..Script::default()
    });
    assert_eq!(
        error,
        Error::CqpRefused {
            major: 0x12,
            minor: 0x34
        }
    );
    fake.assert_clean();

    let (error, fake) = create(Script {
        silent_cqp: true,
        ..Script::default()
    });
    assert!(matches!(
        error,
        Error::Wait(WaitError::Timeout {
            label: "CQP creation",
            ..
        })
    ));
    fake.assert_clean();

    for entries in [0, 2, 12, 4096] {
        let fake = scripted(Script::default());
        let config = Config {
            entries,
            ..Config::new(pf())
        };
        let error = Cqp::create(fake.clone(), config).unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }));
        fake.assert_clean();
    }
    for n in 0..2 {
        let fake = scripted(Script::default());
        fake.fail_allocation(n);
        let error = Cqp::create(fake.clone(), small()).unwrap_err();
        assert!(matches!(error, Error::Dma(_) | Error::HostMemory(_)));
        fake.assert_clean();
    }
}

#[test]
fn what_the_device_keeps_is_leaked() {
    let (fake, cqp) = create(Script {
        keeps_cqp: true,
        ..Script::default()
    });
    assert!(cqp.destroy().is_err());
    assert_eq!(fake.alive().0, 1, "the memory is still there");

    let (fake, mut cqp) = with_ccq(Script::default());
    fake.device_mut().script.silent = true;
    assert!(cqp.detach_ccq().is_err());
    assert!(!cqp.has_ccq());
    assert_eq!(fake.alive().0, 2, "the CCQ's memory is still there");
}

#[test]
fn a_refused_ccq_gives_its_memory_back() {
    let (fake, mut cqp) = create(Script {
        fail_op: Some(Opcode::CreateCq.code()),
        ..Script::default()
    });
    fake.device_mut().static_announced = true;
    let error = cqp.attach_ccq(ccq_config()).unwrap_err();
    assert!(matches!(
        error,
        Error::Cqp {
            op: Opcode::CreateCq,
            ..
        }
    ));
    assert!(!cqp.has_ccq());
    cqp.execute(&arp(1)).unwrap();
    fake.fail_allocation(0);
    assert!(matches!(cqp.attach_ccq(ccq_config()), Err(Error::Dma(_))));
    close(&fake, cqp);
}

#[test]
#[cfg_attr(miri, ignore = "seconds of polling")]
fn a_ccq_that_never_answers_keeps_its_memory() {
    // A device that says nothing may still write there.
    let (fake, mut cqp) = create(Script {
        silent: true,
        ..Script::default()
    });
    assert!(matches!(cqp.attach_ccq(ccq_config()), Err(Error::Wait(_))));
    assert_eq!(fake.alive().0, 2);
    cqp.release_after_reset();
    assert_eq!(fake.alive().0, 1);
}

#[test]
fn a_ccq_that_is_not_destroyed_stays() {
    let (fake, mut cqp) = with_ccq(Script {
        fail_op: Some(Opcode::DestroyCq.code()),
        ..Script::default()
    });
    assert!(matches!(cqp.detach_ccq(), Err(Error::Cqp { .. })));
    assert!(cqp.has_ccq());
    cqp.execute(&arp(1)).unwrap();
    let ticket = cqp.submit(&arp(2)).unwrap();
    assert!(matches!(cqp.detach_ccq(), Err(Error::Unfinished { .. })));
    cqp.wait(ticket).unwrap();
    fake.device_mut().script.fail_op = None;
    close(&fake, cqp);
}

/// A flush with nothing to flush, say: an everyday failure whose CQP_OP_ERR no
/// good command takes back.
#[test]
fn an_old_error_is_not_the_ccqs() {
    let failing = |fake: &Fake, op| fake.device_mut().script.fail_op = op;
    let (fake, mut cqp) = with_ccq(Script {
        sticky_error: true,
        ..Script::default()
    });
    failing(&fake, Some(Opcode::ManageArp.code()));
    assert!(matches!(cqp.execute(&arp(1)), Err(Error::Cqp { .. })));
    failing(&fake, None);
    cqp.detach_ccq().unwrap();
    assert!(!cqp.has_ccq());
    assert_eq!(fake.alive().0, 2, "kept until the CQP's end");
    // By registers, too.
    cqp.execute(&arp(2)).unwrap();
    cqp.destroy().unwrap();
    fake.assert_clean();
}

#[test]
fn a_refusal_with_other_codes_than_the_old_errors_is_one() {
    let (fake, mut cqp) = with_ccq(Script {
        sticky_error: true,
        ..Script::default()
    });
    fake.device_mut().script.fail_op = Some(Opcode::ManageArp.code());
    assert!(cqp.execute(&arp(1)).is_err());
    fake.device_mut().script.fail_op = Some(Opcode::DestroyCq.code());
    fake.device_mut().script.codes = 0xFFFF_8009;
    assert!(matches!(
        cqp.detach_ccq(),
        Err(Error::Cqp { minor: 0x8009, .. })
    ));
    // The way out: by registers, and the memory back with the CQP.
    cqp.part_from_ccq().unwrap();
    fake.device_mut().script.fail_op = None;
    cqp.execute(&arp(2)).unwrap();
    cqp.destroy().unwrap();
    assert_eq!(fake.alive().0, 0);
}
