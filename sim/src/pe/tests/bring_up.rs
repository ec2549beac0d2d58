//! Bring-up of the engine from CQP create to the event queues, and its error cases.

use super::env::TestEnv;
use super::test_driver::{Done, GOOD, TestDriver};
use crate::findings::Class;
use crate::pe::{Config, CqpErrors, Doorbell, FpmProfile, PeReg, ProtocolEngine, ResetKind};

const ERROR: u16 = 0xFFFF;

#[test]
fn a_driver_gets_from_reset_to_events_without_a_finding() {
    let mut driver = TestDriver::new(Config::default());
    driver.create_cqp();
    let features = driver.env.alloc(272, 16);
    driver.good(0x12, [0, 0, 0, 272, features, 0, 0, 0]);
    // FEATURE_CNT [47:32] of the first word counts the entries, types are in [63:48].
    let count = driver.env.word(features) >> 32 & 0xFFFF;
    assert!(count >= 2);
    let types: Vec<u64> = (0..count)
        .map(|n| driver.env.word(features + 8 * n) >> 48)
        .collect();
    assert_eq!(types[0], 0);
    assert!(types.is_sorted());
    driver.hmc();
    driver.events(64);
    assert_eq!(driver.env.findings, []);
    // The CCQ armed: the next command's CQE makes one CEQE and one interrupt.
    let (_, shadow, _) = driver.ccq.unwrap();
    driver.env.set_word(shadow + 32, 1 << 16 | 1 << 14);
    driver.ring(Doorbell::CqArm, 0);
    driver.good(0x23, [0, 0, 4791, 1 << 62, 0, 0, 0, 0]);
    driver.good(0x23, [0, 0, 4791, 0, 0, 0, 0, 0]);
    assert_eq!(driver.env.ceqs, [0]);
    driver.ring(Doorbell::CqAck, 0);
    assert_eq!(driver.env.findings, []);
}

#[test]
fn the_commit_reply_lays_objects_out_in_512_byte_steps() {
    let mut driver = TestDriver::new(Config::default());
    driver.create_cqp();
    driver.commit();
    let order = [
        0, 8, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 128, 136, 144, 152,
    ];
    let bases: Vec<u64> = order.iter().map(|offset| driver.base(*offset)).collect();
    assert!(bases.is_sorted_by(|a, b| a < b), "{bases:?}");
    // QP objects of 1 KiB come first; APBVT is one object of 8 KiB.
    assert_eq!(bases[1], super::test_driver::QPS * 1024);
    assert_eq!(bases[5] - bases[4], 8192);
    assert_eq!(driver.env.word(driver.commit + 40) & 0xFFFF_FFFF, 1);
    assert_eq!(driver.env.findings, []);
}

#[test]
fn a_wrong_host_context_gives_ccqp_err() {
    // SQSIZE 0, HMC_PROFILE 0, HW_MAJVER 2.
    for broken in [(0, 0x10), (16, 0), (32, 2 << 16)] {
        let mut env = TestEnv::new(1);
        let mut engine = ProtocolEngine::new(Config::default());
        let sq = env.alloc(512, 512);
        let context = env.alloc(64, 64);
        env.set_words(context, &[0x210, sq, 1, 0, 1 << 16, 0, 0, 0]);
        env.set_word(context + broken.0, broken.1);
        engine.doorbell(Doorbell::CcqpHigh, (context >> 32) as u32, &mut env);
        engine.doorbell(Doorbell::CcqpLow, context as u32, &mut env);
        env.now = engine.next_deadline().unwrap();
        engine.step(&mut env);
        assert_eq!(env.reg(PeReg::CcqpStatus), 1 << 31);
        assert_eq!(env.reg(PeReg::CqpErrCodes) >> 16, u32::from(ERROR));
        assert_eq!(env.kinds(), ["cqp-parameter"]);
    }
}

#[test]
fn a_context_that_is_not_mapped_is_a_dma_fault_and_ccqp_err() {
    let mut driver = TestDriver::new(Config::default());
    driver.ring(Doorbell::CcqpHigh, 1);
    driver.ring(Doorbell::CcqpLow, 0x1000);
    assert_eq!(driver.env.reg(PeReg::CcqpStatus), 1 << 31);
    assert_eq!(driver.env.faults, 1);
}

