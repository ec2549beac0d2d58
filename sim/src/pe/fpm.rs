//! The FPM table: size and count of each HMC object type, and the base addresses that a commit
//! assigns.
//!
//! Sizes and maxima are those of a profile (see [`FpmProfile`]).

mod profile;

pub use profile::{FpmProfile, NoProfile};

use crate::variation::{DerivedMaxima, PackedObjects, UnreadWords, Variation};

use super::word::{bits, put};

/// HMC object types; the discriminant is the number of control-path 6.2.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Kind {
    Qp = 0,
    Cq = 1,
    Srq = 2,
    Hte = 3,
    Arp = 4,
    Apbvt = 5,
    Mr = 6,
    Xf = 7,
    XfFl = 8,
    Q1 = 9,
    Q1Fl = 10,
    Timer = 11,
    FsiMc = 12,
    FsiAv = 13,
    Pble = 14,
    Rrf = 15,
    RrfFl = 16,
    Hdr = 17,
    Md = 18,
    Ooisc = 19,
    OoiscFl = 20,
}

/// Number of object types.
pub(crate) const KINDS: usize = 21;

/// How an object type appears in the query reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Query {
    None,
    /// \[31:0\] maximum, \[63:32\] log2 of the size, at this byte offset.
    Object(usize),
    /// \[31:0\] maximum, \[63:32\] block size of the list's entries, at this byte offset.
    FreeList(usize),
    /// \[31:0\] maximum only.
    Count(usize),
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
struct Row {
    kind: Kind,
    name: &'static str,
    query: Query,
    /// Byte offset in the commit buffer (control-path 6.2).
    commit: usize,
    /// Bits of the count in the commit reply (QP \[20:0\], CQ \[19:0\], others \[31:0\]).
    count_bits: u32,
}

/// Shorthand that keeps one object type on one line of the table below.
const fn row(kind: Kind, name: &'static str, query: Query, commit: usize, count_bits: u32) -> Row {
    Row {
        kind,
        name,
        query,
        commit,
        count_bits,
    }
}

use Kind as K;
use Query::{Count, FreeList, None as Absent, Object};

/// Every object type, in the order of control-path 6.2, which is also the order in which a
/// commit lays them out.
/// Offsets are from control-path 6.2 and 6.3.
#[rustfmt::skip]
const TABLE: [Row; KINDS] = [
    //  kind       name        query           commit bits
    row(K::Qp,     "QP",       Object(8),      0,     21),
    row(K::Cq,     "CQ",       Object(16),     8,     20),
    row(K::Srq,    "SRQ",      Object(24),     16,    32),
    row(K::Hte,    "HTE",      Object(32),     24,    32),
    row(K::Arp,    "ARP",      Object(40),     32,    32),
    row(K::Apbvt,  "APBVT",    Absent,         40,    32),
    row(K::Mr,     "MR",       Object(48),     48,    32),
    row(K::Xf,     "XF",       Object(56),     56,    32),
    row(K::XfFl,   "XFFL",     FreeList(64),   64,    32),
    row(K::Q1,     "Q1",       Object(72),     72,    32),
    row(K::Q1Fl,   "Q1FL",     FreeList(80),   80,    32),
    row(K::Timer,  "TIMER",    Object(88),     88,    32),
    row(K::FsiMc,  "FSIMC",    Object(96),     96,    32),
    row(K::FsiAv,  "FSIAV",    Object(104),    104,   32),
    row(K::Pble,   "PBLE",     Count(112),     112,   32),
    row(K::Rrf,    "RRF",      Object(128),    128,   32),
    row(K::RrfFl,  "RRFFL",    FreeList(136),  136,   32),
    row(K::Hdr,    "HDR",      Object(144),    144,   32),
    row(K::Md,     "MD",       Object(152),    152,   32),
    row(K::Ooisc,  "OOISC",    Object(160),    160,   32),
    row(K::OoiscFl,"OOISCFFL", FreeList(168),  168,   32),
];

