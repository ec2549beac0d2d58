//! The scripted device.

use std::collections::{BTreeMap, VecDeque};

use e810_hal::bus::Off;
use e810_hal::regs::{
    PFHMC_PDINV, PFPE_CCQPHIGH, PFPE_CCQPLOW, PFPE_CCQPSTATUS, PFPE_CQARM, PFPE_CQPDB,
    PFPE_CQPERRCODES, PFPE_CQPTAIL,
};

use super::memory::Memory;

/// What the device is to do.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// Refuses the CQP (CCQP_ERR).
    pub(crate) refuse_cqp: bool,
    /// Never answers the creation of the CQP.
    pub(crate) silent_cqp: bool,
    /// Never lets go of the CQP.
    pub(crate) keeps_cqp: bool,
    /// Takes commands and never completes one.
    pub(crate) silent: bool,
    /// Completes nothing from this command on (0: the first).
    pub(crate) silent_from: Option<u64>,
    /// Steps between taking a command and completing it.
    pub(crate) steps: u32,
    /// Every command from this one on fails.
    pub(crate) fail_from: Option<u64>,
    /// Every command of this opcode fails.
    pub(crate) fail_op: Option<u8>,
    /// Register accesses from this one on answer all-ones.
    pub(crate) gone_after: Option<u64>,
    /// Reply of QUERY_FPM_VAL.
    pub(crate) fpm: [u64; 25],
    /// Feature list.
    pub(crate) features: Vec<u64>,
    /// CQEs put on the CCQ before the next good one: (cookie xor, index add).
    pub(crate) bad_entries: VecDeque<(u64, u64)>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            refuse_cqp: false,
            silent_cqp: false,
            keeps_cqp: false,
            silent: false,
            silent_from: None,
            steps: 1,
            fail_from: None,
            fail_op: None,
            gone_after: None,
            fpm: reply(),
            features: vec![3 << 32 | 1 << 16 | 50, 1 << 48 | 2, 32 << 48 | 1],
            bad_entries: VecDeque::new(),
        }
    }
}

/// QUERY_FPM_VAL of a device with a little of everything.
pub(crate) fn reply() -> [u64; 25] {
    let mut reply = [0; 25];
    let objects = [
        (8, 10, 1024u64),
        (16, 7, 2048),
        (32, 6, 4096),
        (40, 6, 256),
        (48, 6, 16384),
        (56, 6, 65536),
        (72, 6, 1 << 18),
        (88, 6, 8192),
        (96, 8, 512),
        (104, 6, 1024),
        (128, 6, 32768),
        (144, 6, 1024),
        (152, 6, 4096),
    ];
    for (offset, log2, max) in objects {
        reply[offset / 8] = max | log2 << 32;
    }
    for (offset, max) in [(64, 8192), (80, 1 << 15), (136, 4096)] {
        reply[offset / 8] = max | 8 << 32;
    }
    reply[14] = 1 << 20;
    reply[0] = 64 << 32;
    reply[15] = 32 | 1 << 16 | 256 << 32;
    reply
}

#[derive(Clone, Copy, Debug)]
struct Ccq {
    base: u64,
    entries: u64,
    shadow: u64,
    head: u64,
    polarity: bool,
    /// Entries nobody asked for, since the ring was last seen empty.
    unasked: u64,
}

#[derive(Clone, Copy, Debug)]
struct CqpState {
    base: u64,
    entries: u64,
    cookie: u64,
    tail: u64,
    /// Lap bit that a valid WQE has.
    polarity: bool,
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

/// Objects in the order and with the sizes this device lays them out: commit
/// offset, query offset (0: fixed size in the third).
const LAYOUT: [(usize, usize, u64); 19] = [
    (0, 8, 0),
    (8, 16, 0),
    (24, 32, 0),
    (32, 40, 0),
    (40, 0, 8192),
    (48, 48, 0),
    (56, 56, 0),
    (64, 0, 4),
    (72, 72, 0),
    (80, 0, 4),
    (88, 88, 0),
    (96, 96, 0),
    (104, 104, 0),
    (112, 0, 8),
    (128, 128, 0),
    (136, 0, 4),
    (144, 144, 0),
    (152, 152, 0),
    (160, 160, 0),
];

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

    /// Whether the device has a CQP.
    pub(crate) fn has_cqp(&self) -> bool {
        self.cqp.is_some()
    }

