//! Operations for a device server that exports a function to another process or to a virtual
//! machine.
//!
//! The client brings its own I/O address space: it maps and unmaps memory at addresses of its
//! choice, in ranges that may be adjacent. Every access of the device is still checked against
//! exactly that memory.

use crate::findings::kind;
use e810_hal::{Access, SharedBytes};

use super::SimPlatform;
use crate::machine::Machine;

impl SimPlatform {
    /// Makes `memory` visible to the device from `iova` on. Mappings may be adjacent. Returns
    /// false, with a finding, when `memory` is empty, wraps, overlaps an existing mapping or has
    /// another offset in its 4 KiB page than `iova`.
    ///
    /// The device uses the memory until [`SimPlatform::detach_memory`] has returned.
    pub fn attach_memory(&self, iova: u64, memory: SharedBytes, access: Access) -> bool {
        // So that a client that maps thousands of pages does not keep the engine waiting.
        self.settle();
        self.with(|env| {
            let done = env.state.memory.iommu.attach(iova, memory, access);
            if !done {
                let text = format!("mapping of {:#x} bytes at IOVA {iova:#x}", memory.len());
                env.found(kind::DMA_OVERLAP, text);
            }
            done
        })
    }

    /// Unmaps the attached memory in `bytes` bytes from `iova` on. The range need not match a
    /// mapping: virtual machines unmap more than they mapped. A mapping that extends beyond the
    /// range is cut. Returns the number of mappings that were removed or cut.
    ///
    /// Earlier work of the function is done first. A card would have done it long ago: the memory
    /// may be that of a command that its driver has given up.
    pub fn detach_memory(&self, iova: u64, bytes: u64) -> usize {
        self.settle();
        self.with(|env| env.state.memory.iommu.detach(iova, bytes))
    }

    fn settle(&self) {
        self.owner.runtime.settle(self.function);
    }

    /// Number of mappings of attached memory.
    #[must_use]
    pub fn attached_memory(&self) -> usize {
        self.with(|env| env.state.memory.iommu.attached())
    }

    /// Bytes of attached memory.
    #[must_use]
    pub fn attached_bytes(&self) -> u64 {
        self.with(|env| env.state.memory.iommu.attached_bytes())
    }

    /// Function-level reset, as by the PCI Express capability; complete when this returns.
    pub fn function_level_reset(&self) {
        self.with_machine(Machine::function_level_reset);
    }

