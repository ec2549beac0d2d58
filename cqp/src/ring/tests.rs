use core::cell::RefCell;
use std::rc::Rc;
use std::vec::Vec;

use e810_hal::RegOffset;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Set(usize, u64),
    Publish(usize, u64),
    Barrier,
    Doorbell(RegOffset, u32),
}

type Log = Rc<RefCell<Vec<Step>>>;

struct Recording {
    at: usize,
    log: Log,
}

impl DmaWord for Recording {
    fn get(&self) -> u64 {
        unreachable!("the ring is never read")
    }
    fn set(&self, value: u64) {
        self.log.borrow_mut().push(Step::Set(self.at, value));
    }
    fn observe(&self) -> u64 {
        unreachable!("the ring is never read")
    }
    fn publish(&self, value: u64) {
        self.log.borrow_mut().push(Step::Publish(self.at, value));
    }
}

struct Recorder(Log);

impl Barrier for Recorder {
    fn to_device(&self) {
        self.0.borrow_mut().push(Step::Barrier);
    }
}

impl Bus for Recorder {
    fn read32(&self, _: RegOffset) -> u32 {
        unreachable!("publishing reads no register")
    }
    fn write32(&self, off: RegOffset, value: u32) {
        self.0.borrow_mut().push(Step::Doorbell(off, value));
    }
}

#[test]
fn body_then_barrier_then_header_then_barrier_then_doorbell() {
    let log = Log::default();
    let words: Vec<Recording> = (0..4 * 8)
        .map(|at| Recording {
            at,
            log: log.clone(),
        })
        .collect();
    let recorder = Recorder(log.clone());
    let mut ring = SendRing::new(4).unwrap();
    for lap in 0..2 {
        for index in 0..4usize {
            let entry = ring.claim().unwrap();
            ring.retire().unwrap();
            let wqe = [1, 2, 3, 0x2a_0000_0000, 5, 6, 7, 8];
            publish(&words[..], &recorder, entry, &wqe).unwrap();
            ring_doorbell(&recorder, &recorder, ring.head());
            let at = index * 8;
            let header = 0x2a_0000_0000 | if lap == 0 { VALID } else { 0 };
            let head = (index as u32 + 1) % 4;
            let expected = [
                Step::Set(at, 1),
                Step::Set(at + 1, 2),
                Step::Set(at + 2, 3),
                Step::Set(at + 4, 5),
                Step::Set(at + 5, 6),
                Step::Set(at + 6, 7),
                Step::Set(at + 7, 8),
                Step::Barrier,
                Step::Publish(at + 3, header),
                Step::Barrier,
                Step::Doorbell(PFPE_CQPDB.off(), head),
            ];
            assert_eq!(log.borrow_mut().split_off(0), expected);
        }
    }
}

#[test]
fn memory_that_is_too_small_is_noticed() {
    let log = Log::default();
    let words: Vec<Recording> = Vec::new();
    let entry = SendRing::new(4).unwrap().claim().unwrap();
    let recorder = Recorder(log.clone());
    assert!(publish(&words[..], &recorder, entry, &[0; 8]).is_err());
    assert!(log.borrow().is_empty());
}

#[test]
fn sizes_are_checked() {
    for bad in [0, 1, 2, 3, 6, 4096] {
        assert!(SendRing::new(bad).is_err(), "{bad}");
    }
    for good in [4, 64, 2048] {
        assert_eq!(SendRing::new(good).unwrap().entries(), good);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Against two counters that never wrap.
    #[test]
    fn indexes_and_laps_follow_the_counters(
        shift in 2u32..6,
        steps in prop::collection::vec(any::<bool>(), 0..200),
    ) {
        let size = 1u32 << shift;
        let mut ring = SendRing::new(size).unwrap();
        let (mut posted, mut retired) = (0u64, 0u64);
        for post in steps {
            if post {
                match ring.claim() {
                    Ok(entry) => {
                        prop_assert_eq!(entry.sequence, posted);
                        prop_assert_eq!(u64::from(entry.index), posted % u64::from(size));
                        prop_assert_eq!(entry.polarity, (posted / u64::from(size)) % 2 == 0);
                        prop_assert_eq!(ring.index_of(posted), entry.index);
                        posted += 1;
                    }
                    Err(error) => {
                        prop_assert_eq!(error, Error::RingFull { entries: size - 1 });
                        prop_assert_eq!(posted - retired, u64::from(size) - 1);
                    }
                }
            } else if let Some(index) = ring.retire() {
                prop_assert_eq!(u64::from(index), retired % u64::from(size));
                retired += 1;
            } else {
                prop_assert_eq!(posted, retired);
            }
            prop_assert_eq!(ring.oldest(), (retired < posted).then_some(retired));
            prop_assert_eq!(u64::from(ring.head()), posted % u64::from(size));
            prop_assert_eq!(ring.next_sequence(), posted);
        }
    }
}
