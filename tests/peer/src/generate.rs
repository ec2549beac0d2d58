//! Requests by seed.

use e810_datapath::wr::MwBind;
use e810_datapath::{QpType, Remote, Sge};

use crate::request::{Kind, Payload, Request};

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 32 bits.
    pub fn word(&mut self) -> u32 {
        (self.bits() >> 32) as u32
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.word()) * u64::from(bound)) >> 32) as u32
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }
}

/// Limits of the queue that requests are for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Kind of queue pair.
    pub qp_type: QpType,
    pub max_sge: u32,
    /// Most inline bytes.
    pub max_inline: u32,
}

/// Any request for a queue of these limits; one in about 20 is beyond them.
#[must_use]
pub fn request(rng: &mut Rng, limits: &Limits, wr_id: u64) -> Request {
    let beyond = u32::from(rng.one_in(20));
    let kind = match (limits.qp_type, rng.below(16)) {
        (QpType::Ud, _) => Kind::Datagram {
            qpn: rng.word() >> 8,
            // With bit 31 set it means the queue pair's own to us, and nothing
            // special to the library.
            qkey: rng.word() >> 1,
        },
        (_, 0..=5) => Kind::Send,
        (_, 6) => Kind::SendInv(rng.word()),
        (_, 7..=10) => Kind::Write(remote(rng)),
        (_, 11..=13) => Kind::Read(remote(rng)),
        (_, 14) => Kind::LocalInv(rng.word()),
        _ => Kind::Bind(bind(rng)),
    };
    let bare = matches!(kind, Kind::LocalInv(_) | Kind::Bind(_));
    let takes_inline = !bare && !matches!(kind, Kind::Read(_));
    let takes_imm = takes_inline && !matches!(kind, Kind::SendInv(_));
    let pieces = rng.below(limits.max_sge + 1 + beyond);
    let payload = if bare {
        Payload::Sges(Vec::new())
    } else if takes_inline && limits.max_inline > 0 && rng.one_in(3) {
        let length = rng.below(limits.max_inline + 1 + 8 * beyond);
        Payload::Inline(cut(rng, length, pieces.max(1)))
    } else {
        Payload::Sges((0..pieces).map(|_| sge(rng)).collect())
    };
    Request {
        wr_id,
        kind,
        payload,
        imm: (takes_imm && rng.one_in(3)).then(|| rng.word()),
        signaled: rng.below(4) > 0,
        fence: rng.one_in(5),
        solicited: rng.one_in(4),
    }
}

fn remote(rng: &mut Rng) -> Remote {
    Remote {
        addr: rng.bits(),
        rkey: rng.word(),
    }
}

/// An SGE of at most 2^24 bytes: 13 of them stay below the longest message.
fn sge(rng: &mut Rng) -> Sge {
    Sge {
        addr: rng.bits(),
        lkey: rng.word(),
        length: rng.word() >> (8 + rng.below(24)),
    }
}

fn bind(rng: &mut Rng) -> MwBind {
    let zero_based = rng.one_in(2);
    MwBind {
        mw_stag: rng.word(),
        mr_stag: rng.word(),
        addr: if zero_based { 0 } else { rng.bits() },
        length: rng.bits() >> 20,
        zero_based,
        type_1: true,
        remote_read: rng.one_in(2),
        remote_write: rng.one_in(2),
    }
}

/// `length` random bytes in `pieces` pieces, some of them empty.
fn cut(rng: &mut Rng, length: u32, pieces: u32) -> Vec<Vec<u8>> {
    let mut left = length;
    (1..=pieces)
        .map(|piece| {
            let bytes = if piece == pieces {
                left
            } else {
                rng.below(left + 1)
            };
            left -= bytes;
            (0..bytes).map(|_| rng.word() as u8).collect()
        })
        .collect()
}
