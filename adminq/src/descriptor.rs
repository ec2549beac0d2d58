//! The 32-byte descriptor of both queues (control-path 9.1).

use bitflags::bitflags;
use e810_hal::Iova;

use crate::bytes::{put32, put64};
use crate::code::Code;
use crate::opcode::Opcode;

bitflags! {
    /// Flags of a descriptor.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Flags: u16 {
        /// Done.
        const DD = 1 << 0;
        /// Completed.
        const CMP = 1 << 1;
        /// Failed.
        const ERR = 1 << 2;
        /// VF error.
        const VFE = 1 << 3;
        /// The buffer is longer than 512 bytes.
        const LB = 1 << 9;
        /// The buffer carries data to the firmware.
        const RD = 1 << 10;
        /// On behalf of a VF.
        const VFC = 1 << 11;
        /// There is a buffer.
        const BUF = 1 << 12;
        /// No interrupt on completion.
        const SI = 1 << 13;
        /// Interrupt on error.
        const EI = 1 << 14;
        /// Flush on error.
        const FE = 1 << 15;
    }
}

/// A descriptor. Its fields are in the CPU's byte order; [`Descriptor::to_words`] returns the
/// words in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// Flags.
    pub flags: Flags,
    /// Command or event.
    pub opcode: Opcode,
    /// Bytes of the buffer that carry data.
    pub datalen: u16,
    /// Error code in the low byte, the firmware's own above.
    pub retval: u16,
    /// Not used by the firmware; comes back as it was sent.
    pub cookie: u64,
    /// Parameters; with a buffer, bytes 8 to 15 hold its address.
    pub params: [u8; 16],
}

impl Descriptor {
    /// A command without a buffer.
    #[must_use]
    pub const fn command(opcode: Opcode, params: [u8; 16]) -> Self {
        Self {
            flags: Flags::SI,
            opcode,
            datalen: 0,
            retval: 0,
            cookie: 0,
            params,
        }
    }

    /// The same with a buffer of `len` bytes at `address`.
    #[must_use]
    pub fn with_buffer(mut self, address: Iova, len: u16, to_firmware: bool) -> Self {
        self.flags |= Flags::BUF;
        self.flags.set(Flags::LB, len > crate::limits::LARGE_BUFFER);
        self.flags.set(Flags::RD, to_firmware);
        self.datalen = len;
        put32(&mut self.params, 8, (address.0 >> 32) as u32);
        put32(&mut self.params, 12, address.0 as u32);
        self
    }

    /// An entry of the event queue that waits for its event: it has only its buffer (control-path
    /// 9.1, row "ARQ fill").
    #[must_use]
    pub fn waiting(address: Iova, len: u16) -> Self {
        let mut descriptor = Self::command(Opcode(0), [0; 16]).with_buffer(address, len, false);
        descriptor.flags.remove(Flags::SI);
        descriptor
    }

    /// The error code of a reply or event.
    #[must_use]
    pub const fn code(&self) -> Code {
        Code(self.retval as u8)
    }

    /// Whether a reply or an event reports a failure: by its code or its flag.
    /// Existing drivers look at the code of replies and the flag of events.
    #[must_use]
    pub const fn failed(&self) -> bool {
        self.retval != 0 || self.flags.contains(Flags::ERR)
    }

    /// Word *n* lies at byte 8 × *n*.
    #[must_use]
    pub fn to_words(&self) -> [u64; 4] {
        let head = u64::from(self.flags.bits())
            | u64::from(self.opcode.0) << 16
            | u64::from(self.datalen) << 32
            | u64::from(self.retval) << 48;
        let [low, high] = halves(self.params);
        [head, self.cookie, low, high]
    }

    /// From the words in memory. Unknown flags are kept.
    #[must_use]
    pub fn from_words(words: [u64; 4]) -> Self {
        let [head, cookie, low, high] = words;
        let mut params = [0; 16];
        put64(&mut params, 0, low);
        put64(&mut params, 8, high);
        Self {
            flags: Flags::from_bits_retain(head as u16),
            opcode: Opcode((head >> 16) as u16),
            datalen: (head >> 32) as u16,
            retval: (head >> 48) as u16,
            cookie,
            params,
        }
    }
}

fn halves(params: [u8; 16]) -> [u64; 2] {
    use crate::bytes::le64;
    [le64(&params, 0), le64(&params, 8)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direct_command_is_flags_opcode_and_parameters() {
        let mut params = [0; 16];
        params[0] = 2;
        let words = Descriptor::command(Opcode::CLEAR_PXE, params).to_words();
        assert_eq!(words, [0x0110_2000, 0, 2, 0]);
    }

    #[test]
    fn a_buffer_has_its_flags_length_and_address_high_half_first() {
        let at = Iova(0x1234_5678_9ABC_D000);
        let small = Descriptor::command(Opcode::ADD_VSI, [0; 16]).with_buffer(at, 128, true);
        assert_eq!(
            small.to_words(),
            [0x0000_0080_0210_3400, 0, 0, 0x9ABC_D000_1234_5678]
        );
        let edge = Descriptor::command(Opcode::ADD_VSI, [0; 16]).with_buffer(at, 512, false);
        assert_eq!(edge.flags, Flags::BUF | Flags::SI);
        let large =
            Descriptor::command(Opcode::FUNCTION_CAPS, [0; 16]).with_buffer(at, 4096, false);
        assert_eq!(large.flags.bits(), 0x3200);
    }

    #[test]
    fn a_waiting_entry_asks_for_nothing_but_its_buffer() {
        let words = Descriptor::waiting(Iova(0x1000), 4096).to_words();
        assert_eq!(words, [0x0000_1000_0000_1200, 0, 0, 0x1000_0000_0000]);
    }

    #[test]
    fn words_and_fields_are_the_same() {
        let words = [
            0x0710_0020_0607_8007,
            0x1122_3344_5566_7788,
            0x0807_0605_0403_0201,
            0x100F_0E0D_0C0B_0A09,
        ];
        let descriptor = Descriptor::from_words(words);
        assert_eq!(descriptor.opcode, Opcode::LINK_STATUS);
        assert_eq!(descriptor.code(), Code::ENOSPC);
        assert_eq!(descriptor.params[15], 0x10);
        assert!(descriptor.failed());
        assert_eq!(descriptor.to_words(), words);
    }
}
