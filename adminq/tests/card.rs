//! Resets, package, scheduler tree and link against a scripted firmware.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that panics fails, as it should"
)]

mod fake;

use e810_adminq::link::{self, NoLink};
use e810_adminq::op::TxQueueContext;
use e810_adminq::package::{LoadedBy, Package, load};
use e810_adminq::reset::{self, GlobalReset, ResetDone};
use e810_adminq::tree::Tree;
use e810_adminq::{AdminQ, Error};
use e810_hal::bus::{PfId, TxQueueId, VsiId};
use e810_hal::{Clock, Iova, Ns, WaitError};
use fake::{Fake, Fault, FirmwareFake, Reply};

fn started(fake: &Fake) -> AdminQ<Fake> {
    AdminQ::start(fake.clone()).unwrap()
}

fn finish(fake: &Fake, queue: AdminQ<Fake>) {
    queue.shutdown().unwrap();
    fake.assert_clean();
}

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
fn a_function_reset_is_waited_for() {
    let fake = Fake::default();
    assert_eq!(reset::reset_function(&fake, false), Ok(ResetDone::Function));
    // One that existing drivers would report as failed, and one that is.
    fake.device_mut().reset_reads = 301;
    assert_eq!(reset::reset_function(&fake, false), Ok(ResetDone::Function));
    fake.device_mut().reset_reads = u32::MAX;
    let start = fake.now();
    assert!(reset::reset_function(&fake, false).is_err());
    assert!(fake.now() - start >= Ns::from_ms(5_300));
}

#[test]
fn a_running_reset_of_the_card_is_waited_for_instead() {
    let fake = Fake::default();
    fake.device_mut().set(0xB_8188, 1);
    let start = fake.now();
    let error = reset::reset_function(&fake, false).unwrap_err();
    assert!(matches!(error, Error::Wait(WaitError::Timeout { .. })));
    // GRSTDEL is 2: (2 + 10) times 100 ms.
    assert_eq!(fake.now() - start, Ns::from_ms(1_200));
    fake.device_mut().set(0xB_8188, 0);
    fake.device_mut().set(0xB_6008, 0x23B);
    assert!(
        reset::reset_function(&fake, false).is_err(),
        "a unit is missing"
    );
    fake.device_mut().set(0xB_6008, 0x33B);
    assert_eq!(reset::reset_function(&fake, false), Ok(ResetDone::Function));
    assert!(
        reset::reset_card(&fake, GlobalReset::Core, true).is_err(),
        "no engine"
    );
    assert_eq!(reset::reset_card(&fake, GlobalReset::Global, false), Ok(()));
}

