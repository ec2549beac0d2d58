//! The header q3 (data-path 1.4).

use tock_registers::register_bitfields;

use crate::wr::SendFlags;

register_bitfields! { u64,
    /// q3 of a send WQE. A receive WQE has ADDFRAGCNT and VALID only.
    pub(crate) HDR [
        /// Remote key, key to invalidate, or AH index.
        REMSTAG OFFSET(0) NUMBITS(32) [],
        /// Consumer key of a fast registration.
        STAGKEY OFFSET(0) NUMBITS(8) [],
        /// STag index of a fast registration.
        STAGINDEX OFFSET(8) NUMBITS(24) [],
        /// Operation.
        OPCODE OFFSET(32) NUMBITS(6) [],
        /// Fragments beyond the first.
        ADDFRAGCNT OFFSET(38) NUMBITS(4) [],
        /// Page list level of a fast registration.
        LPBLSIZE OFFSET(44) NUMBITS(2) [],
        /// Measure the round trip.
        REPORTRTT OFFSET(46) NUMBITS(1) [],
        /// Page size of a fast registration.
        HPAGESIZE OFFSET(46) NUMBITS(2) [],
        /// q0 holds immediate data.
        IMMDATAFLAG OFFSET(47) NUMBITS(1) [],
        /// Inline bytes.
        INLINEDATALEN OFFSET(48) NUMBITS(8) [],
        /// Access rights of a window or fast registration.
        STAGRIGHTS OFFSET(48) NUMBITS(5) [],
        /// Names are addresses, not offsets.
        VABASEDTO OFFSET(53) NUMBITS(1) [],
        /// A window of type 1.
        MEMWINDOWTYPE OFFSET(54) NUMBITS(1) [],
        /// The data is in the WQE.
        INLINEDATAFLAG OFFSET(57) NUMBITS(1) [],
        /// Wait for reads; LOCALFENCE and SIGCOMPL follow: see `signals`.
        READFENCE OFFSET(60) NUMBITS(1) [],
        /// Wait for local operations.
        LOCALFENCE OFFSET(61) NUMBITS(1) [],
        /// CQE on success.
        SIGCOMPL OFFSET(62) NUMBITS(1) [],
        /// Valid when equal to the polarity of the lap.
        VALID OFFSET(63) NUMBITS(1) []
    ]
}

/// A header without flags and valid bit.
#[inline(always)]
pub(crate) fn header(opcode: u8, low: u32) -> u64 {
    (HDR::OPCODE.val(opcode.into()) + HDR::REMSTAG.val(low.into())).value
}

/// FENCE, LOCAL_FENCE and SIGNALED are READFENCE, LOCALFENCE and SIGCOMPL in the
/// same order; other flags are left out.
#[inline(always)]
pub(crate) const fn signals(flags: SendFlags) -> u64 {
    (flags.bits() as u64 & 7) << 60
}

/// REPORTRTT of the operations that have it.
#[inline(always)]
pub(crate) fn report_rtt(flags: SendFlags) -> u64 {
    HDR::REPORTRTT
        .val(flags.contains(SendFlags::REPORT_RTT).into())
        .value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_land_on_their_fields() {
        for (flag, field) in [
            (SendFlags::FENCE, HDR::READFENCE),
            (SendFlags::LOCAL_FENCE, HDR::LOCALFENCE),
            (SendFlags::SIGNALED, HDR::SIGCOMPL),
        ] {
            assert_eq!(signals(flag), field.val(1).value);
        }
        assert_eq!(signals(SendFlags::SOLICITED | SendFlags::REPORT_RTT), 0);
        assert_eq!(report_rtt(SendFlags::all()), 1 << 46);
    }
}
