//! AdminQ descriptors, commands and replies (control-path 9.1).

use super::layout::{put, put_u16, put_u32, u16_at, u32_at};

/// Bytes of a descriptor.
pub(super) const LEN: usize = 32;
/// Offset of the 16 bytes of parameters.
const PARAMS: usize = 16;

/// Flags of a descriptor.
pub(super) mod flag {
    pub(in crate::fw) const DD: u16 = 1;
    pub(in crate::fw) const CMP: u16 = 1 << 1;
    pub(in crate::fw) const ERR: u16 = 1 << 2;
    pub(in crate::fw) const LB: u16 = 1 << 9;
    pub(in crate::fw) const RD: u16 = 1 << 10;
    pub(in crate::fw) const BUF: u16 = 1 << 12;
}

/// Buffers longer than this carry the LB flag.
pub(super) const LARGE: usize = 512;

/// Error codes of the firmware: the low byte of the reply's `retval` (control-path 9.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AqCode(pub u8);

impl AqCode {
    /// Success.
    pub const OK: Self = Self(0);
    /// Operation not permitted.
    pub const EPERM: Self = Self(1);
    /// No such element.
    pub const ENOENT: Self = Self(2);
    /// Bad opcode.
    pub const ESRCH: Self = Self(3);
    /// I/O error.
    pub const EIO: Self = Self(5);
    /// Try again.
    pub const EAGAIN: Self = Self(8);
    /// Out of memory, or the buffer is too small.
    pub const ENOMEM: Self = Self(9);
    /// Permission denied.
    pub const EACCES: Self = Self(10);
    /// Device or resource busy.
    pub const EBUSY: Self = Self(12);
    /// Object exists already.
    pub const EEXIST: Self = Self(13);
    /// Invalid argument.
    pub const EINVAL: Self = Self(14);
    /// No space left.
    pub const ENOSPC: Self = Self(16);
    /// Function not implemented.
    pub const ENOSYS: Self = Self(17);
    /// Not allowed in the device's present mode.
    pub const EMODE: Self = Self(21);
    /// No security manifest.
    pub const ENOSEC: Self = Self(24);
    /// Bad RSA signature.
    pub const EBADSIG: Self = Self(25);
    /// The SVN number prohibits this package.
    pub const ESVN: Self = Self(26);
    /// Manifest hash mismatch.
    pub const EBADMAN: Self = Self(27);
    /// A buffer's hash does not match the manifest.
    pub const EBADBUF: Self = Self(28);
}

/// A descriptor as it is in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Descriptor(pub(super) [u8; LEN]);

impl Descriptor {
    pub(super) fn flags(&self) -> u16 {
        u16_at(&self.0, 0)
    }

    pub(super) fn opcode(&self) -> u16 {
        u16_at(&self.0, 2)
    }

    pub(super) fn datalen(&self) -> usize {
        usize::from(u16_at(&self.0, 4))
    }

    pub(super) fn retval(&self) -> u16 {
        u16_at(&self.0, 6)
    }

    /// Address of the buffer.
    pub(super) fn buffer(&self) -> u64 {
        u64::from(u32_at(&self.0, 24)) << 32 | u64::from(u32_at(&self.0, 28))
    }

    pub(super) fn params(&self) -> [u8; 16] {
        let mut params = [0; 16];
        put(&mut params, 0, self.0.get(PARAMS..).unwrap_or_default());
        params
    }

    /// What the firmware writes back for a command.
    ///
    /// The parameters of a command with a buffer keep the buffer's address: only their first 8
    /// bytes belong to the reply.
    pub(super) fn complete(&mut self, reply: &Reply, datalen: Option<usize>) {
        let error = if reply.code == AqCode::OK {
            0
        } else {
            flag::ERR
        };
        let flags = self.flags() | flag::DD | flag::CMP | error;
        put_u16(&mut self.0, 0, flags);
        if let Some(datalen) = datalen {
            put_u16(&mut self.0, 4, datalen as u16);
        }
        put_u16(&mut self.0, 6, u16::from(reply.code.0));
        let kept = if self.flags() & flag::BUF == 0 { 16 } else { 8 };
        put(
            &mut self.0,
            PARAMS,
            reply.params.get(..kept).unwrap_or_default(),
        );
    }

