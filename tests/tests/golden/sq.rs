//! Golden vectors of the send queue: single posts and sequences.

pub mod input;

use std::sync::atomic::{AtomicU64, Ordering};

use e810_datapath::{Data, Op, PostError, SendFlags, SendWr, Sge, Wc};
use e810_hal::DmaWord;
use e810_tests::plain::Queues;
use serde_json::Value;

use crate::feature::Feature;
use crate::hex;
use crate::report::{self, Outcome, Rule, number};
use input::{flag, is_iwarp, post, small, spec};

pub const WQEALLOC: u32 = 0x50_4400;
const UNCOUNTED: &str = "an SGE that num_sge does not count cannot be given";

/// A ring pattern that no WQE has: what is not written keeps it.
const UNTOUCHED: u64 = 0xA5A5_A5A5_A5A5_A5A5;

pub fn snapshot(ring: &[AtomicU64]) -> Vec<u64> {
    ring.iter().map(DmaWord::get).collect()
}

pub fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A request in the ring, for completing it later.
struct Posted {
    index: u64,
    end: u64,
    signaled: bool,
}

/// A queue under judgement.
pub struct Judge {
    pub queues: Queues,
    quanta: u64,
    /// Ring index that completions were consumed up to.
    tail: u64,
    posted: Vec<Posted>,
}

impl Judge {
    pub fn new(qp: &Value) -> Self {
        let queues = Queues::new(&spec(qp));
        for cell in queues.sq_ring {
            cell.store(UNTOUCHED, Ordering::Relaxed);
        }
        Self {
            queues,
            quanta: number(qp, "sq_ring_quanta"),
            tail: 0,
            posted: Vec::new(),
        }
    }

    /// Posts a step and compares everything the device sees.
    fn step(&mut self, step: &Value) -> Outcome {
        let op = step["op"].as_str().unwrap();
        let input = &step["in"];
        if step["push"].is_object() {
            return Outcome::Skipped(Feature::PushPages);
        }
        if flag(input, "l4len") || flag(input, "udp_hdr") {
            return Outcome::Skipped(Feature::RawDatagrams);
        }
        let sg_list = input["sg_list"].as_array().map_or(0, Vec::len);
        if sg_list > 0 && input["num_sge"] == 0 {
            return Outcome::Deviates(Rule::RefusesBadInput, UNCOUNTED);
        }
        // A Q_Key with bit 31 set stands for the QP's own, which is not recorded:
        // the one that would give what was.
        if input["qkey"].is_u64() {
            let qp = self.queues.qp;
            let set = self.queues.registry.set_qkey(qp, small(input, "qkey"));
            set.unwrap();
        }
        let before = snapshot(self.queues.sq_ring);
        self.queues.platform.forget();
        let answer = post(&mut self.queues, op, input);
        let doorbells = self.queues.platform.doorbells();
        let after = snapshot(self.queues.sq_ring);
        match (answer, step["ret"] == "ok") {
            (Err(_), false) if after != before => {
                Outcome::Failed("a refused request left something in the ring".to_owned())
            }
            (Err(_), false) => Outcome::same("doorbells", doorbells, vec![]),
            (Ok(()), false) => Outcome::Failed("accepted, should be refused".to_owned()),
            (Err(refused), true) => match refused.error {
                PostError::SgeTooLong { .. } => Outcome::Deviates(
                    Rule::RefusesBadInput,
                    "a length of 2^31 and more does not fit the fragment",
                ),
                PostError::Field { .. } => Outcome::Deviates(
                    Rule::RefusesBadInput,
                    "numbers that do not fit their field are not cut off",
                ),
                error => Outcome::Failed(error.to_string()),
            },
            (Ok(()), true) => {
                let (index, quanta) = (number(step, "wqe_index"), number(step, "quanta"));
                self.posted.push(Posted {
                    index,
                    end: (index + quanta) % self.quanta,
                    signaled: flag(input, "signaled"),
                });
                Outcome::all([
                    self.ring_changes(step, &before, &after),
                    Outcome::same(
                        "doorbells",
                        doorbells,
                        vec![(WQEALLOC, self.queues.qp.id())],
                    ),
                    Outcome::same("head", self.head(), number(&step["after"], "sq_head")),
                ])
            }
        }
    }

    /// The head, from what is free.
    fn head(&mut self) -> u64 {
        let free = u64::from(self.queues.send.free_quanta());
        let used = self.quanta - 257 - free;
        (self.tail + used) % self.quanta
    }

