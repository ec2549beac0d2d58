//! The CQP against a scripted device: order, laps, both kinds of completion,
//! and everything that can go wrong with them.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that panics fails, as it should"
)]

mod fake;

use e810_cqp::op::{AllocateLocalMac, ManageApbvt, ManageArp, SdEntry, SdKind, SuspendQp};
use e810_cqp::op::{ArpChange, Command};
use e810_cqp::{CcqConfig, Config, Cqp, Error, Opcode, Ticket};
use e810_hal::bus::{CeqId, VsiId};
use e810_hal::{Clock, Iova, Ns, WaitError};
use fake::{Fake, Script, pf};
use proptest::prelude::*;

fn small() -> Config {
    Config {
        entries: 8,
        ..Config::new(pf())
    }
}

fn ccq_config() -> CcqConfig {
    CcqConfig {
        ceq: CeqId::new(0).unwrap(),
        vsi: VsiId::new(21).unwrap(),
        context: 0x123,
    }
}

fn create(script: Script) -> (Fake, Cqp<Fake>) {
    let fake = Fake::new(script);
    let cqp = Cqp::create(fake.clone(), small()).unwrap();
    (fake, cqp)
}

fn with_ccq(script: Script) -> (Fake, Cqp<Fake>) {
    let (fake, mut cqp) = create(script);
    fake.device().static_announced = true;
    cqp.attach_ccq(ccq_config()).unwrap();
    (fake, cqp)
}

fn arp(index: u16) -> ManageArp {
    ManageArp {
        index,
        change: ArpChange::Delete,
    }
}

fn close(fake: &Fake, mut cqp: Cqp<Fake>) {
    if cqp.has_ccq() {
        cqp.detach_ccq().unwrap();
    }
    cqp.destroy().unwrap();
    fake.assert_clean();
}

#[test]
fn by_registers_one_at_a_time() {
    let (fake, mut cqp) = create(Script::default());
    for n in 0..20 {
        let done = cqp.execute(&arp(n)).unwrap();
        assert_eq!((done.op, done.ret_val), (Opcode::ManageArp, 0));
    }
    let taken: Vec<u64> = fake.look().taken.iter().map(|t| t.wqe[3] & 0xFFF).collect();
    assert!(taken.into_iter().eq(0..20));
    assert_eq!(cqp.counters().completed, 20);

    let ticket = cqp.submit(&arp(1)).unwrap();
    let second = cqp.submit(&arp(2));
    assert_eq!(
        second,
        Err(Error::Unfinished {
            op: Opcode::ManageArp
        })
    );
    // Nor is a CCQ begun meanwhile, and its memory is given back.
    let alive = fake.alive();
    let attach = cqp.attach_ccq(ccq_config());
    assert!(matches!(attach, Err(Error::Unfinished { .. })));
    assert_eq!(fake.alive(), alive);
    cqp.wait(ticket).unwrap();
    close(&fake, cqp);
}

#[test]
fn poll_reports_by_registers_too() {
    let (fake, mut cqp) = create(Script::default());
    let ticket = cqp.submit(&SuspendQp { qp: 5 }).unwrap();
    assert_eq!(cqp.poll(), Ok(None));
    fake.delay(Ns(1));
    fake.delay(Ns(1));
    let done = cqp.poll().unwrap().unwrap();
    assert_eq!(done.ticket, ticket);
    assert_eq!(cqp.poll(), Ok(None));
    assert_eq!(cqp.wait(ticket), Err(Error::UnknownTicket));
    close(&fake, cqp);
}

