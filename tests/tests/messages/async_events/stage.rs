//! Two simulated devices, something that goes wrong between them, and what must
//! be there afterwards.

use e810::{
    AsyncEvent, Data, Op, QpState, QpType, RecvWr, Remote, SendFlags, SendWr, Sge, WcStatus,
};
use e810_ceq::ae::{AeCode, QpEvent};
use e810_ceq::aeqe::Object;
use e810_ceq::event::Kind as EventKind;
use e810_hal::Ns;
use e810_hal::regs::{PFPE_CQPDB, PFPE_WQEALLOC};
use e810_sim::pe::Config;
use e810_sim::{Sim, SimPlatform};
use e810_tests::traffic::{Block, End, Kind, Pair, Setup, Transfer, Watched};
use e810_types::WorkQueue;

use crate::async_events::{A, B};

/// `wr_id` of the first receive; sends begin with 1.
const FIRST_RECEIVE: u64 = 1000;
/// Longer than any flush takes.
const SETTLE: Ns = Ns::from_ms(60);

/// Two devices that are up and connected.
pub(crate) struct Stage {
    pub(crate) sim: Sim,
    pub(crate) pair: Pair<Watched<SimPlatform>>,
    /// Kinds of findings that belong to what goes wrong.
    may_find: &'static [&'static str],
    posted: u64,
}

/// A queue pair that has failed, as its program sees it.
pub(crate) struct Failure<'a> {
    pub(crate) at: End,
    /// The queue that the event blames.
    pub(crate) blamed: Option<WorkQueue>,
    /// What verbs calls the event.
    pub(crate) event: QpEvent,
    /// How the sends end that were posted and not completed, in their order.
    pub(crate) sends: &'a [WcStatus],
    /// The same of the receives.
    pub(crate) receives: &'a [WcStatus],
}

impl Stage {
    pub(crate) fn new(setup: Setup) -> Self {
        Self::configured(setup, |_, _| {})
    }

    /// On engines with these choices.
    pub(crate) fn configured(setup: Setup, configure: impl Fn(u8, &mut Config) + 'static) -> Self {
        let builder = Sim::builder().functions(2).seed(0xAE);
        let sim = builder.engine(configure).build();
        let pair = Pair::simulated(&sim, setup);
        Self {
            sim,
            pair,
            may_find: &[],
            posted: 0,
        }
    }

    /// Little patience, so that retries are soon used up.
    pub(crate) fn connected() -> Self {
        Self::new(Setup {
            retry_cnt: 1,
            rnr_retry: 1,
            ..Setup::default()
        })
    }

