//! In what two traces differ.
//!
//! Both are written as lines without what differs in every run: times, cookies, addresses, which
//! stand as the size of the memory they are in, reads that say how far a queue is, and all but
//! the last of reads of one register in a row, because how often a register is polled is
//! chance.

use std::collections::BTreeMap;

use e810_adminq::Opcode as AdminqOpcode;
use e810_card::record::{from_hex, words_from_hex};
use similar::TextDiff;

use crate::record::{Descriptor, Event, Hex, Record, Trace};
use crate::show::{Fields, Kinds, opcode_of, register_line};

/// Lines around a difference.
const CONTEXT: usize = 3;

/// The differences of two traces in what is of `kinds`, as `diff -u` prints them; empty if
/// there are none.
#[must_use]
pub fn diff(one: (&str, &Trace), other: (&str, &Trace), kinds: Kinds) -> String {
    let (old, new) = (lines(one.1, kinds), lines(other.1, kinds));
    if old == new {
        return String::new();
    }
    let diff = TextDiff::from_lines(&old, &new);
    let mut unified = diff.unified_diff();
    let unified = unified.context_radius(CONTEXT);
    unified.header(one.0, other.0).to_string()
}

/// The memory that a trace has allocated up to a line, by its first address: its bytes.
type Memory = BTreeMap<u64, u64>;

fn lines(trace: &Trace, kinds: Kinds) -> String {
    let mut memory = BTreeMap::new();
    let mut text = String::new();
    let compared = trace.records.iter();
    let mut compared = compared
        .filter(|record| !matches!(record.event, Event::Again { .. }))
        .peekable();
    while let Some(record) = compared.next() {
        let next = compared.peek();
        if next.is_some_and(|next| is_polled(record, next)) {
            continue;
        }
        match &record.event {
            Event::Allocated { at, bytes } | Event::Mapped { at, bytes, .. } => {
                memory.insert(at.0, *bytes);
            }
            Event::Freed { at } | Event::Unmapped { at, .. } => {
                memory.remove(&at.0);
            }
            _ => {}
        }
        let line = kinds
            .has(&record.event)
            .then(|| line(&record.event, &memory));
        if let Some(line) = line.flatten() {
            text += &format!("{} {line}\n", record.device);
        }
    }
    text
}

/// Whether the second reads the register that the first has read.
fn is_polled(record: &Record, next: &Record) -> bool {
    match (&record.event, &next.event) {
        (Event::Read { offset: one, .. }, Event::Read { offset: other, .. }) => {
            one == other && record.device == next.device
        }
        _ => false,
    }
}

/// A number, or the memory that it is an address in.
fn word(word: u64, memory: &Memory) -> String {
    // Low bits of an aligned address can be the command's own.
    let block = memory.range(..=word).next_back();
    let block = block.filter(|(start, bytes)| **start != 0 && word - **start < **bytes);
    match block {
        Some((start, bytes)) => format!("[{bytes} bytes of memory + {:#x}]", word - start),
        None => format!("{word:#x}"),
    }
}

/// The words of a structure that are not 0, by their place in bytes.
fn words(bytes: &str, memory: &Memory) -> String {
    let words = words_from_hex(bytes).unwrap_or_default();
    let shown = (0..).step_by(8).zip(&words).filter(|(_, word)| **word != 0);
    let shown = shown.map(|(at, found)| format!(" q{at}={}", word(*found, memory)));
    shown.collect()
}

/// Registers that take half of an address.
const ADDRESSES: &[&str] = &[
    "PF_FW_ATQBAL",
    "PF_FW_ATQBAH",
    "PF_FW_ARQBAL",
    "PF_FW_ARQBAH",
    "PFPE_CCQPHIGH",
    "PFPE_CCQPLOW",
    "PFHMC_SDDATALOW",
    "PFHMC_SDDATAHIGH",
];

fn register(name: &str, offset: Hex, value: Hex) -> String {
    // What they say of the memory is in the lines of what is there.
    if ADDRESSES.contains(&name) && value.0 != 0 {
        return format!("{name} an address");
    }
    register_line(name, offset, value)
}

