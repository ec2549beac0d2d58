//! A device that writes anything anywhere.

use proptest::prelude::*;

use super::*;
use crate::testing::plain;

/// A word of a ring: often with the bits that matter.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        Just(u64::MAX),
        Just(0),
        Just(1),
        Just(3),
        Just(0xF),
        (0u64..0x4000).prop_map(|length| 2 | length << 32),
    ]
}

/// Less where each access takes its time.
const LONGEST: usize = if cfg!(miri) { 2500 } else { 9022 };
const BURSTS: usize = if cfg!(miri) { 2 } else { 12 };
const WRITES: usize = if cfg!(miri) { 20 } else { 200 };

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any words in the receive ring: lengths are those that the caller's buffer has,
    /// a call ends, and the tail is always one that the device may have.
    #[test]
    fn a_receive_ring_of_any_words(
        words in prop::collection::vec((0u64..256, word()), 1..WRITES),
        room in 0usize..3000,
    ) {
        let fake = Fake::default();
        let mut port = port(&fake, &LanInit::default());
        let ring = fake.device().context(32, 57) << 7;
        let mut into = std::vec![0; room];
        for (place, value) in words {
            fake.with(|_, memory| memory.store(ring + 8 * place, value));
            for _ in 0..3 {
                if let Some(len) = port.receive(&mut into) {
                    prop_assert!(len <= room && len >= 14);
                }
            }
            let tail = fake.device().get(crate::testing::TAIL);
            prop_assert!(tail < 64 && tail % 8 == 0);
        }
        let counts = port.rx_counts();
        prop_assert!(counts.bytes >= 14 * counts.frames);
        close(&fake, port);
    }

    /// Any words in the transmit ring: never more in the ring than there may be, and
    /// what is sent is what was given.
    #[test]
    fn a_transmit_ring_of_any_words(
        words in prop::collection::vec((0u64..128, word()), 1..WRITES),
    ) {
        let fake = Fake::default();
        let mut port = port(&fake, &LanInit::default());
        fake.device_mut().done = None;
        let ring = fake.device().tx.unwrap().0;
        let mut expected = Vec::new();
        for (seed, (place, value)) in (0u8..).zip(words) {
            fake.with(|_, memory| memory.store(ring + 8 * place, value));
            if port.transmit(&frame(64, seed)).is_ok() {
                expected.push(frame(64, seed));
            }
            prop_assert!(port.outstanding() <= 59);
        }
        prop_assert_eq!(&fake.device().sent, &expected);
        close(&fake, port);
    }

    /// Frames of any lengths, in bursts, come out as they went in.
    #[test]
    #[cfg_attr(miri, ignore = "minutes under Miri; `receive` has frames of fixed lengths")]
    fn frames_of_any_length_come_in_order(
        bursts in prop::collection::vec(prop::collection::vec(14..LONGEST, 1..8), 1..BURSTS),
    ) {
        let fake = Fake::default();
        let mut port = port(&fake, &LanInit::new(9000));
        let mut into = std::vec![0; 9022];
        let mut seed = 0u8;
        for burst in bursts {
            let mut there = Vec::new();
            for len in burst {
                seed = seed.wrapping_add(1);
                let bytes = frame(len, seed);
                if fake.with(|device, memory| device.deliver(memory, &plain(bytes.clone()))) {
                    there.push(bytes);
                }
            }
            prop_assert!(!there.is_empty());
            for bytes in there {
                let len = port.receive(&mut into).unwrap();
                prop_assert_eq!(&into[..len], &bytes[..]);
            }
            prop_assert_eq!(port.receive(&mut into), None);
        }
        close(&fake, port);
    }
}
