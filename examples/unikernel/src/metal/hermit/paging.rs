//! Memory as the device and the processor see it.
//!
//! The kernel maps all RAM at its physical addresses, its page tables among it,
//! and the loader puts the image, with our pool in it, at its own.

use core::ptr::{NonNull, with_exposed_provenance_mut};

use x86_64::structures::paging::{
    FrameAllocator, Mapper, OffsetPageTable, PageSize, PageTable, PageTableFlags, PhysFrame,
    Size2MiB, Size4KiB, Translate,
};
use x86_64::{PhysAddr, VirtAddr, registers::control::Cr3};

use crate::pci::Window;
use crate::pool::{PAGE, Pool};

/// Registers: no caching, no code.
const REGISTERS: PageTableFlags = PageTableFlags::PRESENT
    .union(PageTableFlags::WRITABLE)
    .union(PageTableFlags::NO_CACHE)
    .union(PageTableFlags::WRITE_THROUGH)
    .union(PageTableFlags::NO_EXECUTE);

/// Whether the device finds each page of `bytes` bytes from `start` on at the
/// address that the processor has for it.
pub(super) fn is_identity(start: NonNull<u8>, bytes: usize) -> bool {
    let start = start.addr().get();
    // SAFETY: only read from; as in `map` nobody changes them meanwhile.
    let tables = unsafe { tables() };
    let mut pages = (start..start + bytes).step_by(PAGE);
    pages.all(|page| {
        tables.translate_addr(VirtAddr::new(page as u64)) == Some(PhysAddr::new(page as u64))
    })
}

/// Maps a window on registers at its own address, in large pages where it can be.
/// Page tables come out of the pool, for good. `None` when it is used up or
/// something is mapped there.
pub(super) fn map(pool: &Pool, window: Window) -> Option<NonNull<u8>> {
    let large = (window.address | window.bytes).is_multiple_of(Size2MiB::SIZE);
    // SAFETY: the addresses are those of registers, which nobody else has mapped
    // (the mapper refuses what is). The kernel changes its tables when somebody asks
    // it for memory or a thread: the program has one thread, on one processor,
    // which is here, and handlers of interrupts ask for nothing. On a machine of
    // several processors the kernel's other ones run no task of this program.
    let mut tables = unsafe { tables() };
    if large {
        pages::<Size2MiB>(&mut tables, pool, window)?;
    } else {
        pages::<Size4KiB>(&mut tables, pool, window)?;
    }
    NonNull::new(with_exposed_provenance_mut(window.address as usize))
}

fn pages<'t, S: PageSize>(
    tables: &mut OffsetPageTable<'t>,
    pool: &Pool,
    window: Window,
) -> Option<()>
where
    OffsetPageTable<'t>: Mapper<S>,
{
    let at = |offset| PhysFrame::<S>::containing_address(PhysAddr::new(window.address + offset));
    for frame in PhysFrame::range_inclusive(at(0), at(window.bytes.checked_sub(1)?)) {
        // SAFETY: see `map`.
        let mapped = unsafe { tables.identity_map(frame, REGISTERS, &mut Frames(pool)) };
        mapped.ok()?.flush();
    }
    Some(())
}

/// The page tables in force.
///
/// # Safety
/// Nobody changes them while they are used here.
unsafe fn tables() -> OffsetPageTable<'static> {
    let (frame, _) = Cr3::read();
    let top: *mut PageTable = with_exposed_provenance_mut(frame.start_address().as_u64() as usize);
    // SAFETY: the kernel maps RAM, and so its tables, at physical addresses.
    unsafe { OffsetPageTable::new(&mut *top, VirtAddr::zero()) }
}

/// Page tables out of the pool.
struct Frames<'p>(&'p Pool);

// SAFETY: each frame is taken from the pool, which gives it to nobody else, and
// has been seen to be at its own address (`is_identity`).
unsafe impl FrameAllocator<Size4KiB> for Frames<'_> {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        let page = self.0.keep(PAGE)?;
        let address = PhysAddr::new(page.addr().get() as u64);
        PhysFrame::from_start_address(address).ok()
    }
}
