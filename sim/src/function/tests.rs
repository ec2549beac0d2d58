//! Resets, registers and interrupts of one function.

use super::*;
use crate::findings::{Class, kind};

use e810_hal::Vector;
use e810_hal::bus::{CeqId, PfId};
use e810_hal::regs as hw;
use e810_hal::{Access, Bus, DmaAlloc, DmaLayout, SharedBytes};

use crate::pe::{Env, OicrCause, PeReg};
use crate::{Sim, SimPlatform};

/// PF 1 of two, with vector `n` enabled for each `n`.
fn second() -> (Sim, SimPlatform) {
    let sim = Sim::builder().functions(2).build();
    let nic = sim.function(1);
    for vector in (0..9).filter_map(Vector::new) {
        hw::GLINT_DYN_CTL.at(vector).set(&nic, hw::DYN_CTL_ENABLE);
    }
    (sim, nic)
}

/// Acts as the engine of PF 1.
fn as_engine<R>(sim: &Sim, act: impl FnOnce(&mut dyn Env) -> R) -> R {
    sim.with_machine(|machine| act(&mut machine.functions[1].engine_env(&mut machine.log, 77)))
}

fn fired(nic: &SimPlatform) -> Vec<u32> {
    nic.take_interrupts()
        .iter()
        .map(|vector| vector.get())
        .collect()
}

#[test]
fn events_go_to_the_vector_their_cause_names() {
    let (sim, nic) = second();
    let ceq = |id| hw::GLINT_CEQCTL.at(CeqId::new(id).unwrap());
    ceq(0).set(&nic, hw::CAUSE_ENABLED | 2);
    ceq(3).set(&nic, hw::CAUSE_ENABLED | 4);
    ceq(1023).set(&nic, hw::CAUSE_DISABLED | 5);
    hw::PFINT_AEQCTL.set(&nic, hw::CAUSE_ENABLED | 6);
    as_engine(&sim, |env| env.raise_ceq(3));
    assert_eq!(fired(&nic), [4]);
    as_engine(&sim, |env| env.raise_ceq(0));
    assert_eq!(fired(&nic), [2]);
    as_engine(&sim, |env| env.raise_ceq(1023));
    assert_eq!(fired(&nic), [0; 0], "the cause is off");
    ceq(1023).set(&nic, hw::CAUSE_ENABLED | 5);
    assert_eq!(fired(&nic), [0; 0], "and what came meanwhile is lost");
    as_engine(&sim, |env| env.raise_aeq());
    assert_eq!(fired(&nic), [6]);
    assert_eq!(sim.findings(), []);
    assert_eq!(
        sim.take_interrupts(0),
        [],
        "the other function hears nothing"
    );
    as_engine(&sim, |env| env.raise_ceq(1024));
    assert_eq!(sim.findings()[0].kind, kind::VECTOR_RANGE.name);
}

#[test]
fn other_causes_are_kept_and_interrupt_when_enabled() {
    let (sim, nic) = second();
    hw::PFINT_OICR_CTL.set(&nic, hw::CAUSE_ENABLED | 1);
    as_engine(&sim, |env| env.raise_oicr(OicrCause::PePush));
    assert_eq!(fired(&nic), [0; 0]);
    hw::PFINT_OICR_ENA.set(&nic, hw::OICR_RDMA);
    for (cause, bit) in [
        (OicrCause::HmcErr, 26),
        (OicrCause::PePush, 27),
        (OicrCause::PeCritErr, 28),
    ] {
        hw::GLINT_DYN_CTL
            .at(Vector::new(1).unwrap())
            .set(&nic, hw::DYN_CTL_ENABLE);
        nic.read32(hw::PFINT_OICR.off());
        as_engine(&sim, |env| env.raise_oicr(cause));
        assert_eq!(fired(&nic), [1]);
        assert_eq!(nic.read32(hw::PFINT_OICR.off()), 1 << bit);
    }
}

