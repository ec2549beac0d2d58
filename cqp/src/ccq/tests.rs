use core::sync::atomic::AtomicU64;
use std::cell::RefCell;
use std::vec;
use std::vec::Vec;

use e810_hal::RegOffset;

use super::*;

#[derive(Default)]
struct Machine {
    writes: RefCell<Vec<(RegOffset, u32)>>,
}

impl Barrier for Machine {}

impl Bus for Machine {
    fn read32(&self, _: RegOffset) -> u32 {
        unreachable!("the CCQ reads no register")
    }
    fn write32(&self, off: RegOffset, value: u32) {
        self.writes.borrow_mut().push((off, value));
    }
}

fn memory(words: usize) -> Vec<AtomicU64> {
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

fn write(entries: &[AtomicU64], index: usize, polarity: bool, ret_val: u64) {
    entries[index * 4 + 1].set(0xC00C1E);
    entries[index * 4 + 2].set(ret_val);
    let header = (index as u64) << 32;
    entries[index * 4 + 3].publish(header | u64::from(polarity) << 63);
}

#[test]
fn two_laps_with_the_polarity_turning() {
    let machine = Machine::default();
    let (entries, shadow) = (memory(3 * 4), memory(8));
    let mut ring = CompletionRing::new(3).unwrap();
    for n in 0..7u64 {
        let (index, lap) = ((n % 3) as usize, n / 3);
        assert_eq!(ring.peek(&entries[..], &machine), None, "entry {n}");
        write(&entries, index, lap % 2 == 0, 100 + n);
        let entry = ring.peek(&entries[..], &machine).unwrap();
        assert_eq!(u64::from(entry.ret_val), 100 + n);
        assert_eq!(entry.index, index as u32);
        assert_eq!(entry.cookie, 0xC00C1E);
        ring.advance(&shadow[..], &machine);
        assert_eq!(shadow[0].get(), (n + 1) % 3);
    }
}

#[test]
fn fields_are_where_the_table_says() {
    let words = [u64::MAX, 7, 0xFFFF_FFFF_1234_5678, 0x8080_0042_F001_8006];
    assert_eq!(
        CcqEntry::decode(&words),
        CcqEntry {
            cookie: 7,
            ret_val: 0x1234_5678,
            index: 0x42,
            error: true,
            major: 0xF001,
            minor: 0x8006,
        }
    );
    // EXTCQE, OP, SQ and the bits the table does not name change nothing.
    let noise = [0, 7, 0x1234_5678, 0xFFFF_8042_F001_8006];
    assert_eq!(CcqEntry::decode(&noise).index, 0x42);
}

#[test]
fn each_arm_counts_and_rings() {
    let machine = Machine::default();
    let shadow = memory(8);
    let mut ring = CompletionRing::new(4).unwrap();
    for n in 1..6u64 {
        ring.arm(&shadow[..], &machine, &machine);
        assert_eq!(shadow[4].get(), (1 << 14) | (n % 4) << 16);
    }
    assert_eq!(
        *machine.writes.borrow(),
        vec![(PFPE_CQARM.off(), CCQ_ID); 5]
    );
}

#[test]
fn missing_memory_is_no_entry() {
    let machine = Machine::default();
    let mut ring = CompletionRing::new(4).unwrap();
    let none: [AtomicU64; 0] = [];
    assert_eq!(ring.peek(&none[..], &machine), None);
    ring.advance(&none[..], &machine);
    assert!(CompletionRing::new(0).is_err());
}
