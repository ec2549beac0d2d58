//! Golden vectors of the completion queue: polling.

use std::sync::atomic::AtomicU64;

use e810_datapath::sizing::RqSize;
use e810_datapath::slot::{Layout, QpShape};
use e810_datapath::{
    CompletionQueue, Counters, CqKey, Data, ExtraOps, Op, QpKey, QpState, QpType, RecvQueue,
    RecvWr, Registry, Remote, SendFlags, SendLimits, SendQueue, SendWr, Sge, Wc, WcFlags,
};
use e810_hal::{DmaWord, HostBuf};
use e810_tests::plain::{Plain, PlainCq, PlainRecv, PlainSend};
use serde_json::Value;

use crate::feature::Feature;
use crate::hex;
use crate::report::{self, Case, Outcome, Rule, number};
use crate::sq::input::small;

const CQ_ID: u32 = 7;

/// A QP of a case: its recorded context and ours.
struct Pair {
    context: u64,
    key: QpKey,
    send: PlainSend<true>,
    recv: PlainRecv<true>,
}

/// A CQ and the QPs on it, in the state that a case starts in.
struct Bench {
    registry: Registry<HostBuf<Plain>>,
    cq: PlainCq<true>,
    ring: &'static [AtomicU64],
    shadow: &'static [AtomicU64],
    pairs: Vec<Pair>,
    /// Entries written so far.
    written: u64,
}

impl Bench {
    fn new(case: &Value) -> Self {
        let platform = Plain::new();
        let qps = case["qps"].as_array().unwrap();
        let last = qps.iter().map(|qp| small::<u32>(&qp["qp"], "qp_id")).max();
        let layout = Layout {
            cqs: CQ_ID + 1,
            qps: last.unwrap() + 1,
            channels: 0,
            tracker_words: 8192,
        };
        let memory = HostBuf::new(platform, layout.words()).unwrap();
        let mut registry = Registry::new(memory, layout).unwrap();
        let key = registry.open_cq(CQ_ID).unwrap();
        let entries: u32 = small(&case["cq"], "size");
        let (ring, ring_words) = platform.dma(entries * 32);
        let (shadow, shadow_words) = platform.dma(64);
        let slots = registry.slots().clone();
        let cq = CompletionQueue::new(platform, ring, shadow, slots, key, entries).unwrap();
        let mut bench = Self {
            registry,
            cq,
            ring: ring_words,
            shadow: shadow_words,
            pairs: Vec::new(),
            written: 0,
        };
        for qp in qps {
            bench.add(platform, key, qp);
        }
        bench.go_to(&case["cq"]);
        bench.fill(case["cq_ring_hex"].as_str().unwrap());
        for (qp, n) in qps.iter().zip(0..) {
            if number(qp, "destroy_pending") != 0 {
                let key = bench.pairs[n].key;
                bench.registry.hide_qp(key).unwrap();
            }
        }
        bench
    }

    fn add(&mut self, platform: Plain, cq: CqKey, qp: &Value) {
        let info = &qp["qp"];
        let slots: u32 = small(info, "rq_wr_slots");
        let rq = RqSize {
            slots,
            shift: small(info, "rq_shift"),
            max_wr: slots - 1,
        };
        let qp_type = if info["qp_type"] == "roce_ud" {
            QpType::Ud
        } else {
            QpType::Rc
        };
        let sq_quanta: u32 = small(info, "sq_ring_quanta");
        let shape = QpShape {
            sq_quanta,
            rq_quanta: rq.quanta(),
            qp_type,
            send_cq: cq,
            recv_cq: cq,
        };
        let key = self.registry.open_qp(small(info, "qp_id"), &shape).unwrap();
        self.registry.set_state(key, QpState::Rts).unwrap();
        let limits = SendLimits {
            qp_type,
            max_sge: 13,
            max_inline: 0,
            address_handles: 1 << 25,
            signal_all: true,
            local_fence: false,
            read_fence_rate: 0,
            extra: ExtraOps::all(),
        };
        let slots = self.registry.slots().clone();
        let (sq_ring, _) = platform.dma(sq_quanta * 32);
        let (rq_ring, _) = platform.dma(rq.bytes());
        let mut pair = Pair {
            context: number(qp, "ctx"),
            key,
            send: SendQueue::new(platform, sq_ring, slots.clone(), key, limits).unwrap(),
            recv: RecvQueue::new(platform, rq_ring, slots, key, rq, 1).unwrap(),
        };
        // Requests that the case has behind it.
        let posted = qp["sq_posted"].as_array().unwrap();
        let behind = match posted.first() {
            Some(first) => number(first, "wqe_index"),
            None => number(&qp["ring"], "sq_head"),
        };
        for index in 0..behind {
            post(&mut pair, 3, 1, 0, index);
            self.complete_send(&pair, index);
        }
        for request in posted {
            let (op, quanta) = (number(request, "opcode"), number(request, "quanta"));
            let (length, wr_id) = (small(request, "length"), number(request, "wr_id"));
            post(&mut pair, op, quanta, length, wr_id);
        }
        for request in qp["rq_posted"].as_array().unwrap() {
            let wr = RecvWr {
                wr_id: number(request, "wr_id"),
                sges: &[],
            };
            pair.recv.post_recv(&[wr]).unwrap();
        }
        self.pairs.push(pair);
    }

