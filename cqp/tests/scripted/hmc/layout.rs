//! What is committed is backed, when, and how the device is told.

use std::collections::BTreeSet;

use e810_cqp::hmc::{Backing, Capacity, Object, PAGE_BYTES, SEGMENT_BYTES, query_features};
use e810_cqp::{Error, Opcode};

use super::{SMALL, attach, close, machine, made};
use crate::fake::{Fake, Script};

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
    fake.device_mut().script.features = long;
    let features = query_features(&mut cqp).unwrap();
    assert_eq!((features.count, features.atomics()), (40, true));
    fake.device_mut().script.features = vec![0; 4];
    assert!(matches!(query_features(&mut cqp), Err(Error::Reply { .. })));
    fake.device_mut().script.features = vec![u64::MAX; 34];
    assert_eq!(query_features(&mut cqp).unwrap().count, 0xFFFF);
    cqp.destroy().unwrap();
    fake.assert_clean();
}

#[test]
fn everything_committed_is_backed() {
    let (fake, mut cqp, hmc) = made(Capacity::DEFAULT, Backing::Full);
    assert!(fake.device().static_announced);
    for (object, area) in hmc.layout().areas().filter(|(_, area)| area.count > 0) {
        let ours = (area.base, area.end());
        assert_eq!(ours, fake.device().area(object.commit_offset()), "{object}");
        if object != Object::Pble {
            assert!(backed(&fake, area.base, area.end()), "{object}");
        }
    }
    // Only direct segments, as existing drivers have them.
    assert!(fake.device().segments.values().all(|data| data & 2 != 0));
    assert!(fake.device().invalidated.is_empty());
    assert!(hmc.backed_bytes() <= 16 << 20, "{}", hmc.backed_bytes());
    let segments = fake.device().segments.len() as u64;
    assert_eq!(hmc.backed_bytes(), segments * SEGMENT_BYTES);
    let last = fake.device().taken.last().unwrap().op();
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
    let invalidated: BTreeSet<u32> = fake.device().invalidated.iter().copied().collect();
    assert_eq!(invalidated, there);
    fake.device_mut().invalidated.clear();
    close(&fake, cqp, hmc);
    let invalidated: BTreeSet<u32> = fake.device().invalidated.iter().copied().collect();
    assert_eq!(invalidated, there);
}

#[test]
fn a_reset_needs_no_commands() {
    let (fake, cqp, hmc) = made(SMALL, Backing::Full);
    let posted = fake.device().taken.len();
    hmc.release_after_reset();
    assert_eq!(fake.device().taken.len(), posted);
    cqp.release_after_reset();
    assert_eq!(fake.alive(), (0, 0));
}
