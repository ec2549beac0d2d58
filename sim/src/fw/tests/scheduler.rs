//! Transmit scheduler tree and its queues.

use super::client::{Client, params};
use crate::Sim;
use crate::findings::kind;
use crate::fw::AqCode;
use crate::variation::{DefaultBranch, Variation};

const ONE: [(usize, &[u8]); 1] = [(0, &[1])];

/// TEIDs of the default branch.
pub(super) fn branch(client: &mut Client) -> Vec<u32> {
    let reply = client.ask(0x0400, [0; 16], 4096).ok();
    assert_eq!(reply.params[1], 1);
    let count = usize::from(reply.data16(4));
    (0..count)
        .map(|element| reply.data32(8 + element * 24 + 4))
        .collect()
}

pub(super) fn add(client: &mut Client, parent: u32) -> Result<u32, u16> {
    let mut group = vec![0; 8 + 24];
    group[..4].copy_from_slice(&parent.to_le_bytes());
    group[4] = 1;
    group[8..12].copy_from_slice(&parent.to_le_bytes());
    // Generic, all sections valid, weight 4.
    group[16..18].copy_from_slice(&[3, 7]);
    let reply = client.tell(0x0401, params(&ONE), &group);
    match reply.code {
        0 => Ok(reply.data32(8 + 4)),
        code => Err(code),
    }
}

fn delete(client: &mut Client, parent: u32, teid: u32) -> u16 {
    let mut group = vec![0; 12];
    group[..4].copy_from_slice(&parent.to_le_bytes());
    group[4] = 1;
    group[8..].copy_from_slice(&teid.to_le_bytes());
    client.tell(0x040f, params(&ONE), &group).code
}

/// Nodes from below the TC down to a queue group.
pub(super) fn group(client: &mut Client) -> u32 {
    let branch = branch(client);
    let mut parent = branch[1];
    for _ in 2..branch.len() {
        parent = add(client, parent).unwrap();
    }
    parent
}

/// A group of one LAN queue for 0x0C30.
pub(super) fn lan_queue(parent: u32, number: u16, vsi: u16) -> [u8; 56] {
    let mut group = [0; 56];
    group[..4].copy_from_slice(&parent.to_le_bytes());
    group[4] = 1;
    group[8..10].copy_from_slice(&number.to_le_bytes());
    // Source VSI: bits 80 and up of the context.
    group[16 + 10..16 + 12].copy_from_slice(&vsi.to_le_bytes());
    group[41] = 7;
    group
}

fn disable(parent: u32, number: u16) -> [u8; 8] {
    let mut item = [0; 8];
    item[..4].copy_from_slice(&parent.to_le_bytes());
    item[4] = 1;
    item[6..].copy_from_slice(&number.to_le_bytes());
    item
}

#[test]
fn resources_agree_with_the_tree() {
    for (layers, group) in [(9_u8, 7), (5, 3)] {
        let mut client = Client::of(Sim::builder().firmware(move |_, fw| fw.layers = layers));
        let reply = client.ask(0x0412, [0; 16], 320).ok();
        assert_eq!((reply.datalen, reply.data16(2)), (320, u16::from(layers)));
        assert_eq!(branch(&mut client).len(), usize::from(layers) - 1);
        let below_a_group = 32 * (1 + group + 1) + 10;
        assert!(reply.data16(below_a_group) >= 8);
    }
}

#[test]
fn the_default_branch_is_taken_down_from_its_end() {
    let mut client = Client::of(Sim::builder().variation(Variation {
        default_branch: DefaultBranch::Leaf,
        ..Variation::default()
    }));
    let branch = branch(&mut client);
    let pair = |at: usize| (branch[at - 1], branch[at]);
    let (parent, node) = pair(7);
    assert_eq!(delete(&mut client, parent, node), 12, "it has a child");
    assert_eq!(client.kinds(), [kind::ADMINQ_IN_USE.name]);
    for at in (2..9).rev() {
        let (parent, node) = pair(at);
        assert_eq!(delete(&mut client, parent, node), 0);
    }
    let (parent, tc) = pair(1);
    assert_eq!(delete(&mut client, parent, tc), 1, "a TC stays");
    assert_eq!(client.kinds(), [""; 0]);
}

