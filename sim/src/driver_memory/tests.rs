//! Allocations, mappings and use after free.

mod checked;

use super::*;
use crate::findings::kind;

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fs::File;
use std::sync::atomic::Ordering;

use e810_hal::{Mapping, ProgramBytes, SharedBytes};
use proptest::prelude::*;

use crate::rng::Rng;

fn memory(segments: DmaSegmentation) -> DriverMemory {
    DriverMemory::new(segments, &Rng::new(11))
}

fn word(raw: &RawDma, index: usize) -> &AtomicU64 {
    assert!(index < raw.len);
    // SAFETY: inside a block that `dma_alloc` returned; the memory under test keeps freed blocks in
    // quarantine.
    unsafe { raw.words.add(index).as_ref() }
}

/// Frees, expecting no finding.
fn free(memory: &mut DriverMemory, raw: RawDma) {
    memory.dma_free(raw, &mut |kind, text| panic!("{}: {text}", kind.name));
}

#[test]
fn blocks_are_zeroed_aligned_and_elsewhere_for_the_device() {
    let mut memory = memory(DmaSegmentation::Contiguous);
    for (bytes, align) in [(8, 8), (200, 4), (4096, 512), (65_792, 256), (64, 8192)] {
        let raw = memory.dma_alloc(DmaLayout::new(bytes, align)).unwrap();
        assert_eq!(raw.len * 8, DmaLayout::new(bytes, align).bytes());
        assert_eq!(raw.iova.0 % DmaLayout::new(bytes, align).align() as u64, 0);
        assert_ne!(raw.iova.0, raw.words.addr().get() as u64);
        assert!((0..raw.len).all(|index| word(&raw, index).load(Ordering::Relaxed) == 0));
        word(&raw, raw.len - 1).store(7u64.to_le(), Ordering::Relaxed);
        let last = raw.iova.0 + (raw.len as u64 - 1) * 8;
        assert_eq!(memory.iommu.load(last), Ok(7));
        assert!(memory.iommu.load(last + 8).is_err(), "a guard follows");
        free(&mut memory, raw);
        assert!(memory.iommu.load(last).is_err());
    }
    assert!(memory.counts().nothing_held());
    assert_eq!(memory.counts().dma_requests, 5);
}

#[test]
fn no_room_is_an_error() {
    let mut memory = memory(DmaSegmentation::Contiguous);
    assert!(memory.dma_alloc(DmaLayout::new(usize::MAX, 8)).is_err());
    assert!(memory.dma_alloc(DmaLayout::new(8, 1 << 62)).is_err());
    assert!(memory.host_alloc(usize::MAX / 4).is_err());
    assert!(memory.counts().nothing_held());
}

#[test]
fn freed_memory_is_poisoned_and_watched() {
    let mut memory = memory(DmaSegmentation::Contiguous);
    let raw = memory.dma_alloc(DmaLayout::new(64, 64)).unwrap();
    word(&raw, 3).store(1, Ordering::Relaxed);
    free(&mut memory, raw);
    assert_eq!(word(&raw, 3).load(Ordering::Relaxed), block::POISON);
    let mut found = Vec::new();
    memory.check_freed(&mut |kind, _| found.push(kind));
    assert_eq!(found, []);
    word(&raw, 3).store(1, Ordering::Relaxed);
    memory.check_freed(&mut |kind, _| found.push(kind));
    memory.check_freed(&mut |kind, _| found.push(kind));
    assert_eq!(found, [kind::USE_AFTER_FREE], "reported once");
}

#[test]
fn a_late_write_is_found_when_the_block_leaves_the_quarantine() {
    let mut memory = memory(DmaSegmentation::Contiguous);
    let raw = memory.dma_alloc(DmaLayout::new(8, 8)).unwrap();
    free(&mut memory, raw);
    word(&raw, 0).store(1, Ordering::Relaxed);
    let mut found = Vec::new();
    for _ in 0..QUARANTINE {
        let other = memory.dma_alloc(DmaLayout::new(8, 8)).unwrap();
        memory.dma_free(other, &mut |kind, _| found.push(kind));
    }
    assert_eq!(found, [kind::USE_AFTER_FREE]);
}

#[test]
fn giving_back_what_was_not_given_out_is_found() {
    let mut memory = memory(DmaSegmentation::Contiguous);
    let raw = memory.dma_alloc(DmaLayout::new(64, 64)).unwrap();
    let host = memory.host_alloc(4).unwrap();
    let mut found = Vec::new();
    let mut note = |kind, _| found.push(kind);
    memory.dma_free(RawDma { len: 7, ..raw }, &mut note);
    memory.host_free(host, 5, &mut note);
    memory.host_free(raw.words, 8, &mut note);
    memory.dma_free(raw, &mut note);
    memory.dma_free(raw, &mut note);
    memory.host_free(host, 4, &mut note);
    assert_eq!(found, [kind::BAD_FREE; 4]);
    assert!(memory.counts().nothing_held());
}

