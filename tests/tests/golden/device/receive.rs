//! Receives of `rq_wqes.json`, read by the simulated device.

use e810_sim::wqe::{Lints, ReceiveWqe, is_valid};
use serde_json::Value;

use super::{fragments, same_fragments, words};
use crate::feature::Feature;
use crate::report::{self, Outcome, number};
use crate::sq::input::is_iwarp;

/// One receive; `None` when the recorder refused it.
fn post(step: &Value) -> Option<Outcome> {
    if step["ret"] != "ok" || !step["wqe_hex"].is_string() {
        return None;
    }
    let (words, polarity) = (words(step), number(step, "polarity") == 1);
    if !is_valid(words[3], polarity) {
        return Some(Outcome::Failed("not valid in its lap".to_owned()));
    }
    Some(match ReceiveWqe::decode(&words, polarity) {
        Err(error) => Outcome::Failed(error.to_string()),
        Ok(got) => Outcome::all([
            same_fragments(&got.fragments, &fragments(&step["in"]["sg_list"])),
            Outcome::same("lints", got.lints, Lints::empty()),
        ]),
    })
}

#[test]
fn rq_wqes() {
    report::device("rq_wqes.json", |file| {
        file.each("cases", |case| {
            if is_iwarp(&case["qp"]) {
                return Some(Outcome::Skipped(Feature::Iwarp));
            }
            post(case)
        });
        file.each("sequences", |case| {
            let steps = case["steps"].as_array().unwrap().iter().enumerate();
            let posts: Vec<Outcome> = steps
                .filter_map(|(n, step)| {
                    Some(match post(step)? {
                        Outcome::Failed(why) => Outcome::Failed(format!("step {n}: {why}")),
                        outcome => outcome,
                    })
                })
                .collect();
            (!posts.is_empty()).then(|| Outcome::all(posts))
        });
    });
}