#[test]
fn the_ccq_completes_its_own_creation() {
    let (fake, mut cqp) = create(Script::default());
    assert_eq!(cqp.detach_ccq(), Err(Error::NoCcq));
    assert_eq!(cqp.arm_ccq(), Err(Error::NoCcq));
    fake.device().static_announced = true;
    cqp.attach_ccq(ccq_config()).unwrap();
    assert!(cqp.has_ccq());
    assert_eq!(cqp.attach_ccq(ccq_config()), Err(Error::CcqAttached));
    let create = fake.look().taken[0];
    assert_eq!((create.op(), create.wqe[1]), (0x03, 0x123));
    // The first entry was given back.
    let shadow = fake.look().ccq_shadow();
    assert_eq!(fake.word(shadow), Some(1));
    for n in 1..4 {
        cqp.arm_ccq().unwrap();
        assert_eq!(fake.look().arms.last(), Some(&(1 << 14 | n << 16)));
    }
    close(&fake, cqp);
}

#[test]
fn many_in_flight_many_laps() {
    let (fake, mut cqp) = with_ccq(Script::default());
    let mut tickets = std::collections::VecDeque::new();
    let mut number = 0u16;
    let rounds = if cfg!(miri) { 4 } else { 50 };
    for _ in 0..rounds {
        while let Ok(ticket) = cqp.submit(&arp(number)) {
            tickets.push_back((number, ticket));
            number += 1;
        }
        assert_eq!(cqp.outstanding(), 7);
        assert_eq!(cqp.submit(&arp(0)), Err(Error::RingFull { entries: 7 }));
        // Each is waited for out of order: first the newest, then the rest.
        let (_, newest) = tickets.pop_back().unwrap();
        let done = cqp.wait(newest).unwrap();
        assert_eq!(done.ticket, newest);
        assert_eq!(cqp.outstanding(), 0);
        while let Some((_, ticket)) = tickets.pop_front() {
            let done = cqp.poll().unwrap().unwrap();
            assert_eq!(done.ticket, ticket, "poll reports in order");
        }
        assert_eq!(cqp.poll(), Ok(None));
    }
    assert_eq!(cqp.counters().posted, rounds * 7 + 1);
    assert_eq!(cqp.counters().malformed, 0);
    close(&fake, cqp);
}

#[test]
fn a_return_value_and_an_error_come_through() {
    let (fake, mut cqp) = with_ccq(Script {
        fail_op: Some(Opcode::ManageApbvt.code()),
        ..Script::default()
    });
    let done = cqp.execute(&AllocateLocalMac).unwrap();
    assert_eq!(done.ret_val, 0x1001, "entry 1");
    let failed = cqp.execute(&ManageApbvt { port: 1, add: true });
    assert_eq!(
        failed,
        Err(Error::Cqp {
            op: Opcode::ManageApbvt,
            major: 0xFFFF,
            minor: 0x8002
        })
    );
    let ticket = cqp.submit(&ManageApbvt { port: 1, add: true }).unwrap();
    let done = loop {
        fake.delay(Ns(1));
        if let Some(done) = cqp.poll().unwrap() {
            break done;
        }
    };
    assert_eq!(
        (done.ticket, done.error, done.major),
        (ticket, true, 0xFFFF)
    );
    assert!(done.check().is_err());
    assert_eq!(cqp.counters().failed, 2);
    close(&fake, cqp);
}

#[test]
fn an_old_error_bit_is_not_blamed_on_the_next_command() {
    let (fake, mut cqp) = create(Script {
        fail_op: Some(Opcode::ManageApbvt.code()),
        steps: 3,
        ..Script::default()
    });
    for _ in 0..3 {
        let failed = cqp.execute(&ManageApbvt { port: 1, add: true });
        assert!(matches!(failed, Err(Error::Cqp { .. })), "{failed:?}");
        assert!(cqp.execute(&arp(1)).is_ok());
    }
    close(&fake, cqp);
}

#[test]
fn malformed_entries_are_skipped_and_nothing_moves() {
    let (fake, mut cqp) = with_ccq(Script::default());
    // Of another CQP, of another entry, far outside the ring; twice a ring full.
    let bad = [(1, 0), (0, 1), (0, 2), (0, 0x7FF0), (u64::MAX, 5)];
    for bad in bad.into_iter().cycle().take(20) {
        fake.device().script.bad_entries.push_back(bad);
        cqp.execute(&arp(1)).unwrap();
    }
    assert_eq!(cqp.counters().malformed, 20);
    // With nothing in flight, even a good-looking entry fits nothing.
    let cookie = fake.look().cookie();
    fake.with(|device, memory| device.put(memory, cookie, 5, true));
    assert_eq!(cqp.poll(), Ok(None));
    assert_eq!(cqp.counters().malformed, 21);
    assert_eq!(cqp.counters().completed, 21);
    close(&fake, cqp);
}