#[test]
fn firmware_that_loads_or_is_in_recovery_mode() {
    let fake = Fake::default();
    reset::wait_for_firmware(&fake).unwrap();
    fake.device_mut().set(0xB_6134, 1 << 30);
    assert!(matches!(
        reset::wait_for_firmware(&fake),
        Err(Error::Wait(WaitError::Timeout { .. }))
    ));
    fake.device_mut().set(0xB_6134, 2);
    assert_eq!(
        reset::wait_for_firmware(&fake),
        Err(Error::RecoveryMode { fwsm: 2 })
    );
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

/// A queue set in each kind of tree, and everything gone at the end.
#[test]
fn queue_sets_in_trees_of_nine_and_five_layers() {
    for (layers, elements, depth) in [(9, 6, 8), (5, 2, 4)] {
        let fake = Fake::default();
        fake.device_mut().state.layers = layers;
        let mut queue = started(&fake);
        let mut tree = Tree::discover(&mut queue, 0).unwrap();
        let left: Vec<u32> = fake.device_mut().state.elements.keys().copied().collect();
        assert_eq!(left, [1, 2], "root and class remain");
        tree.add_vsi(&mut queue, 0).unwrap();
        let first = tree.add_queue_set(&mut queue, 0, 7).unwrap();
        let second = tree.add_queue_set(&mut queue, 0, 8).unwrap();
        assert_eq!(tree.queue_sets(), 2);
        let state = fake.device_mut().state.elements.clone();
        assert_eq!(state.len(), 2 + elements + 2);
        let mut above = first.teid;
        let mut layer = 0;
        while let Some((parent, _)) = state.get(&above) {
            (above, layer) = (*parent, layer + 1);
        }
        assert_eq!(layer, depth + 1, "the leaf is at the bottom");
        tree.remove_queue_set(&mut queue, first).unwrap();
        tree.remove_queue_set(&mut queue, second).unwrap();
        tree.clear(&mut queue).unwrap();
        assert_eq!(fake.device_mut().state.elements.len(), 2);
        finish(&fake, queue);
    }
}

fn tx_queue(traffic_class: u8) -> TxQueueContext {
    TxQueueContext {
        ring: Iova(0x8000),
        entries: 64,
        queue: TxQueueId::ZERO,
        lport: 0,
        traffic_class,
        pf: PfId::ZERO,
        vsi: VsiId::ZERO,
    }
}

/// The LAN queue has a chain of its own in nine layers, and none in five; it is below
/// the same VSI, in whatever order the two are made.
#[test]
fn a_lan_queue_beside_queue_sets() {
    for (layers, elements) in [(9, 4 + 2 + 2), (5, 2)] {
        for lan_first in [true, false] {
            let fake = Fake::default();
            fake.device_mut().state.layers = layers;
            let mut queue = started(&fake);
            let mut tree = Tree::discover(&mut queue, 0).unwrap();
            tree.add_vsi(&mut queue, 0).unwrap();
            let (set, added);
            if lan_first {
                added = tree.add_tx_queue(&mut queue, &tx_queue(0)).unwrap();
                set = tree.add_queue_set(&mut queue, 0, 7).unwrap();
            } else {
                set = tree.add_queue_set(&mut queue, 0, 7).unwrap();
                added = tree.add_tx_queue(&mut queue, &tx_queue(0)).unwrap();
            }
            let state = fake.device_mut().state.elements.clone();
            assert_eq!(state.len(), 2 + elements + 2);
            let path = |mut teid| {
                let mut path = Vec::new();
                while let Some((parent, _)) = state.get(&teid) {
                    path.push(teid);
                    teid = *parent;
                }
                path.reverse();
                path
            };
            let (lan, rdma) = (path(added.teid), path(set.teid));
            assert_eq!((lan.len(), rdma.len()), (layers.into(), layers.into()));
            let same = lan.iter().zip(&rdma).take_while(|(a, b)| a == b).count();
            assert_eq!(same, if layers == 9 { 6 } else { 4 }, "down to the VSI");
            tree.remove_tx_queue(&mut queue, added).unwrap();
            // One that is gone is no error.
            fake.device_mut().fault(0x0C31, Fault::Code(2));
            tree.remove_tx_queue(&mut queue, added).unwrap();
            tree.remove_queue_set(&mut queue, set).unwrap();
            tree.clear(&mut queue).unwrap();
            assert_eq!(fake.device_mut().state.elements.len(), 2);
            finish(&fake, queue);
        }
    }
}

/// Until the firmware has refused it, or has removed it, its ring stays the device's.
#[test]
fn a_lan_queue_that_is_not_added_says_whether_it_may_exist() {
    let elsewhere = Reply::params(2, &[1]).data([[99, 0, 0, 0], [109, 0, 0, 0]].concat());
    for (opcode, fault, undo, may_exist) in [
        (0x0401, Fault::Code(16), None, false),
        (0x0C30, Fault::Code(14), None, false),
        (0x0C30, Fault::Length(8), None, false),
        (0x0C30, Fault::Length(8), Some(Fault::Code(2)), false),
        (0x0C30, Fault::Length(8), Some(Fault::Code(12)), true),
        (0x0C30, Fault::Silent, None, true),
        (0x0404, Fault::Answer(elsewhere), None, false),
    ] {
        let fake = Fake::default();
        let mut queue = started(&fake);
        let mut tree = Tree::discover(&mut queue, 0).unwrap();
        tree.add_vsi(&mut queue, 0).unwrap();
        let what = format!("{opcode:#x}: {fault:?}, {undo:?}");
        fake.device_mut().fault(opcode, fault);
        if let Some(undo) = undo {
            fake.device_mut().fault(0x0C31, undo);
        }
        let failed = tree.add_tx_queue(&mut queue, &tx_queue(0)).unwrap_err();
        assert_eq!(failed.may_exist, may_exist, "{what}");
        let no_class = tree.add_tx_queue(&mut queue, &tx_queue(1)).unwrap_err();
        assert!(!no_class.may_exist);
    }
}

/// A port with the classes 0 and 3.
#[test]
fn classes_are_those_that_the_port_names() {
    for answers in [true, false] {
        let fake = Fake::default();
        fake.device_mut().state.second_class = true;
        let mut queue = started(&fake);
        if !answers {
            fake.device_mut().fault(0x040E, Fault::Code(3));
        }
        let mut tree = Tree::discover(&mut queue, 0).unwrap();
        tree.add_vsi(&mut queue, 0).unwrap();
        // Without an answer by their places in the list.
        let (second, other) = if answers { (3, 1) } else { (1, 3) };
        let set = tree.add_queue_set(&mut queue, second, 7).unwrap();
        let elements = fake.device_mut().state.elements.clone();
        let mut above = set.teid;
        while let Some((parent, _)) = elements.get(&above).filter(|(_, kind)| *kind != 2) {
            above = *parent;
        }
        assert_eq!(above, 50, "below the second class");
        assert_eq!(
            tree.add_queue_set(&mut queue, other, 8),
            Err(Error::NoTrafficClass {
                traffic_class: other
            })
        );
        tree.remove_queue_set(&mut queue, set).unwrap();
        tree.clear(&mut queue).unwrap();
        finish(&fake, queue);
    }
}

/// What existing drivers wait at most on an E810 (field-evidence 3.10).
#[test]
fn units_have_five_seconds() {
    let fake = Fake::default();
    fake.device_mut().set(0xB_6008, 0x23B);
    let start = fake.now();
    assert!(reset::wait_for_card(&fake, false).is_err());
    assert!(fake.now() - start >= Ns::from_ms(5_000));
}

/// The state need not show the reset at once.
#[test]
fn a_reset_of_the_card_is_checked_after_a_while() {
    let fake = Fake::default();
    let start = fake.now();
    reset::reset_card(&fake, GlobalReset::Core, false).unwrap();
    assert!(fake.now() - start >= Ns::from_ms(100));
}

#[test]
fn a_tree_has_limits() {
    let fake = Fake::default();
    fake.device_mut().state.siblings = 2;
    let mut queue = started(&fake);
    let mut tree = Tree::discover(&mut queue, 0).unwrap();
    let sets = [1, 2].map(|handle| tree.add_queue_set(&mut queue, 0, handle).unwrap());
    assert_eq!(
        tree.add_queue_set(&mut queue, 0, 3),
        Err(Error::TreeFull { limit: 2 })
    );
    assert_eq!(
        tree.add_queue_set(&mut queue, 1, 3),
        Err(Error::NoTrafficClass { traffic_class: 1 })
    );
    assert!(tree.clear(&mut queue).is_err(), "not below queue sets");
    assert_eq!(sets.len(), 2);
    fake.device_mut().state.layers = 7;
    assert!(matches!(
        Tree::discover(&mut queue, 0),
        Err(Error::BadTree { value: 7, .. })
    ));
    finish(&fake, queue);
}

#[test]
fn a_queue_set_in_the_wrong_place_is_taken_back() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    let mut tree = Tree::discover(&mut queue, 0).unwrap();
    let elsewhere = |teid: u8| {
        let mut data = [0; 24];
        (data[0], data[4]) = (99, teid);
        Reply::params(2, &[1]).data(data)
    };
    // Six elements of the chain, then the leaf.
    fake.device_mut()
        .fault(0x0404, Fault::Answer(elsewhere(107)));
    assert!(matches!(
        tree.add_queue_set(&mut queue, 0, 1),
        Err(Error::BadTree { value: 99, .. })
    ));
    assert_eq!(tree.queue_sets(), 0);
    assert_eq!(fake.opcodes().last(), Some(&0x0C31));
    // A refusal half-way down: the next try goes on from there.
    tree.clear(&mut queue).unwrap();
    fake.device_mut().fault(0x0401, Fault::Nothing);
    fake.device_mut().fault(0x0401, Fault::Nothing);
    fake.device_mut().fault(0x0401, Fault::Code(16));
    assert!(tree.add_queue_set(&mut queue, 0, 1).is_err());
    let set = tree.add_queue_set(&mut queue, 0, 1).unwrap();
    tree.remove_queue_set(&mut queue, set).unwrap();
    tree.clear(&mut queue).unwrap();
    assert_eq!(fake.device_mut().state.elements.len(), 2);
    finish(&fake, queue);
}