#[test]
fn commands_take_time_and_the_tail_moves_at_their_end() {
    let config = Config {
        cqp_delay: (1_000, 1_000),
        ..Config::default()
    };
    let mut driver = TestDriver::new(config);
    driver.create_cqp();
    let buffer = driver.env.alloc(512, 16);
    driver.post(0x20, [0, 0, 0, 0, buffer, 0, 0, 0]);
    driver.engine.doorbell(Doorbell::CqpDb, 1, &mut driver.env);
    while driver.engine.step(&mut driver.env) {}
    assert_eq!(driver.env.reg(PeReg::CqpTail), 0);
    let due = driver.engine.next_deadline().unwrap();
    assert_eq!(due, driver.env.now + 1_000);
    driver.env.now = due;
    while driver.engine.step(&mut driver.env) {}
    assert_eq!(driver.env.reg(PeReg::CqpTail), 1);
    assert_ne!(driver.env.word(buffer + 8), 0);
}

#[test]
fn a_wqe_of_the_wrong_lap_is_not_executed() {
    let mut driver = TestDriver::new(Config::default());
    driver.create_cqp();
    // The doorbell is rung before the header is written.
    driver.ring(Doorbell::CqpDb, 1);
    assert_eq!(driver.env.reg(PeReg::CqpTail), 0);
    assert_eq!(driver.env.kinds(), ["cqp-valid"]);
    driver.env.findings.clear();
    // After another ring the command is executed.
    let buffer = driver.env.alloc(512, 16);
    driver.good(0x12, [0, 0, 0, 272, buffer, 0, 0, 0]);
    assert_eq!(driver.env.findings, []);
}

#[test]
fn doorbells_without_a_cqp_or_beyond_the_ring_are_found() {
    let mut driver = TestDriver::new(Config::default());
    driver.ring(Doorbell::CqpDb, 1);
    driver.create_cqp();
    driver.ring(Doorbell::CqpDb, 8);
    driver.ring(Doorbell::WqeAlloc, 3);
    driver.ring(Doorbell::CqArm, 3);
    driver.ring(Doorbell::AeqAlloc, 1);
    let kinds = [
        "doorbell-cqp",
        "cqp-head",
        "doorbell-qp",
        "doorbell-cq",
        "doorbell-aeq",
    ];
    assert_eq!(driver.env.kinds(), kinds);
}

#[test]
fn unknown_opcodes_and_undefined_bits() {
    let mut driver = TestDriver::ready(Config::default());
    // QUERY_STAG, REG_SMR, MANAGE_VF_PBLE_BP, "modify CEQ", NOP: opcodes that are named or
    // numbered, but have no format.
    for opcode in [0x0b, 0x0c, 0x10, 0x17, 0x24, 0x3f] {
        let done = driver.command(opcode, [0; 8]);
        assert!(done.error && done.major == ERROR, "{opcode:#x} {done:?}");
        assert_eq!(driver.env.findings.pop().unwrap().1, "cqp-opcode");
    }
    driver.good(0x23, [1, 0, 4791, 1 << 62, 0, 0, 0, 0]);
    let (class, kind, _) = driver.env.findings.pop().unwrap();
    assert_eq!((class, kind), (Class::Lint, "cqp-bits"));
    assert_eq!(driver.env.findings, []);
}

#[test]
fn objects_need_shmc_pages_allocated() {
    let mut driver = TestDriver::new(Config::default());
    driver.create_cqp();
    driver.commit();
    let done = driver.command(0x03, [64, 0, 16, 1 << 49, 0x1000, 0x1000, 0, 0]);
    assert_eq!((done.error, done.minor), (true, 0x8002));
    assert_eq!(driver.env.kinds(), ["cqp-state"]);
}

#[test]
fn missing_backing_is_an_hmc_error() {
    let mut driver = TestDriver::new(Config::default());
    driver.create_cqp();
    driver.commit();
    let done = driver.command(0x2b, [0; 8]);
    assert_eq!((done.error, done.major), (true, 0xF000));
    assert!(driver.env.kinds().iter().all(|kind| *kind == "hmc-backing"));
    assert_eq!(driver.env.oicr, 1 << 26);
    // ERROR_DETECTED, and the first object type that was not backed: HTE, 3.
    let info = driver.env.reg(PeReg::HmcErrorInfo);
    assert_eq!((info >> 31, info >> 16 & 0x1F, info & 0x1F), (1, 3, 0));
}

