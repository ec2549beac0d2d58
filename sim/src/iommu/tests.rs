//! Mapping, translation, refusals and attached memory of an IOMMU domain.

use super::*;

use std::collections::BTreeMap;
use std::ptr::NonNull;

use proptest::prelude::*;

use crate::rng::Rng;

/// Memory for a test, freed with it.
struct Arena {
    start: NonNull<u64>,
    words: usize,
}

impl Arena {
    fn new(words: usize) -> Self {
        let memory = Box::leak(vec![0u64; words].into_boxed_slice());
        Self {
            start: NonNull::from(memory).cast(),
            words,
        }
    }

    fn bytes(&self) -> SharedBytes {
        // SAFETY: leaked memory of that length, freed after the last use; no reference is made to
        // it.
        unsafe { SharedBytes::new(self.start.cast(), self.words * 8) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let slice = std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.words);
        // SAFETY: leaked in `new` with this length.
        drop(unsafe { Box::from_raw(slice) });
    }
}

fn iommu() -> Iommu {
    Iommu::new(Rng::new(3))
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, NoAccess>) -> Refusal {
    answer.unwrap_err().refused().refusal
}

#[test]
fn words_are_little_endian_for_the_device() {
    let arena = Arena::new(4);
    let mut iommu = iommu();
    assert!(iommu.map(0x1_0000, arena.bytes(), Access::ReadWrite));
    iommu
        .write_entry(0x1_0000, &[0x0102_0304_0506_0708, 9], 0)
        .unwrap();
    let mut bytes = [0; 9];
    iommu.read(0x1_0000, &mut bytes).unwrap();
    assert_eq!(bytes, [8, 7, 6, 5, 4, 3, 2, 1, 9]);
    assert_eq!(iommu.load(0x1_0008), Ok(9));
    iommu.write(0x1_0008, &[1, 2]).unwrap();
    assert_eq!(iommu.load(0x1_0008), Ok(0x201));
}

#[test]
fn what_is_not_mapped_is_refused_with_a_reason() {
    let (arena, read_only) = (Arena::new(2), Arena::new(1));
    let mut iommu = iommu();
    assert!(iommu.map(0x1_0000, arena.bytes(), Access::ReadWrite));
    assert!(iommu.map(0x9_0000, read_only.bytes(), Access::Read));
    let mut two = [0; 2];
    assert_eq!(refusal(iommu.read(0xffff, &mut two)), Refusal::Unmapped);
    assert_eq!(refusal(iommu.read(0x1_0010, &mut two)), Refusal::Unmapped);
    assert_eq!(refusal(iommu.read(0x1_000f, &mut two)), Refusal::Bounds);
    assert_eq!(refusal(iommu.write(0x1_000f, &two)), Refusal::Bounds);
    assert_eq!(refusal(iommu.write(0x9_0000, &two)), Refusal::ReadOnly);
    assert_eq!(iommu.read(0x9_0000, &mut two), Ok(()));
    assert_eq!(refusal(iommu.load(0x1_0004)), Refusal::Misaligned);
    assert_eq!(refusal(iommu.load(u64::MAX)), Refusal::Unmapped);
    iommu.unmap(0x1_0000);
    let refused = iommu.read(0x1_0001, &mut two).unwrap_err().refused();
    assert_eq!(refused.refusal, Refusal::Freed);
    let fault = DmaFault::from(refused);
    assert_eq!(
        fault.to_string(),
        "DMA read of 2 bytes at IOVA 0x10001 refused: freed"
    );
    assert_eq!(
        iommu.read(0x5555, &mut []),
        Ok(()),
        "nothing is asked of nowhere"
    );
}

#[test]
fn an_entry_that_does_not_fit_is_not_begun() {
    let arena = Arena::new(2);
    let mut iommu = iommu();
    assert!(iommu.map(0x1_0000, arena.bytes(), Access::ReadWrite));
    let refused = iommu.write_entry(0x1_0008, &[1, 2], 1);
    assert_eq!(refusal(refused), Refusal::Bounds);
    assert_eq!(iommu.load(0x1_0008), Ok(0));
}

#[test]
fn words_behind_an_unaligned_pointer_are_refused() {
    let arena = Arena::new(2);
    let odd = arena.bytes().window(4, 12).unwrap();
    let mut iommu = iommu();
    // The rules of mapping forbid this; a careless caller must still not cause undefined behaviour.
    assert!(iommu.map(0x1_0000, odd, Access::ReadWrite));
    assert_eq!(refusal(iommu.load(0x1_0000)), Refusal::Misaligned);
}

