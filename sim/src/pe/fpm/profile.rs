//! Sizes and maxima of HMC objects.
//!
//! Those of the E810 are **not in the sources** (control-path 12): a driver reads them with
//! QUERY_FPM_VAL at run time. The simulator's own profiles are files in the format of a card's
//! report (`sim/profiles`), which explain their numbers. They were chosen independently of any
//! driver's planner.
//!
//! Unless the profile says otherwise, a size is at least as large as what the engine itself stores
//! in the object (see `contexts`).

use std::sync::LazyLock;

use e810_card::record::words_from_hex;
use e810_card::{Document, Record};

use super::{KINDS, Kind, Query, TABLE};
use crate::pe::word::bits;

const CARD: &str = include_str!("../../../profiles/card.jsonl");
const SMALL: &str = include_str!("../../../profiles/small.jsonl");
const E810C: &str = include_str!("../../../profiles/e810c.jsonl");

/// A profile of this crate.
#[expect(
    clippy::expect_used,
    reason = "a file of this crate, which its tests have read"
)]
fn built_in(text: &str) -> FpmProfile {
    let document = Document::parse(text.as_bytes()).expect("a report");
    let mut replies = document.records.iter().filter_map(|record| match record {
        Record::Cqp { name, data } if name == "QUERY_FPM_VAL" => words_from_hex(data),
        _ => None,
    });
    let words = replies.next().expect("a reply of QUERY_FPM_VAL");
    FpmProfile::from_reply(&words).expect("a profile")
}

/// Which sizes and maxima QUERY_FPM_VAL reports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FpmProfile {
    limits: [Limits; KINDS],
    /// Entries in a block of a free list's object, for the four lists.
    blocks: [u32; 4],
    /// The word of SRQ, which no driver of this generation reads, as a card reported it.
    srq: Option<u64>,
    max_sds: u32,
    max_ceqs: u32,
    hash_multiplier: u32,
    timer_bucket: u32,
}

impl Default for FpmProfile {
    fn default() -> Self {
        Self::small()
    }
}

/// log2 of the size in bytes, and the largest count.
type Limits = (u32, u64);

/// log2 of the object sizes that a reply does not give, by type number.
#[rustfmt::skip]
const SIZES: [u32; KINDS] = [
    /* QP */    10, /* CQ */  7, /* SRQ */  6, /* HTE */  6, /* ARP */  6, /* APBVT */   13,
    /* MR */     6, /* XF */  6, /* XFFL */ 2, /* Q1 */   6, /* Q1FL */ 2, /* TIMER */    6,
    /* FSIMC */  8, /* FSIAV */ 6, /* PBLE */ 3, /* RRF */ 6, /* RRFFL */ 2, /* HDR */    6,
    /* MD */     6, /* OOISC */ 6, /* OOISCFFL */ 2,
];
/// Types whose objects are in blocks on a free list, in the order of `blocks`.
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
    /// A profile with as much as a card can have.
    #[must_use]
    pub fn card() -> Self {
        static PROFILE: LazyLock<FpmProfile> = LazyLock::new(|| built_in(CARD));
        *PROFILE
    }

    /// 1024 queue pairs: fits a machine with 1 GiB. The default.
    #[must_use]
    pub fn small() -> Self {
        static PROFILE: LazyLock<FpmProfile> = LazyLock::new(|| built_in(SMALL));
        *PROFILE
    }

    /// An E810-C as published numbers show it (field-evidence 4), all of it `[inf e810c_limits]`.
    #[must_use]
    pub fn e810c() -> Self {
        static PROFILE: LazyLock<FpmProfile> = LazyLock::new(|| built_in(E810C));
        *PROFILE
    }

    /// The profile of a card that answered QUERY_FPM_VAL with `reply` (control-path 6.3). Missing
    /// words read as 0. Sizes that the reply does not give are those of the reference.
    ///
    /// # Errors
    /// [`NoProfile`], for a reply that no card gives.
    pub fn from_reply(reply: &[u64]) -> Result<Self, NoProfile> {
        let word = |offset: usize| reply.get(offset / 8).copied().unwrap_or(0);
        let mut profile = Self {
            limits: SIZES.map(|log2| (log2, 0)),
            blocks: [1; 4],
            srq: None,
            max_sds: 0,
            max_ceqs: 0,
            hash_multiplier: 0,
            timer_bucket: 0,
        };
        for row in &TABLE {
            let Some(limits) = profile.limits.get_mut(row.kind as usize) else {
                continue;
            };
            match row.query {
                // Drivers request one object of the type that no reply names (control-path 6.3).
                Query::None => limits.1 = 1,
                Query::Object(at) if row.kind.is_unread() => {
                    profile.srq = Some(word(at)).filter(|word| *word != 0);
                }
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

    /// Entries in a block of a free list, at least 1: a card may report 0 for a list that it does
    /// not use.
    pub(crate) fn block(self, list: Kind) -> u64 {
        self.reported_block(list).max(1)
    }

    /// The same as it is in the reply; 0 for other types.
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