    /// The WQE, the NOPs before it, the fills; and nothing else changed.
    fn ring_changes(&self, step: &Value, before: &[u64], after: &[u64]) -> Outcome {
        let mut expected = before.to_vec();
        let mut set = |first: u64, bytes: &[u8], mask: Option<&[u8]>| {
            let start = first as usize * 4;
            let mut old = bytes_of(&expected[start..start + bytes.len() / 8]);
            for (at, byte) in bytes.iter().enumerate() {
                if mask.is_none_or(|mask| mask[at] == 0xFF) {
                    old[at] = *byte;
                } else {
                    // Ours to write or to leave.
                    old[at] = bytes_of(&after[start..])[at];
                }
            }
            for (word, chunk) in expected[start..].iter_mut().zip(old.chunks_exact(8)) {
                *word = u64::from_le_bytes(chunk.try_into().unwrap());
            }
        };
        for fill in step["fills"].as_array().unwrap() {
            let bytes = vec![small(fill, "byte"); small::<usize>(fill, "quanta") * 32];
            set(number(fill, "first_quanta"), &bytes, None);
        }
        for pad in step["pad_nops"].as_array().unwrap() {
            let bytes = hex::bytes(pad["hex"].as_str().unwrap());
            set(number(pad, "index"), &bytes, None);
        }
        let wqe = hex::bytes(step["wqe_hex"].as_str().unwrap());
        let mask = hex::bytes(step["wqe_mask"].as_str().unwrap());
        set(number(step, "wqe_index"), &wqe, Some(&mask));
        match (0..expected.len()).find(|&at| expected[at] != after[at]) {
            None => Outcome::Passed,
            Some(at) => Outcome::Failed(format!(
                "quantum {} word {}: expected {:#018x}, got {:#018x}",
                at / 4,
                at % 4,
                expected[at],
                after[at]
            )),
        }
    }

    /// A request that is not judged.
    fn unjudged(&mut self, quanta: u64, nop: bool) {
        let size = self.quanta;
        let free_before = u64::from(self.queues.send.free_quanta());
        let sge = Sge {
            addr: 0x1000,
            length: 1,
            lkey: 1,
        };
        let list = [sge; 3];
        let (count, imm) = match quanta {
            1 => (1, None),
            2 => (3, None),
            _ => (3, Some(1)),
        };
        let op = if nop {
            Op::Nop
        } else {
            Op::Send {
                data: Data::Sges(&list[..count]),
                imm,
            }
        };
        let wr = SendWr {
            wr_id: 0,
            op,
            flags: SendFlags::SIGNALED,
        };
        self.queues.send.post_send(&[wr]).unwrap();
        let used = free_before - u64::from(self.queues.send.free_quanta());
        let last = self.posted.last().map_or(0, |posted| posted.end);
        let end = (last + used) % size;
        self.posted.push(Posted {
            index: (end + size - quanta) % size,
            end,
            signaled: true,
        });
    }

    /// Completions are consumed up to ring index `tail`, or up to the padding
    /// before it.
    fn complete_to(&mut self, tail: u64) {
        let size = self.quanta;
        let last = (0..8)
            .find_map(|pads| {
                let end = (tail + size - pads) % size;
                self.posted.iter().rposition(|posted| posted.end == end)
            })
            .expect("a request that ends there");
        let posted = &self.posted[last];
        // An error retires a request that is not signaled, too.
        let error = if posted.signaled {
            0
        } else {
            1 << 55 | 7 << 16
        };
        let (index, id) = (posted.index, u64::from(self.queues.qp.id()) << 32);
        let q3 = 1 << 62 | 3 << 56 | error | index << 32;
        self.queues.complete([0, self.queues.qp.bits(), id, q3]);
        assert_eq!(self.queues.cq.poll(&mut [Wc::default()]), 1);
        self.posted = self.posted.split_off(last);
        self.tail = self.posted[0].end;
    }

    fn sequence_step(&mut self, step: &Value) -> Outcome {
        let input = &step["in"];
        match step["op"].as_str().unwrap() {
            "nops" => {
                for _ in 0..number(input, "count") {
                    self.unjudged(1, true);
                    if flag(input, "tail_follows") {
                        let end = self.posted.last().unwrap().end;
                        self.complete_to(end);
                    }
                }
            }
            "sends_hidden" => {
                for _ in 0..number(input, "count") {
                    self.unjudged(1, false);
                    let end = self.posted.last().unwrap().end;
                    self.complete_to(end);
                }
            }
            "posts_ok" => {
                for _ in 0..number(input, "count") {
                    self.unjudged(number(input, "quanta_each"), false);
                }
                let head = self.head();
                return Outcome::same("head", head, number(&step["after"], "sq_head"));
            }
            "set_sq_tail" => self.complete_to(number(input, "tail")),
            _ => return self.step(step),
        }
        Outcome::Passed
    }
}

#[test]
fn sq_wqes() {
    report::file("sq_wqes.json", |file| {
        file.each("cases", |case| {
            if is_iwarp(&case["qp"]) {
                return Some(Outcome::Skipped(Feature::Iwarp));
            }
            Some(Judge::new(&case["qp"]).step(case))
        });
    });
}

#[test]
fn sq_sequences() {
    report::file("sq_sequences.json", |file| {
        file.each("cases", |case| {
            if is_iwarp(&case["qp"]) {
                return Some(Outcome::Skipped(Feature::Iwarp));
            }
            let mut judge = Judge::new(&case["qp"]);
            let steps = case["steps"].as_array().unwrap().iter().enumerate();
            Some(Outcome::all(steps.map(
                |(n, step)| match judge.sequence_step(step) {
                    Outcome::Failed(why) => Outcome::Failed(format!("step {n}: {why}")),
                    outcome => outcome,
                },
            )))
        });
    });
}
