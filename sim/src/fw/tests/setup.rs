//! Version, locks, capabilities, flash, addresses, link.

use super::client::{Client, params};
use super::lan_port::reg;
use super::switch::mac_rule;
use crate::fw::AqCode;
use crate::pe::Env;
use crate::{PortLink, Sim};
use e810_hal::regs as hw;
use e810_hal::{Bus, Clock, Ns};

fn capability(data: &[u8], id: u16) -> Option<[u32; 3]> {
    let word = |entry: &[u8], at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap());
    data.chunks_exact(32)
        .find(|entry| u16::from_le_bytes([entry[0], entry[1]]) == id)
        .map(|entry| [word(entry, 4), word(entry, 8), word(entry, 12)])
}

#[test]
fn capabilities_say_what_the_function_has() {
    let mut client = Client::of(Sim::builder().functions(2).vectors(33));
    let reply = client.ask(0x000a, [0; 16], 4096).ok();
    assert_eq!(reply.param32(4) as usize * 32, reply.data.len());
    assert_eq!(capability(&reply.data, 0x0051), Some([1, 0, 0]));
    assert_eq!(capability(&reply.data, 0x0043), Some([33, 0, 0]));
    assert_eq!(capability(&reply.data, 0x0017), Some([384, 0, 0]));
    let device = client.ask(0x000b, [0; 16], 4096).ok();
    assert_eq!(capability(&device.data, 0x0005), Some([3, 0, 0]));
    let small = client.ask(0x000a, [0; 16], 64);
    assert_eq!((small.code, small.param32(4)), (9, reply.param32(4)));
}

#[test]
fn choices_show_in_the_capabilities() {
    let builder = Sim::builder().firmware(|_, fw| {
        fw.rdma = false;
        fw.msix = Some(2);
        fw.api = (1, 5, 0);
        fw.functions = 8;
    });
    let mut client = Client::of(builder);
    assert_eq!(client.direct(0x0001, [0; 16]).ok().params[13..], [1, 5, 0]);
    let data = client.ask(0x000a, [0; 16], 4096).ok().data;
    assert_eq!(capability(&data, 0x0051), None);
    assert_eq!(capability(&data, 0x0043), Some([2, 0, 0]));
    assert_eq!(capability(&data, 0x0005), Some([0xff, 0, 0]));
}

/// Active classes and their number; first queue and vector numbers.
#[test]
fn capabilities_say_which_are_the_functions() {
    let builder = Sim::builder().functions(2).vectors(33);
    let sim = builder.firmware(|_, fw| fw.classes = 0b1011).cold().build();
    for (pf, first) in [(0, 0), (1, 256)] {
        let mut client = Client::on(&sim, pf);
        for opcode in [0x000a, 0x000b] {
            let data = client.ask(opcode, [0; 16], 4096).ok().data;
            assert_eq!(capability(&data, 0x0018), Some([1, 0b1011, 8]));
            assert_eq!(capability(&data, 0x0042), Some([256, 0, first]));
            assert_eq!(capability(&data, 0x0043), Some([33, 0, first]));
        }
    }
}

#[test]
fn a_lock_has_one_owner_and_a_time() {
    let sim = Sim::builder().functions(2).cold().build();
    let (mut one, mut other) = (Client::on(&sim, 0), Client::on(&sim, 1));
    let change = params(&[(0, &[3]), (2, &[2])]);
    assert_eq!(one.direct(0x0008, change).ok().param32(4), 1000);
    let busy = other.direct(0x0008, change);
    assert_eq!(busy.code, 12);
    assert!((900..=1000).contains(&busy.param32(4)));
    other.direct(0x0009, change).refused(AqCode::EACCES);
    one.direct(0x0009, change).ok();
    other.direct(0x0008, change).ok();
    // Its time runs out.
    sim.run(Ns::from_ms(1_001));
    one.direct(0x0008, change).ok();
    other.direct(0x0009, change).refused(AqCode::EACCES);
}

