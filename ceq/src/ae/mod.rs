//! Asynchronous event codes: what each means, and what to do about it.
//!
//! The codes are in one table, in files by topic, from control-path 7.5 and data-path 8.8. The
//! sources give only the names; causes are read off them, and so is which codes a RoCE QP can
//! raise at all (`[inf event_meanings]`). A code that is not in the table keeps its number and is
//! treated as existing drivers treat codes that they do not single out: the QP fails with the
//! general flush code.
//!
//! ```
//! use e810_ceq::ae::{AeCode, QpEvent};
//! use e810_types::FlushCode;
//!
//! let rnr = AeCode::LLP_TOO_MANY_RNRS;
//! assert_eq!(rnr.flush(), FlushCode::RNR_RETRY_EXC);
//! assert_eq!(QpEvent::of(rnr.flush()), QpEvent::Fatal);
//! assert!(rnr.remedy().contains("receive"));
//! assert_eq!(AeCode(0xFFF).to_string(), "unknown (0x0fff)");
//! ```

use core::fmt;

use e810_types::FlushCode;

mod connection;
mod engine;
mod packet;
mod request;
mod stag;

/// How existing drivers class a code (control-path 7.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Class {
    /// "Q": a QP's, and of whatever else the source names.
    Qp,
    /// "Q*": a QP's; the source is ignored.
    QpOnly,
    /// "C": a CQ's; the source is ignored.
    Cq,
    /// "S": of whatever the source names.
    Source,
    /// A shared receive queue's; the source is ignored. Later hardware.
    Srq,
    /// Of no queue, whatever the source says. Later hardware.
    Nothing,
}

/// What follows an event (control-path 7.5, 7.6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Action {
    /// The QP has stopped: move it to ERROR, flush both queues with the code on the blamed side,
    /// then report it. If no QP is named, nothing follows.
    Flush,
    /// Report a CQ error to the CQ's users.
    CqError,
    /// A suspended QP is quiet: wake its waiters.
    SuspendDone,
    /// The connection is up: wake its waiters (iWARP).
    Connected,
    /// The connection ends: iWARP's closing sequence.
    Close,
    /// Only report it.
    Report,
}

/// Who can raise a code `[inf event_meanings]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Origin {
    /// A RoCEv2 QP, or the function, on this device.
    Roce,
    /// Only an iWARP QP.
    Iwarp,
    /// Only later hardware (GEN_3).
    Gen3,
}

/// How a failed QP is reported to its user (control-path 7.6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum QpEvent {
    /// "catastrophic": QP_FATAL.
    Fatal,
    /// "access_err": QP_ACCESS_ERR.
    AccessError,
    /// "req_err": QP_REQ_ERR.
    RequestError,
}

impl QpEvent {
    /// What the QP's user gets for a flush with this code (data-path 8.8: each flush code belongs
    /// to one event).
    #[must_use]
    pub const fn of(code: FlushCode) -> Self {
        match code {
            FlushCode::PROT | FlushCode::REM_ACCESS | FlushCode::MW_BIND => Self::AccessError,
            FlushCode::REM_INV_REQ => Self::RequestError,
            _ => Self::Fatal,
        }
    }

    /// Name, as verbs has it without its prefix.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fatal => "QP_FATAL",
            Self::AccessError => "QP_ACCESS_ERR",
            Self::RequestError => "QP_REQ_ERR",
        }
    }
}

impl fmt::Display for QpEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is known about one code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct AeInfo {
    /// The code.
    pub code: AeCode,
    /// Name, as in the reference.
    pub name: &'static str,
    /// How the entry's id and source are read.
    pub class: Class,
    /// Code for the flush of the blamed queue.
    pub flush: FlushCode,
    /// What follows.
    pub action: Action,
    /// Who can raise it.
    pub origin: Origin,
    /// What happened.
    pub cause: &'static str,
    /// What to check or change.
    pub remedy: &'static str,
}

/// AECODE: an asynchronous event code, 12 bits. Any value is kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct AeCode(pub u16);

impl AeCode {
    /// What is known about the code; `None` if it is not in the table.
    #[must_use]
    pub fn info(self) -> Option<&'static AeInfo> {
        all().find(|info| info.code == self)
    }

    /// Name, as in the reference.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        self.info().map(|info| info.name)
    }

    /// How the entry's id and source are read; [`Class::Source`] when unknown.
    #[must_use]
    pub fn class(self) -> Class {
        self.info().map_or(Class::Source, |info| info.class)
    }

    /// Code for the flush of the blamed queue; the general one when unknown
    /// (data-path 8.8).
    #[must_use]
    pub fn flush(self) -> FlushCode {
        self.info().map_or(FlushCode::GENERAL, |info| info.flush)
    }

    /// What follows; [`Action::Flush`] when unknown.
    #[must_use]
    pub fn action(self) -> Action {
        self.info().map_or(Action::Flush, |info| info.action)
    }

    /// What happened.
    #[must_use]
    pub fn cause(self) -> &'static str {
        self.info().map_or(
            "the device reported a code that no source describes",
            |info| info.cause,
        )
    }

    /// What to check or change.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        self.info().map_or(
            "note the code, and the request the QP was working on; check the firmware version (devlink dev info) for known errata",
            |info| info.remedy,
        )
    }
}

impl fmt::Display for AeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name().unwrap_or("unknown");
        write!(f, "{name} ({:#06x})", self.0)
    }
}

impl fmt::Debug for AeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Every known code, in ascending order.
pub fn all() -> impl Iterator<Item = &'static AeInfo> {
    [
        stag::TABLE,
        request::TABLE,
        packet::TABLE,
        connection::TABLE,
        engine::TABLE,
    ]
    .into_iter()
    .flatten()
}

/// Defines the codes of one topic: a constant of [`AeCode`] each, and `TABLE`.
///
/// ```text
/// asynchronous_events! {
///     0x0102 AMP_UNALLOCATED_STAG: Source, PROT, Flush, Roce,
///         "what happened", "what to check or change";
/// }
/// ```
macro_rules! asynchronous_events {
    ($($code:literal $name:ident: $class:ident, $flush:ident, $action:ident, $origin:ident,
        $cause:literal, $remedy:expr;)+) => {
        impl $crate::ae::AeCode {
            $(
                #[doc = concat!(stringify!($code), ": ", $cause, ".")]
                pub const $name: Self = Self($code);
            )+
        }

        /// The codes of this file, in ascending order.
        pub(super) static TABLE: &[$crate::ae::AeInfo] = &[$(
            $crate::ae::AeInfo {
                code: $crate::ae::AeCode::$name,
                name: stringify!($name),
                class: $crate::ae::Class::$class,
                flush: e810_types::FlushCode::$flush,
                action: $crate::ae::Action::$action,
                origin: $crate::ae::Origin::$origin,
                cause: $cause,
                remedy: $remedy,
            }
        ),+];
    };
}
use asynchronous_events;

/// Remedy of codes that need an iWARP QP.
const IWARP: &str = "only an iWARP QP raises this, and this driver makes none: check QPTYPE in the QP's context, and that no other driver uses the function";

/// Remedy of codes that need later hardware.
const GEN3: &str =
    "only later hardware raises this: check the PCI device id, the E810 has none of these features";

#[cfg(test)]
mod tests;