    /// An event in a descriptor that the driver posted: the buffer's address stays.
    pub(super) fn event(&mut self, event: &Event) {
        let buffered = if event.data.is_empty() { 0 } else { flag::BUF };
        let large = if event.data.len() > LARGE {
            flag::LB
        } else {
            0
        };
        put_u16(&mut self.0, 0, flag::DD | flag::CMP | buffered | large);
        put_u16(&mut self.0, 2, event.opcode);
        put_u16(&mut self.0, 4, event.data.len() as u16);
        put_u16(&mut self.0, 6, 0);
        put_u32(&mut self.0, 8, 0);
        put_u32(&mut self.0, 12, 0);
        put(&mut self.0, PARAMS, &event.params);
    }
}

/// A command as its handler sees it.
#[derive(Clone, Debug)]
pub(super) struct Command {
    pub(super) opcode: u16,
    pub(super) params: [u8; 16],
    /// Bytes of the reply buffer, if the command has one.
    pub(super) room: usize,
    /// Contents of the buffer, if the command has RD set.
    pub(super) data: Vec<u8>,
    /// RD was set.
    pub(super) reads: bool,
}

impl Command {
    pub(super) fn param8(&self, at: usize) -> u8 {
        super::layout::u8_at(&self.params, at)
    }

    pub(super) fn param16(&self, at: usize) -> u16 {
        u16_at(&self.params, at)
    }

    pub(super) fn param32(&self, at: usize) -> u32 {
        u32_at(&self.params, at)
    }

    /// The buffer's contents, which must have at least `least` bytes. EINVAL otherwise, and without
    /// RD.
    pub(super) fn input(&self, least: usize) -> Result<&[u8], AqCode> {
        if self.reads && self.data.len() >= least {
            Ok(&self.data)
        } else {
            Err(AqCode::EINVAL)
        }
    }

    /// A successful reply that repeats the command's parameters.
    pub(super) fn done(&self) -> Reply {
        Reply {
            code: AqCode::OK,
            params: self.params,
            data: None,
        }
    }

    /// A reply with `data`; EINVAL when the command's buffer is too small for it.
    pub(super) fn answer(&self, data: Vec<u8>) -> Answer {
        if data.len() > self.room {
            return Err(AqCode::EINVAL);
        }
        Ok(Reply {
            data: Some(data),
            ..self.done()
        })
    }
}

/// The firmware's answer to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Reply {
    pub(super) code: AqCode,
    pub(super) params: [u8; 16],
    /// Data for the buffer; without it the buffer and `datalen` stay as they are.
    pub(super) data: Option<Vec<u8>>,
}

impl Reply {
    pub(super) fn put(mut self, at: usize, value: &[u8]) -> Self {
        put(&mut self.params, at, value);
        self
    }

    pub(super) fn put16(self, at: usize, value: u16) -> Self {
        self.put(at, &value.to_le_bytes())
    }

    pub(super) fn put32(self, at: usize, value: u32) -> Self {
        self.put(at, &value.to_le_bytes())
    }

    pub(super) fn refused(mut self, code: AqCode) -> Self {
        self.code = code;
        self
    }
}

/// A reply, or the code of a refusal without further contents.
pub(super) type Answer = Result<Reply, AqCode>;

/// An event that the firmware sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    pub(crate) opcode: u16,
    /// The first 8 bytes of the parameters; the rest is the buffer's address.
    pub(crate) params: [u8; 8],
    pub(crate) data: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_keeps_the_buffers_address() {
        let mut bytes = [0; LEN];
        put_u16(&mut bytes, 0, flag::BUF | 0x2000);
        put_u16(&mut bytes, 2, 0x000a);
        put_u16(&mut bytes, 4, 4096);
        put_u32(&mut bytes, 24, 0x12);
        put_u32(&mut bytes, 28, 0x3456_7000);
        let mut descriptor = Descriptor(bytes);
        assert_eq!(descriptor.buffer(), 0x12_3456_7000);
        let reply = Reply {
            code: AqCode::ENOMEM,
            params: [0xee; 16],
            data: None,
        };
        descriptor.complete(&reply, Some(64));
        assert_eq!(descriptor.buffer(), 0x12_3456_7000);
        assert_eq!(descriptor.flags(), flag::BUF | 0x2000 | 7);
        assert_eq!(descriptor.datalen(), 64);
        assert_eq!(u16_at(&descriptor.0, 6), 9);
        assert_eq!(u32_at(&descriptor.0, 16), 0xeeee_eeee);
    }

    #[test]
    fn a_direct_command_gets_all_parameters() {
        let mut descriptor = Descriptor([0; LEN]);
        let reply = Reply {
            code: AqCode::OK,
            params: [0x11; 16],
            data: None,
        };
        descriptor.complete(&reply, None);
        assert_eq!(descriptor.params(), [0x11; 16]);
        assert_eq!(descriptor.flags(), flag::DD | flag::CMP);
    }
}
