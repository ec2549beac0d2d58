//! Requests with memory that is there, and what must come of them.

use e810_datapath::{Remote, Sge};
use e810_peer::LibraryMr;
use e810_peer::generate::Rng;
use e810_peer::request::{Kind, Payload, Request};
use e810_verbs::abi::constants::access;
use e810_verbs::abi::work::Wc;

use crate::end::{BYTES, End, INLINE, QKEY, SGES};

/// Longest message; several packets of RC, one datagram.
const LONGEST: u32 = 5000;
const LONGEST_DATAGRAM: u32 = 1024;
/// What memory is filled with before: none of it may be touched but where a
/// message goes.
const FILLER: u8 = 0xEE;
/// Bytes before the message in a datagram's receive.
const GRH: usize = 40;

/// Next free byte of an end's memory, in a batch.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    next: usize,
}

impl Places {
    /// A place, and a gap after it that must stay as it is.
    fn take(&mut self, rng: &mut Rng, bytes: usize) -> usize {
        let place = self.next + rng.below(16) as usize;
        self.next = place + bytes + 1;
        assert!(self.next <= BYTES);
        place
    }
}

/// Bytes that must be somewhere afterwards.
#[derive(Debug)]
struct Expected {
    end: usize,
    offset: usize,
    bytes: Vec<u8>,
}

/// What a completion must say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Says {
    wr_id: u64,
    opcode: i32,
    byte_len: u32,
    flags: u32,
    /// Immediate data, or the invalidated key.
    value: u32,
    src_qp: u32,
}

impl Says {
    pub(crate) fn of(wc: &Wc) -> Self {
        assert_eq!(wc.status, 0, "{wc:?}");
        Self {
            wr_id: wc.wr_id,
            opcode: wc.opcode,
            byte_len: wc.byte_len,
            flags: wc.wc_flags,
            value: match wc.wc_flags & 0b1010 {
                0b10 => u32::from_be(wc.imm_data),
                0b1000 => wc.imm_data,
                _ => 0,
            },
            src_qp: wc.src_qp,
        }
    }
}

/// A list of requests from one end, and what must come of it.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) list: Vec<Request>,
    /// SGEs of the receives that the other end needs, in order.
    pub(crate) receives: Vec<(u64, Vec<Sge>)>,
    pub(crate) sends_say: Vec<Says>,
    pub(crate) receives_say: Vec<Says>,
    bytes: Vec<Expected>,
    /// Where headers of datagrams come: end and offset.
    headers: Vec<(usize, usize)>,
    /// Regions that are gone afterwards, and whose.
    pub(crate) gone: Vec<(usize, LibraryMr)>,
    touched: [usize; 2],
}

/// `ibv_wc_opcode`.
const WC_SEND: i32 = 0;
const WC_WRITE: i32 = 1;
const WC_READ: i32 = 2;
const WC_LOCAL_INV: i32 = 6;
const WC_RECV: i32 = 128;
/// `ibv_wc_flags`.
const WITH_GRH: u32 = 1;
const WITH_IMM: u32 = 2;
const WITH_INV: u32 = 8;

struct Making<'a> {
    rng: &'a mut Rng,
    ends: &'a [End; 2],
    /// Index of the end that sends.
    from: usize,
    datagrams: bool,
    places: [Places; 2],
    batch: Batch,
}

impl Batch {
    /// `count` requests from end `from`; fills both memories.
    pub(crate) fn new(
        rng: &mut Rng,
        ends: &[End; 2],
        from: usize,
        datagrams: bool,
        count: u64,
        first_id: u64,
    ) -> Self {
        for end in ends {
            end.memory.write(0, &vec![FILLER; BYTES]).unwrap();
        }
        let mut making = Making {
            rng,
            ends,
            from,
            datagrams,
            places: [Places::default(); 2],
            batch: Self::default(),
        };
        for n in 0..count {
            // The last one says when all are done.
            making.one(first_id + n, n + 1 == count);
        }
        let mut batch = making.batch;
        batch.touched = making.places.map(|places| places.next);
        batch
    }

