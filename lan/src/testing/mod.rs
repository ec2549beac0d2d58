//! A device in plain memory: it reads contexts and descriptors with code of its own,
//! from the tables of lan-path 2.2, 4.1, 5.1 and 5.6.

use std::collections::{BTreeMap, VecDeque};
use std::string::String;
use std::vec::Vec;
use std::{format, vec};

use e810_hal::RegOffset;
use e810_hal::testing::{FakeDevice, FakeMemory, FakePlatform};

/// Queue numbers, vector and timer of the tests.
pub(crate) const RX_QUEUE: u16 = 3;
pub(crate) const TX_QUEUE: u16 = 5;
pub(crate) const VECTOR: u16 = 2;

pub(crate) const DOORBELL: u32 = 0x2C_0000 + 4 * TX_QUEUE as u32;
pub(crate) const TX_CAUSE: u32 = 0x14_0000 + 4 * TX_QUEUE as u32;
pub(crate) const RX_CAUSE: u32 = 0x15_0000 + 4 * RX_QUEUE as u32;
pub(crate) const CONTROL: u32 = 0x12_0000 + 4 * RX_QUEUE as u32;
pub(crate) const CONTEXT: u32 = 0x28_0000 + 4 * RX_QUEUE as u32;
pub(crate) const TAIL: u32 = 0x29_0000 + 4 * RX_QUEUE as u32;
pub(crate) const FORMAT: u32 = 0x48_0000 + 4 * RX_QUEUE as u32;
pub(crate) const INTERVAL: u32 = 0x15_4000 + 2 * 8192 + 4 * VECTOR as u32;
pub(crate) const DYN_CTL: u32 = 0x16_0000 + 4 * VECTOR as u32;

pub(crate) type Fake = FakePlatform<Nic>;

/// What a fake device does with QRX_CTRL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Switch {
    /// Answers after so many reads.
    After(u32),
    /// Never comes on, goes off at once.
    NeverOn,
    /// Never changes.
    Stuck,
}

/// A frame on its way in, as the device writes it back.
#[derive(Clone, Debug)]
pub(crate) struct Arriving {
    pub(crate) bytes: Vec<u8>,
    /// Or'ed into q8 of the last descriptor.
    pub(crate) status: u64,
    /// Or'ed into q16 of it.
    pub(crate) status1: u64,
    pub(crate) rxdid: u64,
}

pub(crate) fn plain(bytes: Vec<u8>) -> Arriving {
    Arriving {
        bytes,
        status: 0,
        status1: 0,
        rxdid: 2,
    }
}

pub(crate) struct Nic {
    pub(crate) registers: BTreeMap<u32, u32>,
    /// Writes in order.
    pub(crate) log: Vec<(u32, u32)>,
    pub(crate) complaints: Vec<String>,
    ordered: bool,
    pub(crate) switch: Switch,
    reads: u32,
    pub(crate) gone: bool,
    /// Ring and entries of the transmit queue, which firmware was told.
    pub(crate) tx: Option<(u64, u32)>,
    tx_head: u32,
    /// Frames that left.
    pub(crate) sent: Vec<Vec<u8>>,
    /// What is written to q8 of a descriptor that is done; `None`: nothing.
    pub(crate) done: Option<u64>,
    /// Descriptors not yet reported.
    pub(crate) unreported: VecDeque<u64>,
    rx_head: u32,
}

impl Default for Nic {
    fn default() -> Self {
        Self {
            registers: BTreeMap::new(),
            log: Vec::new(),
            complaints: Vec::new(),
            ordered: false,
            switch: Switch::After(2),
            reads: 0,
            gone: false,
            tx: None,
            tx_head: 0,
            sent: Vec::new(),
            done: Some(0xF),
            unreported: VecDeque::new(),
            rx_head: 0,
        }
    }
}

fn bytes_at(memory: &FakeMemory, at: u64, len: usize) -> Option<Vec<u8>> {
    (at..at + len as u64)
        .map(|place| Some((memory.load(place & !7)? >> (8 * (place & 7))) as u8))
        .collect()
}

impl Nic {
    pub(crate) fn get(&self, off: u32) -> u32 {
        self.registers.get(&off).copied().unwrap_or(0)
    }

    /// Bits `lo..lo + width` of the receive context.
    pub(crate) fn context(&self, lo: u32, width: u32) -> u64 {
        (0..width).fold(0, |value, bit| {
            let at = lo + bit;
            let word = self.get(CONTEXT + 0x2000 * (at / 32));
            value | u64::from(word >> (at % 32) & 1) << bit
        })
    }