#[test]
fn a_silent_device_is_given_up_after_the_limit() {
    let (fake, mut cqp) = create(Script::default());
    fake.device().script.silent = true;
    let before = fake.now();
    let result = cqp.execute(&arp(1));
    let limit = Ns::from_ms(10);
    let label = "MANAGE_ARP";
    assert_eq!(
        result,
        Err(Error::Wait(WaitError::Timeout { label, limit }))
    );
    assert!(fake.now() - before >= limit && fake.now() - before < Ns::from_ms(11));
    // The entry is not reused while the device may still work on it.
    assert!(matches!(cqp.submit(&arp(2)), Err(Error::Unfinished { .. })));
    fake.device().script.silent = false;
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
    fake.device().script.steps = 200_000;
    let tickets: Vec<Ticket> = (0..4).map(|n| cqp.submit(&arp(n)).unwrap()).collect();
    let start = fake.now();
    cqp.wait(tickets[3]).unwrap();
    assert!(
        fake.now() - start > Ns::from_ms(5_000),
        "longer than the limit"
    );
    fake.device().script.silent = true;
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
    fake.device().script.silent = true;
    let first = cqp.submit(&arp(1)).unwrap();
    assert!(cqp.wait_within(first, Ns::from_us(50)).is_err());
    // Six more fit; the seventh would need the entry of the first.
    let others: Vec<Ticket> = (0..6).map(|n| cqp.submit(&arp(n)).unwrap()).collect();
    assert!(matches!(cqp.submit(&arp(1)), Err(Error::RingFull { .. })));
    assert_eq!(cqp.wait(first), Err(Error::UnknownTicket));
    fake.device().script.silent = false;
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
    let fake = Fake::new(Script {
        gone_after: Some(0),
        ..Script::default()
    });
    let error = Cqp::create(fake.clone(), small()).unwrap_err();
    assert_eq!(label_of(error), "CQP creation");

    let (fake, mut cqp) = create(Script::default());
    fake.device().script.gone_after = Some(0);
    label_of(cqp.submit(&arp(1)).unwrap_err());
    label_of(cqp.destroy().unwrap_err());

    let (fake, mut cqp) = with_ccq(Script::default());
    fake.device().script.gone_after = Some(0);
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
        let fake = Fake::new(Script {
            gone_after,
            ..Script::default()
        });
        fake.device().static_announced = true;
        let mut cqp = Cqp::create(fake.clone(), small())?;
        cqp.execute(&arp(1))?;
        cqp.attach_ccq(ccq_config())?;
        cqp.execute(&arp(2))?;
        cqp.detach_ccq()?;
        cqp.destroy()?;
        let accesses = fake.look().accesses();
        Ok(accesses)
    };
    let all = run(None).unwrap();
    for n in 0..all {
        let result = run(Some(n));
        assert!(matches!(result, Err(Error::Wait(_))), "{n}: {result:?}");
    }
    assert!(run(Some(all)).is_ok());
}

#[test]
fn creation_fails_cleanly() {
    let create = |script: Script| {
        let fake = Fake::new(script);
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
        let fake = Fake::new(Script::default());
        let config = Config {
            entries,
            ..Config::new(pf())
        };
        let error = Cqp::create(fake.clone(), config).unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }));
        fake.assert_clean();
    }
    for n in 0..2 {
        let fake = Fake::new(Script::default());
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
    fake.device().script.silent = true;
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
    fake.device().static_announced = true;
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
    fake.device().script.fail_op = None;
    close(&fake, cqp);
}

