//! LAN-side prerequisites of the RDMA engine: VSI, filter, address, queue set, package.

use super::client::{Client, params};
use super::scheduler::group;
use super::switch::mac_rule;
use crate::findings::kind;
use crate::fw::AqCode;
use crate::pe::Env;
use crate::variation::{SwitchInput, Variation};
use crate::{AqFault, Sim};

const ONE: [(usize, &[u8]); 1] = [(0, &[1])];

/// Frames for function 0 that reached its engine, and those that were filtered.
fn frames(client: &Client) -> (u64, u64) {
    let stats = client.sim.stats(0);
    (stats.frames_received, stats.frames_filtered)
}

fn send(client: &Client, to: [u8; 6]) {
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&to);
    client.sim.receive_frames([&frame[..]]);
    client.sim.run(e810_hal::Ns::from_ms(1));
}

#[test]
fn a_packet_needs_package_vsi_filter_and_rule() {
    let mut client = Client::of(Sim::builder());
    let mac = client.nic.mac();
    send(&client, mac);
    let vsi = client.add_vsi();
    client.open_vsi(vsi, true).ok();
    client.tell(0x02a0, params(&ONE), &mac_rule(vsi, mac)).ok();
    send(&client, mac);
    assert_eq!(frames(&client), (0, 2), "no package yet");
    client.download();
    send(&client, mac);
    assert_eq!(frames(&client), (1, 2));
    send(&client, [0xff; 6]);
    assert_eq!(frames(&client), (1, 3), "no rule for it");
    client.open_vsi(vsi, false).ok();
    send(&client, mac);
    assert_eq!(frames(&client), (1, 4), "closed");
}

#[test]
fn a_packet_needs_an_open_switch() {
    for switch_input in [SwitchInput::Closed, SwitchInput::Open] {
        let variation = Variation {
            switch_input,
            ..Variation::default()
        };
        let open = switch_input == SwitchInput::Open;
        let mut client = Client::of(Sim::builder().variation(variation));
        let mac = client.nic.mac();
        let vsi = client.add_vsi();
        client.open_vsi(vsi, true).ok();
        client.tell(0x02a0, params(&ONE), &mac_rule(vsi, mac)).ok();
        client.download_only();
        send(&client, mac);
        assert_eq!(frames(&client), if open { (1, 0) } else { (0, 1) });
        client.open_switch();
        send(&client, mac);
        assert_eq!(frames(&client), if open { (2, 0) } else { (1, 1) });
    }
}

#[test]
fn a_queue_set_is_one_of_the_engines() {
    let mut client = Client::new();
    let parent = group(&mut client);
    let mut set = [0; 32];
    set[..4].copy_from_slice(&parent.to_le_bytes());
    set[4] = 1;
    set[8] = 5;
    set[17] = 7;
    client
        .tell(0x0c33, params(&ONE), &set)
        .refused(AqCode::EINVAL);
    assert_eq!(client.kinds(), [kind::ADMINQ_UNKNOWN_OBJECT.name]);
    client.nic.with(|env| {
        assert!(!env.has_queue_set(5));
        assert!(!env.has_vsi(8));
    });
    let vsi = client.add_vsi();
    client.nic.with(|env| assert!(env.has_vsi(vsi)));
}

#[test]
fn without_rdma_there_are_no_queue_sets() {
    let mut client = Client::of(Sim::builder().firmware(|_, fw| fw.rdma = false));
    let parent = group(&mut client);
    let mut set = [0; 32];
    set[..4].copy_from_slice(&parent.to_le_bytes());
    set[4] = 1;
    client
        .tell(0x0c33, params(&ONE), &set)
        .refused(AqCode::EPERM);
}

#[test]
fn a_warm_function_has_everything() {
    let sim = Sim::builder().build();
    sim.function(0).with(|env| {
        assert!(env.has_queue_set(7));
        assert!(env.has_vsi(700));
    });
    // It has no firmware either, so faults cannot be injected there.
    sim.configure_firmware(0, |fw| fw.fault(1, 1, AqFault::Silence));
}

/// A leaf of the engine has a traffic class, and so has the parent of its queue set (control-path
/// 4.13, 9.8).
#[test]
fn a_queue_set_hangs_below_the_class_of_its_leaf() {
    let builder = Sim::builder().firmware(|_, config| config.classes = 0b1001);
    let mut client = Client::of(builder);
    client.nic.with_machine(|machine, index| {
        let engine = &mut machine.functions[index].engine;
        engine.add_leaf(5, 0);
        engine.add_leaf(6, 3);
    });
    // From below class 0 down to a queue group.
    let topology = client.ask(0x0400, [0; 16], 4096).ok();
    let mut parent = topology.data32(8 + 24 + 4);
    for _ in 2..8 {
        parent = super::scheduler::add(&mut client, parent).unwrap();
    }
    for (handle, found) in [(5, vec![]), (6, vec!["queue-set-class"])] {
        let mut set = [0; 32];
        set[..4].copy_from_slice(&parent.to_le_bytes());
        (set[4], set[8], set[17]) = (1, handle, 7);
        client.tell(0x0c33, params(&ONE), &set).ok();
        assert_eq!(client.kinds(), found);
    }
}
