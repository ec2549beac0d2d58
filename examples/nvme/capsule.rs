//! A capsule: a command of 64 bytes, which data may follow, and the response of 16 bytes.

use core::fmt;

use super::bytes::{byte, double, put, quad, word};

/// A command.
pub type Command = [u8; 64];

/// Bytes of a response.
pub const RESPONSE: usize = 16;

/// Opcodes of an admin queue.
pub mod admin {
    pub const LOG: u8 = 0x02;
    pub const IDENTIFY: u8 = 0x06;
    pub const ABORT: u8 = 0x08;
    pub const SET_FEATURES: u8 = 0x09;
    pub const GET_FEATURES: u8 = 0x0a;
    pub const EVENT: u8 = 0x0c;
    pub const KEEP_ALIVE: u8 = 0x18;
}

/// Opcodes of an I/O queue.
pub mod io {
    pub const FLUSH: u8 = 0x00;
    pub const WRITE: u8 = 0x01;
    pub const READ: u8 = 0x02;
}

/// A command without fields; its descriptor says "no data".
pub fn command(opcode: u8) -> Command {
    let mut command = [0; 64];
    // An SGL names the data: fabrics have no PRPs.
    put(&mut command, 0, &[opcode, 1 << 6]);
    Sgl::Keyed { memory: HostMemory::default(), invalidate: false }.put(&mut command);
    command
}

/// Memory of the host, which the target reads or writes by RDMA.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostMemory {
    pub address: u64,
    /// Less than 2^24.
    pub length: u32,
    pub key: u32,
}

/// A command's SGL descriptor: where its data is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sgl {
    /// A data block, at this offset behind the command.
    Capsule { offset: u64, length: u32 },
    /// A keyed data block. The response may invalidate the key.
    Keyed { memory: HostMemory, invalidate: bool },
}

impl Sgl {
    /// The descriptor of a command, if it is one of these.
    pub fn of(command: &Command) -> Option<Self> {
        let (address, length, key) = (quad(command, 24), double(command, 32), double(command, 35));
        let memory = HostMemory { address, length: length & 0xff_ffff, key };
        match byte(command, 39) {
            0x01 => Some(Self::Capsule { offset: address, length }),
            0x40 => Some(Self::Keyed { memory, invalidate: false }),
            0x4f => Some(Self::Keyed { memory, invalidate: true }),
            _ => None,
        }
    }

    /// Writes it into a command.
    pub fn put(self, command: &mut Command) {
        let (kind, address) = match self {
            Self::Capsule { offset, length } => {
                put(command, 32, &length.to_le_bytes());
                (0x01, offset)
            }
            Self::Keyed { memory, invalidate } => {
                // 24 bits of length, then the key.
                put(command, 32, &memory.length.to_le_bytes());
                put(command, 35, &memory.key.to_le_bytes());
                (if invalidate { 0x4f } else { 0x40 }, memory.address)
            }
        };
        put(command, 24, &address.to_le_bytes());
        put(command, 39, &[kind]);
    }
}

/// What a command fails with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Status code in the bits 7:0, its type in 10:8, "do not retry" in 14.
    pub status: u16,
    pub result: u64,
}

impl Refused {
    pub const OPCODE: Self = Self::for_good(0x001);
    pub const FIELD: Self = Self::for_good(0x002);
    pub const NAMESPACE: Self = Self::for_good(0x00b);
    pub const SEQUENCE: Self = Self::for_good(0x00c);
    /// The descriptor has another length than the command's data.
    pub const SGL_LENGTH: Self = Self::for_good(0x00f);
    pub const SGL_TYPE: Self = Self::for_good(0x011);
    pub const SGL_OFFSET: Self = Self::for_good(0x016);
    pub const KEEP_ALIVE: Self = Self::for_good(0x01a);
    pub const RANGE: Self = Self::for_good(0x080);
    pub const EVENTS: Self = Self::for_good(0x105);
    pub const LOG_PAGE: Self = Self::for_good(0x109);
    pub const CONNECT_FORMAT: Self = Self::for_good(0x180);
    /// All controllers are taken. The host may try again.
    pub const CONNECT_BUSY: Self = Self { status: 0x181, result: 0 };

    const fn for_good(code: u16) -> Self {
        Self { status: code | 1 << 14, result: 0 }
    }

