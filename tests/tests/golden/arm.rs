//! Golden vectors of arming a completion queue.

use e810_datapath::CompletionQueue;
use e810_datapath::Registry;
use e810_datapath::arm::{ArmWord, Notify};
use e810_datapath::slot::{Layout, Signalled};
use e810_hal::{Cell, HostBuf};
use e810_tests::plain::{Plain, Queues, Spec};
use serde_json::Value;

use crate::hex;
use crate::report::{self, Outcome, number};
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
    let words: Vec<u64> = words[..8].iter().map(Cell::get).collect();
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
            let mut queues = Queues::<true>::new(&Spec::default());
            let steps = case["steps"].as_array().unwrap().iter().enumerate();
            Some(Outcome::all(steps.map(|(n, step)| {
                queues.platform.forget();
                if step["call"] == "cq_event" {
                    let told = queues.registry.slots().signal_cq(queues.cq_key);
                    // One that nobody asked for, which the device does not
                    // raise, goes no further.
                    assert_eq!(queues.cq.take_event(), told == Signalled::Told);
                } else {
                    assert!(!queues.cq.arm(notify(&step["call"])));
                }
                let armed = queues.platform.doorbells().len() as u64;
                let word = queues.cq_shadow[4].get();
                Outcome::all([
                    Outcome::same(
                        "hw_armed_now",
                        (n, armed),
                        (n, number(step, "hw_armed_now")),
                    ),
                    Outcome::same("arm word", (n, word), (n, number(step, "shadow_qword4"))),
                ])
            })))
        });
    });
}
