//! The send ring against an independent device that scans valid bits.
//!
//! The device knows the queue only by its ring: from the position it has
//! reached it takes whatever is valid in the lap it is in, fetches ahead as it
//! likes, and so would execute a stale valid bit. What it finds must be the
//! requests posted, in order, with NOPs only where a chunk had to be filled.

use std::collections::VecDeque;

use e810_datapath::{PostError, Wc};
use e810_hal::DmaWord;
use proptest::prelude::*;

use crate::common::{Bench, TestCq, TestQp, Words};

const SIZE: u64 = 512;

/// A WQE as the device finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Found {
    position: u64,
    quanta: u64,
    nop: bool,
    signaled: bool,
}

struct Device {
    ring: Words,
    position: u64,
}

impl Device {
    /// The next WQE, if its header is valid in this lap.
    fn fetch(&mut self) -> Option<Found> {
        let at = (self.position % SIZE) as usize * 4;
        let lap_valid = u64::from((self.position / SIZE).is_multiple_of(2));
        let header = self.ring[at + 3].observe();
        if header >> 63 != lap_valid {
            return None;
        }
        let opcode = header >> 32 & 0x3F;
        let fragments = (header >> 38 & 0xF) + 1;
        // Fragment 0 beside the header, two in each further quantum.
        let quanta = 1 + (fragments - 1).div_ceil(2);
        if opcode == 0x0C {
            assert_eq!(self.ring[at].get(), 0, "a NOP has nothing in it");
        } else {
            // Every fragment is valid in the lap, to the end of the last quantum.
            for quantum in 1..quanta as usize {
                for word in [1, 3] {
                    let q1 = self.ring[at + quantum * 4 + word].get();
                    let what = "valid bit (data-path 1.6) of a fragment";
                    assert_eq!(
                        q1 >> 63,
                        lap_valid,
                        "{what}: word {word} of quantum {quantum}"
                    );
                }
            }
        }
        let found = Found {
            position: self.position,
            quanta,
            nop: opcode == 0x0C,
            signaled: header >> 62 & 1 == 1,
        };
        assert!(
            self.position % 8 + quanta <= 8,
            "a WQE across a chunk border at {}",
            self.position
        );
        self.position += quanta;
        Some(found)
    }
}

/// The model: counters that never wrap.
#[derive(Default)]
struct Model {
    head: u64,
    tail: u64,
    expected: VecDeque<Found>,
}

impl Model {
    /// Places a request of `sges` SGEs; `None` when it does not fit.
    fn place(&mut self, sges: u64, signaled: bool) -> Option<Found> {
        let quanta = sges.max(1) / 2 + 1;
        let room = 8 - self.head % 8;
        let pads = if quanta > room { room } else { 0 };
        if self.head - self.tail + pads + quanta > SIZE - 257 {
            return None;
        }
        for pad in 0..pads {
            self.expected.push_back(Found {
                position: self.head + pad,
                quanta: 1,
                nop: true,
                signaled: false,
            });
        }
        let found = Found {
            position: self.head + pads,
            quanta,
            nop: false,
            signaled,
        };
        self.expected.push_back(found);
        self.head = found.position + quanta;
        Some(found)
    }
}

struct Rig {
    cq: TestCq,
    qp: TestQp,
    device: Device,
    model: Model,
    /// Executed and signaled, not completed yet, with their wr_ids.
    done: VecDeque<(Found, u64)>,
    wr_ids: VecDeque<(Found, u64)>,
    next_id: u64,
}

impl Rig {
    fn new() -> Self {
        let mut bench = Bench::new();
        let cq = bench.cq(0, 64);
        let qp = bench.qp(0, cq.key, cq.key);
        let device = Device {
            ring: qp.sq_ring,
            position: 0,
        };
        Self {
            cq,
            qp,
            device,
            model: Model::default(),
            done: VecDeque::new(),
            wr_ids: VecDeque::new(),
            next_id: 0,
        }
    }

    fn post(&mut self, sges: u64, signaled: bool) {
        let expected = self.model.place(sges, signaled);
        let answer = self.qp.post(self.next_id, sges as usize, signaled);
        match expected {
            Some(found) => {
                answer.unwrap();
                self.check_ahead();
                self.wr_ids.push_back((found, self.next_id));
                self.next_id += 1;
            }
            None => assert!(matches!(answer.unwrap_err().error, PostError::Full { .. })),
        }
    }

    /// Whatever the device fetches ahead reads as not valid, in both halves of
    /// each quantum, up to where the queue has cleared.
    fn check_ahead(&self) {
        let Some(last) = self.model.head.checked_sub(1) else {
            return;
        };
        let cleared = last / 128 * 128 + 256;
        for position in self.model.head..cleared {
            let at = (position % SIZE) as usize * 4;
            let invalid = u64::from(!(position / SIZE).is_multiple_of(2));
            for word in [1, 3] {
                let bit = self.device.ring[at + word].get() >> 63;
                assert_eq!(bit, invalid, "position {position} word {word}");
            }
        }
    }

    /// The device executes up to `most` WQEs.
    fn execute(&mut self, most: u64) {
        for _ in 0..most {
            let Some(found) = self.device.fetch() else {
                break;
            };
            assert_eq!(Some(found), self.model.expected.pop_front());
            if !found.nop {
                let (posted, wr_id) = self.wr_ids.pop_front().unwrap();
                assert_eq!(posted, found);
                if found.signaled {
                    self.done.push_back((found, wr_id));
                }
            }
        }
    }

    /// The device completes up to `most`, and they are polled.
    fn complete(&mut self, most: u64) {
        for _ in 0..most {
            let Some((found, wr_id)) = self.done.pop_front() else {
                break;
            };
            self.cq.device.sent(self.qp.key, found.position % SIZE);
            let mut wc = [Wc::default(); 2];
            assert_eq!(self.cq.cq.poll(&mut wc), 1);
            assert_eq!(wc[0].wr_id, wr_id);
            self.model.tail = found.position + found.quanta;
        }
        let free = (SIZE - 257).saturating_sub(self.model.head - self.model.tail);
        assert_eq!(u64::from(self.qp.send.free_quanta()), free);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Post {
        sges: u64,
        signaled: bool,
        times: u64,
    },
    Execute(u64),
    Complete(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u64..14, any::<bool>(), 1u64..20).prop_map(|(sges, signaled, times)| Step::Post {
            sges,
            signaled,
            times
        }),
        (1u64..60).prop_map(Step::Execute),
        (1u64..60).prop_map(Step::Complete),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 128 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_scanning_device_finds_what_was_posted_and_nothing_else(
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 20 } else { 160 }),
    ) {
        let mut rig = Rig::new();
        for step in steps {
            match step {
                Step::Post { sges, signaled, times } => {
                    for _ in 0..times {
                        rig.post(sges, signaled);
                    }
                }
                Step::Execute(most) => rig.execute(most),
                Step::Complete(most) => rig.complete(most),
            }
        }
        rig.execute(u64::MAX);
        prop_assert!(rig.model.expected.is_empty());
    }
}

/// Several laps of each WQE size: the wrap, both polarities, every padding.
#[test]
fn laps_of_every_size() {
    let laps = if cfg!(miri) { 1 } else { 5 };
    for sges in 0..14 {
        let mut rig = Rig::new();
        while rig.model.head < laps * SIZE + 100 {
            rig.post(sges, true);
            rig.execute(2 * 8);
            rig.complete(1);
        }
    }
}