#[test]
fn segments_use_the_slot_of_their_entry() {
    let (fake, mut cqp) = with_ccq(Script::default());
    fake.device().script.steps = 5;
    // Several in flight: the device reads each slot long after it was written.
    for lap in 0..3u32 {
        let tickets: Vec<Ticket> = (0..5u32)
            .map(|round| {
                let first = lap * 55 + round * 11;
                let entry = |n| SdEntry::set(n, SdKind::Direct, Iova(0x20_0000)).unwrap();
                let entries: Vec<SdEntry> = (first..first + 11).map(entry).collect();
                cqp.submit_sds(&entries).unwrap()
            })
            .collect();
        for ticket in tickets {
            cqp.wait(ticket).unwrap();
        }
    }
    let segments: Vec<u64> = fake.look().segments.keys().copied().collect();
    assert!(segments.into_iter().eq(0..165));
    assert!(cqp.update_sds(&[]).is_err());
    assert!(cqp.update_sds(&[SdEntry::default(); 12]).is_err());
    assert_eq!(cqp.counters().posted, 16, "refused before posting");
    close(&fake, cqp);
}

#[test]
fn bad_arguments_post_nothing() {
    let (fake, mut cqp) = create(Script::default());
    let bad = SuspendQp { qp: 1 << 24 };
    assert!(bad.encode().is_err());
    assert!(matches!(cqp.execute(&bad), Err(Error::OutOfRange { .. })));
    assert_eq!(cqp.counters().posted, 0);
    assert!(fake.look().taken.is_empty());
    close(&fake, cqp);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 200 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Against a list: every posted command is reported once, in the order of
    /// posting, whatever is given up, delayed or malformed in between.
    #[test]
    fn every_command_is_reported_once(
        steps in prop::collection::vec((0u8..7, any::<u16>()), 1..120),
        delay in 0u32..4,
    ) {
        let (fake, mut cqp) = with_ccq(Script { steps: delay, ..Script::default() });
        let mut open: Vec<Ticket> = Vec::new();
        let mut given_up = 0u64;
        for (action, value) in steps {
            match action {
                0 | 1 => match cqp.submit(&arp(value & 0xFFF)) {
                    Ok(ticket) => open.push(ticket),
                    Err(error) => prop_assert_eq!(error, Error::RingFull { entries: 7 }),
                },
                2 => {
                    if let Some(done) = cqp.poll().unwrap() {
                        prop_assert!(!open.is_empty());
                        prop_assert_eq!(done.ticket, open.remove(0));
                    }
                }
                3 => fake.delay(Ns(1)),
                4 => {
                    if !open.is_empty() {
                        let ticket = open.remove(value as usize % open.len());
                        prop_assert_eq!(cqp.wait(ticket).unwrap().ticket, ticket);
                    }
                }
                5 if !open.is_empty() => {
                    // Too short for a slow device: the ticket is void then.
                    let ticket = open.remove(value as usize % open.len());
                    match cqp.wait_within(ticket, Ns::from_us(20)) {
                        Ok(done) => prop_assert_eq!(done.ticket, ticket),
                        Err(error) => {
                            prop_assert!(error.leaves_command_open(), "{}", error);
                            prop_assert_eq!(cqp.wait(ticket), Err(Error::UnknownTicket));
                            given_up += 1;
                        }
                    }
                }
                _ if value % 2 == 0 => {
                    if !open.is_empty() {
                        cqp.forget(open.remove(value as usize % open.len()));
                        given_up += 1;
                    }
                }
                _ => fake.device().script.bad_entries.push_back((1, u64::from(value & 7))),
            }
            prop_assert!(cqp.outstanding() <= 7);
        }
        for ticket in open {
            prop_assert_eq!(cqp.wait(ticket).unwrap().ticket, ticket);
        }
        // Each delay is one step of the device.
        for _ in 0..64 {
            fake.delay(Ns(1));
            prop_assert_eq!(cqp.poll().unwrap(), None);
        }
        prop_assert_eq!(cqp.outstanding(), 0);
        prop_assert!(cqp.counters().late <= given_up);
        close(&fake, cqp);
    }
}
