//! HMC commands: query of limits, commit of object counts, and SD updates (control-path 6.3, 6.4,
//! 6.6).

use super::command::{Command, DONE, Outcome, Refusal};
use super::execute::aligned;
use crate::findings::kind;
use crate::pe::device::{Device, Unreachable};
use crate::pe::env::Env;
use crate::pe::fpm::{COMMIT_BYTES, Kind, Layout, Refused, commit_bits};
use crate::pe::hmc::{SD_PAGES, Sd};
use crate::pe::word::{bit, bits, bits16, mask};

/// Entries of the buffer of UPDATE_PE_SDS.
const BUFFER_ENTRIES: u64 = 8;

/// Reads qwords of a driver's buffer, which may be only 4-aligned.
fn read_words(iova: u64, into: &mut [u64], env: &mut dyn Env) -> Result<(), Unreachable> {
    for (n, word) in into.iter_mut().enumerate() {
        let mut bytes = [0; 8];
        env.read(iova + 8 * n as u64, &mut bytes)?;
        *word = u64::from_le_bytes(bytes);
    }
    Ok(())
}

/// Writes qwords to a driver's buffer.
pub(super) fn write_words(iova: u64, words: &[u64], env: &mut dyn Env) -> Result<(), Unreachable> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Ok(env.write(iova, &bytes)?)
}

impl Device {
    /// QUERY_FPM_VAL 0x20.
    pub(super) fn query_fpm(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        self.own_function(bits(c.q(16), 5, 0), env)?;
        aligned("FPM query buffer", c.q(32), 4, env)?;
        let reply = self.config.profile.query_reply(&self.config.variation);
        let recorded = self.config.fpm_reply.as_deref();
        write_words(c.q(32), recorded.unwrap_or(&reply), env)?;
        DONE
    }

    /// COMMIT_FPM_VAL 0x21.
    pub(super) fn commit_fpm(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        self.own_function(bits(c.q(16), 5, 0), env)?;
        aligned("FPM commit buffer", c.q(32), 4, env)?;
        if self.hmc.announced {
            return Err(Refusal::state(
                env,
                "COMMIT_FPM_VAL after SHMC_PAGES_ALLOCATED",
            ));
        }
        let size = bits(c.header(), 31, 0);
        let known = COMMIT_BYTES.into_iter().find(|bytes| *bytes as u64 == size);
        let Some(size) = known else {
            return Err(Refusal::parameter(
                env,
                format!("COMMIT_FPM_VAL: BUFSIZE {size} is none of {COMMIT_BYTES:?}"),
            ));
        };
        let mut buffer = vec![0; size / 8];
        read_words(c.q(32), &mut buffer, env)?;
        for (n, word) in buffer.iter().enumerate() {
            // Offsets 40 and 120 are 0; 176 to 199 belong to GEN_3.
            if word & !commit_bits(n) != 0 {
                let text = format!(
                    "COMMIT_FPM_VAL: word {word:#x} at offset {} has undefined bits set",
                    n * 8
                );
                env.finding(kind::FPM_BITS, text);
            }
        }
        let layout = Layout::commit_as(
            self.config.profile,
            &buffer,
            self.config.variation.packed_objects,
        )
        .map_err(|refused| {
            let text = match refused {
                Refused::TooMany {
                    kind,
                    count,
                    maximum,
                } => {
                    format!(
                        "COMMIT_FPM_VAL: {count} {} objects; the maximum is {maximum}",
                        kind.name()
                    )
                }
                Refused::TooBig { sds, maximum } => {
                    format!(
                        "COMMIT_FPM_VAL: the objects need {sds} SDs; the function has {maximum}"
                    )
                }
            };
            Refusal::parameter(env, text)
        })?;
        for list in Kind::all() {
            let Some(kind) = list.lists() else {
                continue;
            };
            let entries = self.config.profile.block(list);
            let (listed, wanted) = (
                layout.extent(list).count,
                layout.extent(kind).count / entries,
            );
            if listed != wanted {
                let text = format!(
                    "{}: {listed} entries for {wanted} blocks of {}",
                    list.name(),
                    kind.name()
                );
                env.finding(kind::FPM_FREE_LIST, text);
            }
        }
        layout.reply(&mut buffer);
        write_words(c.q(32), &buffer, env)?;
        self.hmc.commit(layout);
        DONE
    }