/// Each register of the engine is at the offset that this function's driver reads.
#[test]
fn the_engines_registers_are_at_the_offsets_of_hal() {
    let (sim, nic) = second();
    let pf = PfId::new(1).unwrap();
    let places = [
        (PeReg::CqpTail, hw::PFPE_CQPTAIL.off()),
        (PeReg::CcqpStatus, hw::PFPE_CCQPSTATUS.off()),
        (PeReg::CqpErrCodes, hw::PFPE_CQPERRCODES.off()),
        (PeReg::CritErr, hw::GLPE_CRITERR.off()),
        (PeReg::HmcErrorInfo, hw::PFHMC_ERRORINFO_FPMAT.off()),
        (PeReg::HmcErrorData, hw::PFHMC_ERRORDATA.off()),
        (PeReg::AeqDropCount, hw::GLPE_PFAEQEDROPCNT.at(pf).off()),
        (PeReg::CeqDropCount, hw::GLPE_PFCEQEDROPCNT.at(pf).off()),
        (PeReg::CqDropCount, hw::GLPE_PFCQEDROPCNT.at(pf).off()),
        (
            PeReg::FlmXmitAllocErr,
            hw::GLPE_PFFLMXMITALLOCERR.at(pf).off(),
        ),
        (PeReg::FlmQ1AllocErr, hw::GLPE_PFFLMQ1ALLOCERR.at(pf).off()),
        (
            PeReg::FlmRrfAllocErr,
            hw::GLPE_PFFLMRRFALLOCERR.at(pf).off(),
        ),
    ];
    for (index, (register, off)) in places.into_iter().enumerate() {
        let value = 0x100 + index as u32;
        as_engine(&sim, |env| env.set_register(register, value));
        assert_eq!(nic.read32(off), value, "{register:?}");
        assert_eq!(as_engine(&sim, |env| env.register(register)), value);
    }
    assert_eq!(sim.findings(), []);
}

#[test]
fn dma_is_counted_and_refusals_are_recorded_with_their_function() {
    let (sim, nic) = second();
    let raw = nic.dma_alloc(DmaLayout::new(64, 64)).unwrap();
    let iova = raw.iova.0;
    as_engine(&sim, |env| {
        env.write(iova, &[1, 2, 3]).unwrap();
        let mut back = [0; 5];
        env.read(iova, &mut back).unwrap();
        assert_eq!(back, [1, 2, 3, 0, 0]);
        env.store(iova + 8, 9).unwrap();
        assert_eq!(env.load(iova + 8), Ok(9));
        env.write_entry(iova + 16, &[4, 5], 1).unwrap();
        assert_eq!(env.load(iova + 24), Ok(5));
    });
    let stats = sim.stats(1);
    assert_eq!((stats.dma_reads, stats.dma_read_bytes), (3, 5 + 8 + 8));
    assert_eq!((stats.dma_writes, stats.dma_write_bytes), (3, 3 + 8 + 16));
    assert_eq!(sim.findings(), []);
    let fault = as_engine(&sim, |env| env.load(iova + 64)).unwrap_err();
    assert_eq!(
        (fault.iova, fault.bytes, fault.write),
        (iova + 64, 8, false)
    );
    let findings = sim.take_findings();
    assert_eq!(findings.len(), 1);
    assert_eq!(
        (findings[0].class, findings[0].kind),
        (Class::Fault, kind::DMA_UNMAPPED.name)
    );
    assert_eq!((findings[0].function, findings[0].time), (1, Ns(77)));
    assert_eq!(findings[0].text, fault.to_string());
    assert_eq!(sim.stats(1).dma_faults, 1);
    // SAFETY: allocated above, freed once, no reference left.
    unsafe { nic.dma_free(raw) };
}

#[test]
fn memory_that_was_lent_for_reading_is_not_written() {
    let (sim, nic) = second();
    let words = Box::leak(vec![0u64; 4].into_boxed_slice());
    let start = std::ptr::NonNull::from(&mut *words).cast();
    // SAFETY: leaked, so valid for ever; freed below through the same pointer after the last use.
    let memory = unsafe { SharedBytes::new(start, 32) };
    nic.map_at(0x5000_0000 + memory.address() % 4096, memory, Access::Read)
        .unwrap();
    let iova = 0x5000_0000 + memory.address() % 4096;
    as_engine(&sim, |env| {
        assert!(env.load(iova).is_ok());
        assert!(env.store(iova, 1).is_err());
        assert!(env.write(iova, &[1]).is_err());
        assert!(env.write_entry(iova, &[1, 2], 0).is_err());
    });
    let kinds: Vec<&str> = sim.findings().iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [kind::DMA_READ_ONLY.name; 3]);
    drop(nic);
    drop(sim);
    let slice = std::ptr::slice_from_raw_parts_mut(start.cast::<u64>().as_ptr(), 4);
    // SAFETY: leaked above with this length; the simulator that mapped it is gone.
    drop(unsafe { Box::from_raw(slice) });
}

#[test]
fn what_the_engine_sends_waits_for_the_wire() {
    let (sim, _) = second();
    as_engine(&sim, |env| {
        env.transmit(vec![0xff; 60]);
        assert_eq!(env.now(), 77);
        assert_ne!(env.random(), env.random());
        env.finding(kind::WIRE_BITS, "text".to_owned());
    });
    assert_eq!(sim.stats(1).frames_sent, 1);
    assert_eq!(sim.take_findings()[0].kind, "wire-bits");
    sim.with_machine(|machine| assert_eq!(machine.functions[1].state.outbox, [vec![0xff; 60]]));
}
