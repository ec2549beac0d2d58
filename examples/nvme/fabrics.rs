//! What NVMe over Fabrics adds: the private data of connections, Connect, and the controller's
//! registers as properties.

use core::fmt;

use super::bytes::{byte, double, field, put, text, word};
use super::capsule::{Command, command};

/// Opcode of all fabrics commands; the byte at [`KIND`] says which.
pub const OPCODE: u8 = 0x7f;
pub const KIND: usize = 4;
pub const PROPERTY_SET: u8 = 0x00;
pub const CONNECT: u8 = 0x01;
pub const PROPERTY_GET: u8 = 0x04;

/// Offsets of registers.
pub const CAP: u32 = 0x00;
pub const VS: u32 = 0x08;
pub const CC: u32 = 0x14;
pub const CSTS: u32 = 0x1c;
/// CC: enable; a shutdown, without a hurry; entries of 2^6 and 2^4 bytes.
pub const CC_ENABLE: u32 = 1;
pub const CC_SHUTDOWN: u32 = 1 << 14;
pub const CC_ENTRIES: u32 = 0x46 << 16;
/// CSTS: ready, failed, shut down (of the bits 3:2).
pub const CSTS_READY: u32 = 1;
pub const CSTS_FAILED: u32 = 1 << 1;
pub const CSTS_SHUT_DOWN: u32 = 2 << 2;

/// Entries of an admin queue: as few as the standard allows, and as many as Linux takes.
pub const ADMIN_DEPTH: u16 = 32;
/// Bytes of Connect's data.
pub const CONNECT_DATA: usize = 1024;
/// The controller that an admin queue asks for: any.
pub const ANY: u16 = u16::MAX;

/// A host's private data in a connection request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// 0 for an admin queue.
    pub id: u16,
    /// Responses that the host has room for (HRQSIZE).
    pub receives: u16,
    /// Commands that the host may send (HSQSIZE), less one.
    pub sends: u16,
}

impl Request {
    pub const BYTES: usize = 32;

    pub fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (at, number) in [(2, self.id), (4, self.receives), (6, self.sends)] {
            put(&mut bytes, at, &number.to_le_bytes());
        }
        bytes
    }

    /// # Errors
    /// Too few bytes, or of another format.
    pub fn of(bytes: &[u8]) -> Result<Self, Rejection> {
        let [format, id, receives, sends] = [0, 2, 4, 6].map(|at| word(bytes, at));
        match (bytes.len() >= Self::BYTES, format) {
            (false, _) => Err(Rejection::LENGTH),
            (true, 0) => Ok(Self { id, receives, sends }),
            (true, _) => Err(Rejection::FORMAT),
        }
    }
}

/// A target's private data when it accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Commands that the target has room for (CRQSIZE).
    pub receives: u16,
}

impl Reply {
    pub const BYTES: usize = 32;

    pub fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 2, &self.receives.to_le_bytes());
        bytes
    }

    /// `None` for too few bytes, and for another format.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let is_reply = bytes.len() >= Self::BYTES && word(bytes, 0) == 0;
        is_reply.then(|| Self { receives: word(bytes, 2) })
    }
}

/// A target's private data when it rejects, for the reason "consumer defined".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rejection(pub u16);

impl Rejection {
    pub const BYTES: usize = 4;
    pub const LENGTH: Self = Self(1);
    pub const FORMAT: Self = Self(2);
    pub const QUEUE: Self = Self(3);
    pub const SENDS: Self = Self(4);
    pub const RECEIVES: Self = Self(5);
    pub const NO_RESOURCES: Self = Self(6);

    pub fn bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 2, &self.0.to_le_bytes());
        bytes
    }

    /// `None` for too few bytes, for another format, and without a status.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let is_rejection = bytes.len() >= Self::BYTES && word(bytes, 0) == 0;
        is_rejection.then(|| Self(word(bytes, 2))).filter(|&Self(status)| status != 0)
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match *self {
            Self::LENGTH => "the private data is too short",
            Self::FORMAT => "the private data has another format",
            Self::QUEUE => "there is no such queue",
            Self::SENDS => "so many commands cannot be sent",
            Self::RECEIVES => "so few responses cannot be received",
            Self::NO_RESOURCES => "there is no room for a connection",
            Self(7 | 8) => "the numbers of RDMA READs are not taken",
            _ => "no reason with a name",
        };
        write!(f, "status {}, {text}", self.0)
    }
}

/// Connect: its command, without the descriptor, and its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connect<'a> {
    /// Of the command's fields and of the data; 0 is the only one.
    pub format: u16,
    pub queue: u16,
    /// Entries of the queue, less one.
    pub size: u16,
    /// Responses need not say which commands have left the queue.
    pub no_flow: bool,
    /// Timeout in ms; 0 is none.
    pub keep_alive: u32,
    pub host_id: [u8; 16],
    /// The controller's id; [`ANY`] for an admin queue.
    pub controller: u16,
    /// Names (NQN) of at most 223 bytes.
    pub subsystem: &'a [u8],
    pub host: &'a [u8],
}

