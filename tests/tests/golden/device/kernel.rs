//! Entries of `kernel_sq_wqes.json`, read by the simulated device.

use e810_sim::wqe::{Fragment, Lints, Operation, ReceiveWqe, SendWqe, Service, UdTarget, is_valid};
use serde_json::Value;

use super::send::{Bytes, Expected, What};
use super::{same_fragments, words};
use crate::feature::Feature;
use crate::report::{self, Outcome, number};
use crate::sq::input::{flag, small};

fn fast_register(input: &Value) -> Expected {
    let va_based = flag(input, "addr_type");
    Expected {
        opcode: 0x09,
        signaled: flag(input, "signaled"),
        local_fence: flag(input, "local_fence"),
        read_fence: flag(input, "read_fence"),
        report_rtt: false,
        lints: Lints::empty(),
        what: What::Plain(Operation::FastRegister {
            addr: number(input, if va_based { "va" } else { "fbo" }),
            len: number(input, "total_len"),
            stag_index: small(input, "stag_idx"),
            stag_key: small(input, "stag_key"),
            rights: small(input, "access_rights"),
            va_based,
            pbl_level: small(input, "chunk_size"),
            page_size: match number(input, "page_size") {
                0x1000 => 0,
                0x20_0000 => 1,
                _ => 2,
            },
            page: number(input, "reg_addr_pa"),
            pble: small(input, "first_pm_pbl_index"),
        }),
    }
}

fn ud_send(input: &Value) -> Expected {
    let sge = input["sge"].as_array().unwrap();
    let part = |n: usize| sge[n].as_u64().unwrap();
    Expected {
        opcode: 0x03,
        signaled: true,
        local_fence: false,
        read_fence: false,
        report_rtt: false,
        lints: Lints::empty(),
        what: What::Send {
            bytes: Bytes::Memory(vec![Fragment {
                addr: part(0),
                len: part(1) as u32,
                stag: part(2) as u32,
            }]),
            immediate: None,
            invalidate: None,
            solicited: false,
            ud: UdTarget {
                qpn: small(input, "dest_qp"),
                qkey: small(input, "qkey"),
                ah: small(input, "ah_id"),
            },
        },
    }
}

/// A receive of a datagram queue: one buffer, no key.
fn puda_receive(words: &[u64], input: &Value, lap: u64) -> Outcome {
    let polarity = lap.is_multiple_of(2);
    let expected = Fragment {
        addr: number(input, "paddr"),
        len: small(input, "len"),
        stag: 0,
    };
    match ReceiveWqe::decode(words, polarity) {
        Err(error) => Outcome::Failed(error.to_string()),
        Ok(got) => Outcome::all([
            Outcome::same("valid", is_valid(words[3], polarity), true),
            same_fragments(&got.fragments, &[expected]),
            Outcome::same("lints", got.lints, Lints::empty()),
        ]),
    }
}

#[test]
fn kernel_sq_wqes() {
    report::device("kernel_sq_wqes.json", |file| {
        file.each("cases", |case| {
            let input = &case["in"];
            let send =
                |service, expected: Expected| match SendWqe::decode(&words(case), true, service) {
                    Err(error) => Outcome::Failed(error.to_string()),
                    Ok(got) => expected.compare(&got),
                };
            Some(match case["op"].as_str().unwrap() {
                "fast_register" => send(Service::Connected, fast_register(input)),
                "send" => send(Service::Datagram, ud_send(input)),
                "puda_post_recv" => {
                    let lap = case.name.strip_prefix("puda_recv_lap").unwrap();
                    puda_receive(&words(case), input, lap.parse().unwrap())
                }
                "puda_send" => Outcome::Skipped(Feature::RawDatagrams),
                "iwarp_connection_wqes" => Outcome::Skipped(Feature::Iwarp),
                other => panic!("unknown operation {other}"),
            })
        });
    });
}
