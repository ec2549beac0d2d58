//! A hostile driver at the simulator: random registers, commands of the CQP and of
//! the AdminQ with addresses that are mostly mapped, and random frames.

use e810_hal::regs::{PFPE_CCQPHIGH, PFPE_CCQPLOW, PFPE_CQPDB};
use e810_hal::{Access, Bus, Ns, RegOffset, SharedBytes};
use e810_sim::{Mode, Sim, SimPlatform};
use e810_tests::scenario::payload::Payload;

use super::random::{Random, each};

/// Where the device finds memory, and how much.
const BASE: u64 = 0x10_0000;
const LEN: u64 = 1 << 20;
/// In it: the CQP's ring and a buffer; the AdminQ's rings and two buffers.
const SQ: u64 = 0x1_0000;
const FPM: u64 = 0x8_0000;
const ATQ: u64 = 0x4_0000;
const BUFFER: u64 = 0x6_0000;

/// Opcodes of the CQP that existing drivers send, and of the AdminQ that the
/// simulator serves, with a few that it does not.
const CQP: [u64; 26] = [
    0x00, 0x03, 0x09, 0x0a, 0x0f, 0x12, 0x16, 0x19, 0x1c, 0x1f, 0x20, 0x21, 0x2b, 0x2c, 0x2d, 0x2e,
    0x01, 0x02, 0x04, 0x05, 0x0d, 0x22, 0x26, 0x27, 0x28, 0x13,
];
const ADMINQ: [u64; 82] = [
    0x001, 0x002, 0x003, 0x008, 0x009, 0x00a, 0x00b, 0x107, 0x108, 0x110, 0x200, 0x203, 0x208,
    0x209, 0x20b, 0x20c, 0x20d, 0x210, 0x211, 0x212, 0x213, 0x214, 0x290, 0x291, 0x292, 0x293,
    0x2a0, 0x2a1, 0x2a2, 0x2a4, 0x302, 0x303, 0x400, 0x401, 0x403, 0x404, 0x408, 0x409, 0x40a,
    0x40e, 0x40f, 0x410, 0x411, 0x412, 0x415, 0x417, 0x418, 0x600, 0x601, 0x603, 0x605, 0x607,
    0x613, 0x6e0, 0x6ea, 0x701, 0x706, 0x999, 0xa00, 0xa01, 0xa05, 0xa06, 0xa07, 0xa08, 0xa09,
    0xa0a, 0xb02, 0xb03, 0xb04, 0xb05, 0xc30, 0xc31, 0xc32, 0xc33, 0xc40, 0xc41, 0xc42, 0xc43,
    0xff20, 0xff30, 0xff31, 0xff32,
];

struct Hostile {
    random: Random,
    sim: Sim,
    nic: SimPlatform,
    memory: SharedBytes,
}

impl Hostile {
    fn put(&self, at: u64, value: u64) {
        // What is past the end is not there.
        let _ = self.memory.write(at as usize, &value.to_le_bytes());
    }

    fn set(&self, register: u64, value: u64) {
        let off = RegOffset::new(register as u32 & !3);
        self.nic.write32(off, value as u32);
    }

    fn run(&self, nanoseconds: u64) {
        self.sim.run(Ns(nanoseconds));
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.below(end)
    }

    /// A word as descriptors have them: nothing, everything, addresses, indexes.
    fn word(&mut self) -> u64 {
        let random = &mut self.random;
        match random.below(9) {
            0 => 0,
            1 => u64::MAX,
            2 | 3 => BASE + random.below(LEN / 256) * 256,
            4 => random.below(64),
            5 => 1 << random.below(64),
            6 => random.next(),
            7 => (BASE + random.below(LEN / 4096) * 4096) | 3,
            _ => random.below(1 << 20) << 32 | random.below(1 << 20),
        }
    }

    fn fill(&mut self) {
        for at in (0..LEN).step_by(8) {
            let value = if self.random.rarely(3) {
                self.word()
            } else {
                0
            };
            self.put(at, value);
        }
    }

