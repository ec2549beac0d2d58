//! Whatever a driver writes and a device's memory or a file holds: a trace is written, read or
//! refused, shown and compared.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use e810_backends::observed::{DeviceMemory, Observed};
use e810_hal::regs::{
    PF_FW_ARQBAH, PF_FW_ARQBAL, PF_FW_ARQH, PF_FW_ARQLEN, PF_FW_ARQT, PF_FW_ATQBAH, PF_FW_ATQBAL,
    PF_FW_ATQH, PF_FW_ATQLEN, PF_FW_ATQT, PFGEN_CTRL, PFPE_CCQPHIGH, PFPE_CCQPLOW, PFPE_CQARM,
    PFPE_CQPDB, PFPE_CQPTAIL, PFPE_WQEALLOC,
};
use e810_hal::{Barrier, Bus, DmaBuf, DmaLayout, DmaWords, Ns, RegOffset};
use e810_sim::Sim;
use e810_trace::{Event, Kinds, Recorder, Trace, TraceFile, diff, show};
use proptest::collection::vec;
use proptest::prelude::*;

/// Registers by which queues are followed.
const REGISTERS: [RegOffset; 25] = [
    PF_FW_ATQBAL.off(),
    PF_FW_ATQBAH.off(),
    PF_FW_ATQLEN.off(),
    PF_FW_ATQH.off(),
    PF_FW_ATQT.off(),
    PF_FW_ARQBAL.off(),
    PF_FW_ARQBAH.off(),
    PF_FW_ARQLEN.off(),
    PF_FW_ARQH.off(),
    PF_FW_ARQT.off(),
    PFPE_CCQPHIGH.off(),
    PFPE_CCQPLOW.off(),
    PFPE_CQPDB.off(),
    PFPE_CQPTAIL.off(),
    PFPE_WQEALLOC.off(),
    PFPE_CQARM.off(),
    PFGEN_CTRL.off(),
    // QTX_COMM_DBELL, QRX_TAIL, QRX_CTRL and QRX_CONTEXT of queue 0, and of the next one.
    RegOffset::new(0x2c_0000),
    RegOffset::new(0x29_0000),
    RegOffset::new(0x12_0000),
    RegOffset::new(0x28_2000),
    RegOffset::new(0x28_4000),
    RegOffset::new(0x28_6000),
    RegOffset::new(0x2c_0004),
    RegOffset::new(0x29_0004),
];

/// What is done with a device.
#[derive(Clone, Debug)]
enum Step {
    Read(usize),
    Write(usize, u32),
    /// The address of its memory, as far as a register takes it.
    Address(usize, u16),
    Memory(usize, u64),
    /// A word of memory with an address in it.
    Pointer(usize, u16),
    /// A command of the Control QP in memory: its entry, its opcode, and an address in its word.
    Command(usize, u8, usize, u16),
    Entries,
    /// A look at all queues, as of a driver that tells nothing.
    Look,
}

const WORDS: usize = 1024;

fn step() -> impl Strategy<Value = Step> {
    let register = 0..REGISTERS.len();
    let small = prop_oneof![0..64_u32, any::<u32>(), Just(0x8000_0010)];
    prop_oneof![
        register.clone().prop_map(Step::Read),
        (register.clone(), small).prop_map(|(at, value)| Step::Write(at, value)),
        (register, any::<u16>()).prop_map(|(at, offset)| Step::Address(at, offset)),
        (0..WORDS, any::<u64>()).prop_map(|(at, word)| Step::Memory(at, word)),
        (0..WORDS, any::<u16>()).prop_map(|(at, offset)| Step::Pointer(at, offset)),
        (0..16_usize, 0..64_u8, 0..8_usize, any::<u16>())
            .prop_map(|(entry, opcode, at, offset)| Step::Command(entry, opcode, at, offset)),
        Just(Step::Entries),
        Just(Step::Look),
    ]
}

fn is_shown(bytes: &[u8]) {
    if let Ok(trace) = Trace::parse(bytes) {
        let mut out = Vec::new();
        show(&trace, Kinds::ALL, &mut out).unwrap();
        assert_eq!(diff(("a", &trace), ("b", &trace), Kinds::ALL), "");
    }
}

const HEAD: &str = r#"{"kind":"trace","version":1,"program":"e810 0"}"#;

