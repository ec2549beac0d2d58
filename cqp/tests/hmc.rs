//! The HMC against a scripted device: what is committed is backed, what is
//! backed is reachable, and whatever fails on the way is undone.
//!
//! Not under Miri: it checks each borrow of 2 MiB of atomic words one by one.

#![cfg(not(miri))]
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that panics fails, as it should"
)]

mod fake;

use std::collections::BTreeSet;

use e810_cqp::hmc::{
    Backing, Capacity, FpmQuery, Hmc, Object, PAGE_BYTES, PbleList, PbleUse, Plan, SEGMENT_BYTES,
    query_features,
};
use e810_cqp::op::{Pages, QueueMemory};
use e810_cqp::{CcqConfig, Config, Cqp, Error, Opcode, Result};
use e810_hal::Iova;
use e810_hal::bus::{CeqId, VsiId};
use fake::{Fake, Script, pf};
use proptest::prelude::*;

/// A capacity that keeps the tests short.
const SMALL: Capacity = Capacity {
    qps: 8,
    cqs: 8,
    mrs: 64,
    ahs: 8,
    arps: 8,
    mcast_groups: 8,
    pbles: 4096,
};

/// PBLEs that fill segments of their own.
const MANY_PBLES: Capacity = Capacity {
    pbles: 700_000,
    ..Capacity::DEFAULT
};

fn ask(cqp: &mut Cqp<Fake>, capacity: Capacity, backing: Backing) -> Result<Hmc<Fake>> {
    let query = FpmQuery::ask(cqp)?;
    let plan = Plan::new(&query, &capacity, backing)?;
    Hmc::create(cqp, &query, &plan)
}

fn machine(script: Script) -> (Fake, Cqp<Fake>) {
    let fake = Fake::new(script);
    let cqp = Cqp::create(fake.clone(), Config::new(pf())).unwrap();
    (fake, cqp)
}

fn made(capacity: Capacity, backing: Backing) -> (Fake, Cqp<Fake>, Hmc<Fake>) {
    let (fake, mut cqp) = machine(Script::default());
    let hmc = ask(&mut cqp, capacity, backing).unwrap();
    (fake, cqp, hmc)
}

fn close(fake: &Fake, mut cqp: Cqp<Fake>, hmc: Hmc<Fake>) {
    hmc.destroy(&mut cqp).unwrap();
    assert!(fake.look().segments.is_empty());
    cqp.destroy().unwrap();
    fake.assert_clean();
}

fn attach(cqp: &mut Cqp<Fake>) -> Result<()> {
    cqp.attach_ccq(CcqConfig {
        ceq: CeqId::new(0).unwrap(),
        vsi: VsiId::new(1).unwrap(),
        context: 0,
    })
}

/// Whether every page of the addresses `from..to` is backed.
fn backed(fake: &Fake, from: u64, to: u64) -> bool {
    fake.with(|device, memory| {
        (from / PAGE_BYTES..to.div_ceil(PAGE_BYTES))
            .all(|page| device.translate(page * PAGE_BYTES, memory).is_some())
    })
}

/// Whether no page of the addresses is backed.
fn bare(fake: &Fake, from: u64, to: u64) -> bool {
    fake.with(|device, memory| {
        (from.div_ceil(PAGE_BYTES)..to / PAGE_BYTES)
            .all(|page| device.translate(page * PAGE_BYTES, memory).is_none())
    })
}

#[test]
fn features_are_read_and_long_lists_asked_for_again() {
    let (fake, mut cqp) = machine(Script::default());
    let features = query_features(&mut cqp).unwrap();
    assert_eq!((features.firmware(), features.atomics()), ((1, 50), true));
    let mut long: Vec<u64> = (0..40).map(|n| (100 + n) << 48).collect();
    long[0] = 40 << 32 | 7;
    long[39] = 32 << 48 | 1;
    fake.device().script.features = long;
    let features = query_features(&mut cqp).unwrap();
    assert_eq!((features.count, features.atomics()), (40, true));
    fake.device().script.features = vec![0; 4];
    assert!(matches!(query_features(&mut cqp), Err(Error::Reply { .. })));
    fake.device().script.features = vec![u64::MAX; 34];
    assert_eq!(query_features(&mut cqp).unwrap().count, 0xFFFF);
    cqp.destroy().unwrap();
    fake.assert_clean();
}

