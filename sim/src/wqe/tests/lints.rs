//! Ignored bits.

use super::send::{IMMEDIATE, add, decode, inline_words, op};
use super::*;

#[test]
fn each_lint_is_found() {
    let send = fragment(0x1000, 10, 1);
    let lints = |entry: &[u64]| decode(entry).unwrap().lints;
    let with_header = |bits: u64| lints(&words(&[&send, &[0, VALID | op(3) | bits]]));
    assert_eq!(with_header(1 << 43), Lints::HEADER);
    assert_eq!(with_header(1 << 56), Lints::PUSH);
    assert_eq!(with_header(1 << 58), Lints::IWARP);
    assert_eq!(with_header(1 << 48), Lints::HEADER);
    assert_eq!(with_header(1), Lints::HEADER);
    assert_eq!(
        with_header(1 << 46 | 1 << 62 | 1 << 61 | 1 << 60),
        Lints::empty()
    );
    assert_eq!(lints(&words(&[&send, &[1, VALID | op(3)]])), Lints::WORD2);
    assert_eq!(lints(&[1, 0, 0, VALID | op(0x0c)]), Lints::BODY);
    assert_eq!(lints(&[0, 1 << 32, 0, VALID | op(0x0a)]), Lints::BODY);
    assert_eq!(
        lints(&[1 << 32, 0, 0, VALID | IMMEDIATE | op(3)]),
        Lints::IMMEDIATE
    );
    let odd = words(&[&send, &[0, VALID | add(1) | op(3)], &send, &[0, 0]]);
    assert_eq!(lints(&odd), Lints::ODD_FRAGMENTS);
    let mut inline = inline_words(&[1; 20], true, 0);
    inline[7] |= 1 << 56;
    assert_eq!(lints(&inline), Lints::INLINE_TRAILER);
    assert_eq!(
        lints(&[0, 1 << 52, 0, VALID | 1 << 61 | op(0x09)]),
        Lints::RESERVED_FIELD
    );
    assert_eq!(lints(&[0, 0, 0, VALID | op(0x09)]), Lints::UNFENCED);
    assert_eq!(
        lints(&[0, 0, 0, VALID | 1 << 48 | op(0x08)]),
        Lints::RESERVED_FIELD
    );
    assert_eq!(
        format!("{:?}", Lints::PUSH | Lints::IWARP)
            .matches(',')
            .count(),
        1
    );
}

/// The additional room in an entry is for immediates and null fragments.
#[test]
fn thirteen_fragments_with_data_are_the_most() {
    let full = fragment(0x1000, 10, 1);
    let null = fragment(0, 0, 0);
    let entry = |with_data: usize| {
        let mut entry = words(&[&full, &[0, VALID | add(14) | op(3)]]);
        for n in 1..15 {
            entry.extend(if n < with_data { full } else { null });
        }
        entry.truncate(32);
        entry
    };
    for with_data in [13, 14, 15] {
        let is_one = with_data > 13;
        let lints = decode(&entry(with_data)).unwrap().lints;
        assert_eq!(lints.contains(Lints::FRAGMENTS), is_one, "{with_data}");
        let mut receive = entry(with_data);
        receive[3] = VALID | add(14);
        let lints = ReceiveWqe::decode(&receive, true).unwrap().lints;
        assert_eq!(lints.contains(Lints::FRAGMENTS), is_one, "{with_data}");
    }
}