#[test]
fn a_paged_sd_must_have_the_pages_of_what_the_device_hands_out() {
    let mut driver = TestDriver::new(Config::default());
    driver.create_cqp();
    driver.commit();
    let (pds, page) = (driver.env.alloc(4096, 4096), driver.env.alloc(4096, 4096));
    // HTE is the first type that the device allocates itself; PBLEs and objects that software
    // addresses may follow later.
    let pages = |first: u64, last: u64| first / 4096..=(last - 1) / 4096;
    let needed =
        pages(driver.base(24), driver.base(32)).chain(pages(driver.base(40), driver.base(48)));
    let needed = needed
        .chain(pages(driver.base(56), driver.base(96)))
        .chain(pages(driver.base(128), driver.base(152) + 16 * 64));
    for pd in needed.clone() {
        driver.env.set_word(pds + 8 * pd, page | 1);
    }
    let missing = needed.clone().next().unwrap();
    driver.env.set_word(pds + 8 * missing, 0);
    // Paged: TYPE 0.
    driver.good(
        0x1f,
        [1 << 15 | 1 << 31, pds | 512 << 2 | 1, 0, 0, 0, 0, 0, 0],
    );
    assert!(driver.command(0x2b, [0; 8]).error);
    assert_eq!(driver.env.kinds()[0], "hmc-backing");
    driver.env.set_word(pds + 8 * missing, page | 1);
    driver.ring(Doorbell::PdInv, 1 << 15 | (missing as u32) << 16);
    assert!(!driver.command(0x2b, [0; 8]).error);
}

#[test]
fn refused_commits() {
    let mut driver = TestDriver::new(Config::default());
    driver.create_cqp();
    let buffer = driver.env.alloc(208, 64);
    // One QP more than the maximum of the small profile.
    driver.env.set_word(buffer, 1025);
    assert!(driver.command(0x21, [0, 0, 0, 208, buffer, 0, 0, 0]).error);
    // A wrong size, a wrong function.
    driver.env.set_word(buffer, 8);
    assert!(driver.command(0x21, [0, 0, 0, 200, buffer, 0, 0, 0]).error);
    assert!(driver.command(0x21, [0, 0, 5, 208, buffer, 0, 0, 0]).error);
    assert_eq!(driver.env.kinds(), ["cqp-parameter"; 3]);
}

/// Linux 6.12 ends both buffers before GEN_3's words; the memory behind them is not the device's.
#[test]
fn short_buffers_are_enough() {
    let mut driver = TestDriver::new(Config::default());
    driver.create_cqp();
    let query = driver.env.alloc(256, 64);
    driver.env.set_word(query + 176, 0x5a5a);
    driver.good(0x20, [0, 0, 0, 0, query, 0, 0, 0]);
    assert_eq!(driver.env.word(query + 176), 0x5a5a);
    let commit = driver.env.alloc(256, 64);
    driver.env.set_word(commit, 8);
    driver.env.set_word(commit + 176, 0x5a5a);
    driver.good(0x21, [0, 0, 0, 176, commit, 0, 0, 0]);
    assert_eq!(driver.env.word(commit + 176), 0x5a5a);
    assert_eq!(driver.env.kinds().len(), 0);
}

#[test]
fn injected_errors_and_silence() {
    let injected = Done {
        value: 0,
        major: ERROR,
        minor: 0x80FF,
        error: true,
    };
    let mut driver = TestDriver::new(Config {
        cqp_errors: CqpErrors::Nth(1),
        ..Config::default()
    });
    driver.create_cqp();
    let buffer = driver.env.alloc(512, 16);
    let query = [0, 0, 0, 0, buffer, 0, 0, 0];
    assert_eq!(driver.command(0x20, query), GOOD);
    assert_eq!(driver.command(0x20, query), injected);
    assert_eq!(driver.command(0x20, query), GOOD);
    driver.engine.config_mut().cqp_errors = CqpErrors::Opcode(0x20);
    assert_eq!(driver.command(0x20, query), injected);
    assert_eq!(driver.command(0x12, [0, 0, 0, 272, buffer, 0, 0, 0]), GOOD);
    driver.engine.config_mut().cqp_silent = true;
    driver.post(0x20, query);
    driver.ring_cqp();
    assert_eq!(driver.env.reg(PeReg::CqpTail), 5);
    assert_eq!(driver.env.findings, []);
    // Destroy still works.
    driver.ring(Doorbell::CcqpHigh, 0);
    driver.ring(Doorbell::CcqpLow, 0);
    assert_eq!(driver.env.reg(PeReg::CcqpStatus), 0);
}

#[test]
fn destroy_and_create_start_anew() {
    let mut driver = TestDriver::ready(Config::default());
    driver.create_cq(5, 64);
    driver.ring(Doorbell::CcqpHigh, 0);
    driver.ring(Doorbell::CcqpLow, 0);
    assert_eq!(driver.env.reg(PeReg::CcqpStatus), 0);
    // The same backing again: its old contents are not mistaken for objects.
    let backing = driver.backing.clone();
    driver.ccq = None;
    driver.create_cqp();
    driver.commit();
    driver.good(
        0x1f,
        [
            1 << 15 | 1 << 31,
            backing[0] | 512 << 2 | 3,
            0,
            0,
            0,
            0,
            0,
            0,
        ],
    );
    driver.good(0x2b, [0; 8]);
    driver.events(64);
    driver.create_cq(5, 64);
    assert_eq!(driver.env.findings, []);
}

