//! Devices that are silent or leave: every wait ends.

use e810_cqp::limits::NO_PROGRESS_LIMIT;
use e810_cqp::{Cqp, Error, Ticket};
use e810_hal::{Clock, Ns, WaitError};

use super::{arp, close, create, small, with_ccq};
use crate::ccq_config;
use crate::fake::{Script, scripted};

#[test]
#[cfg_attr(miri, ignore = "seconds of polling")]
fn a_silent_device_is_given_up_after_the_limit() {
    let (fake, mut cqp) = create(Script::default());
    fake.device_mut().script.silent = true;
    let before = fake.now();
    let result = cqp.execute(&arp(1));
    let limit = NO_PROGRESS_LIMIT;
    let label = "MANAGE_ARP";
    assert_eq!(
        result,
        Err(Error::Wait(WaitError::Timeout { label, limit }))
    );
    assert!(fake.now() - before >= limit && fake.now() - before < limit + Ns::from_ms(1));
    // The entry is not reused while the device may still work on it.
    assert!(matches!(cqp.submit(&arp(2)), Err(Error::Unfinished { .. })));
    fake.device_mut().script.silent = false;
    fake.delay(Ns(1));
    fake.delay(Ns(1));
    cqp.execute(&arp(3)).unwrap();
    assert_eq!(cqp.counters().late, 1);
    close(&fake, cqp);
}

#[test]
#[cfg_attr(miri, ignore = "seconds of polling")]
fn on_the_ccq_the_limit_counts_from_the_last_progress() {
    let (fake, mut cqp) = with_ccq(Script::default());
    // About 2 s for each command.
    fake.device_mut().script.steps = 20_000;
    let tickets: Vec<Ticket> = (0..4).map(|n| cqp.submit(&arp(n)).unwrap()).collect();
    let start = fake.now();
    cqp.wait(tickets[3]).unwrap();
    assert!(
        fake.now() - start > Ns::from_ms(5_000),
        "longer than the limit"
    );
    fake.device_mut().script.silent = true;
    let start = fake.now();
    let stuck = cqp.execute(&arp(9));
    assert!(matches!(
        stuck,
        Err(Error::Wait(WaitError::Timeout {
            label: "MANAGE_ARP",
            ..
        }))
    ));
    let waited = fake.now() - start;
    assert!(waited >= Ns::from_ms(5_000) && waited < Ns::from_ms(5_100));
    cqp.release_after_reset();
    assert_eq!(fake.alive(), (0, 0));
}

#[test]
fn a_timed_out_entry_waits_for_its_completion() {
    let (fake, mut cqp) = with_ccq(Script::default());
    fake.device_mut().script.silent = true;
    let first = cqp.submit(&arp(1)).unwrap();
    assert!(cqp.wait_within(first, Ns::from_us(50)).is_err());
    // Six more fit; the seventh would need the entry of the first.
    let others: Vec<Ticket> = (0..6).map(|n| cqp.submit(&arp(n)).unwrap()).collect();
    assert!(matches!(cqp.submit(&arp(1)), Err(Error::RingFull { .. })));
    assert_eq!(cqp.wait(first), Err(Error::UnknownTicket));
    fake.device_mut().script.silent = false;
    for ticket in others {
        assert_eq!(cqp.wait(ticket).unwrap().ticket, ticket);
    }
    assert_eq!(cqp.counters().late, 1);
    for n in 0..20 {
        cqp.execute(&arp(n)).unwrap();
    }
    close(&fake, cqp);
}

#[test]
fn forgotten_tickets_free_their_entries() {
    let (fake, mut cqp) = with_ccq(Script::default());
    for n in 0..30 {
        let ticket = cqp.submit(&arp(n)).unwrap();
        if n % 2 == 0 {
            // Before its end, and after.
            cqp.forget(ticket);
            cqp.forget(ticket);
        }
        fake.delay(Ns(1));
        fake.delay(Ns(1));
        if n % 2 == 1 {
            let other = cqp.submit(&arp(n)).unwrap();
            cqp.wait(other).unwrap();
            cqp.forget(ticket);
        }
    }
    assert_eq!(cqp.poll(), Ok(None));
    assert_eq!(cqp.counters().late, 15);
    close(&fake, cqp);
}

#[test]
fn a_device_that_leaves_is_noticed_everywhere() {
    let label_of = |error: Error| match error {
        Error::Wait(WaitError::DeviceGone { label }) => label,
        other => panic!("{other}"),
    };
    let fake = scripted(Script {
        gone_after: Some(0),
        ..Script::default()
    });
    let error = Cqp::create(fake.clone(), small()).unwrap_err();
    assert_eq!(label_of(error), "CQP creation");

    let (fake, mut cqp) = create(Script::default());
    fake.device_mut().script.gone_after = Some(0);
    label_of(cqp.submit(&arp(1)).unwrap_err());
    label_of(cqp.destroy().unwrap_err());

    let (fake, mut cqp) = with_ccq(Script::default());
    fake.device_mut().script.gone_after = Some(0);
    let start = fake.now();
    label_of(cqp.execute(&arp(1)).unwrap_err());
    assert!(
        fake.now() - start < Ns::from_ms(20),
        "well before the limit"
    );
    assert!(cqp.detach_ccq().is_err());
    assert!(cqp.destroy().is_err());
}

/// All-ones at every register access in turn: always an error, never a hang,
/// never a panic.
#[test]
fn a_device_may_leave_at_any_access() {
    let run = |gone_after: Option<u64>| -> Result<u64, Error> {
        let fake = scripted(Script {
            gone_after,
            ..Script::default()
        });
        fake.device_mut().static_announced = true;
        let mut cqp = Cqp::create(fake.clone(), small())?;
        cqp.execute(&arp(1))?;
        cqp.attach_ccq(ccq_config())?;
        cqp.execute(&arp(2))?;
        cqp.detach_ccq()?;
        cqp.destroy()?;
        let accesses = fake.device().accesses();
        Ok(accesses)
    };
    let all = run(None).unwrap();
    for n in 0..all {
        let result = run(Some(n));
        assert!(matches!(result, Err(Error::Wait(_))), "{n}: {result:?}");
    }
    assert!(run(Some(all)).is_ok());
}
