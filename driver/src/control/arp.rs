//! The device's ARP table: index to MAC, shared and counted.
//!
//! A QP names its next hop by an index into this table (control-path 4.11, 5.2 ARPIDX), an
//! address handle by a field of its own (data-path 7.1). Index 0 is reserved.
//!
//! There is an entry for each pair of a destination's IP address and a MAC address, and all paths
//! of that pair share it. The IP address in the entry makes it possible to follow a neighbour
//! that moves, by changing its entries. Paths to others that had the same MAC, such as those
//! behind one router, stay as they are. Existing drivers also have entries by IP address (Linux
//! `irdma_arp_table`).

use core::net::IpAddr;
use core::sync::atomic::{AtomicU64, Ordering};

use e810_cqp::op::{ArpChange, ManageArp};
use e810_hal::{HostBuf, Platform};
use e810_types::MacAddr;

use super::run;
use crate::addr::Gid;
use crate::error::{Error, Object, Result};
use crate::limits::ARPS;
use e810_cqp::Cqp;

/// MAC in the low 48 bits of a word, users in the high 16. A MAC without users: the device has
/// refused to delete the entry, which is still valid.
const USER: u64 = 1 << 48;
const MAC_MASK: u64 = USER - 1;
/// Words of an entry: MAC and users, and the two halves of the IP address.
pub(crate) const ARP_WORDS: usize = 3;

/// Which index has which addresses, and how many paths use it.
#[derive(Debug)]
pub(super) struct Neighbours<P: Platform> {
    entries: HostBuf<P>,
    /// Entries that were made, moved or deleted so far.
    changes: u64,
}

/// An entry in memory.
type Entry = [AtomicU64; ARP_WORDS];

impl<P: Platform> Neighbours<P> {
    /// A table for `committed` ARP entries of the HMC.
    pub(super) fn new(platform: P, committed: u32) -> Result<Self> {
        let len = committed.min(ARPS) as usize;
        Ok(Self {
            entries: HostBuf::new(platform, len.saturating_mul(ARP_WORDS))?,
            changes: 0,
        })
    }

    /// The entries by their indexes, without the reserved one.
    fn entries(&self) -> impl Iterator<Item = (usize, &Entry)> {
        let (entries, _) = self.entries.words().as_chunks();
        entries.iter().enumerate().skip(1)
    }

    /// How many entries were made, moved or deleted so far.
    pub(super) const fn changes(&self) -> u64 {
        self.changes
    }

    /// The pairs of addresses that paths use.
    pub(super) fn used(&self) -> impl Iterator<Item = (IpAddr, MacAddr)> {
        self.entries().filter_map(|(_, entry)| {
            let [word, first, second] = entry.each_ref().map(|word| word.load(Ordering::Relaxed));
            let ip = (u128::from(first) << 64) | u128::from(second);
            let [_, _, mac @ ..] = (word & MAC_MASK).to_be_bytes();
            (word >= USER).then_some((Gid(ip.to_be_bytes()).ip(), MacAddr(mac)))
        })
    }

    /// The index of `destination` at `mac` for one more user.
    pub(super) fn join(
        &mut self,
        cqp: &mut Cqp<P>,
        destination: IpAddr,
        mac: MacAddr,
    ) -> Result<u16> {
        let ip = halves(destination);
        let mut free = None;
        for (index, entry) in self.entries() {
            let [word, first, second] = entry.each_ref().map(|word| word.load(Ordering::Relaxed));
            let is_same = word != 0 && [first, second] == ip && word & MAC_MASK == mac.to_u64();
            if is_same && word.checked_add(USER).is_some() {
                let [shared, ..] = entry;
                shared.store(word.wrapping_add(USER), Ordering::Relaxed);
                return Ok(index as u16);
            }
            if word < USER {
                free = free.or(Some((index, entry)));
            }
        }
        let (index, entry) = free.ok_or(Error::Exhausted {
            object: Object::Arp,
            limit: self.entries().count() as u32,
        })?;
        let index = index as u16;
        set(cqp, index, mac)?;
        let words = [mac.to_u64() | USER, ip[0], ip[1]];
        for (place, word) in entry.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        self.changes = self.changes.wrapping_add(1);
        Ok(index)
    }

    /// Gives the entries of `destination` at `from` another MAC address, and returns how many
    /// users they have. After an error, entries before the one that failed already have it.
    pub(super) fn change(
        &mut self,
        cqp: &mut Cqp<P>,
        destination: IpAddr,
        from: MacAddr,
        to: MacAddr,
    ) -> Result<u32> {
        let ip = halves(destination);
        let mut users = 0_u32;
        for (index, entry) in self.entries() {
            let [word, first, second] = entry.each_ref().map(|word| word.load(Ordering::Relaxed));
            if word < USER || [first, second] != ip || word & MAC_MASK != from.to_u64() {
                continue;
            }
            set(cqp, index as u16, to)?;
            let [shared, ..] = entry;
            shared.store(word & !MAC_MASK | to.to_u64(), Ordering::Relaxed);
            users = users.saturating_add((word >> 48) as u32);
        }
        if users > 0 {
            self.changes = self.changes.wrapping_add(1);
        }
        Ok(users)
    }

    /// Removes one user of `index`; the last one deletes the entry.
    pub(super) fn leave(&mut self, cqp: &mut Cqp<P>, index: u16) -> Result<()> {
        let place = usize::from(index).saturating_mul(ARP_WORDS);
        let Some(word) = self.entries.word(place) else {
            return Ok(());
        };
        let entry = word.load(Ordering::Relaxed);
        if entry < USER {
            return Ok(());
        }
        if entry.wrapping_sub(USER) >= USER {
            word.store(entry.wrapping_sub(USER), Ordering::Relaxed);
            return Ok(());
        }
        let change = ArpChange::Delete;
        let deleted = run(cqp, &ManageArp { index, change });
        // A late deletion happens before the entry is added again: commands are carried out in
        // order.
        let left = match &deleted {
            Err(error) if !error.leaves_command_open() => entry & MAC_MASK,
            _ => 0,
        };
        word.store(left, Ordering::Relaxed);
        self.changes = self.changes.wrapping_add(1);
        deleted
    }
}

/// Writes an entry of the device, also over a valid one: its users continue with the new address
/// `[inf arp_again]`. Linux' irdma deletes such an entry and adds one; between the two, what is
/// being sent would fail.
fn set<P: Platform>(cqp: &mut Cqp<P>, index: u16, mac: MacAddr) -> Result<()> {
    let change = ArpChange::Add {
        mac,
        permanent: true,
        reach_max: 0,
    };
    run(cqp, &ManageArp { index, change })?;
    Ok(())
}

/// An IP address as an entry stores it.
fn halves(ip: IpAddr) -> [u64; 2] {
    let all = u128::from_be_bytes(Gid::from(ip.to_canonical()).0);
    [(all >> 64) as u64, all as u64]
}
