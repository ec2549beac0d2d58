//! Golden vectors of the completion queue as the kernel driver reads it.

use e810_datapath::wr::MwBind;
use e810_datapath::{Data, ExtraOps, Op, SendFlags, SendLimits, SendWr, Wc, WcStatus};
use e810_hal::DmaWord;
use e810_tests::plain::{Queues, Spec};

use crate::report::{self, Case, Outcome, Rule, number};

/// The kernel's poll, where it differs from the user-space one.
fn kernel(case: &Case<'_>) -> Outcome {
    let mut queues = Queues::<true>::new(&Spec {
        cq_entries: 256,
        limits: SendLimits {
            extra: ExtraOps::all(),
            ..Spec::default().limits
        },
        ..Spec::default()
    });
    let send = |queues: &mut Queues, wr_id, flags| {
        let op = Op::Send {
            data: Data::Sges(&[]),
            imm: None,
        };
        queues
            .send
            .post_send(&[SendWr { wr_id, op, flags }])
            .unwrap();
    };
    let mut wc = [Wc::default()];
    match case.name.as_str() {
        "shadow_head_updates_200_valid_cqes" => {
            for index in 0..200 {
                send(&mut queues, index, SendFlags::SIGNALED);
                queues.complete_send(index);
            }
            let polls = case["polls"].as_array().unwrap();
            let same = polls.iter().map(|poll| {
                let found = queues.cq.poll(&mut wc);
                let head = queues.cq_shadow[0].get();
                Outcome::all([
                    Outcome::same("found", found == 1, poll["ret"] == 0),
                    Outcome::same("head", head, number(poll, "head")),
                ])
            });
            match Outcome::all(same) {
                Outcome::Passed => Outcome::Deviates(
                    Rule::NotJudged,
                    "the head is written for each entry, as user space does; the kernel leaves out multiples of 64",
                ),
                failed => failed,
            }
        }
        "unsignaled_wqe_cqe_is_skipped" => {
            for index in 0..3 {
                let mut flags = SendFlags::empty();
                flags.set(SendFlags::SIGNALED, index != 1);
                send(&mut queues, index, flags);
                queues.complete_send(index);
            }
            let got: Vec<u64> =
                std::iter::from_fn(|| (queues.cq.poll(&mut wc) == 1).then_some(wc[0].wr_id))
                    .collect();
            Outcome::all([
                Outcome::same("completions", got, vec![0, 2]),
                Outcome::same("skipped", queues.cq.counters().malformed, 1),
            ])
        }
        "flushed_bind_mw_prot_err_becomes_mw_bind_err" => {
            let bind = MwBind {
                mw_stag: 1,
                mr_stag: 2,
                addr: 0,
                length: 64,
                zero_based: false,
                type_1: false,
                remote_read: true,
                remote_write: false,
            };
            let wr = SendWr {
                wr_id: 5,
                op: Op::BindMw(&bind),
                flags: SendFlags::SIGNALED,
            };
            queues.send.post_send(&[wr]).unwrap();
            let q3 = 1 << 62 | 8 << 56 | 1 << 55 | 1 << 16 | case.u64("cqe_minor");
            let q2 = u64::from(queues.qp.id()) << 32;
            queues.complete([0, queues.qp.bits(), q2, q3]);
            assert_eq!(queues.cq.poll(&mut wc), 1);
            let [wc] = wc;
            Outcome::all([
                Outcome::same("wr_id", wc.wr_id, 5),
                Outcome::same("status", wc.status, WcStatus::MwBindErr),
                Outcome::same(
                    "minor",
                    u64::from(wc.vendor_err & 0xFFFF),
                    case.u64("minor_reported"),
                ),
            ])
        }
        other => panic!("unknown case {other}"),
    }
}

#[test]
fn kernel_cq_poll() {
    report::file("kernel_cq_poll.json", |file| {
        file.each("cases", |case| Some(kernel(case)));
    });
}
