//! Work requests: bits that are ignored, and entries that cannot be executed.

use super::found;
use crate::findings::Class;
use crate::pe::Config;
use crate::pe::tests::engine_pair::{ALL_RIGHTS, BYTES, PD, VA};
use crate::pe::tests::qp::TestQp;
use crate::pe::tests::test_driver::TestDriver;

/// VALID of the first lap.
const VALID: u64 = 1 << 63;
const INLINE: u64 = 1 << 57;
const SEND: u64 = 3 << 32;

/// The words of a request that uses the STag of a region.
type Entry = fn(u64) -> Vec<u64>;

/// A connected QP 3 and the STag of a region.
fn connected() -> (TestDriver, TestQp, u64) {
    let mut driver = TestDriver::ready(Config::default());
    let qp = TestQp::create(&mut driver, 3, PD, 1);
    qp.connect(&mut driver);
    let (stag, _) = driver.register(9, PD, VA, BYTES, ALL_RIGHTS);
    (driver, qp, stag.into())
}

/// Findings about a request at the beginning of the ring: all of its words, with valid bits.
fn posted(words: impl Fn(u64) -> Vec<u64>) -> (Vec<(Class, &'static str, String)>, TestDriver) {
    let (mut driver, qp, stag) = connected();
    driver.env.set_words(qp.sq, &words(stag));
    qp.doorbell(&mut driver);
    (found(&mut driver), driver)
}

/// A fragment of eight bytes.
fn fragment(stag: u64) -> [u64; 2] {
    [VA, VALID | 8 << 32 | stag]
}

/// The longest fragment.
fn long(stag: u64) -> [u64; 2] {
    [VA, VALID | 0x7FFF_FFFF << 32 | stag]
}

/// A send of one fragment.
fn one(stag: u64, word2: u64, header: u64) -> Vec<u64> {
    let [address, rest] = fragment(stag);
    vec![address, rest, word2, VALID | SEND | header]
}

#[test]
fn ignored_bits_of_a_send_queue() {
    let cases: [(Entry, &str); 10] = [
        (|stag| one(stag, 0, 1 << 43), "undefined header bits"),
        (|stag| one(stag, 0, 1 << 56), "push bit without a push page"),
        (|stag| one(stag, 1, 0), "word 2 not zero"),
        (
            |_| vec![1, 0, 0, VALID | 0x0c << 32],
            "words 0 and 1 not zero",
        ),
        (
            |_| vec![1 << 32, 0, 0, VALID | 1 << 47 | SEND],
            "upper half of the immediate's word not zero",
        ),
        (
            |stag| [one(stag, 0, 1 << 38), fragment(stag).to_vec(), vec![0, 0]].concat(),
            "odd ADDFRAGCNT",
        ),
        (
            |_| {
                let header = VALID | INLINE | 20 << 48 | SEND;
                vec![0, 0, 0, header, 0, 0, 0, VALID | 1 << 56]
            },
            "undefined bits in an inline trailer",
        ),
        (|stag| one(stag, 0, 1 << 58), "iWARP header bits"),
        (
            |_| vec![0, 0, 0, VALID | 1 << 48 | 8 << 32],
            "reserved field bits",
        ),
        (
            |_| vec![0, 0, 0, VALID | 9 << 32],
            "fast registration without LOCALFENCE",
        ),
    ];
    for (words, name) in cases {
        let (found, _) = posted(words);
        let text = format!("QP 3: Send queue entry 0: [{name:?}]");
        assert_eq!(found, [(Class::Lint, "wqe-bits", text)]);
    }
}

/// Entries that the card answers with an event of their own.
#[test]
fn entries_that_cannot_be_carried_out() {
    let cases: [(Entry, u64); 8] = [
        // An undefined opcode; GEN_RTS_AE, which belongs to iWARP.
        (|_| vec![0, 0, 0, VALID | 2 << 32], 0x020A),
        (|_| vec![0, 0, 0, VALID | 0x30 << 32], 0x020A),
        // Valid bits of another lap: of a fragment, and of an inline quantum.
        (|stag| vec![VA, 8 << 32 | stag, 0, VALID | SEND], 0x020C),
        (
            |_| vec![0, 0, 0, VALID | INLINE | 20 << 48 | SEND, 0, 0, 0, 0],
            0x020C,
        ),
        // Lengths: inline data, fragments, a message of more than 2 GiB.
        (|_| vec![0, 0, 0, VALID | INLINE | 102 << 48 | SEND], 0x020B),
        (|_| vec![0, 0, 0, VALID | 15 << 38 | SEND], 0x020B),
        (
            |stag| {
                let header = [0, VALID | 2 << 38 | SEND];
                [long(stag), header, long(stag), long(stag)].concat()
            },
            0x020B,
        ),
        // A NOP of one quantum, followed by an entry of eight.
        (
            |stag| {
                let nop = vec![0, 0, 0, VALID | 0x0c << 32];
                let send = [VA, VALID | 8 << 32 | stag, 0, VALID | 14 << 38 | SEND];
                [nop, send.to_vec()].concat()
            },
            0x020B,
        ),
    ];
    for (n, (words, code)) in cases.into_iter().enumerate() {
        let (found, driver) = posted(words);
        let at = u64::from(n == 7);
        let text = format!("QP 3: work request at {at} gives event {code:#06x}");
        assert_eq!(found, [(Class::Fault, "wqe-malformed", text)], "case {n}");
        let event = driver.aeqe(0).map(|event| (event.0, event.4));
        assert_eq!(event, Some((code, at)));
    }
}

/// A datagram QP accepts only sends, and has lints of its own.
#[test]
fn requests_of_a_datagram_queue() {
    let mut driver = TestDriver::ready(Config::default());
    let mut qp = TestQp::create_ud(&mut driver, 3, PD, 1);
    qp.connect(&mut driver);
    qp.put(&mut driver, [0, 0, 1, 0x0c << 32], false);
    qp.doorbell(&mut driver);
    let text = "QP 3: send queue entry 0: [\"word 2 not zero\"]".to_owned();
    assert_eq!(found(&mut driver), [(Class::Lint, "wqe-bits", text)]);
    // A write.
    qp.put(&mut driver, [VA, 0, VA, 0], true);
    qp.doorbell(&mut driver);
    let text = "QP 3: work request at 1 gives event 0x020a".to_owned();
    assert_eq!(found(&mut driver), [(Class::Fault, "wqe-malformed", text)]);
}
