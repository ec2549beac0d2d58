//! Bring-up of the engine without a driver: registers and memory words are built from control-path
//! 3 to 7.

mod raw_driver;
mod traffic;

use e810_hal::regs as hw;
use e810_hal::{Clock, Ns, Platform};

use super::*;
use crate::middleware::{Layered, Trace};
use crate::pe::{CqpErrors, FpmProfile};
use crate::{Mode, SimPlatform};

use raw_driver::{CQS, RawDriver, ready};

/// One interrupt for the armed CCQ: the CEQE names CQ 0, the vector masks itself, and the next
/// command raises no interrupt.
fn one_event<P: Platform>(driver: &mut RawDriver<P>, nic: &SimPlatform, nth: u64) {
    driver.ports(1);
    assert!(nic.wait_interrupt(driver.vector, Ns::from_ms(10_000)));
    let (slot, lap) = ((nth - 1) % CQS, (nth - 1) / CQS);
    assert_eq!(driver.word(&driver.ceq, slot), (1 - lap % 2) << 63);
    hw::PFPE_CQACK.set(&driver.nic, 0);
    assert_eq!(hw::GLINT_DYN_CTL.at(driver.vector).get(&driver.nic) & 1, 0);
    driver.ports(1);
    assert_eq!(nic.interrupt_count(driver.vector), nth);
    hw::GLINT_DYN_CTL
        .at(driver.vector)
        .set(&driver.nic, hw::DYN_CTL_ENABLE);
    driver.arm(nth + 1);
}

fn two_functions(mode: Mode, seed: u64) {
    let sim = Sim::builder().functions(2).seed(seed).mode(mode).build();
    let nics = [sim.function(0), sim.function(1)];
    let mut drivers = nics.clone().map(|nic| ready(nic.clone(), nic.pf()));
    for nth in 1..=2 {
        for (driver, nic) in drivers.iter_mut().zip(&nics) {
            one_event(driver, nic, nth);
        }
    }
    for driver in drivers {
        driver.tear_down();
    }
    assert_eq!(sim.findings(), [], "seed {seed}");
    for pf in 0..2 {
        assert!(sim.memory(pf).nothing_held());
        assert!(sim.stats(pf).dma_writes > 0);
    }
}

#[test]
fn two_functions_come_up_and_go_in_virtual_time() {
    for seed in 0..if cfg!(miri) { 1 } else { 20 } {
        two_functions(Mode::Virtual, seed);
    }
}

#[test]
fn two_functions_come_up_and_go_in_real_time() {
    two_functions(Mode::Real, 1);
}

#[test]
#[cfg_attr(miri, ignore = "three more bring-ups")]
fn the_same_seed_gives_the_same_bring_up() {
    let run = |seed| {
        let sim = Sim::builder().seed(seed).build();
        let trace = Trace::new();
        let mut driver = ready(Layered::new(sim.function(0), trace.clone()), 0);
        one_event(&mut driver, &sim.function(0), 1);
        driver.tear_down();
        (trace.take(), sim.now(), sim.stats(0))
    };
    let (first, again) = (run(5), run(5));
    assert_eq!(first, again);
    assert!(first.0.len() > 40);
    assert_ne!(first.0, run(6).0);
}

#[test]
#[cfg_attr(miri, ignore = "several bring-ups")]
fn a_pf_reset_stops_one_function_in_the_middle() {
    for seed in 0..10 {
        let sim = Sim::builder().functions(2).seed(seed).build();
        let mut driver = ready(sim.function(0), 0);
        let mut other = ready(sim.function(1), 1);
        // A command is in flight; its memory is freed right after the reset was written.
        driver.post(0x23, [0, 0, 4791, 1 << 62, 0, 0, 0, 0]);
        hw::PFGEN_CTRL.set(&driver.nic, 1);
        let RawDriver {
            nic,
            sq,
            context,
            buffer,
            backing,
            ccq,
            shadow,
            ceq,
            ..
        } = driver;
        for memory in [sq, context, buffer, backing, ccq, shadow, ceq] {
            memory.release();
        }
        other.ports(2);
        other.tear_down();
        nic.delay(Ns::from_ms(10));
        assert_eq!(hw::PFGEN_CTRL.get(&nic), 0);
        assert_eq!(hw::PFPE_CQPTAIL.get(&nic), 0);
        assert_eq!(sim.findings(), [], "nothing reaches for the memory");
        let driver = ready(nic, 0);
        drop(driver);
        assert_eq!(sim.findings(), []);
    }
}

