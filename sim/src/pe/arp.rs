//! The ARP table: destination MAC addresses by index (control-path 4.11).

use super::contexts::{Context, Reader, Writer};
use super::device::{Device, Unreachable};
use super::env::Env;
use super::fpm::Kind;
use super::word::{bit, bits, flag, put};

/// One entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arp {
    /// MAC number: first octet in \[47:40\].
    pub(crate) mac: u64,
    pub(crate) permanent: bool,
    /// REACHMAX; its use is not in the sources.
    pub(crate) reach_max: u32,
}

impl Context for Arp {
    const KIND: Kind = Kind::Arp;
    const WORDS: usize = 2;

    fn save(&self, words: &mut Writer<'_>) {
        words.put(put(self.mac, 47, 0) | flag(self.permanent, 48));
        words.put(self.reach_max.into());
    }

    fn load(words: &mut Reader<'_>) -> Self {
        let first = words.take();
        Self {
            mac: bits(first, 47, 0),
            permanent: bit(first, 48),
            reach_max: words.take() as u32,
        }
    }
}

impl Device {
    /// Entry `index`; `None` when it is not valid or beyond the table.
    pub(crate) fn arp(
        &mut self,
        index: u16,
        env: &mut dyn Env,
    ) -> Result<Option<Arp>, Unreachable> {
        if let Some(entry) = self
            .arps
            .peek(index.into())
            .filter(|_| self.config.shortcuts)
        {
            return Ok(Some(*entry));
        }
        if u64::from(index) >= self.hmc.count(Kind::Arp) {
            return Ok(None);
        }
        let found = self.arps.get(index.into(), &mut self.hmc, env);
        self.reached(found, env)
    }
}
