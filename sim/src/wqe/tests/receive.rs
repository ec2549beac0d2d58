//! Receive queue entries.

use proptest::prelude::*;

use super::*;

#[test]
fn fragments_of_a_slot() {
    let entry = words(&[
        &fragment(0x1000, 10, 1),
        &[0, VALID | 2 << 38],
        &fragment(0x2000, 20, 2),
        &fragment(0, 0, 0),
        // The slot is longer than the entry; the words after the entry are old.
        &[u64::MAX; 8],
    ]);
    let wqe = ReceiveWqe::decode(&entry, true).unwrap();
    assert!(wqe.lints.is_empty(), "{:?}", wqe.lints);
    let expected = [(0x1000, 10, 1), (0x2000, 20, 2)];
    assert_eq!(
        wqe.fragments.as_slice(),
        expected.map(|(addr, len, stag)| Fragment { addr, len, stag })
    );
}

#[test]
fn an_empty_receive() {
    let wqe = ReceiveWqe::decode(&[0, VALID, 0, VALID], true).unwrap();
    assert_eq!(wqe.fragments.total(), 0);
}

#[test]
fn what_does_not_fit_the_slot_is_refused() {
    let entry = words(&[&fragment(0x1000, 10, 1), &[0, VALID | 2 << 38]]);
    assert_eq!(
        ReceiveWqe::decode(&entry, true),
        Err(WqeError::TooManyFragments {
            count: 2,
            quanta: 1
        })
    );
    assert_eq!(
        ReceiveWqe::decode(&[0; 2], true),
        Err(WqeError::Short {
            given: 2,
            needed: 4
        })
    );
    let stale = [0, 0, 0, VALID];
    assert_eq!(
        ReceiveWqe::decode(&stale, true),
        Err(WqeError::FragmentNotValid { index: 0 })
    );
}

#[test]
fn lints() {
    let lints = |word2, header| {
        ReceiveWqe::decode(&[0, VALID, word2, VALID | header], true)
            .unwrap()
            .lints
    };
    assert_eq!(lints(1, 0), Lints::WORD2);
    assert_eq!(lints(0, 1 << 62), Lints::HEADER);
    assert_eq!(lints(0, 3 << 32), Lints::HEADER);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 20 } else { 1000 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_words_are_decoded_or_refused(entry in prop::collection::vec(any::<u64>(), 0..=32), polarity: bool) {
        let _ = ReceiveWqe::decode(&entry, polarity);
    }
}