    /// UPDATE_PE_SDS 0x1f.
    pub(super) fn update_sds(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        self.own_function(bits(c.q(16), 5, 0), env)?;
        if self.hmc.layout().is_none() {
            return Err(Refusal::state(env, "UPDATE_PE_SDS before COMMIT_FPM_VAL"));
        }
        let extra = bits(c.header(), 3, 0);
        if extra > BUFFER_ENTRIES {
            return Err(Refusal::parameter(
                env,
                format!("UPDATE_PE_SDS: ENTRY_COUNT {extra} is above 8"),
            ));
        }
        // The sources name SKIP_ENTRY but give it no meaning.
        if bit(c.header(), 7) {
            return Err(Refusal::parameter(env, "UPDATE_PE_SDS: SKIP_ENTRY"));
        }
        self.update_sd(c.q(0), c.q(8), env)?;
        for (cmd, data) in [(c.q(32), c.q(40)), (c.q(48), c.q(56))] {
            if bit(cmd, 63) {
                self.update_sd(cmd & mask(31, 0), data, env)?;
            }
        }
        let buffer = c.q(16) & !mask(5, 0);
        if extra == 0 && buffer != 0 {
            env.finding(
                kind::SD_BUFFER,
                format!("UPDATE_PE_SDS: buffer {buffer:#x} with ENTRY_COUNT 0"),
            );
        }
        if extra > 0 {
            aligned("SD entry buffer", buffer, 128, env)?;
        }
        // Only as many entries as the count says are read: older ones may follow them.
        for n in 0..extra {
            let mut entry = [0; 2];
            read_words(buffer + 16 * n, &mut entry, env)?;
            let [cmd, data] = entry;
            self.update_sd(cmd, data, env)?;
        }
        DONE
    }

    fn update_sd(&mut self, cmd: u64, data: u64, env: &mut dyn Env) -> Result<(), Refusal> {
        let index = bits(cmd, 11, 0);
        let undefined = cmd & !(mask(11, 0) | mask(15, 15) | mask(31, 31));
        if undefined != 0 {
            env.finding(
                kind::SD_BITS,
                format!("SD {index}: undefined bits {undefined:#x} in SDCMD"),
            );
        }
        // The PE part of the function's SDs is addressed with PARTSEL (control-path 6.3).
        if !bit(cmd, 15) || !bit(cmd, 31) {
            return Err(Refusal::parameter(
                env,
                format!("SD {index}: SDCMD {cmd:#x} without PARTSEL or PMSDWR"),
            ));
        }
        let maximum = u64::from(self.config.profile.max_sds());
        if index >= maximum {
            return Err(Refusal::parameter(
                env,
                format!("SD {index}: the function has {maximum}"),
            ));
        }
        let used = self.hmc.layout().map_or(0, Layout::sds);
        if index >= used {
            env.finding(
                kind::SD_UNUSED,
                format!("SD {index}: the committed objects take {used}"),
            );
        }
        let pages = bits16(data, 11, 2);
        if pages > SD_PAGES {
            return Err(Refusal::parameter(
                env,
                format!("SD {index}: BPCOUNT {pages} is above 512"),
            ));
        }
        if !bit(data, 0) {
            // Cached contents of this SD leave the chip while the memory is still there.
            self.flush_contexts(Some(index), env);
            self.hmc.set_sd(index, None);
            return Ok(());
        }
        let sd = Sd {
            direct: bit(data, 1),
            address: data & mask(63, 12),
            pages,
        };
        if self.hmc.sd(index).is_some_and(|old| old != sd) {
            self.flush_contexts(Some(index), env);
            env.finding(
                kind::SD_REPLACED,
                format!("SD {index} was valid with other backing"),
            );
        }
        self.hmc.set_sd(index, Some(sd));
        Ok(())
    }

    /// SHMC_PAGES_ALLOCATED 0x2b: from now on the device may use the objects that it allocates
    /// itself.
    pub(super) fn announce_static_pages(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        self.own_function(bits(c.q(16), 5, 0), env)?;
        if self.hmc.layout().is_none() {
            return Err(Refusal::state(
                env,
                "SHMC_PAGES_ALLOCATED before COMMIT_FPM_VAL",
            ));
        }
        let mut missing = false;
        for kind in Kind::all().filter(|kind| kind.handed_out_by_device()) {
            if let Some(fault) = self.hmc.first_hole(kind, env) {
                missing = true;
                self.hmc.report(self.config.pf, fault, env);
            }
        }
        if missing {
            return Err(Unreachable.into());
        }
        self.hmc.announced = true;
        DONE
    }
}
