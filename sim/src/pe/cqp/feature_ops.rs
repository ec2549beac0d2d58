//! Features, push pages, HMC PM function table (control-path 4.15, 4.16, 6.8).

use super::command::{Command, DONE, Outcome, Refusal, Reply};
use super::execute::aligned;
use super::hmc_ops::write_words;
use super::set;
use crate::findings::kind;
use crate::pe::device::Device;
use crate::pe::env::Env;
use crate::pe::tables::PUSH_PAGES;
use crate::pe::word::{bits, bits16, bits32, put};

/// Reply of QUERY_RDMA_FEATURES: (type, info). Apart from the firmware version, an E810's answers
/// are not in the sources. Atomics and "resource version 2" are not offered, because no GEN_2
/// driver may use them.
const FEATURES: [(u64, u64); 3] = [
    // Firmware 1.71, a version that was seen on cards (field-evidence 2, 4).
    (0, 1 << 16 | 71),
    // Hardware version.
    (1, 2),
    // FTN_FLAGS.
    (32, 0),
];

/// HMC functions of VFs: they follow those of the PFs, one for each register that exists (vf-path
/// 3.1).
const VF_FUNCTIONS: std::ops::Range<u16> = 8..40;

impl Device {
    /// QUERY_RDMA_FEATURES 0x12.
    pub(super) fn query_features(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let room = bits(c.header(), 31, 0) / 8;
        aligned("feature buffer", c.q(32), 16, env)?;
        if room == 0 {
            return Err(Refusal::parameter(
                env,
                "QUERY_RDMA_FEATURES: BUF_LEN is less than one entry",
            ));
        }
        if let Some(recorded) = self.config.feature_reply.clone() {
            let fit = recorded.get(..room as usize).unwrap_or(&recorded);
            write_words(c.q(32), fit, env)?;
            return DONE;
        }
        let count = put(FEATURES.len() as u64, 47, 32);
        let words: Vec<u64> = FEATURES
            .iter()
            .enumerate()
            .map(|(n, (kind, info))| put(*kind, 63, 48) | info | if n == 0 { count } else { 0 })
            .take(room as usize)
            .collect();
        write_words(c.q(32), &words, env)?;
        DONE
    }

    /// MANAGE_PUSH_PAGES 0x11.
    pub(super) fn manage_push_page(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let page = bits32(c.header(), 31, 0);
        let queue_set = bits16(c.q(16), 9, 0);
        if set(c, 62) {
            let freed = u16::try_from(page)
                .ok()
                .and_then(|page| self.tables.push_pages.remove(&page));
            return match freed {
                Some(_) => DONE,
                None => Err(Refusal::state(
                    env,
                    format!("push page {page} is not allocated"),
                )),
            };
        }
        match self.tables.free_push_page() {
            Some(page) => {
                if !self.tables.queue_set_exists(queue_set) {
                    let text = format!(
                        "push page for queue set {queue_set}, which WORK_SCHED_NODE did not return"
                    );
                    env.finding(kind::PUSH_QUEUE_SET, text);
                }
                self.tables.push_pages.insert(page, queue_set);
                Ok(Reply {
                    value: page.into(),
                    minor: 0,
                })
            }
            None => Err(Refusal::parameter(
                env,
                format!("all {PUSH_PAGES} push pages are taken"),
            )),
        }
    }

    /// MANAGE_HMC_PM_FUNC_TABLE 0x15: gives a VF an HMC function, whose index is in OPRETVAL, or
    /// takes it back (vf-path 5).
    pub(super) fn manage_pm_function(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        let vf = bits16(c.header(), 15, 0);
        let functions = &mut self.tables.pm_functions;
        let there = functions.contains_key(&vf);
        if set(c, 62) != there {
            return Err(Refusal::state(
                env,
                format!("HMC PM function of VF {vf}: it is there already, or not there"),
            ));
        }
        if there {
            functions.remove(&vf);
            return DONE;
        }
        let mut all = VF_FUNCTIONS;
        let free = all.find(|index| functions.values().all(|taken| taken != index));
        let Some(index) = free else {
            return Err(Refusal::parameter(
                env,
                format!("HMC PM function of VF {vf}: all are given out"),
            ));
        };
        functions.insert(vf, index);
        Ok(Reply {
            value: index.into(),
            minor: 0,
        })
    }
}
