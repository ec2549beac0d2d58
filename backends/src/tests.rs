//! The common part of all backends, on a mock transport that records its calls.

mod pages;
mod programs;
mod registered;
mod rig;

use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use e810_hal::{
    Access, DmaAlloc, DmaBuf, DmaError, DmaLayout, DmaMap, DmaWords, HostBuf, InterruptVectors,
    SharedBytes,
};

use super::memory::PAGE;
use super::*;
use rig::{Fake, Rig};
#[test]
fn a_function_is_reset_before_and_after_and_says_what_it_is() {
    let rig = Rig::new(|_| {});
    let identity = rig.function.identity();
    assert_eq!(
        (identity.device, identity.name),
        (0x1592, "E810-C for QSFP")
    );
    assert_eq!(identity.mac(), Some([2, 0xe8, 0x10, 0, 0, 3]));
    rig.books.lock().unwrap().log.push("used".to_owned());
    let leaked = DmaBuf::new(rig.function.clone(), DmaLayout::new(8, 8)).unwrap();
    drop(leaked);
    let Rig {
        function, books, ..
    } = rig;
    drop(function);
    let books = books.lock().unwrap();
    assert_eq!(
        books.log,
        [
            "reset",
            "config 0x4 = [6, 0]",
            "used",
            "vectors off",
            "config 0x4 = [2, 0]",
            "reset"
        ]
    );
    assert!(books.maps.is_empty(), "unmapped after the reset");
}

/// Vectors that stay connected must not keep DMA on.
#[test]
fn a_function_is_quieted_as_far_as_it_lets_itself() {
    let rig = Rig::new(|_| {});
    rig.books.lock().unwrap().refuse_off = true;
    rig.books.lock().unwrap().log.clear();
    let Rig {
        function, books, ..
    } = rig;
    drop(function);
    assert_eq!(
        books.lock().unwrap().log,
        ["config 0x4 = [2, 0]", "reset"],
        "bus master off, and the reset"
    );
}

/// The registers of this one read all ones, like those of a function that is gone.
#[test]
fn a_function_that_is_gone_has_no_virtual_stations_to_choose_from() {
    let rig = Rig::new(|_| {});
    let error = lan(&rig.function, Some([2, 0, 0, 0, 0, 1]), None, 1500).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("the device is gone"), "{text}");
    assert!(text.contains("VSIQF_PE_CTL1"), "{text}");
}

#[test]
fn another_device_is_refused() {
    let rig = Rig::new(|_| {});
    let fake = Fake {
        properties: rig.function.transport().properties().clone(),
        config: Mutex::new(vec![0; 4096]),
        books: Arc::default(),
        refuse_unmap: Arc::default(),
        shared: None,
    };
    fake.config.lock().unwrap()[..4].copy_from_slice(&[0x86, 0x80, 0x72, 0x15]);
    let books = Arc::clone(&fake.books);
    let error = Function::open(fake, Options::default()).unwrap_err();
    assert!(matches!(error, BackendError::NotE810 { id: 0x1572, .. }));
    assert!(books.lock().unwrap().log.is_empty(), "not even reset");
}

#[test]
fn small_requests_share_a_mapping_and_are_zeroed_each_time() {
    let rig = Rig::new(|_| {});
    let alloc =
        |bytes, align| DmaBuf::new(rig.function.clone(), DmaLayout::new(bytes, align)).unwrap();
    let (a, b, c) = (alloc(8, 8), alloc(4096, 4096), alloc(512, 512));
    assert_eq!(rig.mapped(), 1);
    for (buffer, align) in [(&a, 8), (&b, 4096), (&c, 512)] {
        assert!(buffer.iova().0.is_multiple_of(align));
    }
    b.words()[511].store(7, Ordering::Relaxed);
    let at = b.iova();
    b.release();
    let b = alloc(4096, 4096);
    assert_eq!((b.iova(), b.words()[511].load(Ordering::Relaxed)), (at, 0));

    let large = alloc(3 << 20, 4096);
    assert!(large.iova().0.is_multiple_of(2 << 20));
    assert_eq!(rig.mapped(), 2);
    large.release();
    assert_eq!(rig.mapped(), 1);
    for buffer in [a, b, c] {
        buffer.release();
    }
    assert_eq!(rig.mapped(), 1, "one chunk is kept");
    let books = rig.books.lock().unwrap();
    assert!(
        books
            .maps
            .values()
            .all(|(_, file, access)| *file && *access == Access::ReadWrite)
    );
}

