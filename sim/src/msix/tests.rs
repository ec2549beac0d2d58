//! Masks, pending bits and their interaction with GLINT_DYN_CTL.

use crate::findings::kind;
use e810_hal::regs::{DYN_CTL_DISABLE, DYN_CTL_ENABLE, GLINT_DYN_CTL};
use e810_hal::{Ns, Vector};

use super::PBA;
use crate::{Sim, SimPlatform};

/// SWINT_TRIG, without changing INTENA.
const FIRE: u32 = 1 << 31 | 1 << 2 | 3 << 3;

fn vector(index: u16) -> Vector {
    Vector::new(index).unwrap()
}

/// A function with all its vectors enabled.
fn enabled(sim: &Sim) -> SimPlatform {
    let nic = sim.function(0);
    for index in 0..4 {
        enable(&nic, index);
    }
    nic
}

fn enable(nic: &SimPlatform, index: u16) {
    GLINT_DYN_CTL.at(vector(index)).set(nic, DYN_CTL_ENABLE);
}

fn fire(nic: &SimPlatform, index: u16) {
    GLINT_DYN_CTL.at(vector(index)).set(nic, FIRE);
}

/// Fires an enabled vector and enables it again; without CLEARPBA, which is tested separately
/// below.
fn fire_and_enable(nic: &SimPlatform, index: u16) {
    fire(nic, index);
    GLINT_DYN_CTL.at(vector(index)).set(nic, 1 | 3 << 3);
}

fn word(nic: &SimPlatform, offset: u64) -> u32 {
    let mut bytes = [0; 4];
    nic.bar3_read(offset, &mut bytes);
    u32::from_le_bytes(bytes)
}

fn messages(nic: &SimPlatform) -> Vec<u32> {
    nic.take_interrupts().iter().map(|v| v.get()).collect()
}

#[test]
fn a_masked_entry_keeps_one_message() {
    let sim = Sim::builder().vectors(40).build();
    let nic = enabled(&sim);
    nic.bar3_write(16 * 2 + 12, &1_u32.to_le_bytes());
    for _ in 0..3 {
        fire_and_enable(&nic, 2);
    }
    fire_and_enable(&nic, 1);
    assert_eq!((messages(&nic), word(&nic, PBA)), (vec![1], 1 << 2));
    nic.bar3_write(16 * 2 + 12, &0_u32.to_le_bytes());
    assert_eq!((messages(&nic), word(&nic, PBA)), (vec![2], 0));
    assert_eq!(
        nic.interrupt_count(vector(2)),
        1,
        "three events, one message"
    );
    assert_eq!(sim.take_findings(), []);
}

#[test]
fn the_function_mask_holds_all_back() {
    let sim = Sim::builder().vectors(40).build();
    let nic = enabled(&sim);
    nic.set_msix(true, true);
    fire_and_enable(&nic, 3);
    fire_and_enable(&nic, 0);
    assert_eq!((messages(&nic), word(&nic, PBA)), (vec![], 0b1001));
    nic.set_msix(true, false);
    assert_eq!((messages(&nic), word(&nic, PBA)), (vec![0, 3], 0));
}

#[test]
fn switched_off_nothing_is_sent_and_what_was_pending_waits() {
    let sim = Sim::builder().vectors(40).build();
    let nic = enabled(&sim);
    nic.mask_vector(vector(1), true);
    fire_and_enable(&nic, 1);
    for masked in [false, true] {
        nic.set_msix(false, masked);
        nic.mask_vector(vector(1), false);
        fire_and_enable(&nic, 0);
        assert_eq!((messages(&nic), word(&nic, PBA)), (vec![], 0b10));
    }
    nic.set_msix(true, false);
    assert_eq!((messages(&nic), word(&nic, PBA)), (vec![1], 0));
}