#[test]
fn memory_taken_away_too_early_is_a_fault() {
    let sim = Sim::builder().build();
    let mut driver = RawDriver::new(sim.function(0), 0);
    driver.create_cqp();
    let RawDriver { nic, sq, .. } = driver;
    sq.release();
    hw::PFPE_CQPDB.set(&nic, 1);
    nic.delay(Ns::from_ms(1));
    let findings = sim.findings();
    assert_eq!(findings[0].kind, crate::findings::kind::DMA_FREED.name);
    assert_eq!(sim.stats(0).dma_faults, 1);
}

/// A machine that removes and makes thousands of mappings does not hold up the engine: a command is
/// executed before its driver frees the memory behind it.
#[test]
fn a_command_is_carried_out_before_a_later_mapping_goes() {
    let sim = Sim::builder()
        .mode(Mode::Real)
        .engine(|_, config| config.cqp_delay = (0, 0))
        .build();
    let nic = sim.function(0);
    let mut driver = RawDriver::new(nic.clone(), 0);
    driver.create_cqp();
    for nth in 1..if cfg!(miri) { 5 } else { 500 } {
        driver.post(0x20, [0, 0, 0, 0, driver.buffer.iova().0, 0, 0, 0]);
        assert_eq!(nic.detach_memory(0x7000_0000, 4096), 0);
        assert_eq!(u64::from(hw::PFPE_CQPTAIL.get(&nic)), nth % 4, "{nth}");
    }
    assert_eq!(sim.findings(), []);
}

#[test]
fn the_engines_choices_can_be_made_and_changed() {
    let errors = CqpErrors::Opcode(0x12);
    let sim = Sim::builder()
        .profile(FpmProfile::card())
        .engine(move |_, config| config.cqp_errors = errors)
        .build();
    let mut driver = RawDriver::new(sim.function(0), 0);
    driver.create_cqp();
    let buffer = driver.buffer.iova().0;
    assert!(!driver.by_registers(0x12, [0, 0, 0, 272, buffer, 0, 0, 0]));
    assert_eq!(hw::PFPE_CQPERRCODES.get(&driver.nic) >> 16, 0xffff);
    assert!(driver.by_registers(0x20, [0, 0, 0, 0, buffer, 0, 0, 0]));
    let most_qps = driver.word(&driver.buffer, 1) & 0xffff_ffff;
    assert!(most_qps > 100_000, "the profile of a card");
    sim.configure_engine(0, |config| config.cqp_errors = CqpErrors::None);
    assert!(driver.by_registers(0x12, [0, 0, 0, 272, buffer, 0, 0, 0]));
    assert_eq!(sim.findings(), []);
}

#[test]
fn vectors_are_as_many_as_the_functions_leave_each_other() {
    for (functions, wanted, had) in [
        (1, 1024, 1024),
        (2, 1024, 1024),
        (4, 1024, 512),
        (8, 512, 256),
        (2, 9, 9),
    ] {
        let sim = Sim::builder().functions(functions).vectors(wanted).build();
        let count = e810_hal::InterruptVectors::vector_count(&sim.function(functions - 1));
        assert_eq!(count, had, "{functions} functions");
    }
}

#[test]
fn an_address_that_is_nowhere_is_found_with_the_engine_still_answering() {
    let sim = Sim::builder().build();
    let nic = sim.function(0);
    nic.bar0_write(u64::from(hw::PFPE_CCQPHIGH.off().get()), &[1, 0, 0, 0]);
    nic.bar0_write(u64::from(hw::PFPE_CCQPLOW.off().get()), &[0, 0x10, 0, 0]);
    nic.delay(Ns::from_ms(1));
    assert_eq!(hw::PFPE_CCQPSTATUS.get(&nic) >> 31, 1, "CCQP_ERR");
    let kinds: Vec<&str> = sim.findings().iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [crate::findings::kind::DMA_UNMAPPED.name]);
}