#[test]
fn everything_committed_is_backed() {
    let (fake, mut cqp, hmc) = made(Capacity::DEFAULT, Backing::Full);
    assert!(fake.look().static_announced);
    for (object, area) in hmc.layout().areas().filter(|(_, area)| area.count > 0) {
        let ours = (area.base, area.end());
        assert_eq!(ours, fake.look().area(object.commit_offset()), "{object}");
        if object != Object::Pble {
            assert!(backed(&fake, area.base, area.end()), "{object}");
        }
    }
    // Only direct segments, as existing drivers have them.
    assert!(fake.look().segments.values().all(|data| data & 2 != 0));
    assert!(fake.look().invalidated.is_empty());
    assert!(hmc.backed_bytes() <= 16 << 20, "{}", hmc.backed_bytes());
    let segments = fake.look().segments.len() as u64;
    assert_eq!(hmc.backed_bytes(), segments * SEGMENT_BYTES);
    let last = fake.look().taken.last().unwrap().op();
    assert_eq!(last, Opcode::ShmcPagesAllocated.code());
    attach(&mut cqp).unwrap();
    cqp.detach_ccq().unwrap();
    close(&fake, cqp, hmc);
}

#[test]
fn on_demand_backs_the_devices_own_objects_first() {
    let (fake, mut cqp, mut hmc) = made(Capacity::DEFAULT, Backing::OnDemand);
    assert!(hmc.backed_bytes() <= 4 << 20, "{}", hmc.backed_bytes());
    for (object, area) in hmc.layout().areas().filter(|(_, area)| area.count > 0) {
        if object.is_deferrable() || object == Object::Pble {
            assert!(bare(&fake, area.base, area.end()), "{object}");
        } else {
            assert!(backed(&fake, area.base, area.end()), "{object}");
        }
    }
    let before = hmc.backed_bytes();
    hmc.ensure(&mut cqp, Object::Cq, 0).unwrap();
    attach(&mut cqp).unwrap();
    for (object, count) in [(Object::Qp, 64), (Object::Cq, 128), (Object::Mr, 1024)] {
        for index in [0, 3, count - 1] {
            hmc.ensure(&mut cqp, object, index).unwrap();
            hmc.ensure(&mut cqp, object, index).unwrap();
            let (from, to) = hmc.layout().object(object, index).unwrap();
            assert!(backed(&fake, from, to), "{object} {index}");
        }
        let error = hmc.ensure(&mut cqp, object, count);
        assert!(matches!(error, Err(Error::NoObject { .. })));
    }
    assert!(hmc.backed_bytes() > before);
    cqp.detach_ccq().unwrap();
    close(&fake, cqp, hmc);
}

/// A page descriptor changes: entry in memory, then PFHMC_PDINV; both when it
/// is added and when it is taken away.
#[test]
fn every_page_descriptor_is_invalidated() {
    let (fake, cqp, hmc) = made(SMALL, Backing::OnDemand);
    let pages = |fake: &Fake| {
        let mut pages = BTreeSet::new();
        fake.with(|device, memory| {
            for (segment, data) in &device.segments {
                for page in (0..512u64).filter(|_| data & 2 == 0) {
                    let entry = memory.load((data >> 12 << 12) + page * 8).unwrap();
                    if entry & 1 != 0 {
                        pages.insert((*segment | 1 << 15 | page << 16) as u32);
                    }
                }
            }
        });
        pages
    };
    let there = pages(&fake);
    assert!(!there.is_empty());
    let told: BTreeSet<u32> = fake.look().invalidated.iter().copied().collect();
    assert_eq!(told, there);
    fake.device().invalidated.clear();
    close(&fake, cqp, hmc);
    let told: BTreeSet<u32> = fake.look().invalidated.iter().copied().collect();
    assert_eq!(told, there);
}

#[test]
fn a_reset_needs_no_commands() {
    let (fake, cqp, hmc) = made(SMALL, Backing::Full);
    let posted = fake.look().taken.len();
    hmc.release_after_reset();
    assert_eq!(fake.look().taken.len(), posted);
    cqp.release_after_reset();
    assert_eq!(fake.alive(), (0, 0));
}

/// The entries of a list as the device reads them.
fn read_list(fake: &Fake, base: u64, list: &PbleList<Fake>) -> Vec<u64> {
    let at = |index: u64| {
        fake.with(|device, memory| {
            let place = device.translate(base + index * 8, memory);
            memory.load(place.expect("the PBLE is backed")).unwrap()
        })
    };
    let count = u64::from(list.pages());
    match list.region() {
        Pages::Level1(first) => (0..count).map(|n| at(u64::from(first) + n)).collect(),
        Pages::Level2(root) => (0..count)
            .map(|n| at(at(u64::from(root) + n / 512) + n % 512))
            .collect(),
        Pages::Contiguous(_) => panic!("a list is never contiguous memory"),
    }
}

fn pages(count: u32, seed: u64) -> impl Iterator<Item = Iova> {
    (0..u64::from(count)).map(move |n| Iova((seed << 40) + (n << 12)))
}

