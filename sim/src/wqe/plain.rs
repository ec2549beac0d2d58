//! The most frequent entries: one quantum with one fragment and no other features.
//!
//! [`SendWqe::decode`](super::SendWqe::decode) and
//! [`ReceiveWqe::decode`](super::ReceiveWqe::decode) decode these entries to the same result,
//! without lints.

use super::bits::{bit, bits, mask};
use super::fragment::Fragment;
use super::{QUANTUM_WORDS, Remote};

/// RDMA_WRITE, RDMA_SEND, RDMA_SEND_SOL_EVENT, RDMA_WRITE_SOL (data-path 1.5).
const WRITE: u8 = 0x00;
const SEND: u8 = 0x03;
const SEND_SOLICITED: u8 = 0x05;
const WRITE_SOLICITED: u8 = 0x0d;

/// VALID, SIGCOMPL and OPCODE (data-path 1.4).
const SEND_HEADER: u64 = mask(63, 62) | mask(37, 32);

/// A send or write of an RC queue pair.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PlainSend {
    /// Opcode as in the entry.
    pub opcode: u8,
    /// SIGCOMPL.
    pub signaled: bool,
    /// The receiver is to raise an event.
    pub solicited: bool,
    /// The payload, at least one byte.
    pub fragment: Fragment,
    /// Destination of a write; `None` for a send.
    pub remote: Option<Remote>,
}

impl PlainSend {
    /// Decodes an entry whose header is valid, if it is of this kind.
    #[must_use]
    pub fn decode(words: &[u64; QUANTUM_WORDS], polarity: bool) -> Option<Self> {
        let [_, _, word2, header] = *words;
        let opcode = bits(header, 37, 32) as u8;
        let writes = match opcode {
            SEND | SEND_SOLICITED => false,
            WRITE | WRITE_SOLICITED => true,
            _ => return None,
        };
        let defined = SEND_HEADER | if writes { mask(31, 0) } else { 0 };
        if header & !defined != 0 || !writes && word2 != 0 {
            return None;
        }
        Some(Self {
            opcode,
            signaled: bit(header, 62),
            solicited: matches!(opcode, SEND_SOLICITED | WRITE_SOLICITED),
            fragment: fragment(words, polarity)?,
            remote: writes.then_some(Remote {
                addr: word2,
                // The low half.
                rkey: header as u32,
            }),
        })
    }
}

/// The fragment of a one-quantum receive whose header is valid, if this is its only fragment.
#[must_use]
pub fn plain_receive(words: &[u64; QUANTUM_WORDS], polarity: bool) -> Option<Fragment> {
    let [_, _, word2, header] = *words;
    let plain = header & !mask(63, 63) == 0 && word2 == 0;
    plain.then(|| fragment(words, polarity)).flatten()
}

/// The fragment of the first quantum, if it is valid and not a null fragment.
fn fragment(words: &[u64; QUANTUM_WORDS], polarity: bool) -> Option<Fragment> {
    let [addr, word, ..] = *words;
    let fragment = Fragment::decode([addr, word]);
    (bit(word, 63) == polarity && fragment.len != 0).then_some(fragment)
}

#[cfg(test)]
mod tests {
    use super::super::{Operation, Payload, ReceiveWqe, SendWqe, Service};
    use super::*;
    use proptest::prelude::*;

    /// Words in which most of the bits that make an entry non-plain are clear.
    fn words() -> impl Strategy<Value = [u64; 4]> {
        let sparse =
            prop_oneof![4 => Just(0), 1 => any::<u64>(), 1 => (0..64).prop_map(|n| 1u64 << n)];
        let opcode = prop_oneof![Just(0u64), Just(3), Just(5), Just(0xd), 0..64u64];
        let fragment = any::<u64>().prop_map(|word| word & !mask(62, 45));
        let header = (
            opcode,
            any::<[bool; 2]>(),
            sparse.clone(),
            any::<u32>(),
            any::<bool>(),
        );
        let header = header.prop_map(|(opcode, [valid, signaled], noise, low, has_low)| {
            opcode << 32
                | u64::from(valid) << 63
                | u64::from(signaled) << 62
                | noise
                | if has_low { low.into() } else { 0 }
        });
        (any::<u64>(), fragment, sparse, header).prop_map(|(a, b, c, d)| [a, b, c, d])
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn plain_entries_are_what_they_are_otherwise(words in words(), polarity in any::<bool>()) {
            if let Some(plain) = PlainSend::decode(&words, polarity) {
                let wqe = SendWqe::decode(&words, polarity, Service::Connected).unwrap();
                prop_assert!(wqe.lints.is_empty() && !wqe.local_fence && !wqe.read_fence);
                prop_assert_eq!((wqe.quanta, wqe.opcode, wqe.signaled), (1, plain.opcode, plain.signaled));
                let (payload, remote, solicited) = match wqe.operation {
                    Operation::Send { payload, immediate: None, invalidate: None, solicited, .. } => {
                        (payload, None, solicited)
                    }
                    Operation::Write { payload, remote, immediate: None, solicited } => {
                        (payload, Some(remote), solicited)
                    }
                    other => panic!("{other:?}"),
                };
                prop_assert_eq!((remote, solicited), (plain.remote, plain.solicited));
                let Payload::Fragments(fragments) = payload else { panic!("inline") };
                prop_assert_eq!(fragments.as_slice(), &[plain.fragment][..]);
            }
            if let Some(fragment) = plain_receive(&words, polarity) {
                let wqe = ReceiveWqe::decode(&words, polarity).unwrap();
                prop_assert!(wqe.lints.is_empty());
                prop_assert_eq!(wqe.fragments.as_slice(), &[fragment][..]);
            }
        }
    }

    #[test]
    fn the_plain_ones_are_known() {
        let word1 = 1 << 63 | 64 << 32 | 0x100;
        let send = [0x1000, word1, 0, 1 << 63 | 3 << 32];
        assert!(PlainSend::decode(&send, true).is_some_and(|plain| plain.remote.is_none()));
        let write = [0x1000, word1, 0x2000, 1 << 63 | 1 << 62 | 0x200];
        let remote = Remote {
            addr: 0x2000,
            rkey: 0x200,
        };
        let plain = PlainSend::decode(&write, true).unwrap();
        assert_eq!((plain.remote, plain.signaled), (Some(remote), true));
        let receive = [0x1000, word1, 0, 1 << 63];
        assert_eq!(plain_receive(&receive, true), Some(plain.fragment));
        // Fences, immediates, inline data, more fragments, and no payload.
        for set in [1 << 61, 1 << 60, 1 << 57, 1 << 47, 1 << 38] {
            let [a, b, c, header] = send;
            assert_eq!(PlainSend::decode(&[a, b, c, header | set], true), None);
        }
        let [a, _, c, header] = send;
        assert_eq!(PlainSend::decode(&[a, 1 << 63, c, header], true), None);
    }
}
