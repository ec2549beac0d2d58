//! Order of publication, and what happens to requests that are not in order.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use e810_datapath::slot::{Layout, QpShape};
use e810_datapath::{
    Atomic, CompletionQueue, Data, ExtraOps, Notify, Op, PostError, QpState, Queue, RecvQueue,
    RecvWr, Registry, Remote, SendFlags, SendLimits, SendQueue, SendWr, Service, Sge, UdTarget, Wc,
};
use e810_hal::{Barrier, Bus, Cell, Off};

use crate::common::{self, Bench, LIMITS, RQ, SGE};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Body(usize),
    Publish(usize),
    Observe(usize),
    Read(usize),
    ToDevice,
    FromDevice,
    Doorbell(u32, u32),
}

type Log = Rc<RefCell<Vec<Event>>>;

struct Recording {
    log: Log,
    index: usize,
    word: AtomicU64,
}

impl Recording {
    fn note(&self, event: Event) {
        self.log.borrow_mut().push(event);
    }
}

impl Cell for Recording {
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

#[derive(Clone)]
struct Platform(Log);

impl Bus for Platform {
    fn read32(&self, _: Off) -> u32 {
        unreachable!("the data path reads no register")
    }
    fn write32(&self, off: Off, value: u32) {
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

const WQEALLOC: u32 = 0x50_4400;

struct Rig {
    log: Log,
    registry: Registry<&'static [AtomicU64]>,
    send: SendQueue<Platform, &'static [Recording], &'static [AtomicU64]>,
    recv: RecvQueue<Platform, &'static [Recording], &'static [AtomicU64]>,
    cq: CompletionQueue<Platform, &'static [Recording], &'static [AtomicU64]>,
    cq_ring: &'static [Recording],
    qp: e810_datapath::QpKey,
}

fn rig(limits: SendLimits) -> Rig {
    let log = Log::default();
    let record = |count: usize| -> &'static [Recording] {
        Vec::leak(
            (0..count)
                .map(|index| Recording {
                    log: Rc::clone(&log),
                    index,
                    word: AtomicU64::new(0),
                })
                .collect(),
        )
    };
    let layout = Layout {
        cqs: 1,
        qps: 4,
        tracker_words: QpShape::tracker_words(512, 16),
    };
    let mut registry = Registry::new(common::words(layout.words()), layout).unwrap();
    let cq_key = registry.open_cq(0).unwrap();
    let shape = QpShape {
        sq_quanta: 512,
        rq_quanta: RQ.quanta(),
        service: limits.service,
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
    fn events(&self) -> Vec<Event> {
        self.log.borrow_mut().drain(..).collect()
    }
}

fn send<'a>(op: Op<'a>) -> SendWr<'a> {
    SendWr {
        wr_id: 1,
        op,
        flags: SendFlags::SIGNALED,
    }
}

/// Body words, barrier, header, barrier, doorbell: for every kind of WQE, each
/// WQE's body entirely before its header, and the doorbell once, last.
#[test]
fn body_barrier_header_barrier_doorbell() {
    let sges = [SGE; 13];
    let bytes = [7u8; 101];
    let remote = Remote { addr: 9, rkey: 8 };
    for count in [0, 1, 2, 5, 13] {
        let data = Data::Sges(&sges[..count]);
        let pieces = [&bytes[..count * 7]];
        for op in [
            Op::Send { data, imm: None },
            Op::Send { data, imm: Some(1) },
            Op::SendInv { data, rkey: 1 },
            Op::Write {
                data,
                remote,
                imm: None,
            },
            Op::Read {
                into: &sges[..count],
                remote,
            },
            Op::Send {
                data: Data::Inline(&pieces),
                imm: Some(2),
            },
            Op::LocalInv { stag: 4 },
        ] {
            let mut rig = rig(LIMITS);
            for _ in 0..3 {
                rig.send.post_send(&[send(op)]).unwrap();
                let events = rig.events();
                let [before @ .., Event::ToDevice, Event::Doorbell(off, value)] = &events[..]
                else {
                    panic!("{op:?} ends with {:?}", events.last());
                };
                assert_eq!((*off, *value), (WQEALLOC, 3));
                let mut barrier = true;
                let mut header = 0;
                for (n, event) in before.iter().enumerate() {
                    match event {
                        Event::Body(_) => barrier = false,
                        Event::ToDevice => barrier = true,
                        Event::Publish(index) => {
                            assert!(barrier, "a body word after the barrier: {events:?}");
                            assert_eq!(before[n - 1], Event::ToDevice);
                            header = *index;
                        }
                        other => panic!("{other:?}"),
                    }
                }
                assert_eq!(header % 4, 3, "the last published word is a header");
                assert!(matches!(before.last(), Some(Event::Publish(_))));
            }
        }
    }
}

#[test]
fn a_receive_has_no_doorbell() {
    let mut rig = rig(LIMITS);
    rig.recv
        .post_recv(&[RecvWr {
            wr_id: 1,
            sges: &[SGE],
        }])
        .unwrap();
    assert_eq!(
        rig.events(),
        [
            Event::Body(0),
            Event::Body(1),
            Event::Body(2),
            Event::ToDevice,
            Event::Publish(3)
        ]
    );
}

/// Valid word, barrier, the rest, then the head index; one that is not valid is
/// not read further.
#[test]
fn a_completion_is_read_after_its_valid_bit() {
    let mut rig = rig(LIMITS);
    let mut wc = [Wc::default()];
    assert_eq!(rig.cq.poll(&mut wc), 0);
    // The short and the long way each look once.
    assert!(rig.events().iter().all(|event| *event == Event::Observe(3)));

    let data = Data::Sges(&[SGE]);
    rig.send
        .post_send(&[send(Op::Send { data, imm: None })])
        .unwrap();
    for (n, word) in [0, rig.qp.bits(), 3 << 32, 3 << 62 | 3 << 56]
        .iter()
        .enumerate()
    {
        rig.cq_ring[n].word.set(*word);
    }
    rig.events();
    assert_eq!(rig.cq.poll(&mut wc), 1);
    let events = rig.events();
    let looks = events
        .iter()
        .take_while(|event| **event == Event::Observe(3))
        .count();
    assert!(looks > 0);
    assert_eq!(events[looks], Event::FromDevice);
    assert_eq!(events.last(), Some(&Event::Publish(0)), "head index last");
    let reads = &events[looks + 1..events.len() - 1];
    assert!(!reads.is_empty());
    assert!(
        reads
            .iter()
            .all(|event| matches!(event, Event::Read(0..=2)))
    );
}

#[test]
fn an_arm_word_precedes_its_doorbell() {
    let mut rig = rig(LIMITS);
    assert!(!rig.cq.arm(Notify::Any));
    let mut events = rig.events();
    // Then the ring is looked at.
    assert_eq!(events.pop(), Some(Event::Observe(3)));
    assert_eq!(
        events,
        [
            Event::Publish(4),
            Event::ToDevice,
            Event::Doorbell(0x50_2C00, 0)
        ]
    );
}

/// The device reads head and count of drained rings as two words: a head of the
/// old ring must never be taken for one of the new.
#[test]
fn a_new_ring_begins_with_its_head() {
    let mut rig = rig(LIMITS);
    // The old ring is somewhere in the middle.
    let complete = |ring: &[Recording], at: usize, index: u64, key: e810_datapath::QpKey| {
        let words = [0, key.bits(), u64::from(key.id()) << 32];
        for (n, word) in words.into_iter().enumerate() {
            ring[4 * at + n].word.set(word);
        }
        let header = 1 << 63 | 1 << 62 | 3 << 56 | index << 32;
        ring[4 * at + 3].word.publish(header);
    };
    let op = Op::Send {
        data: Data::Sges(&[SGE]),
        imm: None,
    };
    for _ in 0..2 {
        rig.send.post_one(&send(op)).unwrap();
    }
    let mut wc = [Wc::default(); 4];
    complete(rig.cq_ring, 0, 0, rig.qp);
    assert_eq!(rig.cq.poll(&mut wc), 1);
    let new: &'static [Recording] = Vec::leak(
        (100..116)
            .map(|index| Recording {
                log: Rc::clone(&rig.log),
                index,
                word: AtomicU64::new(0),
            })
            .collect(),
    );
    assert!(rig.cq.resized(new, 4).is_ok());
    complete(new, 0, 1, rig.qp);
    rig.events();
    assert_eq!(rig.cq.poll(&mut wc), 1);
    let events = rig.events();
    let stores: Vec<Event> = events
        .into_iter()
        .filter(|event| matches!(event, Event::Publish(_) | Event::ToDevice))
        .collect();
    let head = Event::Publish(0);
    assert_eq!(stores, [head, Event::ToDevice, Event::Publish(4), head]);
}

