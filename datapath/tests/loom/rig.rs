//! A queue pair on a completion queue, as small as they may be.

use std::sync::atomic::Ordering;

use e810_datapath::sizing::RqSize;
use e810_datapath::slot::{Atom, ChannelKey, Layout, QpShape, SlotMemory};
use e810_datapath::{
    CompletionQueue, CqKey, QpKey, QpState, QpType, RecvQueue, RecvWr, Registry, Sge,
};
use e810_hal::{Barrier, Bus, DmaWord, DmaWords, RegOffset};
use loom::sync::atomic::fence;

use crate::memory::{Memory, memory};

/// Counts doorbells.
#[derive(Clone)]
pub(crate) struct Platform(Memory);

impl Platform {
    fn new() -> Self {
        Self(memory(1))
    }

    /// Doorbells so far.
    pub(crate) fn rung(&self) -> u64 {
        self.0.words()[0].observe()
    }
}

impl Bus for Platform {
    fn read32(&self, _: RegOffset) -> u32 {
        0
    }
    fn write32(&self, _: RegOffset, _: u32) {
        self.0.atoms()[0].fetch_add(1);
    }
}

impl Barrier for Platform {
    fn to_device(&self) {
        fence(Ordering::Release);
    }
    fn from_device(&self) {
        fence(Ordering::Acquire);
    }
}

pub(crate) type Cq = CompletionQueue<Platform, Memory, Memory>;

pub(crate) type Recv = RecvQueue<Platform, Memory, Memory>;

const RQ: RqSize = RqSize {
    slots: 4,
    shift: 0,
    max_wr: 3,
};

pub(crate) struct Rig {
    pub(crate) registry: Registry<Memory>,
    pub(crate) cq: Cq,
    pub(crate) cq_key: CqKey,
    pub(crate) cq_ring: Memory,
    pub(crate) cq_shadow: Memory,
    pub(crate) platform: Platform,
}

pub(crate) fn rig() -> Rig {
    let (registry, key) = registry(0, |registry| registry.open_cq(0).unwrap());
    with_queue(registry, key)
}

/// The same, with its CQ on a channel.
pub(crate) fn channel_rig() -> (Rig, ChannelKey) {
    let mut channel = None;
    let (registry, key) = registry(1, |registry| {
        let on = registry.open_channel().unwrap();
        channel = Some(on);
        registry.open_cq_on(0, on).unwrap()
    });
    (with_queue(registry, key), channel.unwrap())
}

fn registry(
    channels: u32,
    open: impl FnOnce(&mut Registry<Memory>) -> CqKey,
) -> (Registry<Memory>, CqKey) {
    let layout = Layout {
        cqs: 1,
        qps: 1,
        channels,
        tracker_words: QpShape::tracker_words(2, 4),
    };
    let mut registry = Registry::new(memory(layout.words()), layout).unwrap();
    let key = open(&mut registry);
    (registry, key)
}

fn with_queue(registry: Registry<Memory>, cq_key: CqKey) -> Rig {
    let cq_ring = memory(4 * 4);
    let slots = registry.slots().clone();
    let (platform, cq_shadow) = (Platform::new(), memory(8));
    let (ring, shadow) = (cq_ring.clone(), cq_shadow.clone());
    let cq = CompletionQueue::new(platform.clone(), ring, shadow, slots, cq_key, 4);
    Rig {
        registry,
        cq: cq.unwrap(),
        cq_key,
        cq_ring,
        cq_shadow,
        platform,
    }
}

impl Rig {
    pub(crate) fn open(&mut self) -> (QpKey, Recv, Memory) {
        open(&mut self.registry, self.cq_key)
    }
}

/// Opens QP 0: its key, receive queue and ring.
pub(crate) fn open(registry: &mut Registry<Memory>, cq: CqKey) -> (QpKey, Recv, Memory) {
    let shape = QpShape {
        sq_quanta: 2,
        rq_quanta: 4,
        qp_type: QpType::Rc,
        send_cq: cq,
        recv_cq: cq,
    };
    let qp = registry.open_qp(0, &shape).unwrap();
    registry.set_state(qp, QpState::Rts).unwrap();
    let ring = memory(4 * 4);
    let slots = registry.slots().clone();
    let recv = RecvQueue::new(Platform::new(), ring.clone(), slots, qp, RQ, 1).unwrap();
    (qp, recv, ring)
}

pub(crate) fn post(recv: &mut Recv, wr_id: u64) -> bool {
    let sges = &[Sge::default()];
    recv.post_one(&RecvWr { wr_id, sges }).is_ok()
}

/// The device writes completion entry `entry` of the first lap.
pub(crate) fn write_entry(ring: &Memory, entry: usize, qp: QpKey, q3: u64) {
    let cells = &ring.words()[entry * 4..];
    cells[0].set(64);
    cells[1].set(qp.bits());
    cells[2].set(u64::from(qp.id()) << 32);
    fence(Ordering::Release);
    cells[3].publish(q3 | 1 << 63);
}
