//! CREATE_QP, MODIFY_QP and DESTROY_QP (control-path 4.7).

use e810_hal::Iova;
use e810_types::HwQpState;
use tock_registers::register_bitfields;

use super::{Command, HEADER, Wqe, header};
use crate::error::{Error, Result};
use crate::field::{aligned, bit, fit};
use crate::limits::{QP_CONTEXT_ALIGN, SHADOW_ALIGN};
use crate::opcode::Opcode;

register_bitfields![u64,
    Q8 [
        NEWMSS OFFSET(32) NUMBITS(14) [],
        TERMLEN OFFSET(48) NUMBITS(4) []
    ],
    Q24 [
        QPID OFFSET(0) NUMBITS(24) [],
        ORDVALID OFFSET(42) NUMBITS(1) [],
        TOECTXVALID OFFSET(43) NUMBITS(1) [],
        CACHEDVARVALID OFFSET(44) NUMBITS(1) [],
        VQ OFFSET(45) NUMBITS(1) [],
        FORCELOOPBACK OFFSET(46) NUMBITS(1) [],
        CQNUMVALID OFFSET(47) NUMBITS(1) [],
        QPTYPE OFFSET(48) NUMBITS(3) [],
        MACVALID OFFSET(51) NUMBITS(1) [],
        MSSCHANGE OFFSET(52) NUMBITS(1) [],
        IGNOREMWBOUND OFFSET(54) NUMBITS(1) [],
        REMOVEHASHENTRY OFFSET(55) NUMBITS(1) [],
        TERMACT OFFSET(56) NUMBITS(2) [],
        RESETCON OFFSET(58) NUMBITS(1) [],
        ARPTABIDXVALID OFFSET(59) NUMBITS(1) [],
        NEXTIWSTATE OFFSET(60) NUMBITS(3) []
    ]
];

/// QPTYPE (control-path 5.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum HwQpType {
    /// iWARP.
    Iwarp = 1,
    /// Raw UDA, used by existing drivers for their own queues.
    Uda = 2,
    /// RoCEv2 reliable connection.
    RoceRc = 3,
    /// RoCEv2 unreliable datagram.
    RoceUd = 4,
}

/// What a connection sends when it goes to [`HwQpState::Terminate`] (TERMACT; iWARP).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Terminate {
    /// Terminate message and FIN.
    MessageAndFin {
        /// TERMLEN of the message.
        length: u8,
    },
    /// Terminate message only.
    Message {
        /// TERMLEN of the message.
        length: u8,
    },
    /// FIN only.
    Fin,
    /// Neither.
    Nothing,
}

impl Terminate {
    /// TERMACT and TERMLEN.
    const fn codes(self) -> (u64, u8) {
        match self {
            Self::MessageAndFin { length } => (0, length),
            Self::Message { length } => (1, length),
            Self::Fin => (2, 0),
            Self::Nothing => (3, 0),
        }
    }
}

/// The words that all three commands share.
fn common(qp: u32, context: Iova, shadow: Iova) -> Result<Wqe> {
    let mut wqe = Wqe::default();
    let [_, _, q16, q24, _, q40, ..] = &mut wqe;
    *q16 = aligned("QP host context", context, QP_CONTEXT_ALIGN)?;
    *q40 = aligned("QP shadow area", shadow, SHADOW_ALIGN)?;
    *q24 = fit("QP id", Q24::QPID, qp)?.value;
    Ok(wqe)
}

/// CREATE_QP: makes a QP from its host context ([`crate::qpc`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreateQp {
    /// QP id, below the committed QP count.
    pub qp: u32,
    /// Kind of QP.
    pub kind: HwQpType,
    /// Host context, 256-aligned.
    pub context: Iova,
    /// Shadow area, 64-aligned.
    pub shadow: Iova,
    /// First state; [`HwQpState::Idle`] for RoCE.
    pub state: HwQpState,
    /// The queue addresses in the context are PBLE indexes (VQ).
    pub virtual_queues: bool,
    /// The context's ORD is valid.
    pub ord_valid: bool,
    /// The context's TCP or UDP part is valid.
    pub transport_valid: bool,
    /// FORCELOOPBACK.
    pub force_loopback: bool,
    /// The context's CQ numbers are valid.
    pub cqs_valid: bool,
    /// The context's source MAC is valid.
    pub mac_valid: bool,
    /// The context's ARP index is valid.
    pub arp_valid: bool,
}

