//! RSS profiles: which fields of a packet a VSI's hash covers.
//!
//! Drivers write them into tables of the package's RSS block (0x0C40, 0x0C42;
//! `ice/ice_flex_type.h`, `ice/ice_flex_pipe.c`). Each packet type has a group, and each VSI has a
//! group. The first entry of a match table that matches both groups names a profile, whose words
//! say what goes into the hash.

use std::collections::{BTreeMap, BTreeSet};

use crate::lan::{HashFields, PACKET_TYPES};

use super::layout::{part, u8_at, u16_at};

/// Sections of the block (`ice/ice_flex_type.h ICE_SID_XLT1_RSS` and those that follow it).
const TYPE_GROUPS: u32 = 42;
const VSI_GROUPS: u32 = 43;
const MATCHES: u32 = 44;
const WORDS: u32 = 46;
/// Entries of each table: as many as Intel's package fills. Linux uses the first value for the
/// first two tables (`ice/ice_flex_pipe.c blk_sizes`).
const MOST_TYPES: u16 = 8192;
const MOST_VSIS: u16 = 1024;
const MOST_MATCHES: u16 = 512;
const MOST_PROFILES: u16 = 128;
/// Bytes of a match table entry, of each half of its key, and of a profile of 24 words.
const MATCH: usize = 13;
const HALF: usize = 5;
const PROFILE: usize = 24 * 4;

/// An entry of the match table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Match {
    /// Bits that may be 0, and bits that may be 1.
    zeros: [u8; HALF],
    ones: [u8; HALF],
    profile: u8,
}

impl Match {
    /// Whether the entry is for packets of that group, and, if given, of a VSI of that group. The
    /// packet flags, in the first two bytes, are taken as 0 `[inf hash_flags]`.
    fn has(&self, types: u8, vsis: Option<u16>) -> bool {
        let [low, high] = vsis.unwrap_or_default().to_le_bytes();
        let wanted = [0, 0, types, low, high];
        let compared = if vsis.is_some() { HALF } else { 3 };
        let bytes = wanted.iter().zip(&self.zeros).zip(&self.ones);
        bytes
            .take(compared)
            .all(|((wanted, zeros), ones)| (zeros | wanted) & (ones | !wanted) == 0xff)
    }
}

/// The tables of a card.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct HashProfiles {
    types: BTreeMap<u16, u8>,
    vsis: BTreeMap<u16, u16>,
    matches: BTreeMap<u16, Match>,
    /// `None`: a profile with a word that is not modelled.
    profiles: BTreeMap<u8, Option<HashFields>>,
}

/// A write outside a table, or one that requests something that is not modelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NotPossible;