proptest! {
    #[test]
    fn any_driver_is_followed(steps in vec(step(), 1..60)) {
        let sim = Sim::builder().build();
        let bytes = Arc::new(Mutex::new(TraceFile::begin(Vec::new(), "test", &[]).unwrap()));
        let recorder = Arc::new(Recorder::new(0, bytes.clone()));
        let device = Observed::new(sim.function(0), recorder.clone());
        let memory = DmaBuf::new(device.clone(), DmaLayout::new(WORDS * 8, 4096)).unwrap();
        let at = |offset: u16| memory.iova().0 + u64::from(offset) % (WORDS as u64 * 8 + 64);
        let seen = DeviceMemory::default();
        let words = memory.words();
        // SAFETY: the memory lives until it is released below, and consists of atomics.
        unsafe { seen.insert(memory.iova(), NonNull::from(words).cast(), words.len(), true) };
        let put = |index: usize, word: u64| memory.words()[index].store(word, Ordering::Relaxed);
        for step in steps {
            match step {
                Step::Read(register) => {
                    device.read32(REGISTERS[register]);
                }
                Step::Write(register, value) => device.write32(REGISTERS[register], value),
                Step::Address(register, offset) => {
                    let low = REGISTERS[register] != PFPE_CCQPHIGH.off();
                    let shift = if low { 0 } else { 32 };
                    device.write32(REGISTERS[register], (at(offset) >> shift) as u32);
                }
                Step::Memory(index, word) => put(index, word),
                Step::Pointer(index, offset) => put(index, at(offset)),
                Step::Command(entry, opcode, word, offset) => {
                    // A context of 16 entries, whose first is at the start of the memory.
                    device.write32(PFPE_CCQPHIGH.off(), (at(0) >> 32) as u32);
                    put(WORDS - 8, 3 << 8);
                    put(WORDS - 7, at(0));
                    let context = at((WORDS as u16 - 8) * 8);
                    device.write32(PFPE_CCQPLOW.off(), context as u32);
                    put(entry * 8 + word, at(offset));
                    put(entry * 8 + 3, u64::from(opcode) << 32 | 1 << 63);
                    device.write32(PFPE_CQPDB.off(), entry as u32 + 1);
                }
                Step::Entries => device.from_device(),
                Step::Look => recorder.look(Ns(1), &seen),
            }
        }
        recorder.reset(Ns(2), &seen, Event::Reset);
        seen.remove(memory.iova());
        memory.release();
        prop_assert!(bytes.lock().unwrap().finish().is_none());
    }

    #[test]
    fn any_file_is_shown_or_refused(
        bytes in vec(any::<u8>(), 0..200),
        kind in 0..33_usize,
        text in "[0-9a-fx]{0,80}",
        number in any::<u64>(),
    ) {
        is_shown(&bytes);
        is_shown(&[HEAD.as_bytes(), b"\n", &bytes].concat());
        let kinds = [
            "device", "read", "write", "again", "allocated", "freed", "adminq-command",
            "adminq-reply", "adminq-event", "cqp-context", "cqp-command", "cqp-reply", "wqe",
            "cqe", "ceqe", "aeqe", "interrupts", "note", "end", "trace", "weather", "",
            "lan-posted", "lan-written", "shadow", "user", "config-read", "config-write", "mapped",
            "unmapped", "connected", "reset", "not-seen",
        ];
        let small = number % (1 << 32);
        let line = format!(
            r#"{{"kind":"{}","ns":{number},"name":"{text}","register":"{text}","offset":"{small:#x}","value":"{small:#x}","times":{number},"at":"{number:#x}","bytes":"{text}","index":{small},"descriptor":"{text}","buffer":"{text}","memory":[{{"word":2,"bytes":"{text}"}}],"header":"{number:#x}","qp":{small},"queue":"send","cq":{small},"ceq":{small},"vectors":[{}],"text":"{text}","complete":false,"number":{small},"of":"qp","what":"{text}","entries":{number},"first":{small},"is_there":true,"is_writable":false}}"#,
            kinds[kind], number % 65536
        );
        is_shown(format!("{HEAD}\n{line}\n{line}\n").as_bytes());
        is_shown(format!("{HEAD}\n{}\n", line.replace(&format!(r#""bytes":"{text}","index""#), &format!(r#""bytes":{small},"index""#))).as_bytes());
    }
}
