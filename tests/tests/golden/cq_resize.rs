//! Golden vectors of completion queues that are resized while they work.

use std::sync::atomic::AtomicU64;

use e810_datapath::sizing::CqSize;
use e810_datapath::{Data, Op, SendFlags, SendLimits, SendWr, Sge, Wc};
use e810_hal::DmaWord;
use e810_tests::plain::{Queues, Spec};
use serde_json::Value;

use crate::report::{self, Case, Outcome, number};

/// Completions that the first ring of every case has room for.
const FIRST_CQE: u32 = 3;
/// wr_id of the first request.
const FIRST_WR: u64 = 1000;

/// The rings of a case as the device sees them, oldest first.
struct Rig {
    queues: Queues<true>,
    rings: Vec<&'static [AtomicU64]>,
    entries: u32,
    given_back: usize,
}

impl Rig {
    fn new() -> Self {
        let entries = CqSize::new(FIRST_CQE).unwrap().entries;
        let plain = Spec::default();
        let mut queues = Queues::new(&Spec {
            cq_entries: entries,
            limits: SendLimits {
                max_inline: 0,
                ..plain.limits
            },
            ..plain
        });
        for n in 0..16 {
            let op = Op::Send {
                data: Data::Sges(&[Sge::default()]),
                imm: None,
            };
            let flags = SendFlags::SIGNALED;
            let wr_id = FIRST_WR + n;
            queues.send.post_one(&SendWr { wr_id, op, flags }).unwrap();
        }
        Self {
            rings: vec![queues.cq_ring],
            queues,
            entries,
            given_back: 0,
        }
    }

    /// The device completes a request, at an entry of a ring.
    fn complete(&self, step: &Value) {
        let ring = self.rings[number(step, "buffer") as usize];
        let at = number(step, "entry") as usize * 4;
        let index = number(step, "wr_id") - FIRST_WR;
        let qp = self.queues.qp;
        ring[at].set(0);
        ring[at + 1].set(qp.bits());
        ring[at + 2].set(u64::from(qp.id()) << 32);
        ring[at + 3].publish(1 << 63 | 1 << 62 | 3 << 56 | index << 32);
    }

    /// A resize as the driver does it; the sizes it refuses, and the one that
    /// changes nothing, do not reach the queue.
    fn resize(&mut self, step: &Value) -> Outcome {
        let asked = number(step, "cqe");
        let size = u32::try_from(asked).ok().map(CqSize::new);
        let Some(Ok(size)) = size else {
            return Outcome::same("refused", step["ret"].as_str(), Some("EINVAL"));
        };
        match step["ret"].as_str() {
            Some("EINVAL") => return Outcome::Failed(format!("cqe {asked} is not refused")),
            // A kernel without the feature: not a question of the queue.
            Some("EOPNOTSUPP") => return Outcome::Passed,
            _ => {}
        }
        if size.entries != self.entries {
            let (ring, words) = self.queues.platform.dma(size.bytes());
            assert!(self.queues.cq.can_resize());
            self.queues.cq.resized(ring, size.entries).unwrap();
            self.rings.push(words);
            self.entries = size.entries;
        }
        Outcome::same("entries", u64::from(self.entries), number(step, "cq_size"))
    }

    fn poll(&mut self, step: &Value) -> Outcome {
        let mut wcs = vec![Wc::default(); number(step, "num_entries") as usize];
        let got = self.queues.cq.poll(&mut wcs);
        while self.queues.cq.take_drained().is_some() {
            self.given_back += 1;
        }
        let ids: Vec<u64> = wcs[..got].iter().map(|wc| wc.wr_id).collect();
        let wanted = step["wr_ids"].as_array().unwrap().iter();
        let wanted: Vec<u64> = wanted.map(|id| id.as_u64().unwrap()).collect();
        let left = self.rings.len() - 1 - self.given_back;
        Outcome::all([
            Outcome::same("completions", ids, wanted),
            Outcome::same("old rings", left as u64, number(step, "old_buffers")),
        ])
    }

    fn step(&mut self, step: &Value) -> Outcome {
        if step["hw"].is_string() {
            self.complete(step);
            return Outcome::Passed;
        }
        let did = match step["call"].as_str() {
            Some("resize_cq") => self.resize(step),
            Some("poll_cq") => self.poll(step),
            Some("arm_any") => {
                let _ = self.queues.cq.arm(e810_datapath::Notify::Any);
                Outcome::Passed
            }
            other => return Outcome::Failed(format!("unknown step {other:?}")),
        };
        let mut all = vec![did];
        for (name, word) in [("shadow_qword0", 0), ("shadow_qword4", 4)] {
            if let Some(wanted) = step[name].as_u64() {
                all.push(Outcome::same(
                    name,
                    self.queues.cq_shadow[word].get(),
                    wanted,
                ));
            }
        }
        Outcome::all(all)
    }
}

fn judge(case: &Case<'_>) -> Outcome {
    let mut rig = Rig::new();
    // What the first resize of a case finds in the arm word.
    let steps = case["steps"].as_array().unwrap();
    let first = steps.iter().find(|step| step["call"] == "resize_cq");
    if first.is_some_and(|step| number(step, "shadow_qword4") != 0) {
        assert!(!rig.queues.cq.arm(e810_datapath::Notify::Solicited));
    }
    Outcome::all(steps.iter().map(|step| rig.step(step)))
}

#[test]
fn cq_resize() {
    report::file("cq_resize.json", |file| {
        file.each("cases", |case| Some(judge(case)));
    });
}
