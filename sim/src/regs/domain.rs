//! Reset domains: which reset clears which register.

use e810_hal::regs::Reset;

/// A reset of the function or the card, from the narrowest to the widest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ResetSource {
    /// PF reset: PFGEN_CTRL.PFSWR.
    Pfr,
    /// Core reset: GLGEN_RTRIG.CORER.
    Corer,
    /// Global reset: GLGEN_RTRIG.GLOBR.
    Globr,
    /// Firmware reset: GLGEN_RTRIG.EMPFWR.
    Empr,
}

impl ResetSource {
    /// Whether this reset clears a register whose reset source is `register`.
    ///
    /// A wider reset clears what a narrower one does (control-path 0). Resets of the PCI side and
    /// power-up are not among these. A register without a known source (GLPE_CRITERR) belongs to
    /// the whole card by its name, so a core reset clears it and a PF reset does not
    /// `[inf critical_error_reset]`.
    pub(crate) fn clears(self, register: Reset) -> bool {
        let narrowest = match register {
            Reset::Pfr => Self::Pfr,
            Reset::Corer | Reset::Vfr | Reset::Unknown => Self::Corer,
            Reset::Empr => Self::Empr,
            Reset::Por | Reset::Flr | Reset::Pcir | Reset::Perst => return false,
        };
        self >= narrowest
    }

    /// RESET_TYPE of GLGEN_RSTAT (control-path 2.7); a PF reset has no type.
    pub(crate) const fn rstat_type(self) -> u32 {
        match self {
            Self::Pfr => 0,
            Self::Corer => 1,
            Self::Globr => 2,
            Self::Empr => 3,
        }
    }
}
