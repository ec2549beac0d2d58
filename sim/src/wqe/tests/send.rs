//! Send queue entries.

use proptest::prelude::*;

use super::*;

const SIGNALED: u64 = 1 << 62;
const INLINE: u64 = 1 << 57;
pub(super) const IMMEDIATE: u64 = 1 << 47;

pub(super) fn op(opcode: u64) -> u64 {
    opcode << 32
}

pub(super) fn add(count: u64) -> u64 {
    count << 38
}

pub(super) fn decode(words: &[u64]) -> Result<SendWqe, WqeError> {
    SendWqe::decode(words, true, Service::Connected)
}

/// An inline send of `data` as in data-path 1.8, with `filler` in every byte that software does not
/// write.
pub(super) fn inline_words(data: &[u8], polarity: bool, filler: u8) -> Vec<u64> {
    let quanta = 1 + data.len().saturating_sub(8).div_ceil(31);
    let mut bytes = vec![filler; quanta * 32];
    let (first, rest) = data.split_at(data.len().min(8));
    bytes[8..8 + first.len()].copy_from_slice(first);
    for (quantum, chunk) in rest.chunks(31).enumerate() {
        let at = 32 * (quantum + 1);
        bytes[at..at + chunk.len()].copy_from_slice(chunk);
        bytes[at + 31] = u8::from(polarity) << 7;
    }
    let header = u64::from(polarity) << 63 | INLINE | (data.len() as u64) << 48 | op(3);
    bytes[16..24].fill(0);
    bytes[24..32].copy_from_slice(&header.to_le_bytes());
    bytes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .collect()
}

#[test]
fn quanta_follow_addfragcnt() {
    // Table of data-path 1.6 by F: ADDFRAGCNT is F - 1, plus one if F is even.
    let table = [
        (0, 0, 1),
        (1, 0, 1),
        (2, 2, 2),
        (3, 2, 2),
        (4, 4, 3),
        (13, 12, 7),
        (14, 14, 8),
        (15, 14, 8),
    ];
    for (fragments, count, quanta) in table {
        assert_eq!(
            send_quanta(VALID | add(count) | op(0)),
            Ok(quanta),
            "F = {fragments}"
        );
    }
    let error = WqeError::TooManyFragments {
        count: 15,
        quanta: 8,
    };
    assert_eq!(send_quanta(VALID | add(15) | op(1)), Err(error));
}

#[test]
fn quanta_follow_the_inline_length() {
    let table = [
        (0, 1),
        (8, 1),
        (9, 2),
        (39, 2),
        (40, 3),
        (70, 3),
        (71, 4),
        (101, 4),
    ];
    for (len, quanta) in table {
        assert_eq!(
            send_quanta(VALID | INLINE | len << 48 | op(5)),
            Ok(quanta),
            "{len} bytes"
        );
    }
    assert_eq!(
        send_quanta(VALID | INLINE | 102 << 48 | op(0)),
        Err(WqeError::InlineTooLong(102))
    );
}

#[test]
fn send_with_three_fragments() {
    let header = VALID | SIGNALED | add(2) | op(3);
    let entry = words(&[
        &fragment(0x1000, 10, 0x100),
        &[0, header],
        &fragment(0x2000, 20, 0x200),
        &fragment(0x3000, 30, 0x300),
    ]);
    let wqe = decode(&entry).unwrap();
    assert_eq!((wqe.opcode, wqe.quanta, wqe.signaled), (3, 2, true));
    assert!(wqe.lints.is_empty(), "{:?}", wqe.lints);
    let Operation::Send {
        payload: Payload::Fragments(fragments),
        immediate,
        invalidate,
        solicited,
        ..
    } = wqe.operation
    else {
        panic!("{:?}", wqe.operation)
    };
    assert_eq!((immediate, invalidate, solicited), (None, None, false));
    let expected = [
        (0x1000, 10, 0x100),
        (0x2000, 20, 0x200),
        (0x3000, 30, 0x300),
    ];
    assert_eq!(
        fragments.as_slice(),
        expected.map(|(addr, len, stag)| Fragment { addr, len, stag })
    );
}

