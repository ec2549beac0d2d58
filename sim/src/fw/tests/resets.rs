//! State lost in each kind of reset, and how the reset is announced.

use super::client::{Client, params};
use crate::Sim;
use crate::fw::AqCode;
use e810_hal::bus::VsiId;
use e810_hal::regs as hw;
use e810_hal::{Clock, Ns, Vector};

fn has_package(client: &mut Client) -> bool {
    client.ask(0x0c43, [0; 16], 512).ok().data32(0) > 0
}

fn set_up(client: &mut Client) -> u16 {
    client.download();
    let vsi = client.add_vsi();
    client.open_vsi(vsi, true).ok();
    vsi
}

fn filter(client: &Client, vsi: u16) -> u32 {
    hw::VSIQF_PE_CTL1
        .at(VsiId::new(vsi).unwrap())
        .get(&client.nic)
}

#[test]
fn a_pf_reset_takes_the_functions_share() {
    let mut client = Client::new();
    let vsi = set_up(&mut client);
    hw::PFGEN_CTRL.set(&client.nic, 1);
    client.nic.delay(Ns::from_ms(1));
    assert_eq!(hw::PFGEN_CTRL.get(&client.nic), 0);
    assert_eq!(filter(&client, vsi), 0);
    // The registers keep their values, but the firmware does not read them.
    assert_ne!(hw::PF_FW_ATQBAL.get(&client.nic), 0);
    hw::PF_FW_ATQT.set(&client.nic, 1);
    assert_eq!(client.kinds(), [crate::findings::kind::ADMINQ_RING.name]);
    let mut client = client.start();
    assert!(has_package(&mut client), "the package stays");
    client.open_vsi(vsi, true).refused(AqCode::ENOENT);
}

#[test]
fn a_function_level_reset_is_a_pf_reset() {
    let mut client = Client::new();
    let vsi = set_up(&mut client);
    client.nic.function_level_reset();
    assert_eq!(filter(&client, vsi), 0);
    let mut client = client.start();
    assert!(has_package(&mut client));
    client.open_vsi(vsi, true).refused(AqCode::ENOENT);
}

#[test]
fn a_core_reset_is_announced_and_takes_everything() {
    let sim = Sim::builder().functions(2).cold().build();
    let mut clients = [Client::on(&sim, 0), Client::on(&sim, 1)];
    let vsi = set_up(&mut clients[0]);
    let vector = Vector::new(1).unwrap();
    for client in &clients {
        hw::PFINT_OICR_ENA.set(&client.nic, 1 << 20);
        hw::PFINT_OICR_CTL.set(&client.nic, 1 << 30 | 1);
        hw::GLINT_DYN_CTL.at(vector).set(&client.nic, 3);
    }
    hw::GLGEN_RTRIG.set(&clients[1].nic, 1);
    for client in &clients {
        // The other function is notified too, and has time to poll.
        assert_eq!(client.nic.take_interrupts(), [vector]);
        assert_eq!(hw::PFINT_OICR.read_clear(&client.nic).get() >> 20 & 1, 1);
        let state = hw::GLGEN_RSTAT.get(&client.nic);
        assert_eq!((state & 3, state >> 2 & 3), (1, 1), "coming, a core reset");
        assert_eq!(filter(&clients[0], vsi), 1);
    }
    // GRSTDEL is 100 ms, and the reset takes some ms.
    sim.run(Ns::from_ms(110));
    for client in &clients {
        assert_eq!(hw::GLGEN_RSTAT.get(&client.nic) & 3, 0);
        assert_eq!(hw::GLNVM_ULD.get(&client.nic) & 0x73b, 0x73b);
        assert_eq!(hw::PFINT_OICR_ENA.get(&client.nic), 0);
    }
    assert_eq!(filter(&clients[0], vsi), 0);
    let [one, _] = clients;
    let mut one = one.start();
    assert!(!has_package(&mut one));
    assert_eq!(sim.reset_counts(1).corer, 1);
    assert_eq!(sim.findings(), []);
}

