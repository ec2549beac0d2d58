//! The table of multicast groups, and the pages that list their members for the device.

use core::net::IpAddr;
use core::sync::atomic::Ordering;

use e810_cqp::limits::MAX_GROUP_MEMBERS;
use e810_hal::{DmaBuf, DmaLayout, DmaWord, DmaWords, HostBuf, Iova, Platform, log_warn};
use heapless::Vec;

use crate::addr::{Gid, MacAddr, group_mac};
use crate::error::Result;

/// Bytes of a group's page.
const PAGE: usize = 4096;
/// Words of a group in the table: address (two), key, members.
const WORDS: usize = 3 + MAX_GROUP_MEMBERS;
const ADDRESS: usize = 0;
/// [15:0] VLAN id, [31:16] index of the switch rule, [41:32] queue-set handle,
/// and the flags below.
const KEY: usize = 2;
const MEMBERS: usize = 3;
/// Programs have the group, or the device may have it.
const EXISTS: u64 = 1 << 63;
/// There is a switch rule.
const HAS_RULE: u64 = 1 << 62;
/// The last command on the group failed: the device may have another list.
const UNSURE: u64 = 1 << 61;
/// The device has the group, or may have it.
const IN_DEVICE: u64 = 1 << 59;
/// The queue pair that is being destroyed has left the group.
const LEFT: u64 = 1 << 60;

/// The existing groups. Made when the first queue pair joins one.
#[derive(Debug)]
pub(in crate::control) struct Groups<P: Platform> {
    made: Option<Tables<P>>,
}

impl<P: Platform> Default for Groups<P> {
    fn default() -> Self {
        Self { made: None }
    }
}

#[derive(Debug)]
struct Tables<P: Platform> {
    known: HostBuf<P>,
    /// A page each.
    pages: DmaBuf<P>,
}

/// A group as it is looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) address: IpAddr,
    pub(super) vlan: Option<u16>,
}

/// A group as the table stores it.
pub(super) struct Group {
    pub(super) name: Name,
    pub(super) members: Vec<u32, MAX_GROUP_MEMBERS>,
    /// Handle of the first member: every command on the group names it.
    pub(super) qs_handle: u16,
    /// The switch rule that lets its packets in.
    pub(super) rule: Option<u16>,
    /// The device has it, or may have it.
    pub(super) in_device: bool,
    /// The last command on it failed: the device may have another list.
    pub(super) unsure: bool,
}

impl<P: Platform> Groups<P> {
    pub(super) const fn is_made(&self) -> bool {
        self.made.is_some()
    }

    pub(super) fn make(&mut self, platform: &P, groups: usize) -> Result<()> {
        let known = HostBuf::new(platform.clone(), groups.saturating_mul(WORDS))?;
        let layout = DmaLayout::new(groups.saturating_mul(PAGE), PAGE);
        let pages = DmaBuf::new(platform.clone(), layout)?;
        self.made = Some(Tables { known, pages });
        Ok(())
    }

    fn word(&self, group: u16, word: usize) -> u64 {
        let index = usize::from(group)
            .saturating_mul(WORDS)
            .saturating_add(word);
        let tables = self.made.as_ref();
        let found = tables.and_then(|tables| tables.known.words().get(index));
        found.map_or(0, |word| word.load(Ordering::Relaxed))
    }

    fn set(&self, group: u16, word: usize, value: u64) {
        let index = usize::from(group)
            .saturating_mul(WORDS)
            .saturating_add(word);
        let tables = self.made.as_ref();
        if let Some(word) = tables.and_then(|tables| tables.known.words().get(index)) {
            word.store(value, Ordering::Relaxed);
        }
    }

    fn flag(&self, group: u16, flag: u64) -> bool {
        self.word(group, KEY) & flag != 0
    }

    /// Indexes of groups; 0 is reserved (data-path 10 item 12).
    pub(super) fn indexes(&self) -> core::ops::Range<u16> {
        let tables = self.made.as_ref();
        let groups = tables.map_or(0, |tables| tables.known.words().len() / WORDS);
        1..groups as u16
    }

    pub(super) fn exists(&self, group: u16) -> bool {
        self.flag(group, EXISTS)
    }

    pub(super) fn find(&self, name: Name) -> Option<u16> {
        let mut indexes = self.indexes();
        indexes.find(|group| self.exists(*group) && self.name(*group) == name)
    }

