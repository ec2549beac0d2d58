use super::*;
use core::cell::{Cell as Plain, RefCell};
use e810_hal::RegOffset;
use proptest::prelude::*;
use std::rc::Rc;
use std::string::{String, ToString};
use std::vec::Vec;

const VALID: u64 = 1 << 63;
const OVERFLOW: u64 = 1 << 33;

/// What was done, in order, by cells and platform alike.
type Trace = Rc<RefCell<Vec<String>>>;

struct Word {
    name: String,
    value: Plain<u64>,
    trace: Trace,
}

impl Word {
    fn note(&self, what: &str) {
        self.trace
            .borrow_mut()
            .push(std::format!("{what} {}", self.name));
    }
}

impl DmaWord for Word {
    fn get(&self) -> u64 {
        self.note("get");
        self.value.get()
    }
    fn set(&self, _: u64) {
        panic!("the AEQ is only read");
    }
    fn observe(&self) -> u64 {
        self.note("observe");
        self.value.get()
    }
    fn publish(&self, _: u64) {
        panic!("the AEQ is only read");
    }
}

struct Memory(Vec<Word>);

impl DmaWords for Memory {
    type Word = Word;
    fn words(&self) -> &[Word] {
        &self.0
    }
}

struct Platform {
    trace: Trace,
    credits: RefCell<Vec<u32>>,
}

impl Bus for Platform {
    fn read32(&self, _: RegOffset) -> u32 {
        panic!("nothing is read from a register")
    }
    fn write32(&self, off: RegOffset, value: u32) {
        assert_eq!(off.get(), 0x50_2D00, "PFPE_AEQALLOC");
        self.trace.borrow_mut().push("credit".to_string());
        self.credits.borrow_mut().push(value);
    }
}

impl Barrier for Platform {
    fn from_device(&self) {
        self.trace.borrow_mut().push("from_device".to_string());
    }
}

struct Queue {
    aeq: Aeq<Memory>,
    platform: Platform,
}

impl Queue {
    fn new(entries: u32) -> Self {
        let trace = Trace::default();
        let words = (0..entries * 2)
            .map(|word| Word {
                name: std::format!("{}.{}", word / 2, word % 2),
                value: Plain::new(0),
                trace: Rc::clone(&trace),
            })
            .collect();
        Self {
            aeq: Aeq::new(
                Memory(words),
                AeqEntries::new(entries).unwrap(),
                Ids { qps: 16, cqs: 8 },
            )
            .unwrap(),
            platform: Platform {
                trace,
                credits: RefCell::default(),
            },
        }
    }

    fn put(&self, entry: usize, words: [u64; 2]) {
        for (word, value) in words.into_iter().enumerate() {
            self.aeq.memory().0[entry * 2 + word].value.set(value);
        }
    }

    fn drain(&mut self, budget: u32) -> (Result<AeqDrain>, Vec<Aeqe>) {
        let mut events = Vec::new();
        let got = self
            .aeq
            .drain(&self.platform, budget, |event| events.push(event));
        (got, events)
    }

    fn credits(&self) -> Vec<u32> {
        self.platform.credits.take()
    }
}

/// Too many retries, source send queue, on QP `qp`.
fn retries(qp: u64) -> u64 {
    VALID | 5 << 50 | 0x50A << 34 | qp
}

/// CQ operation error on CQ `cq`.
fn cq_error(cq: u64) -> u64 {
    VALID | 2 << 50 | 0x203 << 34 | cq
}

#[test]
fn the_valid_word_is_read_first_and_credit_given_last() {
    let mut queue = Queue::new(4);
    queue.put(0, [77, retries(3)]);
    let (got, events) = queue.drain(8);
    assert_eq!(
        got,
        Ok(AeqDrain {
            taken: 1,
            events: 1,
            skipped: 0,
            more: false
        })
    );
    assert_eq!((events[0].context, events[0].object()), (77, Object::Qp(3)));
    assert_eq!(
        *queue.platform.trace.borrow(),
        [
            "observe 0.1",
            "from_device",
            "get 0.0",
            "observe 1.1",
            "credit"
        ]
    );
    assert_eq!(queue.credits(), [1]);
}

#[test]
fn an_empty_queue_gives_no_credit() {
    let mut queue = Queue::new(4);
    assert_eq!(queue.drain(8).0, Ok(AeqDrain::default()));
    assert!(queue.credits().is_empty());
}