/// DEVSTATE says that a reset is in progress, and a driver waits for that one instead (control-path
/// 9.2).
#[test]
fn a_pf_reset_waits_for_one_of_the_card() {
    let sim = Sim::builder().functions(2).cold().build();
    let clients = [Client::on(&sim, 0), Client::on(&sim, 1)];
    hw::GLGEN_RTRIG.set(&clients[1].nic, 1);
    // Announced just now: a driver that looked before cannot know.
    hw::PFGEN_CTRL.set(&clients[0].nic, 1);
    assert_eq!(sim.take_findings(), []);
    sim.run(Ns::from_ms(2));
    assert_eq!(hw::GLGEN_RSTAT.get(&clients[0].nic) & 3, 1);
    hw::PFGEN_CTRL.set(&clients[0].nic, 1);
    assert_eq!(
        clients[0].kinds(),
        [crate::findings::kind::RESET_IN_RESET.name]
    );
    sim.run(Ns::from_ms(110));
    assert_eq!(hw::GLGEN_RSTAT.get(&clients[0].nic) & 3, 0);
    hw::PFGEN_CTRL.set(&clients[0].nic, 1);
    assert_eq!(sim.take_findings(), []);
}

/// Each done bit and status word rises after the one before it.
#[test]
fn the_engine_comes_up_after_the_card() {
    let client = Client::new();
    let nic = &client.nic;
    let done = || hw::GLNVM_ULD.get(nic) & 0x33b == 0x33b;
    let engine = || hw::GLNVM_ULD.get(nic) >> 10 & 1 == 1;
    let ready = || hw::GLPE_CPUSTATUS2.get(nic) == 0x80;
    assert!(done() && engine() && ready());
    hw::GLGEN_RTRIG.set(nic, 1);
    let wait = |what: &str, holds: &dyn Fn() -> bool| {
        let start = nic.now();
        while !holds() {
            assert!(nic.now() - start < Ns::from_ms(200), "{what}");
            nic.delay(Ns(10_000));
        }
    };
    wait("the reset", &|| hw::GLNVM_ULD.get(nic) == 0);
    assert!(!ready());
    assert_ne!(hw::GLGEN_RSTAT.get(nic) & 3, 0);
    wait("the card", &done);
    assert_eq!(hw::GLGEN_RSTAT.get(nic) & 3, 0);
    assert!(!engine() && !ready());
    wait("the engine", &engine);
    assert!(ready());
}

#[test]
fn a_firmware_reset_clears_the_adminqs_registers() {
    let client = Client::new();
    for (trigger, cleared) in [(2, false), (4, true)] {
        let nic = &client.nic;
        hw::PF_FW_ATQLEN.set(nic, 8 | 1 << 31);
        hw::GLGEN_RTRIG.set(nic, trigger);
        nic.delay(Ns::from_ms(110));
        assert_eq!(hw::PF_FW_ATQLEN.get(nic) == 0, cleared);
    }
}

#[test]
fn a_reset_gives_locks_back() {
    let sim = Sim::builder().functions(2).cold().build();
    let (mut one, mut other) = (Client::on(&sim, 0), Client::on(&sim, 1));
    let change = params(&[(0, &[3]), (2, &[2])]);
    one.direct(0x0008, change).ok();
    other.direct(0x0008, change).refused(AqCode::EBUSY);
    one.nic.function_level_reset();
    other.direct(0x0008, change).ok();
}

#[test]
fn pxe_mode_is_the_cards_and_ends_once() {
    let sim = Sim::builder().functions(2).cold().build();
    let (mut one, mut other) = (Client::on(&sim, 0), Client::on(&sim, 1));
    let two = params(&[(0, &[2])]);
    one.direct(0x0110, two).ok();
    other.direct(0x0110, two).refused(AqCode::EEXIST);
    hw::PFGEN_CTRL.set(&one.nic, 1);
    one.nic.delay(Ns::from_ms(1));
    let mut one = one.start();
    one.direct(0x0110, two).refused(AqCode::EEXIST);
    one.nic.function_level_reset();
    for trigger in [1, 2, 4] {
        one = one.start();
        one.direct(0x0110, two).refused(AqCode::EEXIST);
        hw::GLGEN_RTRIG.set(&one.nic, trigger);
        sim.run(Ns::from_ms(110));
        one = one.start();
        one.direct(0x0110, two).ok();
    }
}