/// Recently used mappings are cached, but no longer than they exist.
#[test]
fn what_goes_is_refused_at_once() {
    let (arena, other) = (Arena::new(1024), Arena::new(1));
    let mut iommu = iommu();
    let mut byte = [0];
    for _ in 0..2 {
        assert!(iommu.map(0x1_0000, arena.bytes(), Access::ReadWrite));
        assert!(iommu.map(0x9_0000, other.bytes(), Access::Read));
        for iova in [0x1_0000, 0x1_1fff, 0x9_0007] {
            assert_eq!(iommu.read(iova, &mut byte), Ok(()));
            assert_eq!(iommu.read(iova, &mut byte), Ok(()));
        }
        assert_eq!(refusal(iommu.write(0x9_0007, &byte)), Refusal::ReadOnly);
        iommu.unmap(0x1_0000);
        for iova in [0x1_0000, 0x1_1fff] {
            assert_eq!(refusal(iommu.read(iova, &mut byte)), Refusal::Freed);
            assert_eq!(refusal(iommu.load_quantum(iova)), Refusal::Freed);
        }
        assert_eq!(iommu.read(0x9_0007, &mut byte), Ok(()));
        iommu.unmap(0x9_0000);
    }
    // The address range of a large mapping now belongs to a small one.
    assert!(iommu.map(0x1_0000, other.bytes(), Access::ReadWrite));
    assert_eq!(refusal(iommu.read(0x1_1000, &mut byte)), Refusal::Freed);
    assert_eq!(iommu.read(0x1_0007, &mut byte), Ok(()));
    assert_eq!(refusal(iommu.read(0x1_0008, &mut byte)), Refusal::Freed);
}

#[test]
fn what_is_detached_in_part_is_refused_in_that_part() {
    let arena = Arena::new(2 * 512);
    let mut iommu = iommu();
    let start = arena.bytes().address() % PAGE + 0x10_0000;
    assert!(iommu.attach(start, arena.bytes(), Access::ReadWrite));
    assert!(iommu.load(start).is_ok() && iommu.load(start + 4096).is_ok());
    iommu.detach(start + 4096, 8);
    assert!(iommu.load(start).is_ok());
    assert_eq!(refusal(iommu.load(start + 4096)), Refusal::Freed);
    assert!(iommu.load(start + 4104).is_ok());
}

#[test]
fn several_words_are_those_that_are_loaded_one_by_one() {
    let arena = Arena::new(1024);
    let mut iommu = iommu();
    // Two mappings that touch, and one quantum across their border.
    let start = arena.bytes().address() % PAGE + 0x10_0000;
    let half = |at| arena.bytes().window(at, 4096).unwrap();
    assert!(iommu.attach(start, half(0), Access::ReadWrite));
    assert!(iommu.attach(start + 4096, half(4096), Access::ReadWrite));
    for word in 0..1024 {
        iommu
            .write_entry(start + 8 * word, &[word * word + 1], 0)
            .unwrap();
    }
    for at in [0, 8, 4096 - 16, 4096, 8192 - 32] {
        let expected = [0, 1, 2, 3].map(|n| iommu.load(start + at + 8 * n).unwrap());
        assert_eq!(iommu.load_quantum(start + at), Ok(expected));
        let mut words = [0; 4];
        assert_eq!(iommu.load_words(start + at, &mut words), Ok(()));
        assert_eq!(words, expected);
    }
    let end = start + 8192 - 16;
    assert!(iommu.load_quantum(end).is_err() && iommu.load_words(end, &mut [0; 4]).is_err());
    assert_eq!(refusal(iommu.load_quantum(start + 4)), Refusal::Misaligned);
}

#[test]
fn mappings_keep_a_page_apart() {
    let arena = Arena::new(1);
    let mut iommu = iommu();
    let mut map = |iova| iommu.map(iova, arena.bytes(), Access::ReadWrite);
    assert!(map(0x10_0000));
    assert!(!map(0x10_0000));
    assert!(!map(0x10_0008));
    assert!(!map(0x10_0000 + 8 + PAGE - 8));
    assert!(map(0x10_0000 + 8 + PAGE));
    assert!(!map(0x10_0000 - PAGE));
    assert!(map(0x10_0000 - PAGE - 8));
    assert!(!map(HIGH - 4));
    assert!(!map(u64::MAX - 3));
}

