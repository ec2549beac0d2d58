//! A trace as text.
//!
//! Commands and their buffers are printed as Linux' ice and irdma print theirs with dynamic
//! debug (`dyndbg=+p`; the texts are those of the modules of 6.12), so that the two can be laid
//! side by side.

mod hexdump;
mod labels;

use std::io::{self, Write};

use e810_adminq::Opcode as AdminqOpcode;
use e810_card::record::{from_hex, words_from_hex};
use e810_cqp::Opcode;
use e810_hal::RegOffset;
use e810_hal::regs::find;

use crate::record::{Descriptor, Event, Hex, Record, ShadowOf, Trace, WorkQueue};
use hexdump::{by_byte, by_word};

/// Which lines of a trace are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kinds {
    /// Accesses to registers.
    pub registers: bool,
    /// What passes between driver and firmware.
    pub adminq: bool,
    /// Commands of the Control QP.
    pub cqp: bool,
    /// Work requests, completions and events.
    pub queues: bool,
    /// Memory for the device.
    pub memory: bool,
}

impl Kinds {
    pub const ALL: Self = Self {
        registers: true,
        adminq: true,
        cqp: true,
        queues: true,
        memory: true,
    };
    /// None yet.
    pub const NONE: Self = Self {
        registers: false,
        adminq: false,
        cqp: false,
        queues: false,
        memory: false,
    };

    /// Whether lines of this event are among them. What is about the trace itself always is.
    pub(crate) const fn has(self, event: &Event) -> bool {
        match event {
            Event::Read { .. }
            | Event::Write { .. }
            | Event::Again { .. }
            | Event::ConfigRead { .. }
            | Event::ConfigWrite { .. } => self.registers,
            Event::AdminqCommand(_) | Event::AdminqReply(_) | Event::AdminqEvent(_) => self.adminq,
            Event::CqpContext { .. } | Event::CqpCommand { .. } | Event::CqpReply { .. } => {
                self.cqp
            }
            Event::Wqe { .. }
            | Event::Cqe { .. }
            | Event::Ceqe { .. }
            | Event::Aeqe { .. }
            | Event::LanPosted { .. }
            | Event::LanWritten { .. }
            | Event::Shadow { .. }
            | Event::Connected { .. }
            | Event::Interrupts { .. } => self.queues,
            Event::Allocated { .. }
            | Event::Freed { .. }
            | Event::Memory { .. }
            | Event::Mapped { .. }
            | Event::Unmapped { .. } => self.memory,
            Event::Trace { .. }
            | Event::Device { .. }
            | Event::User { .. }
            | Event::Reset
            | Event::NotSeen { .. }
            | Event::Note { .. }
            | Event::End { .. } => true,
        }
    }
}

/// Prints the lines of a trace that are of `kinds`. Times are from its first access on.
///
/// # Errors
/// Those of `out`.
pub fn show(trace: &Trace, kinds: Kinds, out: &mut dyn Write) -> io::Result<()> {
    let times = trace.records.iter().map(|record| record.ns);
    let start = times.filter(|ns| *ns > 0).min().unwrap_or(0);
    for record in &trace.records {
        if kinds.has(&record.event) {
            one(record, start, out)?;
        }
    }
    if trace.unknown > 0 {
        let lines = trace.unknown;
        writeln!(
            out,
            "{lines} lines of kinds that this program does not know"
        )?;
    }
    if trace.is_cut {
        writeln!(out, "the last line is cut: the program died, or still runs")?;
    }
    Ok(())
}

/// Prints what is of one record.
fn one(record: &Record, start: u64, out: &mut dyn Write) -> io::Result<()> {
    let us = record.ns.saturating_sub(start) / 1000;
    let time = format!("[{:5}.{:06}]", us / 1_000_000, us % 1_000_000);
    for line in lines(record) {
        match record.event {
            Event::Trace { .. } | Event::Device { .. } | Event::End { .. } => {
                writeln!(out, "{line}")?;
            }
            _ => writeln!(out, "{time} {line}")?,
        }
    }
    Ok(())
}

