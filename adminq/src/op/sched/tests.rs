use super::*;
use crate::op::testing::{decode, params};

const DONE: [u8; 4] = [1, 0, 1, 0];

fn element(parent: u8, teid: u8, kind: u8) -> [u8; 24] {
    let mut bytes = [0; 24];
    (bytes[0], bytes[4], bytes[8]) = (parent, teid, kind);
    bytes
}

fn branch(elements: &[[u8; 24]], count: u8) -> std::vec::Vec<u8> {
    let mut bytes = std::vec![0; 8];
    bytes[4] = count;
    bytes.extend(elements.concat());
    bytes.resize(BRANCH_BYTES, 0);
    bytes
}

#[test]
fn a_new_element_byte_for_byte() {
    let command = AddElement::below(0x0403_0201);
    let expected = [
        1, 2, 3, 4, 1, 0, 0, 0, // group: parent, one element
        1, 2, 3, 4, 0, 0, 0, 0, // element: parent, TEID to be filled
        3, 7, 0, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 0, 0,
    ];
    assert_eq!(command.data(), Data::Send(&expected));
    assert_eq!(command.params()[..2], [1, 0]);
    let mut reply = expected;
    reply[12..14].copy_from_slice(&[0x99, 1]);
    let added = decode(&command, params(&DONE), &reply).unwrap();
    assert_eq!((added.parent, added.teid), (0x0403_0201, 0x199));
    assert!(
        decode(&command, params(&[1]), &reply).is_err(),
        "none added"
    );
    assert!(decode(&command, params(&DONE), &reply[..31]).is_err());
}

#[test]
fn elements_are_read_and_deleted_by_teid() {
    let get = GetElement::new(0x0201);
    assert_eq!(get.bytes[..8], [0, 0, 0, 0, 1, 2, 0, 0]);
    let mut reply = element(7, 1, 5);
    reply[5] = 2;
    let expected = Element {
        parent: 7,
        teid: 0x201,
        kind: ElementKind::Leaf,
    };
    assert_eq!(decode(&get, params(&DONE), &reply), Ok(expected));
    assert!(
        decode(&get, params(&DONE), &element(7, 1, 5)).is_err(),
        "another"
    );
    let delete = DeleteElement::new(0x0201, 0x0403);
    assert_eq!(delete.bytes, [1, 2, 0, 0, 1, 0, 0, 0, 3, 4, 0, 0]);
    assert!(decode(&delete, params(&DONE), &[]).is_ok());
    assert!(decode(&delete, params(&[1]), &[]).is_err());
}

#[test]
fn resources_are_limits_of_the_layer_below() {
    let mut reply = [0; 320];
    (reply[2], reply[8], reply[9]) = (9, 0x34, 0x12);
    for layer in 0..9 {
        reply[32 * (layer + 1) + 10] = 10 + layer as u8;
    }
    let resources = decode(&QueryResources, [0; 16], &reply).unwrap();
    assert_eq!((resources.layers, resources.queue_sets), (9, 0x1234));
    assert_eq!(resources.max_children, [11, 12, 13, 14, 15, 16, 17, 18, 0]);

    for layers in [0, 10] {
        reply[2] = layers;
        assert!(decode(&QueryResources, [0; 16], &reply).is_err());
    }
    reply[2] = 9;
    assert!(decode(&QueryResources, [0; 16], &reply[..319]).is_err());
}

#[test]
fn a_topology_is_branches_of_elements() {
    let command = GetDefaultTopology { lport: 3 };
    assert_eq!(command.params()[0], 3);
    let first = branch(&[element(0, 1, 1), element(1, 2, 2), element(2, 3, 4)], 3);
    let second = branch(&[element(0, 1, 1), element(1, 9, 2)], 2);
    let list = [first.clone(), second].concat();
    let topology = decode(&command, params(&[3, 2]), &list).unwrap();
    let kinds: std::vec::Vec<_> = topology[0].iter().map(|e| e.kind).collect();
    assert_eq!(
        kinds,
        [
            ElementKind::Root,
            ElementKind::TrafficClass,
            ElementKind::EntryPoint
        ]
    );
    assert_eq!(topology[1][1].teid, 9);

    for branches in [0, 3, 9] {
        assert!(decode(&command, params(&[3, branches]), &list).is_err());
    }
    for count in [0, 10] {
        let list = branch(&[element(0, 1, 1)], count);
        assert!(decode(&command, params(&[3, 1]), &list).is_err());
    }
    assert!(decode(&command, params(&[3, 1]), &first[..79]).is_err());
}