    /// What goes wrong may leave findings of these kinds.
    pub(crate) fn may_find(mut self, kinds: &'static [&'static str]) -> Self {
        self.may_find = kinds;
        self
    }

    /// Posts a signaled request.
    pub(crate) fn post(&mut self, at: End, op: Op<'_>) {
        self.posted += 1;
        let request = SendWr {
            wr_id: self.posted,
            op,
            flags: SendFlags::SIGNALED,
        };
        let side = &mut self.pair.sides[at.side];
        side.post_send(at.qp, &[request]).unwrap();
    }

    /// Posts a receive.
    pub(crate) fn receive(&mut self, at: End, sge: Sge) {
        self.posted += 1;
        let receive = RecvWr {
            wr_id: FIRST_RECEIVE + self.posted,
            sges: &[sge],
        };
        let side = &mut self.pair.sides[at.side];
        side.qps[at.qp].post_recv(&[receive]).unwrap();
    }

    /// An SGE over `bytes` bytes that are sent, or received, at `at`'s side.
    pub(crate) fn sge(&self, at: End, bytes: usize) -> Sge {
        self.pair.sides[at.side].sge(0, bytes)
    }

    /// Memory of the peer of an end that it may reach.
    pub(crate) fn remote(&mut self, from: End) -> Remote {
        self.pair.remote(from, 0)
    }

    /// Posts a SEND of 64 bytes.
    pub(crate) fn send(&mut self, at: End) {
        let sges = [self.sge(at, 64)];
        let data = Data::Sges(&sges);
        self.post(at, Op::Send { data, imm: None });
    }

    /// Posts a WRITE of an SGE to memory of the peer.
    pub(crate) fn write(&mut self, at: End, sge: Sge, remote: Remote) {
        let sges = [sge];
        let data = Data::Sges(&sges);
        self.post(
            at,
            Op::Write {
                data,
                remote,
                imm: None,
            },
        );
    }

    /// Posts a READ of 64 bytes of the peer's memory.
    pub(crate) fn read(&mut self, at: End, remote: Remote) {
        let into = [self.sge(at, 64)];
        self.post(
            at,
            Op::Read {
                into: &into,
                remote,
            },
        );
    }

    /// Posts a request and waits until it has succeeded.
    pub(crate) fn succeeds(&mut self, at: End, op: Op<'_>) {
        self.post(at, op);
        let done = self.pair.completions(at.side, 1);
        let reported = &self.pair.sides[at.side].reported;
        assert_eq!(done[0].status, WcStatus::Success, "{reported:?}");
    }

    /// Posts a request whose words in the ring are changed at the last moment, as
    /// by a program that writes where it should not. `mark` stands in one of the
    /// words of the request and nowhere else; `change` gets all four.
    pub(crate) fn post_changed(
        &mut self,
        at: End,
        op: Op<'_>,
        mark: u64,
        change: impl Fn(&mut [u64; 4]) + Send + 'static,
    ) {
        let platform = self.pair.sides[at.side].platform.clone();
        let blocks = platform.blocks();
        platform.before(PFPE_WQEALLOC.off(), move || {
            let rings = blocks.iter().filter(|block| block.align == 256);
            for (ring, at) in rings.filter_map(|ring| Some((ring, find(ring, mark)?))) {
                let first = at & !3;
                let mut words = [0, 1, 2, 3].map(|word| ring.get(first + word));
                change(&mut words);
                for (word, value) in words.into_iter().enumerate() {
                    ring.set(first + word, value);
                }
            }
        });
        self.post(at, op);
        platform.before_nothing();
    }

    /// Makes both queue pairs anew and connects them; a word of `at`'s context is
    /// changed each time the device is about to read it.
    pub(crate) fn reconnect_changed(
        &mut self,
        at: End,
        word: usize,
        change: impl Fn(u64) -> u64 + Send + 'static,
    ) {
        /// Words of each queue pair in the memory of all contexts.
        const WORDS: usize = 64;
        for end in [A, B] {
            self.pair.renew(end);
        }
        let number = self.pair.number(at) as usize;
        let platform = self.pair.sides[at.side].platform.clone();
        let blocks = platform.blocks();
        let contexts = blocks.iter().filter(|block| block.align == 512);
        let contexts = contexts.max_by_key(|block| block.bytes).unwrap().clone();
        let place = number * WORDS + word;
        platform.before(PFPE_CQPDB.off(), move || {
            contexts.set(place, change(contexts.get(place)));
        });
        self.pair.connect(at);
        platform.before_nothing();
        let peer = self.pair.peer(at);
        self.pair.connect(peer);
    }

    /// Waits until the queue pair has failed as it should.
    pub(crate) fn fails(&mut self, failure: &Failure<'_>) -> AsyncEvent {
        let Failure { at, blamed, .. } = *failure;
        let number = self.pair.number(at);
        let event = self.reported_for(at.side, Object::Qp(number));
        assert_eq!(event.blamed, blamed, "{event}");
        assert_eq!(
            event.receive.is_some(),
            blamed == Some(WorkQueue::Recv),
            "{event}"
        );
        assert_eq!(event.qp_event(), Some(failure.event), "{event}");
        // The datagrams' state after a failed send.
        let is_ud = self.pair.setup().qp_type == QpType::Ud;
        let state = match (is_ud, blamed) {
            (true, Some(WorkQueue::Send)) => QpState::Sqe,
            _ => QpState::Err,
        };
        let side = &mut self.pair.sides[at.side];
        assert_eq!(side.qps[at.qp].state(), state, "{event}");
        let done = side.take_of(number);
        let (sends, receives): (Vec<_>, Vec<_>) =
            done.iter().partition(|wc| wc.wr_id < FIRST_RECEIVE);
        let status = |list: Vec<&e810::Wc>| -> Vec<WcStatus> {
            assert!(list.is_sorted_by_key(|wc| wc.wr_id), "{list:?}");
            list.iter().map(|wc| wc.status).collect()
        };
        assert_eq!(status(sends), failure.sends, "{event}");
        assert_eq!(status(receives), failure.receives, "{event}");
        event
    }

    /// The one event that the driver delivers of an object, when all has settled.
    pub(crate) fn reported_for(&mut self, side: usize, object: Object) -> AsyncEvent {
        let is_of = |reported: &AsyncEvent| reported.object == object;
        self.pair.until("an event", |pair| {
            let reported = &pair.sides[side].reported;
            reported.iter().any(is_of)
        });
        self.pair.during(SETTLE);
        let side = &mut self.pair.sides[side];
        let mut reported = side.reported.extract_if(.., |reported| is_of(reported));
        let event = reported.next().unwrap();
        assert_eq!(reported.next(), None, "told once");
        drop(reported);
        let mut log = side.events[0].log().iter();
        assert!(log.any(|entry| entry.event == event), "{event}");
        event
    }

    /// The one event of this code that the device wrote and the driver does not
    /// deliver as such.
    pub(crate) fn logged(&mut self, side: usize, code: AeCode) -> AsyncEvent {
        self.pair.during(SETTLE);
        let side = &self.pair.sides[side];
        assert_eq!(side.reported, []);
        let mut log = side.events[0].log().iter().map(|entry| entry.event);
        let event = log.find(|event| event.kind == EventKind::Ae(code)).unwrap();
        assert_eq!(log.find(|event| event.kind == EventKind::Ae(code)), None);
        event
    }

    /// The queue pair at the other end fails too, with this code and status of
    /// its only send.
    pub(crate) fn peer_fails(&mut self, at: End, code: AeCode, status: WcStatus) {
        let event = self.fails(&Failure {
            at,
            blamed: Some(WorkQueue::Send),
            event: QpEvent::of(code.flush()),
            sends: &[status],
            receives: &[],
        });
        assert_eq!(event.kind, EventKind::Ae(code), "{event}");
    }

    /// As [`Stage::end`], with a CQ that takes no completions any more.
    pub(crate) fn close_with_failed_cq(mut self) {
        for side in &mut self.pair.sides {
            assert_eq!(side.reported, []);
        }
        self.pair.finish(&self.sim);
    }

    /// Nothing else was told; everything works after it, and is given back.
    pub(crate) fn end(mut self) {
        let ends: Vec<End> = (0..self.pair.sides.len())
            .flat_map(|side| (0..self.pair.setup().queue_pairs).map(move |qp| End { side, qp }))
            .collect();
        for end in &ends {
            self.pair.renew(*end);
        }
        for end in &ends {
            self.pair.connect(*end);
        }
        if self.pair.setup().qp_type == QpType::Rc {
            for kind in [Kind::Send, Kind::Write, Kind::Read] {
                self.pair.transfer(A, &Transfer::new(kind, 3000));
                self.pair.transfer(B, &Transfer::new(kind, 3000));
            }
        }
        for side in &mut self.pair.sides {
            assert_eq!(side.reported, []);
            assert_eq!(side.take(), []);
        }
        for finding in self.sim.take_findings() {
            assert!(self.may_find.contains(&finding.kind), "{finding}");
        }
        self.pair.finish(&self.sim);
    }
}

/// Where a value stands in a block.
pub(crate) fn find(block: &Block, value: u64) -> Option<usize> {
    (0..block.words()).find(|word| block.get(*word) == value)
}