    /// Makes the CQP and has it do commands.
    fn commands(&mut self) {
        let code = 1 + self.below(10);
        for (index, value) in [0x10 | code << 8, BASE + SQ, 1, 7, 0x1_0000, 0, 0, 0]
            .into_iter()
            .enumerate()
        {
            self.put(8 * index as u64, value);
        }
        if self.random.rarely(8) {
            let (place, value) = (self.below(8) * 8, self.word());
            self.put(place, value);
        }
        PFPE_CCQPHIGH.set(&self.nic, 0);
        PFPE_CCQPLOW.set(&self.nic, BASE as u32);
        self.run(1_000_000);
        let entries = 4 << (code - 1);
        let (mut head, mut valid) = (0, false);
        for step in 0..self.below(400) {
            valid ^= head == 0;
            self.command(SQ + head * 64, step, valid);
            head = (head + 1) % entries;
            PFPE_CQPDB.set(&self.nic, head as u32);
            self.run(20_000);
            match self.below(6) {
                0 => {
                    let (register, value) = (self.below(0x100), self.random.next());
                    self.set(0x7F_0000 + register * 4, value);
                }
                1 => {
                    let (register, value) = (self.below(16), self.below(16));
                    self.set(0x7F_0000 + register * 4, value);
                }
                2 => {
                    let (at, value) = (self.below(LEN / 8) * 8, self.word());
                    self.put(at, value);
                }
                _ => {}
            }
        }
    }

    fn command(&mut self, at: u64, step: u64, valid: bool) {
        for index in [0, 1, 2, 4, 5, 6, 7] {
            let value = self.word();
            self.put(at + index * 8, value);
        }
        // Most have a working HMC: query and commit come first.
        let op = match step {
            0 => 0x20,
            1 => 0x21,
            _ if self.random.rarely(8) => self.below(64),
            _ => self.random.one_of(&CQP),
        };
        if matches!(op, 0x20 | 0x21) {
            self.put(at + 32, BASE + FPM);
            self.put(at + 16, 0);
        }
        if op == 0x21 {
            for index in 0..32 {
                let value = self.below(64);
                self.put(FPM + index * 8, value);
            }
        }
        if op == 0x1f {
            // Segments, direct or paged, at small indexes.
            let words = [
                self.below(1 << 12),
                BASE | self.below(4) | 1,
                1 << 63 | 1 << 31 | 1 << 15 | self.below(16),
            ];
            for (index, word) in words.into_iter().enumerate() {
                self.put(at + 8 * index as u64, word);
            }
        }
        let fields = match self.below(4) {
            0 => self.random.next() & 0x7FFF_FFC0_FFFF_FFFF,
            1 => self.below(64),
            2 => self.below(64) | 1 << 49 | 1 << 48 | 1 << 43,
            _ => self.below(8) | 1 << 59 | 1 << 47,
        };
        self.put(at + 24, fields | op << 32 | u64::from(valid) << 63);
    }

    /// Sets the AdminQ up and has the firmware do commands.
    fn firmware(&mut self) {
        let queue = 1 << 31 | 16;
        for (first, ring) in [(0x8_0000, ATQ), (0x8_0080, ATQ + 0x1000)] {
            self.set(first + 0x300, 0);
            self.set(first + 0x400, 0);
            self.set(first, BASE + ring);
            self.set(first + 0x100, 0);
            self.set(first + 0x200, queue);
        }
        let mut tail = 0;
        for _ in 0..self.below(600) {
            self.firmware_command(ATQ + tail * 32);
            tail = (tail + 1) % 16;
            self.set(0x8_0400, tail);
            self.run(2_000_000);
        }
    }

