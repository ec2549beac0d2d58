//! Golden vectors of the QP context, and of the encoded sizes.

use std::net::{Ipv4Addr, Ipv6Addr};

use e810_cqp::op::{IpPair, QueueMemory};
use e810_cqp::qpc::{
    CongestionControl, Peer, Privileges, RoceContext, RqContext, SqContext, StatsInstance, Timely,
    UdaContext, cqp_size_code, ird_code, queue_size_code,
};
use e810_hal::Iova;
use e810_types::MacAddr;
use serde_json::Value;

use crate::feature::Feature;
use crate::hex;
use crate::report::{self, Case, Outcome, number};

/// The number `value[key]`, 0 when it is not there ("fields not listed are zero").
pub fn or_zero(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

pub fn flag(value: &Value, key: &str) -> bool {
    or_zero(value, key) != 0
}

/// The number in a narrower type; a vector that does not fit is a broken vector.
pub fn narrow<T: TryFrom<u64>>(value: u64) -> T {
    T::try_from(value).unwrap_or_else(|_| panic!("{value:#x} does not fit its Rust type"))
}

pub fn mac(text: &Value) -> MacAddr {
    let text = text.as_str().unwrap_or("00:00:00:00:00:00");
    let octets: Vec<u8> = text
        .split(':')
        .map(|octet| u8::from_str_radix(octet, 16).unwrap())
        .collect();
    MacAddr(octets.try_into().unwrap())
}

/// Four numbers, A0 first.
pub fn numbers(value: &Value) -> [u32; 4] {
    let numbers: Vec<u32> = value
        .as_array()
        .unwrap()
        .iter()
        .map(|number| narrow(number.as_u64().unwrap()))
        .collect();
    numbers.try_into().unwrap()
}

pub fn v6(address: [u32; 4]) -> Ipv6Addr {
    let bits = address
        .iter()
        .fold(0u128, |bits, part| bits << 32 | u128::from(*part));
    Ipv6Addr::from(bits)
}

/// In a QP context the IPv4 address is the last of the four numbers.
fn addresses(input: &Value) -> IpPair {
    let source = numbers(&input["local_ipaddr"]);
    let destination = numbers(&input["dest_ip_addr"]);
    if flag(input, "ipv4") {
        IpPair::V4 {
            source: Ipv4Addr::from(source[3]),
            destination: Ipv4Addr::from(destination[3]),
        }
    } else {
        IpPair::V6 {
            source: v6(source),
            destination: v6(destination),
        }
    }
}

/// A ring size in quanta from its code; the contexts are given by code.
fn quanta(code: u64) -> u32 {
    4 << code
}

/// The context holds an address or a PBLE index in the same word; indexes in
/// these vectors are small and odd, addresses are neither.
fn queue_memory(word: u64) -> QueueMemory {
    if word % 2 == 1 {
        QueueMemory::Pbles(narrow(word))
    } else {
        QueueMemory::Contiguous(Iova(word))
    }
}

fn sides(case: &Case<'_>) -> (SqContext, RqContext) {
    let (qp, input) = (&case["qp"], &case["in"]);
    let memory = |key| queue_memory(number(qp, key));
    let one_cq = || narrow(number(input, "cq_id"));
    let cq = |key| input[key].as_u64().map_or_else(one_cq, narrow);
    (
        SqContext {
            memory: memory("sq_pa"),
            quanta: quanta(number(qp, "hw_sq_size")),
            cq: cq("send_cq_num"),
        },
        RqContext {
            memory: memory("rq_pa"),
            quanta: quanta(number(qp, "hw_rq_size")),
            wqe_shift: narrow(number(qp, "rq_wqe_shift")),
            cq: cq("rcv_cq_num"),
        },
    )
}

fn stats(input: &Value) -> StatsInstance {
    StatsInstance {
        index: narrow(number(input, "stats_idx")),
        used: flag(input, "stats_idx_valid"),
    }
}

fn roce(case: &Case<'_>) -> RoceContext {
    let (qp, input) = (&case["qp"], &case["in"]);
    let (sq, rq) = sides(case);
    let get = |key| number(input, key);
    RoceContext {
        sq,
        rq,
        completion_context: get("qp_compl_ctx"),
        pd: narrow(get("pd_id")),
        peer: Peer {
            addresses: addresses(input),
            source_port: narrow(get("src_port")),
            destination_port: narrow(get("dst_port")),
            hop_limit: narrow(get("ttl")),
            traffic_class: narrow(get("tos")),
            flow_label: narrow(get("flow_label")),
            vlan: flag(input, "insert_vlan_tag").then(|| narrow(get("vlan_tag"))),
            arp_index: narrow(get("arp_idx")),
            endpoint_index: narrow(get("rem_endpoint_idx")),
            qp: narrow(get("dest_qp")),
        },
        mac: mac(&input["mac_addr"]),
        qs_handle: narrow(number(qp, "qs_handle")),
        path_mtu: narrow(get("snd_mss")),
        pkey: narrow(get("p_key")),
        qkey: narrow(get("qkey")),
        psn_next: narrow(get("psn_nxt")),
        psn_unacked: narrow(get("psn_una")),
        psn_max: narrow(get("psn_max")),
        lsn: narrow(get("lsn")),
        psn_expected: narrow(get("epsn")),
        window: narrow(get("cwnd")),
        ack_credits: narrow(get("ack_credits")),
        retries: narrow(get("rexmit_thresh")),
        rnr_retries: narrow(get("rnr_nak_thresh")),
        rto_min: narrow(get("rtomin")),
        ord: narrow(get("ord_size")),
        ird: narrow(get("ird_size")),
        gsi: flag(input, "is_qp1"),
        privileges: Privileges {
            privileged: flag(input, "priv_mode_en"),
            fast_register: flag(input, "fast_reg_en"),
            ud_private_cq: flag(input, "udprivcq_en"),
            bind: flag(input, "bind_en"),
            remote_write: flag(input, "wr_rdresp_en"),
            remote_read: flag(input, "rd_en"),
        },
        congestion: CongestionControl {
            dcqcn: flag(input, "dcqcn_en"),
            dctcp: flag(input, "dctcp_en"),
            firmware: flag(input, "fw_cc_enable"),
            timely: flag(input, "timely_en").then(|| Timely {
                high: narrow(get("t_high")),
                low: narrow(get("t_low")),
            }),
        },
        stats: stats(input),
        ignore_icrc: flag(input, "rcv_no_icrc"),
        error_rq_index: flag(input, "err_rq_idx_valid").then(|| narrow(get("err_rq_idx"))),
        push_page: match number(qp, "push_idx") {
            0xFFFF_FFFF => None,
            page => Some(narrow(page)),
        },
    }
}

/// A UDA context; its qword 21, a pointer of the recorder, is zeroed.
fn uda(case: &Case<'_>) -> UdaContext {
    let (qp, input) = (&case["qp"], &case["in"]);
    let (sq, rq) = sides(case);
    UdaContext {
        sq,
        rq,
        completion_context: 0,
        buffer_bytes: narrow(number(input, "buf_size")),
        qs_handle: narrow(number(qp, "qs_handle")),
        stats: stats(input),
    }
}

#[test]
fn contexts() {
    report::file("qp_contexts.json", |file| {
        file.each("cases", |case| {
            let words = match number(&case["qp"], "qp_type") {
                1 => {
                    return Some(Outcome::Skipped(Feature::Iwarp));
                }
                2 => uda(case).encode(),
                _ => roce(case).encode(),
            };
            let words = words.unwrap_or_else(|error| panic!("refused: {error}"));
            let got: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let expected = hex::bytes(case["ctx_hex"].as_str().unwrap());
            Some(match hex::difference(&got, &expected, None) {
                None => Outcome::Passed,
                Some(text) => Outcome::Failed(text),
            })
        });
    });
}

#[test]
fn encodings() {
    report::file("encodings.json", |file| {
        file.each("cases", |case| {
            let encoded = case.u64("encoded");
            Some(match case["kind"].as_str() {
                Some("wq_size") => {
                    let quanta: u32 = narrow(case.u64("quanta"));
                    Outcome::all([
                        Outcome::same(
                            "encoded",
                            queue_size_code(quanta).map(u64::from),
                            Ok(encoded),
                        ),
                        Outcome::same(
                            "encoded_cqp",
                            cqp_size_code(quanta).map(u64::from),
                            Ok(case.u64("encoded_cqp")),
                        ),
                    ])
                }
                Some("ird") => {
                    let got = u64::from(ird_code(narrow(case.u64("ird"))));
                    Outcome::same("encoded", got, encoded)
                }
                other => panic!("unknown kind {other:?}"),
            })
        });
    });
}