#[test]
fn immediate_moves_fragments_behind_the_first_quantum() {
    let header = VALID | IMMEDIATE | add(2) | op(0x0d) | 0xABCD;
    // Word 1 keeps its old contents (data-path 10, item 6).
    let entry = words(&[
        &[0xDEAD_BEEF, u64::MAX, 0x5000, header],
        &fragment(0x1000, 9, 1),
        &fragment(0, 0, 0),
    ]);
    let wqe = decode(&entry).unwrap();
    assert!(wqe.lints.is_empty(), "{:?}", wqe.lints);
    let Operation::Write {
        payload,
        remote,
        immediate,
        solicited,
    } = wqe.operation
    else {
        panic!("{:?}", wqe.operation)
    };
    assert_eq!((immediate, solicited), (Some(0xDEAD_BEEF), true));
    assert_eq!(
        remote,
        Remote {
            addr: 0x5000,
            rkey: 0xABCD
        }
    );
    assert_eq!(payload.total(), 9);
}

#[test]
fn opcodes_carry_what_they_say() {
    for (code, sol, inv) in [
        (3, false, false),
        (4, false, true),
        (5, true, false),
        (6, true, true),
    ] {
        let low = if inv { 0x1234_5678 } else { 0 };
        let entry = words(&[&fragment(0, 0, 0), &[0, VALID | op(code) | low]]);
        let wqe = decode(&entry).unwrap();
        assert!(wqe.lints.is_empty(), "{:?}", wqe.lints);
        let Operation::Send {
            solicited,
            invalidate,
            ..
        } = wqe.operation
        else {
            panic!("{:?}", wqe.operation)
        };
        assert_eq!((solicited, invalidate), (sol, inv.then_some(0x1234_5678)));
    }
    for (code, inv) in [(0x01, false), (0x0b, true)] {
        let entry = words(&[&fragment(0x10, 4, 2), &[0x99, VALID | op(code) | 7]]);
        let wqe = decode(&entry).unwrap();
        let Operation::Read {
            sink,
            remote,
            invalidate_sink,
        } = wqe.operation
        else {
            panic!("{:?}", wqe.operation)
        };
        assert_eq!(
            (sink.total(), remote, invalidate_sink),
            (
                4,
                Remote {
                    addr: 0x99,
                    rkey: 7
                },
                inv
            )
        );
    }
}

#[test]
fn local_operations() {
    let decoded = |entry: &[u64]| {
        let wqe = decode(entry).unwrap();
        assert!(wqe.lints.is_empty(), "{:?}", wqe.lints);
        assert_eq!(wqe.quanta, 1);
        wqe.operation
    };
    assert_eq!(
        decoded(&[0, 0x55, 0, VALID | op(0x0a)]),
        Operation::LocalInvalidate { stag: 0x55 }
    );
    assert_eq!(decoded(&[0, 0, 0, VALID | op(0x0c)]), Operation::Nop);
    assert_eq!(
        decoded(&[0, 0, 0, VALID | op(0x30)]),
        Operation::GenerateRtsAe
    );
    let header = VALID | 1 << 54 | 1 << 53 | 0xC << 48 | op(0x08);
    assert_eq!(
        decoded(&[0x1000, 0x77 << 32 | 0x88, 0x2000, header]),
        Operation::BindWindow {
            addr: 0x1000,
            len: 0x2000,
            parent: 0x77,
            window: 0x88,
            rights: 0xC,
            va_based: true,
            type1: true
        }
    );
    let header =
        VALID | 1 << 61 | 1 << 53 | 0x1F << 48 | 1 << 46 | 1 << 44 | op(0x09) | 0xAABB_CC00 | 0x11;
    assert_eq!(
        decoded(&[
            0x4000,
            0x000F_FFFF_FFFF_F000 | 0xABC,
            0x1234 << 48 | 0x5000,
            header
        ]),
        Operation::FastRegister {
            addr: 0x4000,
            len: 0x5000,
            stag_index: 0x00AA_BBCC,
            stag_key: 0x11,
            rights: 0x1F,
            va_based: true,
            pbl_level: 1,
            page_size: 1,
            page: 0x000F_FFFF_FFFF_F000,
            pble: 0xABC_1234,
        }
    );
}