/// Bytes of the query reply (control-path 6.3). Bytes behind these belong to GEN_3, and Linux 6.12
/// has no room for them.
pub(crate) const QUERY_BYTES: usize = 176;
/// Bytes of the commit buffer in Linux 7.2 (control-path 6.4) and in Linux 6.12, which ends before
/// GEN_3's words.
pub(crate) const COMMIT_BYTES: [usize; 2] = [208, 176];
/// Value of a word that no driver of this generation uses in RoCE mode. Linux 7.3 still computes
/// 2^size, in every generation, so the value is one for which 64 bits suffice.
const UNREAD: u64 = 60 << 32 | 0xa5a5_0001;
/// Objects start at multiples of this: the commit reply counts in them.
const BASE_UNIT: u64 = 512;
/// Bytes of FPM one SD covers.
pub(crate) const SD_BYTES: u64 = 0x20_0000;

impl Kind {
    /// Every type in table order.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.kind)
    }

    fn row(self) -> &'static Row {
        let at = self as usize;
        TABLE.get(at).unwrap_or(&TABLE[0])
    }

    /// Name as the reference spells it.
    pub(crate) fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether the device allocates objects of this type itself, so that all of them must be backed
    /// before SHMC_PAGES_ALLOCATED. Software chooses the ids of the other types.
    pub(crate) fn handed_out_by_device(self) -> bool {
        !matches!(
            self,
            K::Qp | K::Cq | K::Srq | K::Arp | K::Mr | K::FsiMc | K::FsiAv | K::Pble
        )
    }

    /// Whether no driver of this generation reads the type's word of the query: true for SRQ, which
    /// this generation does not have (control-path 6.3). Linux 6.12 reads OOISC's and OOISCFFL's in
    /// every mode, and counts their memory.
    fn is_unread(self) -> bool {
        matches!(self, K::Srq)
    }

    /// Whether drivers compute the count from that of the queue pairs and never compare it with the
    /// maximum (control-path 6.5). RRF's is only compared with 0, and the free lists' not at all.
    fn is_never_compared(self) -> bool {
        matches!(self, K::Hte | K::Xf | K::Timer | K::Hdr)
    }

    /// For a free list: the type whose blocks it lists.
    pub(crate) fn lists(self) -> Option<Self> {
        let of = match self {
            K::XfFl => K::Xf,
            K::Q1Fl => K::Q1,
            K::RrfFl => K::Rrf,
            K::OoiscFl => K::Ooisc,
            _ => return None,
        };
        Some(of)
    }
}

impl FpmProfile {
    /// The reply of QUERY_FPM_VAL (control-path 6.3).
    pub(crate) fn query_reply(self, variation: &Variation) -> [u64; QUERY_BYTES / 8] {
        let mut reply = [0; QUERY_BYTES / 8];
        let mut set = |offset: usize, value: u64| {
            if let Some(word) = reply.get_mut(offset / 8) {
                *word = value;
            }
        };
        for row in &TABLE {
            let said =
                variation.derived_maxima == DerivedMaxima::Said || !row.kind.is_never_compared();
            let maximum = if said { self.maximum(row.kind) } else { 0 };
            let maximum = put(maximum, 31, 0);
            if let (Some(word), true, Object(at)) = (self.srq(), row.kind.is_unread(), row.query) {
                set(at, word);
                continue;
            }
            if variation.unread_words == UnreadWords::Anything && row.kind.is_unread() {
                if let Object(at) | FreeList(at) = row.query {
                    set(at, UNREAD);
                }
                continue;
            }
            match row.query {
                Absent => {}
                Object(at) => set(at, maximum | put(self.log2(row.kind).into(), 63, 32)),
                FreeList(at) => set(at, maximum | put(self.reported_block(row.kind), 63, 32)),
                Count(at) => set(at, maximum),
            }
        }
        // FIRST_PE_SD_INDEX 0: SD indexes in commands are relative to the PE part of the function
        // in any case.
        set(0, put(self.max_sds().into(), 44, 32));
        set(
            120,
            put(self.max_ceqs().into(), 9, 0)
                | put(self.hash_multiplier().into(), 19, 16)
                | put(self.timer_bucket().into(), 47, 32),
        );
        reply
    }
}

