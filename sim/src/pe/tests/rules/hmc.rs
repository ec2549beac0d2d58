//! Context of the CQP, commit, segment descriptors, objects without backing.

use super::{finds, found, refuses, warns};
use crate::findings::Class;
use crate::pe::fpm::{FpmProfile, Kind};
use crate::pe::mr::Mr;
use crate::pe::tests::memory::{STAG, access, device, put, region};
use crate::pe::tests::test_driver::TestDriver;
use crate::pe::{Config, Doorbell, PeReg};
use crate::rc::Right;

const PARAMETER: &str = "cqp-parameter";
const STATE: &str = "cqp-state";
/// PMSDWR and PARTSEL of SDCMD.
const SDCMD: u64 = 1 << 31 | 1 << 15;

/// A driver with a CQP, before any commit.
fn bare() -> TestDriver {
    let mut driver = TestDriver::new(Config::default());
    driver.create_cqp();
    driver
}

fn committed() -> TestDriver {
    let mut driver = bare();
    driver.commit();
    driver
}

#[test]
fn the_context_of_the_cqp() {
    let mut driver = TestDriver::new(Config::default());
    let create = |driver: &mut TestDriver, context: u64| {
        driver.ring(Doorbell::CcqpHigh, (context >> 32) as u32);
        driver.ring(Doorbell::CcqpLow, context as u32);
        driver.env.reg(PeReg::CcqpStatus)
    };
    let sq = driver.env.alloc(512, 512);
    let context = driver.env.alloc(128, 64);
    assert_eq!(create(&mut driver, context + 2), 1 << 31);
    let text = format!("CQP context at {:#x} is not 4-aligned", context + 2);
    assert_eq!(found(&mut driver), [(Class::Fault, PARAMETER, text)]);
    // A bit of q40.
    let words = [0x210, sq, 1, 0, 1 << 16, 1 << 9, 0, 0];
    driver.env.set_words(context, &words);
    assert_eq!(create(&mut driver, context) & 1, 1);
    let [(class, kind, text)] = &found(&mut driver)[..] else {
        panic!("one finding");
    };
    assert_eq!((*class, *kind), (Class::Lint, "cqp-context-bits"));
    assert!(
        text.starts_with("CQP host context: undefined bits"),
        "{text}"
    );
    assert!(text.contains("0x200"), "{text}");
    assert_eq!(create(&mut driver, context), 1 << 31);
    let text = "CQP create: there is a CQP already".to_owned();
    assert_eq!(found(&mut driver), [(Class::Fault, STATE, text)]);
}

#[test]
fn what_is_committed() {
    let mut driver = committed();
    let commit = driver.commit;
    // The reply has bases in the upper halves, and one APBVT.
    let counts = |driver: &mut TestDriver, at: u64, count: u64| {
        for offset in (0..208).step_by(8) {
            let word = driver.env.word(commit + offset) & 0xFFFF_FFFF;
            let word = if offset == 40 { 0 } else { word };
            driver.env.set_word(commit + offset, word);
        }
        driver.env.set_word(commit + at, count);
        (0x21, [0, 0, 0, 208, commit, 0, 0, 0])
    };
    let words = counts(&mut driver, 120, 9);
    let text = "COMMIT_FPM_VAL: word 0x9 at offset 120 has undefined bits set";
    warns(&mut driver, words, "fpm-bits", text);
    driver.env.set_word(commit + 120, 0);
    let words = counts(&mut driver, 64, 31);
    let text = "XFFL: 31 entries for 32 blocks of XF";
    warns(&mut driver, words, "fpm-free-list", text);
    let words = counts(&mut driver, 0, 1025);
    let text = "COMMIT_FPM_VAL: 1025 QP objects; the maximum is 1024";
    refuses(&mut driver, words, PARAMETER, text);
    let text = format!("FPM commit buffer at {:#x} is not 4-aligned", commit + 2);
    let words = (0x21, [0, 0, 0, 208, commit + 2, 0, 0, 0]);
    refuses(&mut driver, words, PARAMETER, &text);
    let text = "COMMIT_FPM_VAL: BUFSIZE 200 is none of [208, 176]";
    let words = (0x21, [0, 0, 0, 200, commit, 0, 0, 0]);
    refuses(&mut driver, words, PARAMETER, text);
    let words = (0x21, [0, 0, 5, 208, commit, 0, 0, 0]);
    let text = "HMC function id 5: this is PF 0";
    refuses(&mut driver, words, PARAMETER, text);
    let words = counts(&mut driver, 0, 8);
    let mut driver = TestDriver::ready(Config::default());
    let text = "COMMIT_FPM_VAL after SHMC_PAGES_ALLOCATED";
    refuses(&mut driver, words, STATE, text);
}

#[test]
fn more_than_the_card_has_segments_for() {
    let profile = FpmProfile::card();
    let mut driver = TestDriver::new(Config {
        profile,
        ..Config::default()
    });
    driver.create_cqp();
    let buffer = driver.env.alloc(208, 64);
    for kind in Kind::all().filter(|kind| *kind != Kind::Apbvt) {
        let number = kind as u64;
        let place = if number < 15 { number } else { number + 1 };
        driver
            .env
            .set_word(buffer + 8 * place, profile.maximum(kind));
    }
    assert!(driver.command(0x21, [0, 0, 0, 208, buffer, 0, 0, 0]).error);
    let [(Class::Fault, PARAMETER, text)] = &found(&mut driver)[..] else {
        panic!("one fault");
    };
    let most = format!(" SDs; the function has {}", profile.max_sds());
    assert!(
        text.starts_with("COMMIT_FPM_VAL: the objects need "),
        "{text}"
    );
    assert!(text.ends_with(&most), "{text}");
}