impl<'a> Connect<'a> {
    /// Where the command and the data have what a target refuses.
    pub const QUEUE_AT: u64 = 42;
    pub const SIZE_AT: u64 = 44;
    pub const CONTROLLER_AT: u64 = 16;
    pub const SUBSYSTEM_AT: u64 = 256;

    /// `None` if the data has another length.
    pub fn of(command: &Command, data: &'a [u8]) -> Option<Self> {
        let name = |at: usize| text(data.get(at..at + 256).unwrap_or_default());
        (data.len() == CONNECT_DATA).then(|| Self {
            format: word(command, 40),
            queue: word(command, 42),
            size: word(command, 44),
            no_flow: byte(command, 46) & 1 << 2 != 0,
            keep_alive: double(command, 48),
            host_id: field(data, 0),
            controller: word(data, 16),
            subsystem: name(256),
            host: name(512),
        })
    }

    pub fn command(&self) -> Command {
        let mut command = command(OPCODE);
        put(&mut command, KIND, &[CONNECT]);
        for (at, number) in [(40, self.format), (42, self.queue), (44, self.size)] {
            put(&mut command, at, &number.to_le_bytes());
        }
        put(&mut command, 46, &[u8::from(self.no_flow) << 2]);
        put(&mut command, 48, &self.keep_alive.to_le_bytes());
        command
    }

    pub fn data(&self) -> [u8; CONNECT_DATA] {
        let mut data = [0; CONNECT_DATA];
        put(&mut data, 0, &self.host_id);
        put(&mut data, 16, &self.controller.to_le_bytes());
        put(&mut data, 256, self.subsystem);
        put(&mut data, 512, self.host);
        data
    }
}

/// Property Get and Property Set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Property {
    pub register: u32,
    /// It is a register of eight bytes.
    pub is_long: bool,
    /// What is set; nothing to get it.
    pub value: Option<u32>,
}

impl Property {
    /// `None` for another command of fabrics.
    pub fn of(command: &Command) -> Option<Self> {
        let value = match byte(command, KIND) {
            PROPERTY_GET => None,
            PROPERTY_SET => Some(double(command, 48)),
            _ => return None,
        };
        Some(Self { register: double(command, 44), is_long: byte(command, 40) & 7 == 1, value })
    }

    pub fn command(self) -> Command {
        let mut command = command(OPCODE);
        let kind = if self.value.is_some() { PROPERTY_SET } else { PROPERTY_GET };
        put(&mut command, KIND, &[kind]);
        put(&mut command, 40, &[u8::from(self.is_long)]);
        put(&mut command, 44, &self.register.to_le_bytes());
        put(&mut command, 48, &self.value.unwrap_or(0).to_le_bytes());
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_data_comes_back() {
        let request = Request { id: 1, receives: 32, sends: 31 };
        let bytes = request.bytes();
        assert_eq!(bytes[..8], [0, 0, 1, 0, 32, 0, 31, 0]);
        assert_eq!(Request::of(&bytes), Ok(request));
        assert_eq!(Request::of(&bytes[..31]), Err(Rejection::LENGTH));
        assert_eq!(Request::of(&[1; 32]), Err(Rejection::FORMAT));
        let reply = Reply { receives: 0x1234 };
        assert_eq!(Reply::of(&reply.bytes()), Some(reply));
        assert_eq!([Reply::of(&[0; 31]), Reply::of(&[1; 32])], [None; 2]);
        assert_eq!(Rejection::SENDS.bytes(), [0, 0, 4, 0]);
        assert_eq!(Rejection::of(&[0, 0, 4, 0, 0]), Some(Rejection::SENDS));
        assert_eq!([&[0, 0, 4][..], &[1; 4], &[0; 4]].map(Rejection::of), [None; 3]);
    }

    #[test]
    fn commands_come_back() {
        let connect = Connect {
            format: 0,
            queue: 1,
            size: 31,
            no_flow: true,
            keep_alive: 5000,
            host_id: [7; 16],
            controller: 3,
            subsystem: b"nqn.a",
            host: b"nqn.b",
        };
        let (command, data) = (connect.command(), connect.data());
        assert_eq!(command[..5], [0x7f, 0x40, 0, 0, 1]);
        assert_eq!(command[40..48], [0, 0, 1, 0, 31, 0, 4, 0]);
        assert_eq!(Connect::of(&command, &data), Some(connect));
        assert_eq!(Connect::of(&command, &data[1..]), None);
        let properties = [
            Property { register: CAP, is_long: true, value: None },
            Property { register: CSTS, is_long: false, value: None },
            Property { register: CC, is_long: false, value: Some(0x46_0001) },
        ];
        for property in properties {
            assert_eq!(Property::of(&property.command()), Some(property));
        }
        assert_eq!(Property::of(&command), None);
    }
}
