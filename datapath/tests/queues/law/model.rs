//! What a QP has to do, as a test knows it.

use std::collections::VecDeque;

use e810_datapath::{Data, DroppedWrs, Op, RecvWr, SendFlags, SendWr, Wc, WcStatus};

use crate::common::{SGE, TestQp};

pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A request that is outstanding, as the model knows it.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) wr_id: u64,
    /// Index in the ring.
    pub(super) index: u64,
    pub(super) signaled: bool,
    /// The device has written its completion.
    pub(super) done: bool,
}

/// How far a QP has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Life {
    Works,
    /// The device stopped; control does not know yet.
    Failed,
    /// Flushed: the device still has to write so many entries for each queue.
    Flushing([u32; 2]),
    /// The pollers complete the rest.
    Swept,
}

pub(super) struct Model {
    pub(super) qp: TestQp,
    pub(super) life: Life,
    /// Sends, receives.
    pub(super) requests: [VecDeque<Request>; 2],
    /// Status of the next flush of each queue.
    pub(super) next: [WcStatus; 2],
    /// Quanta of the send ring used so far; slots of the receive ring.
    pub(super) heads: [u64; 2],
}

pub(super) const GENERAL: WcStatus = WcStatus::WrFlushErr;
pub(super) const CAUSES: [(u16, WcStatus); 3] = [
    (3, WcStatus::RemAccessErr),
    (8, WcStatus::RetryExcErr),
    (6, WcStatus::LocLenErr),
];

impl Model {
    pub(super) fn new(qp: TestQp) -> Self {
        Self {
            qp,
            life: Life::Works,
            requests: Default::default(),
            next: [GENERAL; 2],
            heads: [0; 2],
        }
    }

    pub(super) fn post_send(&mut self, wr_id: u64, rng: &mut Rng) {
        let list = [SGE; 13];
        let sges = rng.below(14);
        let nop = rng.one_in(8);
        let op = if nop {
            Op::Nop
        } else {
            let data = Data::Sges(&list[..sges as usize]);
            Op::Send { data, imm: None }
        };
        let signaled = rng.one_in(2);
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::SIGNALED, signaled);
        if self.qp.send.post_one(&SendWr { wr_id, op, flags }).is_err() {
            return;
        }
        let quanta = if nop { 1 } else { sges / 2 + 1 };
        let head = &mut self.heads[0];
        // Padded up to the next chunk.
        if *head % 8 + quanta > 8 {
            *head = head.next_multiple_of(8);
        }
        let index = *head % 512;
        *head += quanta;
        self.requests[0].push_back(Request {
            wr_id,
            index,
            signaled,
            done: false,
        });
    }

    pub(super) fn post_recv(&mut self, wr_id: u64) {
        let wr = RecvWr {
            wr_id,
            sges: &[SGE],
        };
        if self.qp.recv.post_one(&wr).is_err() {
            return;
        }
        let index = self.heads[1] % 16;
        self.heads[1] += 1;
        self.requests[1].push_back(Request {
            wr_id,
            index,
            signaled: true,
            done: false,
        });
    }

    /// A completion was polled: it is the one that has to come next.
    pub(super) fn polled(&mut self, wc: &Wc) {
        let queue = usize::from(wc.opcode as u8 >= 128);
        let requests = &mut self.requests[queue];
        if wc.status == WcStatus::Success {
            // Those that nobody wanted to hear of are done with it.
            while requests.front().is_some_and(|first| !first.signaled) {
                requests.pop_front();
            }
            let first = requests.pop_front().expect("something outstanding");
            assert!(first.done, "completed by nobody");
            assert_eq!(wc.wr_id, first.wr_id);
        } else {
            assert_ne!(self.life, Life::Works);
            let first = requests.pop_front().expect("something outstanding");
            assert!(!first.done || !first.signaled, "flushed after its success");
            assert_eq!(wc.wr_id, first.wr_id);
            let status = std::mem::replace(&mut self.next[queue], GENERAL);
            assert_eq!(wc.status, status);
        }
    }

    pub(super) fn outstanding(&self) -> DroppedWrs {
        let [sends, receives] = &self.requests;
        DroppedWrs {
            sends: sends.len() as u32,
            receives: receives.len() as u32,
        }
    }
}