#[test]
fn nodes_that_are_not_there_are_found() {
    let mut client = Client::new();
    assert_eq!(add(&mut client, 0x77), Err(2));
    assert_eq!(delete(&mut client, 0x77, 0x78), 2);
    let mut element = [0; 24];
    element[4] = 0x77;
    client
        .tell(0x0404, params(&ONE), &element)
        .refused(AqCode::ENOENT);
    client
        .tell(0x0409, params(&ONE), &[0x77, 0, 0, 0])
        .refused(AqCode::ENOENT);
    assert_eq!(client.kinds(), [kind::ADMINQ_UNKNOWN_OBJECT.name; 4]);
}

#[test]
fn a_node_is_suspended_and_resumed() {
    let mut client = Client::new();
    let node = group(&mut client);
    for (opcode, flag) in [(0x0409, 1), (0x040a, 0)] {
        let reply = client.tell(opcode, params(&ONE), &node.to_le_bytes()).ok();
        assert_eq!(reply.param16(2), 1);
        let mut element = [0; 24];
        element[4..8].copy_from_slice(&node.to_le_bytes());
        assert_eq!(
            client.tell(0x0404, params(&ONE), &element).ok().data[11],
            flag
        );
    }
}

#[test]
fn a_lan_queue_hangs_from_a_queue_group_of_a_vsi() {
    let mut client = Client::new();
    let (vsi, parent) = (client.add_vsi(), group(&mut client));
    let queue = lan_queue(parent, 3, vsi);
    let teid = client.tell(0x0c30, params(&ONE), &queue).ok().data32(12);
    client
        .tell(0x0c30, params(&ONE), &queue)
        .refused(AqCode::EEXIST);
    assert_eq!(delete(&mut client, parent, teid), 12, "not by this command");
    let above = branch(&mut client)[1];
    let wrong_layer = lan_queue(above, 4, vsi);
    client
        .tell(0x0c30, params(&ONE), &wrong_layer)
        .refused(AqCode::EINVAL);
    let off = params(&[(1, &[1])]);
    client
        .tell(0x0c31, off, &disable(above, 3))
        .refused(AqCode::EINVAL);
    client.tell(0x0c31, off, &disable(parent, 3)).ok();
    assert_eq!(client.kinds(), [""; 0]);
    client
        .tell(0x0c31, off, &disable(parent, 3))
        .refused(AqCode::ENOENT);
    let no_vsi = lan_queue(parent, 3, vsi + 1);
    client
        .tell(0x0c30, params(&ONE), &no_vsi)
        .refused(AqCode::ENOENT);
    assert_eq!(client.kinds(), [kind::ADMINQ_UNKNOWN_OBJECT.name; 2]);
}

/// As iPXE does, which adds no element of its own (lan-path 19, rows 6 and 7).
#[test]
fn a_lan_queue_hangs_from_the_end_of_the_default_branch() {
    let mut client = Client::new();
    let (vsi, branch) = (client.add_vsi(), branch(&mut client));
    let queue = lan_queue(*branch.last().unwrap(), 0, vsi);
    client.tell(0x0c30, params(&ONE), &queue).ok();
    assert_eq!(client.kinds(), [""; 0]);
}