/// The lines of a record, without times.
fn lines(record: &Record) -> Vec<String> {
    let device = format!("e810 {}:", record.device);
    match &record.event {
        Event::Trace { version, program } => vec![format!("trace, format {version}, of {program}")],
        Event::Device { name } => vec![format!("device {}: {name}", record.device)],
        Event::Read {
            register,
            offset,
            value,
        } => vec![format!(
            "{device} read  {}",
            register_line(register, *offset, *value)
        )],
        Event::Write {
            register,
            offset,
            value,
        } => vec![format!(
            "{device} write {}",
            register_line(register, *offset, *value)
        )],
        Event::Again { times } => vec![format!("{device} and {times} more times the same")],
        Event::Allocated { at, bytes } => {
            vec![format!("{device} {bytes} bytes of memory at {:#x}", at.0)]
        }
        Event::Freed { at } => vec![format!("{device} memory at {:#x} freed", at.0)],
        Event::AdminqCommand(found) => descriptor(&device, "Command", found),
        Event::AdminqReply(found) => descriptor(&device, "Response", found),
        Event::AdminqEvent(found) => descriptor(&device, "Event", found),
        Event::CqpContext { bytes } => words("WQE: CQP_HOST_CTX WQE", bytes),
        Event::CqpCommand {
            index,
            bytes,
            memory,
        } => {
            let opcode = opcode_of(bytes);
            let mut lines = vec![format!("{device} # {opcode}, entry {index} of the CQP")];
            lines.extend(words(labels::command(opcode, bytes), bytes));
            for attached in memory {
                lines.extend(words(labels::memory(opcode), &attached.bytes));
            }
            lines
        }
        Event::CqpReply {
            index,
            header,
            memory,
        } => {
            let opcode = Opcode::from_code((header.0 >> 32 & 0x3F) as u8);
            let mut lines = vec![format!("{device} # answer to {opcode}, entry {index}")];
            for attached in memory {
                lines.extend(words(labels::memory(opcode), &attached.bytes));
            }
            lines
        }
        Event::Wqe {
            qp,
            queue,
            index,
            bytes,
        } => {
            let what = match queue {
                WorkQueue::Send => labels::send(bytes),
                WorkQueue::Receive => "receive",
            };
            let queue = queue.name();
            let mut lines = vec![format!(
                "{device} # {what}, QP {qp}, quantum {index} of the {queue}"
            )];
            lines.extend(words(&format!("{queue}: WQE"), bytes));
            lines
        }
        Event::Cqe { cq, index, bytes } => {
            let mut lines = vec![format!("{device} # completion, entry {index} of CQ {cq}")];
            lines.extend(words("CQ: CQE", bytes));
            lines
        }
        Event::Ceqe { ceq, index, bytes } => {
            let mut lines = vec![format!(
                "{device} # completion event, entry {index} of CEQ {ceq}"
            )];
            lines.extend(words("CEQ: CEQE", bytes));
            lines
        }
        Event::Aeqe { index, bytes } => {
            let code = words_from_hex(bytes).and_then(|words| words.get(1).copied());
            let code = code.unwrap_or(0) >> 34 & 0xFFF;
            let mut lines = vec![format!(
                "{device} # event {code:#06x}, entry {index} of the AEQ"
            )];
            lines.extend(words("WQE: AEQ_ENTRY WQE", bytes));
            lines
        }
        Event::LanPosted {
            queue,
            number,
            index,
            bytes,
        } => lan_descriptor(&device, "posted", (*queue, *number, *index), bytes),
        Event::LanWritten {
            queue,
            number,
            index,
            bytes,
        } => lan_descriptor(&device, "written back", (*queue, *number, *index), bytes),
        Event::Shadow { of, number, bytes } => {
            let of = match of {
                ShadowOf::Cq => "CQ",
                ShadowOf::Qp => "QP",
            };
            let mut lines = vec![format!("{device} # shadow area of {of} {number}")];
            lines.extend(words(&format!("{of}: SHADOW AREA"), bytes));
            lines
        }
        Event::Interrupts { vectors } => vec![format!("{device} interrupts: vectors {vectors:?}")],
        Event::User { is_there: true } => vec![format!("{device} a driver comes")],
        Event::User { is_there: false } => vec![format!("{device} the driver is gone")],
        Event::ConfigRead { offset, bytes } => {
            vec![format!(
                "{device} read  configuration {:#05x}: {bytes}",
                offset.0
            )]
        }
        Event::ConfigWrite { offset, bytes } => {
            vec![format!(
                "{device} write configuration {:#05x}: {bytes}",
                offset.0
            )]
        }
        Event::Mapped {
            at,
            bytes,
            is_writable,
        } => {
            let access = if *is_writable { "" } else { ", read only" };
            vec![format!(
                "{device} {bytes} bytes mapped at {:#x}{access}",
                at.0
            )]
        }
        Event::Memory { at, bytes } => {
            let mut lines = vec![format!("{device} # memory at {:#x}", at.0)];
            lines.extend(words("HMC: MEMORY", bytes));
            lines
        }
        Event::Unmapped { at, bytes } => {
            vec![format!("{device} {bytes} bytes unmapped at {:#x}", at.0)]
        }
        Event::Connected { first, vectors } => {
            let on = vectors.iter().filter(|is_on| **is_on).count();
            let all = vectors.len();
            vec![format!(
                "{device} {on} of {all} vectors from {first} on are connected"
            )]
        }
        Event::Reset => vec![format!("{device} the function is reset")],
        Event::NotSeen {
            what,
            number,
            entries,
        } => vec![format!(
            "{device} not seen: {entries} or more entries, {what} {number}"
        )],
        Event::Note { text } => vec![format!("{device} {text}")],
        Event::End { complete: true, .. } => vec!["the trace is whole".to_owned()],
        Event::End { why, .. } => {
            let why = why.as_deref().unwrap_or("not said why");
            vec![format!("the trace is not whole: {why}")]
        }
    }
}

