//! Send queue entries of `sq_wqes.json` and `sq_sequences.json`, read by the
//! simulated device.

use e810_sim::wqe::{
    Fragment, Lints, Operation, Payload, Remote, SendWqe, Service, UdTarget, is_valid, send_quanta,
};
use serde_json::Value;

use super::{fragments, same_fragments, words};
use crate::feature::Feature;
use crate::hex;
use crate::report::{self, Outcome, number};
use crate::sq::input::{flag, inline_pieces, is_iwarp, small};

/// What the payload must be.
pub(super) enum Bytes {
    Memory(Vec<Fragment>),
    Inline(Vec<u8>),
}

impl Bytes {
    pub(super) fn compare(&self, got: &Payload) -> Outcome {
        match (self, got) {
            (Self::Memory(expected), Payload::Fragments(got)) => same_fragments(got, expected),
            (Self::Inline(expected), Payload::Inline(got)) => {
                Outcome::same("inline data", got.as_slice(), expected)
            }
            _ => Outcome::Failed(format!("payload {got:?}: inline, or not")),
        }
    }
}

/// A request, as far as the device gets to know it.
pub(super) struct Expected {
    pub(super) opcode: u8,
    pub(super) signaled: bool,
    pub(super) local_fence: bool,
    pub(super) read_fence: bool,
    pub(super) report_rtt: bool,
    pub(super) lints: Lints,
    pub(super) what: What,
}

/// [`Operation`] with the payload as the recorder has it.
pub(super) enum What {
    Send {
        bytes: Bytes,
        immediate: Option<u32>,
        invalidate: Option<u32>,
        solicited: bool,
        ud: UdTarget,
    },
    Write {
        bytes: Bytes,
        remote: Remote,
        immediate: Option<u32>,
        solicited: bool,
    },
    Read {
        sink: Vec<Fragment>,
        remote: Remote,
        invalidate_sink: bool,
    },
    /// No payload.
    Plain(Operation),
}

impl What {
    fn compare(&self, got: &Operation) -> Outcome {
        match (self, got) {
            (
                Self::Send {
                    bytes,
                    immediate,
                    invalidate,
                    solicited,
                    ud,
                },
                Operation::Send {
                    payload,
                    immediate: got_immediate,
                    invalidate: got_invalidate,
                    solicited: got_solicited,
                    ud: got_ud,
                },
            ) => Outcome::all([
                bytes.compare(payload),
                Outcome::same("immediate", got_immediate, immediate),
                Outcome::same("key to invalidate", got_invalidate, invalidate),
                Outcome::same("solicited", got_solicited, solicited),
                Outcome::same("datagram's target", got_ud, ud),
            ]),
            (
                Self::Write {
                    bytes,
                    remote,
                    immediate,
                    solicited,
                },
                Operation::Write {
                    payload,
                    remote: got_remote,
                    immediate: got_immediate,
                    solicited: got_solicited,
                },
            ) => Outcome::all([
                bytes.compare(payload),
                Outcome::same("remote", got_remote, remote),
                Outcome::same("immediate", got_immediate, immediate),
                Outcome::same("solicited", got_solicited, solicited),
            ]),
            (
                Self::Read {
                    sink,
                    remote,
                    invalidate_sink,
                },
                Operation::Read {
                    sink: got_sink,
                    remote: got_remote,
                    invalidate_sink: got_invalidate,
                },
            ) => Outcome::all([
                same_fragments(got_sink, sink),
                Outcome::same("remote", got_remote, remote),
                Outcome::same("key of the sink goes", got_invalidate, invalidate_sink),
            ]),
            (Self::Plain(expected), got) => Outcome::same("operation", got, expected),
            (_, got) => Outcome::Failed(format!("another operation: {got:?}")),
        }
    }
}

impl Expected {
    pub(super) fn compare(&self, got: &SendWqe) -> Outcome {
        Outcome::all([
            Outcome::same("opcode", got.opcode, self.opcode),
            Outcome::same("signaled", got.signaled, self.signaled),
            Outcome::same("local fence", got.local_fence, self.local_fence),
            Outcome::same("read fence", got.read_fence, self.read_fence),
            Outcome::same("report RTT", got.report_rtt, self.report_rtt),
            Outcome::same("lints", got.lints, self.lints),
            self.what.compare(&got.operation),
        ])
    }
}

fn service(qp: &Value) -> Service {
    if qp["qp_type"] == "roce_ud" {
        Service::Datagram
    } else {
        Service::Connected
    }
}

