//! CREATE_QP to DESTROY_QP, and the requests to a queue pair in between.

use super::{finds, refuses, warns};
use crate::pe::Config;
use crate::pe::tests::qp::{FLUSH_SQ, TestQp};
use crate::pe::tests::test_driver::{GOOD, TestDriver};

const PARAMETER: &str = "cqp-parameter";
const STATE: &str = "cqp-state";
/// QPTYPE RoCE RC.
const RC: u64 = 3 << 48;
const MACVALID: u64 = 1 << 51;
const CQNUMVALID: u64 = 1 << 47;
const IDLE: u64 = 1 << 60;
const ARPTABIDXVALID: u64 = 1 << 59;
/// A correct CREATE_QP 3.
const CREATE: u64 = RC | MACVALID | CQNUMVALID | IDLE | 3;
const RINGS: &str = "it must be a power of two from 4 to 32768";

/// A driver whose QP 3 has its queues and its context, but is not created yet.
fn prepared() -> (TestDriver, TestQp) {
    let mut driver = TestDriver::ready(Config::default());
    let qp = TestQp::create(&mut driver, 3, 7, 1);
    assert_eq!(qp.destroy(&mut driver), GOOD);
    (driver, qp)
}

/// CREATE_QP or another command on a QP with a context.
fn words(qp: &TestQp, header: u64) -> [u64; 8] {
    [0, 0, qp.context, header, 0, qp.shadow, 0, 0]
}

#[test]
fn a_command_that_creates() {
    let (mut driver, qp) = prepared();
    TestQp::create(&mut driver, 4, 7, 1);
    let cases = [
        (CREATE + 1, STATE, "CREATE_QP: QP 4 exists"),
        (CREATE + 5, PARAMETER, "QP 8: only 8 are committed"),
        (CREATE & !RC, PARAMETER, "CREATE_QP 3: QPTYPE 0"),
        // A user who switches Linux to iWARP gets an error, not a connection that hangs.
        (
            CREATE & !RC | 1 << 48,
            PARAMETER,
            "CREATE_QP 3: QPTYPE 1: iWARP is not served here",
        ),
        (
            CREATE & !RC | 2 << 48,
            PARAMETER,
            "CREATE_QP 3: QPTYPE 2: iWARP is not served here",
        ),
        (
            CREATE & !IDLE | 2 << 60,
            PARAMETER,
            "CREATE_QP 3: NEXTIWSTATE is not idle",
        ),
        (
            CREATE & !CQNUMVALID,
            PARAMETER,
            "CREATE_QP 3 without CQNUMVALID",
        ),
    ];
    for (header, kind, text) in cases {
        refuses(&mut driver, (0x00, words(&qp, header)), kind, text);
    }
    let mut shadow = words(&qp, CREATE);
    shadow[5] += 4;
    let text = format!("QP 3: shadow area at {:#x}", qp.shadow + 4);
    refuses(&mut driver, (0x00, shadow), PARAMETER, &text);
}

/// Replaces one word of the context.
#[test]
fn a_context_that_is_refused() {
    let (mut driver, qp) = prepared();
    let send = qp.send.id;
    let cases = [
        (
            (48, 1000 << 16 | 3 << 48),
            PARAMETER,
            "CREATE_QP 3: SNDMSS: 1000 is no path MTU; use 256, 512, 1024, 2048 or 4096".to_owned(),
        ),
        (
            (160, 4 | 3 << 20 | 5 << 16),
            PARAMETER,
            "CREATE_QP 3: IRDSIZE code 5; codes are 0 to 4".to_owned(),
        ),
        (
            (24, 15 << 12 | 2 << 8),
            PARAMETER,
            format!("CREATE_QP 3: a ring of 131072 quanta; {RINGS}"),
        ),
        (
            (24, 2 << 12 | 15 << 8),
            PARAMETER,
            format!("CREATE_QP 3: a ring of 131072 quanta; {RINGS}"),
        ),
        (
            (136, send | 15 << 32),
            STATE,
            "a QP's CQ: there is no CQ 15".to_owned(),
        ),
    ];
    for ((offset, word), kind, text) in cases {
        qp.write_context(&mut driver);
        driver.env.set_word(qp.context + offset, word);
        refuses(&mut driver, (0x00, words(&qp, CREATE)), kind, &text);
    }
    // Slots of eight quanta on a ring of four.
    qp.write_context(&mut driver);
    driver.env.set_word(qp.context, 1 << 3 | 3 << 8);
    driver.env.set_word(qp.context + 24, 2 << 12);
    let text = "CREATE_QP 3: receive slots of 8 quanta; they must be 1, 2, 4 or 8 and fit the ring";
    refuses(&mut driver, (0x00, words(&qp, CREATE)), PARAMETER, text);
}

