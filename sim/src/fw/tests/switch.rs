//! VSIs, rules, lists, recipes.

use super::client::{Client, params};
use crate::Sim;
use crate::findings::{Class, Finding, kind};
use crate::fw::AqCode;
use crate::variation::{OwnVsi, SwitchPages, Variation};
use e810_hal::bus::VsiId;
use e810_hal::regs as hw;

/// A lookup of the MAC recipe that forwards `mac` to `vsi`; frames for a group also leave the card.
pub(super) fn mac_rule(vsi: u16, mac: [u8; 6]) -> [u8; 32] {
    let mut rule = [0; 32];
    let is_group = u32::from(mac[0] & 1);
    let action = u32::from(vsi) << 4 | 1 << 17 | 1 << 2 | is_group << 3;
    rule[0] = 1;
    rule[4] = 1;
    rule[6..8].copy_from_slice(&vsi.to_le_bytes());
    rule[8..12].copy_from_slice(&action.to_le_bytes());
    rule[14] = 16;
    rule[16..22].copy_from_slice(&mac);
    rule[22] = 2;
    rule[28..30].copy_from_slice(&[0x81, 0]);
    rule
}

const ONE: [(usize, &[u8]); 1] = [(0, &[1])];

#[test]
fn a_vsis_filter_shows_in_its_register() {
    let mut client = Client::new();
    let vsi = client.add_vsi();
    let register = hw::VSIQF_PE_CTL1.at(VsiId::new(vsi).unwrap());
    assert_eq!(register.get(&client.nic), 0);
    client.open_vsi(vsi, true).ok();
    assert_eq!(register.get(&client.nic), 1);
    client.open_vsi(vsi, false).ok();
    assert_eq!(register.get(&client.nic), 0);
    client.open_vsi(vsi + 1, true).refused(AqCode::ENOENT);
    assert_eq!(client.kinds(), [kind::ADMINQ_UNKNOWN_OBJECT.name]);
}

/// Linux marks only security, and does not update the VSI of its loopback test.
#[test]
fn a_vsi_is_added_with_all_sections() {
    let mut client = Client::new();
    let mut props = [0x11; 128];
    props[0..3].copy_from_slice(&[2, 0, 1]);
    let added = client.tell(0x0210, params(&[(6, &[2])]), &props).ok();
    let number = (added.param16(0) | 0x8000).to_le_bytes();
    let got = client.ask(0x0212, params(&[(0, &number)]), 128).ok().data;
    // VLAN flags, the first queue, options of scaling.
    assert_eq!((got[12], got[30], got[78]), (0x11, 0x11, 0x11));
}

#[test]
fn an_update_touches_the_sections_that_are_valid() {
    let mut client = Client::new();
    let mut props = [0x11; 128];
    props[0..2].copy_from_slice(&0xffff_u16.to_le_bytes());
    props[2] = 1;
    let vsi = client
        .tell(0x0210, params(&[(6, &[2])]), &props)
        .ok()
        .param16(0);
    client.open_vsi(vsi, false).ok();
    let number = (vsi | 0x8000).to_le_bytes();
    let got = client.ask(0x0212, params(&[(0, &number)]), 128).ok().data;
    assert_eq!((got[6], got[78], got[80]), (0x11, 0, 0));
}

#[test]
fn rules_go_with_their_vsi() {
    let mut client = Client::new();
    let vsi = client.add_vsi();
    let rule = mac_rule(vsi, [2, 0, 0, 0, 0, 1]);
    let reply = client.tell(0x02a0, params(&ONE), &rule).ok();
    let index = reply.data16(12);
    client
        .tell(0x02a0, params(&ONE), &rule)
        .refused(AqCode::EEXIST);
    let number = (vsi | 0x8000).to_le_bytes();
    let free = params(&[(0, &number)]);
    client.direct(0x0213, free).ok();
    let mut remove = [0; 16];
    remove[0] = 1;
    remove[12..14].copy_from_slice(&index.to_le_bytes());
    client
        .tell(0x02a2, params(&ONE), &remove)
        .refused(AqCode::ENOENT);
    assert_eq!(client.kinds(), [""; 0]);
    client.direct(0x0213, free).refused(AqCode::ENOENT);
    assert_eq!(client.kinds(), [kind::ADMINQ_UNKNOWN_OBJECT.name]);
}