    fn complain(&mut self, what: String) {
        self.complaints.push(what);
    }

    fn doorbell(&mut self, memory: &FakeMemory, tail: u32) {
        let Some((base, entries)) = self.tx else {
            return self.complain("doorbell of no queue".into());
        };
        if tail >= entries {
            return self.complain(format!("tail {tail} of {entries}"));
        }
        while self.tx_head != tail {
            let at = base + 16 * u64::from(self.tx_head);
            let (address, command) = (memory.load(at).unwrap(), memory.load(at + 8).unwrap());
            let len = (command >> 34 & 0x3FFF) as usize;
            if command & 0x3_FFFF_FFFF != 0x30 || command >> 48 != 0 {
                self.complain(format!("descriptor {}: {command:#x}", self.tx_head));
            }
            match bytes_at(memory, address, len) {
                Some(frame) => self.sent.push(frame),
                None => self.complain(format!("no memory at {address:#x}")),
            }
            self.unreported.push_back(at + 8);
            self.tx_head = (self.tx_head + 1) % entries;
        }
        self.report(memory);
    }

    /// Writes back what is done.
    pub(crate) fn report(&mut self, memory: &FakeMemory) {
        if let Some(done) = self.done {
            for at in self.unreported.drain(..) {
                memory.store(at, done);
            }
        }
    }

    /// Receives a frame into the descriptors that it has; false without room.
    pub(crate) fn deliver(&mut self, memory: &FakeMemory, frame: &Arriving) -> bool {
        let base = self.context(32, 57) << 7;
        let (entries, buffer) = (self.context(89, 13) as u32, self.context(102, 7) * 128);
        let parts: Vec<&[u8]> = match frame.bytes.is_empty() {
            true => vec![&[]],
            false => frame.bytes.chunks(buffer as usize).collect(),
        };
        let tail = self.get(TAIL) & !7;
        let free = (tail + entries - self.rx_head) % entries;
        if self.get(CONTROL) & 4 == 0 || parts.len() > free as usize {
            return false;
        }
        let count = parts.len();
        for (number, part) in parts.into_iter().enumerate() {
            let at = base + 32 * u64::from(self.rx_head);
            let address = memory.load(at).unwrap();
            if memory.load(at + 8) != Some(0) {
                self.complain(format!("descriptor {} is not clean", self.rx_head));
            }
            for (place, chunk) in (0..).zip(part.chunks(8)) {
                let mut word = [0xEE; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                if !memory.store(address + 8 * place, u64::from_le_bytes(word)) {
                    panic!("no buffer at {address:#x}");
                }
            }
            let last = number + 1 == count;
            let (status, status1) = if last {
                (3 | frame.status, frame.status1)
            } else {
                (1, 0)
            };
            memory.store(at, frame.rxdid | (part.len() as u64) << 32);
            memory.store(at + 16, status1);
            memory.store(at + 24, 0);
            memory.store(at + 8, status);
            self.rx_head = (self.rx_head + 1) % entries;
        }
        true
    }
}

impl FakeDevice for Nic {
    fn read(&mut self, off: RegOffset) -> u32 {
        if self.gone {
            return u32::MAX;
        }
        let off = off.get();
        if off == CONTROL {
            let value = self.get(off);
            let wanted = value & 1 != 0;
            let answers = match self.switch {
                Switch::After(reads) => self.reads >= reads,
                Switch::NeverOn => !wanted,
                Switch::Stuck => false,
            };
            self.reads += 1;
            if answers {
                self.registers.insert(off, value & !4 | (value & 1) << 2);
            }
        }
        self.get(off)
    }

    fn write(&mut self, off: RegOffset, value: u32, memory: &FakeMemory, _: u64) {
        let off = off.get();
        let ordered = core::mem::take(&mut self.ordered);
        self.log.push((off, value));
        self.registers.insert(off, value);
        match off {
            CONTROL => {
                self.reads = 0;
                if value & 1 != 0 {
                    self.rx_head = 0;
                }
            }
            DOORBELL => {
                if !ordered {
                    self.complain("doorbell before its descriptor".into());
                }
                self.doorbell(memory, value);
            }
            TAIL if value != 0 && !ordered => self.complain("tail before its descriptors".into()),
            _ => {}
        }
    }

    fn step(&mut self, _: &FakeMemory, _: u64) {}

    fn ordered(&mut self) {
        self.ordered = true;
    }

    fn may_free(&self) -> bool {
        self.get(CONTROL) & 5 == 0
    }

    fn complaints(&self) -> &[String] {
        &self.complaints
    }
}