    /// Writes one entry and polls it away.
    fn consume(&mut self, words: [u64; 4]) -> usize {
        let entries = self.ring.len() as u64 / 4;
        let valid = u64::from((self.written / entries).is_multiple_of(2)) << 63;
        let at = (self.written % entries) as usize * 4;
        self.written += 1;
        for (cell, word) in self.ring[at..].iter().zip(words) {
            cell.set(word);
        }
        self.ring[at + 3].publish(words[3] | valid);
        self.cq.poll(&mut [Wc::default()])
    }

    fn complete_send(&mut self, pair: &Pair, index: u64) {
        let q2 = u64::from(pair.key.id()) << 32;
        let q3 = 1 << 62 | 3 << 56 | index << 32;
        assert_eq!(self.consume([0, pair.key.bits(), q2, q3]), 1);
    }

    /// Goes to the recorded head and polarity by consuming entries of no QP.
    fn go_to(&mut self, cq: &Value) {
        let entries = number(cq, "size");
        let lap = if number(cq, "polarity") == 1 {
            0
        } else {
            entries
        };
        let position = number(cq, "head") + lap;
        while self.written % (2 * entries) != position {
            assert_eq!(self.consume([0; 4]), 0);
        }
    }

    /// Lays the recorded ring, with our contexts for the recorded ones.
    fn fill(&mut self, ring: &str) {
        let words = hex::words(ring);
        for (cell, word) in self.ring.iter().zip(words) {
            cell.set(self.ours(word));
        }
    }

    fn ours(&self, word: u64) -> u64 {
        let pair = self.pairs.iter().find(|pair| pair.context == word);
        pair.map_or(word, |pair| pair.key.bits())
    }

    fn poll_one(&mut self) -> Option<Wc> {
        let mut wc = [Wc::default()];
        (self.cq.poll(&mut wc) == 1).then_some(wc[0])
    }
}

/// Posts a request of `quanta` quanta and `length` bytes.
fn post(pair: &mut Pair, op: u64, quanta: u64, length: u32, wr_id: u64) {
    let none = Sge::default();
    let first = Sge { length, ..none };
    let list = [first, none, none, none];
    let data = &list[..[0, 1, 2, 4][quanta as usize]];
    let remote = Remote { addr: 0, rkey: 0 };
    let op = match op {
        0 => Op::Write {
            data: Data::Sges(data),
            remote,
            imm: None,
        },
        1 => Op::Read { into: data, remote },
        3 if pair.is_datagram() => Op::UdSend {
            data: Data::Sges(data),
            imm: None,
            to: e810_datapath::UdTarget {
                ah: 1,
                qpn: 2,
                qkey: 3,
            },
        },
        3 => Op::Send {
            data: Data::Sges(data),
            imm: None,
        },
        other => panic!("posting operation {other}"),
    };
    let wr = SendWr {
        wr_id,
        op,
        flags: SendFlags::empty(),
    };
    pair.send.post_send(&[wr]).unwrap();
}

impl Pair {
    fn is_datagram(&self) -> bool {
        // The vectors' datagram QP.
        self.key.id() == 33
    }
}

/// The judged part of a completion.
fn same(wc: &Wc, expected: &Value) -> Outcome {
    let flags = wc.flags & (WcFlags::GRH | WcFlags::WITH_IMM | WcFlags::WITH_INV);
    Outcome::all([
        Outcome::same("wr_id", wc.wr_id, number(expected, "wr_id")),
        Outcome::same("status", wc.status as u64, number(expected, "status")),
        Outcome::same(
            "status",
            Some(wc.status.name()),
            expected["status_name"].as_str(),
        ),
        Outcome::same("opcode", wc.opcode as u64, number(expected, "opcode")),
        Outcome::same(
            "vendor_err",
            u64::from(wc.vendor_err),
            number(expected, "vendor_err"),
        ),
        Outcome::same(
            "byte_len",
            u64::from(wc.byte_len),
            number(expected, "byte_len"),
        ),
        Outcome::same(
            "imm or key",
            u64::from(wc.imm),
            number(expected, "imm_or_rkey_be"),
        ),
        Outcome::same("qp_num", u64::from(wc.qp_num), number(expected, "qp_num")),
        Outcome::same("src_qp", u64::from(wc.src_qp), number(expected, "src_qp")),
        Outcome::same(
            "flags",
            u64::from(flags.bits()),
            number(expected, "wc_flags"),
        ),
    ])
}