    pub(super) fn name(&self, group: u16) -> Name {
        let half = |word| u128::from(self.word(group, word));
        let bits = half(ADDRESS) << 64 | half(ADDRESS + 1);
        let vlan = self.word(group, KEY) as u16;
        Name {
            address: Gid(bits.to_be_bytes()).ip(),
            vlan: (vlan != 0).then_some(vlan),
        }
    }

    pub(super) fn get(&self, group: u16) -> Group {
        let key = self.word(group, KEY);
        let members = (0..MAX_GROUP_MEMBERS)
            .map(|n| self.word(group, MEMBERS.saturating_add(n)) as u32)
            .filter(|qp| *qp != 0);
        Group {
            name: self.name(group),
            members: members.collect(),
            qs_handle: (key >> 32) as u16 & 0x3FF,
            rule: self.rule(group),
            in_device: key & IN_DEVICE != 0,
            unsure: key & UNSURE != 0,
        }
    }

    fn rule(&self, group: u16) -> Option<u16> {
        let key = self.word(group, KEY);
        (key & HAS_RULE != 0).then_some((key >> 16) as u16)
    }

    /// Keeps what is known of a group.
    pub(super) fn keep(&self, group: u16, known: &Group) {
        let bits = u128::from_be_bytes(Gid::from(known.name.address).0);
        self.set(group, ADDRESS, (bits >> 64) as u64);
        self.set(group, ADDRESS + 1, bits as u64);
        for n in 0..MAX_GROUP_MEMBERS {
            let member = known.members.get(n).copied().unwrap_or(0);
            self.set(group, MEMBERS.saturating_add(n), member.into());
        }
        let rule = known
            .rule
            .map_or(0, |rule| HAS_RULE | u64::from(rule) << 16);
        let unsure = if known.unsure { UNSURE } else { 0 };
        let in_device = if known.in_device { IN_DEVICE } else { 0 };
        let vlan = u64::from(known.name.vlan.unwrap_or(0));
        let handle = u64::from(known.qs_handle) << 32;
        self.set(
            group,
            KEY,
            EXISTS | rule | unsure | in_device | handle | vlan,
        );
    }

    /// Forgets a group that the device no longer has, except for its name.
    pub(super) fn forget(&self, group: u16) {
        self.set(
            group,
            KEY,
            self.word(group, KEY) & !(EXISTS | UNSURE | IN_DEVICE),
        );
    }

    /// Whether the queue pair that is being destroyed has left the group.
    pub(super) fn has_left(&self, group: u16) -> bool {
        self.flag(group, LEFT)
    }

    pub(super) fn mark_left(&self, group: u16, left: bool) {
        let key = self.word(group, KEY) & !LEFT;
        self.set(group, KEY, if left { key | LEFT } else { key });
    }

    /// The rule that lets a MAC address in, if a group has one for it.
    pub(in crate::control) fn rule_of(&self, mac: MacAddr) -> Option<u16> {
        let mut indexes = self.indexes();
        indexes.find_map(|group| {
            let has_it = self.exists(group) && group_mac(self.name(group).address) == mac;
            if has_it { self.rule(group) } else { None }
        })
    }

    /// How many groups a rule is for.
    pub(in crate::control) fn users_of(&self, rule: u16) -> usize {
        let uses = |group: &u16| self.exists(*group) && self.rule(*group) == Some(rule);
        self.indexes().filter(uses).count()
    }

    /// Writes a group's page; returns its address, or `None` if there are no pages.
    pub(super) fn write(&self, group: u16, words: [u64; MAX_GROUP_MEMBERS]) -> Option<Iova> {
        let pages = &self.made.as_ref()?.pages;
        let page = pages.block::<{ PAGE / 8 }>(group.into());
        for (cell, word) in page.into_iter().flatten().zip(words) {
            cell.set(word);
        }
        let offset = u64::from(group) * PAGE as u64;
        // The pages exist, so their addresses do not wrap.
        Some(Iova(pages.iova().0.wrapping_add(offset)))
    }

    /// Frees the pages, unless the device may have a group and read its list.
    pub(in crate::control) fn end(self) {
        if self.indexes().any(|group| self.flag(group, IN_DEVICE)) {
            log_warn!("a multicast group is left: the lists of members are leaked");
            return;
        }
        self.release();
    }

    /// Frees the pages, once the device no longer has any group.
    pub(in crate::control) fn release(self) {
        if let Some(tables) = self.made {
            tables.pages.release();
        }
    }
}