#[test]
fn lists_hold_their_pages() {
    for backing in [Backing::Full, Backing::OnDemand] {
        let (fake, mut cqp, mut hmc) = made(Capacity::DEFAULT, backing);
        let base = hmc.layout().area(Object::Pble).base;
        let all = hmc.pbles();
        let mut lists = Vec::new();
        for (seed, count) in [1, 7, 8, 9, 511, 512, 513, 1500, 100_000]
            .into_iter()
            .enumerate()
        {
            let list = hmc.allocate_pbles(&mut cqp, count, PbleUse::Queue).unwrap();
            hmc.fill_pbles(&list, pages(count, seed as u64)).unwrap();
            assert!(matches!(list.queue(), Some(QueueMemory::Pbles(_))));
            lists.push((seed as u64, list));
        }
        for (seed, list) in &lists {
            let expected: Vec<u64> = pages(list.pages(), *seed).map(|page| page.0).collect();
            assert_eq!(read_list(&fake, base, list), expected);
        }
        let grown = hmc.backed_bytes();
        for (_, list) in lists {
            hmc.free_pbles(list);
        }
        assert_eq!(hmc.pbles(), all);
        // What was backed once is used again.
        let list = hmc.allocate_pbles(&mut cqp, 5000, PbleUse::Region).unwrap();
        assert_eq!(hmc.backed_bytes(), grown);
        hmc.free_pbles(list);
        close(&fake, cqp, hmc);
    }
}

#[test]
fn a_region_takes_two_levels_when_there_is_no_room_in_one_piece() {
    let (fake, mut cqp, mut hmc) = made(SMALL, Backing::Full);
    let base = hmc.layout().area(Object::Pble).base;
    let all = hmc.pbles().0;
    // Every second piece of 256 stays taken: no run of more than 256 is left...
    let pieces: Vec<_> = (0..all / 256)
        .map(|_| hmc.allocate_pbles(&mut cqp, 256, PbleUse::Queue).unwrap())
        .collect();
    let mut kept = Vec::new();
    for (n, piece) in pieces.into_iter().enumerate() {
        if n % 4 == 0 {
            kept.push(piece);
        } else {
            hmc.free_pbles(piece);
        }
    }
    // ... more than 768, that is: runs of three pieces are.
    let count = 1500;
    let none = hmc.allocate_pbles(&mut cqp, count, PbleUse::Queue);
    assert!(matches!(none, Err(Error::NoPbles { wanted: 1500, .. })));
    let free = hmc.pbles().0;
    let list = hmc
        .allocate_pbles(&mut cqp, count, PbleUse::Region)
        .unwrap();
    assert!(matches!(list.region(), Pages::Level2(_)));
    assert_eq!(list.queue(), None);
    hmc.fill_pbles(&list, pages(count, 9)).unwrap();
    let expected: Vec<u64> = pages(count, 9).map(|page| page.0).collect();
    assert_eq!(read_list(&fake, base, &list), expected);
    hmc.free_pbles(list);
    assert_eq!(hmc.pbles().0, free);
    // Too large even for leaves: nothing stays taken.
    let most = hmc.allocate_pbles(&mut cqp, free, PbleUse::Region);
    assert!(matches!(most, Err(Error::NoPbles { .. })));
    assert_eq!(hmc.pbles().0, free);
    for piece in kept {
        hmc.free_pbles(piece);
    }
    assert_eq!(hmc.pbles().0, all);
    assert!(matches!(
        hmc.allocate_pbles(&mut cqp, 0, PbleUse::Region),
        Err(Error::Invalid { .. })
    ));
    close(&fake, cqp, hmc);
}

#[test]
fn a_page_in_the_middle_is_refused() {
    let (fake, mut cqp, mut hmc) = made(SMALL, Backing::Full);
    let list = hmc.allocate_pbles(&mut cqp, 2, PbleUse::Region).unwrap();
    let error = hmc.fill_pbles(&list, [Iova(0x1000), Iova(0x1800)]);
    assert!(matches!(error, Err(Error::Misaligned { .. })));
    hmc.fill_pbles(&list, pages(5, 1)).unwrap();
    hmc.free_pbles(list);
    close(&fake, cqp, hmc);
}

#[test]
fn pages_replace_a_segment_that_cannot_be_had() {
    let (fake, mut cqp, mut hmc) = made(MANY_PBLES, Backing::Full);
    let base = hmc.layout().area(Object::Pble).base;
    fake.refuse_from(SEGMENT_BYTES as usize);
    let free = hmc.pbles().0;
    let list = hmc.allocate_pbles(&mut cqp, free, PbleUse::Queue).unwrap();
    hmc.fill_pbles(&list, pages(free, 3)).unwrap();
    let expected: Vec<u64> = pages(free, 3).map(|page| page.0).collect();
    assert_eq!(read_list(&fake, base, &list), expected);
    assert!(fake.look().segments.values().any(|data| data & 2 == 0));
    hmc.free_pbles(list);
    close(&fake, cqp, hmc);
}

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