/// Location of the objects of one type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Extent {
    /// FPM address of object 0.
    pub(crate) base: u64,
    /// Objects.
    pub(crate) count: u64,
}

/// Layout made by a commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    profile: FpmProfile,
    extents: [Extent; KINDS],
    /// FPM bytes used.
    end: u64,
}

/// Why a commit was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// More objects than the maximum of their type.
    TooMany {
        kind: Kind,
        count: u64,
        maximum: u64,
    },
    /// All objects together need more SDs than the function has.
    TooBig { sds: u64, maximum: u32 },
}

impl Layout {
    /// Lays out the counts of a commit buffer.
    pub(crate) fn commit_as(
        profile: FpmProfile,
        buffer: &[u64],
        packed: PackedObjects,
    ) -> Result<Self, Refused> {
        let mut extents = [Extent::default(); KINDS];
        let mut end = 0_u64;
        for (row, extent) in TABLE.iter().zip(&mut extents) {
            let word = buffer.get(row.commit / 8).copied().unwrap_or(0);
            let count = match row.kind {
                // Fixed: its count in the commit buffer is 0.
                Kind::Apbvt => 1,
                _ => bits(word, row.count_bits - 1, 0),
            };
            let maximum = profile.maximum(row.kind);
            if count > maximum {
                return Err(Refused::TooMany {
                    kind: row.kind,
                    count,
                    maximum,
                });
            }
            *extent = Extent { base: end, count };
            let unit = match packed {
                PackedObjects::Packed => BASE_UNIT,
                PackedObjects::Spread => SD_BYTES,
            };
            end = (end + count * profile.bytes(row.kind)).next_multiple_of(unit);
        }
        let sds = end.div_ceil(SD_BYTES);
        if sds > profile.max_sds().into() {
            return Err(Refused::TooBig {
                sds,
                maximum: profile.max_sds(),
            });
        }
        Ok(Self {
            profile,
            extents,
            end,
        })
    }

    /// The same, of a card that packs objects.
    #[cfg(test)]
    pub(crate) fn commit(profile: FpmProfile, buffer: &[u64]) -> Result<Self, Refused> {
        Self::commit_as(profile, buffer, PackedObjects::Packed)
    }

    /// Writes counts and bases over the commit buffer, as the device does (control-path 6.4).
    pub(crate) fn reply(&self, buffer: &mut [u64]) {
        for row in &TABLE {
            let extent = self.extent(row.kind);
            if let Some(word) = buffer.get_mut(row.commit / 8) {
                *word =
                    put(extent.count, row.count_bits - 1, 0) | put(extent.base / BASE_UNIT, 63, 32);
            }
        }
    }

    /// Objects of one type.
    pub(crate) fn extent(&self, kind: Kind) -> Extent {
        self.extents.get(kind as usize).copied().unwrap_or_default()
    }

    /// Size of one object in bytes.
    pub(crate) fn bytes(&self, kind: Kind) -> u64 {
        self.profile.bytes(kind)
    }

    /// FPM address of one object; `None` when the index is not below the count.
    pub(crate) fn address(&self, kind: Kind, index: u64) -> Option<u64> {
        let extent = self.extent(kind);
        (index < extent.count).then(|| extent.base + index * self.bytes(kind))
    }

    /// SDs that the layout spans.
    pub(crate) fn sds(&self) -> u64 {
        self.end.div_ceil(SD_BYTES)
    }
}

/// Bits that a driver may set in a word of the commit buffer.
pub(crate) fn commit_bits(word: usize) -> u64 {
    TABLE
        .iter()
        .find(|row| row.commit / 8 == word && row.kind != Kind::Apbvt)
        .map_or(0, |row| put(u64::MAX, row.count_bits - 1, 0))
}

#[cfg(test)]
mod tests;
