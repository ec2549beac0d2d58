//! Queues on leaked memory, and the device's side of them, for all tests here.

use std::cell::Cell as StdCell;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use e810_datapath::sizing::RqSize;
use e810_datapath::slot::{Layout, QpShape};
use e810_datapath::{
    CompletionQueue, CqKey, Data, ExtraOps, Op, QpKey, QpState, QpType, RecvQueue, RecvWr, Refused,
    SendFlags, SendLimits, SendQueue, SendWr, Sge,
};
use e810_hal::{Barrier, Bus, DmaWord, RegOffset};

use crate::tables::Tables;

pub(crate) type Words = &'static [AtomicU64];

pub(crate) fn words(count: usize) -> Words {
    Vec::leak((0..count).map(|_| AtomicU64::new(0)).collect())
}

/// Counts doorbells.
#[derive(Clone, Default)]
pub(crate) struct Quiet(pub(crate) Rc<StdCell<u32>>);

impl Bus for Quiet {
    fn read32(&self, _: RegOffset) -> u32 {
        0
    }
    fn write32(&self, _: RegOffset, _: u32) {
        self.0.set(self.0.get() + 1);
    }
}

impl Barrier for Quiet {}

pub(crate) const LIMITS: SendLimits = SendLimits {
    qp_type: QpType::Rc,
    max_sge: 13,
    max_inline: 101,
    address_handles: 1 << 17,
    signal_all: false,
    local_fence: false,
    read_fence_rate: 0,
    extra: ExtraOps::all(),
};

pub(crate) type Send = SendQueue<Quiet, Words, Words>;
pub(crate) type Recv = RecvQueue<Quiet, Words, Words>;
pub(crate) type Cq = CompletionQueue<Quiet, Words, Words>;

/// A slot table with a few CQs and QPs.
pub(crate) struct Bench {
    pub(crate) platform: Quiet,
    pub(crate) registry: Tables,
}

/// A CQ and its ring as the device sees it.
pub(crate) struct TestCq {
    pub(crate) cq: Cq,
    pub(crate) key: CqKey,
    pub(crate) device: CqDevice,
}

/// The device's side of a completion ring.
pub(crate) struct CqDevice {
    pub(crate) ring: Words,
    pub(crate) shadow: Words,
    pub(crate) written: u64,
}

/// A QP.
pub(crate) struct TestQp {
    pub(crate) key: QpKey,
    pub(crate) send: Send,
    pub(crate) recv: Recv,
    pub(crate) sq_ring: Words,
}

pub(crate) const RQ: RqSize = RqSize {
    slots: 16,
    shift: 0,
    max_wr: 15,
};

pub(crate) const LAYOUT: Layout = Layout {
    cqs: 4,
    qps: 4,
    channels: 0,
    tracker_words: 4 * QpShape::tracker_words(512, 16),
};

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(Tables::one(LAYOUT))
    }

    /// The queues are in another table of slots than the one that events and commands go by.
    pub(crate) fn in_two_tables() -> Self {
        Self::with(Tables::two(LAYOUT))
    }

    fn with(registry: Tables) -> Self {
        Self {
            platform: Quiet::default(),
            registry,
        }
    }

    pub(crate) fn cq(&mut self, id: u32, entries: u32) -> TestCq {
        let key = self.registry.open_cq(id).unwrap();
        let (ring, shadow) = (words(entries as usize * 4), words(8));
        let slots = self.registry.slots().clone();
        let cq = CompletionQueue::new(self.platform.clone(), ring, shadow, slots, key, entries);
        TestCq {
            cq: cq.unwrap(),
            key,
            device: CqDevice {
                ring,
                shadow,
                written: 0,
            },
        }
    }

    pub(crate) fn qp(&mut self, id: u32, send_cq: CqKey, recv_cq: CqKey) -> TestQp {
        self.qp_of(QpType::Rc, id, send_cq, recv_cq)
    }

    pub(crate) fn datagram_qp(&mut self, id: u32, send_cq: CqKey, recv_cq: CqKey) -> TestQp {
        self.qp_of(QpType::Ud, id, send_cq, recv_cq)
    }

    fn qp_of(&mut self, qp_type: QpType, id: u32, send_cq: CqKey, recv_cq: CqKey) -> TestQp {
        let shape = QpShape {
            sq_quanta: 512,
            rq_quanta: RQ.quanta(),
            qp_type,
            send_cq,
            recv_cq,
        };
        let key = self.registry.open_qp(id, &shape).unwrap();
        self.registry.set_state(key, QpState::Rts).unwrap();
        self.registry.pump();
        let (sq_ring, rq_ring) = (words(512 * 4), words(16 * 4));
        let slots = self.registry.slots().clone();
        TestQp {
            key,
            send: SendQueue::new(
                self.platform.clone(),
                sq_ring,
                slots.clone(),
                key,
                SendLimits { qp_type, ..LIMITS },
            )
            .unwrap(),
            recv: RecvQueue::new(self.platform.clone(), rq_ring, slots, key, RQ, 1).unwrap(),
            sq_ring,
        }
    }
}

pub(crate) const SGE: Sge = Sge {
    addr: 0x1000,
    length: 64,
    lkey: 5,
};

impl TestQp {
    pub(crate) fn post(&mut self, wr_id: u64, sges: usize, signaled: bool) -> Result<(), Refused> {
        let list = [SGE; 13];
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::SIGNALED, signaled);
        self.send.post_send(&[SendWr {
            wr_id,
            op: Op::Send {
                data: Data::Sges(&list[..sges]),
                imm: None,
            },
            flags,
        }])
    }

    pub(crate) fn post_recv(&mut self, wr_id: u64) -> Result<(), Refused> {
        self.recv.post_recv(&[RecvWr {
            wr_id,
            sges: &[SGE],
        }])
    }
}

pub(crate) const SQ_BIT: u64 = 1 << 62;
pub(crate) const ERROR_BIT: u64 = 1 << 55;
/// Error bit, flush major code, general minor code.
pub(crate) const FLUSH: u64 = ERROR_BIT | 1 << 16 | 1;

impl CqDevice {
    /// Writes an entry with the valid bit of its lap.
    pub(crate) fn write(&mut self, [q0, q1, q2, q3]: [u64; 4]) {
        let entries = (self.ring.len() / 4) as u64;
        let valid = u64::from((self.written / entries).is_multiple_of(2)) << 63;
        let at = (self.written % entries) as usize * 4;
        self.written += 1;
        self.ring[at].set(q0);
        self.ring[at + 1].set(q1);
        self.ring[at + 2].set(q2);
        self.ring[at + 3].publish(q3 & !(1 << 63) | valid);
    }

    /// An entry of a QP: `q3` without the valid bit.
    pub(crate) fn complete(&mut self, qp: QpKey, q3: u64) {
        self.write([64, qp.bits(), u64::from(qp.id()) << 32, q3]);
    }

    /// Success of the send at `index`.
    pub(crate) fn sent(&mut self, qp: QpKey, index: u64) {
        self.complete(qp, SQ_BIT | 3 << 56 | index << 32);
    }

    /// Success of the receive at `index`.
    pub(crate) fn received(&mut self, qp: QpKey, index: u64) {
        self.complete(qp, 4 << 56 | index << 32);
    }
}