    pub(crate) fn read(&mut self, off: Off) -> u32 {
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

    pub(crate) fn write(&mut self, off: Off, value: u32, memory: &Memory) {
        if self.gone() {
            return;
        }
        let looks = [
            PFPE_CQPDB.off(),
            PFPE_CCQPHIGH.off(),
            PFPE_CQARM.off(),
            PFHMC_PDINV.off(),
        ];
        // A zero there ends or clears something: nothing is looked at.
        if looks.contains(&off) && (value != 0 || off == PFPE_CQARM.off()) {
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

    fn address(&mut self, context: u64, memory: &Memory) {
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

    /// Takes the commands up to the doorbell.
    fn take(&mut self, memory: &Memory) {
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
    pub(crate) fn step(&mut self, memory: &Memory) {
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

    fn finish(&mut self, taken: Taken, memory: &Memory) {
        let failing = self.script.fail_from.is_some_and(|n| taken.number >= n)
            || self.script.fail_op == Some(taken.op());
        let had_ccq = self.ccq;
        let done = !failing && self.execute(&taken, memory);
        let Some(cqp) = self.cqp else { return };
        self.tail = ((taken.index + 1) % cqp.entries) as u32;
        self.error = !done;
        self.codes = if done { 0 } else { 0xFFFF_8002 };
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
    fn has_room(&mut self, cqp: &CqpState, memory: &Memory) -> bool {
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
    pub(crate) fn put(&mut self, memory: &Memory, cookie: u64, index: u64, good: bool) {
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

    fn execute(&mut self, taken: &Taken, memory: &Memory) -> bool {
        let q = taken.wqe;
        match taken.op() {
            0x03 if q[3] & 0x7_FFFF == 0 => self.create_ccq(q),
            0x05 if q[3] & 0x7_FFFF == 0 => {
                self.ccq = None;
                true
            }
            0x12 => {
                let room = ((q[3] & 0xFFFF_FFFF) / 8) as usize;
                let list: Vec<u64> = self.script.features.iter().copied().take(room).collect();
                store(memory, q[4], &list)
            }
            0x1f => self.update_segments(q, memory),
            0x20 => store(memory, q[4], &self.script.fpm.clone()),
            0x21 => self.commit(q, memory),
            0x2b => {
                self.static_announced = true;
                true
            }
            _ => true,
        }
    }

    fn create_ccq(&mut self, q: [u64; 8]) -> bool {
        if q[4] & 255 != 0 || q[5] & 63 != 0 || !self.static_announced {
            self.complain(format!("CCQ {q:x?}"));
        }
        self.ccq = Some(Ccq {
            base: q[4],
            entries: q[0],
            shadow: q[5],
            head: 0,
            polarity: true,
            unasked: 0,
        });
        true
    }

    fn commit(&mut self, q: [u64; 8], memory: &Memory) -> bool {
        let Some(mut words) = load::<26>(memory, q[4]) else {
            return false;
        };
        let mut base = 0;
        self.layout.clear();
        for (commit, query, fixed) in LAYOUT {
            let bytes = match query {
                0 => fixed,
                query => 1 << (self.script.fpm[query / 8] >> 32),
            };
            let word = &mut words[commit / 8];
            let count = if commit == 40 { 1 } else { *word };
            *word = count | (base / 512) << 32;
            let end: u64 = base + count * bytes;
            self.layout.push((base, end));
            base = end.next_multiple_of(512);
        }
        store(memory, q[4], &words)
    }

    fn update_segments(&mut self, q: [u64; 8], memory: &Memory) -> bool {
        let mut entries = vec![(q[0], q[1])];
        for (command, data) in [(q[4], q[5]), (q[6], q[7])] {
            if command >> 63 != 0 {
                entries.push((command & 0xFFFF_FFFF, data));
            }
        }
        for n in 0..(q[3] & 0xF) {
            let at = (q[2] & !0x3F) + n * 16;
            match (memory.load(at), memory.load(at + 8)) {
                (Some(command), Some(data)) => entries.push((command, data)),
                _ => self.complain("the SD slot is not in memory"),
            }
        }
        if q[2] & 0x3F != u64::from(super::PF) {
            self.complain("SDs of another function");
        }
        for (command, data) in entries {
            if command & !0xFFF != 0x8000_8000 || data >> 2 & 0x3FF != 512 {
                self.complain(format!("SD {command:x} {data:x}"));
            }
            let index = command & 0xFFF;
            if data & 1 != 0 {
                if self.segments.insert(index, data).is_some() {
                    self.complain(format!("SD {index} was valid already"));
                }
            } else if self.segments.remove(&index).is_none() {
                self.complain(format!("SD {index} was not valid"));
            }
        }
        true
    }

    /// The device address behind a function-private address, if it is backed.
    pub(crate) fn translate(&self, address: u64, memory: &Memory) -> Option<u64> {
        let data = *self.segments.get(&(address >> 21))?;
        let base = data >> 12 << 12;
        let within = address & 0x1F_FFFF;
        let target = if data & 2 != 0 {
            base + within
        } else {
            let entry = memory.load(base + (within >> 12) * 8)?;
            if entry & 1 == 0 {
                return None;
            }
            (entry >> 12 << 12) + (within & 0xFFF)
        };
        memory.load(target & !7).map(|_| target)
    }

    /// Where object kind `n` of `LAYOUT` is: from, to.
    pub(crate) fn area(&self, commit_offset: usize) -> (u64, u64) {
        let n = LAYOUT.iter().position(|row| row.0 == commit_offset);
        self.layout[n.unwrap()]
    }

    /// Forgets everything, as a function reset does.
    pub(crate) fn reset(&mut self) {
        let (script, complaints) = (self.script.clone(), std::mem::take(&mut self.complaints));
        *self = Self {
            complaints,
            ..Self::new(script)
        };
    }
}

fn load<const N: usize>(memory: &Memory, at: u64) -> Option<[u64; N]> {
    let mut words = [0; N];
    for (n, word) in words.iter_mut().enumerate() {
        *word = memory.load(at + 8 * n as u64)?;
    }
    Some(words)
}

fn store(memory: &Memory, at: u64, words: &[u64]) -> bool {
    let mut places = (at..).step_by(8).zip(words);
    places.all(|(at, word)| memory.store(at, *word))
}
