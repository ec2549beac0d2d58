//! Fields of messages and pages. Nothing panics: what is not there is zero, and what has no room is
//! left out.

/// A field of `N` bytes; zeros if `bytes` ends before it does.
pub fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

/// Functions that read a number: all of NVMe's are little-endian.
macro_rules! numbers {
    ($($name:ident: $Type:ty,)+) => {$(
        /// The number of this length at a place.
        pub fn $name(bytes: &[u8], at: usize) -> $Type {
            <$Type>::from_le_bytes(field(bytes, at))
        }
    )+};
}
numbers! { byte: u8, word: u16, double: u32, quad: u64, }

/// Writes a field, or as much of it as has room.
pub fn put(page: &mut [u8], at: usize, bytes: &[u8]) {
    let room = page.get_mut(at..).into_iter().flatten();
    room.zip(bytes).for_each(|(into, &byte)| *into = byte);
}

/// A text, which ends with a zero or with its field.
pub fn text(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}
