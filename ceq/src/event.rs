//! Asynchronous events as the driver raises them, and a log of the last ones.
//!
//! ```
//! use e810_ceq::aeqe::Aeqe;
//! use e810_ceq::event::{AsyncEvent, EventLog};
//! use e810_hal::Ns;
//!
//! let mut log: EventLog<16> = EventLog::new();
//! let event = AsyncEvent::from(Aeqe::decode([0, 5 << 50 | 0x50A << 34 | 9]));
//! log.push(Ns::from_us(12), event);
//! assert_eq!(event.name(), "LLP_TOO_MANY_RETRIES");
//! assert!(event.to_string().starts_with("QP 9, send queue: LLP_TOO_MANY_RETRIES (0x050a): "));
//! assert_eq!(log.iter().count(), 1);
//! ```

use core::fmt;

use e810_hal::Ns;
use e810_types::WorkQueue;
use heapless::Deque;

use crate::ae::{Action, AeCode, QpEvent};
use crate::aeqe::{About, Aeqe, Object};

/// What an event is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Kind {
    /// An entry of the asynchronous event queue.
    Ae(AeCode),
    /// The asynchronous event queue overflowed.
    AeqOverflow,
    /// PFINT_OICR.HMC_ERR: the host memory cache failed.
    HmcError,
    /// PFINT_OICR.PE_PUSH: a push page was used wrongly.
    PushError,
    /// PFINT_OICR.PE_CRITERR: the protocol engine failed, with this
    /// GLPE_CRITERR.
    CriticalError(u32),
}

/// GLPE_CRITERR of a critical error that existing drivers only log
/// (control-path 2.6).
pub const CRITERR_HARMLESS: u32 = 0x0001_024D;

/// An asynchronous event: its name, what it happened to, why, and what to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct AsyncEvent {
    /// What it is.
    pub kind: Kind,
    /// What it happened to.
    pub object: Object,
    /// The queue of the QP that is to blame.
    pub blamed: Option<WorkQueue>,
    /// Index of the receive at fault, where the device gives it.
    pub receive: Option<u16>,
}

impl From<Aeqe> for AsyncEvent {
    fn from(entry: Aeqe) -> Self {
        Self {
            kind: Kind::Ae(entry.code),
            object: entry.object(),
            blamed: entry.blamed(),
            receive: entry
                .about
                .contains(About::RQ_INDEX)
                .then_some(entry.wqe_index),
        }
    }
}

impl AsyncEvent {
    /// An event of the function.
    #[must_use]
    pub const fn function(kind: Kind) -> Self {
        Self {
            kind,
            object: Object::Function,
            blamed: None,
            receive: None,
        }
    }

    /// Short name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Ae(code) => code.name().unwrap_or("unknown"),
            Kind::AeqOverflow => "AEQ_OVERFLOW",
            Kind::HmcError => "HMC_ERR",
            Kind::PushError => "PE_PUSH",
            Kind::CriticalError(_) => "PE_CRITERR",
        }
    }

    /// What happened.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        match self.kind {
            Kind::Ae(code) => code.cause(),
            Kind::AeqOverflow => "the asynchronous event queue was full and events are lost",
            Kind::HmcError => "the engine reached for host memory that is not there",
            Kind::PushError => "a push page was written in a way the engine does not allow",
            Kind::CriticalError(CRITERR_HARMLESS) => {
                "the engine reported a condition that existing drivers only log"
            }
            Kind::CriticalError(_) => "the engine stopped on a critical error",
        }
    }

    /// What to check or change.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self.kind {
            Kind::Ae(code) => code.remedy(),
            Kind::AeqOverflow => {
                "reset the function, and create the AEQ with more entries or empty it more often"
            }
            Kind::HmcError => {
                "read PFHMC_ERRORINFO and PFHMC_ERRORDATA, check for IOMMU faults, then reset the function"
            }
            Kind::PushError => "read GLPE_CRITERR, then reset the function; run without push pages",
            Kind::CriticalError(CRITERR_HARMLESS) => "nothing needs to be done",
            Kind::CriticalError(_) => {
                "note GLPE_CRITERR, then reset the function; if it comes back, update the firmware"
            }
        }
    }

    /// Whether only a reset of the function helps (control-path 2.6, 7.3).
    #[must_use]
    pub const fn needs_reset(&self) -> bool {
        match self.kind {
            Kind::Ae(_) | Kind::CriticalError(CRITERR_HARMLESS) => false,
            Kind::AeqOverflow | Kind::HmcError | Kind::PushError | Kind::CriticalError(_) => true,
        }
    }

    /// How the failure of a QP is reported to its user; `None` when no QP has
    /// failed.
    #[must_use]
    pub fn qp_event(&self) -> Option<QpEvent> {
        match (self.kind, self.object) {
            (Kind::Ae(code), Object::Qp(_)) if code.action() == Action::Flush => {
                Some(QpEvent::of(code.flush()))
            }
            _ => None,
        }
    }
}