#[test]
fn chunks_come_and_go() {
    let rig = Rig::new(|_| {});
    let layout = DmaLayout::new(64 << 10, 64 << 10);
    let all: Vec<_> = (0..40)
        .map(|_| DmaBuf::new(rig.function.clone(), layout).unwrap())
        .collect();
    assert_eq!(rig.mapped(), 2);
    all.into_iter().for_each(DmaBuf::release);
    assert_eq!(rig.mapped(), 1);
}

#[test]
fn what_the_device_keeps_is_not_used_again() {
    let rig = Rig::new(|properties| properties.iova_ranges = vec![(0x10_0000, 0x2f_ffff)]);
    let buffer = DmaBuf::new(rig.function.clone(), DmaLayout::new(1 << 20, 4096)).unwrap();
    let at = buffer.iova();
    rig.refuse_unmap.store(true, Ordering::Relaxed);
    buffer.release();
    rig.refuse_unmap.store(false, Ordering::Relaxed);
    let other = DmaBuf::new(rig.function.clone(), DmaLayout::new(1 << 20, 4096)).unwrap();
    assert_ne!(other.iova(), at);
    let full = rig.function.dma_alloc(DmaLayout::new(1 << 20, 4096));
    assert!(matches!(full, Err(DmaError::OutOfMemory { .. })));
    other.release();
}

#[test]
fn payload_is_mapped_by_its_file_and_outlives_its_owner() {
    let rig = Rig::new(|_| {});
    let nic = &rig.function;
    // The owner is dropped here.
    let window = nic.buffer(3 * PAGE).unwrap().bytes();
    let window = window.window(PAGE + 24, PAGE).unwrap();
    let mapping = nic.dma_map(window, Access::Read).unwrap();
    let run = nic.dma_segment(&mapping, 0).unwrap();
    assert_eq!(
        (run.iova.0 % 4096, run.bytes, mapping.segments),
        (24, 4096, 1)
    );
    assert_eq!(nic.dma_segment(&mapping, 1), None);
    let first = *rig.books.lock().unwrap().maps.values().next().unwrap();
    assert_eq!(first, (2 * 4096, true, Access::Read));
    assert_eq!(rig.mapped(), 1);
    nic.dma_unmap(mapping);
    nic.dma_unmap(mapping);
    assert_eq!(rig.mapped(), 0);
    // The memory stays, and can be mapped again.
    let mapping = nic.dma_map(window, Access::Read).unwrap();
    nic.dma_unmap(mapping);
}

#[test]
fn payload_that_was_freed_is_not_known_any_more() {
    let rig = Rig::new(|_| {});
    let buffer = rig.function.buffer(PAGE).unwrap();
    let window = buffer.bytes();
    // SAFETY: nothing was mapped; only the address of the window was used.
    unsafe { buffer.free() };
    assert!(rig.function.dma_map(window, Access::Read).is_err());
}

#[test]
fn memory_without_a_file_needs_a_transport_that_takes_it() {
    let mut memory = vec![0u8; 100];
    let start = NonNull::new(memory.as_mut_ptr()).unwrap();
    // SAFETY: the vector lives to the end of the test and is not touched.
    let bytes = unsafe { SharedBytes::new(start, memory.len()) };
    let strict = Rig::new(|_| {});
    let refused = strict.function.dma_map(bytes, Access::ReadWrite);
    assert!(matches!(refused, Err(DmaError::NoFile { bytes: 100, .. })));
    let rig = Rig::new(|properties| properties.maps_any_memory = true);
    let mapping = rig.function.dma_map(bytes, Access::ReadWrite).unwrap();
    let run = rig.function.dma_segment(&mapping, 0).unwrap();
    assert_eq!(run.iova.0 % 4096, bytes.address() % 4096);
    assert!(!rig.books.lock().unwrap().maps.values().next().unwrap().1);
    rig.function.dma_unmap(mapping);
    let nothing = bytes.window(0, 0).unwrap();
    assert!(matches!(
        rig.function.dma_map(nothing, Access::Read),
        Err(DmaError::BadRange { .. })
    ));
}