#[test]
fn a_phy_is_configured_only_where_it_is_not() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    assert!(link::watch(&mut queue, 0).unwrap().is_up());
    assert_eq!(fake.opcodes()[1..], [0x0613, 0x0607]);
    let configure = |queue: &mut AdminQ<Fake>| {
        let before = fake.opcodes().len();
        let changed = link::configure(queue, 0).unwrap();
        (changed, fake.opcodes()[before..].to_vec())
    };
    assert_eq!(configure(&mut queue), (false, vec![0x0600, 0x0600]));
    fake.device_mut().state.phy_enabled = false;
    assert_eq!(configure(&mut queue), (true, vec![0x0600, 0x0600, 0x0601]));
    assert!(fake.device_mut().state.phy_enabled);
    // Active without error correction, the module with.
    let caps = |fec: u8| {
        let mut caps = [0; 560];
        (caps[0], caps[16], caps[34]) = (7, 8, fec);
        Fault::Answer(Reply::default().data(caps))
    };
    fake.device_mut().fault(0x0600, caps(0));
    fake.device_mut().fault(0x0600, caps(4));
    assert!(configure(&mut queue).0);
    // Refusals are no failure, and counted.
    let before = queue.counters().tolerated;
    fake.device_mut().fault(0x0600, Fault::Code(5));
    assert_eq!(configure(&mut queue), (false, vec![0x0600]));
    fake.device_mut().state.phy_enabled = false;
    fake.device_mut().fault(0x0601, Fault::Code(21));
    assert!(!configure(&mut queue).0);
    assert_eq!(queue.counters().tolerated - before, 2);
    finish(&fake, queue);
}

