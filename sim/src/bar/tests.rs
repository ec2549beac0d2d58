//! Register reads and writes through BAR0, their side effects and their findings.

use super::*;
use crate::findings::{Class, kind};

use e810_hal::bus::{CeqId, ItrIndex};
use e810_hal::{Bus, Clock, Ns, Vector};

use crate::{Mode, ResetCounts, Sim, SimPlatform};

/// Kinds of the findings so far; clears the findings.
fn kinds(sim: &Sim) -> Vec<&'static str> {
    sim.take_findings()
        .iter()
        .map(|finding| finding.kind)
        .collect()
}

fn one() -> (Sim, SimPlatform) {
    let sim = Sim::builder().build();
    let nic = sim.function(0);
    (sim, nic)
}

#[test]
fn accesses_that_are_not_ours_to_make_are_lints() {
    let (sim, nic) = one();
    assert_eq!(nic.read32(hw::PFPE_CQPDB.off()), regs::POISON);
    assert_eq!(kinds(&sim), [kind::REGISTER_WRITE_ONLY.name]);
    assert_eq!(nic.read32(hw::DB_WQE_ALLOC.off()), regs::POISON);
    nic.write32(RegOffset::new(hw::DOORBELL_PAGE + 8), 1);
    nic.write32(RegOffset::new(0x10), 1);
    assert_eq!(kinds(&sim), [kind::REGISTER_UNKNOWN.name; 3]);
    nic.write32(hw::GLPE_CPUSTATUS0.off(), 0);
    assert_eq!(nic.read32(hw::GLPE_CPUSTATUS0.off()), 0x80);
    assert_eq!(kinds(&sim), [kind::REGISTER_READ_ONLY.name]);
    nic.write32(hw::PFINT_AEQCTL.off(), 1 << 20);
    nic.write32(hw::PFPE_CQPTAIL.off(), 1 << 20);
    assert_eq!(kinds(&sim), [kind::REGISTER_BITS.name; 2]);
    let class = |finding: &crate::Finding| finding.class;
    nic.write32(RegOffset::new(0x10), 1);
    assert_eq!(
        sim.findings().iter().map(class).collect::<Vec<_>>(),
        [Class::Lint]
    );
}

/// No QP and no CQ exists, so each doorbell causes a finding that says what was rung.
#[test]
fn the_doorbell_page_rings_as_the_registers_do() {
    let (sim, nic) = one();
    let ring = |off| {
        nic.write32(off, 5);
        nic.delay(Ns::from_us(1));
        let findings = sim.take_findings().into_iter();
        findings
            .map(|finding| (finding.kind, finding.text))
            .collect::<Vec<_>>()
    };
    for (register, page) in [
        (hw::PFPE_WQEALLOC.off(), hw::DB_WQE_ALLOC.off()),
        (hw::PFPE_CQARM.off(), hw::DB_CQ_ARM.off()),
    ] {
        let by_register = ring(register);
        assert!(by_register[0].0.starts_with("doorbell"));
        assert_eq!(ring(page), by_register);
    }
    assert_eq!(sim.stats(0).doorbells, 4);
}

#[test]
fn a_register_is_four_bytes_at_a_multiple_of_four() {
    let (sim, nic) = one();
    let off = u64::from(hw::GLPE_CPUSTATUS0.off().get());
    let mut four = [0; 4];
    nic.bar0_read(off, &mut four);
    assert_eq!(four, [0x80, 0, 0, 0]);
    let oicr_ena = u64::from(hw::PFINT_OICR_ENA.off().get());
    nic.bar0_write(oicr_ena, &[2, 0, 0, 0x80]);
    assert_eq!(nic.read32(hw::PFINT_OICR_ENA.off()), 0x8000_0002);
    assert_eq!(sim.findings(), []);
    let mut eight = [0; 8];
    nic.bar0_read(off, &mut eight);
    assert_eq!(eight, [0xff; 8]);
    nic.bar0_read(off + 2, &mut four);
    assert_eq!(four, [0xff; 4]);
    nic.bar0_read(1 << 40, &mut four);
    nic.bar0_write(oicr_ena, &[0, 0]);
    nic.bar0_write(oicr_ena + 1, &[0; 4]);
    assert_eq!(nic.read32(hw::PFINT_OICR_ENA.off()), 0x8000_0002);
    assert_eq!(kinds(&sim), [kind::REGISTER_WIDTH.name; 5]);
}

