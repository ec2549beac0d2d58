//! AdminQ rings and their error cases.

use super::client::{Client, RING, params};
use crate::findings::kind;
use crate::fw::AqCode;
use e810_hal::regs as hw;
use e810_hal::{Bus, Clock, Ns, Vector};

#[test]
fn commands_are_answered_lap_after_lap() {
    let mut client = Client::new();
    for _ in 0..3 * RING {
        let reply = client.direct(0x0001, [0; 16]).ok();
        // DD and CMP, no ERR.
        assert_eq!(reply.flags & 7, 3);
        assert_eq!(reply.params[13..16], [1, 7, 15]);
    }
    assert_eq!(client.kinds(), [""; 0]);
}

#[test]
fn an_opcode_that_nobody_knows_is_esrch() {
    let mut client = Client::new();
    let reply = client.direct(0x7777, [0x5a; 16]);
    assert_eq!((reply.code, reply.flags & 7), (3, 7));
    assert_eq!(reply.params, [0x5a; 16]);
}

#[test]
fn a_queue_that_is_off_or_too_short_is_a_fault() {
    let client = Client::new();
    hw::PF_FW_ATQT.set(&client.nic, RING);
    hw::PF_FW_ARQT.set(&client.nic, RING);
    assert_eq!(client.kinds(), [kind::ADMINQ_RING.name; 2]);
    hw::PF_FW_ATQLEN.set(&client.nic, 0);
    hw::PF_FW_ATQT.set(&client.nic, 1);
    assert_eq!(client.kinds(), [kind::ADMINQ_RING.name]);
    client.nic.delay(Ns::from_ms(1));
    assert_eq!(hw::PF_FW_ATQH.get(&client.nic), 0);
}

#[test]
fn a_ring_begins_at_a_multiple_of_64() {
    let client = Client::new();
    for register in [hw::PF_FW_ATQBAL.off(), hw::PF_FW_ARQBAL.off()] {
        client.nic.write32(register, 0x1000 | 1 << 6);
        assert_eq!(client.kinds(), [""; 0]);
        client.nic.write32(register, 0x1000 | 1 << 5);
        assert_eq!(client.kinds(), [kind::ADMINQ_RING.name]);
    }
}

#[test]
fn a_head_outside_the_ring_is_a_critical_error() {
    let client = Client::new();
    hw::PF_FW_ATQH.set(&client.nic, RING);
    hw::PF_FW_ATQT.set(&client.nic, 1);
    client.nic.delay(Ns::from_ms(1));
    assert_eq!(hw::PF_FW_ATQLEN.get(&client.nic) >> 30, 3);
    let found = client.sim.take_findings();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].kind, kind::ADMINQ_RING.name);
    assert_eq!(found[0].text, "ATQH = 8, the queue has 8 descriptors");
}

#[test]
fn an_event_without_room_is_a_critical_error() {
    let mut client = Client::new();
    // Link events on; link down is an event with data.
    let on = params(&[(2, &[3])]);
    client.ask(0x0607, on, 32).ok();
    client.nic.delay(Ns::from_ms(3_000));
    client.said();
    client.kinds();
    for index in 0..RING {
        client.take_room(index);
    }
    client
        .sim
        .configure_firmware(0, |fw| fw.link = crate::PortLink::Down);
    client.nic.delay(Ns::from_ms(1));
    assert_eq!(hw::PF_FW_ARQLEN.get(&client.nic) >> 30, 3);
    let found = client.sim.take_findings();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].kind, kind::ADMINQ_DESCRIPTOR.name);
    assert!(
        found[0]
            .text
            .starts_with("event 0x0607 of 32 bytes, descriptor ")
    );
    assert!(found[0].text.ends_with(" has room for 0"));
}

#[test]
fn a_buffer_out_of_reach_is_a_critical_error() {
    const BUF: u16 = 1 << 12;
    let mut client = Client::new();
    let nowhere = params(&[(12, &0x1000_u32.to_le_bytes())]);
    client.post(BUF, 0x000a, 512, nowhere);
    hw::PF_FW_ATQT.set(&client.nic, 1);
    client.nic.delay(Ns::from_ms(1));
    assert_eq!(hw::PF_FW_ATQH.get(&client.nic), 0);
    assert_eq!(hw::PF_FW_ATQLEN.get(&client.nic) >> 30, 3);
    assert_eq!(client.kinds(), [kind::DMA_UNMAPPED.name]);
    // Setting up the queue again helps.
    client = client.start();
    client.direct(0x0001, [0; 16]).ok();
}

/// iPXE never sets it (field-evidence 8); 4096 bytes are the maximum in any case.
#[test]
fn a_large_buffer_goes_without_its_flag() {
    const BUF: u16 = 1 << 12;
    let mut client = Client::new();
    let buffer = client.buffer();
    client.post(BUF, 0x020d, 513, buffer);
    hw::PF_FW_ATQT.set(&client.nic, 1);
    client.nic.delay(Ns::from_ms(1));
    assert_eq!(client.kinds(), [""; 0]);
    client.next = 1;
    client.post(BUF, 0x020d, 4097, buffer);
    hw::PF_FW_ATQT.set(&client.nic, 2);
    client.nic.delay(Ns::from_ms(1));
    assert_eq!(client.kinds(), [kind::ADMINQ_DESCRIPTOR.name]);
}

#[test]
fn a_command_without_rd_has_no_data() {
    let mut client = Client::new();
    let reply = client.ask(0x0210, params(&[(6, &[2])]), 128);
    reply.refused(AqCode::EINVAL);
    assert_eq!(client.kinds(), [kind::ADMINQ_BITS.name]);
}

#[test]
fn events_interrupt_and_overflow() {
    let mut client = Client::new();
    let vector = Vector::new(2).unwrap();
    hw::PFINT_FW_CTL.set(&client.nic, 1 << 30 | 2);
    hw::GLINT_DYN_CTL.at(vector).set(&client.nic, 3);
    for _ in 0..RING {
        client.sim.configure_firmware(0, |fw| {
            fw.fault(0x0001, 1, crate::AqFault::EventAfter(0x1234));
        });
        client.direct(0x0001, [0; 16]).ok();
    }
    assert_eq!(client.nic.take_interrupts(), [vector]);
    // The device had one descriptor fewer than the ring has.
    let said = client.said();
    assert_eq!(said.len() as u32, RING - 1);
    assert!(said.iter().all(|event| event.opcode == 0x1234));
    assert_eq!(hw::PF_FW_ARQLEN.get(&client.nic) >> 29 & 1, 1, "overflow");
    assert_eq!(client.kinds(), [""; 0]);
}
