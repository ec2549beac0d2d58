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
