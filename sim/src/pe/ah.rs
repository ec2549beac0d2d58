//! Address handles (control-path 4.14, data-path 7.1).

use super::contexts::{Context, Reader, Writer};
use super::fpm::Kind;

/// An address handle: the words of its command without the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AddressHandle {
    /// q0, q8, q16: MAC, VLAN, TOS, PD, flow label, hop limit, ARP index.
    pub(crate) head: [u64; 3],
    /// q24: the flags IPV4VALID, INSERTVLANTAG, DOLOOPBACK.
    pub(crate) flags: u64,
    /// q32, q40, q48, q56: destination and source address.
    pub(crate) addresses: [u64; 4],
}

impl Context for AddressHandle {
    const KIND: Kind = Kind::FsiAv;
    // Seven words after the marker fill the 64-byte object: `head` 3, `addresses` 4. The flags go
    // into spare bits of `head`.
    const WORDS: usize = 7;

    fn save(&self, words: &mut Writer<'_>) {
        // Bits [15:0] of q0 are unused in the command; the flags are in [62:59] of the header.
        let [first, second, third] = self.head;
        words.put(first & !0xFFFF | self.flags >> 59 & 0xF);
        words.put(second);
        words.put(third);
        for word in self.addresses {
            words.put(word);
        }
    }

    fn load(words: &mut Reader<'_>) -> Self {
        let first = words.take();
        Self {
            head: [first & !0xFFFF, words.take(), words.take()],
            flags: (first & 0xF) << 59,
            addresses: [words.take(), words.take(), words.take(), words.take()],
        }
    }
}
