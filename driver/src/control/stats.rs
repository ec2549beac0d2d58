//! The function's counters, read by command.

use e810_cqp::limits::{LATE_ANSWERS, MAX_STATS_INSTANCES};
use e810_cqp::op::{GATHER_BYTES, GatherStats, ManageStats};
use e810_cqp::{Completion, Opcode};
use e810_hal::{DmaBuf, DmaLayout, DmaWord, DmaWords, Platform, log_warn};
use heapless::Vec;

use super::{Control, run_again};
use crate::error::{Error, Object, Result};
use crate::qp::QpControl;
use crate::stats::Stats;

/// The subject of the MANAGE_STATS that allocates; those that give back count up from 0.
const ALLOCATION: u64 = u64::MAX;
/// The subject of GATHER_STATS: only one is under way at a time, whatever it reads.
const READING: u64 = 0;

/// Existing drivers give the command a page.
const ALIGN: usize = 4096;

/// What the device still has, because it refused to take it back or did not answer.
#[derive(Debug)]
pub(super) struct UnansweredCounters<P: Platform> {
    /// The buffer of a reading: the device may write it until that command has ended.
    buffer: Option<DmaBuf<P>>,
    /// Each instance is in it once, so there is room for all.
    instances: Vec<Counters, { MAX_STATS_INSTANCES as usize }>,
    /// Instances that were given back so far.
    returns: u32,
}

#[derive(Debug)]
struct Counters {
    instance: u8,
    /// The subject is not the instance: its number comes again, and the late end of one return
    /// must not be taken for that of the next.
    subject: u32,
}

impl<P: Platform> Default for UnansweredCounters<P> {
    fn default() -> Self {
        Self {
            buffer: None,
            instances: Vec::new(),
            returns: 0,
        }
    }
}

impl<P: Platform> UnansweredCounters<P> {
    /// Gives the memory back, once the device runs no commands any more.
    pub(super) fn release(self) {
        let _ = self.buffer.map(DmaBuf::release);
    }
}

impl<P: Platform> Control<P> {
    /// The counters of this function (GATHER_STATS). They continue from where they were, so
    /// counts before a first reading are not this program's. Queue pairs with counters of their
    /// own are not included `[inf own_counters]`.
    ///
    /// # Errors
    /// No memory, or the device's refusal. If the device did not answer, a page stays allocated,
    /// which the next reading uses once the answer is there.
    pub fn gather_stats(&mut self) -> Result<Stats> {
        self.gather(None)
    }

    /// The counters of a queue pair that has counters of its own, since its creation.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Invalid`] for a queue pair without; otherwise as
    /// [`Control::gather_stats`].
    pub fn gather_qp_stats(&mut self, qp: &QpControl<P>) -> Result<Stats> {
        self.own(qp.owner, Object::Qp, qp.key.id())?;
        let instance = qp.made.counters.ok_or(Error::Invalid {
            what: "this queue pair has no counters of its own: make it with QpInit::counters",
        })?;
        self.gather(Some(instance))
    }

    fn gather(&mut self, instance: Option<u8>) -> Result<Stats> {
        let buffer = self.gather_buffer()?;
        let command = GatherStats {
            instance: instance.unwrap_or(0),
            use_instance: instance.is_some(),
            ..GatherStats::own(buffer.iova())
        };
        if let Err(error) = run_again(&mut self.cqp, &command, READING) {
            if error.leaves_command_open() {
                self.unanswered.counters.buffer = Some(buffer);
            } else {
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

    /// A page that the device does not write; the page of a reading that was given up, once that
    /// has ended.
    fn gather_buffer(&mut self) -> Result<DmaBuf<P>> {
        let Some(buffer) = self.unanswered.counters.buffer.take() else {
            let layout = DmaLayout::new(GATHER_BYTES, ALIGN);
            return Ok(DmaBuf::new(self.platform.clone(), layout)?);
        };
        // A forgotten command ends before the next, which is posted behind it.
        match self.cqp.late_end(Opcode::GatherStats, READING, true) {
            Ok(_) => Ok(buffer),
            Err(error) => {
                self.unanswered.counters.buffer = Some(buffer);
                Err(error.into())
            }
        }
    }

    /// Takes a statistics instance, if one is wanted.
    pub(super) fn count(&mut self, wanted: bool) -> Result<Option<u8>> {
        if !wanted {
            return Ok(None);
        }
        let hmc_function = None;
        let allocate = ManageStats::Allocate { hmc_function };
        let mut done = self.cqp.execute_again(&allocate, ALLOCATION);
        let is_refused = matches!(&done, Err(error) if !error.leaves_command_open());
        if is_refused && !self.unanswered.counters.instances.is_empty() {
            self.uncount_again();
            done = self.cqp.execute_again(&allocate, ALLOCATION);
        }
        let instance = instance_of(&done?).ok_or(Error::Invalid {
            what: "the device gave a statistics instance that there is none of: reset the function",
        })?;
        // The device can give it, so it had taken it back after all.
        let all = &mut self.unanswered.counters.instances;
        if let Some(place) = all.iter().position(|one| one.instance == instance) {
            all.swap_remove(place);
        }
        Ok(Some(instance))
    }

    /// Gives back instances that came too late and were not asked for again.
    pub(super) fn end_late_counters(&mut self) {
        let mut late = || self.cqp.late_end(Opcode::ManageStats, ALLOCATION, true);
        let mut given: Vec<u8, LATE_ANSWERS> = Vec::new();
        while let Ok(Some(ended)) = late() {
            let instance = ended.ok().as_ref().and_then(instance_of);
            // There is room: no more answers are remembered.
            let _ = instance.map(|instance| given.push(instance));
        }
        while let Some(instance) = given.pop() {
            self.uncount(Some(instance));
        }
    }

    /// Gives it back. If the device does not take it back, this is logged, and tried again when
    /// no instance is left, and at the end.
    pub(super) fn uncount(&mut self, instance: Option<u8>) {
        let Some(instance) = instance else {
            return;
        };
        let subject = self.unanswered.counters.returns;
        self.unanswered.counters.returns = subject.wrapping_add(1);
        let counters = Counters { instance, subject };
        if let Err(error) = self.try_uncount(&counters) {
            self.keep_counters(counters, &error);
        }
    }

    /// Tries again what was not given back. Waits only once for a silent device.
    pub(super) fn uncount_again(&mut self) {
        let mut is_silent = false;
        let mut all = core::mem::take(&mut self.unanswered.counters.instances);
        while let Some(counters) = all.pop() {
            if is_silent {
                // It came from there.
                let _ = self.unanswered.counters.instances.push(counters);
            } else if let Err(error) = self.try_uncount(&counters) {
                is_silent = error.leaves_command_open();
                self.keep_counters(counters, &error);
            }
        }
    }

    fn try_uncount(&mut self, counters: &Counters) -> Result<()> {
        let free = ManageStats::Free {
            instance: counters.instance,
            hmc_function: None,
        };
        run_again(&mut self.cqp, &free, counters.subject.into())
    }

    fn keep_counters(&mut self, counters: Counters, error: &Error) {
        log_warn!(
            "statistics instance {} stays taken: {}",
            counters.instance,
            error
        );
        // There is room for each instance once.
        let _ = self.unanswered.counters.instances.push(counters);
    }
}

/// The instance that MANAGE_STATS has allocated.
fn instance_of(done: &Completion) -> Option<u8> {
    let index = u8::try_from(done.ret_val).ok();
    index.filter(|index| u32::from(*index) < MAX_STATS_INSTANCES)
}