    /// Connect has a wrong field at this byte of the command.
    pub const fn connect_command(at: u64) -> Self {
        Self { result: at, ..Self::for_good(0x182) }
    }

    /// Connect has a wrong field at this byte of its data.
    pub const fn connect_data(at: u64) -> Self {
        Self::connect_command(at | 1 << 16)
    }

    fn text(self) -> &'static str {
        match self.status & 0x7ff {
            0x001 => "no such opcode",
            0x002 => "a field is invalid",
            0x006 => "an internal error",
            0x00b => "no such namespace",
            0x00c => "not in this order",
            0x00f => "the length of the data is wrong",
            0x011 => "this kind of descriptor is not taken",
            0x080 => "blocks outside of the namespace",
            0x181 => "the controller is busy",
            0x182 => "a field of Connect is invalid",
            0x184 => "this host may not connect",
            0x191 => "authentication is required",
            0x281 => "the blocks cannot be read",
            _ => "see the table of status codes",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.status & 0x7ff;
        write!(f, "status {code:#x}, {}", self.text())?;
        match (code, self.result & 1 << 16) {
            (0x182, 0) => write!(f, " (at byte {} of the command)", self.result),
            (0x182, _) => write!(f, " (at byte {} of the data)", self.result & 0xffff),
            _ => Ok(()),
        }
    }
}

/// A response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response {
    /// The command's id, as the host chose it.
    pub command: u16,
    pub outcome: Result<u64, Refused>,
    /// The SEND may invalidate this key of the host. Linux does that itself after a plain SEND.
    pub invalidate: Option<u32>,
}

impl Response {
    /// Its bytes, with the head of the queue of commands.
    pub fn bytes(&self, head: u16) -> [u8; RESPONSE] {
        let done = |result| Refused { status: 0, result };
        let Refused { status, result } = self.outcome.map_or_else(|refused| refused, done);
        let mut bytes = [0; RESPONSE];
        put(&mut bytes, 0, &result.to_le_bytes());
        put(&mut bytes, 8, &head.to_le_bytes());
        put(&mut bytes, 12, &self.command.to_le_bytes());
        // Bit 0 is the phase tag of queues in memory.
        put(&mut bytes, 14, &(status << 1).to_le_bytes());
        bytes
    }

    /// The response that these bytes are.
    pub fn of(bytes: &[u8; RESPONSE]) -> Self {
        let (status, result) = (word(bytes, 14) >> 1, quad(bytes, 0));
        let outcome = if status == 0 { Ok(result) } else { Err(Refused { status, result }) };
        Self { command: word(bytes, 12), outcome, invalidate: None }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn descriptors_and_responses_come_back() {
        let memory =
            HostMemory { address: 0x1122_3344_5566_7788, length: 0xab_cdef, key: 0x0a0b_0c0d };
        let sgls = [
            Sgl::Keyed { memory, invalidate: false },
            Sgl::Keyed { memory, invalidate: true },
            Sgl::Capsule { offset: 7, length: u32::MAX },
        ];
        for sgl in sgls {
            let mut command = command(io::READ);
            sgl.put(&mut command);
            assert_eq!(Sgl::of(&command), Some(sgl));
        }
        let mut keyed = command(admin::IDENTIFY);
        sgls[0].put(&mut keyed);
        assert_eq!(keyed[..2], [0x06, 0x40]);
        assert_eq!(keyed[24..32], 0x1122_3344_5566_7788_u64.to_le_bytes());
        assert_eq!(keyed[32..40], [0xef, 0xcd, 0xab, 0x0d, 0x0c, 0x0b, 0x0a, 0x40]);
        let outcomes = [Ok(0), Ok(u64::MAX), Err(Refused::connect_data(256)), Err(Refused::RANGE)];
        for outcome in outcomes {
            let response = Response { command: 0x1234, outcome, invalidate: None };
            assert_eq!(Response::of(&response.bytes(9)), response);
        }
        let texts = [Refused::connect_data(256), Refused::RANGE].map(|refused| refused.to_string());
        assert_eq!(
            texts[0],
            "status 0x182, a field of Connect is invalid (at byte 256 of the data)"
        );
        assert_eq!(texts[1], "status 0x80, blocks outside of the namespace");
    }
}
