//! READs that wait for those before them, at a rate.

use e810_hal::{Barrier, Bus, DmaWords};

use super::SendQueue;
use super::slow_path::Body;
use crate::error::PostError;
use crate::slot::SlotMemory;
use crate::wr::{SendFlags, Sge};

/// Counts READs as existing drivers do: `rate` without FENCE, then one with it.
#[derive(Debug)]
pub(super) struct ReadFence {
    /// 0: none is fenced.
    rate: u8,
    /// READs since the last that was fenced.
    since: u8,
}

impl ReadFence {
    pub(super) const fn new(rate: u8) -> Self {
        Self { rate, since: 0 }
    }

    /// What the next READ carries.
    const fn due(&self) -> SendFlags {
        if self.rate != 0 && self.since >= self.rate {
            SendFlags::FENCE
        } else {
            SendFlags::empty()
        }
    }

    /// That READ was posted.
    const fn posted(&mut self) {
        // Not above the rate, so that nothing overflows.
        self.since = if self.since >= self.rate {
            0
        } else {
            self.since.wrapping_add(1)
        };
    }
}

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> SendQueue<P, W, M> {
    /// A READ, fenced where one is due. One that is refused does not count.
    #[inline(always)]
    pub(super) fn post_read(
        &mut self,
        wr_id: u64,
        into: &[Sge],
        body: Body,
        flags: SendFlags,
    ) -> Result<(), PostError> {
        let wanted = flags.union(self.read_fence.due());
        self.post_sges(wr_id, into, body, wanted)?;
        self.read_fence.posted();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_rate_counts_to_its_end() {
        let mut fence = ReadFence::new(u8::MAX);
        for at in 0..1024 {
            let due = !fence.due().is_empty();
            assert_eq!(due, at % 256 == 255, "READ {at}");
            fence.posted();
        }
    }
}