#[test]
fn a_chosen_request_fails_once() {
    let mut memory = memory(DmaSegmentation::Contiguous);
    memory.fail(Allocation::Dma, 2);
    memory.fail(Allocation::Host, 1);
    let first = memory.dma_alloc(DmaLayout::new(8, 8)).unwrap();
    assert!(memory.dma_alloc(DmaLayout::new(8, 8)).is_err());
    let third = memory.dma_alloc(DmaLayout::new(8, 8)).unwrap();
    assert!(memory.host_alloc(1).is_err());
    let host = memory.host_alloc(1).unwrap();
    memory.fail(Allocation::Dma, 1);
    memory.fail(Allocation::Dma, 0);
    let fourth = memory.dma_alloc(DmaLayout::new(8, 8)).unwrap();
    let counts = memory.counts();
    assert_eq!((counts.dma_blocks, counts.dma_requests), (3, 4));
    for raw in [first, third, fourth] {
        free(&mut memory, raw);
    }
    memory.host_free(host, 1, &mut |kind, _| panic!("{}", kind.name));
}

#[test]
fn what_is_left_behind_stays_valid() {
    let mut memory = memory(DmaSegmentation::Contiguous);
    let raw = memory.dma_alloc(DmaLayout::new(8, 8)).unwrap();
    word(&raw, 0).store(5, Ordering::Relaxed);
    drop(memory);
    assert_eq!(word(&raw, 0).load(Ordering::Relaxed), 5);
}

/// Caller's memory for mapping: `bytes` bytes that begin `skew` bytes after a page boundary.
struct UserMemory {
    start: NonNull<u8>,
    layout: Layout,
    skew: usize,
    bytes: usize,
}

impl UserMemory {
    fn new(skew: usize, bytes: usize) -> Self {
        let layout = Layout::from_size_align(skew + bytes, PAGE as usize).unwrap();
        // SAFETY: the layout has a size.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap();
        Self {
            start,
            layout,
            skew,
            bytes,
        }
    }

    fn shared(&self) -> SharedBytes {
        // SAFETY: inside the allocation, freed after the last use, no references.
        unsafe { SharedBytes::new(self.start.add(self.skew), self.bytes) }
    }
}

impl Drop for UserMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

#[test]
fn the_mode_decides_the_runs() {
    let user = UserMemory::new(100, 3 * 4096);
    let segments_of = |segments| {
        let mut memory = memory(segments);
        let mapping = memory.dma_map(user.shared(), Access::ReadWrite).unwrap();
        mapping.segments
    };
    assert_eq!(segments_of(DmaSegmentation::Contiguous), 1);
    assert_eq!(segments_of(DmaSegmentation::PerPage), 4);
    assert!((1..=4).contains(&segments_of(DmaSegmentation::Chunks)));
    let mut seeded = memory(DmaSegmentation::Seeded);
    let shapes: Vec<u32> = (0..40)
        .map(|_| {
            seeded
                .dma_map(user.shared(), Access::Read)
                .unwrap()
                .segments
        })
        .collect();
    assert!(shapes.contains(&1) && shapes.contains(&4));
}

#[test]
fn memory_of_programs_is_one_run_whatever_its_size() {
    let mut memory = memory(DmaSegmentation::PerPage);
    let program = memory.attach_program();
    memory.lend_process(program, File::open("/proc/self/mem").unwrap());
    for len in [3 * 4096, 1 << 30] {
        let bytes = ProgramBytes {
            program,
            address: 0x7000_0000_0800,
            len,
        };
        let mapping = memory.dma_map_program(bytes, Access::Read).unwrap();
        assert_eq!(mapping.segments, 1);
        memory.dma_unmap(mapping);
    }
    // More than there are addresses for.
    let bytes = ProgramBytes {
        program,
        address: 0,
        len: 1 << 62,
    };
    assert!(memory.dma_map_program(bytes, Access::Read).is_err());
}

#[test]
fn bad_ranges_and_failing_maps_leave_nothing() {
    let user = UserMemory::new(0, 3 * 4096);
    let mut memory = memory(DmaSegmentation::PerPage);
    let empty = user.shared().window(0, 0).unwrap();
    assert!(matches!(
        memory.dma_map(empty, Access::Read),
        Err(DmaError::BadRange { .. })
    ));
    memory.fail(Allocation::Map, 1);
    assert!(matches!(
        memory.dma_map(user.shared(), Access::Read),
        Err(DmaError::Refused { .. })
    ));
    assert!(memory.counts().nothing_held());
    memory.dma_unmap(Mapping {
        id: 99,
        segments: 1,
    });
}