/// Linux' ice reads each 40-bit counter in one access, enables flow director, and has a
/// PFINT_TSYN_MSK for each function.
#[test]
fn what_the_lan_driver_does_is_right() {
    let (sim, nic) = one();
    let mut eight = [0xff; 8];
    // GLPRT_GORC of the first port.
    nic.bar0_read(0x38_0000, &mut eight);
    assert_eq!(eight, [0; 8]);
    nic.write32(hw::PFQF_FD_ENA.off(), 1);
    nic.write32(RegOffset::new(0x16_c980 + 4 * 3), 1);
    assert_eq!(kinds(&sim), [""; 0]);
    // The upper half of one counter and the lower one of the next.
    nic.bar0_read(0x38_0004, &mut eight);
    assert_eq!(
        (eight, kinds(&sim)),
        ([0xff; 8], vec![kind::REGISTER_WIDTH.name])
    );
}

#[test]
fn causes_of_the_other_interrupt_are_set_by_writing_and_cleared_by_reading() {
    let (sim, nic) = one();
    let vector = Vector::new(2).unwrap();
    hw::GLINT_DYN_CTL.at(vector).set(&nic, hw::DYN_CTL_ENABLE);
    nic.write32(hw::PFINT_OICR.off(), 1 << 11);
    assert_eq!(nic.take_interrupts(), [], "not enabled");
    nic.write32(hw::PFINT_OICR_ENA.off(), hw::OICR_ENABLED);
    nic.write32(hw::PFINT_OICR_CTL.off(), 0x4000_0002);
    nic.write32(hw::PFINT_OICR.off(), 1 << 26);
    assert_eq!(nic.take_interrupts(), [vector]);
    assert_eq!(nic.read32(hw::PFINT_OICR.off()), 1 << 26 | 1 << 11);
    assert_eq!(nic.read32(hw::PFINT_OICR.off()), 0);
    assert_eq!(sim.findings(), []);
}

/// The interrupt test of Linux' `ethtool -t`: PFINT_OICR reports a software-triggered interrupt of
/// its own vector, but not one of another vector.
#[test]
fn a_software_interrupt_of_the_other_causes_is_one_of_them() {
    let (sim, nic) = one();
    nic.write32(hw::PFINT_OICR_CTL.off(), 0x4000_0002);
    // SWINT_TRIG, SW_ITR_INDX_ENA off, INTENA.
    for (vector, oicr) in [(1, 0), (2, 1 << 31)] {
        let vector = Vector::new(vector).unwrap();
        hw::GLINT_DYN_CTL.at(vector).set(&nic, 1 | 1 << 2);
        assert_eq!(nic.take_interrupts(), [vector]);
        assert_eq!(nic.read32(hw::PFINT_OICR.off()), oicr);
    }
    assert_eq!(nic.read32(hw::PFINT_OICR.off()), 0);
    assert_eq!(sim.findings(), []);
}

/// What `ethtool -d` of Linux' ice reads (lan-path 20.1).
#[test]
fn the_registers_of_the_dump_are_there() {
    let (sim, nic) = one();
    let single = [
        0x9_deb0, 0xa_0180, 0xa_0194, 0xb_0600, 0xb_0680, 0xb_0684, 0xb_0688, 0xb_069c, 0xb_06a0,
        0xb_0e80, 0xb_0e84, 0xb_0e88, 0xb_0e8c, 0xb_0e90, 0xb_1680, 0xb_1684, 0xb_1688, 0xb_fd84,
        0xb_fd88, 0xb_fd90,
    ];
    let rows = [
        (0x4_9760, 8),
        (0x4_9ae0, 8),
        (0x4_9b60, 8),
        (0xa_0000, 4),
        (0xa_0080, 32),
        (0xa_e28c, 8),
        (0xb_c360, 4),
        (0xb_c3a0, 4),
        (0xf_c14c, 8),
        (0xf_c18c, 8),
        (0xf_c1cc, 8),
        (0xf_c24c, 8),
        (0xf_c28c, 8),
    ];
    let elements = rows
        .iter()
        .flat_map(|(at, count)| (0..*count).map(move |n| at + 4 * n));
    let all: Vec<u32> = single.into_iter().chain(elements).collect();
    assert_eq!(all.len(), 136);
    for off in all {
        nic.read32(RegOffset::new(off));
    }
    assert_eq!(sim.findings(), []);
}