#[test]
fn a_context_that_is_odd() {
    let (mut driver, qp) = prepared();
    let cases = [
        (
            (qp.context + 8, qp.sq + 32),
            "qp-alignment",
            format!("QP 3: SQ at {:#x} is not 256-aligned", qp.sq + 32),
        ),
        (
            (qp.context + 72, 1),
            "qp-context-bits",
            "QP 3: host context word 72 has undefined bits 0x1 set".to_owned(),
        ),
        (
            (qp.shadow + 16, 7),
            "shadow-content",
            "QP 3: shadow area with 0x7 at 16".to_owned(),
        ),
    ];
    for ((at, word), kind, text) in cases {
        qp.write_context(&mut driver);
        let right = driver.env.word(at);
        driver.env.set_word(at, word);
        warns(&mut driver, (0x00, words(&qp, CREATE)), kind, &text);
        driver.env.set_word(at, right);
        assert_eq!(qp.destroy(&mut driver), GOOD);
    }
}

#[test]
fn a_queue_pair_without_a_neighbour() {
    let (mut driver, qp) = prepared();
    driver.good(0x00, words(&qp, CREATE));
    let modify = RC | CQNUMVALID | ARPTABIDXVALID | 4 << 60 | 3;
    let text = "QP 3: ARP entry 3 is not valid";
    warns(&mut driver, (0x01, words(&qp, modify)), "qp-arp", text);
}

#[test]
fn steps_without_what_drivers_give() {
    const ORDVALID: u64 = 1 << 42;
    let to = |state: u64| RC | CQNUMVALID | ARPTABIDXVALID | ORDVALID | state << 60 | 3;
    for (state, left_out, text) in [
        (4, CQNUMVALID, "QP 3: to Rtr without CQNUMVALID"),
        (4, ARPTABIDXVALID, "QP 3: to Rtr without ARPTABIDXVALID"),
        (2, CQNUMVALID, "QP 3: to Rts without CQNUMVALID"),
        (2, ARPTABIDXVALID, "QP 3: to Rts without ARPTABIDXVALID"),
        (2, ORDVALID, "QP 3: to Rts without ORDVALID"),
    ] {
        let mut driver = TestDriver::ready(Config::default());
        let qp = TestQp::create(&mut driver, 3, 7, 1);
        qp.add_neighbour(&mut driver);
        if state == 2 {
            driver.good(0x01, words(&qp, to(4)));
        }
        let step = words(&qp, to(state) & !left_out);
        warns(&mut driver, (0x01, step), "qp-pieces", text);
    }
    let mut driver = TestDriver::ready(Config::default());
    let qp = TestQp::create(&mut driver, 3, 7, 1);
    qp.add_neighbour(&mut driver);
    driver.good(0x01, words(&qp, to(4)));
    let [first, both] = [80, 96].map(|at| driver.env.word(qp.context + at));
    let first = first & 0xFF_FFFF;
    driver
        .env
        .set_word(qp.context + 96, both & !0xFF_FFFF | first ^ 1);
    let text = format!(
        "QP 3: to RTS with PSNNXT {first}, PSNMAX {} and PSNUNA {first}",
        first ^ 1
    );
    warns(&mut driver, (0x01, words(&qp, to(2))), "qp-pieces", &text);
}