    /// Compares both memories, every byte up to the last one used.
    pub(crate) fn check_memory(&self, ends: &[End; 2]) {
        for (n, end) in ends.iter().enumerate() {
            let mut expected = vec![FILLER; self.touched[n]];
            for one in self.bytes.iter().filter(|one| one.end == n) {
                let range = one.offset..one.offset + one.bytes.len();
                expected[range].copy_from_slice(&one.bytes);
            }
            let found = end.read(0, self.touched[n]);
            for &(_, offset) in self.headers.iter().filter(|(end, _)| *end == n) {
                // The end of the 40 bytes is an IPv4 header; its addresses are
                // the last eight.
                let header = offset..offset + GRH;
                let addresses = [ends[1 - n].address().ip, end.address().ip];
                let octets = addresses.map(|address| address.octets()).concat();
                assert_eq!(found[header.end - 8..header.end], octets);
                expected[header.clone()].copy_from_slice(&found[header]);
            }
            let difference = (0..found.len()).find(|&at| found[at] != expected[at]);
            assert_eq!(difference, None, "end {n}: {:#?}", self.list);
        }
    }
}

impl Making<'_> {
    fn far(&self) -> usize {
        1 - self.from
    }

    fn random(&mut self, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|_| self.rng.word() as u8).collect()
    }

    /// Places for `data` at an end, in up to `pieces` pieces, each expected to
    /// hold its part in the end. With `now` they hold it already.
    fn pieces(&mut self, end: usize, data: &[u8], pieces: u32, now: bool) -> Vec<Sge> {
        let mut sges = Vec::new();
        let mut left = data;
        for piece in 1..=pieces {
            let bytes = if piece == pieces {
                left.len()
            } else {
                self.rng.below(left.len() as u32 + 1) as usize
            };
            // A piece of no bytes has no meaning of its own (docs of posting).
            if bytes == 0 && piece != pieces {
                continue;
            }
            let (part, rest) = left.split_at(bytes);
            left = rest;
            let offset = self.places[end].take(self.rng, bytes);
            if now {
                self.ends[end].memory.write(offset, part).unwrap();
            }
            self.batch.bytes.push(Expected {
                end,
                offset,
                bytes: part.to_vec(),
            });
            sges.push(self.ends[end].sge(offset, bytes));
        }
        sges
    }

    /// A receive of the other end for a message; its completion.
    fn receive(&mut self, wr_id: u64, data: &[u8], flags: u32, value: u32) {
        let far = self.far();
        let longer = self.rng.below(20) as usize;
        let mut pieces = 1 + self.rng.below(SGES - 1);
        let mut sges = Vec::new();
        let mut bytes = data.len();
        let (mut grh, mut src_qp) = (0, self.ends[far].qp.id);
        if self.datagrams {
            // In a piece of its own.
            let offset = self.places[far].take(self.rng, GRH);
            self.batch.headers.push((far, offset));
            sges.push(self.ends[far].sge(offset, GRH));
            pieces = pieces.min(SGES - 2);
            bytes += GRH;
            (grh, src_qp) = (WITH_GRH, self.ends[self.from].qp.id);
        }
        sges.extend(self.pieces(far, data, pieces, false));
        if longer > 0 {
            let offset = self.places[far].take(self.rng, longer);
            sges.push(self.ends[far].sge(offset, longer));
        }
        self.batch.receives.push((wr_id, sges));
        self.batch.receives_say.push(Says {
            wr_id,
            // The library of this version does not tell writes with immediate
            // data from sends (docs/hardware-notes.md).
            opcode: WC_RECV,
            byte_len: bytes as u32,
            flags: flags | grh,
            value,
            src_qp,
        });
    }

    /// A region of an end that a request makes invalid.
    fn victim(&mut self, end: usize) -> u32 {
        let offset = self.places[end].take(self.rng, 64);
        let memory = self.ends[end].memory.window(offset, 64).unwrap();
        let node = &self.ends[end].node;
        let rights = (access::LOCAL_WRITE | access::REMOTE_WRITE) as i32;
        let mr = node.opened.reg_mr(node.pd, memory, rights).unwrap();
        let key = mr.key();
        self.batch.gone.push((end, mr));
        key
    }

    fn one(&mut self, wr_id: u64, last: bool) {
        let (near, far) = (self.from, self.far());
        let kind = if self.datagrams {
            7
        } else {
            self.rng.below(13).min(6)
        };
        let longest = if self.datagrams {
            LONGEST_DATAGRAM
        } else {
            LONGEST
        };
        let inline = !matches!(kind, 1 | 2) && self.rng.one_in(3);
        let bound = if inline { INLINE } else { longest };
        let length = if kind == 1 {
            0
        } else {
            self.rng.below(bound + 1)
        };
        let data = self.random(length as usize);
        let imm = (!matches!(kind, 0..=2) && self.rng.one_in(3)).then(|| self.rng.word());
        let (with_imm, value) = (imm.map_or(0, |_| WITH_IMM), imm.unwrap_or(0));
        let pieces = 1 + self.rng.below(SGES);
        let payload = match kind {
            1 => Payload::Sges(Vec::new()),
            // Read into: expected, not there yet.
            2 => Payload::Sges(self.pieces(near, &data, pieces, false)),
            _ if inline => Payload::Inline(vec![data.clone()]),
            _ => Payload::Sges(self.pieces(near, &data, pieces, true)),
        };
        let (kind, opcode) = match kind {
            0 => {
                let key = self.victim(far);
                self.receive(wr_id, &data, WITH_INV, key);
                (Kind::SendInv(key), WC_SEND)
            }
            1 => (Kind::LocalInv(self.victim(near)), WC_LOCAL_INV),
            2 => (Kind::Read(self.remote(&data, true)), WC_READ),
            3 | 4 => {
                let remote = self.remote(&data, false);
                if imm.is_some() {
                    self.consume(wr_id, length, value);
                }
                (Kind::Write(remote), WC_WRITE)
            }
            7 => {
                self.receive(wr_id, &data, with_imm, value);
                let (qpn, qkey) = (self.ends[far].qp.id, QKEY);
                (Kind::Datagram { qpn, qkey }, WC_SEND)
            }
            _ => {
                self.receive(wr_id, &data, with_imm, value);
                (Kind::Send, WC_SEND)
            }
        };
        let signaled = last || self.rng.below(3) > 0;
        if signaled {
            self.batch.sends_say.push(Says {
                wr_id,
                opcode,
                byte_len: length,
                flags: self.grh(),
                value: 0,
                src_qp: self.source(),
            });
        }
        self.batch.list.push(Request {
            wr_id,
            kind,
            payload,
            imm,
            signaled,
            fence: self.rng.one_in(4),
            solicited: self.rng.one_in(4),
        });
    }

    /// The library sets the GRH flag on every completion of a datagram QP.
    fn grh(&self) -> u32 {
        if self.datagrams { WITH_GRH } else { 0 }
    }

    /// The source QP is the own one, but for datagrams, where it is what the
    /// device put there: nothing on a send.
    fn source(&self) -> u32 {
        if self.datagrams {
            0
        } else {
            self.ends[self.from].qp.id
        }
    }

    /// A place at the other end for `data`, which is there `now`.
    fn remote(&mut self, data: &[u8], now: bool) -> Remote {
        let far = self.far();
        let sges = self.pieces(far, data, 1, now);
        Remote {
            addr: sges[0].addr,
            rkey: self.ends[far].mr.key(),
        }
    }

    /// A receive that a write with immediate data uses up.
    fn consume(&mut self, wr_id: u64, length: u32, value: u32) {
        let far = self.far();
        let offset = self.places[far].take(self.rng, 8);
        let sges = vec![self.ends[far].sge(offset, 8)];
        self.batch.receives.push((wr_id, sges));
        self.batch.receives_say.push(Says {
            wr_id,
            opcode: WC_RECV,
            byte_len: length,
            flags: WITH_IMM,
            value,
            src_qp: self.ends[far].qp.id,
        });
    }
}