#[test]
fn interrupts_to_vectors_that_are_not_there_are_found() {
    let sim = Sim::builder().vectors(3).build();
    let nic = sim.function(0);
    nic.write32(hw::PFINT_OICR_ENA.off(), 1 << 26);
    nic.write32(hw::PFINT_OICR_CTL.off(), 0x4000_0003);
    nic.write32(hw::PFINT_OICR.off(), 1 << 26);
    let findings = sim.take_findings();
    assert_eq!(findings.len(), 1);
    assert_eq!(
        (findings[0].class, findings[0].kind),
        (Class::Fault, kind::VECTOR_RANGE.name)
    );
    let vector = Vector::new(3).unwrap();
    hw::GLINT_DYN_CTL.at(vector).set(&nic, 0);
    hw::GLINT_ITR
        .at(ItrIndex::new(0).unwrap(), vector)
        .set(&nic, 0);
    assert_eq!(kinds(&sim), [kind::VECTOR_RANGE.name; 2]);
}

#[test]
fn an_itr_written_through_the_control_register_reads_back() {
    let (sim, nic) = one();
    let vector = Vector::new(1).unwrap();
    let itr = |index| hw::GLINT_ITR.at(ItrIndex::new(index).unwrap(), vector);
    let interval = hw::GLINT_DYN_CTL::INTERVAL.val(25);
    let timer = hw::GLINT_DYN_CTL::ITR_INDX::Itr1;
    hw::GLINT_DYN_CTL.at(vector).write(&nic, interval + timer);
    assert_eq!(itr(1).get(&nic), 25);
    itr(2).set(&nic, 62);
    assert_eq!((itr(0).get(&nic), itr(2).get(&nic)), (0, 62));
    assert_eq!(sim.findings(), []);
}

/// The registers of moderation in virtual time, to the ns: 25 units of 2 µs between interrupts.
#[test]
fn an_interval_keeps_interrupts_apart_in_virtual_time() {
    let (sim, nic) = one();
    let vector = Vector::new(1).unwrap();
    let itr = hw::GLINT_ITR.at(ItrIndex::new(0).unwrap(), vector);
    itr.set(&nic, 25);
    let event = || nic.write32(hw::PFINT_OICR.off(), 1 << 26);
    let enable = || {
        let control = hw::GLINT_DYN_CTL.at(vector);
        control.set(&nic, hw::DYN_CTL_ENABLE_KEEP_ITR);
    };
    nic.write32(hw::PFINT_OICR_ENA.off(), hw::OICR_ENABLED);
    // ITR_INDX 0.
    nic.write32(hw::PFINT_OICR_CTL.off(), 0x4000_0001);
    // One interrupt, and the next one `apart` later. Accesses take time too.
    let next_comes = |apart: u64| {
        enable();
        let first = nic.now();
        event();
        assert_eq!(nic.take_interrupts(), [vector]);
        enable();
        event();
        nic.delay(Ns(first.0 + apart - 1 - nic.now().0));
        assert_eq!(nic.take_interrupts(), []);
        nic.delay(Ns(1));
        assert_eq!(nic.take_interrupts(), [vector]);
    };
    next_comes(50_000);
    // And by the rate limit: 15 units of 4 µs.
    let rate = hw::GLINT_RATE.at(vector);
    rate.set(&nic, 1 << 6 | 15);
    assert_eq!(rate.get(&nic), 1 << 6 | 15);
    nic.delay(Ns(60_000));
    next_comes(60_000);
    assert_eq!(sim.findings(), []);
}

/// The rate limit is a register of each vector, as the timers are.
#[test]
fn a_rate_limit_of_a_vector_that_is_not_there_is_found() {
    let sim = Sim::builder().vectors(3).build();
    let nic = sim.function(0);
    hw::GLINT_RATE.at(Vector::new(3).unwrap()).set(&nic, 0);
    assert_eq!(kinds(&sim), [kind::VECTOR_RANGE.name]);
}

/// No register is read: the simulator's thread fires the interrupt when it is due.
#[test]
fn an_interval_ends_in_real_time() {
    let sim = Sim::builder().mode(Mode::Real).build();
    let nic = sim.function(0);
    let vector = Vector::new(1).unwrap();
    hw::GLINT_ITR
        .at(ItrIndex::new(2).unwrap(), vector)
        .set(&nic, 1_000);
    let control = hw::GLINT_DYN_CTL.at(vector);
    let timed = hw::GLINT_DYN_CTL::SWINT_TRIG::SET
        + hw::GLINT_DYN_CTL::SW_ITR_INDX_ENA::SET
        + hw::GLINT_DYN_CTL::SW_ITR_INDX.val(2);
    let trigger = hw::DYN_CTL_ENABLE_KEEP_ITR | timed.value;
    control.set(&nic, trigger);
    for count in 1..=3 {
        assert!(nic.wait_interrupt(vector, Ns::from_ms(5_000)), "{count}");
        assert_eq!(nic.interrupt_count(vector), count);
        control.set(&nic, trigger);
    }
    assert_eq!(sim.findings(), []);
}