#[test]
fn a_link_is_restarted_once_and_not_early() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    fake.device_mut().state.link = false;
    fake.device_mut().state.link_in = Some(4);
    link::wait_up(&mut queue, 0, Ns::from_ms(2_000)).unwrap();
    assert!(!fake.opcodes().contains(&0x0605), "it was coming up");
    // In its first three seconds it may yet be, however short the wait.
    fake.device_mut().state.link = false;
    fake.device_mut().state.link_in = Some(40);
    for _ in 0..2 {
        link::wait_up(&mut queue, 0, Ns::from_ms(1_000)).unwrap_err();
    }
    assert!(!fake.opcodes().contains(&0x0605));
    for refused in [false, true] {
        fake.device_mut().state.link = false;
        fake.device_mut().state.link_in = Some(50);
        if refused {
            fake.device_mut().fault(0x0605, Fault::Code(21));
        }
        let before = fake.opcodes().len();
        link::wait_up(&mut queue, 0, Ns::from_ms(8_000)).unwrap();
        let sent = fake.opcodes()[before..].to_vec();
        let restarts = sent.iter().filter(|opcode| **opcode == 0x0605);
        assert_eq!(restarts.count(), 1, "{sent:x?}");
    }
    finish(&fake, queue);
}

#[test]
fn a_port_without_a_module_says_so() {
    let fake = Fake::default();
    let mut queue = started(&fake);
    (fake.device_mut().state.link, fake.device_mut().state.media) = (false, false);
    let error = link::wait_up(&mut queue, 0, Ns::from_ms(500)).unwrap_err();
    assert_eq!(
        error,
        Error::NoLink {
            reason: NoLink::NoMedia
        }
    );
    assert!(error.to_string().contains("no module or cable"));
    assert!(!fake.opcodes().contains(&0x0605), "nothing to restart");
    finish(&fake, queue);
}
