//! Send queue entries (data-path 1.4 to 1.8).

use super::bits::{bit, bits, bits32, mask};
use super::fragment::{Fragments, MOST_USED};
use super::inline::{InlineData, MAX_INLINE};
use super::operation::{Operation, Payload, Remote, UdTarget};
use super::{Lints, MAX_QUANTA, QUANTUM_WORDS, WqeError};

/// Opcodes of data-path 1.5.
mod opcode {
    pub(super) const RDMA_WRITE: u8 = 0x00;
    pub(super) const RDMA_READ: u8 = 0x01;
    pub(super) const RDMA_SEND: u8 = 0x03;
    pub(super) const RDMA_SEND_INV: u8 = 0x04;
    pub(super) const RDMA_SEND_SOL_EVENT: u8 = 0x05;
    pub(super) const RDMA_SEND_SOL_EVENT_INV: u8 = 0x06;
    pub(super) const BIND_MW: u8 = 0x08;
    pub(super) const FAST_REGISTER: u8 = 0x09;
    pub(super) const LOCAL_INVALIDATE: u8 = 0x0a;
    pub(super) const RDMA_READ_LOC_INV: u8 = 0x0b;
    pub(super) const NOP: u8 = 0x0c;
    pub(super) const RDMA_WRITE_SOL: u8 = 0x0d;
    pub(super) const GEN_RTS_AE: u8 = 0x30;
}

/// Transport service of the QP. It decides what word 2 and the low header half of a send mean.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// RoCE RC (QP type 3).
    Connected,
    /// RoCE UD (QP type 4).
    Datagram,
}

/// A decoded send queue entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendWqe {
    /// Opcode as in the entry; the completion returns it.
    pub opcode: u8,
    /// Length in quanta, 1 to 8.
    pub quanta: u8,
    /// SIGCOMPL: a success completion is requested.
    pub signaled: bool,
    /// LOCALFENCE: starts when everything before it has completed.
    pub local_fence: bool,
    /// READFENCE: starts when all reads before it have completed.
    pub read_fence: bool,
    /// REPORTRTT.
    pub report_rtt: bool,
    pub operation: Operation,
    /// Ignored bits that software set.
    pub lints: Lints,
}

/// True if a header word carries the valid bit of the lap.
#[must_use]
pub fn is_valid(header: u64, polarity: bool) -> bool {
    bit(header, 63) == polarity
}

/// Quanta of the send entry with this header word (which must be valid).
///
/// # Errors
/// [`WqeError::UnknownOpcode`], [`WqeError::InlineTooLong`], [`WqeError::TooManyFragments`].
pub fn send_quanta(header: u64) -> Result<u8, WqeError> {
    let header = Header(header);
    let quanta = match header.opcode() {
        opcode::RDMA_WRITE
        | opcode::RDMA_WRITE_SOL
        | opcode::RDMA_SEND
        | opcode::RDMA_SEND_INV
        | opcode::RDMA_SEND_SOL_EVENT
        | opcode::RDMA_SEND_SOL_EVENT_INV
            if header.inline() =>
        {
            let len = header.inline_len();
            if usize::from(len) > MAX_INLINE {
                return Err(WqeError::InlineTooLong(len));
            }
            InlineData::quanta(len)
        }
        opcode::RDMA_WRITE
        | opcode::RDMA_WRITE_SOL
        | opcode::RDMA_SEND
        | opcode::RDMA_SEND_INV
        | opcode::RDMA_SEND_SOL_EVENT
        | opcode::RDMA_SEND_SOL_EVENT_INV
        | opcode::RDMA_READ
        | opcode::RDMA_READ_LOC_INV => {
            let count = header.add_fragments();
            let quanta = Fragments::quanta(count);
            if quanta > MAX_QUANTA {
                return Err(WqeError::TooManyFragments {
                    count,
                    quanta: MAX_QUANTA as u8,
                });
            }
            quanta
        }
        opcode::BIND_MW
        | opcode::FAST_REGISTER
        | opcode::LOCAL_INVALIDATE
        | opcode::NOP
        | opcode::GEN_RTS_AE => 1,
        other => return Err(WqeError::UnknownOpcode(other)),
    };
    // At most eight.
    Ok(quanta as u8)
}

/// The header word (word 3) of data-path 1.4.
#[derive(Copy, Clone)]
struct Header(u64);

impl Header {
    /// Bits that every operation has: VALID, SIGCOMPL, LOCALFENCE, READFENCE, PUSHWQE (reported
    /// separately), OPCODE.
    const COMMON: u64 = mask(63, 60) | mask(56, 56) | mask(37, 32);
    /// STREAMMODE and WAITFORRCVPDU.
    const IWARP: u64 = mask(59, 58);

