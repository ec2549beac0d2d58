//! Queues that note each access to their rings, each barrier and each doorbell.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use e810_datapath::slot::{Layout, QpShape};
use e810_datapath::{
    CompletionQueue, Op, QpKey, QpState, RecvQueue, Registry, SendFlags, SendLimits, SendQueue,
    SendWr,
};
use e810_hal::{Barrier, Bus, DmaWord, RegOffset};

use crate::common::{self, RQ};

/// What was done, to which word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    Body(usize),
    Publish(usize),
    Observe(usize),
    Read(usize),
    ToDevice,
    FromDevice,
    Doorbell(u32, u32),
}

pub(crate) type Log = Rc<RefCell<Vec<Event>>>;

pub(crate) struct Recording {
    log: Log,
    index: usize,
    pub(crate) word: AtomicU64,
}

impl Recording {
    fn note(&self, event: Event) {
        self.log.borrow_mut().push(event);
    }
}

impl DmaWord for Recording {
    fn get(&self) -> u64 {
        self.note(Event::Read(self.index));
        self.word.get()
    }
    fn set(&self, value: u64) {
        self.note(Event::Body(self.index));
        self.word.set(value);
    }
    fn observe(&self) -> u64 {
        self.note(Event::Observe(self.index));
        self.word.observe()
    }
    fn publish(&self, value: u64) {
        self.note(Event::Publish(self.index));
        self.word.publish(value);
    }
}

/// Words that note in `log` what is done to them, under these numbers.
pub(crate) fn record(log: &Log, numbers: Range<usize>) -> &'static [Recording] {
    let word = |index| Recording {
        log: Rc::clone(log),
        index,
        word: AtomicU64::new(0),
    };
    Vec::leak(numbers.map(word).collect())
}

#[derive(Clone)]
pub(crate) struct Platform(Log);

impl Bus for Platform {
    fn read32(&self, _: RegOffset) -> u32 {
        unreachable!("the data path reads no register")
    }
    fn write32(&self, off: RegOffset, value: u32) {
        self.0.borrow_mut().push(Event::Doorbell(off.get(), value));
    }
}

impl Barrier for Platform {
    fn to_device(&self) {
        self.0.borrow_mut().push(Event::ToDevice);
    }
    fn from_device(&self) {
        self.0.borrow_mut().push(Event::FromDevice);
    }
}

/// Queues whose rings note what is done to them.
pub(crate) struct Rig {
    pub(crate) log: Log,
    pub(crate) registry: Registry<&'static [AtomicU64]>,
    pub(crate) send: SendQueue<Platform, &'static [Recording], &'static [AtomicU64]>,
    pub(crate) recv: RecvQueue<Platform, &'static [Recording], &'static [AtomicU64]>,
    pub(crate) cq: CompletionQueue<Platform, &'static [Recording], &'static [AtomicU64]>,
    pub(crate) cq_ring: &'static [Recording],
    pub(crate) qp: QpKey,
}

pub(crate) fn rig(limits: SendLimits) -> Rig {
    let log = Log::default();
    let record = |count| record(&log, 0..count);
    let layout = Layout {
        cqs: 1,
        qps: 4,
        channels: 0,
        tracker_words: QpShape::tracker_words(512, 16),
    };
    let mut registry = Registry::new(common::words(layout.words()), layout).unwrap();
    let cq_key = registry.open_cq(0).unwrap();
    let shape = QpShape {
        sq_quanta: 512,
        rq_quanta: RQ.quanta(),
        qp_type: limits.qp_type,
        send_cq: cq_key,
        recv_cq: cq_key,
    };
    let qp = registry.open_qp(3, &shape).unwrap();
    registry.set_state(qp, QpState::Rts).unwrap();
    let slots = registry.slots().clone();
    let platform = Platform(Rc::clone(&log));
    let cq_ring = record(8 * 4);
    let (cq, shadow) = (cq_ring, record(8));
    let rig = Rig {
        send: SendQueue::new(platform.clone(), record(512 * 4), slots.clone(), qp, limits).unwrap(),
        recv: RecvQueue::new(platform.clone(), record(16 * 4), slots.clone(), qp, RQ, 1).unwrap(),
        cq: CompletionQueue::new(platform, cq, shadow, slots, cq_key, 8).unwrap(),
        log,
        registry,
        cq_ring,
        qp,
    };
    rig.log.borrow_mut().clear();
    rig
}

impl Rig {
    pub(crate) fn events(&self) -> Vec<Event> {
        self.log.borrow_mut().drain(..).collect()
    }
}

pub(crate) fn send<'a>(op: Op<'a>) -> SendWr<'a> {
    SendWr {
        wr_id: 1,
        op,
        flags: SendFlags::SIGNALED,
    }
}