#[test]
fn vectors_are_connected_one_by_one() {
    let rig = Rig::new(|_| {});
    let nic = &rig.function;
    let all: Vec<_> = std::iter::from_fn(|| nic.vector_alloc()).collect();
    assert_eq!(all.len(), 4);
    rig.fire(2);
    rig.fire(0);
    assert_eq!(rig.fired(), [0, 2]);
    assert_eq!(rig.fired(), [0; 0]);
    nic.vector_free(all[1]);
    nic.vector_free(all[1]);
    let connected: Vec<u16> = rig.books.lock().unwrap().vectors.keys().copied().collect();
    assert_eq!(connected, [0, 2, 3]);
    assert_eq!(nic.vector_alloc(), Some(all[1]));
    rig.fire(1);
    assert_eq!(rig.fired(), [1]);
}

#[test]
fn a_set_that_cannot_grow_is_connected_anew() {
    let rig = Rig::new(|properties| properties.vectors_grow = false);
    let nic = &rig.function;
    let first = nic.vector_alloc().unwrap();
    let second = nic.vector_alloc().unwrap();
    assert_eq!((first.get(), second.get()), (0, 1));
    assert_eq!(rig.fired(), [0], "a message may have been lost meanwhile");
    nic.vector_free(first);
    rig.fire(0);
    assert_eq!(rig.fired(), [0; 0], "nobody has it");
    assert_eq!(nic.vector_alloc(), Some(first));
    assert_eq!(
        rig.fired(),
        [0; 0],
        "what came before is not its new owner's"
    );
    rig.fire(0);
    rig.fire(1);
    assert_eq!(rig.fired(), [0, 1]);
}

#[test]
fn the_others_go_on_when_a_set_cannot_be_made_larger() {
    let rig = Rig::new(|properties| properties.vectors_grow = false);
    let nic = &rig.function;
    let [first, second] = [0, 1].map(|_| nic.vector_alloc().unwrap());
    nic.vector_affinity(second, 3);
    assert_eq!(rig.fired(), [0]);
    rig.books.lock().unwrap().most = Some(2);
    assert_eq!(nic.vector_alloc(), None);
    assert_eq!(rig.fired(), [0, 1], "both look once more");
    rig.fire(0);
    rig.fire(1);
    assert_eq!(rig.fired(), [0, 1]);
    assert_eq!(rig.books.lock().unwrap().cpus, [(1, 3)].into());
    // A vector that was freed can be taken without a larger set.
    nic.vector_free(first);
    assert_eq!(nic.vector_alloc(), Some(first));
    assert_eq!(rig.fired(), [0; 0], "nobody was disturbed");
    // Later there is room.
    rig.books.lock().unwrap().most = None;
    nic.vector_free(first);
    assert_eq!(nic.vector_alloc(), Some(first));
    let third = nic.vector_alloc().unwrap();
    assert_eq!(third.get(), 2);
    assert_eq!(rig.fired(), [0, 1]);
    rig.fire(2);
    assert_eq!(rig.fired(), [2]);
}

#[test]
fn a_vector_keeps_its_cpu_until_it_is_given_back() {
    for vectors_grow in [true, false] {
        let rig = Rig::new(|properties| properties.vectors_grow = vectors_grow);
        let nic = &rig.function;
        let cpus = || -> Vec<(u16, u32)> {
            let books = rig.books.lock().unwrap();
            books.cpus.iter().map(|(v, cpu)| (*v, *cpu)).collect()
        };
        let first = nic.vector_alloc().unwrap();
        nic.vector_affinity(first, 7);
        let second = nic.vector_alloc().unwrap();
        nic.vector_affinity(second, 2);
        let third = nic.vector_alloc().unwrap();
        assert_eq!(cpus(), [(0, 7), (1, 2)]);
        nic.vector_free(second);
        nic.vector_affinity(second, 5);
        let fourth = nic.vector_alloc().unwrap();
        assert_eq!(fourth, second);
        let _ = nic.vector_alloc().unwrap();
        let stale: &[(u16, u32)] = &[(0, 7)];
        assert_eq!(cpus(), stale);
        // A refusal is not a failure.
        rig.books.lock().unwrap().refuse_cpus = true;
        nic.vector_affinity(third, 1);
        assert_eq!(cpus(), stale);
        rig.fire(2);
        assert!(rig.fired().contains(&2));
    }
}

#[test]
fn host_memory_comes_from_the_heap() {
    let rig = Rig::new(|_| {});
    let words = HostBuf::new(rig.function.clone(), 1000).unwrap();
    assert!(
        words
            .words()
            .iter()
            .all(|word| word.load(Ordering::Relaxed) == 0)
    );
    assert!(HostBuf::new(rig.function.clone(), usize::MAX / 8).is_err());
    assert_eq!(rig.mapped(), 0);
}