#[test]
fn nothing_is_done_before_the_commit() {
    let mut driver = bare();
    let text = "UPDATE_PE_SDS before COMMIT_FPM_VAL";
    refuses(
        &mut driver,
        (0x1f, [SDCMD, 0, 0, 0, 0, 0, 0, 0]),
        STATE,
        text,
    );
    let text = "SHMC_PAGES_ALLOCATED before COMMIT_FPM_VAL";
    refuses(&mut driver, (0x2b, [0; 8]), STATE, text);
}

#[test]
fn segment_descriptors() {
    let mut driver = committed();
    let profile = FpmProfile::default();
    let maximum = u64::from(profile.max_sds());
    let buffer = driver.env.alloc(256, 256);
    let update = |cmd: u64, data: u64| (0x1f, [cmd, data, 0, 0, 0, 0, 0, 0]);
    let cases = [
        (
            (0x1f, [SDCMD, 0, buffer, 9, 0, 0, 0, 0]),
            "UPDATE_PE_SDS: ENTRY_COUNT 9 is above 8".to_owned(),
        ),
        (
            (0x1f, [SDCMD, 0, 0, 1 << 7, 0, 0, 0, 0]),
            "UPDATE_PE_SDS: SKIP_ENTRY".to_owned(),
        ),
        (
            (0x1f, [SDCMD, 0, buffer + 64, 1, 0, 0, 0, 0]),
            format!("SD entry buffer at {:#x} is not 128-aligned", buffer + 64),
        ),
        (
            update(1 << 31, 0),
            "SD 0: SDCMD 0x80000000 without PARTSEL or PMSDWR".to_owned(),
        ),
        (
            update(SDCMD | maximum, 0),
            format!("SD {maximum}: the function has {maximum}"),
        ),
        (
            update(SDCMD, 513 << 2 | 3),
            "SD 0: BPCOUNT 513 is above 512".to_owned(),
        ),
    ];
    for (words, text) in cases {
        refuses(&mut driver, words, PARAMETER, &text);
    }
    let text = format!("UPDATE_PE_SDS: buffer {buffer:#x} with ENTRY_COUNT 0");
    let words = (0x1f, [SDCMD, 0, buffer, 0, 0, 0, 0, 0]);
    warns(&mut driver, words, "sd-buffer", &text);
    let text = "SD 0: undefined bits 0x100000 in SDCMD";
    warns(&mut driver, update(SDCMD | 1 << 20, 0), "sd-bits", text);
    let text = "SD 1: the committed objects take 1";
    warns(&mut driver, update(SDCMD | 1, 0), "sd-unused", text);
    driver.direct_sd(0);
    let text = "SD 0 was valid with other backing";
    let other = driver.env.alloc(0x20_0000, 4096);
    warns(
        &mut driver,
        update(SDCMD, other | 512 << 2 | 3),
        "sd-replaced",
        text,
    );
}

/// All pages of the objects that the device allocates itself must be backed.
#[test]
fn objects_without_backing() {
    let backing = |data: u64, end: &str| {
        let mut driver = committed();
        driver.good(0x1f, [SDCMD, data, 0, 0, 0, 0, 0, 0]);
        assert!(driver.command(0x2b, [0; 8]).error);
        let found = found(&mut driver);
        assert!(
            found.iter().any(|(class, kind, text)| {
                let named = text.starts_with("HMC object ") && text.ends_with(end);
                (*class, *kind, named) == (Class::Fault, "hmc-backing", true)
            }),
            "{end}: {found:?}"
        );
    };
    let address = 0x100_0000;
    backing(0, ": SD 0 is not valid");
    backing(address | 1 << 2 | 3, " is beyond the BPCOUNT of its SD");
    let text = ": the IOMMU refused 0x1000010";
    backing(address | 512 << 2 | 1, text);
}

#[test]
fn a_list_of_lists_that_leads_nowhere() {
    let (mut device, mut env) = device();
    let leaf = [4096];
    let root = (Kind::Pble, 200);
    device.hmc.write(root, 0, &leaf, &mut env).unwrap();
    let long = Mr {
        level: 3,
        len: 514 * 4096,
        ..region(200)
    };
    put(&mut device, &mut env, 5, long);
    let read = access(STAG, 0x10_0010, Right::RemoteRead);
    let grant = device.grant(&read, 16, false, &mut env).unwrap();
    let read = device.read_grant(&grant, &mut [0; 16], &mut env);
    assert!(read.is_err());
    let text = "HMC object PBLE 4096: only 2048 are committed".to_owned();
    assert_eq!(env.findings, [(Class::Fault, "hmc-backing", text)]);
}

#[test]
fn another_part_of_the_page_descriptors() {
    let mut driver = committed();
    driver.ring(Doorbell::PdInv, 0x1_0000);
    let text = "PFHMC_PDINV = 0x10000: PMSDPARTSEL is not set";
    finds(&mut driver, "doorbell-partsel", text);
}
