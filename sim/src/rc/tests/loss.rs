//! Links with loss, duplication and reordering: every message arrives exactly once, in order and
//! intact.

use super::testbed::Random;
use super::*;
use crate::rc::tests::post::Sge;

/// Expected result of a random run.
#[derive(Default)]
struct Expected {
    sent: Vec<(u16, u8)>,
    /// Receive: its address, its bytes, its immediate.
    received: Vec<(usize, Vec<u8>, Option<u32>)>,
    /// Memory of `b` after writes, memory of `a` after reads.
    written: Vec<(usize, Vec<u8>)>,
    read: Vec<(usize, Vec<u8>)>,
}

/// Sources are in the first 256 KiB, results behind them; every result has a place of its own.
const SOURCES: u64 = 0x4_0000;

struct Run {
    testbed: Testbed,
    random: Random,
    expected: Expected,
    place: usize,
}

impl Run {
    fn new(mtu: PathMtu, link_faults: LinkFaults, seed: u64) -> Self {
        let psn = |seed: u64| Random::new(seed).below(1 << 24) as u32;
        // Some runs start just before the wrap.
        let start = if seed.is_multiple_of(3) {
            0xFF_FFF0
        } else {
            psn(seed)
        };
        Self {
            testbed: Testbed::with_psns(mtu, start, psn(seed + 1))
                .with_link_faults(link_faults, seed),
            random: Random::new(seed ^ 0xABCD),
            expected: Expected::default(),
            place: SOURCES as usize,
        }
    }

    fn len(&mut self) -> u32 {
        let limit = [1, 10, 300, 3000, 12_000][self.random.below(5) as usize];
        self.random.below(limit) as u32
    }

    fn source(&mut self, len: u32) -> Vec<Sge> {
        let cut = self.random.below(u64::from(len) + 1) as u32;
        let mut offset = || self.random.below(SOURCES - 16_000) as usize;
        vec![(offset(), cut), (offset(), len - cut)]
    }

    /// Room for a result.
    fn room(&mut self, len: u32) -> usize {
        let at = self.place;
        self.place += len as usize;
        at
    }

    /// Posts a random request; returns whether it needs a receive.
    fn post(&mut self) -> Option<(usize, u32)> {
        let len = self.len();
        let local = self.source(len);
        let bytes: Vec<u8> = local
            .iter()
            .flat_map(|&(offset, len)| self.testbed.a.node.bytes(offset, len as usize).to_vec())
            .collect();
        let kind = self.random.below(5);
        let at = self.room(len);
        let (post, receive) = match kind {
            0 | 1 => {
                let immediate = (kind == 1).then_some(len ^ 0x5A5A);
                self.expected.received.push((at, bytes, immediate));
                let post = Post::send(&local);
                (
                    immediate.map_or(post.clone(), |value| post.immediate(value)),
                    Some((at, len)),
                )
            }
            2 => {
                self.expected.written.push((at, bytes));
                (Post::write(&local, at), None)
            }
            3 => {
                self.expected.written.push((at, bytes));
                // An empty place: the receive gets no bytes.
                self.expected.received.push((0, Vec::new(), Some(len)));
                (Post::write(&local, at).immediate(len), Some((0, 0)))
            }
            _ => {
                let source = self.random.below(SOURCES - 16_000) as usize;
                let bytes = self.testbed.b.node.bytes(source, len as usize).to_vec();
                self.expected.read.push((at, bytes));
                (Post::read(&[(at, len)], source), None)
            }
        };
        let signaled = self.random.below(4) != 0;
        let index = self
            .testbed
            .a
            .post(&if signaled { post } else { post.unsignaled() });
        if signaled {
            let op = [3, 3, 0, 0, 1][kind as usize];
            self.expected.sent.push((index, op));
        }
        receive
    }

    fn round(&mut self) {
        let mut late = Vec::new();
        for _ in 0..1 + self.random.below(6) {
            let receive = self.post();
            late.extend(receive);
        }
        // Some receives are posted only after the sender got an RNR NAK.
        if self.random.below(3) == 0 {
            self.testbed.settle();
        }
        for (at, len) in late {
            self.testbed.b.receive(&[(at, len)]);
        }
        self.testbed.run();
    }

    fn check(&self, name: &str) {
        let (a, b) = (&self.testbed.a.node, &self.testbed.b.node);
        clean(&self.testbed);
        let sent: Vec<_> = a
            .sent
            .iter()
            .map(|completion| (completion.wqe_index, completion.op))
            .collect();
        assert_eq!(sent, self.expected.sent, "{name}");
        assert_eq!(b.received.len(), self.expected.received.len(), "{name}");
        for (got, (at, bytes, immediate)) in b.received.iter().zip(&self.expected.received) {
            assert_eq!(got.immediate, *immediate, "{name}");
            if immediate.is_none() || !bytes.is_empty() {
                assert_eq!(got.byte_len as usize, bytes.len(), "{name}");
            }
            assert!(
                b.bytes(*at, bytes.len()) == bytes,
                "{name}: receive at {at}"
            );
        }
        for (node, results) in [(b, &self.expected.written), (a, &self.expected.read)] {
            for (at, bytes) in results {
                assert!(
                    node.bytes(*at, bytes.len()) == bytes,
                    "{name}: data at {at}"
                );
            }
        }
    }
}