impl fmt::Display for AsyncEvent {
    /// Object, name, cause, remedy: one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.object)?;
        match (self.blamed, self.receive) {
            (Some(WorkQueue::Send), _) => f.write_str(", send queue")?,
            (Some(WorkQueue::Recv), Some(index)) => write!(f, ", receive {index}")?,
            (Some(WorkQueue::Recv), None) => f.write_str(", receive queue")?,
            (None, _) => {}
        }
        match self.kind {
            Kind::Ae(code) => write!(f, ": {code}")?,
            Kind::CriticalError(code) => write!(f, ": {} ({code:#010x})", self.name())?,
            _ => write!(f, ": {}", self.name())?,
        }
        write!(f, ": {}; {}", self.cause(), self.remedy())
    }
}

/// An event and when it was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Entry {
    /// When.
    pub at: Ns,
    /// What.
    pub event: AsyncEvent,
}

/// The last `N` events, to be printed with an error.
#[derive(Clone, Debug)]
pub struct EventLog<const N: usize> {
    last: Deque<Entry, N>,
    total: u64,
}

impl<const N: usize> EventLog<N> {
    /// An empty log.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            last: Deque::new(),
            total: 0,
        }
    }

    /// Adds an event; drops the oldest if the log is full.
    pub fn push(&mut self, at: Ns, event: AsyncEvent) {
        let entry = Entry { at, event };
        if let Err(entry) = self.last.push_back(entry) {
            self.last.pop_front();
            // A log of length 0 keeps nothing.
            let _ = self.last.push_back(entry);
        }
        self.total = self.total.wrapping_add(1);
    }

    /// The events kept, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.last.iter()
    }

    /// Events ever added, kept or not.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }
}

impl<const N: usize> Default for EventLog<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    fn event(code: u64, source: u64) -> AsyncEvent {
        Aeqe::decode([0, source << 50 | code << 34 | 31 << 18 | 9]).into()
    }

    #[test]
    fn a_line_says_object_name_cause_and_remedy() {
        assert_eq!(
            event(0x303, 1).to_string(),
            "QP 9, receive 31: DDP_UBE_DDP_MESSAGE_TOO_LONG_FOR_AVAILABLE_BUFFER (0x0303): \
             a message is longer than the receive posted for it; \
             post receives at least as long as the longest message the peer sends"
        );
        assert_eq!(
            AsyncEvent::function(Kind::CriticalError(CRITERR_HARMLESS)).to_string(),
            "the function: PE_CRITERR (0x0001024d): the engine reported a condition that \
             existing drivers only log; nothing needs to be done"
        );
        assert!(
            event(0xABC, 0)
                .to_string()
                .starts_with("the function: unknown (0x0abc): ")
        );
        assert!(
            event(0x203, 2)
                .to_string()
                .starts_with("CQ 9: CQ_OPERATION_ERROR")
        );
    }

    #[test]
    fn only_a_failed_qp_has_a_qp_event() {
        assert_eq!(event(0x108, 5).qp_event(), Some(QpEvent::AccessError));
        assert_eq!(event(0x108, 2).qp_event(), None, "the source names a CQ");
        assert_eq!(event(0x900, 5).qp_event(), None);
        assert_eq!(event(0xABC, 5).qp_event(), Some(QpEvent::Fatal));
        assert_eq!(AsyncEvent::function(Kind::HmcError).qp_event(), None);
    }

    #[test]
    fn the_function_says_when_it_needs_a_reset() {
        for (kind, reset) in [
            (Kind::AeqOverflow, true),
            (Kind::HmcError, true),
            (Kind::PushError, true),
            (Kind::CriticalError(1), true),
            (Kind::CriticalError(CRITERR_HARMLESS), false),
            (Kind::Ae(AeCode::ADAPTER_CATASTROPHIC), false),
        ] {
            let event = AsyncEvent::function(kind);
            assert_eq!(event.needs_reset(), reset, "{event}");
            assert!(!event.remedy().is_empty());
        }
    }

    #[test]
    fn the_log_keeps_the_last() {
        let mut log: EventLog<3> = EventLog::default();
        for n in 0..5 {
            log.push(Ns(n), event(0x100 + n, 5));
        }
        let times: Vec<u64> = log.iter().map(|entry| entry.at.0).collect();
        assert_eq!((times, log.total()), (std::vec![2, 3, 4], 5));
    }
}
