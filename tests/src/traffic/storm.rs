//! Many messages of every kind at once, in both directions, each checked: what a
//! bad wire has to carry without anybody noticing.

use e810::{Data, Mr, Op, Platform, Remote, SendFlags, SendWr, Sge, Wc, WcFlags, WcStatus};
use e810_hal::Ns;

use super::{Buffer, End, Pair, Setup, pattern};

/// Messages of one direction that are under way together.
const DEPTH: usize = 8;
/// Bytes of a buffer that belong to one message, guards included.
const SLOT: usize = 16 << 10;
/// Bytes before a message in its slot, and at least as many behind it.
const GUARD: usize = 64;
/// What memory holds that nobody may write.
const UNTOUCHED: u8 = 0xA5;
/// Marks receives.
const RECEIVE: u64 = 1 << 63;

/// What a message does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Send(Option<u32>),
    SendInvalidating,
    Write(Option<u32>),
    Read,
}

#[derive(Debug)]
struct Message {
    what: What,
    size: usize,
    slot: usize,
    serial: u64,
}

impl Message {
    /// The `n`th of a direction, by `random`.
    fn new(serial: u64, slot: usize, mtu: usize, random: u64) -> Self {
        let imm = Some((random >> 32) as u32);
        let what = match random % 6 {
            0 => What::Send(None),
            1 => What::Send(imm),
            2 => What::SendInvalidating,
            3 => What::Write(None),
            4 => What::Write(imm),
            _ => What::Read,
        };
        let most = SLOT - 2 * GUARD;
        let size = match random >> 8 & 7 {
            0 => 0,
            1 => 1 + (random >> 16) as usize % 100,
            2 => mtu - 1,
            3 => mtu,
            4 => mtu + 1,
            _ => (random >> 16) as usize % most,
        };
        Self {
            what,
            size,
            slot,
            serial,
        }
    }

    fn takes_receive(&self) -> bool {
        !matches!(self.what, What::Write(None) | What::Read)
    }

    fn bytes(&self) -> Vec<u8> {
        pattern(self.serial, self.size)
    }

    /// Where it is sent from, in the first half of a buffer.
    fn at(&self) -> usize {
        self.slot * SLOT + GUARD
    }
}

/// What a storm is set up with: room for the messages of both directions.
#[must_use]
pub fn storm_setup() -> Setup {
    Setup {
        buffer: 2 * 2 * DEPTH * SLOT,
        ..Setup::default()
    }
}

impl<P: Platform> Pair<P> {
    /// Passes `rounds` times eight messages in each direction, of kinds and lengths that `seed`
    /// says, and checks every byte, every completion, that each came once and in order, and
    /// that nothing is written afterwards.
    ///
    /// The pair is set up with [`storm_setup`], on queue pairs 0 of two sides.
    pub fn storm(&mut self, rounds: usize, seed: u64) {
        let ends = [End { side: 0, qp: 0 }, End { side: 1, qp: 0 }];
        let mtu = self.setup.mtu.bytes() as usize;
        for round in 0..rounds {
            self.clear();
            let messages = ends.map(|end| {
                let random = pattern(seed << 32 | (round * 2 + end.side) as u64, 8 * DEPTH);
                let random = random.as_chunks::<8>().0.iter().zip(0..);
                let message = |(random, n): (&[u8; 8], usize)| {
                    let serial = (round * DEPTH + n) as u64 * 2 + end.side as u64;
                    let slot = end.side * DEPTH + n;
                    Message::new(serial, slot, mtu, u64::from_le_bytes(*random))
                };
                random.map(message).collect::<Vec<Message>>()
            });
            self.round(ends, &messages);
        }
        // What comes late does nothing any more.
        self.clear();
        self.during(Ns::from_ms(1));
        for side in 0..2 {
            let side = self.side(side);
            assert_eq!(side.take(), [], "nothing completes twice");
            let memory = side.buffer.read(side.incoming(), 2 * DEPTH * SLOT);
            assert!(memory.iter().all(|byte| *byte == UNTOUCHED), "written late");
        }
    }

    fn clear(&mut self) {
        for side in &mut self.sides {
            let all = [UNTOUCHED; 2 * DEPTH * SLOT];
            side.buffer.write(side.incoming(), &all);
        }
    }

    fn round(&mut self, ends: [End; 2], messages: &[Vec<Message>; 2]) {
        let mut windows = Vec::new();
        for (end, messages) in ends.into_iter().zip(messages) {
            let regions = self.prepare(end, messages);
            for (message, region) in messages.iter().zip(&regions) {
                self.request_one(end, message, region.as_ref().map(|(mr, _)| mr.rkey()));
            }
            windows.push(regions);
        }
        let receives = messages
            .each_ref()
            .map(|m| m.iter().filter(|m| m.takes_receive()).count());
        let wanted = [DEPTH + receives[1], DEPTH + receives[0]];
        self.until("a round of messages", |pair| {
            let sides = pair.sides.iter().zip(wanted);
            sides.into_iter().all(|(side, n)| side.done.len() >= n)
        });
        let done = [0, 1].map(|side| self.side(side).take());
        for (end, messages) in ends.into_iter().zip(messages) {
            let [here, there] = if end.side == 0 {
                [&done[0], &done[1]]
            } else {
                [&done[1], &done[0]]
            };
            check_requests(here, messages);
            check_receives(there, messages, windows.get(end.side).expect("a side"));
        }
        let number = done.each_ref().map(Vec::len);
        assert_eq!(number, wanted, "each completes once");
        for (end, messages) in ends.into_iter().zip(messages) {
            self.check_bytes(end, messages);
        }
        for (end, regions) in ends.into_iter().zip(windows) {
            let peer = self.peer(end);
            for (mr, _memory) in regions.into_iter().flatten() {
                let gone = self.side(peer.side).control.dereg_mr(mr);
                gone.map_err(|(_, error)| error).expect("deregistered");
            }
        }
    }