#[test]
fn rules_name_what_is_there() {
    let mut client = Client::new();
    let rule = mac_rule(99, [2, 0, 0, 0, 0, 1]);
    client
        .tell(0x02a0, params(&ONE), &rule)
        .refused(AqCode::ENOENT);
    let texts = |client: &Client| -> Vec<String> {
        let found = client.sim.take_findings();
        let lint = |finding: &Finding| (finding.class, finding.kind);
        let unknown = (Class::Lint, kind::ADMINQ_UNKNOWN_OBJECT.name);
        assert!(found.iter().all(|finding| lint(finding) == unknown));
        found.into_iter().map(|finding| finding.text).collect()
    };
    assert_eq!(texts(&client), ["a switch rule has VSI 99 as its source"]);
    // Of the receive side: the source is a port. FWD_TO_VSI_LIST is bit 14.
    let mut received = rule;
    (received[0], received[6]) = (0, client.nic.pf());
    client
        .tell(0x02a0, params(&ONE), &received)
        .refused(AqCode::ENOENT);
    assert_eq!(texts(&client), ["a switch rule sends packets to VSI 99"]);
    received[9] |= 1 << 6;
    client
        .tell(0x02a0, params(&ONE), &received)
        .refused(AqCode::ENOENT);
    assert_eq!(
        texts(&client),
        ["a switch rule sends packets to VSI list 99"]
    );
    // Members of lists: a list that was not allocated, then a VSI that does not exist.
    let members = |list: u16| {
        let mut set = [3, 0, 0, 0, 0, 0, 1, 0, 99, 0];
        set[4..6].copy_from_slice(&list.to_le_bytes());
        set
    };
    client
        .tell(0x02a0, params(&ONE), &members(99))
        .refused(AqCode::ENOENT);
    assert_eq!(texts(&client), ["VSI list 99 was not given out"]);
    let list = client.tell(0x0208, params(&ONE), &[3, 0, 1, 0, 0, 0]);
    let list = list.ok().data16(4);
    client
        .tell(0x02a0, params(&ONE), &members(list))
        .refused(AqCode::ENOENT);
    assert_eq!(texts(&client), [format!("VSI 99 is put on list {list}")]);
    // A rule that is longer than its buffer.
    let vsi = client.add_vsi();
    let mut long = mac_rule(vsi, [2, 0, 0, 0, 0, 1]);
    long[14] = 17;
    client
        .tell(0x02a0, params(&ONE), &long)
        .refused(AqCode::EINVAL);
}

#[test]
fn lists_are_given_out_and_taken_back() {
    let mut client = Client::new();
    let mut ask = [0; 6];
    ask[0] = 3;
    ask[2] = 1;
    let list = client.tell(0x0208, params(&ONE), &ask).ok().data16(4);
    let other = client.tell(0x0208, params(&ONE), &ask).ok().data16(4);
    assert_ne!(list, other);
    ask[4..6].copy_from_slice(&list.to_le_bytes());
    client.tell(0x0209, params(&ONE), &ask).ok();
    client
        .tell(0x0209, params(&ONE), &ask)
        .refused(AqCode::ENOENT);
    ask[0] = 0x7e;
    client
        .tell(0x0208, params(&ONE), &ask)
        .refused(AqCode::EINVAL);
}

/// Linux keeps the counters of flow director across a reset of the function, and frees them when it
/// ends.
#[test]
fn counters_outlive_a_pf_reset() {
    let mut client = Client::new();
    let ask = |kind: u8| [kind, 0, 1, 0, 0, 0];
    let counters = client.tell(0x0208, params(&ONE), &ask(0x21)).ok().data;
    let list = client.tell(0x0208, params(&ONE), &ask(3)).ok().data;
    client.nic.function_level_reset();
    let mut client = client.start();
    client.direct(0x02a4, [0; 16]).ok();
    client.tell(0x0209, params(&ONE), &counters).ok();
    client
        .tell(0x0209, params(&ONE), &list)
        .refused(AqCode::ENOENT);
}