#[test]
fn classes_have_branches_and_nodes_of_their_own() {
    let builder = Sim::builder().firmware(|_, config| config.classes = 0b1_1001);
    let mut client = Client::of(builder);
    let topology = client.ask(0x0400, [0; 16], 4096).ok();
    assert_eq!(topology.params[1], 3);
    let second = 8 + 9 * 24;
    assert_eq!(topology.data16(second + 4), 3, "root, class, entry point");
    let teid = |at: usize| topology.data32(at + 8 + 24 + 4);
    let root = topology.data32(8 + 4).to_le_bytes();
    let ets = client.ask(0x040e, params(&[(0, &root)]), 64).ok();
    assert_eq!(ets.data[0], 0b1_1001);
    assert_eq!(ets.data[8..16], [34, 0, 0, 33, 33, 0, 0, 0], "shares");
    assert_eq!((ets.data32(32), ets.data32(44)), (teid(0), teid(second)));
    assert_eq!(ets.data32(36), u32::MAX);
}

#[test]
fn a_traffic_class_is_there() {
    let mut client = Client::new();
    let branch = branch(&mut client);
    let root = branch[0].to_le_bytes();
    let ets = client.ask(0x040e, params(&[(0, &root)]), 64).ok();
    assert_eq!((ets.data[0], ets.data32(32)), (1, branch[1]));
    assert_eq!(ets.data32(36), u32::MAX);
}

/// 0x0401 adds generic nodes; leaves and classes are made in other ways (control-path 9.7).
#[test]
fn an_element_that_is_added_is_a_generic_one() {
    let mut client = Client::new();
    let parent = group(&mut client);
    let above = client.ask(0x0400, [0; 16], 4096).ok().data32(8 + 24 + 4);
    assert_ne!(above, parent);
    client.kinds();
    let mut element = [0; 32];
    element[..4].copy_from_slice(&above.to_le_bytes());
    (element[4], element[17]) = (1, 7);
    for (of_kind, found) in [(3, 0), (5, 1)] {
        element[16] = of_kind;
        client.tell(0x0401, params(&ONE), &element).ok();
        assert_eq!(client.kinds(), vec![kind::ADMINQ_BITS.name; found]);
    }
}

/// Rate profiles are the default one and those from 0x0410.
#[test]
fn a_node_names_profiles_that_are_there() {
    let mut client = Client::new();
    let parent = branch(&mut client)[1];
    let add_with = |client: &mut Client, valid: u8, at: usize, profile: u8| {
        let mut element = [0; 32];
        element[..4].copy_from_slice(&parent.to_le_bytes());
        element[4] = 1;
        (element[16], element[17]) = (3, valid);
        element[16 + at] = profile;
        let added = client.tell(0x0401, params(&ONE), &element).ok();
        let found = client.kinds();
        assert_eq!(delete(client, parent, added.data32(12)), 0);
        found
    };
    for (section, at) in [(1, 4), (2, 8), (3, 12)] {
        let valid = 1 | 1 << section;
        assert_eq!(add_with(&mut client, valid, at, 0), [""; 0]);
        let unknown = [kind::ADMINQ_UNKNOWN_OBJECT.name];
        assert_eq!(add_with(&mut client, valid, at, 1), unknown);
        // A section that is not valid names no profile.
        assert_eq!(add_with(&mut client, 1, at, 1), [""; 0]);
    }
    client.tell(0x0410, params(&ONE), &[0; 12]).ok();
    assert_eq!(add_with(&mut client, 3, 4, 1), [""; 0]);
    assert_eq!(add_with(&mut client, 3, 4, 2).len(), 1);
}

/// Only a command that resets a VM or a VF names one.
#[test]
fn disabling_queues_names_no_vm() {
    let mut client = Client::new();
    // Five units of time-out.
    client.direct(0x0c31, params(&[(3, &[0x14])])).ok();
    assert_eq!(client.kinds(), [""; 0]);
    client.direct(0x0c31, params(&[(2, &[1])])).ok();
    assert_eq!(client.kinds(), [kind::ADMINQ_BITS.name]);
    client.direct(0x0c31, params(&[(0, &[1, 0, 1])])).ok();
    assert_eq!(client.kinds(), [""; 0]);
}
