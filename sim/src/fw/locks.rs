//! Resource locks that one function holds at a time: flash, change lock, global configuration lock
//! (0x0008, 0x0009).
//!
//! The global configuration lock is granted once per core reset, to the first function that
//! requests it. Once it is released the configuration counts as done, whatever was downloaded, and
//! no function gets the lock again (field-evidence 3.4, 3.5, 3.7). What happens when a grant times
//! out is a choice ([`LockRunsOut`]). After a PF reset of its holder the configuration counts as
//! done `[inf lock_of_reset]`.

use std::collections::BTreeMap;

use super::descriptor::{Answer, Command};
use super::{AqCode, Cx};
use crate::findings::kind;
use crate::variation::{LockReleased, LockRunsOut};

const NVM: u16 = 1;
const SDP: u16 = 2;
pub(super) const CHANGE: u16 = 3;
pub(super) const GLOBAL: u16 = 4;

const READ: u16 = 1;
const WRITE: u16 = 2;

/// Status field of the reply for the global configuration lock.
const GLOBAL_SUCCESS: u16 = 0;
const GLOBAL_IN_PROGRESS: u16 = 1;
const GLOBAL_DONE: u16 = 2;

/// How long a lock may be held, in ms (`ice/ice_adminq_cmd.h`, defaults beside the request).
const fn granted_ms(resource: u16, access: u16) -> u32 {
    match (resource, access) {
        (NVM, WRITE) => 180_000,
        (CHANGE, _) => 1_000,
        _ => 3_000,
    }
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    pf: u8,
    until: u64,
}

/// The global configuration lock since the last reset of the card.
#[derive(Clone, Copy, Debug, Default)]
enum Global {
    /// It was never granted.
    #[default]
    Never,
    Held(Holder),
    /// It was granted before.
    Done,
}

/// Holders of locks, by resource and, for SDPs, number.
#[derive(Debug, Default)]
pub(super) struct Locks {
    held: BTreeMap<(u16, u32), Holder>,
    global: Global,
}

impl Locks {
    /// A package was downloaded before the simulation started.
    pub(super) fn configuration_is_done(&mut self) {
        self.global = Global::Done;
    }

    /// State of the global configuration lock at `now`, after its time has run out.
    pub(super) fn run_out(&mut self, now: u64, then: LockRunsOut) {
        if matches!(self.global, Global::Held(holder) if holder.until <= now) {
            self.global = match then {
                LockRunsOut::Done => Global::Done,
                LockRunsOut::Free => Global::Never,
            };
        }
    }

    /// The holder, unless its time has run out: then the lock is free again `[inf other_locks]`.
    fn holder(&mut self, key: (u16, u32), now: u64) -> Option<Holder> {
        if key.0 == GLOBAL {
            return match self.global {
                Global::Held(holder) if holder.until > now => Some(holder),
                Global::Held(_) | Global::Never | Global::Done => None,
            };
        }
        let holder = *self.held.get(&key)?;
        if holder.until <= now {
            self.held.remove(&key);
            return None;
        }
        Some(holder)
    }

    /// Whether function `pf` holds `resource`.
    pub(super) fn is_held(&mut self, resource: u16, pf: u8, now: u64) -> bool {
        self.held_until(resource, pf, now).is_some()
    }

    /// End of function `pf`'s hold on `resource`, if it holds it.
    pub(super) fn held_until(&mut self, resource: u16, pf: u8, now: u64) -> Option<u64> {
        let holder = self.holder((resource, 0), now);
        Some(holder.filter(|holder| holder.pf == pf)?.until)
    }

    pub(super) fn release_all(&mut self, pf: u8) {
        self.held.retain(|_, holder| holder.pf != pf);
        if matches!(self.global, Global::Held(holder) if holder.pf == pf) {
            self.global = Global::Done;
        }
    }

    fn hold(&mut self, key: (u16, u32), holder: Holder) {
        if key.0 == GLOBAL {
            self.global = Global::Held(holder);
        } else {
            self.held.insert(key, holder);
        }
    }

    fn release(&mut self, key: (u16, u32), then: LockReleased) {
        if key.0 == GLOBAL {
            self.global = match then {
                LockReleased::Done => Global::Done,
                LockReleased::Free => Global::Never,
            };
        } else {
            self.held.remove(&key);
        }
    }
}

impl Cx<'_, '_> {
    /// The holder of the global configuration lock.
    pub(super) fn global_holder(&mut self, now: u64) -> Option<u8> {
        let then = self.env.state.variation.lock_runs_out;
        self.card.locks.run_out(now, then);
        Some(self.card.locks.holder((GLOBAL, 0), now)?.pf)
    }

    /// 0x0008.
    pub(super) fn request_resource(&mut self, command: &Command) -> Answer {
        let (resource, access) = (command.param16(0), command.param16(2));
        if !matches!(resource, NVM | SDP | CHANGE | GLOBAL) || !matches!(access, READ | WRITE) {
            return Err(AqCode::EINVAL);
        }
        let number = if resource == SDP {
            command.param32(8)
        } else {
            0
        };
        let (pf, now) = (self.pf(), self.now());
        let left_ms = |holder: Holder| ((holder.until - now) / 1_000_000) as u32 + 1;
        let holder = self.card.locks.holder((resource, number), now);
        if let Some(holder) = holder
            && (holder.pf != pf || resource == GLOBAL)
        {
            let reply = command.done().put32(4, left_ms(holder));
            return Ok(if resource == GLOBAL {
                reply.put16(12, GLOBAL_IN_PROGRESS).refused(AqCode::EBUSY)
            } else {
                reply.refused(AqCode::EBUSY)
            });
        }
        if resource == GLOBAL && matches!(self.card.locks.global, Global::Done) {
            return Ok(command.done().put32(4, 0).put16(12, GLOBAL_DONE));
        }
        let granted = granted_ms(resource, access);
        let until = now + u64::from(granted) * 1_000_000;
        let key = (resource, number);
        self.card.locks.hold(key, Holder { pf, until });
        let reply = command.done().put32(4, granted);
        Ok(reply.put16(12, GLOBAL_SUCCESS))
    }

    /// 0x0009.
    pub(super) fn release_resource(&mut self, command: &Command) -> Answer {
        let resource = command.param16(0);
        let number = if resource == SDP {
            command.param32(8)
        } else {
            0
        };
        let (pf, now) = (self.pf(), self.now());
        match self.card.locks.holder((resource, number), now) {
            Some(holder) if holder.pf == pf => {
                let then = self.env.state.variation.lock_released;
                self.card.locks.release((resource, number), then);
                if resource == GLOBAL && self.card.vlan.disagrees() {
                    let text = "0x020C has set a VLAN mode that 0x0203 did not".to_owned();
                    self.env.found(kind::ADMINQ_BITS, text);
                }
                if resource == GLOBAL && self.card.package.is_left_unfinished() {
                    let text = "a download has ended without a last buffer".to_owned();
                    self.env.found(kind::ADMINQ_BITS, text);
                }
                Ok(command.done())
            }
            Some(_) => Err(AqCode::EACCES),
            None => Err(AqCode::EINVAL),
        }
    }
}