fn not_driven(case: &Case<'_>) -> Option<Outcome> {
    if case.name.starts_with("iwarp_") {
        return Some(Outcome::Skipped(Feature::Iwarp));
    }
    (case["cq"]["entry_bytes"] != 32).then_some(Outcome::Skipped(Feature::WideCompletions))
}

/// Polls one at a time. Where the recorded library returns early (an entry it
/// skips, a late flush entry), we go on to the next completion: so only the
/// completions and their order are compared, and that nothing is left.
fn polls(case: &Case<'_>) -> Outcome {
    let mut bench = Bench::new(case);
    if case.name == "sq_flush_empty_ring" {
        assert_eq!(bench.poll_one(), None);
        let Counters {
            late_flushes,
            malformed,
            ..
        } = bench.cq.counters();
        assert_eq!((late_flushes, malformed), (1, 1));
        return Outcome::Deviates(
            Rule::RefusesBadInput,
            "an entry for a request that is not outstanding completes nothing",
        );
    }
    let polls = case["polls"].as_array().unwrap();
    let mut outcomes = Vec::new();
    for (n, poll) in polls.iter().enumerate() {
        between_polls(case, n, &mut bench);
        if poll["ret"] == "ok" {
            outcomes.push(match bench.poll_one() {
                Some(wc) => same(&wc, &poll["wc"]),
                None => Outcome::Failed(format!("poll {n} found nothing")),
            });
        } else if poll["ret"] == "ENOENT" && !goes_on_later(&polls[n..]) {
            outcomes.push(Outcome::same("completion", bench.poll_one(), None));
            let head = bench.shadow[0].get();
            outcomes.push(Outcome::same("shadow", head, number(poll, "shadow_qword0")));
        } else if case.name == "ext_cqe_not_yet_valid" {
            outcomes.push(Outcome::same("half an entry", bench.poll_one(), None));
        }
    }
    Outcome::all(outcomes)
}

fn goes_on_later(polls: &[Value]) -> bool {
    polls.iter().any(|poll| poll["ret"] == "ok")
}

/// What the three cases that change memory between polls do (`about`).
fn between_polls(case: &Case<'_>, n: usize, bench: &mut Bench) {
    match (case.name.as_str(), n as u64) {
        ("polarity_wrap_small_ring", n) if case["polls"][n as usize]["ret"] == "ok" => {
            let length = 100 + (500 + n) % 8;
            let length = u32::try_from(length).unwrap();
            post(&mut bench.pairs[0], 3, 1, length, 500 + n);
            let context = bench.pairs[0].key.bits();
            let q2 = u64::from(bench.pairs[0].key.id()) << 32;
            let entries = bench.ring.len() as u64 / 4;
            let valid = u64::from((n / entries).is_multiple_of(2)) << 63;
            let at = (n % entries) as usize * 4;
            let q3 = valid | 1 << 62 | 3 << 56 | n << 32;
            for (cell, word) in bench.ring[at..].iter().zip([0, context, q2, q3]) {
                cell.set(word);
            }
        }
        ("sq_flush_post_while_parked", 1) => post(&mut bench.pairs[0], 3, 1, 103, 3),
        ("ext_cqe_not_yet_valid", 1) => {
            for (cell, word) in bench.ring[4..].iter().zip([0x0102_0304, 0, 0, 3 << 62]) {
                cell.set(word);
            }
        }
        _ => {}
    }
}

#[test]
fn cq_poll() {
    report::file("cq_poll.json", |file| {
        file.each("cases", |case| {
            Some(not_driven(case).unwrap_or_else(|| polls(case)))
        });
        file.each("poll_batches", |case| {
            let mut bench = Bench::new(case);
            let polls = case["polls"].as_array().unwrap();
            Some(Outcome::all(polls.iter().map(|poll| {
                let mut wc = vec![Wc::default(); number(poll, "num_entries") as usize];
                let count = bench.cq.poll(&mut wc);
                let expected = poll["wc"].as_array().unwrap();
                Outcome::all(
                    [Outcome::same(
                        "completions",
                        count as u64,
                        number(poll, "ret"),
                    )]
                    .into_iter()
                    .chain(
                        wc.iter()
                            .zip(expected)
                            .map(|(wc, expected)| same(wc, expected)),
                    ),
                )
            })))
        });
    });
}
