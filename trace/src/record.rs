//! The lines of a trace.
//!
//! A JSON object a line, so that a file whose program died is a trace up to there. Numbers of
//! registers, addresses and memory are in hexadecimal, as texts; memory is in the order of its
//! bytes. `docs/trace.md` describes the format.

use e810_card::lines::{Line, Lines};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The format that this program writes, and the newest that it reads.
pub const VERSION: u32 = 1;

/// A trace, as read.
pub type Trace = Lines<Record>;

/// A line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The device's clock in nanoseconds, from an arbitrary start.
    #[serde(default)]
    pub ns: u64,
    /// Which device, in the order in which the command named them.
    #[serde(default)]
    pub device: u8,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// A number that the file has in hexadecimal, as a text: `"0x00000001"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Hex(pub u64);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#010x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").unwrap_or(&text);
        let number = u64::from_str_radix(digits, 16);
        let number = number.map_err(|_| D::Error::custom(format!("`{text}` is no number")))?;
        Ok(Self(number))
    }
}

/// A descriptor of the AdminQ and its buffer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Descriptor {
    /// Where it is in its queue.
    pub index: u32,
    /// Its 32 bytes.
    pub descriptor: String,
    /// Its buffer, as far as it is used.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub buffer: String,
}

/// Memory that a command of the Control QP names.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Attached {
    /// The word of the WQE that has its address.
    pub word: u8,
    pub bytes: String,
}

/// Which queue of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkQueue {
    Send,
    Receive,
}

impl WorkQueue {
    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Send => "SQ",
            Self::Receive => "RQ",
        }
    }
}

