//! BTH opcodes and what each one carries.

use core::fmt;

/// The 8-bit opcode of the BTH. Unknown values are kept as they are.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
pub struct Opcode(pub u8);

/// What a reliable-connection packet does.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Part of a SEND (with immediate and invalidate forms).
    Send,
    /// Part of an RDMA WRITE (with the immediate form).
    Write,
    /// An RDMA READ request.
    ReadRequest,
    /// Part of an RDMA READ response.
    ReadResponse,
    /// An acknowledge or a NAK.
    Acknowledge,
    /// An atomic request; GEN_2 has no atomics (data-path 1.5), so a responder refuses it.
    AtomicRequest,
    /// An atomic response; never expected on GEN_2.
    AtomicResponse,
}

/// Place of a packet in its message.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// First of several packets.
    First,
    /// Neither first nor last.
    Middle,
    /// Last of several packets.
    Last,
    /// The whole message.
    Only,
}

impl Place {
    /// True for the packet that opens a message.
    #[must_use]
    pub fn opens(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// True for the packet that ends a message.
    #[must_use]
    pub fn ends(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }

    /// The place of a packet that opens and/or ends its message.
    #[must_use]
    pub fn of(opens: bool, ends: bool) -> Self {
        match (opens, ends) {
            (true, true) => Self::Only,
            (true, false) => Self::First,
            (false, true) => Self::Last,
            (false, false) => Self::Middle,
        }
    }
}

macro_rules! opcodes {
    ($($name:ident = $value:literal, $doc:literal;)*) => {
        impl Opcode {
            $(#[doc = $doc] pub const $name: Self = Self($value);)*

            /// The name of a known opcode.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

opcodes! {
    SEND_FIRST = 0x00, "RC SEND, first packet.";
    SEND_MIDDLE = 0x01, "RC SEND, middle packet.";
    SEND_LAST = 0x02, "RC SEND, last packet.";
    SEND_LAST_IMM = 0x03, "RC SEND with immediate, last packet.";
    SEND_ONLY = 0x04, "RC SEND, only packet.";
    SEND_ONLY_IMM = 0x05, "RC SEND with immediate, only packet.";
    WRITE_FIRST = 0x06, "RC RDMA WRITE, first packet.";
    WRITE_MIDDLE = 0x07, "RC RDMA WRITE, middle packet.";
    WRITE_LAST = 0x08, "RC RDMA WRITE, last packet.";
    WRITE_LAST_IMM = 0x09, "RC RDMA WRITE with immediate, last packet.";
    WRITE_ONLY = 0x0a, "RC RDMA WRITE, only packet.";
    WRITE_ONLY_IMM = 0x0b, "RC RDMA WRITE with immediate, only packet.";
    READ_REQUEST = 0x0c, "RC RDMA READ request.";
    READ_RESPONSE_FIRST = 0x0d, "RC RDMA READ response, first packet.";
    READ_RESPONSE_MIDDLE = 0x0e, "RC RDMA READ response, middle packet.";
    READ_RESPONSE_LAST = 0x0f, "RC RDMA READ response, last packet.";
    READ_RESPONSE_ONLY = 0x10, "RC RDMA READ response, only packet.";
    ACKNOWLEDGE = 0x11, "RC acknowledge (or NAK, told by the syndrome).";
    ATOMIC_ACKNOWLEDGE = 0x12, "RC atomic acknowledge (not GEN_2).";
    COMPARE_SWAP = 0x13, "RC compare and swap (not GEN_2).";
    FETCH_ADD = 0x14, "RC fetch and add (not GEN_2).";
    SEND_LAST_INV = 0x16, "RC SEND with invalidate, last packet.";
    SEND_ONLY_INV = 0x17, "RC SEND with invalidate, only packet.";
    UD_SEND_ONLY = 0x64, "UD SEND.";
    UD_SEND_ONLY_IMM = 0x65, "UD SEND with immediate.";
    CNP = 0x81, "Congestion notification packet.";
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#04x} {}", self.0, self.name().unwrap_or("unknown"))
    }
}

impl Opcode {
    /// What an RC packet with this opcode does, and its place in the message; `None` for other
    /// opcodes.
    #[must_use]
    pub fn rc(self) -> Option<(Verb, Place)> {
        Some(match self {
            Self::SEND_FIRST => (Verb::Send, Place::First),
            Self::SEND_MIDDLE => (Verb::Send, Place::Middle),
            Self::SEND_LAST | Self::SEND_LAST_IMM | Self::SEND_LAST_INV => {
                (Verb::Send, Place::Last)
            }
            Self::SEND_ONLY | Self::SEND_ONLY_IMM | Self::SEND_ONLY_INV => {
                (Verb::Send, Place::Only)
            }
            Self::WRITE_FIRST => (Verb::Write, Place::First),
            Self::WRITE_MIDDLE => (Verb::Write, Place::Middle),
            Self::WRITE_LAST | Self::WRITE_LAST_IMM => (Verb::Write, Place::Last),
            Self::WRITE_ONLY | Self::WRITE_ONLY_IMM => (Verb::Write, Place::Only),
            Self::READ_REQUEST => (Verb::ReadRequest, Place::Only),
            Self::READ_RESPONSE_FIRST => (Verb::ReadResponse, Place::First),
            Self::READ_RESPONSE_MIDDLE => (Verb::ReadResponse, Place::Middle),
            Self::READ_RESPONSE_LAST => (Verb::ReadResponse, Place::Last),
            Self::READ_RESPONSE_ONLY => (Verb::ReadResponse, Place::Only),
            Self::ACKNOWLEDGE => (Verb::Acknowledge, Place::Only),
            Self::ATOMIC_ACKNOWLEDGE => (Verb::AtomicResponse, Place::Only),
            Self::COMPARE_SWAP | Self::FETCH_ADD => (Verb::AtomicRequest, Place::Only),
            _ => return None,
        })
    }

    /// True if the transport service of the opcode (its top three bits) is reliable connection.
    #[must_use]
    pub fn is_reliable_connection(self) -> bool {
        self.0 >> 5 == 0
    }

    /// Carries a DETH (UD).
    #[must_use]
    pub const fn has_deth(self) -> bool {
        matches!(self, Self::UD_SEND_ONLY | Self::UD_SEND_ONLY_IMM)
    }

    /// Carries a RETH.
    #[must_use]
    pub const fn has_reth(self) -> bool {
        matches!(
            self,
            Self::WRITE_FIRST | Self::WRITE_ONLY | Self::WRITE_ONLY_IMM | Self::READ_REQUEST
        )
    }

    /// Carries an AETH.
    #[must_use]
    pub const fn has_aeth(self) -> bool {
        matches!(
            self,
            Self::READ_RESPONSE_FIRST
                | Self::READ_RESPONSE_LAST
                | Self::READ_RESPONSE_ONLY
                | Self::ACKNOWLEDGE
                | Self::ATOMIC_ACKNOWLEDGE
        )
    }

    /// Carries immediate data.
    #[must_use]
    pub const fn has_immediate(self) -> bool {
        matches!(
            self,
            Self::SEND_LAST_IMM
                | Self::SEND_ONLY_IMM
                | Self::WRITE_LAST_IMM
                | Self::WRITE_ONLY_IMM
                | Self::UD_SEND_ONLY_IMM
        )
    }

    /// Carries an IETH, the STag to invalidate.
    #[must_use]
    pub const fn has_ieth(self) -> bool {
        matches!(self, Self::SEND_LAST_INV | Self::SEND_ONLY_INV)
    }

    /// Headers after the base header, one bit each, in packet order.
    pub(super) fn headers(self) -> HeaderSet {
        HEADERS
            .get(usize::from(self.0))
            .copied()
            .unwrap_or_default()
    }

    /// Bytes of atomic headers, which are skipped: 28 for a request, 8 for a response.
    #[must_use]
    pub(super) const fn atomic_bytes(self) -> usize {
        match self {
            Self::COMPARE_SWAP | Self::FETCH_ADD => 28,
            Self::ATOMIC_ACKNOWLEDGE => 8,
            _ => 0,
        }
    }
}

/// A set of the headers that may follow the base header.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HeaderSet(u8);

impl HeaderSet {
    /// The headers of atomic operations, which `Headers` has no field for.
    pub(super) const ATOMIC: Self = Self(1 << 5);

    /// The set of the headers that are present.
    pub(super) const fn of([deth, reth, aeth, immediate, ieth]: [bool; 5]) -> Self {
        Self(
            deth as u8
                | (reth as u8) << 1
                | (aeth as u8) << 2
                | (immediate as u8) << 3
                | (ieth as u8) << 4,
        )
    }

    /// The headers except those of atomic operations.
    pub(super) const fn without_atomic(self) -> Self {
        Self(self.0 & !Self::ATOMIC.0)
    }

    /// True if there is none.
    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The headers of each opcode.
#[expect(clippy::indexing_slicing, reason = "evaluated when it is compiled")]
static HEADERS: [HeaderSet; 256] = {
    let mut table = [HeaderSet(0); 256];
    let mut code = 0;
    while code < table.len() {
        let opcode = Opcode(code as u8);
        let HeaderSet(set) = HeaderSet::of([
            opcode.has_deth(),
            opcode.has_reth(),
            opcode.has_aeth(),
            opcode.has_immediate(),
            opcode.has_ieth(),
        ]);
        let HeaderSet(atomic) = HeaderSet::ATOMIC;
        let atomic = if opcode.atomic_bytes() != 0 {
            atomic
        } else {
            0
        };
        table[code] = HeaderSet(set | atomic);
        code += 1;
    }
    table
};