impl HashProfiles {
    /// Takes a section of a buffer; ignores those of other blocks.
    pub(super) fn take(&mut self, kind: u32, section: &[u8]) -> Result<(), NotPossible> {
        let (count, first) = (u16_at(section, 0), u16_at(section, 2));
        let places = |most: u16, len: usize| {
            let end = first.checked_add(count).filter(|end| *end <= most);
            let is_whole = section.len() >= 4 + usize::from(count) * len;
            end.filter(|_| is_whole)
                .map(|end| first..end)
                .ok_or(NotPossible)
        };
        let entry = |at: u16, len: usize| part(section, 4 + usize::from(at - first) * len, len);
        match kind {
            TYPE_GROUPS => {
                for at in places(MOST_TYPES, 1)? {
                    self.types.insert(at, u8_at(entry(at, 1), 0));
                }
            }
            VSI_GROUPS => {
                for at in places(MOST_VSIS, 2)? {
                    self.vsis.insert(at, u16_at(entry(at, 2), 0));
                }
            }
            MATCHES => {
                let entries = part(section, 2, usize::from(count) * MATCH);
                if entries.len() < usize::from(count) * MATCH {
                    return Err(NotPossible);
                }
                for entry in entries.chunks_exact(MATCH) {
                    self.take_match(entry)?;
                }
            }
            WORDS => {
                for at in places(MOST_PROFILES, PROFILE)? {
                    let fields = fields(entry(at, PROFILE));
                    self.profiles.insert(at as u8, fields);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn take_match(&mut self, entry: &[u8]) -> Result<(), NotPossible> {
        let half = |at| part(entry, at, HALF).first_chunk().copied();
        let (zeros, ones) = half(2).zip(half(2 + HALF)).ok_or(NotPossible)?;
        let profile = u8_at(entry, 2 + 2 * HALF);
        let place = u16_at(entry, 0);
        if place >= MOST_MATCHES {
            return Err(NotPossible);
        }
        let new = Match {
            zeros,
            ones,
            profile,
        };
        self.matches.insert(place, new);
        Ok(())
    }

    /// Whether no packet has a profile that is not modelled, except where it already had one in
    /// `before`.
    pub(super) fn can_do_what_is_new_since(&self, before: &Self) -> bool {
        self.not_done().is_subset(&before.not_done())
    }

    /// Entries that name a profile that is not modelled, with the packet types that they are for.
    fn not_done(&self) -> BTreeSet<(Match, u16)> {
        let entries = self.matches.values();
        let not_modelled = entries.filter(|entry| self.profiles.get(&entry.profile) == Some(&None));
        let with_packets = not_modelled.flat_map(|entry| PACKET_TYPES.map(|kind| (*entry, kind)));
        with_packets
            .filter(|(entry, kind)| entry.has(self.group(*kind), None))
            .collect()
    }

    /// Removes what function `pf` has set for its VSIs; the highest three bits of their groups are
    /// its number.
    pub(super) fn forget(&mut self, pf: u8) {
        self.vsis.retain(|_, group| *group >> 13 != u16::from(pf));
        let is_of = |entry: &Match| {
            let ([.., zeros], [.., ones]) = (entry.zeros, entry.ones);
            (zeros >> 5, ones >> 5) == (!pf & 7, pf)
        };
        self.matches.retain(|_, entry| !is_of(entry));
    }

    fn group(&self, packet_type: u16) -> u8 {
        self.types.get(&packet_type).copied().unwrap_or(0)
    }

    /// The fields that a packet's hash covers; none if no profile matches. A package without these
    /// tables stands for one with the profiles that drivers make by default
    /// `[inf hash_without_tables]`.
    pub(crate) fn fields(&self, packet_type: u16, vsi: u16) -> HashFields {
        if self.types.is_empty() {
            return HashFields::ALL;
        }
        let (types, vsis) = (self.group(packet_type), self.vsis.get(&vsi).copied());
        let mut matches = self.matches.values();
        let found = matches.find(|entry| entry.has(types, Some(vsis.unwrap_or(0))));
        let fields = found.and_then(|entry| self.profiles.get(&entry.profile).copied().flatten());
        fields.unwrap_or_default()
    }
}

/// The fields that the words of a profile name: whole IP addresses, and ports. `None` if there is
/// another word.
fn fields(words: &[u8]) -> Option<HashFields> {
    /// Protocols (`ice/ice_protocol_type.h ice_prot_id`); the last one marks an unused word.
    const NONE: u8 = 0;
    const IPV4: [u8; 2] = [32, 33];
    const IPV6: [u8; 2] = [40, 41];
    const PORTS: [u8; 3] = [49, 53, 96];
    const UNUSED: u8 = 255;
    let mut fields = HashFields::default();
    // Words of source and destination; an address has two or eight.
    let (mut of, mut to) = ([0, 0], [0, 0]);
    for word in words.chunks_exact(4) {
        let (protocol, at) = (u8_at(word, 0), u16_at(word, 1));
        match (protocol, at) {
            (NONE | UNUSED, _) => {}
            (protocol, 12 | 14) if IPV4.contains(&protocol) => of[0] += 1,
            (protocol, 16 | 18) if IPV4.contains(&protocol) => to[0] += 1,
            (protocol, 8..24) if IPV6.contains(&protocol) => of[1] += 1,
            (protocol, 24..40) if IPV6.contains(&protocol) => to[1] += 1,
            (protocol, 0) if PORTS.contains(&protocol) => fields.source_port = true,
            (protocol, 2) if PORTS.contains(&protocol) => fields.destination_port = true,
            _ => return None,
        }
    }
    let whole = |words: [u8; 2]| match words {
        [0, 0] => Some(false),
        [2, 0] | [0, 8] => Some(true),
        _ => None,
    };
    (fields.source, fields.destination) = (whole(of)?, whole(to)?);
    Some(fields)
}
