//! Accesses of the device to memory that programs have taken away.

use super::*;
use crate::iommu::NoAccess;
use crate::program_memory::tests::Pages;

const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;

fn checked() -> DriverMemory {
    let mut memory = memory(DmaSegmentation::Contiguous);
    memory.check_access(true);
    memory
}

fn map(memory: &mut DriverMemory, pages: &Pages) -> (Mapping, u64) {
    let mapping = memory.dma_map(pages.shared(), Access::ReadWrite).unwrap();
    let iova = memory.dma_segment(&mapping, 0).unwrap().iova.0;
    (mapping, iova)
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no such system calls")]
fn memory_that_goes_is_an_access_that_fails() {
    let mut memory = checked();
    let pages = Pages::new(2, BOTH);
    let (mapping, iova) = map(&mut memory, &pages);
    memory.iommu.write(iova + 4090, &[9; 12]).unwrap();
    let mut bytes = [0; 14];
    memory.iommu.read(iova + 4089, &mut bytes).unwrap();
    assert_eq!(bytes, [0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 0]);
    memory.iommu.write_entry(iova, &[1, 2, 3, 4], 3).unwrap();
    assert_eq!(memory.iommu.load_quantum(iova), Ok([1, 2, 3, 4]));
    assert_eq!(memory.iommu.load(iova + 8), Ok(2));
    // The IOMMU still checks its bounds.
    let past = memory.iommu.read(iova + 8190, &mut [0; 4]).unwrap_err();
    assert_eq!(past.refused().refusal, crate::iommu::Refusal::Bounds);
    pages.unmap(1);
    memory.iommu.read(iova, &mut bytes).unwrap();
    for no in [
        memory.iommu.read(iova + 4090, &mut bytes).unwrap_err(),
        memory.iommu.write(iova + 8000, &bytes).unwrap_err(),
        memory.iommu.load(iova + 4096).unwrap_err(),
        memory.iommu.load_quantum(iova + 4096).unwrap_err(),
        memory
            .iommu
            .load_words(iova + 4080, &mut [0; 4])
            .unwrap_err(),
        memory
            .iommu
            .write_entry(iova + 4096, &[0; 4], 3)
            .unwrap_err(),
        memory
            .iommu
            .write_entry(iova + 4096, &[0; 2], 0)
            .unwrap_err(),
    ] {
        let NoAccess::NotThere(fault) = no else {
            panic!("{no:?}")
        };
        assert!(
            fault.to_string().ends_with("no such memory any more"),
            "{fault}"
        );
    }
    memory.dma_unmap(mapping);
    assert!(memory.counts().nothing_held());
}

/// Memory of `DmaAlloc` is used directly, whether or not mapped memory is checked.
#[test]
fn rings_are_not_checked() {
    let mut memory = checked();
    let raw = memory.dma_alloc(DmaLayout::new(64, 64)).unwrap();
    memory.iommu.write_entry(raw.iova.0, &[5], 0).unwrap();
    assert_eq!(word(&raw, 0).load(Ordering::Relaxed), 5);
    free(&mut memory, raw);
}

/// A mapping belongs to memory, not to an address: other memory mapped at the same address later
/// has a mapping of its own.
#[test]
#[cfg_attr(miri, ignore = "Miri has no such system calls")]
fn memory_that_comes_back_at_the_same_address_has_a_mapping_of_its_own() {
    let mut memory = checked();
    let first = Pages::new(1, BOTH);
    first.fill(1);
    let (old, old_iova) = map(&mut memory, &first);
    let place = first.start();
    first.unmap(0);
    assert!(memory.iommu.read(old_iova, &mut [0]).is_err());
    let second = Pages::at(place, 1, BOTH);
    second.fill(2);
    assert_eq!(second.shared().address(), first.shared().address());
    let (new, new_iova) = map(&mut memory, &second);
    assert_ne!(old_iova, new_iova);
    let mut byte = [0];
    memory.iommu.read(new_iova, &mut byte).unwrap();
    assert_eq!(byte, [2]);
    // Removing the old mapping keeps the new one.
    memory.dma_unmap(old);
    assert!(memory.iommu.read(old_iova, &mut byte).is_err());
    memory.iommu.write(new_iova, &[3]).unwrap();
    memory.iommu.read(new_iova, &mut byte).unwrap();
    assert_eq!(byte, [3]);
    memory.dma_unmap(new);
    // Both have the same address, which is unmapped once.
    std::mem::forget(first);
}