fn descriptor(what: &str, found: &Descriptor, memory: &Memory) -> String {
    let Some(fields) = Fields::of(found) else {
        return format!("{what} without a descriptor");
    };
    let [flags, opcode, length, status] = fields.short;
    let [_, _, first, second, high, low] = fields.long;
    let name = AdminqOpcode(opcode).name();
    let address = word(u64::from(high) << 32 | u64::from(low), memory);
    let mut line = format!(
        "{what} {opcode:#06x} {name} flags={flags:#x} datalen={length} retval={status} param0={first:#x} param1={second:#x} address={address}"
    );
    if !found.buffer.is_empty() {
        let bytes = from_hex(&found.buffer).unwrap_or_default();
        let used = bytes.iter().rposition(|byte| *byte != 0);
        let used = used.map_or(0, |last| (last + 1) * 2);
        line += &format!(" buffer={}", found.buffer.get(..used).unwrap_or_default());
    }
    line
}

/// Registers that say how far a queue is: what they say at a moment is chance, and the answers
/// themselves are lines.
const PROGRESS: &[&str] = &["PF_FW_ATQH", "PF_FW_ARQH", "PFPE_CQPTAIL"];

/// The line of an event; `None` for what is not compared.
fn line(event: &Event, memory: &Memory) -> Option<String> {
    Some(match event {
        Event::Read { register, .. } if PROGRESS.contains(&register.as_str()) => return None,
        Event::Read {
            register: name,
            offset,
            value,
        } => format!("read {}", register(name, *offset, *value)),
        Event::Write {
            register: name,
            offset,
            value,
        } => format!("write {}", register(name, *offset, *value)),
        Event::Allocated { bytes, .. } => format!("{bytes} bytes of memory"),
        Event::Freed { .. } => "memory freed".to_owned(),
        Event::AdminqCommand(found) => descriptor("AdminQ command", found, memory),
        Event::AdminqReply(found) => descriptor("AdminQ reply", found, memory),
        Event::AdminqEvent(found) => descriptor("AdminQ event", found, memory),
        Event::CqpContext { bytes } => format!("CQP context{}", words(bytes, memory)),
        Event::CqpCommand {
            bytes,
            memory: lent,
            ..
        } => {
            let lent: String = lent
                .iter()
                .map(|lent| format!(" | memory{}", words(&lent.bytes, memory)))
                .collect();
            format!("CQP {}{}{lent}", opcode_of(bytes), words(bytes, memory))
        }
        Event::CqpReply {
            memory: written, ..
        } => {
            let written: String = written
                .iter()
                .map(|written| words(&written.bytes, memory))
                .collect();
            format!("CQP reply{written}")
        }
        Event::Wqe {
            qp, queue, bytes, ..
        } => {
            format!("QP {qp} {}{}", queue.name(), words(bytes, memory))
        }
        Event::Cqe { cq, bytes, .. } => format!("CQ {cq}{}", words(bytes, memory)),
        Event::Ceqe { ceq, bytes, .. } => format!("CEQ {ceq}{}", words(bytes, memory)),
        Event::Aeqe { bytes, .. } => format!("AEQ{}", words(bytes, memory)),
        Event::LanPosted {
            queue,
            number,
            bytes,
            ..
        } => format!("LAN {} {number}{}", queue.name(), words(bytes, memory)),
        Event::LanWritten {
            queue,
            number,
            bytes,
            ..
        } => format!(
            "LAN {} {number} written{}",
            queue.name(),
            words(bytes, memory)
        ),
        Event::ConfigRead { offset, bytes } => {
            format!("read configuration {:#x} {bytes}", offset.0)
        }
        Event::ConfigWrite { offset, bytes } => {
            format!("write configuration {:#x} {bytes}", offset.0)
        }
        Event::Mapped { bytes, .. } => format!("{bytes} bytes mapped"),
        Event::Unmapped { bytes, .. } => format!("{bytes} bytes unmapped"),
        Event::Connected { first, vectors } => format!("vectors from {first}: {vectors:?}"),
        Event::Reset => "reset".to_owned(),
        Event::Note { text } => text.clone(),
        // How much was seen is chance.
        Event::NotSeen { .. }
        // Addresses and nothing else.
        | Event::Memory { .. }
        | Event::User { .. }
        | Event::Shadow { .. }
        | Event::Trace { .. }
        | Event::Device { .. }
        | Event::Again { .. }
        | Event::Interrupts { .. }
        | Event::End { .. } => return None,
    })
}
