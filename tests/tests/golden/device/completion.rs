//! Completions of `cq_poll.json`, written by the simulated device: what the
//! recorded software read from an entry, encoded again, must give the entry.
//!
//! `kernel_cq_poll.json` and the batches of `cq_poll.json` hold no decode of
//! single entries, so they say nothing here.

use e810_sim::wqe::{Cqe, Datagram};
use serde_json::Value;

use crate::feature::Feature;
use crate::hex;
use crate::report::{self, Case, Outcome, number};
use crate::sq::input::{flag, small};

/// Bytes of a ring entry.
const ENTRY: usize = 32;

/// What the decode of a case leaves open: bits of the entry that the recorder
/// made up and its software did not look at, or not report.
struct Open {
    /// Of the entry's four words.
    main: [u64; 4],
    /// Of the extension's.
    extension: [u64; 4],
}

/// WQEIDX, header bits 46:32.
const WQE_INDEX: u64 = 0x7FFF << 32;

/// Only the request that a good completion is for tells its index: errors and
/// flushes are given to the oldest request, whatever the entry says.
fn open(info: &Value) -> Open {
    let mut open = Open {
        main: [0; 4],
        extension: [0; 4],
    };
    if flag(info, "error") {
        open.main[3] |= WQE_INDEX;
    }
    // The immediate is 32 bits wide; what stands above it, and the words for a
    // datagram's source when there is none, are the recorder's.
    open.extension[0] |= 0xFFFF_FFFF << 32;
    open.extension[1] = u64::MAX;
    if info["ud_smac"].is_null() && info["ud_vlan"].is_null() {
        open.extension[2] = u64::MAX;
    }
    open
}

fn mac(text: &str) -> [u8; 6] {
    hex::bytes(text).try_into().unwrap()
}

/// The queue pair of the case that `info` names.
fn pair<'a>(case: &'a Case<'_>, info: &Value) -> &'a Value {
    let qps = case["qps"].as_array().unwrap();
    qps.iter().find(|qp| qp["name"] == info["qp"]).unwrap()
}

/// WQE index of the request that was completed.
fn wqe_index(qp: &Value, posted: &str, info: &Value) -> u16 {
    let posted = qp[posted].as_array().unwrap();
    let request = posted
        .iter()
        .find(|request| request["wr_id"] == info["wr_id"]);
    request.map_or(0, |request| small(request, "wqe_index"))
}

/// The completion that the recorded software saw.
fn completion(case: &Case<'_>, info: &Value) -> Cqe {
    let qp = pair(case, info);
    let send_queue = info["q_type"] == "SQ";
    let datagram = qp["qp"]["qp_type"] == "roce_ud" && !send_queue;
    Cqe {
        // A send's length is software's own record.
        payload_len: if send_queue { 0 } else { small(info, "bytes") },
        psn: small(info, "psn_or_raw"),
        context: number(qp, "ctx"),
        qp_id: small(info, "qp_id"),
        invalidated: info["inv_stag"].as_u64().map(|stag| stag as u32),
        datagram: datagram.then(|| Datagram {
            src_qp: small(info, "ud_src_qpn"),
            ipv4: flag(info, "ipv4"),
            src_mac: info["ud_smac"].as_str().map(mac),
            vlan: info["ud_vlan"].as_u64().map(|tag| tag as u16),
        }),
        minor: small(info, "minor"),
        major: small(info, "major"),
        error: flag(info, "error"),
        wqe_index: wqe_index(qp, if send_queue { "sq_posted" } else { "rq_posted" }, info),
        push_dropped: flag(info, "push_dropped"),
        solicited: flag(info, "solicited"),
        op: small(info, "op_type"),
        send_queue,
        immediate: info["imm"].as_u64().map(|imm| imm as u32),
    }
}

fn same(what: &str, got: [u64; 4], recorded: &[u64], open: [u64; 4]) -> Outcome {
    let judged = |words: &[u64]| -> Vec<String> {
        let words = words.iter().zip(open);
        words
            .map(|(word, open)| format!("{:016x}", word & !open))
            .collect()
    };
    Outcome::same(what, judged(&got), judged(recorded))
}

/// Each entry that was read, once.
fn entries(case: &Case<'_>) -> Option<Outcome> {
    let ring = hex::words(case["cq_ring_hex"].as_str().unwrap());
    let size: usize = small(&case["cq"], "size");
    let (mut head, mut polarity): (usize, bool) =
        (small(&case["cq"], "head"), flag(&case["cq"], "polarity"));
    let (mut last, mut outcomes) = (None, Vec::new());
    for poll in case["polls"].as_array().unwrap() {
        let info = &poll["info"];
        // Flushes are made by software after the first: the head stays.
        if poll["ret"] == "ok" && last != Some(head) {
            last = Some(head);
            let cqe = completion(case, info);
            let wraps = head + 1 == size;
            let got = cqe.encode(polarity, polarity != wraps);
            let open = open(info);
            let recorded = |n: usize| &ring[n % size * 4..][..4];
            outcomes.push(same("entry", got.main, recorded(head), open.main));
            if let Some(extension) = got.extension {
                let next = recorded(head + 1);
                outcomes.push(same("extension", extension, next, open.extension));
            }
        }
        head = small(poll, "cq_head");
        polarity = flag(poll, "cq_polarity");
    }
    (!outcomes.is_empty()).then(|| Outcome::all(outcomes))
}

#[test]
fn cq_poll() {
    assert_eq!(ENTRY, 4 * size_of::<u64>());
    report::device("cq_poll.json", |file| {
        file.each("cases", |case| {
            if case.name.starts_with("iwarp_") {
                return Some(Outcome::Skipped(Feature::Iwarp));
            }
            if case["cq"]["entry_bytes"] != ENTRY {
                return Some(Outcome::Skipped(Feature::WideCompletions));
            }
            // Memory that changes between polls is not in the file.
            if ["polarity_wrap_small_ring", "ext_cqe_not_yet_valid"].contains(&case.name.as_str()) {
                return None;
            }
            entries(case)
        });
    });
}