impl CreateQp {
    /// A RoCE QP as control-path 5.5 creates it: idle, with its CQ numbers and
    /// MAC.
    #[must_use]
    pub const fn new(qp: u32, kind: HwQpType, context: Iova, shadow: Iova) -> Self {
        Self {
            qp,
            kind,
            context,
            shadow,
            state: HwQpState::Idle,
            virtual_queues: false,
            ord_valid: false,
            transport_valid: false,
            force_loopback: false,
            cqs_valid: true,
            mac_valid: true,
            arp_valid: false,
        }
    }
}

impl Command for CreateQp {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = common(self.qp, self.context, self.shadow)?;
        let fields = bit(Q24::ORDVALID, self.ord_valid)
            + bit(Q24::TOECTXVALID, self.transport_valid)
            + bit(Q24::VQ, self.virtual_queues)
            + bit(Q24::FORCELOOPBACK, self.force_loopback)
            + bit(Q24::CQNUMVALID, self.cqs_valid)
            + Q24::QPTYPE.val(self.kind as u64)
            + bit(Q24::MACVALID, self.mac_valid)
            + bit(Q24::ARPTABIDXVALID, self.arp_valid)
            + Q24::NEXTIWSTATE.val(self.state as u64);
        wqe[HEADER] |= header(Opcode::CreateQp, fields.value);
        Ok(wqe)
    }
}

/// MODIFY_QP: moves a QP to another state and tells the device which parts of
/// the rewritten host context to take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModifyQp {
    /// QP id.
    pub qp: u32,
    /// Kind of QP.
    pub kind: HwQpType,
    /// Host context, 256-aligned.
    pub context: Iova,
    /// Shadow area, 64-aligned.
    pub shadow: Iova,
    /// State to go to.
    pub state: HwQpState,
    /// The queue addresses in the context are PBLE indexes (VQ).
    pub virtual_queues: bool,
    /// The context's ORD is valid.
    pub ord_valid: bool,
    /// The context's TCP or UDP part is valid.
    pub transport_valid: bool,
    /// The context's cached variables are valid.
    pub cached_variables_valid: bool,
    /// FORCELOOPBACK.
    pub force_loopback: bool,
    /// The context's CQ numbers are valid.
    pub cqs_valid: bool,
    /// The context's source MAC is valid.
    pub mac_valid: bool,
    /// The context's ARP index is valid.
    pub arp_valid: bool,
    /// REMOVEHASHENTRY.
    pub remove_hash_entry: bool,
    /// RESETCON (iWARP).
    pub reset_connection: bool,
    /// A new maximum segment size.
    pub new_mss: Option<u16>,
    /// What to send; only with [`HwQpState::Terminate`].
    pub terminate: Option<Terminate>,
}

impl ModifyQp {
    /// A change to `state` that takes nothing else from the context.
    #[must_use]
    pub const fn new(
        qp: u32,
        kind: HwQpType,
        context: Iova,
        shadow: Iova,
        state: HwQpState,
    ) -> Self {
        Self {
            qp,
            kind,
            context,
            shadow,
            state,
            virtual_queues: false,
            ord_valid: false,
            transport_valid: false,
            cached_variables_valid: false,
            force_loopback: false,
            cqs_valid: false,
            mac_valid: false,
            arp_valid: false,
            remove_hash_entry: false,
            reset_connection: false,
            new_mss: None,
            terminate: None,
        }
    }
}

