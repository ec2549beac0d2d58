//! Hand-built entries from the layouts of data-path 1, 2 and 4.

mod completion;
mod lints;
mod receive;
mod send;

use super::*;

/// VALID of the first lap.
const VALID: u64 = 1 << 63;

/// A fragment of the first lap.
fn fragment(addr: u64, len: u64, stag: u64) -> [u64; 2] {
    [addr, VALID | len << 32 | stag]
}

/// Puts words behind each other.
fn words(parts: &[&[u64]]) -> Vec<u64> {
    parts.concat()
}

#[test]
fn event_codes_are_unique() {
    let mut codes: Vec<u16> = AeCode::ALL.iter().map(|code| code.0).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), AeCode::ALL.len());
    assert_eq!(
        format!("{}", AeCode::LLP_TOO_MANY_RNRS),
        "0x050f LLP_TOO_MANY_RNRS"
    );
    assert_eq!(format!("{}", AeCode(0x123)), "0x0123 unknown");
}

#[test]
fn an_unfit_entry_names_its_event() {
    assert_eq!(WqeError::UnknownOpcode(2).ae(), AeCode(0x020A));
    assert_eq!(WqeError::FragmentNotValid { index: 1 }.ae(), AeCode(0x020C));
    assert_eq!(WqeError::InlineNotValid { quantum: 1 }.ae(), AeCode(0x020C));
    assert_eq!(WqeError::InlineTooLong(102).ae(), AeCode(0x020B));
}

#[test]
fn a_span_takes_from_every_fragment_what_lies_in_it() {
    let mut fragments = Fragments::default();
    for (addr, len) in [(0x1000, 10), (0x2000, 0), (0x3000, 5), (0x4000, 100)] {
        fragments.push(Fragment { addr, len, stag: 7 });
    }
    assert_eq!(fragments.total(), 115);
    let span = |start, len| {
        fragments
            .span(start, len)
            .map(|piece| (piece.addr, piece.len))
            .collect::<Vec<_>>()
    };
    assert_eq!(span(0, 10), [(0x1000, 10)]);
    assert_eq!(span(8, 10), [(0x1008, 2), (0x3000, 5), (0x4000, 3)]);
    assert_eq!(span(110, 50), [(0x405F, 5)]);
    assert_eq!(span(3, 0), []);
    assert_eq!(span(200, 1), []);
}
