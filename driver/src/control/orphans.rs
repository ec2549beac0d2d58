//! Queue pairs whose CREATE_QP was given up: the device may have made them all the same, with
//! their rings and on their completion queues. Once the answer has come they are destroyed, and
//! their resources are free.

use e810_cqp::Opcode;
use e810_cqp::op::DestroyQp;
use e810_datapath::slot::QpKey;
use e810_hal::{Platform, log_warn};
use e810_types::QpType;
use heapless::Vec;

use super::qp_context::hardware_type;
use super::{Control, run_again};
use crate::error::{Error, Result};
use crate::rings::{QpMemory, QpPlace};

/// Places for orphans; while all are taken no queue pair is made. There are fewer of them than
/// remembered commands, so no orphan's command is forgotten.
const ORPHANS: usize = 8;

pub(super) type Orphans<P> = Vec<Orphan<P>, ORPHANS>;

/// An orphan, hidden from events and completions.
#[derive(Debug)]
pub(super) struct Orphan<P: Platform> {
    pub(super) key: QpKey,
    pub(super) qp_type: QpType,
    pub(super) pd: u32,
    pub(super) cqs: [u32; 2],
    pub(super) class: u8,
    pub(super) counters: Option<u8>,
    pub(super) place: QpPlace,
    /// Its rings; `None` if a program keeps them.
    pub(super) memory: Option<QpMemory<P>>,
    /// The device has said that it made it, or may have made it and will not say.
    pub(super) exists: bool,
}

impl<P: Platform> Control<P> {
    /// Keeps an orphan, which uses its protection domain and completion queues until it is gone.
    pub(super) fn keep_orphan(&mut self, orphan: Orphan<P>) {
        self.pd_users.inc(orphan.pd);
        for cq in orphan.cqs {
            self.cq_users.inc(cq);
        }
        // There is room, as room_for_orphan has seen.
        let _ = self.unanswered.orphans.push(orphan);
    }

    /// Checks that one more orphan can be kept, if its CREATE_QP is not answered.
    pub(super) fn room_for_orphan(&self) -> Result<()> {
        if self.unanswered.orphans.is_full() {
            return Err(Error::Invalid {
                what: "the device has not answered about eight queue pairs: only a reset of the function helps",
            });
        }
        Ok(())
    }

    /// Whether the device may use a program's memory on which a queue pair could not be made
    /// ([`NotMade::may_use_memory`](crate::NotMade)).
    #[must_use]
    pub fn may_use(&self, place: QpPlace) -> bool {
        let mut all = self.unanswered.orphans.iter();
        all.any(|orphan| orphan.place == place)
    }

    /// Destroys the orphans that the device has answered about; waits for no CREATE_QP.
    pub(super) fn end_orphans(&mut self) {
        // What is not destroyed stays on the list, and was logged.
        let _ = self.end_orphans_of(|_| false);
    }

    /// The same, but waits for the answers about orphans for which `needed` is true.
    ///
    /// # Errors
    /// The last error of such an orphan that is not gone.
    pub(super) fn end_orphans_of(&mut self, needed: impl Fn(&Orphan<P>) -> bool) -> Result<()> {
        let mut result = Ok(());
        let mut all = core::mem::take(&mut self.unanswered.orphans);
        while let Some(mut orphan) = all.pop() {
            let is_needed = needed(&orphan);
            match self.end_orphan(&mut orphan, is_needed) {
                Ok(true) => self.free_orphan(orphan),
                Ok(false) => self.put_back(orphan),
                Err(error) => {
                    log_warn!("queue pair {} stays: {}", orphan.key.id(), error);
                    self.put_back(orphan);
                    if is_needed {
                        result = Err(error);
                    }
                }
            }
        }
        result
    }

    fn put_back(&mut self, orphan: Orphan<P>) {
        // It was taken from there.
        let _ = self.unanswered.orphans.push(orphan);
    }

    /// Destroys it if the device has it; returns whether it is gone.
    fn end_orphan(&mut self, orphan: &mut Orphan<P>, wait: bool) -> Result<bool> {
        let (key, id) = (orphan.key, orphan.key.id());
        if !orphan.exists {
            let (op, subject) = (Opcode::CreateQp, key.bits());
            match self.cqp.late_end(op, subject, wait)? {
                None if self.cqp.remembers(op, subject) => return Ok(false),
                // A forgotten command: nothing is known, but what is posted now comes behind it.
                None | Some(Ok(_)) => orphan.exists = true,
                Some(Err(_)) => return Ok(true),
            }
        }
        let (context, shadow) = (self.context_of(id), self.shadow_of(id));
        let command = DestroyQp {
            remove_hash_entry: true,
            ..DestroyQp::new(id, hardware_type(orphan.qp_type), context, shadow)
        };
        run_again(&mut self.cqp, &command, id.into()).map(|()| true)
    }

    fn free_orphan(&mut self, orphan: Orphan<P>) {
        let left = self
            .scheduler
            .leave(&mut self.cqp, &mut self.lan_side, orphan.class);
        if let Err(error) = left {
            log_warn!("queue pair {}: {}", orphan.key.id(), error);
        }
        self.uncount(orphan.counters);
        self.pd_users.dec(orphan.pd);
        for cq in orphan.cqs {
            self.cq_users.dec(cq);
        }
        self.retire_unheard(orphan.key);
        if let Some(memory) = orphan.memory {
            memory.release();
        }
    }
}
