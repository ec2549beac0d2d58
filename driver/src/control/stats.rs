//! The function's counters, read by command.

use e810_cqp::limits::{LATE_ANSWERS, MAX_STATS_INSTANCES};
use e810_cqp::op::{GATHER_BYTES, GatherStats, ManageStats};
use e810_cqp::{Completion, Opcode};
use e810_hal::{DmaBuf, DmaLayout, DmaWord, DmaWords, Platform};
use heapless::Vec;

use super::{Control, run};
use crate::error::{Error, Object, Result};
use crate::qp::QpControl;
use crate::stats::Stats;

/// Of MANAGE_STATS that allocates: no number of an instance.
const ALLOCATION: u64 = u64::MAX;

/// Existing drivers give the command a page.
const ALIGN: usize = 4096;

impl<P: Platform> Control<P> {
    /// The counters of this function (GATHER_STATS). They go on from where they
    /// were: what is before a first reading is not this program's. Queue pairs
    /// with counters of their own are not among them `[inf]`.
    ///
    /// # Errors
    /// No memory, or the device's refusal. The memory stays allocated when the
    /// device did not answer.
    pub fn gather_stats(&mut self) -> Result<Stats> {
        self.gather(None)
    }

    /// The counters of a queue pair that was made with some of its own, from its
    /// creation on.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Invalid`] for a queue pair without; as
    /// [`Control::gather_stats`].
    pub fn gather_qp_stats(&mut self, qp: &QpControl<P>) -> Result<Stats> {
        self.own(qp.owner, Object::Qp, qp.key.id())?;
        let instance = qp.made.counters.ok_or(Error::Invalid {
            what: "this queue pair has no counters of its own: make it with QpInit::counters",
        })?;
        self.gather(Some(instance))
    }

    fn gather(&mut self, instance: Option<u8>) -> Result<Stats> {
        let layout = DmaLayout::new(GATHER_BYTES, ALIGN);
        let buffer = DmaBuf::new(self.platform.clone(), layout)?;
        let command = GatherStats {
            instance: instance.unwrap_or(0),
            use_instance: instance.is_some(),
            ..GatherStats::own(buffer.iova())
        };
        if let Err(error) = run(&mut self.cqp, &command) {
            if !error.leaves_command_open() {
                buffer.release();
            }
            return Err(error);
        }
        // The completion was seen: the counters are there.
        self.platform.from_device();
        let stats = Stats::read(|index| buffer.words().get(index).map_or(0, DmaWord::get));
        buffer.release();
        Ok(stats)
    }

    /// A statistics instance, if one is wanted.
    pub(super) fn count(&mut self, wanted: bool) -> Result<Option<u8>> {
        if !wanted {
            return Ok(None);
        }
        let hmc_function = None;
        let allocate = ManageStats::Allocate { hmc_function };
        let done = self.cqp.execute_again(&allocate, ALLOCATION)?;
        instance_of(&done).map(Some).ok_or(Error::Invalid {
            what: "the device gave a statistics instance that there is none of: reset the function",
        })
    }

    /// Gives back what was given too late and not asked for again.
    pub(super) fn end_late_counters(&mut self) {
        let mut late = || self.cqp.late_end(Opcode::ManageStats, ALLOCATION, true);
        let mut given: Vec<u8, LATE_ANSWERS> = Vec::new();
        while let Ok(Some(ended)) = late() {
            let instance = ended.ok().as_ref().and_then(instance_of);
            // There is room: no more answers are remembered.
            let _ = instance.map(|instance| given.push(instance));
        }
        for instance in given {
            self.uncount(Some(instance));
        }
    }

    /// Gives it back. A refusal is only logged: the instance stays taken until
    /// the function is reset.
    pub(super) fn uncount(&mut self, instance: Option<u8>) {
        let Some(instance) = instance else {
            return;
        };
        let hmc_function = None;
        let command = ManageStats::Free {
            instance,
            hmc_function,
        };
        if let Err(error) = run(&mut self.cqp, &command) {
            e810_hal::log_warn!("statistics instance {} stays taken: {}", instance, error);
        }
    }
}

/// The instance that MANAGE_STATS has allocated.
fn instance_of(done: &Completion) -> Option<u8> {
    let index = u8::try_from(done.ret_val).ok();
    index.filter(|index| u32::from(*index) < MAX_STATS_INSTANCES)
}