#[test]
fn flash_ends_where_a_bisection_finds_it() {
    let mut client = Client::new();
    let read = |client: &mut Client, offset: u32, len: u16, flags: u8| {
        let bytes = offset.to_le_bytes();
        let command = params(&[
            (0, &bytes[..2]),
            (2, &bytes[2..3]),
            (3, &[flags]),
            (6, &len.to_le_bytes()),
        ]);
        client.ask(0x0701, command, usize::from(len))
    };
    const FLASH_ONLY: u8 = 0x80;
    let (mut low, mut high) = (0_u32, 0x100_0000);
    while high - low > 1 {
        let middle = (low + high) / 2;
        match read(&mut client, middle, 1, FLASH_ONLY).code {
            0 => low = middle,
            code => {
                assert_eq!(code, 14);
                high = middle;
            }
        }
    }
    assert_eq!(high, 0x10_0000);
    // The control word is valid, the PFA's pointer leads to a part number.
    assert_eq!(read(&mut client, 0, 2, 0).ok().data16(0) >> 6 & 3, 1);
    let pfa = u32::from(read(&mut client, 0x80, 2, 0).ok().data16(0)) * 2;
    assert_eq!(read(&mut client, pfa + 2, 2, 0).ok().data16(0), 0x16);
    // Shadow RAM is not read across a sector, flash is.
    read(&mut client, 4095, 2, 0).refused(AqCode::EINVAL);
    read(&mut client, 4095, 2, FLASH_ONLY).ok();
}

#[test]
fn the_address_is_the_functions() {
    let mut client = Client::new();
    let mac = client.nic.mac();
    let reply = client.ask(0x0107, [0; 16], 16).ok();
    assert_eq!((reply.param16(0) >> 4 & 1, reply.params[4]), (1, 2));
    assert_eq!(reply.data[..8], [&[0, 0], &mac[..]].concat());
    assert_eq!(client.ask(0x0107, [0; 16], 8).ok().params[4], 1);
}

fn link_info(client: &mut Client, flags: u8) -> u8 {
    client.ask(0x0607, params(&[(2, &[flags])]), 32).ok().data[2]
}

#[test]
fn link_events_come_when_they_are_wanted() {
    let builder = Sim::builder().firmware(|_, fw| fw.link = PortLink::UpAfterMs(5));
    let mut client = Client::of(builder);
    assert_eq!(link_info(&mut client, 3) & 1, 0);
    client.nic.delay(Ns::from_ms(6));
    let said = client.said();
    assert_eq!(said.len(), 1);
    assert_eq!((said[0].opcode, said[0].data[2] & 1), (0x0607, 1));
    // 100G.
    assert_eq!(said[0].data[10..12], [0, 4]);
    // Masked: bit 1 is up and down.
    client.direct(0x0613, params(&[(8, &[2])])).ok();
    client
        .sim
        .configure_firmware(0, |fw| fw.link = PortLink::Down);
    client.nic.delay(Ns::from_ms(1));
    assert_eq!(client.said(), []);
    assert_eq!(link_info(&mut client, 2) & 0x41, 0x40, "a module, no link");
}

#[test]
fn the_driver_switches_the_link() {
    let mut client = Client::new();
    assert_eq!(link_info(&mut client, 3) & 1, 1);
    // Restart without enable takes it down, a configuration with enable and update brings it back.
    client.direct(0x0605, params(&[(2, &[2])])).ok();
    assert_eq!(link_info(&mut client, 3) & 1, 0);
    let mut config = [0; 24];
    config[16] = 0x28;
    client.tell(0x0601, [0; 16], &config).ok();
    assert_eq!(link_info(&mut client, 3) & 1, 1);
    assert_eq!(client.said().len(), 2);
}

#[test]
fn firmware_may_be_loading_for_a_while() {
    let client = Client::of(Sim::builder().firmware(|_, fw| fw.loading_ms = 20));
    let loading = || hw::GL_MNG_FWSM.get(&client.nic) >> 30 & 1;
    assert_eq!(loading(), 1);
    client.nic.delay(Ns::from_ms(21));
    assert_eq!(loading(), 0);
    hw::GLGEN_RTRIG.set(&client.nic, 1);
    client.nic.delay(Ns::from_ms(104));
    assert_eq!((loading(), hw::GLGEN_RSTAT.get(&client.nic) & 3), (1, 0));
    client.nic.delay(Ns::from_ms(20));
    assert_eq!(loading(), 0);
}

#[test]
fn recovery_mode_is_for_the_flash() {
    let mut client = Client::of(Sim::builder().firmware(|_, fw| fw.recovery = true));
    assert_eq!(hw::GL_MNG_FWSM.get(&client.nic) & 2, 2);
    client.direct(0x0001, [0; 16]).ok();
    client.ask(0x000a, [0; 16], 4096).ok();
    client.direct(0x02a4, [0; 16]).refused(AqCode::EMODE);
    client.ask(0x0412, [0; 16], 320).refused(AqCode::EMODE);
}

#[test]
fn a_port_has_one_option() {
    let mut client = Client::new();
    let reply = client.ask(0x06ea, [0; 16], 128).ok();
    assert_eq!((reply.params[2], reply.params[4]), (1, 0x80));
    assert_eq!((reply.datalen, reply.data[0]), (8, 1));
}

