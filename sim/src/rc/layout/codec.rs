//! Encoder and decoder of consecutive little-endian fields in sections of fixed length.

/// The bytes are not a stored state: the memory was overwritten, or never written.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a stored QP state: bad {0}")]
pub struct StateError(pub(super) &'static str);

/// The bytes still to be written. A section that is too small loses its end, which the round-trip
/// test detects.
pub(super) struct Writer<'a>(pub(super) &'a mut [u8]);

impl Writer<'_> {
    pub(super) fn section(&mut self, len: usize, fill: impl FnOnce(&mut Writer<'_>)) {
        let (head, rest) = core::mem::take(&mut self.0).split_at_mut(len);
        fill(&mut Writer(head));
        self.0 = rest;
    }

    pub(super) fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        if let Some((head, rest)) = core::mem::take(&mut self.0).split_first_chunk_mut::<N>() {
            *head = bytes;
            self.0 = rest;
        }
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.put([value]);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.put(value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.put(value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.put(value.to_le_bytes());
    }
}

/// The bytes still to be read.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn section(&mut self, len: usize) -> Result<Reader<'a>, StateError> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(StateError("length"))?;
        self.0 = rest;
        Ok(Reader(head))
    }

    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        let (head, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or(StateError("length"))?;
        self.0 = rest;
        Ok(*head)
    }

    pub(super) fn u8(&mut self) -> Result<u8, StateError> {
        self.take().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, StateError> {
        self.take().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, StateError> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, StateError> {
        self.take().map(u64::from_le_bytes)
    }

    /// A PSN or MSN.
    pub(super) fn psn(&mut self) -> Result<u32, StateError> {
        let value = self.u32()?;
        if value >> 24 == 0 {
            Ok(value)
        } else {
            Err(StateError("PSN"))
        }
    }

    /// A count of quanta or slots since the QP started; 2^48 is out of reach.
    pub(super) fn pos(&mut self) -> Result<u64, StateError> {
        let value = self.u64()?;
        if value >> 48 == 0 {
            Ok(value)
        } else {
            Err(StateError("ring position"))
        }
    }
}
