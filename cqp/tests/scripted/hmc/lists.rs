//! Lists of PBLEs hold what was written, and never share a place.

use e810_cqp::hmc::{Backing, Capacity, Object, PbleList, PbleUse, SEGMENT_BYTES};
use e810_cqp::op::{Pages, QueueMemory};
use e810_cqp::{Error, Opcode};
use e810_hal::Iova;
use proptest::prelude::*;

use super::{MANY_PBLES, SMALL, close, made};
use crate::fake::Fake;

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
    assert!(fake.device().segments.values().any(|data| data & 2 == 0));
    hmc.free_pbles(list);
    close(&fake, cqp, hmc);
}

#[test]
fn a_growth_that_fails_can_be_tried_again() {
    let (fake, mut cqp, mut hmc) = made(MANY_PBLES, Backing::Full);
    let free = hmc.pbles();
    fake.device_mut().script.fail_op = Some(Opcode::UpdatePeSds.code());
    let failed = hmc.allocate_pbles(&mut cqp, 600_000, PbleUse::Queue);
    assert!(matches!(failed, Err(Error::Cqp { .. })));
    assert_eq!(hmc.pbles(), free);
    fake.device_mut().script.fail_op = None;
    let list = hmc
        .allocate_pbles(&mut cqp, 600_000, PbleUse::Queue)
        .unwrap();
    hmc.fill_pbles(&list, pages(600_000, 1)).unwrap();
    hmc.free_pbles(list);
    close(&fake, cqp, hmc);
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