/// Lets every command from the n-th on fail, and only one kind: always an
/// error, and memory only leaks when the device refuses to give segments up.
#[test]
fn every_failing_command_is_undone() {
    let commands = {
        let (fake, cqp, hmc) = made(SMALL, Backing::Full);
        let count = fake.look().taken.len() as u64;
        close(&fake, cqp, hmc);
        count
    };
    for n in 0..commands {
        let (fake, mut cqp) = machine(Script {
            fail_from: Some(n),
            ..Script::default()
        });
        let error = ask(&mut cqp, SMALL, Backing::Full).unwrap_err();
        assert!(matches!(error, Error::Cqp { .. }), "{n}: {error}");
        cqp.destroy().unwrap();
        if fake.look().segments.is_empty() {
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
    let commands = {
        let (fake, cqp, hmc) = made(SMALL, Backing::Full);
        let count = fake.look().taken.len() as u64;
        close(&fake, cqp, hmc);
        count
    };
    for n in 0..commands {
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

/// All-ones from the n-th register access on.
#[test]
fn a_device_may_leave_at_any_access() {
    let accesses = {
        let (fake, cqp, hmc) = made(SMALL, Backing::OnDemand);
        let count = fake.look().accesses();
        hmc.release_after_reset();
        cqp.release_after_reset();
        count
    };
    for n in 0..accesses {
        let fake = Fake::new(Script {
            gone_after: Some(n),
            ..Script::default()
        });
        let result = Cqp::create(fake.clone(), Config::new(pf()))
            .and_then(|mut cqp| ask(&mut cqp, SMALL, Backing::OnDemand).map(|_| ()));
        assert!(matches!(result, Err(Error::Wait(_))), "{n}: {result:?}");
    }
}

#[test]
fn a_growth_that_fails_can_be_tried_again() {
    let (fake, mut cqp, mut hmc) = made(MANY_PBLES, Backing::Full);
    let free = hmc.pbles();
    fake.device().script.fail_op = Some(Opcode::UpdatePeSds.code());
    let failed = hmc.allocate_pbles(&mut cqp, 600_000, PbleUse::Queue);
    assert!(matches!(failed, Err(Error::Cqp { .. })));
    assert_eq!(hmc.pbles(), free);
    fake.device().script.fail_op = None;
    let list = hmc
        .allocate_pbles(&mut cqp, 600_000, PbleUse::Queue)
        .unwrap();
    hmc.fill_pbles(&list, pages(600_000, 1)).unwrap();
    hmc.free_pbles(list);
    close(&fake, cqp, hmc);
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

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// No two lists overlap, roots and leaves included, and all of them come
    /// back.
    #[test]
    fn lists_never_overlap(
        steps in prop::collection::vec((any::<bool>(), 1u32..1800, any::<bool>()), 1..60),
        on_demand in any::<bool>(),
    ) {
        let backing = if on_demand { Backing::OnDemand } else { Backing::Full };
        let (fake, mut cqp, mut hmc) = made(SMALL, backing);
        let base = hmc.layout().area(Object::Pble).base;
        let count = u64::from(hmc.layout().area(Object::Pble).count);
        let all = hmc.pbles().0;
        let mut lists: Vec<(u64, PbleList<Fake>)> = Vec::new();
        for (seed, (take, size, queue)) in steps.into_iter().enumerate() {
            let seed = seed as u64 + 1;
            if take {
                let purpose = if queue { PbleUse::Queue } else { PbleUse::Region };
                match hmc.allocate_pbles(&mut cqp, size, purpose) {
                    Ok(list) => {
                        hmc.fill_pbles(&list, pages(size, seed)).unwrap();
                        lists.push((seed, list));
                    }
                    Err(error) => {
                        let full = matches!(error, Error::NoPbles { .. });
                        prop_assert!(full, "{error}");
                    }
                }
            } else if !lists.is_empty() {
                let (_, list) = lists.swap_remove(size as usize % lists.len());
                hmc.free_pbles(list);
            }
        }
        // Each list still holds what was written to it, so none was written
        // over, and every index is one that was committed.
        for (seed, list) in &lists {
            let expected: Vec<u64> = pages(list.pages(), *seed).map(|page| page.0).collect();
            prop_assert_eq!(&read_list(&fake, base, list), &expected);
            let first = match list.region() {
                Pages::Level1(first) | Pages::Level2(first) => u64::from(first),
                Pages::Contiguous(_) => u64::MAX,
            };
            prop_assert!(first < count && (base + first * 8) % 64 == 0);
        }
        for (_, list) in lists {
            hmc.free_pbles(list);
        }
        prop_assert_eq!(hmc.pbles().0, all);
        close(&fake, cqp, hmc);
    }
}
