//! Send requests.

use std::collections::VecDeque;

use e810_datapath::{PostError, QpType, Refused, SendWr};
use e810_hal::DmaWord;
use e810_peer::Library;
use e810_peer::generate::{Limits, Rng, request};
use e810_peer::request::{Kind, Request};

use crate::trio::{Shape, Trio, fill, rings};

/// Opcode and length of a posted request, by its WQE index.
struct Posted {
    index: u64,
    opcode: u64,
    signaled: bool,
}

struct Run {
    trio: Trio,
    rng: Rng,
    limits: Limits,
    /// Ring index of the next WQE, padding not yet passed over.
    head: u64,
    posted: VecDeque<Posted>,
    accepted: u64,
    refused: u64,
    completed: u64,
    wraps: u64,
}

impl Run {
    /// Posts a list to all three and compares.
    fn post(&mut self, list: &[Request]) {
        let trio = &mut self.trio;
        let [first, second] = &trio.theirs;
        fill(first.qp.sq(), second.qp.sq(), trio.ours.sq_ring);
        trio.ours.platform.forget();
        let _ = trio.opened.doorbells().take_send();

        let mut answers = Vec::new();
        for them in &trio.theirs {
            answers.push(them.qp.post_list(&trio.calls, trio.ah.as_ptr(), list));
            let rung = trio.opened.doorbells().take_send();
            assert_eq!(rung, Some(them.qp.id));
        }
        let mut pieces: Vec<Vec<&[u8]>> = list.iter().map(|_| Vec::new()).collect();
        let wrs: Vec<SendWr<'_>> = list
            .iter()
            .zip(&mut pieces)
            .map(|(request, pieces)| request.ours(trio.ah.index(), pieces))
            .collect();
        let (code, good) = match trio.ours.send.post_send(&wrs) {
            Ok(()) => (0, list.len()),
            Err(Refused { posted, error }) => match error {
                PostError::Full { .. } => (libc::ENOMEM, posted),
                _ => (libc::EINVAL, posted),
            },
        };
        assert_eq!(answers, [(code, good); 2], "{list:#?}");
        // One doorbell for whatever was posted.
        let rung = trio.ours.platform.doorbells();
        assert_eq!(rung.len(), usize::from(good > 0));

        let [first, second] = &trio.theirs;
        let written = rings(first.qp.sq(), second.qp.sq(), trio.ours.sq_ring);
        assert_eq!(written > 0, good > 0);
        self.refused += u64::from(good < list.len());
        for request in &list[..good] {
            self.note(request);
        }
    }

    /// Finds the WQE of a request that was posted.
    fn note(&mut self, request: &Request) {
        let ring = self.trio.ours.sq_ring;
        let quanta = ring.len() as u64 / 4;
        let header = |index: u64| ring[index as usize * 4 + 3].get();
        let opcode = |index: u64| header(index) >> 32 & 0x3f;
        // Padding is NOPs, and no request is.
        while opcode(self.head) == 0x0c {
            self.head = (self.head + 1) % quanta;
        }
        let index = self.head;
        self.posted.push_back(Posted {
            index,
            opcode: opcode(index),
            signaled: request.signaled,
        });
        let length = quanta_of(header(index));
        self.head = (index + length) % quanta;
        self.wraps += u64::from(self.head < index);
        self.accepted += 1;
    }

    /// Completes some of what is posted: successes where a request is signaled,
    /// now and then an error where it is not.
    fn complete(&mut self, count: usize) {
        for _ in 0..count {
            let Some(posted) = self.posted.pop_front() else {
                return;
            };
            // An error code that no flush has: a failure that is not one.
            let error = 1 << 55 | 0x2000 << 16 | 7;
            let outcome = match posted.signaled {
                true => 0,
                false if self.posted.len() < 4 => error,
                false => continue,
            };
            let q3 = 1 << 62 | posted.opcode << 56 | posted.index << 32 | outcome;
            self.trio.complete(0, 0, q3, None);
            self.completed += 1;
        }
    }
}

/// Quanta of a WQE, from its header (data-path 1.6, 1.8).
fn quanta_of(header: u64) -> u64 {
    if header >> 57 & 1 != 0 {
        let bytes = header >> 48 & 0xff;
        return if bytes <= 8 {
            1
        } else {
            1 + (bytes - 8).div_ceil(31)
        };
    }
    let fragments = (header >> 38 & 0xf) + 1;
    let opcode = header >> 32 & 0x3f;
    if matches!(opcode, 0x08 | 0x0a) {
        return 1;
    }
    fragments.div_ceil(2)
}

fn run(shape: Shape, seed: u64, calls: u64) -> Option<Run> {
    let trio = Trio::new(&Library::load_or_tell()?, shape);
    let mut run = Run {
        trio,
        rng: Rng(seed),
        limits: Limits {
            qp_type: shape.qp_type,
            max_sge: shape.sges,
            max_inline: shape.inline,
        },
        head: 0,
        posted: VecDeque::new(),
        accepted: 0,
        refused: 0,
        completed: 0,
        wraps: 0,
    };
    let mut wr_id = seed << 32;
    for _ in 0..calls {
        let length = match run.rng.below(4) {
            0 => 1 + run.rng.below(16),
            _ => 1,
        };
        let list: Vec<Request> = (0..length)
            .map(|_| {
                wr_id += 1;
                request(&mut run.rng, &run.limits, wr_id)
            })
            .collect();
        run.post(&list);
        // Slower than posting: the ring is full now and then.
        let count = run.rng.below(5) as usize;
        run.complete(count);
        if run.posted.len() > 400 && run.rng.one_in(4) {
            run.complete(300);
        }
    }
    Some(run)
}

#[test]
#[cfg_attr(
    provider_missing,
    ignore = "NOT RUN: ibverbs-providers is missing; tests/peer/run fetches it"
)]
fn the_library_writes_the_same_send_requests() {
    let shapes = [
        (QpType::Rc, 100, 1, 0),
        (QpType::Rc, 100, 3, 39),
        (QpType::Rc, 60, 7, 101),
        (QpType::Rc, 60, 13, 101),
        (QpType::Ud, 100, 2, 16),
        (QpType::Ud, 60, 13, 101),
    ];
    for (seed, (qp_type, send_wr, sges, inline)) in (1..).zip(shapes) {
        let shape = Shape {
            qp_type,
            send_wr,
            recv_wr: 16,
            sges,
            inline,
        };
        let Some(run) = run(shape, seed, 1200) else {
            return;
        };
        println!(
            "{qp_type}, {sges} SGEs, {inline} inline: {} requests equal in {} laps, {} lists refused alike, \
             {} completions read alike",
            run.accepted, run.wraps, run.refused, run.completed
        );
        assert!(run.accepted > 1000 && run.wraps >= 2);
        assert!(run.refused > 10 && run.completed > 500);
    }
}

#[test]
fn every_kind_of_request_is_generated() {
    let limits = Limits {
        qp_type: QpType::Rc,
        max_sge: 3,
        max_inline: 39,
    };
    let mut rng = Rng(1);
    let mut kinds = [0u32; 6];
    for wr_id in 0..500 {
        let place = match request(&mut rng, &limits, wr_id).kind {
            Kind::Send => 0,
            Kind::SendInv(_) => 1,
            Kind::Write(_) => 2,
            Kind::Read(_) => 3,
            Kind::LocalInv(_) => 4,
            Kind::Bind(_) => 5,
            Kind::Datagram { .. } => continue,
        };
        kinds[place] += 1;
    }
    assert!(kinds.iter().all(|count| *count > 10), "{kinds:?}");
}
