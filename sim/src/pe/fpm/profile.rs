//! Sizes and maxima of HMC objects.
//!
//! Those of the E810 are **not in the sources** (control-path 12): a driver reads them with QUERY_FPM_VAL at run
//! time. All numbers here are this model's own, chosen independently of any driver's planner.
//!
//! Unless the profile says otherwise, a size is at least what the engine itself stores in the object (see
//! `contexts`).

use super::{KINDS, Kind, Query, TABLE};
use crate::pe::word::bits;

/// Which sizes and maxima QUERY_FPM_VAL reports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FpmProfile {
    limits: [Limits; KINDS],
    /// Entries of a free list's object in a block, for the four lists.
    blocks: [u32; 4],
    /// The word of SRQ, which no driver of this generation reads, as a card had it.
    srq: Option<u64>,
    max_sds: u32,
    max_ceqs: u32,
    hash_multiplier: u32,
    timer_bucket: u32,
}

impl Default for FpmProfile {
    fn default() -> Self {
        Self::SMALL
    }
}

/// log2 of the size in bytes, and the largest count.
type Limits = (u32, u64);

/// By number of the object type.
#[rustfmt::skip]
const CARD: [Limits; KINDS] = [
    /* QP */    (10, 262_144), /* CQ */       (7, 524_288),   /* SRQ */    (6, 0),
    /* HTE */   (6, 524_288),  /* ARP */      (6, 4_096),     /* APBVT */  (13, 1),
    /* MR */    (6, 524_288),  /* XF */       (6, 1 << 23),   /* XFFL */   (2, 1 << 20),
    /* Q1 */    (6, 1 << 26),  /* Q1FL */     (2, 1 << 23),   /* TIMER */  (6, 1 << 19),
    /* FSIMC */ (8, 4_096),    /* FSIAV */    (6, 131_072),   /* PBLE */   (3, 1 << 28),
    /* RRF */   (6, 1 << 23),  /* RRFFL */    (2, 1 << 20),   /* HDR */    (6, 262_144),
    /* MD */    (6, 65_536),   /* OOISC */    (6, 1 << 23),   /* OOISCFFL */ (2, 1 << 20),
];

#[rustfmt::skip]
const SMALL: [Limits; KINDS] = [
    /* QP */    (10, 1_024),   /* CQ */       (7, 2_048),     /* SRQ */    (6, 0),
    /* HTE */   (6, 4_096),    /* ARP */      (6, 256),       /* APBVT */  (13, 1),
    /* MR */    (6, 16_384),   /* XF */       (6, 65_536),    /* XFFL */   (2, 8_192),
    /* Q1 */    (6, 1 << 18),  /* Q1FL */     (2, 1 << 15),   /* TIMER */  (6, 8_192),
    /* FSIMC */ (8, 512),      /* FSIAV */    (6, 1_024),     /* PBLE */   (3, 1 << 20),
    /* RRF */   (6, 32_768),   /* RRFFL */    (2, 4_096),     /* HDR */    (6, 1_024),
    /* MD */    (6, 4_096),    /* OOISC */    (6, 32_768),    /* OOISCFFL */ (2, 4_096),
];

/// Where the numbers come from (each `[inf]`):
///
/// * QP: Intel's largest setting gives 131,068 queue pairs. Linux's loop halves regions in its first pass and queue
///   pairs in its second, so that 65,536 and 2,097,152 come from 131,072 and 4,194,304 in exactly these two.
/// * MR: 4,194,304 regions in 210 MB leave at most 50 bytes to each, so 32; with 64 they alone take 268 MB.
/// * Q1, XF, RRF: what queue pairs take between 512 and 4096 of them, (210 - 55) MB less the regions' share. Q1 has 256
///   entries a queue pair and is most of it; 64 bytes for its entries leave 16 for the others'.
/// * What is left, 22 MB at any count: 131,072 address vectors (as reported), MD.
/// * SDs: more than what the third pass needs and 129 fewer than the second, so 1,022 to 1,616 with these sizes.
/// * FSIMC: the 65,536 groups that Linux reports are its number of queue pairs (control-path 3.2); indexes are below
///   4096, and the register has 14 bits.
#[rustfmt::skip]
const E810C: [Limits; KINDS] = [
    /* QP */    (10, 131_072), /* CQ */       (7, 262_144),   /* SRQ */    (6, 0),
    /* HTE */   (6, 262_144),  /* ARP */      (6, 4_096),     /* APBVT */  (13, 1),
    /* MR */    (5, 1 << 22),  /* XF */       (4, 1 << 22),   /* XFFL */   (2, 1 << 19),
    /* Q1 */    (6, 1 << 25),  /* Q1FL */     (2, 1 << 22),   /* TIMER */  (6, 1 << 17),
    /* FSIMC */ (8, 4_096),    /* FSIAV */    (7, 131_072),   /* PBLE */   (3, 1 << 28),
    /* RRF */   (4, 1 << 22),  /* RRFFL */    (2, 1 << 19),   /* HDR */    (5, 131_072),
    /* MD */    (6, 65_536),   /* OOISC */    (4, 1 << 18),   /* OOISCFFL */ (2, 1 << 15),
];

/// Blocks of the free lists: not in the sources.
const BLOCKS: [u32; 4] = [8; 4];
/// Types whose objects stand in blocks on a free list, in the order of `blocks`.
const FREE_LISTS: [Kind; 4] = [Kind::XfFl, Kind::Q1Fl, Kind::RrfFl, Kind::OoiscFl];