#[test]
fn a_caller_may_choose_the_address() {
    let user = UserMemory::new(16, 4096);
    let mut memory = memory(DmaSegmentation::PerPage);
    let at =
        |memory: &mut DriverMemory, iova| memory.map_at(iova, user.shared(), Access::ReadWrite);
    let mapping = at(&mut memory, 0x40_0010).unwrap();
    assert_eq!(mapping.segments, 1);
    memory.iommu.write(0x40_0011, &[42]).unwrap();
    let mut byte = [0];
    user.shared().read(1, &mut byte).unwrap();
    assert_eq!(byte, [42]);
    assert!(matches!(
        at(&mut memory, 0x40_0010),
        Err(DmaError::Refused { .. })
    ));
    assert!(matches!(
        at(&mut memory, 0x80_0000),
        Err(DmaError::BadRange { .. })
    ));
    memory.dma_unmap(mapping);
    assert!(memory.counts().nothing_held());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 128 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// The rules of `DmaMap`: segments cover the memory in order, end on page boundaries, keep the
    /// offset in the page, and reach the right bytes. After unmapping they reach nothing.
    #[test]
    fn runs_keep_the_rules(seed in any::<u64>(), skew in 0usize..4096, bytes in 1usize..40_000) {
        let bytes = if cfg!(miri) { bytes % 9_000 + 1 } else { bytes };
        let user = UserMemory::new(skew, bytes);
        let shared = user.shared();
        let mut memory = DriverMemory::new(DmaSegmentation::Seeded, &Rng::new(seed));
        let mapping = memory.dma_map(shared, Access::ReadWrite).unwrap();
        let mut at = 0u64;
        let mut ends = Vec::new();
        for index in 0..mapping.segments {
            let run = memory.dma_segment(&mapping, index).unwrap();
            let address = shared.address() + at;
            prop_assert!(run.bytes >= 1);
            prop_assert_eq!(run.iova.0 % PAGE, address % PAGE);
            prop_assert!(index == 0 || address.is_multiple_of(PAGE));
            let mark = [index as u8 ^ 0x5a];
            memory.iommu.write(run.iova.0 + run.bytes - 1, &mark).unwrap();
            let mut back = [0];
            shared.read((at + run.bytes - 1) as usize, &mut back).unwrap();
            prop_assert_eq!(back, mark);
            prop_assert!(memory.iommu.read(run.iova.0 + run.bytes, &mut back).is_err());
            ends.push(run.iova.0);
            at += run.bytes;
        }
        prop_assert_eq!(at, bytes as u64);
        prop_assert_eq!(memory.dma_segment(&mapping, mapping.segments), None);
        prop_assert_eq!(memory.counts().mapped_bytes, bytes as u64);
        memory.dma_unmap(mapping);
        prop_assert_eq!(memory.dma_segment(&mapping, 0), None);
        for iova in ends {
            let refused = memory.iommu.read(iova, &mut [0]).unwrap_err().refused();
            prop_assert_eq!(refused.refusal, crate::iommu::Refusal::Freed);
        }
        prop_assert!(memory.counts().nothing_held());
    }
}

/// Mapping the same memory several times, and overlapping memory: each mapping has IOVAs of its
/// own.
#[test]
fn memory_is_mapped_as_often_as_it_is_asked_for() {
    const TIMES: usize = 64;
    let user = UserMemory::new(24, 3 * 4096);
    let mut memory = memory(DmaSegmentation::Contiguous);
    let mut places = Vec::new();
    for n in 0..TIMES {
        // Every second mapping covers all of it, the others a part that begins elsewhere.
        let from = if n % 2 == 0 { 0 } else { n * 8 };
        let window = user.shared().window(from, user.bytes - from).unwrap();
        let access = if n % 3 == 0 {
            Access::Read
        } else {
            Access::ReadWrite
        };
        let mapping = memory.dma_map(window, access).unwrap();
        let iova = memory.dma_segment(&mapping, 0).unwrap().iova.0;
        places.push((iova, from, access, mapping));
    }
    let iovas: std::collections::BTreeSet<u64> = places.iter().map(|place| place.0).collect();
    assert_eq!(iovas.len(), TIMES);
    assert_eq!(memory.counts().mappings, TIMES as u64);
    for (n, (iova, from, access, mapping)) in places.into_iter().enumerate() {
        let mark = [n as u8; 4];
        assert_eq!(
            memory.iommu.write(iova, &mark).is_ok(),
            access == Access::ReadWrite
        );
        if access == Access::ReadWrite {
            let mut seen = [0; 4];
            user.shared().read(from, &mut seen).unwrap();
            assert_eq!(seen, mark);
        }
        memory.dma_unmap(mapping);
        assert!(memory.iommu.read(iova, &mut [0]).is_err());
    }
    assert!(memory.counts().nothing_held());
}