#[test]
fn a_queue_pair_without_an_address() {
    let (mut driver, qp) = prepared();
    driver.good(0x00, words(&qp, CREATE & !MACVALID));
    let modify = RC | CQNUMVALID | ARPTABIDXVALID | 4 << 60 | 3;
    let text = "QP 3: no source MAC was ever marked valid (MACVALID)";
    qp.add_neighbour(&mut driver);
    warns(&mut driver, (0x01, words(&qp, modify)), "qp-mac", text);
}

#[test]
fn commands_on_a_queue_pair() {
    let mut driver = TestDriver::ready(Config::default());
    let qp = TestQp::create(&mut driver, 3, 7, 1);
    let buffer = driver.env.alloc(256, 256);
    let other = 4 << 48 | IDLE | 3;
    let upload = [0, 0, buffer, 4 << 48 | 3, 0, 0, 0, 0];
    let cases = [
        (
            (0x01, words(&qp, other)),
            "MODIFY_QP 3: QPTYPE or VQ differ from CREATE_QP",
        ),
        (
            (0x01, words(&qp, RC | 1 << 45 | IDLE | 3)),
            "MODIFY_QP 3: QPTYPE or VQ differ from CREATE_QP",
        ),
        (
            (0x01, words(&qp, RC | 7 << 60 | 3)),
            "MODIFY_QP 3: NEXTIWSTATE 7",
        ),
        (
            (0x02, words(&qp, 4 << 48 | 3)),
            "DESTROY_QP 3: QPTYPE differs from CREATE_QP",
        ),
        (
            (0x13, upload),
            "UPLOAD_CONTEXT 3: QPTYPE differs from CREATE_QP",
        ),
    ];
    for (words, text) in cases {
        refuses(&mut driver, words, PARAMETER, text);
    }
    let mtu = 1000 << 16 | 3 << 48;
    driver.env.set_word(qp.context + 48, mtu);
    let to_rtr = RC | CQNUMVALID | ARPTABIDXVALID | 4 << 60 | 3;
    let text = "MODIFY_QP 3: SNDMSS: 1000 is no path MTU; use 256, 512, 1024, 2048 or 4096";
    refuses(&mut driver, (0x01, words(&qp, to_rtr)), PARAMETER, text);
    qp.write_context(&mut driver);
    let text = "MODIFY_QP 3: TERMACT 2 for Idle";
    let stays = words(&qp, RC | IDLE | 2 << 56 | 3);
    warns(&mut driver, (0x01, stays), "qp-termact", text);
    let mut elsewhere = words(&qp, RC | IDLE | 3);
    elsewhere[5] += 64;
    let text = "MODIFY_QP 3: another shadow area";
    warns(&mut driver, (0x01, elsewhere), "qp-other-shadow", text);
    let gone = words(&qp, RC | IDLE | 5);
    let text = "MODIFY_QP: there is no QP 5";
    refuses(&mut driver, (0x01, gone), STATE, text);
}

#[test]
fn a_queue_pair_at_work() {
    let mut driver = TestDriver::ready(Config::default());
    let qp = TestQp::create(&mut driver, 3, 7, 1);
    qp.connect(&mut driver);
    // Whether "nothing to flush" is an error is a choice of the card.
    driver.command(0x22, [0, 0, 0, 3, 0, 0, 0, 0]);
    finds(
        &mut driver,
        "flush-nothing",
        "QP 3: FLUSH_WQES that asks for nothing",
    );
    qp.flush(&mut driver, FLUSH_SQ);
    finds(&mut driver, "flush-state", "QP 3: flushed in state Rts");
    let suspend = [0, 0, 0, 3, 0, 0, 0, 0];
    driver.good(0x29, suspend);
    let text = "QP 3 is suspended already";
    warns(&mut driver, (0x29, suspend), "qp-suspend", text);
    let resume = [0, 0, 999, 3, 0, 0, 0, 0];
    let text = "QP 3: QSHANDLE 999 is not one that WORK_SCHED_NODE returned";
    warns(&mut driver, (0x2a, resume), "qp-queue-set", text);
    let text = "RESUME_QP: QP 3 is not suspended";
    refuses(&mut driver, (0x2a, resume), STATE, text);
}
