//! What the program says: a table, and why it failed.

use core::net::IpAddr;

use e810::{AsyncEvent, PackageError, Refused, StageError, WcStatus};
use e810_cm::Reason;
use e810_connect::{GsiError, NotConnected, Phase};
use e810_examples::nvme::fabrics::Rejection;
use e810_examples::nvme::host::Wrong;
use e810_hal::Ns;
use e810_hal::bytes::OutOfRange;
use e810_net::{AddressError, PingError, Resolution};
use metal::{Machine, MachineError, interrupts, say, stack};

use crate::node::Which;

/// How a node learns of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waits {
    /// It looks for them all the time.
    Polls,
    /// It asks for an interrupt and stops the processor.
    Sleeps,
}

impl Waits {
    /// Name of a row.
    pub(crate) const fn row(self, which: Which) -> &'static str {
        match (self, which) {
            (Self::Polls, Which::Rc) => "RC, polling",
            (Self::Polls, Which::Ud) => "UD, polling",
            (Self::Polls, Which::Port) => "by port, polling",
            (Self::Sleeps, Which::Rc) => "RC, interrupts",
            (Self::Sleeps, Which::Ud) => "UD, interrupts",
            (Self::Sleeps, Which::Port) => "by port, interrupts",
        }
    }
}

/// Why the program ended before its time.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error("the package: {0}")]
    Package(#[from] PackageError),
    #[error(transparent)]
    Stage(#[from] StageError),
    #[error(transparent)]
    Device(#[from] e810::Error),
    #[error("a request was refused: {0}")]
    Refused(#[from] Refused),
    #[error("the connection manager: {0}")]
    Connector(#[from] e810_cm::machine::Error),
    #[error(transparent)]
    Gsi(#[from] GsiError),
    #[error(transparent)]
    NotConnected(#[from] NotConnected),
    #[error("the connection manager: {0}")]
    Call(#[from] e810_connect::Refused),
    #[error("a connection is {0:?} that should be {1:?}")]
    Phase(Phase, Phase),
    #[error("no connection")]
    NoConnection,
    #[error("the processor has no random numbers (RDRAND)")]
    NoRandom,
    #[error("the peer said something that rping does not say")]
    NotRping,
    #[error("NVMe: {0}")]
    Nvme(#[from] Wrong),
    #[error("the NVMe target refuses: {0:?}, {1:?}")]
    NvmeRefused(Reason, Option<Rejection>),
    #[error(transparent)]
    Range(#[from] OutOfRange),
    #[error("an address of the port: {0}")]
    Address(#[from] AddressError),
    #[error("a ping: {0}")]
    Ping(#[from] PingError),
    #[error("on the LAN port: {0:?}")]
    Lan(e810_net::Event),
    #[error("{0} is not resolved: {1:?}")]
    Unresolved(IpAddr, Resolution),
    #[error("{0} was found where it is not")]
    Misled(IpAddr),
    #[error("{replies} echoes came back of {answered} that were answered")]
    Echoes { answered: u64, replies: u64 },
    #[error("no room for the addresses of a lease")]
    NoRoom,
    #[error("the echo service: {0}")]
    EchoService(&'static str),
    #[error("{0}: not in time")]
    Silence(&'static str),
    #[error("no completion in time")]
    Late,
    #[error("a completion says {0:?}, code {1:#x}")]
    Completion(WcStatus, u32),
    #[error("the card says {0}")]
    Event(AsyncEvent),
    #[error("the device asks for a reset of the function")]
    ResetNeeded,
    #[error("a queue pair went on after a request that cannot succeed")]
    NotStopped,
    #[error("message {number} arrived wrong")]
    Wrong { number: u64 },
    #[error("{bytes} bytes of memory were not given back")]
    Leak { bytes: usize },
    #[error(
        "{used} of {} bytes of the stack were used: enlarge it (stack.rs)",
        stack::BYTES
    )]
    Stack { used: usize },
}

/// A table that grows by a row whenever something is done.
pub(crate) struct Report<'m> {
    machine: &'m Machine,
    /// At the end of the last row.
    time: Ns,
    interrupts: u64,
    first_message: Option<Ns>,
    most_memory: usize,
}

impl<'m> Report<'m> {
    /// Begins the table.
    pub(crate) fn begin(machine: &'m Machine) -> Self {
        // The firmware leaves the cursor in the middle of a line.
        say!(
            "\n{:<24}{:>10}{:>12}{:>12}",
            "what",
            "count",
            "interrupts",
            "us"
        );
        let mut this = Self {
            machine,
            time: Ns(0),
            interrupts: 0,
            first_message: None,
            most_memory: 0,
        };
        this.row("boot", 1);
        this
    }

    /// A row: what was done since the row before, and how often.
    pub(crate) fn row(&mut self, what: &str, count: u64) {
        let (now, interrupts) = (self.machine.now(), interrupts::count());
        let us = (now - self.time).0 / 1_000;
        let since = interrupts - self.interrupts;
        say!("{what:<24}{count:>10}{since:>12}{us:>12}");
        self.most_memory = self.most_memory.max(self.machine.memory_held());
        (self.time, self.interrupts) = (self.machine.now(), interrupts);
    }

    /// A message arrived and was right.
    pub(crate) fn arrived(&mut self) {
        let now = self.machine.now();
        let _ = self.first_message.get_or_insert(now);
    }

    /// The end, when all went well: memory and stack are looked at too.
    pub(crate) fn end(self) -> Result<(), Failure> {
        let bytes = self.machine.memory_held();
        if bytes > 0 {
            return Err(Failure::Leak { bytes });
        }
        let used = stack::deepest();
        if let Some(used) = used.filter(|used| *used > stack::BYTES - stack::BYTES / 16) {
            return Err(Failure::Stack { used });
        }
        if let Some(first) = self.first_message {
            say!("first message {} us after the entry", first.0 / 1_000);
        }
        say!("memory {} KiB at most", self.most_memory >> 10);
        if let Some(used) = used {
            say!("stack {used} bytes");
        }
        say!("GOOD (emulated: no time here is a speed)");
        Ok(())
    }
}
