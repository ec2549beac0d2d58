//! The package, and the lock under which it is loaded.

use e810_adminq::Error;
use e810_adminq::package::{LoadedBy, Package, load};

use super::fake::{Fake, Fault, FirmwareFake, Reply};
use super::{finish, started};

/// An unsigned package of three buffers, version 1.3.30.0, format `format`.
fn file(format: [u8; 4]) -> Vec<u8> {
    let segment = |kind: u32, body: &[u8]| {
        let size = 44 + body.len() as u32;
        [
            &kind.to_le_bytes()[..],
            &format,
            &size.to_le_bytes(),
            &[0; 32],
            body,
        ]
        .concat()
    };
    let mut buffer = vec![0; 4096];
    buffer[..4].copy_from_slice(&[1, 0, 0, 16]);
    buffer[4..12].copy_from_slice(&[80, 0, 0, 0, 12, 0, 4, 0]);
    let tables = [[0; 8].as_slice(), &[3, 0, 0, 0], &buffer.repeat(3)].concat();
    let metadata = segment(1, &[[1, 3, 30, 0].as_slice(), &[0; 36]].concat());
    let ours = segment(0x10, &tables);
    let second = 16 + metadata.len() as u32;
    let header = [
        [1, 0, 0, 0, 2, 0, 0, 0].as_slice(),
        &16u32.to_le_bytes(),
        &second.to_le_bytes(),
    ];
    [header.concat(), metadata, ours].concat()
}

#[test]
fn a_package_is_loaded_under_the_lock() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    fake.device_mut().state.busy = 3;
    let bytes = file([1, 0, 1, 0]);
    let package = Package::parse(&bytes).unwrap();
    let loaded = load(&mut queue, Some(&package), 1).unwrap();
    assert_eq!(loaded.by, LoadedBy::Us);
    assert_eq!(
        fake.device_mut().state.hunks,
        [0, 0, 1],
        "only the last is marked"
    );
    assert!(!fake.device_mut().state.locked);
    let opcodes = fake.opcodes();
    assert_eq!(
        opcodes[1..],
        [
            0x0C43, 8, 8, 8, 8, 0x0C40, 0x0C40, 0x0C40, 0x020D, 0x0203, 0x020C, 9, 0x020D, 0x0C43
        ]
    );
    finish(&fake, queue);
}

#[test]
fn another_functions_package_will_do() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    let bytes = file([1, 0, 1, 0]);
    let package = Package::parse(&bytes).unwrap();
    assert_eq!(load(&mut queue, None, 1), Err(Error::NoPackage.into()));
    fake.device_mut().state.done = true;
    let spoiled = load(&mut queue, Some(&package), 1).unwrap_err();
    assert_eq!(spoiled, Error::ConfiguredWithoutPackage.into());
    assert!(spoiled.to_string().contains("core reset"), "{spoiled}");
    fake.device_mut().state.active = Some([1, 3, 41, 0]);
    for given in [None, Some(&package)] {
        let loaded = load(&mut queue, given, 1).unwrap();
        assert_eq!(loaded.by, LoadedBy::AnotherFunction);
        assert_eq!(loaded.version.update, 41);
    }
    assert!(fake.device_mut().state.hunks.is_empty());
    fake.device_mut().state.active = Some([1, 2, 0, 0]);
    let failed = load(&mut queue, None, 1).unwrap_err();
    assert!(matches!(failed.error, Error::ActivePackage { .. }));
    finish(&fake, queue);
}

#[test]
fn an_old_firmware_is_seen_before_anything_is_sent() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    let bytes = file([1, 3, 0, 0]);
    let package = Package::parse(&bytes).unwrap();
    let failed = load(&mut queue, Some(&package), 1).unwrap_err();
    assert!(matches!(failed.error, Error::FirmwareTooOld { .. }));
    assert_eq!(fake.opcodes()[1..], [0x0C43]);
    finish(&fake, queue);
}

#[test]
fn a_lock_that_is_never_free_and_one_that_runs_out() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    let bytes = file([1, 0, 1, 0]);
    let package = Package::parse(&bytes).unwrap();
    fake.device_mut().state.busy = u32::MAX;
    let failed = load(&mut queue, Some(&package), 1).unwrap_err();
    assert!(matches!(failed.error, Error::Locked { limit_ms: 5000, .. }));
    assert!(!failed.lock_is_used_up);
    fake.device_mut().state.busy = 0;
    // Granted for 3 s; the download takes longer.
    for opcode in [0x0C40, 0x020D, 0x0203, 0x020C] {
        fake.device_mut().fault(opcode, Fault::Late(900));
    }
    let loaded = load(&mut queue, Some(&package), 1).unwrap();
    assert_eq!(loaded.by, LoadedBy::Us, "every buffer was accepted");
    assert!(!fake.device_mut().state.locked);
    let strange = Reply::params(12, &[9]);
    fake.device_mut().fault(8, Fault::Answer(strange));
    let failed = load(&mut queue, Some(&package), 1).unwrap_err();
    assert!(matches!(failed.error, Error::BadReply { value: 9, .. }));
    finish(&fake, queue);
}

#[test]
fn a_refused_buffer_is_named_and_the_lock_given_back() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    let bytes = file([1, 0, 1, 0]);
    let package = Package::parse(&bytes).unwrap();
    // A signature check that is not ready is asked again, four times.
    for _ in 0..4 {
        fake.device_mut().fault(0x0C40, Fault::Code(24));
    }
    load(&mut queue, Some(&package), 1).unwrap();
    fake.device_mut().state.hunks.clear();
    for _ in 0..5 {
        fake.device_mut().fault(0x0C40, Fault::Code(25));
    }
    let failed = load(&mut queue, Some(&package), 1).unwrap_err();
    assert!(
        matches!(failed.error, Error::PackageRefused { hunk: 0, .. }),
        "{failed}"
    );
    assert!(failed.lock_is_used_up);
    assert!(
        failed.to_string().contains("e810 up --reset-card"),
        "{failed}"
    );
    assert!(fake.device_mut().state.hunks.is_empty(), "nothing after it");
    let mut detailed = Reply::default().data([7, 0, 0, 0, 9, 0, 0, 0]);
    detailed.retval = 28;
    fake.device_mut().fault(0x0C40, Fault::Answer(detailed));
    let failed = load(&mut queue, Some(&package), 1).unwrap_err();
    let Error::PackageRefused { offset, detail, .. } = failed.error else {
        panic!("{failed}");
    };
    assert_eq!((offset, detail), (7, 9));
    assert!(!fake.device_mut().state.locked);
    finish(&fake, queue);
}

#[test]
fn a_silent_firmware_in_a_download_is_not_spoken_to_again() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    let bytes = file([1, 0, 1, 0]);
    let package = Package::parse(&bytes).unwrap();
    fake.device_mut().fault(0x0C40, Fault::Silent);
    let failed = load(&mut queue, Some(&package), 1).unwrap_err();
    assert!(matches!(failed.error, Error::Wait(_)), "{failed}");
    assert!(failed.lock_is_used_up);
    assert!(!fake.opcodes().contains(&9));
    drop(queue);
}
