//! Transport headers: BTH, DETH, RETH, AETH, immediate data and IETH.

use super::Opcode;
use super::opcode::HeaderSet;

/// Mask of a PSN, a QP number and an MSN.
const LOW_24: u32 = 0x00FF_FFFF;

/// Base transport header. The pad count is not kept: it follows from the payload length.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Bth {
    /// Operation and place in the message.
    pub opcode: Opcode,
    /// Solicited event.
    pub solicited: bool,
    /// Migration request; 1 is the state of a path that never migrates.
    pub migration: bool,
    /// Transport header version, 4 bits; only 0 exists.
    pub version: u8,
    /// Partition key.
    pub pkey: u16,
    /// Forward congestion notification.
    pub fecn: bool,
    /// Backward congestion notification.
    pub becn: bool,
    /// Destination QP number, 24 bits.
    pub dest_qp: u32,
    /// The responder is to send an acknowledge.
    pub ack_request: bool,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
}

impl Bth {
    /// Length on the wire in bytes.
    pub(super) const LEN: usize = 12;

    /// A header with the default partition (0xFFFF) and no flag set but `migration`.
    #[must_use]
    pub fn new(opcode: Opcode, dest_qp: u32, psn: u32) -> Self {
        Self {
            opcode,
            solicited: false,
            migration: true,
            version: 0,
            pkey: 0xFFFF,
            fecn: false,
            becn: false,
            dest_qp: dest_qp & LOW_24,
            ack_request: false,
            psn: psn & LOW_24,
        }
    }

    pub(super) fn encode(&self, pad: u8) -> [u8; Self::LEN] {
        let flags = u8::from(self.solicited) << 7
            | u8::from(self.migration) << 6
            | (pad & 3) << 4
            | (self.version & 0xF);
        let [k0, k1] = self.pkey.to_be_bytes();
        let [_, q0, q1, q2] = self.dest_qp.to_be_bytes();
        let [_, p0, p1, p2] = self.psn.to_be_bytes();
        let congestion = u8::from(self.fecn) << 7 | u8::from(self.becn) << 6;
        let ack = u8::from(self.ack_request) << 7;
        [
            self.opcode.0,
            flags,
            k0,
            k1,
            congestion,
            q0,
            q1,
            q2,
            ack,
            p0,
            p1,
            p2,
        ]
    }

    /// The header and its pad count.
    pub(super) fn decode(bytes: [u8; Self::LEN]) -> (Self, u8) {
        let [
            opcode,
            flags,
            k0,
            k1,
            congestion,
            q0,
            q1,
            q2,
            ack,
            p0,
            p1,
            p2,
        ] = bytes;
        let bth = Self {
            opcode: Opcode(opcode),
            solicited: flags & 0x80 != 0,
            migration: flags & 0x40 != 0,
            version: flags & 0xF,
            pkey: u16::from_be_bytes([k0, k1]),
            fecn: congestion & 0x80 != 0,
            becn: congestion & 0x40 != 0,
            dest_qp: u32::from_be_bytes([0, q0, q1, q2]),
            ack_request: ack & 0x80 != 0,
            psn: u32::from_be_bytes([0, p0, p1, p2]),
        };
        (bth, flags >> 4 & 3)
    }
}

/// Datagram header of UD packets.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Deth {
    /// Queue key.
    pub qkey: u32,
    /// Sending QP, 24 bits.
    pub src_qp: u32,
}

impl Deth {
    pub(super) const LEN: usize = 8;

    pub(super) fn encode(&self) -> [u8; Self::LEN] {
        let [k0, k1, k2, k3] = self.qkey.to_be_bytes();
        let [_, q0, q1, q2] = self.src_qp.to_be_bytes();
        [k0, k1, k2, k3, 0, q0, q1, q2]
    }

    pub(super) fn decode([k0, k1, k2, k3, _, q0, q1, q2]: [u8; Self::LEN]) -> Self {
        Self {
            qkey: u32::from_be_bytes([k0, k1, k2, k3]),
            src_qp: u32::from_be_bytes([0, q0, q1, q2]),
        }
    }
}

/// RDMA header: the remote memory of an operation.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Reth {
    /// Remote virtual address (tagged offset).
    pub addr: u64,
    /// Remote STag.
    pub rkey: u32,
    /// Length of the whole message in bytes.
    pub len: u32,
}

impl Reth {
    pub(super) const LEN: usize = 16;

    pub(super) fn encode(&self) -> [u8; Self::LEN] {
        let word = u128::from(self.addr) << 64 | u128::from(self.rkey) << 32 | u128::from(self.len);
        word.to_be_bytes()
    }

