//! Golden vectors of queue sizes.

use e810_datapath::sizing::{
    CqSize, QpLayout, RqSize, SqSize, rq_slot_bytes, sq_quanta, wqe_shift,
};

use crate::report::{self, Case, Outcome};

fn u32_of(case: &Case<'_>, key: &str) -> u32 {
    u32::try_from(case.u64(key)).unwrap()
}

/// Judges a size: refused where the vector is, else equal field by field.
fn judge<S, const N: usize>(
    case: &Case<'_>,
    size: Result<S, impl std::fmt::Display>,
    fields: impl Fn(&S) -> [(&'static str, u32); N],
) -> Outcome {
    match (size, case["ret"] == "ok") {
        (Err(_), false) => Outcome::Passed,
        (Ok(_), false) => Outcome::Failed("accepted, should be refused".to_owned()),
        (Err(error), true) => Outcome::Failed(error.to_string()),
        (Ok(size), true) => Outcome::all(
            fields(&size)
                .into_iter()
                .map(|(key, got)| Outcome::same(key, got, u32_of(case, key))),
        ),
    }
}

#[test]
fn sizing() {
    report::file("sizing.json", |file| {
        file.each("wqe_shift", |case| {
            let shift = wqe_shift(u32_of(case, "sge"), u32_of(case, "inline"));
            Some(Outcome::same(
                "shift",
                u32::from(shift),
                u32_of(case, "shift"),
            ))
        });
        file.each("sq", |case| {
            let [wr, sge, inline] =
                ["max_send_wr", "max_send_sge", "max_inline"].map(|key| u32_of(case, key));
            Some(judge(case, SqSize::new(wr, sge, inline), |size| {
                [
                    ("shift", size.shift.into()),
                    ("depth_quanta", size.quanta),
                    ("wr_slots", size.quanta >> size.shift),
                    ("granted_max_send_wr", size.max_wr),
                ]
            }))
        });
        file.each("rq", |case| {
            let [wr, sge] = ["max_recv_wr", "max_recv_sge"].map(|key| u32_of(case, key));
            Some(judge(case, RqSize::new(wr, sge), |size| {
                [
                    ("shift", size.shift.into()),
                    ("depth_quanta", size.quanta()),
                    ("wr_slots", size.slots),
                    ("granted_max_recv_wr", size.max_wr),
                ]
            }))
        });
        file.each("cq_user", |case| {
            let size = CqSize::new(u32_of(case, "cqe")).unwrap();
            Some(Outcome::all([
                Outcome::same("entries", size.entries, u32_of(case, "entries")),
                Outcome::same(
                    "buffer_bytes",
                    size.bytes().next_multiple_of(4096),
                    u32_of(case, "buffer_bytes"),
                ),
            ]))
        });
        file.each("sq_quanta_by_fragments", |case| {
            let expected = (case["ret"] == "ok").then(|| u32_of(case, "quanta"));
            let got = sq_quanta(u32_of(case, "fragments"));
            Some(Outcome::same("quanta", got, expected))
        });
        file.each("rq_wqe_bytes_by_fragments", |case| {
            let expected = (case["ret"] == "ok").then(|| u32_of(case, "bytes"));
            let got = rq_slot_bytes(u32_of(case, "fragments"));
            Some(Outcome::same("bytes", got, expected))
        });
        file.each("qp_layout", |case| {
            let input: Vec<u32> = case["in"]
                .as_array()
                .unwrap()
                .iter()
                .map(|number| u32::try_from(number.as_u64().unwrap()).unwrap())
                .collect();
            let sizes = SqSize::new(input[0], input[2], input[4])
                .and_then(|sq| Ok((sq, RqSize::new(input[1], input[3])?)));
            Some(judge(case, sizes, |(sq, rq)| {
                let layout = QpLayout::new(sq, rq);
                [
                    ("sq_ring_quanta", sq.quanta),
                    ("rq_slots", rq.slots),
                    ("rq_shift", rq.shift.into()),
                    ("rq_offset", layout.rq_offset),
                    ("shadow_offset", layout.shadow_offset),
                    ("total_bytes", layout.bytes),
                    ("granted_send_wr", sq.max_wr),
                    ("granted_recv_wr", rq.max_wr),
                ]
            }))
        });
    });
}