fn runs(link_faults: LinkFaults, stored: bool) {
    let seeds = if cfg!(miri) { 1 } else { 60 };
    for seed in 1..=seeds {
        let mtu = [PathMtu::B256, PathMtu::B1024, PathMtu::B4096][seed as usize % 3];
        let mut run = Run::new(mtu, link_faults, seed);
        run.testbed.stored = stored;
        for _ in 0..if cfg!(miri) { 2 } else { 25 } {
            run.round();
        }
        run.check(&format!("{link_faults:?} seed {seed}"));
    }
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn a_good_link() {
    runs(LinkFaults::default(), false);
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn loss() {
    runs(
        LinkFaults {
            loss: 50,
            ..LinkFaults::default()
        },
        false,
    );
    runs(
        LinkFaults {
            loss: 250,
            ..LinkFaults::default()
        },
        false,
    );
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn duplication() {
    runs(
        LinkFaults {
            duplication: 300,
            ..LinkFaults::default()
        },
        false,
    );
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn reordering() {
    runs(
        LinkFaults {
            reordering: 200,
            ..LinkFaults::default()
        },
        false,
    );
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn all_at_once() {
    runs(
        LinkFaults {
            loss: 80,
            duplication: 80,
            reordering: 80,
        },
        false,
    );
}

#[test]
fn all_at_once_with_the_state_stored_after_every_call() {
    runs(
        LinkFaults {
            loss: 80,
            duplication: 80,
            reordering: 80,
        },
        true,
    );
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let link_faults = LinkFaults {
        loss: 100,
        duplication: 100,
        reordering: 100,
    };
    let play = |stored| {
        let mut run = Run::new(PathMtu::B256, link_faults, 42);
        run.testbed.stored = stored;
        for _ in 0..if cfg!(miri) { 1 } else { 10 } {
            run.round();
        }
        run.testbed
    };
    let (one, two, stored) = (play(false), play(false), play(true));
    assert!(one.a == two.a && one.b == two.b && one.frames == two.frames);
    assert!(one.a == stored.a && one.b == stored.b && one.frames == stored.frames);
}

#[test]
fn a_lost_acknowledge_is_made_up_for() {
    let mut testbed = Testbed::new(PathMtu::B256);
    testbed.b.receive(&[(0, 1000)]);
    testbed.a.post(&Post::send(&[(5000, 600)]));
    for frame in testbed.a.emit() {
        testbed.b.take_in(&frame);
    }
    assert_eq!(testbed.b.emit().len(), 1, "the acknowledge, lost");
    assert_eq!(testbed.a.state.next_deadline(), Some(RETRANSMIT_NS));
    testbed.run();
    clean(&testbed);
    assert_eq!(
        (testbed.a.node.sent.len(), testbed.b.node.received.len()),
        (1, 1)
    );
}

#[test]
fn a_retransmission_reads_memory_again() {
    let mut testbed = Testbed::new(PathMtu::B256);
    testbed.a.post(&Post::write(&[(0, 100)], 0));
    testbed.a.emit();
    testbed.a.node.memory[..100].fill(0x77);
    testbed.run();
    clean(&testbed);
    assert_eq!(testbed.b.node.bytes(0, 100), [0x77; 100]);
}

#[test]
fn local_operations_are_not_repeated() {
    let mut testbed = Testbed::new(PathMtu::B256);
    testbed.a.post(&Post::write(&[(0, 10)], 0));
    testbed.a.post(&Post::local_invalidate(RKEY));
    testbed.a.post(&Post::write(&[(0, 10)], 0));
    testbed.a.emit();
    testbed.run();
    clean(&testbed);
    assert_eq!(
        (testbed.a.node.invalidated.len(), testbed.a.node.sent.len()),
        (1, 3)
    );
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn sending_again_never_returns_to_a_completed_entry() {
    let mut testbed = Testbed::new(PathMtu::B256);
    // Exactly one budget of packets, so that the entry behind it is not reached.
    testbed.a.post(&Post::write(&[(0, POLL_BUDGET * 256)], 0));
    testbed.a.post(&Post::nop());
    let frames = testbed.a.emit();
    testbed.a.node.now = RETRANSMIT_NS;
    assert!(timer(&mut testbed.a.state, &mut testbed.a.node));
    poll(&mut testbed.a.state, &mut testbed.a.node);
    for frame in &frames {
        testbed.b.take_in(frame);
    }
    for frame in testbed.b.emit() {
        testbed.a.take_in(&frame);
    }
    assert_eq!(testbed.a.node.sent.len(), 2);
    let requester = &testbed.a.state.requester;
    assert_eq!(requester.next, requester.una);
    clean(&testbed);
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn duplication_alone_costs_no_retry() {
    for seed in 1..if cfg!(miri) { 2 } else { 40 } {
        let link_faults = LinkFaults {
            duplication: 300,
            ..LinkFaults::default()
        };
        let mut run = Run::new(PathMtu::B256, link_faults, seed);
        run.testbed.a.state.config.retry = 0;
        for _ in 0..if cfg!(miri) { 1 } else { 20 } {
            run.round();
        }
        run.check(&format!("seed {seed}"));
    }
}

#[test]
#[cfg_attr(
    miri,
    ignore = "minutes under Miri; the same code runs there in the other tests"
)]
fn an_acknowledge_of_the_first_transmission_counts_while_sending_again() {
    let mut testbed = Testbed::new(PathMtu::B256);
    testbed.a.post(&Post::write(&[(0, 100 * 256)], 0));
    for frame in testbed.a.emit() {
        testbed.b.take_in(&frame);
    }
    let acknowledge = testbed.b.emit();
    testbed.a.node.now = RETRANSMIT_NS;
    assert!(timer(&mut testbed.a.state, &mut testbed.a.node));
    poll(&mut testbed.a.state, &mut testbed.a.node);
    assert_eq!(testbed.a.take_in(&acknowledge[0]), Outcome::Accepted);
    clean(&testbed);
    assert_eq!(testbed.a.node.sent.len(), 1);
}
