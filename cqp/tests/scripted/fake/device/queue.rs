//! The rings: the send queue in laps, and the CCQ.

use super::Device;
use super::words::load;
use e810_hal::testing::FakeMemory;

#[derive(Clone, Copy, Debug)]
pub(super) struct Ccq {
    pub(super) base: u64,
    pub(super) entries: u64,
    pub(super) shadow: u64,
    pub(super) head: u64,
    pub(super) polarity: bool,
    /// Entries nobody asked for, since the ring was last seen empty.
    pub(super) unasked: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CqpState {
    pub(super) base: u64,
    pub(super) entries: u64,
    pub(super) cookie: u64,
    pub(super) tail: u64,
    /// Lap bit that a valid WQE has.
    pub(super) polarity: bool,
}

/// A command the device has taken: its words and its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taken {
    pub(crate) number: u64,
    pub(crate) index: u64,
    pub(crate) wqe: [u64; 8],
}

impl Taken {
    pub(crate) fn op(&self) -> u8 {
        (self.wqe[3] >> 32 & 0x3F) as u8
    }
}

impl Device {
    /// Takes the commands up to the doorbell.
    pub(super) fn take(&mut self, memory: &FakeMemory) {
        let Some(mut cqp) = self.cqp else {
            if self.doorbell != 0 {
                self.complain("doorbell without a CQP");
            }
            return;
        };
        while cqp.tail != self.doorbell % cqp.entries {
            let at = cqp.base + cqp.tail * 64;
            let Some(wqe) = load::<8>(memory, at) else {
                return self.complain("a WQE is not in memory");
            };
            if (wqe[3] >> 63 != 0) != cqp.polarity {
                return self.complain(format!("WQE {} is not valid in this lap", cqp.tail));
            }
            let number = self.taken.len() as u64;
            let taken = Taken {
                number,
                index: cqp.tail,
                wqe,
            };
            self.taken.push(taken);
            self.pending.push_back((taken, self.script.steps));
            cqp.tail += 1;
            if cqp.tail == cqp.entries {
                cqp.tail = 0;
                cqp.polarity = !cqp.polarity;
            }
        }
        self.cqp = Some(cqp);
        if self.script.steps == 0 {
            self.step(memory);
        }
    }

    /// Lets time pass: completes what is due.
    pub(crate) fn step(&mut self, memory: &FakeMemory) {
        if self.script.silent {
            return;
        }
        while let Some((taken, steps)) = self.pending.front_mut() {
            if self.script.silent_from.is_some_and(|n| taken.number >= n) {
                return;
            }
            if *steps > 0 {
                *steps -= 1;
                return;
            }
            let taken = *taken;
            self.pending.pop_front();
            self.finish(taken, memory);
        }
    }

    fn finish(&mut self, taken: Taken, memory: &FakeMemory) {
        let failing = self.script.fail_from.is_some_and(|n| taken.number >= n)
            || self.script.fail_op == Some(taken.op());
        let had_ccq = self.ccq;
        let done = !failing && self.execute(&taken, memory);
        let Some(cqp) = self.cqp else { return };
        self.tail = ((taken.index + 1) % cqp.entries) as u32;
        if !done || !self.script.sticky_error {
            self.error = !done;
            self.codes = if done { 0 } else { self.script.codes };
        }
        // The CCQ's own creation completes on it, its destruction does not.
        if let Some(ccq) = self.ccq.or(had_ccq.filter(|_| !done)) {
            self.ccq = Some(ccq);
            while let Some((cookie, index)) = self.script.bad_entries.pop_front() {
                if self.has_room(&cqp, memory) {
                    // Taken for good, it would be an error.
                    self.put(memory, cqp.cookie ^ cookie, taken.index + index, false);
                }
            }
            self.put(memory, cqp.cookie, taken.index, done);
        }
    }

    /// Whether the CCQ has room for an entry that nobody asked for, next to
    /// those of as many commands as the CQP can hold: they may all complete
    /// before the driver looks again.
    fn has_room(&mut self, cqp: &CqpState, memory: &FakeMemory) -> bool {
        let Some(ccq) = &mut self.ccq else {
            return false;
        };
        if memory.load(ccq.shadow).unwrap_or(0) == ccq.head {
            ccq.unasked = 0;
        }
        let room = cqp.entries + ccq.unasked < ccq.entries;
        ccq.unasked += u64::from(room);
        room
    }

    /// Writes a CCQ entry.
    pub(crate) fn put(&mut self, memory: &FakeMemory, cookie: u64, index: u64, good: bool) {
        let Some(mut ccq) = self.ccq else { return };
        let at = ccq.base + ccq.head * 32;
        let error = if good { 0 } else { 1 << 55 | 0xFFFF_8002 };
        let valid = u64::from(ccq.polarity) << 63;
        let stored = memory.store(at + 8, cookie)
            && memory.store(at + 16, 0x1000 + index)
            && memory.store(at + 24, error | index << 32 | valid);
        if !stored {
            self.complain("the CCQ is not in memory");
        }
        ccq.head += 1;
        if ccq.head == ccq.entries {
            ccq.head = 0;
            ccq.polarity = !ccq.polarity;
        }
        self.ccq = Some(ccq);
    }

    /// The cookie of the CQP.
    pub(crate) fn cookie(&self) -> u64 {
        self.cqp.map_or(0, |cqp| cqp.cookie)
    }

    /// Where the CCQ's shadow area is.
    pub(crate) fn ccq_shadow(&self) -> u64 {
        self.ccq.map_or(0, |ccq| ccq.shadow)
    }
}
