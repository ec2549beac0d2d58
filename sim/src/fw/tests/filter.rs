//! The frames that the switch passes to the RDMA engine: by destination address and by VLAN.

use super::client::{Client, params};
use super::switch::mac_rule;
use crate::pe::Env;
use e810_hal::regs as hw;
use e810_hal::{Bus, Ns, RegOffset, Vector};

const ONE: [(usize, &[u8]); 1] = [(0, &[1])];
/// sw_flags and sw_flags2 of a VSI's properties, and two of their bits.
const SW_FLAGS: usize = 3;
const SW_FLAGS2: usize = 4;
const ALLOW_LB: u8 = 1 << 5;
const RX_VLAN_PRUNE_ENA: u8 = 1;
/// LB_EN of a rule's action.
const LB_EN: u8 = 1 << 2;

/// A function with a package and one VSI, open for RDMA, with `byte` at offset `at` of its
/// properties.
fn function(at: usize, byte: u8) -> (Client, u16) {
    let mut client = Client::new();
    client.download();
    let mut props = [0; 128];
    (props[2], props[SW_FLAGS2]) = (1, 1 << 4);
    props[at] |= byte;
    let reply = client.tell(0x0210, params(&[(6, &[2])]), &props).ok();
    let vsi = reply.param16(0);
    client.open_vsi(vsi, true).ok();
    (client, vsi)
}

/// Frames that reached the engine.
fn received(client: &Client) -> u64 {
    client.sim.stats(0).frames_received
}

fn for_itself(client: &Client) {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&client.nic.mac());
    client.nic.with(|env| env.transmit(frame));
    // Any register write puts what was sent on the wire.
    let vector = Vector::new(1).unwrap();
    client.nic.write32(hw::GLINT_DYN_CTL.at(vector).off(), 0);
    client.sim.run(Ns::from_ms(1));
}

#[test]
fn a_frame_for_itself_needs_the_vsi_and_the_rule() {
    for (vsi_allows, rule_does) in [(false, false), (false, true), (true, false), (true, true)] {
        let flags = if vsi_allows { ALLOW_LB } else { 0 };
        let (mut client, vsi) = function(SW_FLAGS, flags);
        for_itself(&client);
        assert_eq!(received(&client), 0, "no rule");
        let mut rule = mac_rule(vsi, client.nic.mac());
        if !rule_does {
            rule[8] &= !LB_EN;
        }
        client.tell(0x02a0, params(&ONE), &rule).ok();
        for_itself(&client);
        let back = u64::from(vsi_allows && rule_does);
        assert_eq!(received(&client), back, "{vsi_allows} {rule_does}");
        assert_eq!(client.sim.stats(0).frames_not_looped, 2 - back);
        // The same frame from the wire comes in.
        let mut frame = [0; 60];
        frame[..6].copy_from_slice(&client.nic.mac());
        client.sim.receive_frames([&frame[..]]);
        client.sim.run(Ns::from_ms(1));
        assert_eq!(received(&client), back + 1);
        assert_eq!(client.kinds(), [""; 0]);
    }
}

fn from_the_wire(client: &Client, tag: Option<[u8; 2]>) {
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&client.nic.mac());
    if let Some(tag) = tag {
        frame[12..14].copy_from_slice(&[0x81, 0]);
        frame[14..16].copy_from_slice(&tag);
    }
    client.sim.receive_frames([&frame[..]]);
    client.sim.run(Ns::from_ms(1));
}

/// A prune list with the VSI, and the rule for a VLAN that uses it, as Linux makes them.
fn add_vlan(client: &mut Client, vsi: u16, id: u16) {
    let mut ask = [0; 6];
    (ask[0], ask[2]) = (0x84, 1);
    let list = client.tell(0x0208, params(&ONE), &ask).ok().data16(4);
    let mut members = [0; 10];
    members[0] = 5;
    members[4..6].copy_from_slice(&list.to_le_bytes());
    members[6] = 1;
    members[8..10].copy_from_slice(&vsi.to_le_bytes());
    client.tell(0x02a0, params(&ONE), &members).ok();
    let mut rule = mac_rule(vsi, [2, 0, 0, 0, 0, 0]);
    rule[4] = 4;
    // Type 2 (prune), a list, both directions.
    let action = 2 | 1 << 14 | u32::from(list) << 4 | 1 << 15 | 1 << 16 | 1 << 17;
    rule[8..12].copy_from_slice(&action.to_le_bytes());
    rule[16 + 14..].copy_from_slice(&id.to_be_bytes());
    client.tell(0x02a0, params(&ONE), &rule).ok();
}

#[test]
fn a_vsi_that_prunes_gets_the_vlans_of_its_rules() {
    let (mut client, vsi) = function(SW_FLAGS2, RX_VLAN_PRUNE_ENA);
    let rule = mac_rule(vsi, client.nic.mac());
    client.tell(0x02a0, params(&ONE), &rule).ok();
    let five = Some([0xE0, 5]);
    from_the_wire(&client, None);
    from_the_wire(&client, five);
    assert_eq!(received(&client), 0, "no VLAN is known, not even 0");
    add_vlan(&mut client, vsi, 0);
    from_the_wire(&client, None);
    // A tag with a priority only.
    from_the_wire(&client, Some([0x60, 0]));
    assert_eq!(received(&client), 2);
    from_the_wire(&client, five);
    assert_eq!(received(&client), 2);
    add_vlan(&mut client, vsi, 5);
    from_the_wire(&client, five);
    from_the_wire(&client, Some([0, 6]));
    assert_eq!(received(&client), 3);
    assert_eq!(client.sim.stats(0).frames_filtered, 4);
}

#[test]
fn a_vsi_that_does_not_prune_gets_every_vlan() {
    let (mut client, vsi) = function(SW_FLAGS2, 0);
    let rule = mac_rule(vsi, client.nic.mac());
    client.tell(0x02a0, params(&ONE), &rule).ok();
    from_the_wire(&client, None);
    from_the_wire(&client, Some([0x20, 9]));
    assert_eq!(received(&client), 2);
}

/// As a driver found on cards: a function-level reset leaves the register as it is (field-evidence
/// 3.18).
#[test]
fn a_receive_queues_profile_outlives_resets_of_the_function() {
    const QRXFLXP_CNTXT_0: RegOffset = RegOffset::new(0x48_0000);
    const VALUE: u32 = 0x701;
    let client = Client::new();
    client.nic.write32(QRXFLXP_CNTXT_0, VALUE);
    client.nic.function_level_reset();
    assert_eq!(client.nic.read32(QRXFLXP_CNTXT_0), VALUE);
    client.nic.write32(hw::PFGEN_CTRL.off(), 1);
    client.sim.run(Ns::from_ms(10));
    assert_eq!(client.nic.read32(QRXFLXP_CNTXT_0), VALUE);
    client.nic.write32(hw::GLGEN_RTRIG.off(), 1);
    client.sim.run(Ns::from_ms(3_000));
    assert_eq!(client.nic.read32(QRXFLXP_CNTXT_0), 0);
}
