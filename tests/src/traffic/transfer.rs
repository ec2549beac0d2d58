//! One message, and everything that can be checked about it.

use e810::{Data, Op, Platform, Remote, SendFlags, SendWr, Sge, Wc, WcFlags, WcOpcode, WcStatus};

use super::{End, Pair, pattern};

/// The operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Send,
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
}

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// The operation.
    pub kind: Kind,
    /// Bytes.
    pub size: usize,
    /// Immediate data (not for a READ).
    pub imm: Option<u32>,
    /// SGEs (or inline pieces) that the requester cuts it into.
    pub pieces: usize,
    /// Copied into the work queue.
    pub inline: bool,
    /// Offset in both halves of the buffers.
    pub offset: usize,
}

impl Transfer {
    /// A message in one piece.
    #[must_use]
    pub const fn new(kind: Kind, size: usize) -> Self {
        Self {
            kind,
            size,
            imm: None,
            pieces: 1,
            inline: false,
            offset: 64,
        }
    }

    fn takes_receive(&self) -> bool {
        self.kind == Kind::Send || self.imm.is_some()
    }
}

/// Bytes before and behind the message that must not change.
const GUARD: usize = 64;

/// Cuts `size` into `pieces` parts of uneven length: offset and length.
fn cut(size: usize, pieces: usize) -> Vec<(usize, usize)> {
    let mut at = 0;
    (1..=pieces)
        .map(|n| {
            let end = if n == pieces {
                size
            } else {
                // Uneven on purpose.
                (size * n / pieces).saturating_sub(n % 3).max(at)
            };
            let part = (at, end - at);
            at = end;
            part
        })
        .collect()
}

impl<P: Platform> Pair<P> {
    /// Passes one message from (or, for a READ, to) `from`, and checks every
    /// byte and both completions.
    pub fn transfer(&mut self, from: End, transfer: &Transfer) {
        let Transfer { size, offset, .. } = *transfer;
        self.serial += 1;
        let serial = self.serial;
        let bytes = pattern(serial, size);
        let peer = self.peer(from);
        let (source, target) = match transfer.kind {
            Kind::Read => (peer, from),
            Kind::Send | Kind::Write => (from, peer),
        };
        self.side(source.side).buffer.write(offset, &bytes);
        let into = self.side(target.side).incoming() + offset;
        let guarded = vec![0xA5; size + 2 * GUARD];
        self.side(target.side).buffer.write(into - GUARD, &guarded);

        if transfer.takes_receive() {
            let there = self.side(peer.side);
            // Immediate data of a WRITE uses up a receive and none of its bytes.
            let sges: Vec<Sge> = match transfer.kind {
                Kind::Send => cut(size, transfer.pieces.min(4))
                    .into_iter()
                    .map(|(at, length)| there.sge(into + at, length))
                    .collect(),
                _ => Vec::new(),
            };
            there
                .post_recv(peer.qp, serial | 1 << 63, &sges)
                .expect("a receive");
        }
        self.request(from, transfer, serial, &bytes);

        // Both ends may share a side, even a CQ.
        let is_receive = |wc: &Wc| wc.wr_id >> 63 == 1;
        let wanted = 1 + usize::from(transfer.takes_receive());
        self.until(&format!("{transfer:?}"), |pair| {
            pair.sides.iter().map(|side| side.done.len()).sum::<usize>() >= wanted
        });
        for end in [from, peer] {
            let number = self.number(end);
            let done = self.side(end.side).take_of(number);
            let expected = match end == from {
                true => 1,
                false => usize::from(transfer.takes_receive()),
            };
            assert_eq!(done.len(), expected, "{transfer:?}: {done:?}");
            for wc in done {
                assert_eq!(wc.status, WcStatus::Success, "{transfer:?}");
                assert_eq!(is_receive(&wc), end != from);
                assert_eq!(wc.wr_id & !(1 << 63), serial);
                assert_eq!(wc.qp_num, number);
                check(transfer, &wc, end != from);
            }
        }
        let arrived = self
            .side(target.side)
            .buffer
            .read(into - GUARD, size + 2 * GUARD);
        let (front, rest) = arrived.split_at(GUARD);
        let (payload, behind) = rest.split_at(size);
        assert!(payload == bytes, "{transfer:?}: payload differs");
        assert!(
            front.iter().chain(behind).all(|byte| *byte == 0xA5),
            "{transfer:?}: bytes outside were written"
        );
    }

    /// Number of the queue pair at an end.
    #[must_use]
    pub fn number(&mut self, end: End) -> u32 {
        let qp = self.side(end.side).qps.get(end.qp).expect("a QP");
        qp.number().get()
    }

    /// Memory of the peer of `from`, `offset` bytes into its buffer.
    #[must_use]
    pub fn remote(&mut self, from: End, offset: usize) -> Remote {
        let peer = self.peer(from);
        let mr = &self.side(peer.side).mr;
        Remote {
            addr: mr.address() + offset as u64,
            rkey: mr.rkey(),
        }
    }

    fn request(&mut self, from: End, transfer: &Transfer, serial: u64, bytes: &[u8]) {
        let Transfer {
            size, offset, imm, ..
        } = *transfer;
        let incoming = self.side(from.side).incoming() + offset;
        let target = self.remote(from, incoming);
        let origin = self.remote(from, offset);
        let here = self.side(from.side);
        let base = match transfer.kind {
            Kind::Read => incoming,
            Kind::Send | Kind::Write => offset,
        };
        let parts = cut(size, transfer.pieces);
        let sges: Vec<Sge> = parts
            .iter()
            .map(|(at, length)| here.sge(base + at, *length))
            .collect();
        let pieces: Vec<&[u8]> = parts
            .iter()
            .map(|(at, length)| bytes.get(*at..at + length).unwrap_or_default())
            .collect();
        let data = match transfer.inline {
            true => Data::Inline(&pieces),
            false => Data::Sges(&sges),
        };
        let op = match transfer.kind {
            Kind::Send => Op::Send { data, imm },
            Kind::Write => Op::Write {
                data,
                remote: target,
                imm,
            },
            Kind::Read => Op::Read {
                into: &sges,
                remote: origin,
            },
        };
        let request = SendWr {
            wr_id: serial,
            op,
            flags: SendFlags::SIGNALED,
        };
        here.post_send(from.qp, &[request]).expect("a request");
    }
}

fn check(transfer: &Transfer, wc: &Wc, is_receive: bool) {
    let opcode = match (transfer.kind, is_receive) {
        (Kind::Send, false) => WcOpcode::Send,
        (Kind::Write, false) => WcOpcode::RdmaWrite,
        (Kind::Read, _) => WcOpcode::RdmaRead,
        (Kind::Send, true) => WcOpcode::Recv,
        (Kind::Write, true) => WcOpcode::RecvRdmaWithImm,
    };
    assert_eq!(wc.opcode, opcode, "{transfer:?}");
    assert_eq!(wc.byte_len as usize, transfer.size, "{transfer:?}");
    let imm = transfer.imm.filter(|_| is_receive);
    assert_eq!(
        wc.flags.contains(WcFlags::WITH_IMM).then_some(wc.imm),
        imm,
        "{transfer:?}"
    );
}
