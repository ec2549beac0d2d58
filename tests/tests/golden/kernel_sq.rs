//! Golden vectors of the send queue as the kernel driver fills it.

use std::sync::atomic::AtomicU64;

use e810_datapath::sizing::RqSize;
use e810_datapath::wr::{FastRegister, FastRegisterParts, PageSize};
use e810_datapath::{Data, ExtraOps, Op, QpType, SendFlags, SendLimits, SendWr, Sge, UdTarget, Wc};
use e810_tests::plain::{Queues, Spec};
use serde_json::Value;

use crate::feature::Feature;
use crate::hex;
use crate::report::{self, Outcome, number};
use crate::sq::input::{flag, small};
use crate::sq::{WQEALLOC, bytes_of, snapshot};

fn kernel_spec(qp_type: QpType) -> Spec {
    Spec {
        limits: SendLimits {
            qp_type,
            max_sge: 13,
            max_inline: 0,
            address_handles: 1 << 25,
            signal_all: false,
            local_fence: false,
            read_fence_rate: 0,
            extra: ExtraOps::all(),
        },
        qp_id: if qp_type == QpType::Rc { 18 } else { 1 },
        ..Spec::default()
    }
}

fn first_quantum(ring: &[AtomicU64]) -> Vec<u8> {
    bytes_of(&snapshot(&ring[..4]))
}

fn fast_register(input: &Value) -> Vec<u8> {
    let mut queues = Queues::<true>::new(&kernel_spec(QpType::Rc));
    let zero_based = !flag(input, "addr_type");
    let reg = FastRegister::from_parts(FastRegisterParts {
        stag_index: small(input, "stag_idx"),
        stag_key: small(input, "stag_key"),
        start: number(input, if zero_based { "fbo" } else { "va" }),
        zero_based,
        length: number(input, "total_len"),
        pages: number(input, "reg_addr_pa"),
        listed: flag(input, "chunk_size"),
        first_pble: small(input, "first_pm_pbl_index"),
        page_size: match number(input, "page_size") {
            0x1000 => PageSize::Size4K,
            0x20_0000 => PageSize::Size2M,
            0x4000_0000 => PageSize::Size1G,
            other => panic!("page size {other}"),
        },
        rights: small(input, "access_rights"),
    });
    let mut flags = SendFlags::empty();
    flags.set(SendFlags::SIGNALED, flag(input, "signaled"));
    flags.set(SendFlags::FENCE, flag(input, "read_fence"));
    flags.set(SendFlags::LOCAL_FENCE, flag(input, "local_fence"));
    let wr = SendWr {
        wr_id: number(input, "wr_id"),
        op: Op::FastRegister(&reg),
        flags,
    };
    queues.send.post_send(&[wr]).unwrap();
    assert_eq!(queues.platform.doorbells(), [(WQEALLOC, 18)]);
    first_quantum(queues.sq_ring)
}

/// A receive of lap `lap` at index 0.
fn receive(input: &Value, lap: u64) -> Vec<u8> {
    let spec = Spec {
        rq: RqSize {
            slots: 8,
            shift: 0,
            max_wr: 7,
        },
        ..kernel_spec(QpType::Ud)
    };
    let mut queues = Queues::<true>::new(&spec);
    let sges = [Sge {
        addr: number(input, "paddr"),
        length: small(input, "len"),
        lkey: 0,
    }];
    for n in 0..=lap * 8 {
        let wr = e810_datapath::RecvWr {
            wr_id: n,
            sges: &sges,
        };
        queues.recv.post_recv(&[wr]).unwrap();
        if n < lap * 8 {
            queues.complete_recv(n % 8);
            assert_eq!(queues.cq.poll(&mut [Wc::default()]), 1);
        }
    }
    first_quantum(queues.rq_ring)
}

fn ud_send(input: &Value) -> Vec<u8> {
    let mut queues = Queues::<true>::new(&kernel_spec(QpType::Ud));
    let sge: Vec<u64> = input["sge"]
        .as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_u64().unwrap())
        .collect();
    let sges = [Sge {
        addr: sge[0],
        length: u32::try_from(sge[1]).unwrap(),
        lkey: u32::try_from(sge[2]).unwrap(),
    }];
    let wr = SendWr {
        wr_id: 0,
        op: Op::UdSend {
            data: Data::Sges(&sges),
            imm: None,
            to: UdTarget {
                ah: small(input, "ah_id"),
                qpn: small(input, "dest_qp"),
                qkey: small(input, "qkey"),
            },
        },
        flags: SendFlags::SIGNALED,
    };
    // Bit 31 stands for the QP's own, which is not recorded.
    let qkey = small(input, "qkey");
    queues.registry.set_qkey(queues.qp, qkey).unwrap();
    queues.send.post_send(&[wr]).unwrap();
    first_quantum(queues.sq_ring)
}

#[test]
fn kernel_sq_wqes() {
    report::file("kernel_sq_wqes.json", |file| {
        file.each("cases", |case| {
            let input = &case["in"];
            let got = match case["op"].as_str().unwrap() {
                "fast_register" => fast_register(input),
                "puda_post_recv" => {
                    let lap = case.name.strip_prefix("puda_recv_lap").unwrap();
                    receive(input, lap.parse().unwrap())
                }
                "send" => ud_send(input),
                "puda_send" => return Some(Outcome::Skipped(Feature::RawDatagrams)),
                "iwarp_connection_wqes" => return Some(Outcome::Skipped(Feature::Iwarp)),
                other => panic!("unknown operation {other}"),
            };
            let expected = hex::bytes(case["wqe_hex"].as_str().unwrap());
            Some(match hex::difference(&got, &expected, None) {
                None => Outcome::Passed,
                Some(difference) => Outcome::Failed(difference),
            })
        });
    });
}