    /// The client has disconnected: resets the function and unmaps all attached memory, atomically.
    pub fn abandon(&self) {
        self.with_machine(|machine, index| {
            machine.function_level_reset(index);
            if let Some(function) = machine.functions.get_mut(index) {
                function.state.memory.iommu.detach(0, u64::MAX);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sim;
    use crate::pe::Env;
    use e810_hal::regs::{GLPE_CPUSTATUS0, PFPE_CCQPHIGH, PFPE_CQPTAIL};
    use std::ptr::NonNull;

    const PAGE: u64 = 4096;

    /// Two pages, mapped in the order of `iovas`; they are leaked.
    fn pages() -> [SharedBytes; 2] {
        let layout = std::alloc::Layout::from_size_align(8192, 4096).unwrap();
        // SAFETY: the layout has a size.
        let start = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).unwrap();
        // SAFETY: that many bytes, never freed, no reference is made to them.
        let all = unsafe { SharedBytes::new(start, 8192) };
        [
            all.window(0, 4096).unwrap(),
            all.window(4096, 4096).unwrap(),
        ]
    }

    #[test]
    fn an_access_runs_over_pages_that_touch() {
        let sim = Sim::builder().build();
        let nic = sim.function(0);
        let [first, second] = pages();
        // In the opposite order from that in memory.
        assert!(nic.attach_memory(0x10_0000, second, Access::ReadWrite));
        assert!(nic.attach_memory(0x10_1000, first, Access::ReadWrite));
        assert_eq!((nic.attached_memory(), nic.attached_bytes()), (2, 8192));
        nic.with(|env| {
            env.write(0x10_0ffc, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
            let mut back = [0; 8];
            env.read(0x10_0ffc, &mut back).unwrap();
            assert_eq!(back, [1, 2, 3, 4, 5, 6, 7, 8]);
            env.write_entry(0x10_0ff0, &[10, 11, 12, 13], 3).unwrap();
            assert_eq!(env.load(0x10_1008), Ok(13));
            assert!(env.write(0x10_1ff8, &[0; 9]).is_err());
            assert!(env.write_entry(0x10_1ff8, &[9, 9], 1).is_err());
            assert_eq!(env.load(0x10_1ff8), Ok(0), "all or nothing");
        });
        let mut tail = [0; 8];
        second.read(0xff8, &mut tail).unwrap();
        assert_eq!(u64::from_le_bytes(tail), 11);
        assert_eq!(sim.finding_counts(), [(0, kind::DMA_BOUNDS.name, 2)]);
    }

    #[test]
    fn what_cannot_be_mapped_is_a_finding() {
        let sim = Sim::builder().build();
        let nic = sim.function(0);
        let [page, other] = pages();
        assert!(nic.attach_memory(0x10_0000, page, Access::Read));
        let nothing = other.window(0, 0).unwrap();
        assert!(!nic.attach_memory(0x10_0000, other, Access::Read));
        assert!(!nic.attach_memory(0x20_0000, nothing, Access::Read));
        assert!(!nic.attach_memory(0x20_0010, other, Access::Read));
        assert!(!nic.attach_memory(u64::MAX - PAGE + 1, other, Access::Read));
        assert_eq!(sim.take_findings().len(), 4);
        // The very last page but one can be mapped.
        assert!(nic.attach_memory(u64::MAX - 2 * PAGE + 1, other, Access::Read));
    }

    #[test]
    fn more_than_there_is_can_be_given_back() {
        let sim = Sim::builder().build();
        let nic = sim.function(0);
        let pages = pages();
        let map = || {
            for (iova, page) in [0x10_0000, 0x10_1000].into_iter().zip(pages) {
                assert!(nic.attach_memory(iova, page, Access::ReadWrite));
            }
        };
        map();
        assert_eq!(nic.detach_memory(0x7000_0000, 0x1000), 0);
        assert_eq!(nic.detach_memory(0x10_0000, u64::MAX), 2);
        assert_eq!(nic.detach_memory(0, u64::MAX), 0);
        map();
        // From the middle of one mapping to the middle of the other.
        assert_eq!(nic.detach_memory(0x10_0800, 0x1000), 2);
        assert_eq!(nic.attached_memory(), 2);
        nic.with(|env| {
            assert!(env.write(0x10_07f8, &[1; 8]).is_ok());
            assert!(env.write(0x10_1800, &[1; 8]).is_ok());
            assert_eq!(env.load(0x10_0800).unwrap_err().reason, "freed");
            assert_eq!(env.load(0x10_17f8).unwrap_err().reason, "freed");
        });
        let mut byte = [0];
        pages[1].read(0x800, &mut byte).unwrap();
        assert_eq!(byte, [1], "what is left stays where it was");
    }

    #[test]
    fn a_function_level_reset_is_over_at_once() {
        let sim = Sim::builder().functions(2).build();
        let nic = sim.function(1);
        let [page, _] = pages();
        assert!(nic.attach_memory(0x10_0000, page, Access::ReadWrite));
        PFPE_CCQPHIGH.set(&nic, 0x1234);
        PFPE_CQPTAIL.set(&nic, 5);
        nic.function_level_reset();
        assert_eq!(PFPE_CQPTAIL.get(&nic), 0);
        assert_eq!(GLPE_CPUSTATUS0.get(&nic), 0x80);
        assert_eq!(nic.attached_memory(), 1, "the IOMMU is not the function's");
        nic.abandon();
        assert_eq!(nic.attached_memory(), 0);
        assert_eq!((sim.reset_counts(1).flr, sim.reset_counts(0).flr), (2, 0));
        assert_eq!(sim.findings(), []);
    }
}
