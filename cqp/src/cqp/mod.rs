//! The control QP (CQP): creation, commands, completions, destruction.

mod attach;
mod create;
mod late;
mod layout;
mod poll;
mod status;
mod submit;

use e810_hal::bus::PfId;
use e810_hal::{DmaBuf, DmaWords, HostBox, HostBuf, Platform, log_info};

use crate::ccq::CompletionRing;
use crate::error::{Error, Result};
use crate::host_context::Dcqcn;
use crate::limits::DEFAULT_SQ_ENTRIES;
use crate::op::Command;
use crate::ring::SendRing;
use crate::slots::Slots;
use crate::ticket::{Completion, Counters, Ticket};

pub use attach::CcqConfig;
use late::Late;
pub use layout::dma_bytes;

/// Choices at the creation of a CQP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Entries of the send queue, a power of two from 4 to 2048. One less can
    /// be in flight.
    pub entries: u32,
    /// The physical function: its number is the HMC function id of commands.
    pub function: PfId,
    /// Parameters of congestion control; `None` sets nothing.
    pub congestion: Option<Dcqcn>,
}

impl Config {
    /// 64 entries.
    #[must_use]
    pub const fn new(function: PfId) -> Self {
        Self {
            entries: DEFAULT_SQ_ENTRIES,
            function,
            congestion: None,
        }
    }
}

/// The CCQ while it is attached.
#[derive(Debug)]
struct Ccq<P: Platform> {
    ring: CompletionRing,
    entries: u32,
    /// Entries, then the shadow area.
    memory: DmaBuf<P>,
    /// Word at which the shadow area starts.
    shadow: usize,
    context: u64,
    config: CcqConfig,
}

/// The shadow area at the end of the CCQ's memory.
fn shadow_of<P: Platform>(memory: &DmaBuf<P>, first: usize) -> &[<DmaBuf<P> as DmaWords>::Word] {
    memory.words().get(first..).unwrap_or_default()
}

/// A command posted while only registers report its end (control-path 4.3).
#[derive(Clone, Copy, Debug)]
struct RegisterWait {
    /// WQTAIL read between header and doorbell.
    tail: u32,
    /// PFPE_CQPERRCODES, if CQP_OP_ERR was already set in that read: the error of an earlier
    /// command.
    stale: Option<(u16, u16)>,
}

/// The control QP of a function.
///
/// Created by [`Cqp::create`]. It first learns the end of a command from registers, one command
/// at a time. After [`Cqp::attach_ccq`] completions come through the CCQ and many commands may be
/// in flight; [`Cqp::detach_ccq`] goes back to registers.
///
/// If a CQP is dropped its memory is leaked, because the device may still use it: call
/// [`Cqp::destroy`], or [`Cqp::release_after_reset`].
#[derive(Debug)]
#[must_use = "dropping a CQP leaks its memory: call destroy() or release_after_reset()"]
pub struct Cqp<P: Platform> {
    platform: P,
    function: PfId,
    ring: SendRing,
    /// Send queue, SD slots and host context; see `layout`.
    memory: DmaBuf<P>,
    slots: HostBuf<P>,
    cookie: u64,
    /// Number of the command that completes next: completions come in order.
    completed: u64,
    register_wait: Option<RegisterWait>,
    ccq: Option<Ccq<P>>,
    /// Memory of a CCQ that may still be alive in the device. It is freed with the CQP's own:
    /// without a CQP the device does not write there.
    parted: Option<DmaBuf<P>>,
    /// Codes of the error that stood in the registers when completions stopped coming through the
    /// CCQ.
    inherited: Option<(u16, u16)>,
    counters: Counters,
    late: HostBox<P, Late>,
}

impl<P: Platform> Cqp<P> {
    /// The platform.
    #[must_use]
    pub fn platform(&self) -> &P {
        &self.platform
    }

    /// The physical function.
    #[must_use]
    pub fn function(&self) -> PfId {
        self.function
    }

    /// Whether completions come through the CCQ.
    #[must_use]
    pub fn has_ccq(&self) -> bool {
        self.ccq.is_some()
    }

    /// Commands in flight.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        // Never more than the ring has entries.
        self.ring.next_sequence().wrapping_sub(self.completed) as u32
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Posts a command and waits for its end.
    ///
    /// # Errors
    /// As [`Cqp::submit`] and [`Cqp::wait`].
    pub fn execute(&mut self, command: &dyn Command) -> Result<Completion> {
        self.submit(command).and_then(|ticket| self.wait(ticket))
    }

    /// Notes a failure that existing drivers ignore: it is counted and logged, and the caller
    /// continues.
    pub fn pass_over(&mut self, error: &Error) {
        self.counters.passed_over = self.counters.passed_over.wrapping_add(1);
        log_info!("passed over: {}", error);
    }

    fn slots(&self) -> Slots<'_> {
        Slots(self.slots.words())
    }

    fn slot_of(&self, ticket: Ticket) -> u32 {
        self.ring.index_of(ticket.sequence)
    }
}