#[test]
fn power_up_masks_everything() {
    let sim = Sim::builder().vectors(40).build();
    let nic = enabled(&sim);
    nic.bar3_write(0, &0xfee0_1000_u32.to_le_bytes());
    nic.power_up_msix();
    for index in 0..40 {
        assert_eq!(word(&nic, 16 * index + 12), 1);
    }
    assert_eq!(word(&nic, 0), 0);
    nic.set_msix(true, false);
    fire_and_enable(&nic, 1);
    assert_eq!((messages(&nic), word(&nic, PBA)), (vec![], 2));
    nic.mask_vector(vector(1), false);
    assert_eq!(messages(&nic), [1]);
    // A function-level reset does the same.
    nic.function_level_reset();
    assert_eq!(word(&nic, 16 + 12), 1);
}

#[test]
fn the_table_keeps_what_a_host_writes() {
    let sim = Sim::builder().vectors(40).build();
    let nic = sim.function(0);
    nic.bar3_write(16 * 39, &0x0000_0001_fee0_100f_u64.to_le_bytes());
    nic.bar3_write(16 * 39 + 8, &0xffff_fffe_0000_4021_u64.to_le_bytes());
    let words: Vec<u32> = (0..4).map(|n| word(&nic, 16 * 39 + 4 * n)).collect();
    assert_eq!(words, [0xfee0_100c, 1, 0x4021, 0]);
    // Writes behind the last entry, and to the pending bits, have no effect.
    nic.bar3_write(16 * 40, &[0xff; 8]);
    nic.bar3_write(PBA, &[0xff; 8]);
    assert_eq!((word(&nic, 16 * 40), word(&nic, PBA)), (0, 0));
    assert_eq!((word(&nic, PBA + 4), word(&nic, 0xfffc)), (0, 0));
    assert_eq!(sim.take_findings(), []);
    nic.bar3_write(2, &[0; 4]);
    nic.bar3_read(4, &mut [0; 8]);
    nic.bar3_read(0, &mut [0; 2]);
    assert_eq!(sim.finding_counts(), [(0, kind::REGISTER_WIDTH.name, 3)]);
}

#[test]
fn the_second_word_of_pending_bits_begins_at_32() {
    let sim = Sim::builder().vectors(40).build();
    let nic = sim.function(0);
    nic.set_msix(true, true);
    enable(&nic, 33);
    fire(&nic, 33);
    assert_eq!((word(&nic, PBA), word(&nic, PBA + 4)), (0, 2));
    let mut both = [0; 8];
    nic.bar3_read(PBA, &mut both);
    assert_eq!(u64::from_le_bytes(both), 1 << 33);
}

/// CLEARPBA removes the message that waits in the table, but not the event of a disabled vector.
#[test]
fn clearpba_clears_the_pending_bit() {
    let sim = Sim::builder().vectors(40).build();
    let nic = enabled(&sim);
    nic.mask_vector(vector(0), true);
    fire(&nic, 0);
    assert_eq!(word(&nic, PBA), 1);
    GLINT_DYN_CTL.at(vector(0)).set(&nic, DYN_CTL_ENABLE);
    assert_eq!(word(&nic, PBA), 0);
    nic.mask_vector(vector(0), false);
    assert_eq!(messages(&nic), [0; 0]);
    // Disabled: the event waits for INTENA, before it reaches the table.
    GLINT_DYN_CTL.at(vector(0)).set(&nic, DYN_CTL_DISABLE);
    fire(&nic, 0);
    assert_eq!((messages(&nic), word(&nic, PBA)), (vec![], 0));
    enable(&nic, 0);
    assert_eq!(messages(&nic), [0]);
}

/// A vector that fired masks itself, whether or not the table lets its message out, so two events
/// cause one message.
#[test]
fn a_masked_vector_masks_itself_all_the_same() {
    let sim = Sim::builder().vectors(40).build();
    let nic = enabled(&sim);
    nic.mask_vector(vector(1), true);
    fire(&nic, 1);
    fire(&nic, 1);
    assert_eq!(GLINT_DYN_CTL.at(vector(1)).get(&nic) & 1, 0);
    nic.mask_vector(vector(1), false);
    assert_eq!(messages(&nic), [1]);
    enable(&nic, 1);
    assert_eq!(messages(&nic), [1], "the second event");
    sim.run(Ns::from_ms(1));
    assert_eq!(messages(&nic), [0; 0]);
}
