//! Allocations, commands and devices that fail: what was begun is undone.

use e810_cqp::hmc::{Backing, Object, PbleUse};
use e810_cqp::{Config, Cqp, Error, Opcode};
use e810_hal::{Clock, Ns};
use proptest::prelude::*;

use super::{MANY_PBLES, SMALL, ask, attach, close, machine, made};
use crate::fake::{Script, pf, scripted};

/// Lets the n-th allocation fail, for every n, from the first query to a
/// list that grows: nothing is leaked, and the error names memory.
#[test]
fn every_failing_allocation_is_undone() {
    for backing in [Backing::Full, Backing::OnDemand] {
        let mut failures = 0;
        for n in 0.. {
            let (fake, mut cqp) = machine(Script::default());
            fake.fail_allocation(n);
            let before = fake.allocations();
            let result = ask(&mut cqp, SMALL, backing).and_then(|mut hmc| {
                let mut use_it = || {
                    hmc.ensure(&mut cqp, Object::Cq, 0)?;
                    attach(&mut cqp)?;
                    hmc.ensure(&mut cqp, Object::Qp, 3)?;
                    let free = hmc.pbles().0;
                    let list = hmc.allocate_pbles(&mut cqp, free, PbleUse::Queue)?;
                    hmc.free_pbles(list);
                    assert_eq!(hmc.pbles().0, free);
                    Ok(())
                };
                let result = use_it();
                if cqp.has_ccq() {
                    cqp.detach_ccq().unwrap();
                }
                hmc.destroy(&mut cqp).unwrap();
                result
            });
            let reached = fake.allocations() > before + n;
            cqp.destroy().unwrap();
            fake.assert_clean();
            match result {
                Ok(()) if !reached => break,
                // A segment that could not be had was replaced by pages.
                Ok(()) => assert_eq!(backing, Backing::Full, "allocation {n}"),
                Err(error) => {
                    assert!(
                        matches!(error, Error::Dma(_) | Error::HostMemory(_)),
                        "{error}"
                    );
                    failures += 1;
                }
            }
        }
        assert!(failures >= 6, "{failures}");
    }
}

/// Commands from the first to a finished HMC.
fn commands() -> u64 {
    let (fake, cqp, hmc) = made(SMALL, Backing::Full);
    let count = fake.device().taken.len() as u64;
    close(&fake, cqp, hmc);
    count
}

/// Lets every command from the n-th on fail, and only one kind: always an
/// error, and memory only leaks when the device refuses to give segments up.
#[test]
fn every_failing_command_is_undone() {
    for n in 0..commands() {
        let (fake, mut cqp) = machine(Script {
            fail_from: Some(n),
            ..Script::default()
        });
        let error = ask(&mut cqp, SMALL, Backing::Full).unwrap_err();
        assert!(matches!(error, Error::Cqp { .. }), "{n}: {error}");
        cqp.destroy().unwrap();
        if fake.device().segments.is_empty() {
            fake.assert_clean();
        } else {
            assert!(fake.alive().0 > 0, "segments are valid, so memory stays");
        }
    }
    for op in [
        Opcode::QueryFpmVal,
        Opcode::CommitFpmVal,
        Opcode::UpdatePeSds,
        Opcode::ShmcPagesAllocated,
    ] {
        let (fake, mut cqp) = machine(Script {
            fail_op: Some(op.code()),
            ..Script::default()
        });
        let error = ask(&mut cqp, SMALL, Backing::Full).unwrap_err();
        assert!(matches!(error, Error::Cqp { op: failed, .. } if failed == op));
        cqp.destroy().unwrap();
        fake.assert_clean();
    }
}