    fn opcode(self) -> u8 {
        bits(self.0, 37, 32) as u8
    }
    fn inline(self) -> bool {
        bit(self.0, 57)
    }
    fn inline_len(self) -> u8 {
        bits(self.0, 55, 48) as u8
    }
    fn immediate(self) -> bool {
        bit(self.0, 47)
    }
    fn add_fragments(self) -> u8 {
        bits(self.0, 41, 38) as u8
    }
    fn stag(self) -> u32 {
        bits32(self.0, 31, 0)
    }

    /// Lints for bits outside `defined` and the common ones.
    fn lint(self, defined: u64) -> Lints {
        let mut lints = Lints::empty();
        lints.add_if(self.0 & Self::IWARP != 0, Lints::IWARP);
        lints.add_if(
            self.0 & !(Self::COMMON | Self::IWARP | defined) != 0,
            Lints::HEADER,
        );
        lints.add_if(bit(self.0, 56), Lints::PUSH);
        lints
    }
}

impl SendWqe {
    /// Decodes the words of one entry whose header is valid. Words behind the entry are ignored.
    ///
    /// `polarity` is the valid bit of the current lap.
    ///
    /// # Errors
    /// Those of [`send_quanta`], [`WqeError::Short`], and [`WqeError::FragmentNotValid`] or
    /// [`WqeError::InlineNotValid`] for a valid bit of another lap inside the entry.
    pub fn decode(words: &[u64], polarity: bool, service: Service) -> Result<Self, WqeError> {
        let header = words.get(3).copied().ok_or(WqeError::Short {
            given: words.len(),
            needed: QUANTUM_WORDS,
        })?;
        let quanta = send_quanta(header)?;
        let needed = usize::from(quanta) * QUANTUM_WORDS;
        let words = words.get(..needed).ok_or(WqeError::Short {
            given: words.len(),
            needed,
        })?;
        let entry = Entry {
            words,
            header: Header(header),
            polarity,
        };
        let (operation, lints) = entry.operation(service)?;
        Ok(Self {
            opcode: entry.header.opcode(),
            quanta,
            signaled: bit(header, 62),
            local_fence: bit(header, 61),
            read_fence: bit(header, 60),
            report_rtt: entry.moves_data() && bit(header, 46),
            operation,
            lints,
        })
    }
}

/// The words of one entry.
struct Entry<'a> {
    words: &'a [u64],
    header: Header,
    polarity: bool,
}