impl Command for ModifyQp {
    fn encode(&self) -> Result<Wqe> {
        let terminating = matches!(self.state, HwQpState::Terminate);
        if self.terminate.is_some() && !terminating {
            return Err(Error::Invalid {
                what: "a terminate action needs the next state TERMINATE",
            });
        }
        let mut wqe = common(self.qp, self.context, self.shadow)?;
        let (action, length) = self.terminate.map_or((0, 0), Terminate::codes);
        let [_, q8, ..] = &mut wqe;
        *q8 = (fit("NEWMSS", Q8::NEWMSS, self.new_mss.unwrap_or(0))?
            + fit("TERMLEN", Q8::TERMLEN, length)?)
        .value;
        let fields = bit(Q24::ORDVALID, self.ord_valid)
            + bit(Q24::TOECTXVALID, self.transport_valid)
            + bit(Q24::CACHEDVARVALID, self.cached_variables_valid)
            + bit(Q24::VQ, self.virtual_queues)
            + bit(Q24::FORCELOOPBACK, self.force_loopback)
            + bit(Q24::CQNUMVALID, self.cqs_valid)
            + Q24::QPTYPE.val(self.kind as u64)
            + bit(Q24::MACVALID, self.mac_valid)
            + bit(Q24::MSSCHANGE, self.new_mss.is_some())
            + bit(Q24::REMOVEHASHENTRY, self.remove_hash_entry)
            + Q24::TERMACT.val(action)
            + bit(Q24::RESETCON, self.reset_connection)
            + bit(Q24::ARPTABIDXVALID, self.arp_valid)
            + Q24::NEXTIWSTATE.val(self.state as u64);
        wqe[HEADER] |= header(Opcode::ModifyQp, fields.value);
        Ok(wqe)
    }
}

/// DESTROY_QP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DestroyQp {
    /// QP id.
    pub qp: u32,
    /// Kind of QP.
    pub kind: HwQpType,
    /// Host context, 256-aligned.
    pub context: Iova,
    /// Shadow area, 64-aligned.
    pub shadow: Iova,
    /// REMOVEHASHENTRY; set by existing drivers.
    pub remove_hash_entry: bool,
    /// IGNOREMWBOUND; clear in existing drivers.
    pub ignore_bound_windows: bool,
}

impl DestroyQp {
    /// The destroy of control-path 4.7: hash entry removed.
    #[must_use]
    pub const fn new(qp: u32, kind: HwQpType, context: Iova, shadow: Iova) -> Self {
        Self {
            qp,
            kind,
            context,
            shadow,
            remove_hash_entry: true,
            ignore_bound_windows: false,
        }
    }
}

impl Command for DestroyQp {
    fn encode(&self) -> Result<Wqe> {
        let mut wqe = common(self.qp, self.context, self.shadow)?;
        let fields = Q24::QPTYPE.val(self.kind as u64)
            + bit(Q24::IGNOREMWBOUND, self.ignore_bound_windows)
            + bit(Q24::REMOVEHASHENTRY, self.remove_hash_entry);
        wqe[HEADER] |= header(Opcode::DestroyQp, fields.value);
        Ok(wqe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: Iova = Iova(0x1_0000_0100);
    const SHADOW: Iova = Iova(0x2_0000_0040);

    #[test]
    fn arguments_are_checked_not_truncated() {
        let good = CreateQp::new(77, HwQpType::RoceRc, CONTEXT, SHADOW);
        assert!(good.encode().is_ok());
        let qp = CreateQp {
            qp: 1 << 24,
            ..good
        };
        assert_eq!(
            qp.encode(),
            Err(Error::OutOfRange {
                field: "QP id",
                value: 1 << 24,
                limit: 0xFF_FFFF
            })
        );
        let context = CreateQp {
            context: Iova(0x80),
            ..good
        };
        assert!(matches!(context.encode(), Err(Error::Misaligned { .. })));
        let modify = ModifyQp::new(1, HwQpType::RoceRc, CONTEXT, SHADOW, HwQpState::Rts);
        let mss = ModifyQp {
            new_mss: Some(1 << 14),
            ..modify
        };
        assert!(matches!(mss.encode(), Err(Error::OutOfRange { .. })));
        let terminate = ModifyQp {
            terminate: Some(Terminate::Nothing),
            ..modify
        };
        assert!(matches!(terminate.encode(), Err(Error::Invalid { .. })));
    }

    #[test]
    fn states_have_their_codes() {
        for code in 0..8 {
            if let Some(state) = HwQpState::from_code(code) {
                assert_eq!(state as u8, code);
            } else {
                assert_eq!(code, 7);
            }
        }
    }
}
