//! ALLOC_STAG, REG_MR, DEALLOC_STAG.

use super::{refuses, warns};
use crate::pe::Config;
use crate::pe::tests::qp::TestQp;
use crate::pe::tests::test_driver::{PBLES, TestDriver};

const PARAMETER: &str = "cqp-parameter";
/// MR, VABASEDTO, local write.
const REGION: u64 = 1 << 43 | 1 << 59 | 1 << 48;
/// DEALLOC_STAG of STag index 5, a region in PD 0.
const DEALLOC: [u64; 8] = [0, 0, 5 << 8, 1 << 43, 0, 0, 0, 0];

#[test]
fn what_is_refused() {
    let mut driver = TestDriver::ready(Config::default());
    let list = format!("PBLEs 2047 to 2049: only {PBLES} are committed");
    let cases = [
        (
            [0x1000, 64, 5 << 8 | 1 << 54, REGION, 0, 0, 0, 0],
            "STag index 5: PD 262144",
        ),
        (
            [0x1000, 64, 32 << 8, REGION, 0, 0, 0, 0],
            "MR 32: only 32 are committed",
        ),
        (
            [0x1000, 64, 5 << 8, REGION & !(1 << 43), 0, 0, 0, 0],
            "REG_MR of STag index 5: MR is not set",
        ),
        (
            [0x1000, 64, 5 << 8, REGION | 2 << 44, 0, 0, 0, 0],
            "STag index 5: LPBLSIZE 2, HPAGESIZE 0",
        ),
        (
            [0x1000, 8192, 5 << 8, REGION | 1 << 44, 0, 0, PBLES - 1, 0],
            &list,
        ),
    ];
    for (words, text) in cases {
        refuses(&mut driver, (0x0a, words), PARAMETER, text);
    }
    let text = "DEALLOC_STAG: STag index 5 is not allocated";
    refuses(&mut driver, (0x0d, DEALLOC), "cqp-stag", text);
    let right = [0x1000, 64, 5 << 8, REGION, 0, 0, 0, 0];
    driver.good(0x0a, right);
    let text = "STag index 5 is in use";
    refuses(&mut driver, (0x0a, right), "cqp-state", text);
    let mut window = DEALLOC;
    window[3] = 0;
    let text = "DEALLOC_STAG 5: MR differs from its allocation";
    refuses(&mut driver, (0x0d, window), PARAMETER, text);
    let mut other = DEALLOC;
    other[1] = 3 << 46;
    let text = "DEALLOC_STAG 5: PD 3, it is in PD 0";
    warns(&mut driver, (0x0d, other), "stag-pd", text);
}

#[test]
fn what_is_odd() {
    let mut driver = TestDriver::ready(Config::default());
    let cases = [
        (
            [0x1000, 64, 5 << 8, REGION, 0, 1, 0, 0],
            "stag-function",
            "STag index 5: HMCFNIDX, USEHMCFNIDX or USEPFRID is set",
        ),
        (
            [0x1000, 64, 5 << 8, REGION, 0x1008, 0, 0, 0],
            "stag-page",
            "STag index 5: page address 0x1008 is not 4096-aligned",
        ),
        (
            [0x1000, 64, 5 << 8, REGION, 0, 0, 9, 0],
            "stag-page",
            "STag index 5: address 0x9 that LPBLSIZE 0 does not use",
        ),
        (
            [0x1000, 64, 5 << 8, REGION | 1 << 44, 0x7000, 0, 9, 0],
            "stag-page",
            "STag index 5: address 0x7000 that LPBLSIZE 1 does not use",
        ),
        (
            [0x1000, 64, 5 << 8, REGION | 4 << 48, 0, 0, 0, 0],
            "stag-rights",
            "STag index 5: rights 0x5 with REMACCENABLED false",
        ),
        (
            [0x1000, 64, 5 << 8, REGION | 1 << 53, 0, 0, 0, 0],
            "stag-rights",
            "STag index 5: rights 0x1 with REMACCENABLED true",
        ),
        (
            [0, (1 << 45) + 1, 5 << 8, REGION, 0, 0, 0, 0],
            "stag-bytes",
            "STag index 5: 0x200000000001 bytes; regions end at 0x200000000000",
        ),
    ];
    for (words, kind, text) in cases {
        warns(&mut driver, (0x0a, words), kind, text);
        driver.good(0x0d, DEALLOC);
    }
}

#[test]
fn a_region_with_a_window() {
    let mut driver = TestDriver::ready(Config::default());
    let mut qp = TestQp::create(&mut driver, 3, 7, 1);
    // BINDEN.
    let word = driver.env.word(qp.context + 160);
    driver.env.set_word(qp.context + 160, word | 1 << 23);
    qp.connect(&mut driver);
    let (region, _) = driver.register(9, 7, 0x1000, 4096, 0x1F);
    driver.good(0x09, [0, 7 << 46, 6 << 8, 0, 0, 0, 0, 0]);
    let bind = 1 << 62 | 1 << 53 | 4 << 48 | 8 << 32;
    let stags = u64::from(region) << 32 | 6 << 8 | 0x11;
    qp.put(&mut driver, [0x1000, stags, 64, bind], false);
    qp.doorbell(&mut driver);
    assert_eq!(driver.aeqe(0), None);
    assert!(qp.send.poll(&mut driver.env).is_some());
    let dealloc = [0, 7 << 46, 9 << 8, 1 << 43, 0, 0, 0, 0];
    let text = "DEALLOC_STAG 9: 1 windows are bound to it";
    refuses(&mut driver, (0x0d, dealloc), "cqp-state", text);
}
