//! Golden vectors of whole lists, as verbs post them.

use e810_datapath::wr::MwBind;
use e810_datapath::{
    Data, Op, PostError, QpState, RecvWr, Remote, SendFlags, SendWr, Sge, UdTarget,
};
use e810_hal::DmaWord;
use e810_tests::plain::{Queues, Spec};
use serde_json::Value;

use crate::feature::Feature;
use crate::hex;
use crate::report::{self, Case, Outcome, Rule, number};
use crate::sq::bytes_of;
use crate::sq::input::{inline_pieces, sges, spec};

fn small<T: TryFrom<u64>>(value: &Value, key: &str) -> T {
    T::try_from(number(value, key)).unwrap_or_else(|_| panic!("{key} is too large"))
}

/// What a request borrows.
struct Owned {
    sges: Vec<Sge>,
    pieces: Vec<Vec<u8>>,
    bind: Option<MwBind>,
}

fn own(wr: &Value) -> Owned {
    let bind = wr["bind_mw"].is_object().then(|| {
        let bind = &wr["bind_mw"];
        let access = number(bind, "mw_access_flags");
        let (window, key): (u32, u32) = (small(bind, "mw_rkey"), small(bind, "wr_rkey"));
        MwBind {
            // Type 2: the consumer chooses the key part of the STag.
            mw_stag: window & !0xFF | key & 0xFF,
            mr_stag: small(bind, "mr_rkey"),
            addr: number(bind, "addr"),
            length: number(bind, "length"),
            zero_based: access & 0x20 != 0,
            type_1: number(bind, "mw_type") == 1,
            remote_read: access & 4 != 0,
            remote_write: access & 2 != 0,
        }
    });
    Owned {
        sges: sges(&wr["sg_list"]),
        pieces: if wr["inline_data"].is_array() {
            inline_pieces(&wr["inline_data"])
        } else {
            Vec::new()
        },
        bind,
    }
}

/// The request, or the feature that it needs.
fn request<'a>(wr: &Value, data: Data<'a>, owned: &'a Owned) -> Result<SendWr<'a>, Feature> {
    let verbs_flags = number(wr, "send_flags");
    let mut flags = SendFlags::empty();
    flags.set(SendFlags::FENCE, verbs_flags & 1 != 0);
    flags.set(SendFlags::SIGNALED, verbs_flags & 2 != 0);
    flags.set(SendFlags::SOLICITED, verbs_flags & 4 != 0);
    let imm = wr["imm"].as_u64().map(|imm| u32::try_from(imm).unwrap());
    let remote = || Remote {
        addr: number(wr, "remote_addr"),
        rkey: small(wr, "rkey"),
    };
    let to = wr["ud"].is_object().then(|| UdTarget {
        ah: small(&wr["ud"], "ah_id"),
        qpn: small(&wr["ud"], "remote_qpn"),
        qkey: small(&wr["ud"], "remote_qkey"),
    });
    let op = match (wr["opcode_name"].as_str().unwrap(), to) {
        ("SEND" | "SEND_WITH_IMM", Some(to)) => Op::UdSend { data, imm, to },
        ("SEND" | "SEND_WITH_IMM", None) => Op::Send { data, imm },
        ("SEND_WITH_INV", _) => Op::SendInv {
            data,
            rkey: small(wr, "invalidate_rkey"),
        },
        ("RDMA_WRITE" | "RDMA_WRITE_WITH_IMM", _) => Op::Write {
            data,
            remote: remote(),
            imm,
        },
        ("RDMA_READ", _) => Op::Read {
            into: &owned.sges,
            remote: remote(),
        },
        ("LOCAL_INV", _) => Op::LocalInv {
            stag: small(wr, "invalidate_rkey"),
        },
        ("BIND_MW", _) => Op::BindMw(owned.bind.as_ref().unwrap()),
        ("ATOMIC_CMP_AND_SWP" | "ATOMIC_FETCH_AND_ADD", _) => return Err(Feature::Atomics),
        ("TSO" | "DRIVER1", _) => return Err(Feature::OtherRequests),
        (other, _) => panic!("unknown operation {other}"),
    };
    Ok(SendWr {
        wr_id: number(wr, "wr_id"),
        op,
        flags,
    })
}

fn state(case: &Value) -> QpState {
    QpState::ALL[number(case, "ib_state") as usize]
}

/// What we refuse and the recorded library does not.
fn refusal(error: PostError) -> Outcome {
    let why = match error {
        PostError::WrongState { .. } => "RESET takes no requests",
        PostError::WrongOp { .. } => "a datagram queue only sends",
        error => return Outcome::Failed(error.to_string()),
    };
    Outcome::Deviates(Rule::RefusesBadInput, why)
}