#[test]
fn places_are_aligned_as_asked_and_not_better() {
    let mut iommu = iommu();
    let mut seen_low = false;
    for shift in 3..30 {
        for _ in 0..20 {
            let iova = iommu.place_aligned(8, 1 << shift).unwrap();
            assert_eq!(iova.trailing_zeros(), shift);
            assert!((LOW..HIGH).contains(&iova));
            seen_low |= iova < 1 << 32;
        }
    }
    assert!(seen_low, "some addresses fit 32 bits");
    assert!(iommu.place_aligned(8, 1 << 46).is_some());
    assert_eq!(iommu.place_aligned(8, 1 << 63), None);
    assert_eq!(iommu.place_aligned(HIGH, 8), None);
    let iova = iommu.place_in_page(0x5000, 0x123).unwrap();
    assert_eq!(iova % PAGE, 0x123);
}

#[derive(Clone, Debug)]
enum Op {
    Map {
        words: usize,
        writable: bool,
    },
    Unmap {
        which: usize,
    },
    Write {
        which: usize,
        at: i64,
        bytes: Vec<u8>,
    },
    Read {
        which: usize,
        at: i64,
        len: usize,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let at = -20i64..300;
    prop_oneof![
        (1usize..32, any::<bool>()).prop_map(|(words, writable)| Op::Map { words, writable }),
        any::<usize>().prop_map(|which| Op::Unmap { which }),
        (
            any::<usize>(),
            at.clone(),
            prop::collection::vec(any::<u8>(), 1..40)
        )
            .prop_map(|(which, at, bytes)| Op::Write { which, at, bytes }),
        (any::<usize>(), at, 1usize..40).prop_map(|(which, at, len)| Op::Read { which, at, len }),
    ]
}

/// One mapping as the model sees it.
struct Model {
    arena: Arena,
    content: Vec<u8>,
    writable: bool,
    live: bool,
}

/// What the simple model says about an access to `[iova, iova + len)`.
fn expected(
    maps: &BTreeMap<u64, Model>,
    iova: u64,
    len: usize,
    write: bool,
) -> Result<(u64, usize), Refusal> {
    let inside = |map: &Model, start: u64| iova >= start && iova < start + map.content.len() as u64;
    let mut gone = false;
    for (&start, map) in maps {
        if inside(map, start) {
            if !map.live {
                gone = true;
                continue;
            }
            let at = (iova - start) as usize;
            return if write && !map.writable {
                Err(Refusal::ReadOnly)
            } else if at + len > map.content.len() {
                Err(Refusal::Bounds)
            } else {
                Ok((start, at))
            };
        }
    }
    Err(if gone {
        Refusal::Freed
    } else {
        Refusal::Unmapped
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any sequence of mapping, unmapping and access behaves as a table of byte vectors does.
    #[test]
    fn agrees_with_a_table(seed in any::<u64>(), ops in prop::collection::vec(op(), 1..60)) {
        let mut iommu = Iommu::new(Rng::new(seed));
        let mut maps: BTreeMap<u64, Model> = BTreeMap::new();
        for op in ops {
            let pick = |which: usize| maps.keys().nth(which % maps.len().max(1)).copied();
            match op {
                Op::Map { words, writable } => {
                    let arena = Arena::new(words);
                    let iova = iommu.place_aligned(words as u64 * 8, 8).unwrap();
                    let access = if writable { Access::ReadWrite } else { Access::Read };
                    prop_assert!(iommu.map(iova, arena.bytes(), access));
                    maps.insert(iova, Model { arena, content: vec![0; words * 8], writable, live: true });
                }
                Op::Unmap { which } => {
                    if let Some(iova) = pick(which) {
                        iommu.unmap(iova);
                        maps.get_mut(&iova).unwrap().live = false;
                    }
                }
                Op::Write { which, at, bytes } => {
                    let Some(iova) = pick(which).and_then(|iova| iova.checked_add_signed(at)) else { continue };
                    let want = expected(&maps, iova, bytes.len(), true);
                    let got = iommu.write(iova, &bytes).map_err(|no| no.refused().refusal);
                    prop_assert_eq!(got, want.map(|_| ()));
                    if let Ok((start, at)) = want {
                        maps.get_mut(&start).unwrap().content[at..at + bytes.len()].copy_from_slice(&bytes);
                    }
                }
                Op::Read { which, at, len } => {
                    let Some(iova) = pick(which).and_then(|iova| iova.checked_add_signed(at)) else { continue };
                    let want = expected(&maps, iova, len, false);
                    let mut bytes = vec![0; len];
                    let got = iommu.read(iova, &mut bytes).map_err(|no| no.refused().refusal);
                    prop_assert_eq!(got, want.map(|_| ()));
                    if let Ok((start, at)) = want {
                        prop_assert_eq!(&bytes[..], &maps[&start].content[at..at + len]);
                    }
                }
            }
        }
        for (iova, map) in &maps {
            prop_assert_ne!(*iova, map.arena.bytes().address());
        }
    }
}