#[test]
fn recipes_can_be_read_and_changed() {
    let mut client = Client::new();
    let get = |client: &mut Client, index: u8| client.ask(0x0292, params(&[(2, &[index])]), 4096);
    let mut recipe = get(&mut client, 1).ok();
    assert_eq!((recipe.param16(0), recipe.data[0]), (1, 1));
    get(&mut client, 20).refused(AqCode::ENOENT);
    recipe.data[17] = 0x22;
    client.tell(0x0290, params(&ONE), &recipe.data).ok();
    assert_eq!(get(&mut client, 1).ok().data, recipe.data);
}

/// Linux requests its own recipe for a rule of `tc flower`, and reports it when there is none.
#[test]
fn rules_that_would_not_be_carried_out_are_refused() {
    let mut client = Client::new();
    let vsi = client.add_vsi();
    let ask = [5, 0, 1, 0, 0, 0];
    client
        .tell(0x0208, params(&ONE), &ask)
        .refused(AqCode::ENOSPC);
    let mut recipe = vec![0; 64];
    recipe[0] = 16;
    client
        .tell(0x0290, params(&ONE), &recipe)
        .refused(AqCode::EINVAL);
    let rule = mac_rule(vsi, [2, 0, 0, 0, 0, 9]);
    // Another recipe; to a queue.
    for (at, byte) in [(4, 16), (8, rule[8] | 1)] {
        let mut wrong = rule;
        wrong[at] = byte;
        client
            .tell(0x02a0, params(&ONE), &wrong)
            .refused(AqCode::EINVAL);
    }
    // A large action, of one word.
    let large = [2, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0];
    for opcode in [0x02a0, 0x02a1] {
        client
            .tell(opcode, params(&ONE), &large)
            .refused(AqCode::ENOSYS);
    }
    client.tell(0x02a0, params(&ONE), &rule).ok();
    assert_eq!(client.kinds(), [""; 0]);
}

#[test]
fn the_switch_has_the_functions_port() {
    let mut client = Client::new();
    let reply = client.ask(0x0200, [0; 16], 2048).ok();
    assert_eq!((reply.param16(2), reply.param16(4)), (0, 2));
    let swid = reply.data16(2);
    assert_eq!(reply.data16(0), 0, "port 0");
    // The firmware's own VSI: number 4, below the port, function 0.
    let own = [6, 8, 10].map(|at| reply.data16(at));
    assert_eq!(own, [2 << 14 | 4, swid, 0]);
    let set = |swid: u16| params(&[(4, &(swid | 0x8000).to_le_bytes()), (6, &[4])]);
    client.direct(0x0203, set(swid)).ok();
    client.direct(0x0203, set(swid + 1)).refused(AqCode::ENOENT);
}

#[test]
fn elements_come_in_pages() {
    let variation = Variation {
        switch_pages: SwitchPages::OneElement,
        ..Variation::default()
    };
    let mut client = Client::of(Sim::builder().variation(variation));
    let page = |client: &mut Client, first: u16| {
        let reply = client.ask(0x0200, params(&[(2, &first.to_le_bytes())]), 2048);
        let reply = reply.ok();
        assert_eq!(reply.param16(4), 1);
        (reply.data16(0) >> 14, reply.param16(2))
    };
    assert_eq!(page(&mut client, 0), (0, 1));
    assert_eq!(page(&mut client, 1), (2, 0));
    let beyond = params(&[(2, &[2])]);
    client.ask(0x0200, beyond, 2048).refused(AqCode::EINVAL);
}

#[test]
fn the_firmwares_own_vsi_is_cleared_or_not() {
    for own_vsi in [OwnVsi::Stays, OwnVsi::Goes] {
        let variation = Variation {
            own_vsi,
            ..Variation::default()
        };
        let mut client = Client::of(Sim::builder().variation(variation));
        let elements = |client: &mut Client| client.ask(0x0200, [0; 16], 2048).ok().param16(4);
        assert_eq!(elements(&mut client), 2);
        client.direct(0x02a4, [0; 16]).ok();
        // A driver that adds no VSI directs frames to it.
        let goes = own_vsi == OwnVsi::Goes;
        let rule = client.tell(0x02a0, params(&ONE), &mac_rule(4, [2; 6]));
        assert_eq!(rule.code != 0, goes);
        assert_eq!(client.kinds().len(), usize::from(goes));
        assert_eq!(
            elements(&mut client),
            if own_vsi == OwnVsi::Goes { 1 } else { 2 }
        );
        client.nic.function_level_reset();
        let mut client = client.start();
        assert_eq!(elements(&mut client), 2);
    }
}