impl Entry<'_> {
    fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or_default()
    }

    fn moves_data(&self) -> bool {
        matches!(
            self.header.opcode(),
            0x00..=0x06 | opcode::RDMA_READ_LOC_INV | opcode::RDMA_WRITE_SOL
        )
    }

    fn operation(&self, service: Service) -> Result<(Operation, Lints), WqeError> {
        let header = self.header;
        match header.opcode() {
            code @ (opcode::RDMA_SEND | opcode::RDMA_SEND_SOL_EVENT) => {
                self.send(code == opcode::RDMA_SEND_SOL_EVENT, false, service)
            }
            code @ (opcode::RDMA_SEND_INV | opcode::RDMA_SEND_SOL_EVENT_INV) => {
                self.send(code == opcode::RDMA_SEND_SOL_EVENT_INV, true, service)
            }
            code @ (opcode::RDMA_WRITE | opcode::RDMA_WRITE_SOL) => {
                let (payload, immediate, lints) = self.payload(mask(31, 0))?;
                let solicited = code == opcode::RDMA_WRITE_SOL;
                Ok((
                    Operation::Write {
                        payload,
                        remote: self.remote(),
                        immediate,
                        solicited,
                    },
                    lints,
                ))
            }
            code @ (opcode::RDMA_READ | opcode::RDMA_READ_LOC_INV) => {
                let mut lints = header.lint(mask(46, 46) | mask(41, 38) | mask(31, 0));
                let sink = self.fragments(false, &mut lints)?;
                let invalidate_sink = code == opcode::RDMA_READ_LOC_INV;
                Ok((
                    Operation::Read {
                        sink,
                        remote: self.remote(),
                        invalidate_sink,
                    },
                    lints,
                ))
            }
            opcode::LOCAL_INVALIDATE => {
                let mut lints = header.lint(0);
                lints.add_if(self.word(0) != 0 || self.word(1) >> 32 != 0, Lints::BODY);
                lints.add_if(self.word(2) != 0, Lints::WORD2);
                Ok((
                    Operation::LocalInvalidate {
                        stag: bits32(self.word(1), 31, 0),
                    },
                    lints,
                ))
            }
            opcode::BIND_MW => Ok(self.bind()),
            opcode::FAST_REGISTER => Ok(self.fast_register()),
            code @ (opcode::NOP | opcode::GEN_RTS_AE) => {
                let mut lints = header.lint(0);
                lints.add_if(self.word(0) != 0 || self.word(1) != 0, Lints::BODY);
                lints.add_if(self.word(2) != 0, Lints::WORD2);
                let operation = if code == opcode::NOP {
                    Operation::Nop
                } else {
                    Operation::GenerateRtsAe
                };
                Ok((operation, lints))
            }
            other => Err(WqeError::UnknownOpcode(other)),
        }
    }

    fn send(
        &self,
        solicited: bool,
        invalidates: bool,
        service: Service,
    ) -> Result<(Operation, Lints), WqeError> {
        let low = match (invalidates, service) {
            (true, _) => mask(31, 0),
            // AH index, and L4LEN of raw UDA sends.
            (false, Service::Datagram) => mask(24, 0) | mask(45, 42),
            (false, Service::Connected) => 0,
        };
        let (payload, immediate, mut lints) = self.payload(low)?;
        let word2 = self.word(2);
        let ud = match service {
            Service::Datagram => {
                lints.add_if(word2 >> 56 != 0, Lints::WORD2);
                UdTarget {
                    qpn: bits32(word2, 55, 32),
                    qkey: bits32(word2, 31, 0),
                    ah: bits32(self.header.0, 24, 0),
                }
            }
            Service::Connected => {
                lints.add_if(word2 != 0, Lints::WORD2);
                UdTarget::default()
            }
        };
        let invalidate = invalidates.then(|| self.header.stag());
        Ok((
            Operation::Send {
                payload,
                immediate,
                invalidate,
                solicited,
                ud,
            },
            lints,
        ))
    }

    /// Payload and immediate of a send or write; `low` has the header bits that only this operation
    /// defines.
    fn payload(&self, low: u64) -> Result<(Payload, Option<u32>, Lints), WqeError> {
        let header = self.header;
        let defined = low | mask(57, 57) | mask(47, 46);
        let mut lints;
        let payload = if header.inline() {
            lints = header.lint(defined | mask(55, 48));
            let len = header.inline_len();
            let data = InlineData::decode(self.words, len, self.polarity, &mut lints)?;
            Payload::Inline(Box::new(data))
        } else {
            lints = header.lint(defined | mask(41, 38));
            Payload::Fragments(self.fragments(header.immediate(), &mut lints)?)
        };
        let immediate = header.immediate().then(|| bits32(self.word(0), 31, 0));
        lints.add_if(
            immediate.is_some() && self.word(0) >> 32 != 0,
            Lints::IMMEDIATE,
        );
        Ok((payload, immediate, lints))
    }

    fn fragments(&self, skip_first: bool, lints: &mut Lints) -> Result<Fragments, WqeError> {
        let count = self.header.add_fragments();
        lints.add_if(!count.is_multiple_of(2), Lints::ODD_FRAGMENTS);
        let fragments = Fragments::decode(self.words, count, skip_first, self.polarity)?;
        lints.add_if(fragments.as_slice().len() > MOST_USED, Lints::FRAGMENTS);
        Ok(fragments)
    }

    fn remote(&self) -> Remote {
        Remote {
            addr: self.word(2),
            rkey: self.header.stag(),
        }
    }

    fn bind(&self) -> (Operation, Lints) {
        let header = self.header.0;
        let rights = bits(header, 52, 48) as u8;
        let mut lints = self.header.lint(mask(54, 48));
        // The builder sets remote read (bit 2) and remote write (bit 3) only.
        lints.add_if(rights & !0b1100 != 0, Lints::RESERVED_FIELD);
        let operation = Operation::BindWindow {
            addr: self.word(0),
            len: self.word(2),
            parent: bits32(self.word(1), 63, 32),
            window: bits32(self.word(1), 31, 0),
            rights,
            va_based: bit(header, 53),
            type1: bit(header, 54),
        };
        (operation, lints)
    }

    fn fast_register(&self) -> (Operation, Lints) {
        let header = self.header.0;
        let (word1, word2) = (self.word(1), self.word(2));
        let mut lints = self.header.lint(mask(53, 44) | mask(31, 0));
        lints.add_if(word1 >> 52 != 0, Lints::RESERVED_FIELD);
        lints.add_if(!bit(header, 61), Lints::UNFENCED);
        let operation = Operation::FastRegister {
            addr: self.word(0),
            len: bits(word2, 47, 0),
            stag_index: bits32(header, 31, 8),
            stag_key: bits(header, 7, 0) as u8,
            rights: bits(header, 52, 48) as u8,
            va_based: bit(header, 53),
            pbl_level: bits(header, 45, 44) as u8,
            page_size: bits(header, 47, 46) as u8,
            page: word1 & mask(51, 12),
            pble: bits32(word1, 11, 0) << 16 | bits32(word2, 63, 48),
        };
        (operation, lints)
    }
}
