//! The device's ARP table: index to MAC, shared and counted.
//!
//! A QP names its next hop by an index into this table (control-path 4.11,
//! 5.2 ARPIDX). Index 0 is reserved.

use core::sync::atomic::Ordering;

use e810_cqp::op::{ArpChange, ManageArp};
use e810_hal::{HostBuf, Platform};
use e810_types::MacAddr;

use super::run;
use crate::error::{Error, Object, Result};
use crate::limits::ARPS;
use e810_cqp::Cqp;

/// MAC in the low 48 bits of a word, users in the high 16.
const USER: u64 = 1 << 48;
const MAC_MASK: u64 = USER - 1;

/// Which index has which MAC, and how many QPs use it.
#[derive(Debug)]
pub(super) struct Neighbours<P: Platform> {
    entries: HostBuf<P>,
}

impl<P: Platform> Neighbours<P> {
    /// A table for `committed` ARP entries of the HMC.
    pub(super) fn new(platform: P, committed: u32) -> Result<Self> {
        let len = committed.min(ARPS) as usize;
        Ok(Self {
            entries: HostBuf::new(platform, len)?,
        })
    }

    /// The index of `mac` for one more user.
    pub(super) fn join(&mut self, cqp: &mut Cqp<P>, mac: MacAddr) -> Result<u16> {
        let words = self.entries.words();
        let mut free = None;
        for (index, word) in words.iter().enumerate().skip(1) {
            let entry = word.load(Ordering::Relaxed);
            if entry < USER {
                free = free.or(Some((index, word)));
            } else if entry & MAC_MASK == mac.to_u64() && entry.checked_add(USER).is_some() {
                word.store(entry.wrapping_add(USER), Ordering::Relaxed);
                return Ok(index as u16);
            }
        }
        let (index, word) = free.ok_or(Error::Exhausted {
            object: Object::Arp,
            limit: words.len().saturating_sub(1) as u32,
        })?;
        let index = index as u16;
        let change = ArpChange::Add {
            mac,
            permanent: true,
            reach_max: 0,
        };
        run(cqp, &ManageArp { index, change })?;
        word.store(mac.to_u64() | USER, Ordering::Relaxed);
        Ok(index)
    }

    /// One user of `index` less; the last one deletes the entry.
    pub(super) fn leave(&mut self, cqp: &mut Cqp<P>, index: u16) -> Result<()> {
        let Some(word) = self.entries.word(index.into()) else {
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
        run(cqp, &ManageArp { index, change })?;
        word.store(0, Ordering::Relaxed);
        Ok(())
    }
}
