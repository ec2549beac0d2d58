//! States of a QP: those of the verbs, and those of the device.

use core::fmt;

/// State of a QP, numbered as in verbs (data-path 8.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
#[doc(alias = "ibv_qp_state")]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum QpState {
    /// Just created.
    #[default]
    #[doc(alias = "IBV_QPS_RESET")]
    Reset = 0,
    /// Takes receives.
    #[doc(alias = "IBV_QPS_INIT")]
    Init = 1,
    /// Ready to receive.
    #[doc(alias = "IBV_QPS_RTR")]
    Rtr = 2,
    /// Ready to send.
    #[doc(alias = "IBV_QPS_RTS")]
    Rts = 3,
    /// Send queue drained.
    #[doc(alias = "IBV_QPS_SQD")]
    Sqd = 4,
    /// Send queue in error (not RC).
    #[doc(alias = "IBV_QPS_SQE")]
    Sqe = 5,
    /// In error; every request is flushed.
    #[doc(alias = "IBV_QPS_ERR")]
    Err = 6,
}

impl QpState {
    /// All states, by number.
    pub const ALL: [Self; 7] = [
        Self::Reset,
        Self::Init,
        Self::Rtr,
        Self::Rts,
        Self::Sqd,
        Self::Sqe,
        Self::Err,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reset => "RESET",
            Self::Init => "INIT",
            Self::Rtr => "RTR",
            Self::Rts => "RTS",
            Self::Sqd => "SQD",
            Self::Sqe => "SQE",
            Self::Err => "ERR",
        }
    }
}

impl fmt::Display for QpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// State of a QP as the device has it: NEXTIWSTATE of MODIFY_QP, and IWSTATE of
/// an asynchronous event (control-path 5.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum HwQpState {
    /// No state.
    #[default]
    Invalid = 0,
    /// Created (RESET and INIT of the verbs).
    Idle = 1,
    /// Ready to send.
    Rts = 2,
    /// Send queue drained (RoCE); closing (iWARP).
    Sqd = 3,
    /// Ready to receive.
    Rtr = 4,
    /// Terminating (iWARP).
    Terminate = 5,
    /// Error.
    Error = 6,
}

impl HwQpState {
    /// The state with the number `code`, if there is one.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Invalid,
            1 => Self::Idle,
            2 => Self::Rts,
            3 => Self::Sqd,
            4 => Self::Rtr,
            5 => Self::Terminate,
            6 => Self::Error,
            _ => return None,
        })
    }
}
