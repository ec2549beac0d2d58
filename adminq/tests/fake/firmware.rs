//! The queues of the scripted firmware, and its reset registers.

use std::collections::BTreeMap;

use e810_hal::bus::RegOffset;

use super::state::{Reply, State};
use e810_hal::testing::FakeMemory;

const ATQ: u32 = 0x8_0000;
const ARQ: u32 = 0x8_0080;
const BAL: u32 = 0;
const BAH: u32 = 0x100;
const LEN: u32 = 0x200;
const HEAD: u32 = 0x300;
const TAIL: u32 = 0x400;
const ENABLE: u32 = 1 << 31;

/// What goes wrong with a command.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// Nothing: for a later one of the same opcode.
    Nothing,
    /// No answer.
    Silent,
    /// No answer, and a critical error in the length register.
    Critical,
    /// An answer after this many ms.
    Late(u64),
    /// This error code (and the firmware's own above it), the reply's own data.
    Code(u16),
    /// This error code, parameters and data.
    Answer(Reply),
    /// The reply says that it has this many bytes.
    Length(u16),
    /// The head register says this.
    Head(u32),
    /// Every register reads all-ones from now on.
    Gone,
}

/// A command that was taken.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) opcode: u16,
    pub(crate) flags: u16,
    pub(crate) params: [u8; 16],
    pub(crate) data: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Firmware {
    registers: BTreeMap<u32, u32>,
    pub(crate) complaints: Vec<String>,
    pub(crate) taken: Vec<Taken>,
    /// Faults by opcode; taken out when they strike, as many times as given.
    pub(crate) faults: BTreeMap<u16, Vec<Fault>>,
    pub(crate) state: State,
    /// Memory was ordered before the next tail.
    pub(crate) ordered: bool,
    gone: bool,
    stuck: bool,
    /// A command in work: when its reply is due.
    due: Option<u64>,
    /// Reads of PFGEN_CTRL until a reset is over.
    pub(crate) reset_reads: u32,
    resetting: u32,
    /// Times that enabling a queue is not accepted.
    pub(crate) deaf: u32,
}

impl Default for Firmware {
    fn default() -> Self {
        let registers = [
            // Nothing resets; all units are there.
            (0xB_8188, 0),
            (0xB_8180, 2),
            (0xB_6008, 0x73B),
            (0xB_6134, 0),
        ];
        Self {
            registers: registers.into(),
            complaints: Vec::new(),
            taken: Vec::new(),
            faults: BTreeMap::new(),
            state: State::default(),
            ordered: false,
            gone: false,
            stuck: false,
            due: None,
            reset_reads: 3,
            resetting: 0,
            deaf: 0,
        }
    }
}

fn word(memory: &FakeMemory, at: u64) -> u64 {
    memory.load(at).unwrap_or(0)
}

impl Firmware {
    fn get(&self, at: u32) -> u32 {
        self.registers.get(&at).copied().unwrap_or(0)
    }

    pub(crate) fn set(&mut self, at: u32, value: u32) {
        self.registers.insert(at, value);
    }

    /// The next command `opcode` goes wrong.
    pub(crate) fn fault(&mut self, opcode: u16, fault: Fault) {
        self.faults.entry(opcode).or_default().push(fault);
    }

    pub(crate) fn queues_on(&self) -> bool {
        [ATQ, ARQ].iter().any(|q| self.get(q + LEN) & ENABLE != 0)
    }

    /// Takes the firmware's stick: everything goes on as if nothing had been.
    pub(crate) fn wake(&mut self) {
        self.stuck = false;
        self.due = Some(0);
    }

    pub(crate) fn read(&mut self, off: RegOffset) -> u32 {
        if self.gone {
            return u32::MAX;
        }
        match off.get() {
            0x9_1000 if self.resetting > 0 => {
                self.resetting -= 1;
                u32::from(self.resetting > 0)
            }
            at => self.get(at),
        }
    }

