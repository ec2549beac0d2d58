//! Lists of `verbs_post.json`: the ring they left, read by the simulated device.

use e810_sim::wqe::{
    Lints, Operation, QUANTUM_WORDS, Remote, SendWqe, Service, UdTarget, is_valid,
};
use serde_json::Value;

use super::fragments;
use super::send::{Bytes, Expected, What};
use crate::feature::Feature;
use crate::hex;
use crate::report::{self, Case, Outcome, number};
use crate::sq::input::{flag, inline_pieces, small};

/// IBV_SEND_FENCE, SIGNALED, SOLICITED.
const FENCE: u64 = 1;
const SIGNALED: u64 = 2;
const SOLICITED: u64 = 4;

/// What a request of verbs means on the wire.
fn expected(wr: &Value, signal_all: bool) -> Expected {
    let flags = number(wr, "send_flags");
    let solicited = flags & SOLICITED != 0;
    let immediate = wr["imm"].as_u64().map(|imm| u32::try_from(imm).unwrap());
    let bytes = || match wr["inline_data"].is_array() {
        true => Bytes::Inline(inline_pieces(&wr["inline_data"]).concat()),
        false => Bytes::Memory(fragments(&wr["sg_list"])),
    };
    let remote = || Remote {
        addr: number(wr, "remote_addr"),
        rkey: small(wr, "rkey"),
    };
    let ud = match wr["ud"].is_object() {
        false => UdTarget::default(),
        true => UdTarget {
            qpn: small(&wr["ud"], "remote_qpn"),
            qkey: small(&wr["ud"], "remote_qkey"),
            ah: small(&wr["ud"], "ah_id"),
        },
    };
    let by_event = |with, without| if solicited { with } else { without };
    let (opcode, what) = match wr["opcode_name"].as_str().unwrap() {
        name @ ("SEND" | "SEND_WITH_IMM" | "SEND_WITH_INV") => {
            let invalidate = (name == "SEND_WITH_INV").then(|| small::<u32>(wr, "invalidate_rkey"));
            let what = What::Send {
                bytes: bytes(),
                immediate,
                invalidate,
                solicited,
                ud,
            };
            let opcode = match invalidate {
                None => by_event(5, 3),
                Some(_) => by_event(6, 4),
            };
            (opcode, what)
        }
        "RDMA_WRITE" | "RDMA_WRITE_WITH_IMM" => {
            let what = What::Write {
                bytes: bytes(),
                remote: remote(),
                immediate,
                solicited,
            };
            (by_event(0x0d, 0), what)
        }
        "RDMA_READ" => {
            let what = What::Read {
                sink: fragments(&wr["sg_list"]),
                remote: remote(),
                invalidate_sink: false,
            };
            (1, what)
        }
        "LOCAL_INV" => {
            let stag = small(wr, "invalidate_rkey");
            (0x0a, What::Plain(Operation::LocalInvalidate { stag }))
        }
        "BIND_MW" => (8, What::Plain(bind(&wr["bind_mw"]))),
        other => panic!("unknown operation {other}"),
    };
    Expected {
        opcode,
        signaled: signal_all || flags & SIGNALED != 0,
        local_fence: false,
        read_fence: flags & FENCE != 0,
        report_rtt: false,
        lints: Lints::empty(),
        what,
    }
}

/// IBV_ACCESS_REMOTE_WRITE is 2, REMOTE_READ 4, ZERO_BASED 0x20.
fn bind(bind: &Value) -> Operation {
    let access = number(bind, "mw_access_flags");
    let va_based = access & 0x20 == 0;
    let right = |verbs: u64, bit: u8| if access & verbs != 0 { bit } else { 0 };
    let key: u32 = small(bind, "wr_rkey");
    Operation::BindWindow {
        addr: if va_based { number(bind, "addr") } else { 0 },
        len: number(bind, "length"),
        parent: small(bind, "mr_rkey"),
        // Type 2: the consumer chooses the key part.
        window: small::<u32>(bind, "mw_rkey") & !0xFF | key & 0xFF,
        rights: right(4, 4) | right(2, 8),
        va_based,
        type1: number(bind, "mw_type") == 1,
    }
}

/// Walks the quanta as the device does: from a request to the next, past the
/// padding before a chunk's end.
fn ring(case: &Case<'_>, service: Service) -> Outcome {
    let words = hex::words(case["sq_hex"].as_str().unwrap());
    let mut rest = words.as_slice();
    let posted = match case["bad_wr"].as_i64().unwrap() {
        -1 => usize::MAX,
        bad => bad as usize,
    };
    let wrs = case["wrs"].as_array().unwrap().iter().take(posted);
    let signal_all = flag(case, "sq_sig_all");
    let mut outcomes = Vec::new();
    for wr in wrs {
        let got = loop {
            if rest.is_empty() || !is_valid(rest[3], true) {
                return Outcome::Failed("a request that was posted is not there".to_owned());
            }
            let got = match SendWqe::decode(rest, true, service) {
                Ok(got) => got,
                Err(error) => return Outcome::Failed(error.to_string()),
            };
            rest = &rest[usize::from(got.quanta) * QUANTUM_WORDS..];
            if got.operation != Operation::Nop {
                break got;
            }
        };
        outcomes.push(expected(wr, signal_all).compare(&got));
    }
    outcomes.push(Outcome::same("quanta left", rest.len(), 0));
    Outcome::all(outcomes)
}

#[test]
fn verbs_post() {
    report::device("verbs_post.json", |file| {
        file.each("cases", |case| {
            if case["qp_type"] == "iw" {
                return Some(Outcome::Skipped(Feature::Iwarp));
            }
            let service = match case["qp_type"] == "ud" {
                true => Service::Datagram,
                false => Service::Connected,
            };
            // Receives were recorded without their bytes.
            let is_ring = case["sq_hex"].as_str().is_some_and(|hex| !hex.is_empty());
            is_ring.then(|| ring(case, service))
        });
    });
}