/// A rule without VALID, a receive rule that names another port, and one with another header length
/// (control-path 9.6).
#[test]
fn rules_are_complete() {
    let mut client = Client::new();
    let vsi = client.add_vsi();
    let rule = mac_rule(vsi, [2, 0, 0, 0, 0, 9]);
    let mut of_port = rule;
    (of_port[0], of_port[6], of_port[7]) = (0, client.nic.pf(), 0);
    let mut wrong = [rule, of_port, rule];
    wrong[0][10] = 0;
    wrong[1][6] += 1;
    wrong[2][14] = 14;
    for rule in wrong {
        client
            .tell(0x02a0, params(&ONE), &rule)
            .refused(AqCode::EINVAL);
        assert_eq!(client.kinds(), ["adminq-parameter"], "{rule:x?}");
    }
    let index = client.tell(0x02a0, params(&ONE), &rule).ok().data16(12);
    client.tell(0x02a0, params(&ONE), &of_port).ok();
    // An update has no header length, and needs VALID as well.
    let mut update = rule;
    update[12..14].copy_from_slice(&index.to_le_bytes());
    update[14] = 0;
    client.tell(0x02a1, params(&ONE), &update[..16]).ok();
    update[10] = 0;
    client
        .tell(0x02a1, params(&ONE), &update[..16])
        .refused(AqCode::EINVAL);
    assert_eq!(client.kinds(), ["adminq-parameter"]);
}

/// Properties of a VSI of the function's switch.
fn props_with(client: &Client, swid: u8) -> [u8; 128] {
    let mut props = [0; 128];
    props[2] = client.nic.pf() + swid;
    props[4] = 1 << 4;
    props
}

/// The card has no VFs and one switch for each function (control-path 9.6).
#[test]
fn a_vsi_is_the_functions_and_on_its_switch() {
    let mut client = Client::new();
    let props = props_with(&client, 1);
    // A VF's VSI, one of an unknown type, one with a VF's number.
    for params_of in [&[(6, &[0][..])][..], &[(6, &[3])], &[(4, &[1]), (6, &[2])]] {
        client
            .tell(0x0210, params(params_of), &props)
            .refused(AqCode::EINVAL);
        assert_eq!(client.kinds(), ["adminq-parameter"]);
    }
    let elsewhere = props_with(&client, 2);
    client
        .tell(0x0210, params(&[(6, &[2])]), &elsewhere)
        .refused(AqCode::ENOENT);
    assert_eq!(client.kinds(), [kind::ADMINQ_UNKNOWN_OBJECT.name]);
    let vsi = client.tell(0x0210, params(&[(6, &[2])]), &props).ok();
    let number = (vsi.param16(0) | 0x8000).to_le_bytes();
    let mut update = elsewhere;
    update[0] = 1;
    client
        .tell(0x0211, params(&[(0, &number)]), &update)
        .refused(AqCode::ENOENT);
    assert_eq!(client.kinds(), [kind::ADMINQ_UNKNOWN_OBJECT.name]);
    update[0] = 2;
    client.tell(0x0211, params(&[(0, &number)]), &update).ok();
    // A VMDq VSI exists, but no packet for it reaches the engine.
    let of_vmdq = client.tell(0x0210, params(&[(6, &[1])]), &props).ok();
    let of_vmdq = of_vmdq.param16(0);
    client.open_vsi(of_vmdq, true).ok();
    client.download();
    let mac = client.nic.mac();
    let reaches = |client: &mut Client, vsi: u16| {
        let rule = mac_rule(vsi, mac);
        client.tell(0x02a0, params(&ONE), &rule).ok();
        let mut frame = [0; 60];
        frame[..6].copy_from_slice(&mac);
        client.sim.receive_frames([&frame[..]]);
        client.sim.run(e810_hal::Ns::from_ms(1));
        client.sim.stats(0).frames_received
    };
    assert_eq!(reaches(&mut client, of_vmdq), 0);
    client.open_vsi(vsi.param16(0), true).ok();
    assert_eq!(reaches(&mut client, vsi.param16(0)), 1);
    assert_eq!(client.kinds(), [""; 0]);
}