/// Which kind of queue a shadow area belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShadowOf {
    Cq,
    Qp,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Event {
    /// The first line.
    Trace {
        /// Version of the format.
        version: u32,
        /// The program that wrote it, with its version.
        program: String,
    },
    /// A device that the trace is of.
    Device {
        /// Its name, as the program's user gave it.
        name: String,
    },
    /// A register was read.
    Read {
        /// Its name; empty if it has none.
        register: String,
        /// Its place in BAR0.
        offset: Hex,
        /// What it said.
        value: Hex,
    },
    /// A register was written. The line is in the file before the register is.
    Write {
        /// Its name; empty if it has none.
        register: String,
        /// Its place in BAR0.
        offset: Hex,
        /// What was written.
        value: Hex,
    },
    /// The read before was repeated, with the same answer.
    Again {
        /// How often.
        times: u64,
    },
    /// Memory was allocated for the device.
    Allocated {
        /// Where the device sees it.
        at: Hex,
        bytes: u64,
    },
    /// Memory was freed.
    Freed {
        /// Where the device saw it.
        at: Hex,
    },
    /// Memory that the device reads without being given its address in a line: page descriptors and
    /// PBLEs, descriptors for events of the firmware, and what stands in a new queue if it is not zeros.
    /// Its line is before that of the register write by which the device may read it.
    Memory {
        /// Where the device sees it.
        at: Hex,
        bytes: String,
    },
    /// A command for the firmware; its line is before that of the register write which sends
    /// it.
    AdminqCommand(Descriptor),
    /// Its answer: the same descriptor, as the firmware left it.
    AdminqReply(Descriptor),
    /// An event of the firmware.
    AdminqEvent(Descriptor),
    /// The host context that the Control QP is created from.
    CqpContext {
        /// Its 64 bytes.
        bytes: String,
    },
    /// A command for the engine; its line is before that of the doorbell.
    CqpCommand {
        /// Where it is in its queue.
        index: u32,
        /// Its 64 bytes.
        bytes: String,
        /// Memory that the engine reads for it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        memory: Vec<Attached>,
    },
    /// Memory that the engine has written for a command.
    CqpReply {
        /// Where the command is in its queue.
        index: u32,
        /// Its header, which has the opcode.
        header: Hex,
        /// What was written.
        memory: Vec<Attached>,
    },
    /// A work request.
    Wqe {
        qp: u32,
        queue: WorkQueue,
        /// Where it is, in quanta of 32 bytes.
        index: u32,
        bytes: String,
    },
    /// An entry of a completion queue.
    Cqe {
        cq: u32,
        index: u32,
        /// Its 32 bytes.
        bytes: String,
    },
    /// An entry of a completion event queue.
    Ceqe {
        /// The queue.
        ceq: u32,
        index: u32,
        /// Its 8 bytes.
        bytes: String,
    },
    /// An entry of the asynchronous event queue.
    Aeqe {
        index: u32,
        /// Its 16 bytes.
        bytes: String,
    },
    /// A descriptor that the driver gives to a LAN queue; its line is before that of the tail.
    LanPosted {
        queue: WorkQueue,
        number: u32,
        index: u32,
        /// Its 16 bytes, or 32 of a receive queue.
        bytes: String,
    },
    /// A descriptor of a LAN queue that the device has written back.
    LanWritten {
        queue: WorkQueue,
        number: u32,
        index: u32,
        /// Its 16 bytes, or 32 of a receive queue.
        bytes: String,
    },
    /// The shadow area of a queue: of a completion queue as the driver has left it, of a queue pair
    /// when the device has written there.
    Shadow {
        /// Whose it is.
        of: ShadowOf,
        /// The number of that queue.
        number: u32,
        /// Its 64 bytes, without the zeros at its end.
        bytes: String,
    },
    /// The driver takes interrupts; in a recording of another process' driver, the device sends
    /// them.
    Interrupts {
        /// Their vectors.
        vectors: Vec<u16>,
    },
    /// A driver in another process begins to use the device, or is done with it.
    User { is_there: bool },
    /// That driver reads configuration space.
    ConfigRead {
        /// From which byte on.
        offset: Hex,
        bytes: String,
    },
    /// That driver writes configuration space.
    ConfigWrite {
        /// From which byte on.
        offset: Hex,
        bytes: String,
    },
    /// That driver, or the machine that it is in, lets the device see memory.
    Mapped {
        /// Where the device sees it.
        at: Hex,
        bytes: u64,
        /// The device may write it.
        is_writable: bool,
    },
    /// The device sees it no more.
    Unmapped {
        /// Where the device saw it.
        at: Hex,
        bytes: u64,
    },
    /// That driver connects vectors to its interrupts, or disconnects them.
    Connected {
        /// The first of them.
        first: u32,
        /// For each, whether it is connected.
        vectors: Vec<bool>,
    },
    /// The function is reset, not by a register.
    Reset,
    /// The device, or the driver, has written over entries that nobody looked at before.
    NotSeen {
        /// What they are.
        what: String,
        /// The number of their queue.
        number: u32,
        /// At least so many.
        entries: u64,
    },
    /// What the trace does not have, and why.
    Note {
        /// In words.
        text: String,
    },
    /// The last line of a trace that was finished.
    End {
        /// Everything is in it.
        complete: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
}

impl Line for Record {
    const FILE: &'static str = "trace of `--trace`";
    const KINDS: &'static [&'static str] = &[
        "trace",
        "device",
        "read",
        "write",
        "again",
        "allocated",
        "freed",
        "memory",
        "adminq-command",
        "adminq-reply",
        "adminq-event",
        "cqp-context",
        "cqp-command",
        "cqp-reply",
        "wqe",
        "cqe",
        "ceqe",
        "aeqe",
        "lan-posted",
        "lan-written",
        "shadow",
        "interrupts",
        "user",
        "config-read",
        "config-write",
        "mapped",
        "unmapped",
        "connected",
        "reset",
        "not-seen",
        "note",
        "end",
    ];
    const VERSION: u32 = VERSION;

    fn version(&self) -> Option<u32> {
        match self.event {
            Event::Trace { version, .. } => Some(version),
            _ => None,
        }
    }
}
