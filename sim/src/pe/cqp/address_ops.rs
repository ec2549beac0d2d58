//! Address tables: ARP, accelerated ports, quad hash, local MACs (control-path 4.11).

use super::command::{Command, DONE, Outcome, Refusal, Reply};
use super::set;
use crate::pe::arp::Arp;
use crate::pe::device::Device;
use crate::pe::env::Env;
use crate::pe::fpm::Kind;
use crate::pe::tables::LOCAL_MACS;
use crate::pe::word::{bits, bits8, bits16, bits32, mask};
use crate::variation::ArpAgain;

impl Device {
    /// MANAGE_ARP 0x0f.
    pub(super) fn manage_arp(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let index = bits16(c.header(), 11, 0);
        self.in_range(Kind::Arp, index.into(), env)?;
        if set(c, 44) {
            // The answer to a query is not in the sources.
            return Err(Refusal::parameter(
                env,
                format!("MANAGE_ARP {index}: QUERY"),
            ));
        }
        let present = self.arp(index, env)?;
        if set(c, 42) {
            if present.is_some() && self.config.variation.arp_again == ArpAgain::Refused {
                return Err(Refusal::state_race());
            }
            let entry = Arp {
                mac: bits(c.q(16), 47, 0),
                permanent: set(c, 43),
                reach_max: bits32(c.q(8), 31, 0),
            };
            // Drivers update an address that moved by overwriting the valid entry.
            let stored = self.arps.create(index.into(), entry, &mut self.hmc, env);
            self.reached(stored, env)?;
            return DONE;
        }
        if present.is_none() {
            return Err(Refusal::state(
                env,
                format!("MANAGE_ARP: entry {index} is not valid"),
            ));
        }
        let destroyed = self.arps.destroy(index.into(), &mut self.hmc, env);
        self.reached(destroyed, env)?;
        DONE
    }

    /// MANAGE_APBVT 0x23: one bit of the port vector, which is in the HMC (APBVT, 8192 bytes).
    pub(super) fn manage_port(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let port = bits(c.q(16), 15, 0);
        let offset = port / 64 * 8;
        let mut word = [0];
        let read = self.hmc.read((Kind::Apbvt, 0), offset, &mut word, env);
        self.reached(read, env)?;
        let bit = 1 << (port % 64);
        let word = if set(c, 62) {
            word[0] | bit
        } else {
            word[0] & !bit
        };
        let written = self.hmc.write((Kind::Apbvt, 0), offset, &[word], env);
        self.reached(written, env)?;
        DONE
    }

    /// MANAGE_QUAD_HASH_TABLE_ENTRY 0x25.
    pub(super) fn manage_quad_hash(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let (manage, kind) = (bits8(c.header(), 62, 61), bits8(c.header(), 44, 42));
        if !(1..=6).contains(&kind) || manage == 3 {
            return Err(Refusal::parameter(
                env,
                format!("quad hash: ENTRYTYPE {kind}, MANAGE {manage}"),
            ));
        }
        let qp = bits32(c.q(8), 49, 32);
        // The key is everything except the QP and the queue set.
        let key = [
            bits(c.q(0), 47, 0),
            bits(c.q(8), 31, 0),
            bits(c.q(16), 43, 32) | c.header() & (mask(44, 42) | mask(60, 59)),
            c.q(32),
            c.q(40),
            c.q(48),
            c.q(56),
        ];
        let slots = self.hmc.count(Kind::Hte);
        if slots == 0 {
            return Err(Refusal::state(env, "quad hash: no HTE is committed"));
        }
        let hash = key.iter().fold(0_u64, |hash, word| {
            (hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(17)
        });
        let touched = self.hmc.touch(Kind::Hte, hash % slots, key[1], env);
        self.reached(touched, env)?;
        match manage {
            0 if self.tables.quad_hash.remove(&key).is_none() => Err(Refusal::state(
                env,
                "quad hash: the entry to delete does not exist",
            )),
            1 if self.tables.quad_hash.contains_key(&key) => {
                Err(Refusal::state(env, "quad hash: the entry to add exists"))
            }
            0 => DONE,
            _ => {
                self.tables.quad_hash.insert(key, qp);
                DONE
            }
        }
    }

    /// ALLOCATE_LOC_MAC_TABLE_ENTRY 0x14.
    pub(super) fn allocate_local_mac(&mut self, env: &mut dyn Env) -> Outcome {
        match self.tables.free_local_mac() {
            Some(index) => {
                self.tables.local_macs.insert(index, None);
                Ok(Reply {
                    value: index.into(),
                    minor: 0,
                })
            }
            None => Err(Refusal::parameter(
                env,
                format!("all {LOCAL_MACS} local MAC entries are taken"),
            )),
        }
    }

    /// MANAGE_LOC_MAC_TABLE 0x0e.
    pub(super) fn manage_local_mac(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let index = bits8(c.header(), 5, 0);
        let Some(entry) = self.tables.local_macs.get_mut(&index) else {
            return Err(Refusal::state(
                env,
                format!("local MAC entry {index} was not allocated"),
            ));
        };
        if set(c, 62) {
            self.tables.local_macs.remove(&index);
        } else {
            *entry = Some(bits(c.q(32), 47, 0));
        }
        DONE
    }
}