#[test]
fn a_ports_led_blinks_or_not() {
    let mut client = Client::new();
    for (mode, other_port, is_right) in [(1, 0, true), (0, 0, true), (2, 0, false), (1, 1, false)] {
        let port = client.nic.pf() + other_port;
        let reply = client.direct(0x06e9, params(&[(0, &[port, 1, mode])]));
        if is_right {
            reply.ok();
        } else {
            reply.refused(AqCode::EINVAL);
        }
    }
}

/// Drivers check for free flow director filters before they add one: none is free.
#[test]
fn filters_of_the_flow_director_are_all_taken() {
    let mut client = Client::of(Sim::builder().functions(2));
    let read = |client: &Client, off| client.nic.read32(reg(off));
    let size = read(&client, 0x46_0010);
    let vsi = u32::from(client.add_vsi());
    assert!(size & 0x3fff != 0 && size >> 16 != 0);
    // Guaranteed ones, divided among the functions; shared ones of the card.
    assert_eq!(read(&client, 0x46_4000 + 4 * vsi), (size & 0x3fff) / 2);
    assert_eq!(read(&client, 0x46_0018) >> 16, size >> 16);
    assert_eq!(client.kinds(), [""; 0]);
}

#[test]
fn frames_have_a_size() {
    let mut client = Client::new();
    let size = |bytes: u16| params(&[(0, &bytes.to_le_bytes())]);
    client.direct(0x0603, size(9729)).refused(AqCode::EINVAL);
    client.direct(0x0603, size(9000)).ok();
    let data = client.ask(0x0607, [0; 16], 32).ok().data;
    assert_eq!(data[6..8], 9000_u16.to_le_bytes());
}

#[test]
fn a_module_is_read_and_not_written() {
    let block = |at: u8, bus: u16| params(&[(0, &[0, 1]), (2, &bus.to_le_bytes()), (4, &[at])]);
    let mut client = Client::of(Sim::builder());
    let mut memory = Vec::new();
    for at in (0..=248).step_by(8) {
        memory.extend(client.ask(0x06ee, block(at, 0x50), 8).ok().data);
    }
    assert_eq!(
        (memory.len(), memory[0], &memory[168..180]),
        (256, 0x11, &b"100GBASE-CR4"[..])
    );
    for (range, sum) in [(128..191, 191), (192..223, 223)] {
        let found = memory[range]
            .iter()
            .fold(0, |sum: u8, byte| sum.wrapping_add(*byte));
        assert_eq!(found, memory[sum]);
    }
    client
        .ask(0x06ee, block(0, 0x8050), 8)
        .refused(AqCode::EPERM);
    client.ask(0x06ee, block(0, 0x51), 8).refused(AqCode::EIO);
    let builder = Sim::builder().firmware(|_, fw| fw.link = PortLink::NoMedia);
    let mut client = Client::of(builder);
    client.ask(0x06ee, block(0, 0x50), 8).refused(AqCode::EIO);
}

/// Sends frames of 2000 bytes from the engine of function 0 to that of function 1; returns how many
/// arrive.
fn long_frames(clients: &mut [Client; 2]) -> u64 {
    let [one, other] = clients;
    let before = other.sim.stats(1).frames_received;
    let mut frame = vec![0; 2000];
    frame[..6].copy_from_slice(&other.nic.mac());
    one.nic.with(|env| env.transmit(frame));
    // Any register write puts what was sent on the wire.
    hw::GLINT_DYN_CTL
        .at(e810_hal::Vector::new(1).unwrap())
        .set(&one.nic, 0);
    one.sim.run(Ns::from_ms(1));
    other.sim.stats(1).frames_received - before
}

/// The sources do not say what a port accepts before 0x0603 (control-path 9.3: the command is
/// needed for frames longer than the default).
#[test]
fn both_ports_are_told_of_longer_frames() {
    let sim = Sim::builder().functions(2).cold().build();
    let mut clients = [Client::on(&sim, 0), Client::on(&sim, 1)];
    clients[0].download();
    for client in &mut clients {
        let vsi = client.add_vsi();
        client.open_vsi(vsi, true).ok();
        let rule = mac_rule(vsi, client.nic.mac());
        client.tell(0x02a0, params(&[(0, &[1])]), &rule).ok();
    }
    let size = params(&[(0, &9728_u16.to_le_bytes())]);
    assert_eq!(long_frames(&mut clients), 0);
    clients[1].direct(0x0603, size).ok();
    assert_eq!(long_frames(&mut clients), 0, "the sender's port");
    clients[0].direct(0x0603, size).ok();
    assert_eq!(long_frames(&mut clients), 1);
}
