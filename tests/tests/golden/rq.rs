//! Golden vectors of the receive queue.

use e810_datapath::{PostError, RecvWr, Sge, Wc};
use e810_hal::DmaWord;
use e810_tests::plain::Queues;
use serde_json::Value;

use crate::hex;
use crate::report::{self, Outcome, Rule, number};
use crate::sq::bytes_of;
use crate::sq::input::{is_iwarp, sges, spec};

/// Slots and fragments are the same for iWARP, so its vectors count too.
struct Judge {
    queues: Queues,
    slots: u64,
    slot_bytes: usize,
    tail: u64,
}

impl Judge {
    fn new(qp: &Value) -> Self {
        let spec = spec(qp);
        Self {
            queues: Queues::new(&spec),
            slots: spec.rq.slots.into(),
            slot_bytes: 32 << spec.rq.shift,
            tail: 0,
        }
    }

    fn post(&mut self, wr_id: u64, sges: &[Sge]) -> Result<(), PostError> {
        self.queues
            .recv
            .post_recv(&[RecvWr { wr_id, sges }])
            .map_err(|refused| refused.error)
    }

    fn ring(&self) -> Vec<u8> {
        let words: Vec<u64> = self.queues.rq_ring.iter().map(DmaWord::get).collect();
        bytes_of(&words)
    }

    fn step(&mut self, step: &Value) -> Outcome {
        let input = &step["in"];
        let count = number(input, "num_sge") as usize;
        let list = sges(&input["sg_list"]);
        if list.len() > count {
            return Outcome::Deviates(
                Rule::RefusesBadInput,
                "an SGE that num_sge does not count cannot be given",
            );
        }
        let before = self.ring();
        match (
            self.post(number(input, "wr_id"), &list),
            step["ret"] == "ok",
        ) {
            (Err(_), false) => Outcome::same("ring", self.ring() == before, true),
            (Ok(()), false) => Outcome::Failed("accepted, should be refused".to_owned()),
            (Err(error), true) => Outcome::Failed(error.to_string()),
            (Ok(()), true) => {
                let start = number(step, "wqe_index") as usize * self.slot_bytes;
                let expected = hex::bytes(step["wqe_hex"].as_str().unwrap());
                let mask = hex::bytes(step["wqe_mask"].as_str().unwrap());
                let after = self.ring();
                let slot = start..start + self.slot_bytes;
                let others_changed =
                    (0..after.len()).any(|at| !slot.contains(&at) && after[at] != before[at]);
                let free = u64::from(self.queues.recv.free_slots());
                let head = (self.tail + self.slots - 1 - free) % self.slots;
                Outcome::all([
                    match hex::difference(&after[slot], &expected, Some(&mask)) {
                        None => Outcome::Passed,
                        Some(difference) => Outcome::Failed(difference),
                    },
                    Outcome::same("other slots changed", others_changed, false),
                    Outcome::same("head", head, number(&step["after"], "rq_head")),
                    Outcome::same("doorbells", self.queues.platform.doorbells(), vec![]),
                ])
            }
        }
    }

    fn sequence_step(&mut self, step: &Value) -> Outcome {
        let input = &step["in"];
        match step["op"].as_str().unwrap() {
            "recvs_hidden" => {
                let sge = Sge {
                    addr: 0x1000,
                    length: 100,
                    lkey: 1,
                };
                for wr_id in 0..number(input, "count") {
                    self.post(wr_id, &[sge]).unwrap();
                }
            }
            "set_rq_tail" => {
                self.tail = number(input, "tail");
                let last = (self.tail + self.slots - 1) % self.slots;
                self.queues.complete_recv(last);
                assert_eq!(self.queues.cq.poll(&mut [Wc::default()]), 1);
            }
            _ => return self.step(step),
        }
        Outcome::Passed
    }
}

#[test]
fn rq_wqes() {
    report::file("rq_wqes.json", |file| {
        file.each("cases", |case| Some(Judge::new(&case["qp"]).step(case)));
        file.each("sequences", |case| {
            assert!(!is_iwarp(&case["qp"]));
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
