//! The scheduler tree: queue sets and LAN queues.

use e810_adminq::Error;
use e810_adminq::op::TxQueueContext;
use e810_adminq::tree::Tree;
use e810_hal::Iova;
use e810_hal::bus::{PfId, TxQueueId, VsiId};

use super::fake::{Fake, Fault, FirmwareFake, Reply};
use super::{finish, started};

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
        assert_eq!(failed.may_exist.is_some(), may_exist, "{what}");
        let no_class = tree.add_tx_queue(&mut queue, &tx_queue(1)).unwrap_err();
        assert!(no_class.may_exist.is_none());
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
            tree.add_queue_set(&mut queue, other, 8)
                .map_err(Error::from),
            Err(Error::NoTrafficClass {
                traffic_class: other
            })
        );
        tree.remove_queue_set(&mut queue, set).unwrap();
        tree.clear(&mut queue).unwrap();
        finish(&fake, queue);
    }
}

#[test]
fn a_tree_has_limits() {
    let fake = Fake::default();
    fake.device_mut().state.siblings = 2;
    let mut queue = started(&fake);
    let mut tree = Tree::discover(&mut queue, 0).unwrap();
    let sets = [1, 2].map(|handle| tree.add_queue_set(&mut queue, 0, handle).unwrap());
    assert_eq!(
        tree.add_queue_set(&mut queue, 0, 3).map_err(Error::from),
        Err(Error::TreeFull { limit: 2 })
    );
    assert_eq!(
        tree.add_queue_set(&mut queue, 1, 3).map_err(Error::from),
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
        tree.add_queue_set(&mut queue, 0, 1).map_err(Error::from),
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