    pub(crate) fn write(&mut self, off: RegOffset, value: u32, now: u64) {
        let at = off.get();
        match at {
            0x9_1000 => self.resetting = self.reset_reads,
            // A reset of the card is over when DEVSTATE reads 0, at once here.
            0xB_8190 => self.set(0xB_8190, value),
            _ if at == ATQ + BAL && self.deaf > 0 => {
                self.deaf -= 1;
                self.set(at, !value & !0x3F);
            }
            _ => {
                if [ATQ + TAIL, ARQ + TAIL].contains(&at) && value != 0 && !self.ordered {
                    self.complaints
                        .push(format!("tail {at:#x} before its entry"));
                }
                self.ordered = false;
                self.set(at, value);
                if at == ATQ + LEN {
                    // A queue set up anew forgets what was before.
                    self.stuck = false;
                    self.due = None;
                }
                if at == ATQ + TAIL && self.get(ATQ + LEN) & ENABLE != 0 && self.due.is_none() {
                    self.due = Some(now + 1_000);
                }
            }
        }
    }

    fn base(&self, queue: u32) -> u64 {
        u64::from(self.get(queue + BAH)) << 32 | u64::from(self.get(queue + BAL))
    }

    fn entries(&self, queue: u32) -> u32 {
        self.get(queue + LEN) & 0x3FF
    }

    /// Works on what is due.
    pub(crate) fn step(&mut self, memory: &FakeMemory, now: u64) {
        if self.gone || self.stuck || self.due.is_none_or(|due| due > now) {
            return;
        }
        let on = self.get(ATQ + LEN) & ENABLE != 0;
        let (head, tail) = (self.get(ATQ + HEAD), self.get(ATQ + TAIL));
        if !on || head == tail {
            self.due = None;
            return;
        }
        let at = self.base(ATQ) + 32 * u64::from(head);
        self.serve(memory, at, head, now);
    }

    fn serve(&mut self, memory: &FakeMemory, at: u64, head: u32, now: u64) {
        let words = [0, 8, 16, 24].map(|offset| word(memory, at + offset));
        let (flags, opcode) = (words[0] as u16, (words[0] >> 16) as u16);
        let datalen = (words[0] >> 32) as u16;
        let mut params = [0; 16];
        params[..8].copy_from_slice(&words[2].to_le_bytes());
        params[8..].copy_from_slice(&words[3].to_le_bytes());
        let buffer = u64::from(words[3] as u32) << 32 | words[3] >> 32;
        let sent = self.take_request(memory, flags, opcode, datalen, buffer);
        let mut fault = self.faults.get_mut(&opcode).and_then(|list| {
            if list.is_empty() {
                None
            } else {
                Some(list.remove(0))
            }
        });
        match &fault {
            Some(Fault::Silent) => self.stuck = true,
            Some(Fault::Critical) => {
                self.stuck = true;
                let len = self.get(ATQ + LEN);
                self.set(ATQ + LEN, len | 1 << 30);
            }
            Some(Fault::Head(value)) => {
                self.stuck = true;
                self.set(ATQ + HEAD, *value);
            }
            Some(Fault::Gone) => self.gone = true,
            Some(Fault::Late(ms)) => {
                let due = now + ms * 1_000_000;
                self.due = Some(due);
                // Next time it is served.
                return;
            }
            _ => {}
        }
        if self.stuck || self.gone {
            return;
        }
        self.taken.push(Taken {
            opcode,
            flags,
            params,
            data: sent.clone(),
        });
        let mut reply = match fault.take() {
            Some(Fault::Answer(reply)) => reply,
            Some(Fault::Code(code)) => Reply::code(code),
            Some(Fault::Length(len)) => Reply {
                len: Some(len),
                ..self.state.answer(opcode, params, &sent)
            },
            _ => self.state.answer(opcode, params, &sent),
        };
        if flags & 1 << 12 == 0 {
            reply.data.clear();
        }
        reply.data.truncate(datalen.into());
        for (number, chunk) in reply.data.chunks(8).enumerate() {
            let place = buffer + 8 * number as u64;
            let mut bytes = word(memory, place).to_le_bytes();
            bytes[..chunk.len()].copy_from_slice(chunk);
            memory.store(place, u64::from_le_bytes(bytes));
        }
        let len = reply.len.unwrap_or(reply.data.len() as u16);
        let error = u16::from(reply.retval != 0) << 2;
        let first = u64::from(flags | 3 | error)
            | u64::from(opcode) << 16
            | u64::from(len) << 32
            | u64::from(reply.retval) << 48;
        memory.store(at, first);
        // With a buffer, only the first half is the firmware's.
        memory.store(
            at + 16,
            u64::from_le_bytes(reply.params[..8].try_into().unwrap()),
        );
        if flags & 1 << 12 == 0 {
            memory.store(
                at + 24,
                u64::from_le_bytes(reply.params[8..].try_into().unwrap()),
            );
        }
        let next = (head + 1) % self.entries(ATQ);
        self.set(ATQ + HEAD, next);
        self.due = Some(now + 1_000);
    }