/// What a post of `op` asks for. The recorded library cuts numbers to their
/// fields: 17 bits of address handle, 24 of QP number.
fn expected(qp: &Value, step: &Value) -> Expected {
    let (op, input) = (step["op"].as_str().unwrap(), &step["in"]);
    let op_type: u8 = small(input, "op_type");
    let immediate = input["imm"].as_u64().map(|imm| u32::try_from(imm).unwrap());
    let remote = || Remote {
        addr: number(input, "remote_addr"),
        rkey: small(input, "rkey"),
    };
    let list = || {
        // With num_sge 0 the library still writes the first element there is.
        let count = number(input, "num_sge").max(1) as usize;
        let mut all = fragments(&input["sg_list"]);
        all.truncate(count);
        all
    };
    let bytes = || match input["inline_data"].is_array() {
        true => Bytes::Inline(inline_pieces(&input["inline_data"]).concat()),
        // The immediate takes the place of the first fragment.
        false if number(input, "num_sge") == 0 && immediate.is_some() => Bytes::Memory(vec![]),
        false => Bytes::Memory(list()),
    };
    let mut opcode = op_type;
    let what = match op {
        "send" | "inline_send" => {
            let invalidates = matches!(op_type, 4 | 6);
            What::Send {
                bytes: bytes(),
                immediate,
                invalidate: invalidates.then(|| small(input, "stag_to_inv")),
                solicited: matches!(op_type, 5 | 6),
                ud: match service(qp) {
                    Service::Connected => UdTarget::default(),
                    Service::Datagram => UdTarget {
                        qpn: small::<u32>(input, "dest_qp") & 0xFF_FFFF,
                        qkey: small(input, "qkey"),
                        ah: small::<u32>(input, "ah_id") & 0x1_FFFF,
                    },
                },
            }
        }
        "rdma_write" | "inline_rdma_write" => What::Write {
            bytes: bytes(),
            remote: remote(),
            immediate,
            solicited: op_type == 13,
        },
        "rdma_read" => {
            let invalidate_sink = flag(input, "inv_stag");
            opcode = if invalidate_sink { 0x0b } else { 0x01 };
            What::Read {
                sink: list(),
                remote: remote(),
                invalidate_sink,
            }
        }
        "local_inv" => {
            opcode = 0x0a;
            What::Plain(Operation::LocalInvalidate {
                stag: small(input, "target_stag"),
            })
        }
        "bind_mw" => What::Plain(bind(input)),
        "nop" => {
            opcode = 0x0c;
            What::Plain(Operation::Nop)
        }
        other => panic!("unknown operation {other}"),
    };
    Expected {
        opcode,
        signaled: flag(input, "signaled") || flag(qp, "sq_sig_all"),
        local_fence: flag(input, "local_fence"),
        read_fence: flag(input, "read_fence"),
        report_rtt: flag(input, "report_rtt"),
        // Written through the push page as well, and told by its doorbell.
        lints: if step["doorbells"][0]["db"] == "push_db+0" {
            Lints::PUSH
        } else {
            Lints::empty()
        },
        what,
    }
}

fn bind(input: &Value) -> Operation {
    let va_based = input["addr_type"] == "va";
    let right = |key, bit: u8| if flag(input, key) { bit } else { 0 };
    Operation::BindWindow {
        addr: if va_based { number(input, "va") } else { 0 },
        len: number(input, "bind_len"),
        parent: small(input, "mr_stag"),
        window: small(input, "mw_stag"),
        rights: right("ena_reads", 4) | right("ena_writes", 8),
        va_based,
        type1: flag(input, "mw_type_1"),
    }
}

/// One post; `None` when the recorder refused it, so that there are no bytes.
fn post(qp: &Value, step: &Value) -> Option<Outcome> {
    if step["ret"] != "ok" {
        return None;
    }
    let input = &step["in"];
    if flag(input, "l4len") || flag(input, "udp_hdr") {
        return Some(Outcome::Skipped(Feature::RawDatagrams));
    }
    let polarity = number(step, "polarity") == 1;
    let (index, quanta) = (number(step, "wqe_index"), number(step, "quanta"));
    let words = words(step);
    let pads = step["pad_nops"].as_array().unwrap().iter();
    let pads = pads.map(|pad| {
        // The ring may wrap between the padding and the request.
        let lap = polarity == (number(pad, "index") < index);
        padding(&hex::words(pad["hex"].as_str().unwrap()), lap)
    });
    let entry = if is_valid(words[3], polarity) {
        match SendWqe::decode(&words, polarity, service(qp)) {
            Err(error) => Outcome::Failed(error.to_string()),
            Ok(got) => Outcome::all([
                Outcome::same("quanta", u64::from(got.quanta), quanta),
                expected(qp, step).compare(&got),
            ]),
        }
    } else {
        Outcome::Failed("not valid in its lap".to_owned())
    };
    Some(Outcome::all(pads.chain([entry])))
}

/// A quantum before a request that would not fit its chunk.
fn padding(words: &[u64], polarity: bool) -> Outcome {
    let header = words[3];
    Outcome::all([
        Outcome::same("padding is valid", is_valid(header, polarity), true),
        Outcome::same("length of padding", send_quanta(header), Ok(1)),
        Expected {
            opcode: 0x0c,
            signaled: false,
            local_fence: false,
            read_fence: false,
            report_rtt: false,
            lints: Lints::empty(),
            what: What::Plain(Operation::Nop),
        }
        .compare(&SendWqe::decode(words, polarity, Service::Connected).unwrap()),
    ])
}

#[test]
fn sq_wqes() {
    report::device("sq_wqes.json", |file| {
        file.each("cases", |case| {
            if is_iwarp(&case["qp"]) {
                return Some(Outcome::Skipped(Feature::Iwarp));
            }
            post(&case["qp"], case)
        });
    });
}

#[test]
fn sq_sequences() {
    report::device("sq_sequences.json", |file| {
        file.each("cases", |case| {
            if is_iwarp(&case["qp"]) {
                return Some(Outcome::Skipped(Feature::Iwarp));
            }
            let steps = case["steps"].as_array().unwrap().iter().enumerate();
            let posts: Vec<Outcome> = steps
                .filter(|(_, step)| step["wqe_hex"].is_string())
                .filter_map(|(n, step)| {
                    Some(match post(&case["qp"], step)? {
                        Outcome::Failed(why) => Outcome::Failed(format!("step {n}: {why}")),
                        outcome => outcome,
                    })
                })
                .collect();
            (!posts.is_empty()).then(|| Outcome::all(posts))
        });
    });
}