#[test]
fn ids_that_the_function_does_not_have_are_skipped_but_credited() {
    let mut queue = Queue::new(8);
    let function = VALID | 0x520 << 34 | 0x3FFFF;
    for (at, word) in [retries(15), retries(16), cq_error(7), cq_error(8), function]
        .into_iter()
        .enumerate()
    {
        queue.put(at, [0, word]);
    }
    let (got, events) = queue.drain(8);
    assert_eq!(
        got,
        Ok(AeqDrain {
            taken: 5,
            events: 3,
            skipped: 2,
            more: false
        })
    );
    let objects: Vec<Object> = events.iter().map(Aeqe::object).collect();
    assert_eq!(objects, [Object::Qp(15), Object::Cq(7), Object::Function]);
    assert_eq!(queue.credits(), [5]);
    assert_eq!(
        queue.aeq.counts(),
        AeqCounts {
            events: 3,
            out_of_range: 2
        }
    );
}

#[test]
fn the_walk_wraps_and_the_valid_bit_turns() {
    let mut queue = Queue::new(3);
    for n in 0..9u64 {
        let lap_bit = if (n / 3).is_multiple_of(2) { 0 } else { VALID };
        queue.put((n % 3) as usize, [n, retries(n) ^ lap_bit]);
        let (got, events) = queue.drain(8);
        assert_eq!(got.unwrap().taken, 1);
        assert_eq!(events[0].context, n);
        assert_eq!(queue.drain(8).0.unwrap().taken, 0);
    }
    assert_eq!(queue.credits(), [1; 9]);
}

#[test]
fn a_budget_ends_a_drain_and_says_whether_more_waits() {
    let mut queue = Queue::new(4);
    for at in 0..3 {
        queue.put(at, [0, retries(1)]);
    }
    let drained = queue.drain(2).0.unwrap();
    assert_eq!((drained.taken, drained.more), (2, true));
    let drained = queue.drain(1).0.unwrap();
    assert_eq!((drained.taken, drained.more), (1, false));
    assert_eq!(queue.credits(), [2, 1]);
}

#[test]
fn an_overflow_is_reported_for_ever_and_never_credited() {
    let mut queue = Queue::new(4);
    queue.put(0, [0, retries(1)]);
    queue.put(1, [0, retries(2) | OVERFLOW]);
    queue.put(2, [0, retries(3)]);
    let (got, events) = queue.drain(8);
    assert_eq!(got, Err(Error::AeqOverflow));
    let objects: Vec<Object> = events.iter().map(Aeqe::object).collect();
    assert_eq!(objects, [Object::Qp(1), Object::Qp(2)]);
    assert!(queue.aeq.overflowed());
    let (got, events) = queue.drain(8);
    assert_eq!((got, events.len()), (Err(Error::AeqOverflow), 0));
    assert_eq!(queue.aeq.poll(&queue.platform), AeqStep::Empty);
    assert!(queue.credits().is_empty());
}

#[test]
fn short_memory_is_refused() {
    let memory = [const { core::sync::atomic::AtomicU64::new(0) }; 7];
    let got = Aeq::new(
        &memory[..],
        AeqEntries::new(4).unwrap(),
        Ids { qps: 1, cqs: 1 },
    );
    assert!(matches!(got, Err(Error::Memory { needed: 64, .. })));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 512 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the device writes, each call is bounded, counts add up, and
    /// the credit is what was taken.
    #[test]
    fn any_bytes_are_survived(
        laps in prop::collection::vec(prop::collection::vec(any::<[u64; 2]>(), 5), 1..4),
        budget in 0u32..20,
    ) {
        let mut queue = Queue::new(5);
        let mut taken = 0;
        for lap in &laps {
            for (at, words) in lap.iter().enumerate() {
                // Mostly without overflow, which would end the test early.
                let [context, word] = *words;
                let keep = if context % 8 == 0 { u64::MAX } else { !OVERFLOW };
                queue.put(at, [context, word & keep]);
            }
            let before = queue.aeq.overflowed();
            let (got, events) = queue.drain(budget);
            let credits = queue.credits();
            match got {
                Ok(drained) => {
                    prop_assert!(!before && drained.taken <= budget);
                    prop_assert_eq!(drained.taken, drained.events + drained.skipped);
                    prop_assert_eq!(drained.events as usize, events.len());
                    let expected: &[u32] = if drained.taken == 0 { &[] } else { &[drained.taken] };
                    prop_assert_eq!(credits.as_slice(), expected);
                    taken += drained.taken;
                }
                Err(error) => {
                    prop_assert_eq!(error, Error::AeqOverflow);
                    prop_assert!(queue.aeq.overflowed() && credits.is_empty());
                    prop_assert!(events.len() <= 6);
                }
            }
        }
        if !queue.aeq.overflowed() {
            let counts = queue.aeq.counts();
            prop_assert_eq!(taken, counts.events + counts.out_of_range);
        }
    }
}
