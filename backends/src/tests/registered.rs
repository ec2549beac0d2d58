//! Memory that programs register: many times, in overlapping pieces, and again at an address whose
//! memory was unmapped.

use std::collections::BTreeSet;

use e810_hal::{Access, DmaAlloc, DmaError, DmaLayout, DmaMap};

use super::Rig;
use crate::buffer::Buffer;
use crate::memory::PAGE;

fn rig() -> Rig {
    Rig::new(|properties| properties.maps_any_memory = true)
}

#[test]
fn memory_is_mapped_as_often_as_it_is_asked_for() {
    const TIMES: usize = 64;
    let rig = rig();
    let memory = Buffer::new(5 * PAGE).unwrap();
    let mut live = Vec::new();
    for n in 0..TIMES {
        // Every second time all of it; else a piece that shares pages with others.
        let (from, bytes) = match n % 2 {
            0 => (0, 5 * PAGE),
            _ => (n * 8, 3 * PAGE),
        };
        let window = memory.bytes().window(from, bytes).unwrap();
        let access = match n % 3 {
            0 => Access::Read,
            _ => Access::ReadWrite,
        };
        let mapping = rig.function.dma_map(window, access).unwrap();
        let run = rig.function.dma_segment(&mapping, 0).unwrap();
        assert_eq!(run.iova.0 % PAGE as u64, window.address() % PAGE as u64);
        assert_eq!(run.bytes, bytes as u64);
        live.push(mapping);
    }
    // The transport saw no overlap, or its books would have failed.
    assert_eq!(rig.mapped(), TIMES);
    let asked: BTreeSet<u64> = rig.books.lock().unwrap().maps.keys().copied().collect();
    assert_eq!(asked.len(), TIMES);
    // Each one is unmapped separately.
    for (n, mapping) in live.into_iter().enumerate() {
        rig.function.dma_unmap(mapping);
        assert_eq!(rig.mapped(), TIMES - 1 - n);
    }
}

/// The kernel keeps the pages of a mapping when a program unmaps them. The program has other pages
/// there afterwards, which must be mapped again.
#[test]
fn an_address_that_is_registered_again_is_mapped_again() {
    let rig = rig();
    let memory = Buffer::new(PAGE).unwrap();
    let old = rig.function.dma_map(memory.bytes(), Access::ReadWrite);
    let old = old.unwrap();
    let new = rig.function.dma_map(memory.bytes(), Access::ReadWrite);
    let new = new.unwrap();
    let iova = |mapping| rig.function.dma_segment(mapping, 0).unwrap().iova.0;
    let (first, second) = (iova(&old), iova(&new));
    assert_ne!(first, second);
    let books = rig.books.lock().unwrap();
    assert_eq!(books.addresses[&first], books.addresses[&second]);
    drop(books);
    rig.function.dma_unmap(old);
    assert!(rig.books.lock().unwrap().maps.contains_key(&second));
    rig.function.dma_unmap(new);
    assert_eq!(rig.mapped(), 0);
}

#[test]
fn the_reason_of_a_refused_mapping_gets_through() {
    let rig = rig();
    let memory = Buffer::new(3 * PAGE).unwrap();
    let window = memory.bytes().window(100, PAGE).unwrap();
    let (address, access) = (window.address(), Access::ReadWrite);
    let refuse = |cause| {
        rig.books.lock().unwrap().refuse_map = cause;
        rig.function.dma_map(window, access).map(drop)
    };
    let locked = DmaError::LockLimit {
        bytes: 2 * PAGE,
        limit: 8 << 20,
        in_use: Some(8 << 20),
    };
    let many = DmaError::TooManyMappings { bytes: 2 * PAGE };
    assert_eq!(refuse(Some(locked)), Err(locked));
    assert_eq!(refuse(Some(many)), Err(many));
    // The error names the caller's bytes, not whole pages.
    let (pages, bytes) = (2 * PAGE, PAGE);
    let not_accessible = |address, bytes| DmaError::NotAccessible {
        address,
        bytes,
        access,
    };
    assert_eq!(
        refuse(Some(not_accessible(address - 100, pages))),
        Err(not_accessible(address, bytes))
    );
    // The driver's own memory is locked, too.
    rig.books.lock().unwrap().refuse_map = Some(locked);
    let given = rig.function.dma_alloc(DmaLayout::new(64, 64));
    assert_eq!(given.map(drop), Err(locked));
    assert_eq!(refuse(None), Ok(()));
}

#[test]
fn a_space_without_room_says_so() {
    let rig = Rig::new(|properties| {
        properties.maps_any_memory = true;
        properties.iova_ranges = vec![(0x10_0000, 0x10_1fff)];
    });
    let memory = Buffer::new(3 * PAGE).unwrap();
    let all = rig.function.dma_map(memory.bytes(), Access::Read);
    assert_eq!(all, Err(DmaError::NoAddresses { bytes: 3 * PAGE }));
    let two = memory.bytes().window(0, 2 * PAGE).unwrap();
    let mapping = rig.function.dma_map(two, Access::Read).unwrap();
    let one = memory.bytes().window(0, 1).unwrap();
    let refused = rig.function.dma_map(one, Access::Read);
    assert_eq!(refused, Err(DmaError::NoAddresses { bytes: 1 }));
    rig.function.dma_unmap(mapping);
    assert!(rig.function.dma_map(one, Access::Read).is_ok());
}