/// Waits as a driver does (control-path 9.2): a poll every millisecond.
fn wait(nic: &SimPlatform, done: impl Fn() -> bool) {
    for _ in 0..100 {
        if done() {
            return;
        }
        nic.delay(Ns::from_ms(1));
    }
    panic!("the reset does not end");
}

#[test]
fn a_pf_reset_clears_its_own_registers_and_ends_by_itself() {
    let (sim, nic) = one();
    let ceq = CeqId::new(1).unwrap();
    nic.write32(hw::PFPE_CCQPSTATUS.off(), 0x10);
    hw::GLINT_CEQCTL.at(ceq).set(&nic, 0x4000_1802);
    hw::PFGEN_CTRL.set(&nic, 1);
    assert_eq!(hw::PFGEN_CTRL.get(&nic), 1);
    nic.write32(hw::PFINT_AEQCTL.off(), 0);
    assert_eq!(kinds(&sim), [kind::REGISTER_IN_RESET.name]);
    wait(&nic, || hw::PFGEN_CTRL.get(&nic) == 0);
    assert_eq!(nic.read32(hw::PFPE_CCQPSTATUS.off()), 0);
    assert_eq!(hw::GLINT_CEQCTL.at(ceq).get(&nic), 0x4000_1802);
    assert_eq!(hw::GLGEN_RSTAT.get(&nic), 0);
    assert_eq!(
        sim.reset_counts(0),
        ResetCounts {
            pfr: 1,
            ..ResetCounts::default()
        }
    );
    assert_eq!(sim.findings(), []);
}

#[test]
fn a_core_reset_warns_and_resets_all_functions() {
    let sim = Sim::builder().functions(2).build();
    let (nic, other) = (sim.function(0), sim.function(1));
    let vector = Vector::new(0).unwrap();
    other.write32(hw::PFINT_OICR_ENA.off(), hw::OICR_ENABLED);
    other.write32(hw::PFINT_OICR_CTL.off(), 0x4000_0000);
    hw::GLINT_DYN_CTL.at(vector).set(&other, hw::DYN_CTL_ENABLE);
    hw::GLGEN_RTRIG.set(&nic, 1);
    assert_eq!(other.take_interrupts(), [vector], "GRST");
    let rstat = hw::GLGEN_RSTAT.get(&other);
    // Not active, type CORER, one CORER so far.
    assert_eq!(rstat, 1 << 4 | 1 << 2 | 1);
    assert_eq!(hw::GLNVM_ULD.get(&other), 0);
    assert_eq!(hw::GLPE_CPUSTATUS0.get(&other), 0);
    for nic in [&nic, &other] {
        wait(nic, || hw::GLGEN_RSTAT.get(nic) & 3 == 0);
        assert_eq!(hw::GLNVM_ULD.get(nic) & 0x73b, 0x73b);
        assert_eq!(hw::GLPE_CPUSTATUS0.get(nic), 0x80);
        assert_eq!(hw::PFINT_OICR_CTL.get(nic), 0);
        assert_eq!(hw::GLINT_DYN_CTL.at(vector).get(nic), 0);
        assert_eq!(sim.reset_counts(nic.pf()).corer, 1);
    }
    assert_eq!(sim.findings(), []);
}

#[test]
fn a_wider_reset_takes_over() {
    let (sim, nic) = one();
    hw::GLGEN_RTRIG.set(&nic, 0b110);
    wait(&nic, || hw::GLGEN_RSTAT.get(&nic) & 3 == 0);
    assert_eq!(sim.reset_counts(0).empr, 1);
    assert_eq!(hw::GLGEN_RSTAT.get(&nic) >> 2 & 3, 3);
    assert_eq!(sim.findings(), []);
}

#[test]
fn a_zero_starts_no_reset() {
    let (sim, nic) = one();
    hw::PFGEN_CTRL.set(&nic, 0);
    hw::GLGEN_RTRIG.set(&nic, 0);
    assert_eq!(sim.reset_counts(0), ResetCounts::default());
    assert_eq!(hw::PFGEN_CTRL.get(&nic), 0);
}
