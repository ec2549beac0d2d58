//! What is taken, in what order it is reported, and what comes with it.

use e810_cqp::op::{AllocateLocalMac, Command, ManageApbvt, SdEntry, SdKind, SuspendQp};
use e810_cqp::{Error, Opcode, Ticket};
use e810_hal::{Clock, Iova, Ns};

use super::{arp, close, create, with_ccq};
use crate::ccq_config;
use crate::fake::Script;

#[test]
fn by_registers_one_at_a_time() {
    let (fake, mut cqp) = create(Script::default());
    for n in 0..20 {
        let done = cqp.execute(&arp(n)).unwrap();
        assert_eq!((done.op, done.ret_val), (Opcode::ManageArp, 0));
    }
    let taken: Vec<u64> = fake
        .device()
        .taken
        .iter()
        .map(|t| t.wqe[3] & 0xFFF)
        .collect();
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
        fake.device_mut().script.bad_entries.push_back(bad);
        cqp.execute(&arp(1)).unwrap();
    }
    assert_eq!(cqp.counters().malformed, 20);
    // With nothing in flight, even a good-looking entry fits nothing.
    let cookie = fake.device().cookie();
    fake.with(|device, memory| device.put(memory, cookie, 5, true));
    assert_eq!(cqp.poll(), Ok(None));
    assert_eq!(cqp.counters().malformed, 21);
    assert_eq!(cqp.counters().completed, 21);
    close(&fake, cqp);
}

#[test]
fn segments_use_the_slot_of_their_entry() {
    let (fake, mut cqp) = with_ccq(Script::default());
    fake.device_mut().script.steps = 5;
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
    let segments: Vec<u64> = fake.device().segments.keys().copied().collect();
    assert!(segments.into_iter().eq(0..165));
    assert!(cqp.update_sds(&[], 0).is_err());
    assert!(cqp.update_sds(&[SdEntry::default(); 12], 0).is_err());
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
    assert!(fake.device().taken.is_empty());
    close(&fake, cqp);
}
