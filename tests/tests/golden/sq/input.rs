//! The queues and requests that a vector describes.

use e810_datapath::sizing::RqSize;
use e810_datapath::wr::MwBind;
use e810_datapath::{
    Data, ExtraOps, Op, QpState, QpType, Refused, Remote, SendFlags, SendLimits, SendWr, Sge,
    UdTarget,
};
use e810_tests::plain::{Queues, Spec};
use serde_json::Value;

use crate::hex;
use crate::report::number;

pub fn small<T: TryFrom<u64>>(value: &Value, key: &str) -> T {
    T::try_from(number(value, key)).unwrap_or_else(|_| panic!("{key} is too large"))
}

pub fn flag(value: &Value, key: &str) -> bool {
    value[key].as_u64().unwrap_or(0) != 0
}

pub fn is_iwarp(qp: &Value) -> bool {
    qp["qp_type"] == "iwarp_rc"
}

/// The queues that a vector describes, everything allowed, ready to send.
pub fn spec(qp: &Value) -> Spec {
    let slots: u32 = small(qp, "rq_wr_slots");
    Spec {
        qp_id: small(qp, "qp_id"),
        sq_quanta: small(qp, "sq_ring_quanta"),
        rq: RqSize {
            slots,
            shift: small(qp, "rq_shift"),
            max_wr: slots - 1,
        },
        cq_entries: 64,
        limits: SendLimits {
            qp_type: if qp["qp_type"] == "roce_ud" {
                QpType::Ud
            } else {
                QpType::Rc
            },
            max_sge: small(qp, "max_send_sge"),
            max_inline: small(qp, "max_inline"),
            address_handles: 1 << 25,
            signal_all: flag(qp, "sq_sig_all"),
            local_fence: false,
            read_fence_rate: 0,
            extra: ExtraOps::all(),
        },
        max_recv_sge: small(qp, "max_recv_sge"),
        state: QpState::Rts,
    }
}

pub fn sges(list: &Value) -> Vec<Sge> {
    let list = list.as_array().map_or(&[][..], Vec::as_slice);
    list.iter()
        .map(|sge| Sge {
            addr: number(sge, "addr"),
            length: small(sge, "length"),
            lkey: small(sge, "lkey"),
        })
        .collect()
}

pub fn inline_pieces(list: &Value) -> Vec<Vec<u8>> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|text| hex::bytes(text.as_str().unwrap()))
        .collect()
}

/// Posts one recorded request.
pub fn post(queues: &mut Queues, op: &str, input: &Value) -> Result<(), Refused> {
    let count = input["num_sge"].as_u64().unwrap_or(0) as usize;
    let list: Vec<Sge> = sges(&input["sg_list"]).into_iter().take(count).collect();
    let owned = if input["inline_data"].is_array() {
        inline_pieces(&input["inline_data"])
    } else {
        Vec::new()
    };
    let pieces: Vec<&[u8]> = owned.iter().map(Vec::as_slice).collect();
    let data = if op.starts_with("inline") {
        Data::Inline(&pieces)
    } else {
        Data::Sges(&list)
    };
    let imm = input["imm"].as_u64().map(|imm| u32::try_from(imm).unwrap());
    let op_type = number(input, "op_type");
    let remote = || Remote {
        addr: number(input, "remote_addr"),
        rkey: small(input, "rkey"),
    };
    let bind;
    let request = match op {
        "send" | "inline_send" => {
            let to = UdTarget {
                ah: small(input, "ah_id"),
                qpn: small(input, "dest_qp"),
                qkey: small(input, "qkey"),
            };
            let datagram = to
                != UdTarget {
                    ah: 0,
                    qpn: 0,
                    qkey: 0,
                };
            match op_type {
                4 | 6 => Op::SendInv {
                    data,
                    rkey: small(input, "stag_to_inv"),
                },
                _ if datagram => Op::UdSend { data, imm, to },
                _ => Op::Send { data, imm },
            }
        }
        "rdma_write" | "inline_rdma_write" => Op::Write {
            data,
            remote: remote(),
            imm,
        },
        "rdma_read" if flag(input, "inv_stag") => Op::ReadInv {
            into: &list,
            remote: remote(),
        },
        "rdma_read" => Op::Read {
            into: &list,
            remote: remote(),
        },
        "local_inv" => Op::LocalInv {
            stag: small(input, "target_stag"),
        },
        "bind_mw" => {
            bind = MwBind {
                mw_stag: small(input, "mw_stag"),
                mr_stag: small(input, "mr_stag"),
                addr: number(input, "va"),
                length: number(input, "bind_len"),
                zero_based: input["addr_type"] != "va",
                type_1: flag(input, "mw_type_1"),
                remote_read: flag(input, "ena_reads"),
                remote_write: flag(input, "ena_writes"),
            };
            Op::BindMw(&bind)
        }
        "nop" => Op::Nop,
        other => panic!("unknown operation {other}"),
    };
    let mut flags = SendFlags::empty();
    flags.set(SendFlags::SIGNALED, flag(input, "signaled"));
    flags.set(SendFlags::FENCE, flag(input, "read_fence"));
    flags.set(SendFlags::LOCAL_FENCE, flag(input, "local_fence"));
    flags.set(SendFlags::REPORT_RTT, flag(input, "report_rtt"));
    flags.set(SendFlags::SOLICITED, matches!(op_type, 5 | 6 | 13));
    queues.send.post_send(&[SendWr {
        wr_id: number(input, "wr_id"),
        op: request,
        flags,
    }])
}