    /// Reads the data sent, and complains about flags that do not fit.
    fn take_request(
        &mut self,
        memory: &FakeMemory,
        flags: u16,
        opcode: u16,
        datalen: u16,
        buffer: u64,
    ) -> Vec<u8> {
        let (large, to_us, has) = (flags & 1 << 9, flags & 1 << 10, flags & 1 << 12);
        if (large != 0) != (datalen > 512) || (has != 0) != (datalen > 0) {
            self.complaints
                .push(format!("{opcode:#x}: flags {flags:#x}, {datalen} bytes"));
        }
        if has == 0 {
            return Vec::new();
        }
        let words = (0..u64::from(datalen).div_ceil(8)).map(|n| memory.load(buffer + 8 * n));
        let Some(words) = words.collect::<Option<Vec<u64>>>() else {
            self.complaints
                .push(format!("{opcode:#x}: no buffer at {buffer:#x}"));
            return Vec::new();
        };
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(datalen.into());
        if to_us == 0 && bytes.iter().any(|byte| *byte != 0) {
            self.complaints
                .push(format!("{opcode:#x}: left-overs in the buffer"));
        }
        if to_us == 0 { Vec::new() } else { bytes }
    }

    pub(crate) fn event(
        &mut self,
        memory: &FakeMemory,
        opcode: u16,
        flags: u16,
        datalen: u16,
        data: &[u8],
    ) -> bool {
        let (head, tail) = (self.get(ARQ + HEAD), self.get(ARQ + TAIL));
        if self.get(ARQ + LEN) & ENABLE == 0 || head == tail {
            let len = self.get(ARQ + LEN);
            self.set(ARQ + LEN, len | 1 << 29);
            return false;
        }
        let at = self.base(ARQ) + 32 * u64::from(head);
        let first = word(memory, at);
        if first as u16 != 0x1200 || (first >> 32) as u16 != 4096 {
            self.complaints
                .push(format!("event entry {head}: {first:#x}"));
        }
        let last = word(memory, at + 24);
        let buffer = u64::from(last as u32) << 32 | last >> 32;
        for (number, chunk) in data.chunks(8).enumerate() {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            if !memory.store(buffer + 8 * number as u64, u64::from_le_bytes(bytes)) {
                self.complaints
                    .push(format!("no event buffer at {buffer:#x}"));
            }
        }
        let first = u64::from(0x1203 | flags) | u64::from(opcode) << 16 | u64::from(datalen) << 32;
        memory.store(at, first);
        memory.store(at + 24, 0);
        let next = (head + 1) % self.entries(ARQ);
        self.set(ARQ + HEAD, next);
        true
    }
}