/// A register, its value, and the fields of it that are not 0.
pub(crate) fn register_line(name: &str, offset: Hex, value: Hex) -> String {
    let (offset, value) = (offset.0 as u32, value.0 as u32);
    let name = match name {
        "" => format!("register {offset:#x}"),
        name => name.to_owned(),
    };
    let element = RegOffset::try_new(offset).and_then(find);
    let fields = element.map_or(&[][..], |element| element.register.fields);
    let mut line = format!("{name} {value:#010x}");
    for field in fields {
        let width = field.hi - field.lo + 1;
        let part = value >> field.lo & (u32::MAX >> (u32::BITS - width));
        // One field that is all of the register says nothing more.
        if part != 0 && width < u32::BITS {
            line += &format!(" {}={part:#x}", field.name);
        }
    }
    line
}

/// A descriptor of a LAN queue: queue, its number, and the descriptor's index.
fn lan_descriptor(
    device: &str,
    what: &str,
    (queue, number, index): (WorkQueue, u32, u32),
    bytes: &str,
) -> Vec<String> {
    let queue = match queue {
        WorkQueue::Send => "TX",
        WorkQueue::Receive => "RX",
    };
    let mut lines = vec![format!(
        "{device} # {what}, entry {index} of {queue} queue {number}"
    )];
    lines.extend(words(&format!("LAN {queue}: DESCRIPTOR"), bytes));
    lines
}

/// The opcode of a command of the Control QP.
pub(crate) fn opcode_of(bytes: &str) -> Opcode {
    let words = words_from_hex(bytes).unwrap_or_default();
    let header = words.get(3).copied().unwrap_or(0);
    Opcode::from_code((header >> 32 & 0x3F) as u8)
}

/// Bytes as irdma prints its structures.
fn words(label: &str, bytes: &str) -> Vec<String> {
    by_word(label, &words_from_hex(bytes).unwrap_or_default())
}

/// The 16-bit and 32-bit fields of a descriptor (control-path 9.2).
#[derive(Clone, Copy)]
pub(crate) struct Fields {
    /// Flags, opcode, length of the buffer, return value.
    pub short: [u16; 4],
    /// Cookie (high, low), parameters, address (high, low).
    pub long: [u32; 6],
}

impl Fields {
    /// Of the bytes of a descriptor; `None` if they are not 32.
    pub(crate) fn of(found: &Descriptor) -> Option<Self> {
        let bytes = from_hex(&found.descriptor)?;
        let bytes: [u8; 32] = bytes.try_into().ok()?;
        let (short, long) = bytes.split_at(8);
        let (shorts, longs) = (short.as_chunks::<2>().0, long.as_chunks::<4>().0);
        let mut fields = Self {
            short: [0; 4],
            long: [0; 6],
        };
        for (to, from) in fields.short.iter_mut().zip(shorts) {
            *to = u16::from_le_bytes(*from);
        }
        for (to, from) in fields.long.iter_mut().zip(longs) {
            *to = u32::from_le_bytes(*from);
        }
        Some(fields)
    }
}

/// A descriptor as ice prints it (`ice_debug_cq` of 6.12).
fn descriptor(device: &str, what: &str, found: &Descriptor) -> Vec<String> {
    let Some(fields) = Fields::of(found) else {
        return vec![format!(
            "{device} a descriptor that is none: {}",
            found.descriptor
        )];
    };
    let [flags, opcode, length, status] = fields.short;
    let [cookie_high, cookie_low, first, second, high, low] = fields.long;
    let name = AdminqOpcode(opcode).name();
    let mut lines = vec![
        format!("{device} # {name}, entry {} of its queue", found.index),
        format!(
            "{device} AQ {what}: opcode 0x{opcode:04X}, flags 0x{flags:04X}, datalen 0x{length:04X}, retval 0x{status:04X}"
        ),
        format!("{device} \tcookie (h,l) 0x{cookie_high:08X} 0x{cookie_low:08X}"),
        format!("{device} \tparam (0,1)  0x{first:08X} 0x{second:08X}"),
        format!("{device} \taddr (h,l)   0x{high:08X} 0x{low:08X}"),
    ];
    // Rows have the buffer's address.
    let label = format!("ice 0x{high:08X} 0x{low:08X} ");
    let buffer = from_hex(&found.buffer).unwrap_or_default();
    lines.extend(by_byte(&label, &buffer));
    lines
}