#[test]
fn nothing_is_touched_after_a_reset() {
    let mut driver = TestDriver::ready(Config::default());
    driver.create_cq(5, 64);
    driver.post(0x23, [0, 0, 1, 1 << 62, 0, 0, 0, 0]);
    driver.engine.doorbell(Doorbell::CqpDb, 1, &mut driver.env);
    driver.engine.step(&mut driver.env);
    driver.engine.reset(ResetKind::Pfr);
    for backing in driver.backing.clone() {
        driver.env.unmap(backing);
    }
    driver.settle();
    assert_eq!(driver.engine.next_deadline(), None);
    assert_eq!((driver.env.faults, driver.env.findings.len()), (0, 0));
}

/// A reset of the card reaches drivers that did not request it. A driver that requested a reset
/// knows what is gone.
#[test]
fn doorbells_after_a_reset_of_the_card_are_nobodys_fault() {
    let late = [
        (Doorbell::CqpDb, 5),
        (Doorbell::CqArm, 5),
        (Doorbell::CqAck, 5),
        (Doorbell::WqeAlloc, 3),
        (Doorbell::AeqAlloc, 1),
    ];
    let found = |kind| {
        let mut driver = TestDriver::ready(Config::default());
        driver.create_cq(5, 64);
        driver.engine.reset(kind);
        for (doorbell, value) in late {
            driver.engine.doorbell(doorbell, value, &mut driver.env);
        }
        driver.settle();
        driver.env.findings.len()
    };
    assert_eq!(found(ResetKind::Core), 0);
    assert!(found(ResetKind::Pfr) >= 4);
    // After a new start, errors are reported again.
    let mut driver = TestDriver::new(Config::default());
    driver.engine.reset(ResetKind::Core);
    driver.create_cqp();
    driver.ring(Doorbell::CqArm, 5);
    assert_eq!(driver.env.kinds(), ["doorbell-cq"]);
}

#[test]
fn contexts_leave_the_chip_when_their_sd_is_cleared() {
    let mut driver = TestDriver::ready(Config::default());
    let mut cq = driver.create_cq(5, 64);
    // CQ 0 is in the same SD, and so is its context: the CCQ answers once more, from its cache.
    driver.post(0x1f, [1 << 15 | 1 << 31, 512 << 2 | 2, 0, 0, 0, 0, 0, 0]);
    driver.ring_cqp();
    // The completion needs the CCQ's context, which is gone.
    assert!(driver.take_ccq().is_none());
    assert_eq!(driver.env.kinds(), ["hmc-backing"]);
    assert_eq!(driver.env.oicr, 1 << 26);
    assert!(cq.poll(&mut driver.env).is_none());
    // Clearing wrote the contexts back before it dropped them, so after mapping again they are as
    // before.
    driver.env.findings.clear();
    let backing = driver.backing[0];
    driver.post(
        0x1f,
        [1 << 15 | 1 << 31, backing | 512 << 2 | 3, 0, 0, 0, 0, 0, 0],
    );
    driver.ring_cqp();
    assert!(driver.take_ccq().is_some());
    assert_eq!(driver.env.findings, []);
}

#[test]
fn sd_entries_behind_the_used_ones_are_not_read() {
    let mut driver = TestDriver::new(Config {
        profile: FpmProfile::card(),
        ..Config::default()
    });
    driver.create_cqp();
    let buffer = driver.env.alloc(208, 64);
    // 2 Mi PBLEs make eight SDs.
    driver.env.set_words(buffer, &[8, 16]);
    driver.env.set_word(buffer + 112, 1 << 20);
    driver.good(0x21, [0, 0, 0, 208, buffer, 0, 0, 0]);
    let slot = driver.env.alloc(128, 128);
    let entry = |n: u64| {
        [
            n | 1 << 15 | 1 << 31,
            (0x10_0000_0000 + (n << 21)) | 512 << 2 | 3,
        ]
    };
    let [c0, d0] = entry(0);
    let [c1, d1] = entry(1);
    let [c2, d2] = entry(2);
    driver.env.set_words(slot, &entry(3));
    // Left over from an earlier use: not even a valid command.
    driver.env.set_words(slot + 16, &[0xdead, 0xbeef]);
    driver.good(0x1f, [c0, d0, slot, 1, c1 | 1 << 63, d1, c2 | 1 << 63, d2]);
    assert_eq!(driver.env.findings, []);
    // There cannot be a ninth entry.
    assert!(driver.command(0x1f, [c0, d0, slot, 9, 0, 0, 0, 0]).error);
}