#[test]
fn only_the_opcodes_of_gen2_are_known() {
    let known = [0, 1, 3, 4, 5, 6, 8, 9, 0x0a, 0x0b, 0x0c, 0x0d, 0x30];
    for code in 0..64 {
        let entry = [0, VALID, 0, VALID | op(code)];
        if known.contains(&code) {
            assert!(decode(&entry).is_ok(), "{code:#x}");
        } else {
            assert_eq!(decode(&entry), Err(WqeError::UnknownOpcode(code as u8)));
        }
    }
}

#[test]
fn inline_data_skips_the_trailers_and_ignores_gaps() {
    let data: Vec<u8> = (0..=100).collect();
    for len in 0..=101 {
        for (polarity, filler) in [(true, 0), (true, 0xFF), (false, 0xFF), (false, 0x5A)] {
            let mut entry = inline_words(&data[..len], polarity, filler);
            // Software does not write word 0 (data-path 10, item 6).
            entry[0] = u64::from_le_bytes([filler; 8]);
            let wqe = SendWqe::decode(&entry, polarity, Service::Connected).unwrap();
            assert!(wqe.lints.is_empty(), "{:?}", wqe.lints);
            let Operation::Send {
                payload: Payload::Inline(inline),
                ..
            } = wqe.operation
            else {
                panic!("{:?}", wqe.operation)
            };
            assert_eq!(inline.as_slice(), &data[..len]);
            assert_eq!(wqe.quanta as usize * 4, entry.len());
        }
    }
}

#[test]
fn a_valid_bit_of_another_lap_is_refused() {
    let mut entry = words(&[
        &fragment(0x1000, 10, 1),
        &[0, VALID | add(2) | op(3)],
        &fragment(0x2000, 10, 1),
        &fragment(0x3000, 10, 1),
    ]);
    entry[7] &= !VALID;
    assert_eq!(decode(&entry), Err(WqeError::FragmentNotValid { index: 2 }));

    let mut entry = inline_words(&[1; 50], true, 0);
    entry[11] &= !(0x80 << 56);
    assert_eq!(decode(&entry), Err(WqeError::InlineNotValid { quantum: 2 }));
    assert!(is_valid(entry[3], true) && !is_valid(entry[3], false));
}

#[test]
fn fewer_words_than_the_entry_has() {
    let entry = words(&[&fragment(0, 1, 1), &[0, VALID | add(4) | op(3)]]);
    assert_eq!(
        decode(&entry),
        Err(WqeError::Short {
            given: 4,
            needed: 12
        })
    );
    assert_eq!(
        decode(&[0; 3]),
        Err(WqeError::Short {
            given: 3,
            needed: 4
        })
    );
}

#[test]
fn a_datagram_send_has_a_target() {
    let target = UdTarget {
        qpn: 0x12_3456,
        qkey: 0x8001_0000,
        ah: 0x1FF_FFFF,
    };
    let entry = words(&[
        &fragment(0x1000, 10, 1),
        &[0x0012_3456 << 32 | 0x8001_0000, VALID | op(3) | 0x1FF_FFFF],
    ]);
    let wqe = SendWqe::decode(&entry, true, Service::Datagram).unwrap();
    assert!(wqe.lints.is_empty(), "{:?}", wqe.lints);
    assert!(matches!(wqe.operation, Operation::Send { ud, .. } if ud == target));
    // The same bits have no meaning on a connected QP.
    assert_eq!(decode(&entry).unwrap().lints, Lints::WORD2 | Lints::HEADER);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 20 } else { 2000 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_words_are_decoded_or_refused(
        mut entry in prop::collection::vec(any::<u64>(), 0..=32),
        code in 0_u64..64,
        polarity: bool,
    ) {
        if let Some(header) = entry.get_mut(3) {
            *header = *header & !(0x3F << 32) | code << 32;
        }
        if let Ok(wqe) = SendWqe::decode(&entry, polarity, Service::Connected) {
            prop_assert!((1..=8).contains(&wqe.quanta));
            prop_assert!(usize::from(wqe.quanta) * 4 <= entry.len());
        }
    }
}
