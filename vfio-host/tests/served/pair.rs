//! Two programs that live long, connected to each other: nothing is lost, late or doubled, and all
//! data is as it was sent.

use crate::harness::connection::{INCOMING, MEMORY};
use crate::harness::objects::{RC, flag, opcode};
use crate::harness::{Ctx, Mr, PATIENCE, Qp, memory, readable, until};
use crate::server::{Process, World};
use crate::words::Words;

/// Where each has the number of its queue pair, the key and the address of its memory.
const SAID: [usize; 2] = [400, 404];
/// Rounds that each has done.
const ROUNDS: [usize; 2] = [408, 409];
/// Whether they are to end, and after which round.
const STOP: usize = 410;
const ASKED: u64 = 1;
const LAST: u64 = 2;
/// Messages of a round.
const MESSAGES: usize = 4;
const BYTES: usize = 256;
/// Where a WRITE of the peer arrives.
const WRITTEN: usize = INCOMING + MESSAGES * BYTES;

/// A process of each, on the function of a world.
pub(crate) struct Pair(Vec<Process>);

impl Pair {
    /// They have done some rounds.
    pub(crate) fn start(world: &World) -> Self {
        let parts = ["first of a pair", "second of a pair"];
        let mut pair = Self(parts.map(|part| world.part(part, 0)).into());
        pair.go_on(world);
        pair
    }

    /// Waits until both have done some more rounds.
    #[track_caller]
    pub(crate) fn go_on(&mut self, world: &World) {
        let rounds = |words: Words| ROUNDS.map(|at| words.get(at));
        let before = rounds(world.words);
        until("rounds of the pair", || {
            if let Some(ended) = self.0.iter_mut().find_map(|one| {
                let ended = one.has_ended();
                ended.then(|| one.complaints())
            }) {
                panic!("one of the pair has ended: {ended}");
            }
            let now = rounds(world.words);
            (0..2).all(|one| now[one] > before[one] + 3)
        });
    }

    /// They compare everything once more and end.
    pub(crate) fn end(self, world: &World) {
        world.words.set(STOP, ASKED);
        for one in self.0 {
            one.done();
        }
    }
}

fn pattern(round: u64, message: usize) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = (round.wrapping_mul(31) as usize + message * 7 + at) as u8;
    }
    bytes
}

/// One of the two.
pub(crate) fn run(own: usize) {
    let words = Words::of_test();
    let ctx = Ctx::open(0);
    let channel = ctx.channel();
    let pd = ctx.pd();
    let bytes = memory(MEMORY);
    let start = bytes.as_ptr() as u64;
    let mr = pd.mr(bytes);
    let [sent, got] = [1, 2].map(|word| ctx.cq(64, word, Some(channel)));
    let qp = pd.qp(RC, sent, got);
    let peer = 1 - own;
    words.set(SAID[own] + 1, mr.key().into());
    words.set(SAID[own] + 2, start);
    words.set(SAID[own], qp.number().into());
    until("the peer", || words.get(SAID[peer]) != 0);
    let receive = |message: usize| {
        let sge = mr.sge(INCOMING + message * BYTES, BYTES as u32);
        assert_eq!(qp.recv(message as u64, sge), 0);
    };
    qp.init();
    (0..MESSAGES).for_each(receive);
    assert_eq!(qp.to_rtr(words.get(SAID[peer]) as u32, ctx.gid(1), 1), 0);
    assert_eq!(qp.to_rts(), 0);
    words.set(SAID[own] + 3, 1);
    until("the peer's queue pair", || words.get(SAID[peer] + 3) != 0);
    let target = (
        words.get(SAID[peer] + 2) + WRITTEN as u64,
        words.get(SAID[peer] + 1) as u32,
    );
    for round in 0.. {
        if own == 0 {
            if words.get(STOP) == ASKED {
                words.set(STOP, LAST + round);
            }
            send(round, bytes, mr, qp, target);
        }
        let mut all = Vec::new();
        while all.len() < MESSAGES {
            all.extend(got.poll(MESSAGES - all.len()));
            // With events now and then, which must come.
            if all.len() < MESSAGES && round % 4 == 0 {
                assert_eq!(got.arm(false), 0);
                let more = got.poll(MESSAGES - all.len());
                if more.is_empty() {
                    assert!(readable(channel.fd(), PATIENCE), "an event is lost");
                    assert_eq!(channel.take(), Ok((got, 2)));
                    got.acknowledge(1);
                }
                all.extend(more);
            }
        }
        for (at, one) in all.iter().enumerate() {
            let expected = (0, at as u64, BYTES as u32);
            assert_eq!((one.status, one.wr_id, one.byte_len), expected, "{round}");
        }
        for message in 0..=MESSAGES {
            let at = INCOMING + message * BYTES;
            assert_eq!(bytes[at..at + BYTES], pattern(round, message), "{round}");
            bytes[at..at + BYTES].fill(0);
        }
        (0..MESSAGES).for_each(receive);
        if own == 1 {
            send(round, bytes, mr, qp, target);
        }
        for (at, one) in sent.wait(MESSAGES + 1).iter().enumerate() {
            assert_eq!((one.status, one.wr_id), (0, at as u64), "{round}");
        }
        words.set(ROUNDS[own], round + 1);
        if words.get(STOP) == LAST + round {
            break;
        }
    }
    assert_eq!([sent.poll(1).len(), got.poll(1).len()], [0; 2], "doubled");
    assert_eq!(qp.destroy(), 0);
    assert_eq!([sent.destroy(), got.destroy()], [0; 2]);
    assert_eq!([mr.dereg(), pd.free(), channel.destroy()], [0; 3]);
    assert_eq!(ctx.close(), 0);
}

/// Sends what belongs to a round: a WRITE, and then messages.
fn send(round: u64, bytes: &mut [u8], mr: Mr, qp: Qp, target: (u64, u32)) {
    for message in 0..=MESSAGES {
        let at = message * BYTES;
        bytes[at..at + BYTES].copy_from_slice(&pattern(round, message));
    }
    let write = mr.sge(MESSAGES * BYTES, BYTES as u32);
    assert_eq!(qp.rdma(opcode::RDMA_WRITE, 0, write, target), 0);
    for message in 0..MESSAGES {
        let sge = mr.sge(message * BYTES, BYTES as u32);
        let wr_id = message as u64 + 1;
        assert_eq!(qp.send_of(wr_id, sge, flag::SIGNALED), 0);
    }
}
