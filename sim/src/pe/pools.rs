//! HMC entries that the device allocates itself: inbound reads (Q1), transmit FIFO (XF), read
//! responses (RRF).
//!
//! The card takes blocks from the free lists in XFFL, Q1FL and RRFFL; the sources do not say when
//! and how many. Here a QP allocates its maximum when it becomes ready to receive or to send, and
//! frees it when it is destroyed. Each allocated entry is written once, so that missing backing is
//! detected.

use std::collections::BTreeMap;

use super::device::{Device, Unreachable};
use super::env::{Env, OicrCause, PeReg};
use super::fpm::Kind;

/// GLPE_CRITERR: out of Q1 entries (control-path 2.2).
const CRITERR_Q1: u32 = 0x0001_024D;

/// Blocks of objects of one type.
#[derive(Clone, Debug, Default)]
struct Pool {
    /// First block that was never allocated.
    fresh: u64,
    /// Freed blocks.
    free: Vec<u64>,
}

/// Entries that a QP holds.
#[derive(Clone, Debug, Default)]
struct Held {
    q1: Vec<u64>,
    xf: Vec<u64>,
    rrf: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Pools {
    q1: Pool,
    xf: Pool,
    rrf: Pool,
    held: BTreeMap<u32, Held>,
}

impl Device {
    /// Allocates one block; returns the index of its first entry.
    fn take_block(&mut self, list: Kind, env: &mut dyn Env) -> Result<Option<u64>, Unreachable> {
        let Some(kind) = list.lists() else {
            return Ok(None);
        };
        let entries = self.config.profile.block(list);
        let blocks = self.hmc.count(list).min(self.hmc.count(kind) / entries);
        let (pool, counter) = match kind {
            Kind::Q1 => (&mut self.pools.q1, PeReg::FlmQ1AllocErr),
            Kind::Xf => (&mut self.pools.xf, PeReg::FlmXmitAllocErr),
            _ => (&mut self.pools.rrf, PeReg::FlmRrfAllocErr),
        };
        let block = match pool.free.pop() {
            Some(block) => block,
            None if pool.fresh < blocks => {
                pool.fresh += 1;
                pool.fresh - 1
            }
            None => {
                self.count_drop(counter, env);
                if kind == Kind::Q1 {
                    env.set_register(PeReg::CritErr, CRITERR_Q1);
                    env.raise_oicr(OicrCause::PeCritErr);
                }
                return Ok(None);
            }
        };
        // First the list entry that named the block, then the block.
        let listed = self.hmc.touch(list, block & !1, 0, env);
        self.reached(listed, env)?;
        for entry in 0..entries {
            let touched = self.hmc.touch(kind, block * entries + entry, 0, env);
            self.reached(touched, env)?;
        }
        Ok(Some(block * entries))
    }

    /// Allocates what a QP needs to receive: a read queue of `reads` entries. `false` when there is
    /// not enough.
    pub(crate) fn reserve_receive(
        &mut self,
        qpn: u32,
        reads: u64,
        env: &mut dyn Env,
    ) -> Result<bool, Unreachable> {
        let entries = self.config.profile.block(Kind::Q1Fl);
        let mut held = self.pools.held.remove(&qpn).unwrap_or_default();
        let mut enough = true;
        while enough && (held.q1.len() as u64) < reads.div_ceil(entries) {
            match self.take_block(Kind::Q1Fl, env)? {
                Some(block) => held.q1.push(block),
                None => enough = false,
            }
        }
        if enough && held.rrf.is_empty() && self.hmc.count(Kind::RrfFl) > 0 {
            match self.take_block(Kind::RrfFl, env)? {
                Some(block) => held.rrf.push(block),
                None => enough = false,
            }
        }
        self.pools.held.insert(qpn, held);
        Ok(enough)
    }

    /// Allocates what a QP needs to send: a block of the transmit FIFO, its header and timer
    /// entries.
    pub(crate) fn reserve_send(
        &mut self,
        qpn: u32,
        env: &mut dyn Env,
    ) -> Result<bool, Unreachable> {
        let mut held = self.pools.held.remove(&qpn).unwrap_or_default();
        let mut enough = true;
        if held.xf.is_empty() {
            match self.take_block(Kind::XfFl, env)? {
                Some(block) => held.xf.push(block),
                None => enough = false,
            }
        }
        self.pools.held.insert(qpn, held);
        for kind in [Kind::Hdr, Kind::Timer, Kind::Md, Kind::Hte] {
            let count = self.hmc.count(kind);
            if count > 0 {
                let touched = self
                    .hmc
                    .touch(kind, u64::from(qpn) % count, qpn.into(), env);
                self.reached(touched, env)?;
            }
        }
        Ok(enough)
    }

    /// Index of the Q1 entry that a QP uses as slot `slot`.
    pub(crate) fn q1_entry(&self, qpn: u32, slot: u16) -> Option<u64> {
        let entries = self.config.profile.block(Kind::Q1Fl);
        let held = self.pools.held.get(&qpn)?;
        let block = held.q1.get(usize::from(slot) / entries as usize)?;
        Some(block + u64::from(slot) % entries)
    }

    /// Index of the XF entry that a QP uses for its `n`-th packet.
    pub(crate) fn xf_entry(&self, qpn: u32, n: u64) -> Option<u64> {
        let entries = self.config.profile.block(Kind::XfFl);
        let block = self.pools.held.get(&qpn)?.xf.first()?;
        Some(block + n % entries)
    }

    /// Frees everything that a QP held.
    pub(crate) fn release(&mut self, qpn: u32) {
        let Some(held) = self.pools.held.remove(&qpn) else {
            return;
        };
        let profile = self.config.profile;
        let blocks = |list: Kind, entries: Vec<u64>| {
            let size = profile.block(list);
            entries.into_iter().map(move |entry| entry / size)
        };
        self.pools.q1.free.extend(blocks(Kind::Q1Fl, held.q1));
        self.pools.xf.free.extend(blocks(Kind::XfFl, held.xf));
        self.pools.rrf.free.extend(blocks(Kind::RrfFl, held.rrf));
    }
}
