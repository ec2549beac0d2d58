//! The function's counters, read by command.

use e810_cqp::op::{GATHER_BYTES, GatherStats};
use e810_hal::{Cell, DmaBuf, DmaLayout, Platform, Words};

use super::{Control, run};
use crate::error::Result;
use crate::stats::Stats;

/// Existing drivers give the command a page.
const ALIGN: usize = 4096;

impl<P: Platform> Control<P> {
    /// The counters of this function (GATHER_STATS). They go on from where they
    /// were: what is before a first reading is not this program's.
    ///
    /// # Errors
    /// No memory, or the device's refusal. The memory stays allocated when the
    /// device did not answer.
    pub fn gather_stats(&mut self) -> Result<Stats> {
        let layout = DmaLayout::new(GATHER_BYTES, ALIGN);
        let buffer = DmaBuf::new(self.platform.clone(), layout)?;
        if let Err(error) = run(&mut self.cqp, &GatherStats::own(buffer.iova())) {
            if !error.leaves_command_open() {
                buffer.release();
            }
            return Err(error);
        }
        // The completion was seen: the counters are there.
        self.platform.from_device();
        let stats = Stats::read(|index| buffer.cells().get(index).map_or(0, Cell::get));
        buffer.release();
        Ok(stats)
    }
}