    /// Fills the memory that messages come from, posts their receives, and makes the regions that
    /// they invalidate.
    fn prepare(&mut self, end: End, messages: &[Message]) -> Vec<Option<(Mr<P>, Buffer)>> {
        let peer = self.peer(end);
        let region = |message: &Message| {
            let source = match message.what {
                What::Read => peer.side,
                _ => end.side,
            };
            self.side(source)
                .buffer
                .write(message.at(), &message.bytes());
            let there = self.side(peer.side);
            if message.takes_receive() {
                let at = there.incoming() + message.at();
                let sges: &[Sge] = match message.what {
                    // Immediate data of a WRITE uses up a receive and none of its bytes.
                    What::Write(_) => &[],
                    _ => &[there.sge(at, SLOT - 2 * GUARD)],
                };
                let posted = there.post_recv(peer.qp, RECEIVE | message.serial, sges);
                posted.expect("a receive");
            }
            (message.what == What::SendInvalidating).then(|| {
                let memory = Buffer::new(4096);
                let window = there
                    .control
                    .reg_mr(&there.pd, memory.bytes(), Setup::ACCESS);
                (window.expect("a region"), memory)
            })
        };
        messages.iter().map(region).collect()
    }

    fn request_one(&mut self, end: End, message: &Message, rkey: Option<u32>) {
        let incoming = self.side(end.side).incoming() + message.at();
        let target: Remote = self.remote(end, incoming);
        let origin: Remote = self.remote(end, message.at());
        let here = self.side(end.side);
        let from = [here.sge(message.at(), message.size)];
        let into = [here.sge(incoming, message.size)];
        let data = Data::Sges(&from);
        let op = match (message.what, rkey) {
            (What::SendInvalidating, Some(rkey)) => Op::SendInv { data, rkey },
            (What::Send(imm), _) => Op::Send { data, imm },
            (What::Write(imm), _) => Op::Write {
                data,
                remote: target,
                imm,
            },
            (What::SendInvalidating | What::Read, _) => Op::Read {
                into: &into,
                remote: origin,
            },
        };
        let request = SendWr {
            wr_id: message.serial,
            op,
            flags: SendFlags::SIGNALED,
        };
        here.post_send(end.qp, &[request]).expect("a request");
    }

    fn check_bytes(&mut self, end: End, messages: &[Message]) {
        let peer = self.peer(end);
        for message in messages {
            let target = match message.what {
                What::Read => end.side,
                _ => peer.side,
            };
            let side = self.side(target);
            let slot = side
                .buffer
                .read(side.incoming() + message.slot * SLOT, SLOT);
            let (front, rest) = slot.split_at(GUARD);
            let (payload, behind) = rest.split_at(message.size);
            assert!(payload == message.bytes(), "{message:?}: payload differs");
            let mut guards = front.iter().chain(behind);
            assert!(
                guards.all(|byte| *byte == UNTOUCHED),
                "{message:?}: bytes outside were written"
            );
        }
    }
}

/// The requests of one direction completed in order.
fn check_requests(done: &[Wc], messages: &[Message]) {
    let requests = done.iter().filter(|wc| wc.wr_id & RECEIVE == 0);
    for (wc, message) in requests.zip(messages) {
        assert_eq!(
            (wc.wr_id, wc.status),
            (message.serial, WcStatus::Success),
            "{message:?}"
        );
    }
}

/// The receives of one direction completed in order, with what belongs to them.
fn check_receives<P: Platform>(
    done: &[Wc],
    messages: &[Message],
    regions: &[Option<(Mr<P>, Buffer)>],
) {
    let receives = done.iter().filter(|wc| wc.wr_id & RECEIVE != 0);
    let taking = messages.iter().zip(regions);
    let taking = taking.filter(|(message, _)| message.takes_receive());
    for (wc, (message, region)) in receives.zip(taking) {
        assert_eq!(
            (wc.wr_id & !RECEIVE, wc.status, wc.byte_len as usize),
            (message.serial, WcStatus::Success, message.size),
            "{message:?}"
        );
        let imm = match message.what {
            What::Send(imm) | What::Write(imm) => imm,
            _ => None,
        };
        let has = wc.flags.contains(WcFlags::WITH_IMM).then_some(wc.imm);
        assert_eq!(has, imm, "{message:?}");
        let invalidated = wc.flags.contains(WcFlags::WITH_INV);
        assert_eq!(invalidated, region.is_some(), "{message:?}");
        if let Some((mr, _)) = region {
            assert_eq!(wc.imm, mr.rkey(), "{message:?}");
        }
    }
}