/// Each limit has its own error, and nothing of the request is left anywhere.
#[test]
fn what_is_not_in_order_is_refused() {
    let limits = SendLimits {
        max_sge: 3,
        max_inline: 39,
        extra: ExtraOps::empty(),
        ..LIMITS
    };
    let long = Sge {
        length: 1 << 31,
        ..SGE
    };
    let half = Sge {
        length: 1 << 30,
        ..SGE
    };
    let bytes = [0u8; 40];
    let remote = Remote { addr: 0, rkey: 0 };
    let atomic = Atomic {
        into: SGE,
        remote,
        compare: None,
        value: 1,
    };
    let to = UdTarget {
        ah: 0,
        qpn: 0,
        qkey: 0,
    };
    let data = Data::Sges(&[]);
    let cases: &[(Op<'_>, PostError)] = &[
        (
            Op::Send {
                data: Data::Sges(&[SGE; 4]),
                imm: None,
            },
            PostError::TooManySges {
                queue: Queue::Send,
                got: 4,
                limit: 3,
            },
        ),
        (
            Op::Send {
                data: Data::Inline(&[&bytes]),
                imm: None,
            },
            PostError::InlineTooLong { got: 40, limit: 39 },
        ),
        (
            Op::Read {
                into: &[SGE, long],
                remote,
            },
            PostError::SgeTooLong {
                index: 1,
                length: 1 << 31,
                limit: 0x7FFF_FFFF,
            },
        ),
        (
            Op::Write {
                data: Data::Sges(&[long]),
                remote,
                imm: None,
            },
            PostError::SgeTooLong {
                index: 0,
                length: 1 << 31,
                limit: 0x7FFF_FFFF,
            },
        ),
        (
            Op::Write {
                data: Data::Sges(&[half, half]),
                remote,
                imm: None,
            },
            PostError::MessageTooLong {
                bytes: 1 << 31,
                limit: 0x7FFF_FFFF,
            },
        ),
        (
            Op::UdSend {
                data,
                imm: None,
                to,
            },
            PostError::WrongOp {
                op: "UD SEND",
                service: Service::Rc,
            },
        ),
        (Op::Atomic(&atomic), PostError::NotOffered { op: "ATOMIC" }),
        (
            Op::ReadInv { into: &[], remote },
            PostError::NotOffered {
                op: "RDMA_READ_WITH_INV",
            },
        ),
    ];
    let mut rig = rig(limits);
    let good = send(Op::Send { data, imm: None });
    for (op, error) in cases {
        let free = rig.send.free_quanta();
        let refused = rig.send.post_send(&[send(*op), good]).unwrap_err();
        assert_eq!((refused.posted, refused.error), (0, *error));
        assert_eq!(rig.send.post_one(&send(*op)), Err(*error));
        assert_eq!(rig.events(), [], "nothing in the ring, no doorbell");
        assert_eq!(rig.send.free_quanta(), free);

        // Behind a good one: that is posted, and the doorbell rung for it once.
        let refused = rig.send.post_send(&[good, send(*op), good]).unwrap_err();
        assert_eq!((refused.posted, refused.error), (1, *error));
        let events = rig.events();
        let doorbells = events
            .iter()
            .filter(|event| matches!(event, Event::Doorbell(..)));
        assert_eq!(doorbells.count(), 1);
        assert_eq!(rig.send.free_quanta(), free - 1);
    }
    assert_eq!(rig.send.post_send(&[]), Ok(()));
    assert_eq!(rig.events(), [], "an empty list rings no doorbell");

    let recv = |sges| RecvWr { wr_id: 1, sges };
    assert_eq!(
        rig.recv.post_one(&recv(&[SGE, SGE])),
        Err(PostError::TooManySges {
            queue: Queue::Recv,
            got: 2,
            limit: 1
        })
    );
    assert!(matches!(
        rig.recv.post_one(&recv(&[long])),
        Err(PostError::SgeTooLong { .. })
    ));
    assert_eq!(rig.events(), []);
}

#[test]
fn states_take_what_they_take() {
    let mut rig = rig(LIMITS);
    let data = Data::Sges(&[SGE]);
    let wr = send(Op::Send { data, imm: None });
    let recv = RecvWr {
        wr_id: 1,
        sges: &[SGE],
    };
    for (state, sends, receives) in [
        (QpState::Reset, false, false),
        (QpState::Init, false, true),
        (QpState::Rtr, false, true),
        (QpState::Rts, true, true),
        (QpState::Sqd, true, true),
        (QpState::Sqe, true, true),
        (QpState::Err, true, true),
    ] {
        rig.registry.set_state(rig.qp, state).unwrap();
        let wrong = |queue| PostError::WrongState { queue, state };
        let answer = rig.send.post_send(&[wr]).map_err(|refused| refused.error);
        assert_eq!(answer.is_ok(), sends, "{state}");
        if let Err(error) = answer {
            assert_eq!(error, wrong(Queue::Send));
            assert_eq!(rig.send.post_one(&wr), Err(error));
        }
        let answer = rig.recv.post_recv(&[recv]).map_err(|refused| refused.error);
        assert_eq!(answer.is_ok(), receives, "{state}");
        if let Err(error) = answer {
            assert_eq!(error, wrong(Queue::Recv));
            assert_eq!(rig.recv.post_one(&recv), Err(error));
        }
        assert_eq!(rig.send.post_send(&[]), Ok(()));
    }
}

/// A datagram queue only sends datagrams.
#[test]
fn a_datagram_queue_refuses_the_rest() {
    let mut rig = rig(SendLimits {
        service: Service::Ud,
        ..LIMITS
    });
    let remote = Remote { addr: 0, rkey: 0 };
    let data = Data::Sges(&[SGE]);
    for op in [
        Op::Send { data, imm: None },
        Op::Write {
            data,
            remote,
            imm: None,
        },
        Op::Read {
            into: &[SGE],
            remote,
        },
        Op::LocalInv { stag: 1 },
    ] {
        let wrong = PostError::WrongOp {
            op: op.name(),
            service: Service::Ud,
        };
        assert_eq!(rig.send.post_one(&send(op)), Err(wrong));
    }
    let to = UdTarget {
        ah: LIMITS.address_handles,
        qpn: 1,
        qkey: 1,
    };
    let op = Op::UdSend {
        data,
        imm: None,
        to,
    };
    let limit = LIMITS.address_handles;
    let no_such = PostError::NoSuchAh { ah: limit, limit };
    assert_eq!(rig.send.post_one(&send(op)), Err(no_such));
    assert_eq!(rig.events(), []);
}

#[test]
fn a_full_queue_says_so_and_recovers() {
    let mut bench = Bench::new();
    let mut cq = bench.cq(0, 64);
    let mut qp = bench.qp(0, cq.key, cq.key);
    for n in 0..255 {
        qp.post(n, 1, true).unwrap();
    }
    let refused = qp.post(255, 1, true).unwrap_err();
    assert_eq!(
        refused.error,
        PostError::Full {
            queue: Queue::Send,
            needed: 1,
            free: 0
        }
    );
    for n in 0..15 {
        qp.post_recv(n).unwrap();
    }
    assert!(matches!(
        qp.post_recv(15).unwrap_err().error,
        PostError::Full {
            queue: Queue::Recv,
            ..
        }
    ));
    cq.device.sent(qp.key, 3);
    cq.device.received(qp.key, 0);
    let mut wc = [Wc::default(); 4];
    assert_eq!(cq.cq.poll(&mut wc), 2);
    assert_eq!((wc[0].wr_id, wc[1].wr_id), (3, 0));
    assert_eq!((qp.send.free_quanta(), qp.recv.free_slots()), (4, 1));
    qp.post(255, 1, true).unwrap();
    qp.post_recv(15).unwrap();
}