    pub(super) fn decode(bytes: [u8; Self::LEN]) -> Self {
        let word = u128::from_be_bytes(bytes);
        // The three fields fill the word exactly, so each cast drops only what the others hold.
        Self {
            addr: (word >> 64) as u64,
            rkey: (word >> 32) as u32,
            len: word as u32,
        }
    }
}

/// Reason of a negative acknowledge.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Nak {
    /// A packet is missing; the PSN of the packet carrying this is the one expected.
    Sequence,
    /// This QP cannot execute the request.
    InvalidRequest,
    /// The responder's memory protection refused it.
    RemoteAccess,
    /// The responder could not execute the request.
    RemoteOperation,
    /// A code without a meaning for RC.
    Other(u8),
}

/// AETH syndrome.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// Everything up to the PSN arrived. The value is the credit code, 31 meaning "not limited".
    Ack(u8),
    /// No receive was posted; the value is the RNR timer code (data-path 8.9).
    RnrNak(u8),
    /// Negative acknowledge.
    Nak(Nak),
    /// A reserved pattern.
    Reserved(u8),
}

impl Syndrome {
    /// The byte on the wire.
    #[must_use]
    pub fn encode(self) -> u8 {
        match self {
            Self::Ack(credits) => credits & 0x1F,
            Self::RnrNak(timer) => 0x20 | timer & 0x1F,
            Self::Nak(nak) => {
                let code = match nak {
                    Nak::Sequence => 0,
                    Nak::InvalidRequest => 1,
                    Nak::RemoteAccess => 2,
                    Nak::RemoteOperation => 3,
                    Nak::Other(code) => code & 0x1F,
                };
                0x60 | code
            }
            Self::Reserved(byte) => byte,
        }
    }

    /// The meaning of a byte from the wire.
    #[must_use]
    pub fn decode(byte: u8) -> Self {
        let low = byte & 0x1F;
        match byte >> 5 {
            0 => Self::Ack(low),
            1 => Self::RnrNak(low),
            3 => Self::Nak(match low {
                0 => Nak::Sequence,
                1 => Nak::InvalidRequest,
                2 => Nak::RemoteAccess,
                3 => Nak::RemoteOperation,
                code => Nak::Other(code),
            }),
            _ => Self::Reserved(byte),
        }
    }
}

/// Acknowledge header.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// ACK, RNR NAK or NAK.
    pub syndrome: Syndrome,
    /// Messages the responder has completed, modulo 2^24.
    pub msn: u32,
}

impl Aeth {
    pub(super) const LEN: usize = 4;

    pub(super) fn encode(&self) -> [u8; Self::LEN] {
        let [_, m0, m1, m2] = self.msn.to_be_bytes();
        [self.syndrome.encode(), m0, m1, m2]
    }

    pub(super) fn decode([syndrome, m0, m1, m2]: [u8; Self::LEN]) -> Self {
        Self {
            syndrome: Syndrome::decode(syndrome),
            msn: u32::from_be_bytes([0, m0, m1, m2]),
        }
    }
}

/// All transport headers of a packet. The opcode decides which of the optional headers a packet
/// has.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Base transport header.
    pub bth: Bth,
    /// Datagram header.
    pub deth: Option<Deth>,
    /// RDMA header.
    pub reth: Option<Reth>,
    /// Acknowledge header.
    pub aeth: Option<Aeth>,
    /// Immediate data as a number (big-endian on the wire).
    pub immediate: Option<u32>,
    /// STag to invalidate.
    pub invalidate: Option<u32>,
}

impl Headers {
    /// A BTH without further headers.
    #[must_use]
    pub fn new(bth: Bth) -> Self {
        Self {
            bth,
            deth: None,
            reth: None,
            aeth: None,
            immediate: None,
            invalidate: None,
        }
    }

    /// True if exactly the headers that the opcode requires are present.
    #[must_use]
    pub fn match_opcode(&self) -> bool {
        self.bth.opcode.headers().without_atomic() == self.set()
    }

    /// The headers after the base header; those of atomic operations have no field.
    pub(super) fn set(&self) -> HeaderSet {
        HeaderSet::of([
            self.deth.is_some(),
            self.reth.is_some(),
            self.aeth.is_some(),
            self.immediate.is_some(),
            self.invalidate.is_some(),
        ])
    }

    /// Bytes of all transport headers.
    pub(super) fn len(&self) -> usize {
        Bth::LEN
            + self.deth.map_or(0, |_| Deth::LEN)
            + self.reth.map_or(0, |_| Reth::LEN)
            + self.aeth.map_or(0, |_| Aeth::LEN)
            + self.immediate.map_or(0, |_| 4)
            + self.invalidate.map_or(0, |_| 4)
    }
}