/// A device that falls silent at the n-th command: an error within bounds, and
/// nothing that it may still use is freed.
#[test]
fn a_silence_at_any_command_ends() {
    for n in 0..commands() {
        let (fake, mut cqp) = machine(Script {
            silent_from: Some(n),
            ..Script::default()
        });
        let error = ask(&mut cqp, SMALL, Backing::Full).unwrap_err();
        assert!(error.leaves_command_open(), "{n}: {error}");
        // One command was taken and not finished: its memory is still there.
        assert!(fake.alive().0 >= 2, "{n}");
        cqp.destroy().unwrap();
    }
}

/// Segments that the device refuses after it was given up are given to it again before an object
/// lies there, and not taken away from it in the end; those that it takes late are there.
#[test]
#[cfg_attr(miri, ignore = "seconds of polling")]
fn segments_whose_answer_comes_late_are_what_the_device_has() {
    for (refused, has_ended, is_used) in [
        (false, false, true),
        (false, true, true),
        (false, true, false),
        (true, false, true),
        (true, true, true),
        (true, true, false),
    ] {
        let (fake, mut cqp, mut hmc) = made(MANY_PBLES, Backing::Full);
        hmc.ensure(&mut cqp, Object::Cq, 0).unwrap();
        attach(&mut cqp).unwrap();
        let known = fake.device().segments.len();
        let free = hmc.pbles().0;
        fake.device_mut().script.silent = true;
        fake.device_mut().script.fail_op = refused.then_some(Opcode::UpdatePeSds.code());
        let late = hmc.allocate_pbles(&mut cqp, free, PbleUse::Queue);
        assert!(late.is_err_and(|error| error.leaves_command_open()));
        fake.device_mut().script.silent = false;
        if has_ended {
            for _ in 0..10 {
                fake.delay(Ns(1));
            }
            fake.device_mut().script.fail_op = None;
        }
        if is_used {
            if !has_ended {
                let again = hmc.allocate_pbles(&mut cqp, free, PbleUse::Queue);
                assert_eq!(again.is_err(), refused);
                again.into_iter().for_each(|list| hmc.free_pbles(list));
                fake.device_mut().script.fail_op = None;
            }
            let list = hmc.allocate_pbles(&mut cqp, free, PbleUse::Queue).unwrap();
            assert!(fake.device().segments.len() > known);
            hmc.free_pbles(list);
        }
        cqp.detach_ccq().unwrap();
        close(&fake, cqp, hmc);
    }
}

/// All-ones from the n-th register access on.
#[test]
fn a_device_may_leave_at_any_access() {
    let accesses = {
        let (fake, cqp, hmc) = made(SMALL, Backing::OnDemand);
        let count = fake.device().accesses();
        hmc.release_after_reset();
        cqp.release_after_reset();
        count
    };
    for n in 0..accesses {
        let fake = scripted(Script {
            gone_after: Some(n),
            ..Script::default()
        });
        let result = Cqp::create(fake.clone(), Config::new(pf()))
            .and_then(|mut cqp| ask(&mut cqp, SMALL, Backing::OnDemand).map(|_| ()));
        assert!(matches!(result, Err(Error::Wait(_))), "{n}: {result:?}");
    }
}

/// Replies of the device, any words at all: an error or a layout inside the
/// device's limits, never a panic.
#[test]
fn any_reply_is_handled() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let word = prop_oneof![
        Just(0u64),
        Just(u64::MAX),
        any::<u64>(),
        (0u64..16, any::<u32>()).prop_map(|(high, low)| high << 32 | u64::from(low)),
    ];
    let changes = prop::collection::vec((0usize..25, word), 1..6);
    runner
        .run(&changes, |changes| {
            let mut script = Script::default();
            for (place, word) in changes {
                script.fpm[place] = word;
            }
            let (fake, mut cqp) = machine(script);
            if let Ok(hmc) = ask(&mut cqp, SMALL, Backing::OnDemand) {
                hmc.destroy(&mut cqp).unwrap();
            }
            cqp.destroy().unwrap();
            prop_assert_eq!(fake.alive(), (0, 0));
            Ok(())
        })
        .unwrap();
}
