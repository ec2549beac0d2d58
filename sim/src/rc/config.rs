//! The part of the QP context that the RC engine uses.

use crate::wire::Path;

/// Path MTU: payload bytes of a full packet (SNDMSS of the QP context; data-path 8.10).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum PathMtu {
    /// 256 bytes.
    B256 = 256,
    /// 512 bytes.
    B512 = 512,
    /// 1024 bytes.
    B1024 = 1024,
    /// 2048 bytes.
    B2048 = 2048,
    /// 4096 bytes.
    B4096 = 4096,
}

/// Not a path MTU.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no path MTU; use 256, 512, 1024, 2048 or 4096")]
pub struct BadMtu(pub u16);

impl PathMtu {
    #[must_use]
    pub fn bytes(self) -> u32 {
        u32::from(self as u16)
    }
}

impl TryFrom<u16> for PathMtu {
    type Error = BadMtu;

    fn try_from(bytes: u16) -> Result<Self, BadMtu> {
        Ok(match bytes {
            256 => Self::B256,
            512 => Self::B512,
            1024 => Self::B1024,
            2048 => Self::B2048,
            4096 => Self::B4096,
            other => return Err(BadMtu(other)),
        })
    }
}

/// The parts of the QP context (control-path 5.2) that the engine needs.
///
/// Ring geometry, `mtu` and `ird` must not change once the QP has sent or received: positions, PSNs
/// and Q1 slots depend on them.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct QpConfig {
    pub qpn: u32,
    /// DESTQP.
    pub dest_qpn: u32,
    /// Protection domain.
    pub pd: u32,
    pub pkey: u16,
    /// Addresses of outbound packets; `dst_mac` is from the ARP table entry ARPIDX.
    pub path: Path,
    /// SNDMSS.
    pub mtu: PathMtu,
    /// SQSIZE in quanta: a power of two, at most 32768.
    pub sq_quanta: u32,
    /// RQSIZE in quanta: a power of two, at most 32768.
    pub rq_quanta: u32,
    /// RQWQESIZE in quanta per slot: 1, 2, 4 or 8.
    pub rq_slot_quanta: u8,
    /// ORDSIZE: maximum outstanding reads as requester.
    pub ord: u8,
    /// IRDSIZE as the maximum pending reads as responder: 2, 8, 32, 64 or 128 for codes 0 to 4
    /// (data-path 5.2).
    pub ird: u16,
    /// REXMIT_THRESH: retries before LLP_TOO_MANY_RETRIES, 6 bits.
    pub retry: u8,
    /// RNRNAK_THRESH: RNR retries before LLP_TOO_MANY_RNRS, 3 bits; 7 means retries without end
    /// (data-path 8.9).
    pub rnr_retry: u8,
    /// Packets of sends and writes that may be unacknowledged, at least 1: CWNDROCE
    /// \[inf window_unit: its unit\].
    pub window: u32,
    /// Time without progress after which the requester retransmits, in ns: from RTOMIN
    /// \[inf ack_time\].
    pub retransmit_ns: u64,
    /// Credit code in the AETH of acknowledges and read responses, 5 bits: ACKCREDITS
    /// \[inf ack_credits: from name, width and the values of drivers\].
    pub credits: u8,
    /// The peer's credits limit the sends in flight \[inf send_credits\].
    pub obeys_credits: bool,
    /// When a READ's sink may not be written, the READ is blamed, not the response.
    pub blames_read: bool,
    /// RNR timer code that the responder requests, 5 bits.
    pub rnr_timer: u8,
    /// RDOK: accept inbound reads.
    pub read_ok: bool,
    /// WRRDRSPOK: accept inbound writes and read responses.
    pub write_ok: bool,
}

/// A [`QpConfig`] that the engine cannot work with.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A ring is not a power of two of 4 to 32768 quanta.
    #[error("a ring of {0} quanta; it must be a power of two from 4 to 32768")]
    Ring(u32),
    /// Receive slots are not 1, 2, 4 or 8 quanta, or longer than the ring.
    #[error("receive slots of {0} quanta; they must be 1, 2, 4 or 8 and fit the ring")]
    Slot(u8),
}

impl QpConfig {
    /// Checks the invariants that the engine relies on.
    ///
    /// # Errors
    /// [`ConfigError`] naming the field.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for quanta in [self.sq_quanta, self.rq_quanta] {
            if !quanta.is_power_of_two() || !(4..=32768).contains(&quanta) {
                return Err(ConfigError::Ring(quanta));
            }
        }
        if !matches!(self.rq_slot_quanta, 1 | 2 | 4 | 8)
            || u32::from(self.rq_slot_quanta) > self.rq_quanta
        {
            return Err(ConfigError::Slot(self.rq_slot_quanta));
        }
        Ok(())
    }
}
