//! Reading and writing of big-endian fields.

/// The bytes at an offset.
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

/// The byte at an offset.
pub(crate) fn u8_at(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

/// The 16-bit field at an offset.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array_at(bytes, at).map(u16::from_be_bytes)
}

/// The 32-bit field at an offset.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_be_bytes)
}

/// Writes a frame from its start to its end.
#[derive(Debug)]
pub struct Writer<'b> {
    buffer: &'b mut [u8],
    length: usize,
    is_full: bool,
}

impl<'b> Writer<'b> {
    /// Writes to a buffer from its start on.
    #[must_use]
    pub fn new(buffer: &'b mut [u8]) -> Self {
        Self {
            buffer,
            length: 0,
            is_full: false,
        }
    }

    /// Appends bytes; what does not fit makes [`finish`](Self::finish) fail.
    pub fn put(&mut self, bytes: &[u8]) {
        let rest = self.buffer.get_mut(self.length..);
        match rest.and_then(|rest| rest.get_mut(..bytes.len())) {
            Some(room) => {
                // `copy_from_slice` leaves a panic path where it is not inlined.
                for (to, from) in room.iter_mut().zip(bytes) {
                    *to = *from;
                }
                self.length = self.length.saturating_add(bytes.len());
            }
            None => self.is_full = true,
        }
    }

    /// Appends a 16-bit field.
    pub fn put_u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    /// Appends a 32-bit field.
    pub fn put_u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    /// Number of bytes so far.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.length
    }

    /// What was written from an offset on.
    #[must_use]
    pub fn written(&self, from: usize) -> &[u8] {
        self.buffer.get(from..self.length).unwrap_or(&[])
    }

    /// Replaces a 16-bit field that was written.
    pub fn patch_u16(&mut self, at: usize, value: u16) {
        let written = self.buffer.get_mut(..self.length);
        let field = written.and_then(|written| written.get_mut(at..)?.first_chunk_mut());
        if let Some(field) = field {
            *field = value.to_be_bytes();
        }
    }

    /// The frame's length, unless something did not fit.
    #[must_use]
    pub fn finish(self) -> Option<usize> {
        (!self.is_full).then_some(self.length)
    }
}
