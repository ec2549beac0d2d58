//! The scripted device: its registers.

mod command;
mod hmc;
mod queue;
mod script;
mod words;

use std::collections::{BTreeMap, VecDeque};

use e810_hal::bus::RegOffset;
use e810_hal::regs::{
    PFHMC_PDINV, PFPE_CCQPHIGH, PFPE_CCQPLOW, PFPE_CCQPSTATUS, PFPE_CQARM, PFPE_CQPDB,
    PFPE_CQPERRCODES, PFPE_CQPTAIL,
};

use e810_hal::testing::FakeMemory;
use queue::{Ccq, CqpState, Taken};
pub(crate) use script::Script;
use words::load;

pub(crate) struct Device {
    pub(crate) script: Script,
    pub(crate) complaints: Vec<String>,
    /// Every command taken, in order.
    pub(crate) taken: Vec<Taken>,
    /// Valid segments: index to data word.
    pub(crate) segments: BTreeMap<u64, u64>,
    /// PFHMC_PDINV writes.
    pub(crate) invalidated: Vec<u32>,
    pub(crate) arms: Vec<u64>,
    pub(crate) static_announced: bool,
    /// Memory was ordered before the next register that makes the device look
    /// at it.
    pub(crate) ordered: bool,
    cqp: Option<CqpState>,
    ccq: Option<Ccq>,
    doorbell: u64,
    high: u64,
    status: u32,
    tail: u32,
    error: bool,
    codes: u32,
    pending: VecDeque<(Taken, u32)>,
    accesses: u64,
    layout: Vec<(u64, u64)>,
}

impl Device {
    pub(crate) fn new(script: Script) -> Self {
        Self {
            script,
            complaints: Vec::new(),
            taken: Vec::new(),
            segments: BTreeMap::new(),
            invalidated: Vec::new(),
            arms: Vec::new(),
            static_announced: false,
            ordered: false,
            cqp: None,
            ccq: None,
            doorbell: 0,
            high: 0,
            status: 0,
            tail: 0,
            error: false,
            codes: 0,
            pending: VecDeque::new(),
            accesses: 0,
            layout: Vec::new(),
        }
    }

    fn complain(&mut self, text: impl Into<String>) {
        self.complaints.push(text.into());
    }

    fn gone(&mut self) -> bool {
        self.accesses += 1;
        self.script.gone_after.is_some_and(|n| self.accesses > n)
    }

    /// Register accesses so far.
    pub(crate) fn accesses(&self) -> u64 {
        self.accesses
    }

    pub(crate) fn read(&mut self, off: RegOffset) -> u32 {
        if self.gone() {
            return u32::MAX;
        }
        if off == PFPE_CCQPSTATUS.off() {
            self.status
        } else if off == PFPE_CQPTAIL.off() {
            self.tail | u32::from(self.error) << 31
        } else if off == PFPE_CQPERRCODES.off() {
            self.codes
        } else {
            self.complain(format!("{off} was read"));
            0
        }
    }

    pub(crate) fn write(&mut self, off: RegOffset, value: u32, memory: &FakeMemory) {
        if self.gone() {
            return;
        }
        let doorbells = [
            PFPE_CQPDB.off(),
            PFPE_CCQPHIGH.off(),
            PFPE_CQARM.off(),
            PFHMC_PDINV.off(),
        ];
        // A zero there ends or clears something: nothing is looked at.
        if doorbells.contains(&off) && (value != 0 || off == PFPE_CQARM.off()) {
            if !self.ordered {
                self.complain(format!("{off} was written before memory was ordered"));
            }
            self.ordered = false;
        }
        if off == PFPE_CQPDB.off() {
            self.doorbell = value.into();
            self.take(memory);
        } else if off == PFPE_CCQPHIGH.off() {
            self.high = value.into();
        } else if off == PFPE_CCQPLOW.off() {
            self.address(self.high << 32 | u64::from(value), memory);
        } else if off == PFPE_CQPTAIL.off() {
            (self.tail, self.error) = (value, false);
        } else if off == PFPE_CCQPSTATUS.off() {
            self.status = value;
        } else if off == PFPE_CQARM.off() {
            let arm = self.ccq.and_then(|ccq| memory.load(ccq.shadow + 32));
            self.arms.push(arm.unwrap_or(u64::MAX));
        } else if off == PFHMC_PDINV.off() {
            self.invalidated.push(value);
        } else {
            self.complain(format!("{off} was written"));
        }
    }

    fn address(&mut self, context: u64, memory: &FakeMemory) {
        if context == 0 {
            if !self.script.keeps_cqp {
                (self.cqp, self.ccq, self.status) = (None, None, 0);
                self.pending.clear();
            }
            return;
        }
        if self.script.silent_cqp {
            return;
        }
        if self.script.refuse_cqp {
            (self.status, self.codes) = (1 << 31, 0x0012_0034);
            return;
        }
        let Some(words) = load::<8>(memory, context) else {
            self.complain("the host context is not in memory");
            return;
        };
        let code = words[0] >> 8 & 0xF;
        self.cqp = Some(CqpState {
            base: words[1],
            entries: 4 << (code - 1),
            cookie: words[3],
            tail: 0,
            polarity: true,
        });
        if (words[0] >> 3 & 3, words[2], words[4]) != (2, 1, 0x1_0000) {
            self.complain(format!("host context {words:x?}"));
        }
        self.status = 1;
    }
}
