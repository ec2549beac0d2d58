//! Golden vectors of arming a completion queue.

use e810_datapath::CompletionQueue;
use e810_datapath::Registry;
use e810_datapath::arm::{ArmWord, Notify};
use e810_datapath::slot::Layout;
use e810_hal::{DmaWord, HostBuf};
use e810_tests::plain::{Plain, Queues, Spec};
use serde_json::Value;

use crate::hex;
use crate::report::{self, Outcome, Rule, number};
use crate::sq::bytes_of;
use crate::sq::input::small;

const CQARM: u32 = 0x50_2C00;

fn notify(name: &Value) -> Notify {
    match name.as_str().unwrap() {
        "any" | "arm_any" => Notify::Any,
        "solicited" | "arm_solicited" => Notify::Solicited,
        other => panic!("unknown request {other}"),
    }
}

/// One request of a CQ whose shadow area holds `shadow`, and nothing pending.
fn arm_once(cq_id: u32, before: u64, request: Notify) -> (Vec<u8>, Vec<(u32, u32)>) {
    let platform = Plain::<true>::new();
    let layout = Layout {
        cqs: cq_id + 1,
        qps: 0,
        channels: 0,
        tracker_words: 0,
    };
    let memory = HostBuf::new(platform, layout.words()).unwrap();
    let mut registry = Registry::new(memory, layout).unwrap();
    let key = registry.open_cq(cq_id).unwrap();
    let (ring, _) = platform.dma(4 * 32);
    let (shadow, words) = platform.dma(64);
    words[4].set(before);
    let slots = registry.slots().clone();
    let mut cq = CompletionQueue::new(platform, ring, shadow, slots, key, 4).unwrap();
    assert!(!cq.arm(request), "the ring is empty");
    let words: Vec<u64> = words[..8].iter().map(DmaWord::get).collect();
    (bytes_of(&words), platform.doorbells())
}

#[test]
fn cq_arm() {
    report::file("cq_arm.json", |file| {
        file.each("register_level", |case| {
            let mut word = case.u64("shadow_qword4_before");
            let cq_id: u32 = small(case, "cq_id");
            let steps = case["steps"].as_array().unwrap().iter();
            Some(Outcome::all(steps.map(|step| {
                let before = word;
                word = number(step, "shadow_qword4");
                if let Some(buffers) = step["resized_buffers"].as_u64() {
                    let buffers = u32::try_from(buffers).unwrap();
                    let got = ArmWord::from_bits(before).released(buffers);
                    return Outcome::same("arm word", got.bits(), word);
                }
                let (shadow, doorbells) = arm_once(cq_id, before, notify(&step["notify"]));
                let expected = hex::bytes(step["shadow_hex"].as_str().unwrap());
                Outcome::all([
                    match hex::difference(&shadow, &expected, None) {
                        None => Outcome::Passed,
                        Some(difference) => Outcome::Failed(difference),
                    },
                    Outcome::same("doorbells", doorbells, vec![(CQARM, cq_id)]),
                ])
            })))
        });
        file.each("verbs_level", |case| {
            let steps: Vec<Step> = case["steps"]
                .as_array()
                .unwrap()
                .iter()
                .map(Step::of)
                .collect();
            let did = carry_out(&steps);
            let recorded: Vec<_> = steps.iter().map(|step| step.recorded).collect();
            if did != recorded && did == kernel_policy(&steps) {
                return Some(Outcome::Deviates(
                    Rule::KernelPolicy,
                    "what the device was asked for stands until its event is seen",
                ));
            }
            Some(Outcome::same("doorbells and arm words", did, recorded))
        });
    });
}

/// Doorbells of one step, and the arm word after it.
type Did = (u64, u64);

/// A call of a user of the library.
struct Step {
    /// What is asked for; `None` when an event is taken.
    notify: Option<Notify>,
    recorded: Did,
}

impl Step {
    fn of(step: &Value) -> Self {
        Self {
            notify: (step["call"] != "cq_event").then(|| notify(&step["call"])),
            recorded: (number(step, "hw_armed_now"), number(step, "shadow_qword4")),
        }
    }
}

fn carry_out(steps: &[Step]) -> Vec<Did> {
    let mut queues = Queues::<true>::new(&Spec::default());
    let step = |step: &Step| {
        queues.platform.forget();
        match step.notify {
            None => {
                let reported = queues.registry.slots().signal_cq(queues.cq_key);
                // One that nobody asked for, which the device does not raise,
                // goes no further.
                assert_eq!(queues.cq.take_event(), reported.is_delivered());
            }
            Some(notify) => assert!(!queues.cq.arm(notify)),
        }
        let rung = queues.platform.doorbells().len() as u64;
        (rung, queues.cq_shadow[4].get())
    };
    steps.iter().map(step).collect()
}

/// What kernel drivers do (data-path 4.7), and from the first request on that was
/// turned from solicited to any, any.
fn kernel_policy(steps: &[Step]) -> Vec<Did> {
    let (mut armed, mut turned, mut word) = (None, false, ArmWord::default());
    let step = |step: &Step| {
        let rung = match (step.notify, armed) {
            (None, _) => {
                armed = None;
                0
            }
            (Some(Notify::Solicited), Some(_)) | (Some(_), Some(Notify::Any)) => 0,
            (Some(wanted), before) => {
                turned |= before.is_some();
                let asked = if turned { Notify::Any } else { wanted };
                armed = Some(asked);
                word = word.request(asked);
                1
            }
        };
        (rung, word.bits())
    };
    steps.iter().map(step).collect()
}