    fn firmware_command(&mut self, at: u64) {
        let op = match self.random.rarely(12) {
            true => self.below(0x1_0000),
            false => self.random.one_of(&ADMINQ),
        };
        let other = self.below(0x1_0000);
        let flags = self.random.one_of(&[0x3400, 0x1000, 0x3600, other]);
        let (short, long, any) = (self.below(64), self.below(4097), self.below(0x1_0000));
        let len = self.random.one_of(&[0, 4096, short, long, any]);
        self.put(at, flags | op << 16 | len << 32);
        self.put(at + 8, 0);
        let (all, small) = (self.random.next(), self.below(256));
        let two = self.below(16) | self.below(8) << 32;
        let parameters = self.random.one_of(&[all, 1, small, two]);
        self.put(at + 16, parameters);
        let buffer = BASE + BUFFER + self.below(2) * 0x1000;
        let address = match self.random.rarely(20) {
            true => self.random.next(),
            false => buffer >> 32 | (buffer & 0xFFFF_FFFF) << 32,
        };
        self.put(at + 24, address);
        for _ in 0..self.below(40) {
            let (few, ids, any) = (self.below(4), self.below(0x10_0010), self.word());
            let value = self.random.one_of(&[few, ids, any]);
            let place = self.below(1024) * 8;
            self.put(BUFFER + place, value);
        }
        for index in 0..4 {
            if self.random.rarely(3) {
                let (few, ids) = (self.below(8), self.below(0x10_0000));
                let element = 0x0401_0000_0001 | self.below(0x1_0000) << 32;
                let value = self.random.one_of(&[few, ids, 1 | 0x1000 << 16, element]);
                self.put(BUFFER + index * 8, value);
            }
        }
    }

    /// Registers of all kinds, frames from the wire, the MSI-X table.
    fn noise(&mut self) {
        for _ in 0..self.below(300) {
            match self.below(8) {
                0..=4 => {
                    let (register, value) = (self.below(0x80_0000), self.random.next());
                    match self.random.rarely(2) {
                        true => self.set(register, value),
                        false => drop(self.nic.read32(RegOffset::new(register as u32 & !3))),
                    }
                }
                5 => {
                    let (register, value) = (self.below(1024), self.random.next());
                    self.set(0x7F_0000 + register * 4, value);
                }
                6 => {
                    let frame: Vec<u8> = (0..self.below(200))
                        .map(|_| self.random.next() as u8)
                        .collect();
                    self.sim.receive_frames([frame.as_slice()]);
                }
                _ => {
                    let (at, value) = (self.below(0x1_0000), self.random.next());
                    self.nic.bar3_write(at, &value.to_le_bytes());
                    self.nic.bar3_read(self.random.below(0x1_0000), &mut [0; 8]);
                }
            }
            let pause = self.below(100_000);
            self.run(pause);
        }
    }
}

/// Commands that were done, and findings.
fn one(seed: u64, memory: SharedBytes) -> [u64; 2] {
    let mut random = Random::new(seed);
    let is_cold = random.rarely(2);
    let builder = Sim::builder().functions(2).seed(seed);
    let builder = builder.mode(Mode::Virtual).vectors(8);
    let sim = if is_cold { builder.cold() } else { builder }.build();
    let nic = sim.function(0);
    assert!(nic.attach_memory(BASE, memory, Access::ReadWrite));
    let mut hostile = Hostile {
        random,
        sim,
        nic,
        memory,
    };
    hostile.fill();
    if !hostile.random.rarely(4) {
        hostile.commands();
    }
    if is_cold {
        hostile.firmware();
    }
    hostile.noise();
    hostile.nic.function_level_reset();
    hostile.nic.function_level_reset();
    let found = hostile.sim.finding_counts().iter().map(|(_, _, n)| n).sum();
    let commands = hostile.sim.stats(0).commands;
    hostile.nic.abandon();
    [commands, found]
}

#[test]
fn a_hostile_driver_is_answered_or_not_and_found_out() {
    let memory = Payload::pages(LEN as usize / 4096 + 1).bytes();
    // As its IOVAs are aligned.
    let skip = memory.address().wrapping_neg() as usize % 4096;
    let memory = memory.window(skip, LEN as usize).unwrap();
    let [commands, found] = each(100, |seed| one(seed, memory));
    assert!(
        commands > 0 && found > 0,
        "{commands} commands, {found} findings"
    );
}
