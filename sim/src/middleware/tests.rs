//! Layers on the registers of a platform.

use std::ptr::NonNull;

use super::*;

use e810_hal::regs::{GLPE_CPUSTATUS0, PFINT_OICR_ENA, PFPE_CQPDB, PFPE_CQPTAIL};
use e810_hal::{Access, DmaAlloc, DmaBuf, DmaLayout, DmaWords, HostBuf, Ns, Platform, SharedBytes};

use crate::{Sim, SimPlatform};

fn with(inject: &Inject) -> Layered<SimPlatform, Inject> {
    Layered::new(Sim::builder().build().function(0), inject.clone())
}

#[test]
fn a_trace_names_registers() {
    let trace = Trace::new();
    let nic = Layered::new(Sim::builder().build().function(0), trace.clone());
    GLPE_CPUSTATUS0.get(&nic);
    PFPE_CQPDB.set(&nic, 3);
    nic.write32(RegOffset::new(0x10), 0x20);
    let expected = [
        "read GLPE_CPUSTATUS0 0x80",
        "write PFPE_CQPDB 0x3",
        "write 0x000010 0x20",
    ];
    assert_eq!(trace.lines(), expected);
    assert_eq!(trace.take(), expected);
    assert_eq!(trace.lines(), [""; 0]);
}

#[test]
fn a_device_leaves_the_bus_at_the_chosen_read() {
    let inject = Inject::with(Rule::Gone { nth: 2 });
    let nic = with(&inject);
    PFINT_OICR_ENA.set(&nic, 2);
    assert_eq!(PFINT_OICR_ENA.get(&nic), 2);
    assert_eq!(GLPE_CPUSTATUS0.get(&nic), u32::MAX);
    PFINT_OICR_ENA.set(&nic, 4);
    assert_eq!(PFINT_OICR_ENA.get(&nic), u32::MAX);
    inject.clear();
    assert_eq!(PFINT_OICR_ENA.get(&nic), 2, "the last write went nowhere");
}

#[test]
fn one_register_can_fail_alone() {
    let off = GLPE_CPUSTATUS0.off();
    let inject = Inject::with(Rule::AllOnes { off, nth: 2 });
    let nic = with(&inject);
    assert_eq!(PFPE_CQPTAIL.get(&nic), 0);
    assert_eq!(GLPE_CPUSTATUS0.get(&nic), 0x80);
    assert_eq!(GLPE_CPUSTATUS0.get(&nic), u32::MAX);
    assert_eq!(PFPE_CQPTAIL.get(&nic), 0);
    inject.add(Rule::Reads { off, value: 7 });
    assert_eq!(GLPE_CPUSTATUS0.get(&nic), 7, "the last rule decides");
}

#[test]
fn writes_can_be_lost() {
    let off = PFINT_OICR_ENA.off();
    let inject = Inject::with(Rule::DropWrites { off, nth: 2 });
    let nic = with(&inject);
    for value in [2, 4, 8] {
        PFINT_OICR_ENA.set(&nic, value);
    }
    assert_eq!(PFINT_OICR_ENA.get(&nic), 2);
    inject.clear();
    inject.add(Rule::Frozen { off });
    PFINT_OICR_ENA.set(&nic, 16);
    assert_eq!(PFINT_OICR_ENA.get(&nic), 2);
    nic.platform().write32(off, 32);
    assert_eq!(PFINT_OICR_ENA.get(&nic), 2, "frozen at the first value");
    inject.clear();
    inject.add(Rule::Silent);
    PFINT_OICR_ENA.set(&nic, 64);
    assert_eq!(PFINT_OICR_ENA.get(&nic), 32);
}

/// All of a platform works through two layers.
#[test]
fn a_layered_platform_is_a_platform() {
    fn use_all(platform: impl Platform) {
        let memory = DmaBuf::new(platform.clone(), DmaLayout::new(64, 64)).unwrap();
        assert_eq!(memory.words().len(), 8);
        let table = HostBuf::new(platform.clone(), 4).unwrap();
        let bytes = SharedBytesOf(&memory);
        let mapping = platform.dma_map(bytes.shared(), Access::Read).unwrap();
        assert!(platform.dma_segment(&mapping, 0).is_some());
        platform.dma_unmap(mapping);
        platform.to_device();
        platform.from_device();
        platform.flush_wc();
        let before = platform.now();
        platform.relax();
        platform.delay(Ns(1));
        assert!(platform.now() > before);
        assert_eq!(platform.vector_count(), 9);
        let vector = platform.vector_alloc().unwrap();
        platform.vector_affinity(vector, 0);
        platform.vector_free(vector);
        drop(table);
        memory.release();
    }
    /// DMA memory as if it were a caller's own.
    struct SharedBytesOf<'a, P: DmaAlloc>(&'a DmaBuf<P>);
    impl<P: DmaAlloc> SharedBytesOf<'_, P> {
        fn shared(&self) -> SharedBytes {
            let start = NonNull::from(self.0.words()).cast();
            // SAFETY: only mapped and unmapped while the buffer lives.
            unsafe { SharedBytes::new(start, self.0.bytes()) }
        }
    }
    let sim = Sim::builder().build();
    let inner = Layered::new(sim.function(0), Inject::new());
    use_all(Layered::new(inner, Trace::new()));
    assert!(sim.memory(0).nothing_held());
    assert_eq!(sim.findings(), []);
}