fn sends(case: &Case<'_>) -> Outcome {
    let spec = Spec {
        state: state(case),
        ..spec(&case["qp"])
    };
    let mut queues = Queues::<true>::new(&spec);
    let wrs = case["wrs"].as_array().unwrap();
    let owned: Vec<Owned> = wrs.iter().map(own).collect();
    let pieces: Vec<Vec<&[u8]>> = owned
        .iter()
        .map(|owned| owned.pieces.iter().map(Vec::as_slice).collect())
        .collect();
    let list: Result<Vec<SendWr<'_>>, Feature> = wrs
        .iter()
        .zip(owned.iter().zip(&pieces))
        .map(|(wr, (owned, pieces))| {
            let data = if number(wr, "send_flags") & 8 != 0 {
                Data::Inline(pieces)
            } else {
                Data::Sges(&owned.sges)
            };
            request(wr, data, owned)
        })
        .collect();
    let list = match list {
        Ok(list) => list,
        Err(feature) => {
            assert_eq!(case["ret"], "EINVAL", "the recorder refuses it too");
            return Outcome::Skipped(feature);
        }
    };
    // A Q_Key with bit 31 set stands for the QP's own, which is not recorded: the
    // one that would give what was.
    let keys = wrs.iter().filter(|wr| wr["ud"].is_object());
    for key in keys.map(|wr| small(&wr["ud"], "remote_qkey")) {
        queues.registry.set_qkey(queues.qp, key).unwrap();
    }
    let answer = queues.send.post_send(&list);
    let doorbells = queues.platform.doorbells();
    match answer {
        Err(refused) if case["ret"] == "ok" => return refusal(refused.error),
        Ok(()) if case["ret"] != "ok" => {
            return Outcome::Failed("accepted, should be refused".to_owned());
        }
        _ => {}
    }
    if list.is_empty() {
        assert_eq!(doorbells, []);
        return Outcome::Deviates(Rule::RefusesBadInput, "an empty list rings no doorbell");
    }
    let bad = answer.err().map_or(-1, |refused| refused.posted as i64);
    let expected = hex::bytes(case["sq_hex"].as_str().unwrap());
    let words: Vec<u64> = queues.sq_ring.iter().map(DmaWord::get).collect();
    let got = bytes_of(&words);
    let (posted, rest) = got.split_at(expected.len());
    // Clearing ahead of a fresh ring writes zeros.
    let clean = rest.iter().all(|byte| *byte == 0);
    let rung = !expected.is_empty();
    let expected_doorbells = vec![(0x50_4400, queues.qp.id()); usize::from(rung)];
    Outcome::all([
        Outcome::same("bad_wr", Some(bad), case["bad_wr"].as_i64()),
        match hex::difference(posted, &expected, None) {
            None => Outcome::Passed,
            Some(difference) => Outcome::Failed(difference),
        },
        Outcome::same("nothing after it", clean, true),
        Outcome::same("doorbells", doorbells, expected_doorbells),
    ])
}

fn receives(case: &Case<'_>, counts: &[Value]) -> Outcome {
    let spec = Spec {
        state: state(case),
        max_recv_sge: 3,
        rq: e810_datapath::sizing::RqSize::new(63, 3).unwrap(),
        ..Spec::default()
    };
    let mut queues = Queues::<true>::new(&spec);
    // One more than the recorded queue takes.
    let sges = [Sge {
        addr: 0x1000,
        length: 64,
        lkey: 1,
    }; 4];
    let list: Vec<RecvWr<'_>> = counts
        .iter()
        .map(|count| RecvWr {
            wr_id: 0,
            sges: &sges[..count.as_u64().unwrap() as usize],
        })
        .collect();
    let answer = queues.recv.post_recv(&list);
    match answer {
        Err(refused) if case["ret"] == "ok" => return refusal(refused.error),
        Ok(()) if case["ret"] != "ok" => {
            return Outcome::Failed("accepted, should be refused".to_owned());
        }
        _ => {}
    }
    let bad = answer.err().map_or(-1, |refused| refused.posted as i64);
    let used = spec.rq.max_wr - queues.recv.free_slots();
    Outcome::all([
        Outcome::same("bad_wr", Some(bad), case["bad_wr"].as_i64()),
        Outcome::same("head", u64::from(used), case.u64("rq_head_after")),
        Outcome::same("doorbells", queues.platform.doorbells(), vec![]),
    ])
}

#[test]
fn verbs_post() {
    report::file("verbs_post.json", |file| {
        file.each("cases", |case| {
            if case["qp_type"] == "iw" {
                return Some(Outcome::Skipped(Feature::Iwarp));
            }
            Some(match case["recv_sges"].as_array() {
                Some(counts) => receives(case, counts),
                None => sends(case),
            })
        });
    });
}
