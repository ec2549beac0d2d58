//! Where memory lies for the device, and with which pages an IOMMU can map it.

use std::sync::{Arc, Mutex};

use e810_hal::{Access, DmaBuf, DmaLayout, DmaMap, SharedBytes};

use super::Rig;
use crate::buffer::Buffer;
use crate::iova::IovaSpace;
use crate::memory::{HUGE_PAGE, PAGE};
use crate::{Function, Transport};

const MIB2: u64 = HUGE_PAGE as u64;
const GIB1: u64 = 1 << 30;

/// Entries of an IOMMU for memory at `address` that the device sees at `iova`, if the physical
/// memory is in huge pages: a large entry wherever both lie alike.
fn entries(address: u64, iova: u64, bytes: u64) -> u64 {
    let page = PAGE as u64;
    let (mut at, end, mut count) = (address, address + bytes, 0);
    while at < end {
        let large = at.is_multiple_of(MIB2)
            && (at ^ iova.wrapping_add(at - address)).is_multiple_of(MIB2)
            && end - at >= MIB2;
        at += if large { MIB2 } else { page };
        count += 1;
    }
    count
}

/// Where the device sees `window`: its IOVA, and the number of mappings.
fn map<T: Transport>(function: &Function<T>, window: SharedBytes) -> (u64, u32) {
    let mapping = function.dma_map(window, Access::ReadWrite).unwrap();
    let run = function.dma_segment(&mapping, 0).unwrap();
    let runs = mapping.segments;
    function.dma_unmap(mapping);
    (run.iova.0, runs)
}

#[test]
fn large_memory_lies_in_large_pages_as_it_does_here() {
    let rig = Rig::new(|properties| properties.maps_any_memory = true);
    // Something small is mapped first, so that nothing is aligned by chance.
    let small = rig.function.buffer(3 * PAGE).unwrap();
    let held = rig.function.dma_map(small.bytes(), Access::Read).unwrap();
    let memory = Buffer::new(16 * HUGE_PAGE).unwrap();
    let all = memory.bytes();
    for (offset, bytes) in [
        (0, 16 * HUGE_PAGE),
        (PAGE, HUGE_PAGE),
        (5 * PAGE, 4 * HUGE_PAGE),
        (123_457, 3 * HUGE_PAGE + 11),
    ] {
        let window = all.window(offset, bytes).unwrap();
        let (iova, _) = map(&rig.function, window);
        assert_eq!(iova % MIB2, window.address() % MIB2, "{offset} {bytes}");
    }
    // Memory of the function is in a file, and its pages start with the file.
    let own = rig.function.buffer(4 * HUGE_PAGE).unwrap();
    let window = own.bytes().window(5 * PAGE, 2 * HUGE_PAGE).unwrap();
    let (iova, _) = map(&rig.function, window);
    assert_eq!(iova % MIB2, 5 * PAGE as u64);
    // Less than a large page takes no more room than it needs.
    let window = all.window(17 * PAGE, 8 * PAGE).unwrap();
    let (iova, _) = map(&rig.function, window);
    assert!(iova < 0x10_0000 + 16 * PAGE as u64, "{iova:#x}");
    rig.function.dma_unmap(held);
}

/// The statement of docs/performance.md about a GiB: one mapping, and 512 entries of the IOMMU for
/// memory in huge pages; 262,144 if it were not aligned.
#[test]
fn a_gib_is_one_mapping_and_512_entries() {
    let rig = Rig::new(|properties| properties.maps_any_memory = true);
    let before = rig.mapped();
    let small = rig.function.buffer(PAGE).unwrap();
    let held = rig.function.dma_map(small.bytes(), Access::Read).unwrap();
    // Nobody touches it, so no memory is used.
    let memory = Buffer::new(GIB1 as usize + HUGE_PAGE).unwrap();
    let start = memory.bytes().address();
    let huge = start.next_multiple_of(MIB2);
    let window = memory
        .bytes()
        .window((huge - start) as usize, GIB1 as usize);
    let window = window.unwrap();
    let mapping = rig.function.dma_map(window, Access::ReadWrite).unwrap();
    assert_eq!(rig.mapped(), before + 2);
    let iova = rig.function.dma_segment(&mapping, 0).unwrap().iova.0;
    assert_eq!(entries(huge, iova, GIB1), 512);
    // It would fit pages of 1 GiB too.
    assert_eq!(iova % GIB1, huge % GIB1);
    assert_eq!(entries(huge, iova + PAGE as u64, GIB1), 262_144);
    let books = rig.books.lock().unwrap();
    assert_eq!(books.addresses[&iova], huge, "as the transport was told");
    drop(books);
    rig.function.dma_unmap(mapping);
    rig.function.dma_unmap(held);
}

/// If there is no such place, memory is still mapped.
#[test]
fn a_narrow_space_is_used_in_small_pages() {
    let rig = Rig::new(|properties| {
        properties.maps_any_memory = true;
        properties.iova_ranges = vec![(0x10_0000, 0x10_0000 + MIB2 - 1)];
    });
    let memory = Buffer::new(2 * HUGE_PAGE).unwrap();
    let start = memory.bytes().address();
    let at = (start.next_multiple_of(MIB2) - start) as usize;
    let window = memory.bytes().window(at, HUGE_PAGE).unwrap();
    let (iova, _) = map(&rig.function, window);
    assert_eq!(iova, 0x10_0000);
}

#[test]
fn blocks_of_the_driver_keep_their_alignment() {
    let rig = Rig::new(|_| {});
    for (bytes, align) in [
        (HUGE_PAGE, PAGE),
        (2 * HUGE_PAGE, 4 * HUGE_PAGE),
        (3 * HUGE_PAGE, 1 << 16),
    ] {
        let layout = DmaLayout::new(bytes, align);
        let block = DmaBuf::new(rig.function.clone(), layout).unwrap();
        assert!(block.iova().0.is_multiple_of(align as u64), "{layout:?}");
        block.release();
    }
}

/// Two functions of one IOMMU group: the addresses that one has mapped are not free for the other.
#[test]
fn functions_that_share_addresses_do_not_meet() {
    let space = IovaSpace::new(&[(0x10_0000, 0xFFFF_FFFF)], 4096).unwrap();
    let shared = Arc::new(Mutex::new(space));
    let rig = || Rig::sharing(Some(Arc::clone(&shared)), |p| p.maps_any_memory = true);
    let (one, other) = (rig(), rig());
    let block = |rig: &Rig| DmaBuf::new(rig.function.clone(), DmaLayout::new(64, 64)).unwrap();
    let (a, b) = (block(&one), block(&other));
    let ranges: Vec<_> = [&one, &other]
        .iter()
        .flat_map(|rig| {
            let books = rig.books.lock().unwrap();
            let range = |(iova, (len, ..)): (&u64, &(u64, _, _))| (*iova, iova + len);
            books.maps.iter().map(range).collect::<Vec<_>>()
        })
        .collect();
    let [(first, first_end), (second, second_end)] = ranges[..] else {
        panic!("{ranges:x?}");
    };
    assert!(first_end <= second || second_end <= first, "{ranges:x?}");
    a.release();
    b.release();
    drop((one, other));
    assert!(shared.lock().unwrap().is_unused());
}