/// Why a reply of QUERY_FPM_VAL is no profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoProfile {
    /// The size of an object is more than 2^20 bytes.
    #[error("{object}: objects of 2^{log2} bytes")]
    Size {
        /// The type of object.
        object: &'static str,
        /// log2 of the size, as reported.
        log2: u64,
    },
}

impl FpmProfile {
    /// As much as a card may have: maxima at which Linux's formula (control-path 6.5) gives 256 Ki queue pairs and 5 to
    /// 6 GiB of static objects, and about 55 MB when it is held to 128 queue pairs.
    pub const CARD: Self = Self {
        limits: CARD,
        blocks: BLOCKS,
        srq: None,
        // A little less than everything at its maximum, so that Linux's shrink loop has work.
        max_sds: 3_776,
        max_ceqs: 512,
        hash_multiplier: 1,
        timer_bucket: 512,
    };

    /// 1024 queue pairs: fits a machine with 1 GiB. The default.
    pub const SMALL: Self = Self {
        limits: SMALL,
        blocks: BLOCKS,
        srq: None,
        max_sds: 64,
        max_ceqs: 32,
        hash_multiplier: 1,
        timer_bucket: 256,
    };

    /// An E810-C as published numbers show it (field-evidence 4): Linux's formula gives the 65,536 queue pairs, 131,072
    /// completion queues and 2,097,152 regions that in-tree drivers report, and about the memory that Intel's README
    /// says of its own counts: 210 MB at 4096 queue pairs and 4,194,304 regions, 55 MB at 512 and 524,288.
    ///
    /// How each number follows is beside the table of this profile. All of it is `[inf]`.
    pub const E810C: Self = Self {
        limits: E810C,
        blocks: BLOCKS,
        srq: None,
        max_sds: 1_536,
        max_ceqs: 512,
        hash_multiplier: 1,
        timer_bucket: 256,
    };

    /// The profile of a card that answered QUERY_FPM_VAL with `reply` (control-path 6.3). Words that are not there
    /// read as 0. Sizes that the reply does not give are those of the reference.
    ///
    /// # Errors
    /// [`NoProfile`], for a reply that no card gives.
    pub fn from_reply(reply: &[u64]) -> Result<Self, NoProfile> {
        let word = |offset: usize| reply.get(offset / 8).copied().unwrap_or(0);
        let mut profile = Self::SMALL;
        for row in &TABLE {
            let Some(limits) = profile.limits.get_mut(row.kind as usize) else {
                continue;
            };
            match row.query {
                Query::None => {}
                Query::Object(at) if row.kind.is_unread() => profile.srq = Some(word(at)),
                Query::Object(at) => {
                    let log2 = bits(word(at), 63, 32);
                    if log2 > 20 {
                        let object = row.name;
                        return Err(NoProfile::Size { object, log2 });
                    }
                    *limits = (log2 as u32, bits(word(at), 31, 0));
                }
                Query::FreeList(at) => {
                    limits.1 = bits(word(at), 31, 0);
                    let list = FREE_LISTS.iter().position(|kind| *kind == row.kind);
                    if let Some(block) = list.and_then(|list| profile.blocks.get_mut(list)) {
                        *block = bits(word(at), 63, 32) as u32;
                    }
                }
                Query::Count(at) => limits.1 = bits(word(at), 31, 0),
            }
        }
        profile.max_sds = bits(word(0), 44, 32) as u32;
        profile.max_ceqs = bits(word(120), 9, 0) as u32;
        profile.hash_multiplier = bits(word(120), 19, 16) as u32;
        profile.timer_bucket = bits(word(120), 47, 32) as u32;
        Ok(profile)
    }

    fn limits(self, kind: Kind) -> Limits {
        self.limits.get(kind as usize).copied().unwrap_or_default()
    }

    /// log2 of the size of one object in bytes.
    pub(super) fn log2(self, kind: Kind) -> u32 {
        self.limits(kind).0
    }

    /// Size of one object in bytes.
    pub(crate) fn bytes(self, kind: Kind) -> u64 {
        1 << self.log2(kind)
    }

    /// The largest count a commit may ask for.
    pub(crate) fn maximum(self, kind: Kind) -> u64 {
        self.limits(kind).1
    }

    /// Entries in a block of a free list, at least 1: a card may say 0 of a list that it does not use.
    pub(crate) fn block(self, list: Kind) -> u64 {
        self.reported_block(list).max(1)
    }

    /// The same as the reply has it; 0 for other types.
    pub(super) fn reported_block(self, list: Kind) -> u64 {
        let place = FREE_LISTS.iter().position(|kind| *kind == list);
        let block = place.and_then(|place| self.blocks.get(place));
        block.map_or(0, |block| (*block).into())
    }

    /// The word of SRQ, if a card's is known.
    pub(super) fn srq(self) -> Option<u64> {
        self.srq
    }

    /// SDs this function has (MAX_PE_SDS).
    pub(crate) fn max_sds(self) -> u32 {
        self.max_sds
    }

    /// CEQs this function has (MAX_CEQS).
    pub(crate) fn max_ceqs(self) -> u32 {
        self.max_ceqs
    }

    /// HTMULTIPLIER.
    pub(crate) fn hash_multiplier(self) -> u32 {
        self.hash_multiplier
    }

    /// TIMERBUCKET.
    pub(crate) fn timer_bucket(self) -> u32 {
        self.timer_bucket
    }
}
