//! Multicast group contexts (control-path 4.14).

use super::contexts::{Context, Reader, Writer};
use super::fpm::Kind;
use super::word::bits16;

/// Maximum members of a group: the qwords of its host context.
pub(crate) const MEMBERS: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MulticastGroup {
    /// q0, q8, q16, q48, q56 of the command: MAC, function, queue set and VLAN, IP address.
    pub(crate) words: [u64; 5],
    /// VLANVALID and IPV4VALID.
    pub(crate) flags: u64,
    /// The host context as read when the group was created or modified.
    pub(crate) members: [u64; MEMBERS],
}

impl MulticastGroup {
    /// QS_HANDLE.
    pub(crate) fn queue_set(&self) -> u16 {
        bits16(self.words[2], 9, 0)
    }
}

impl Context for MulticastGroup {
    const KIND: Kind = Kind::FsiMc;
    const WORDS: usize = 6 + MEMBERS;

    fn save(&self, words: &mut Writer<'_>) {
        for word in self.words.iter().chain([&self.flags]).chain(&self.members) {
            words.put(*word);
        }
    }

    fn load(words: &mut Reader<'_>) -> Self {
        Self {
            words: std::array::from_fn(|_| words.take()),
            flags: words.take(),
            members: std::array::from_fn(|_| words.take()),
        }
    }
}
