//! LAN frames from one function's queues to another's: descriptors, offloads, tags, counters.

use super::client::{Client, params};
use super::lan_port::*;
use super::switch::mac_rule;
use e810_hal::regs as hw;
use e810_hal::{Bus, Ns};

const RX: RxContext = RxContext {
    rxdid: 2,
    longest: 4 * BUFFER as u64,
    strips_fcs: true,
    l2tsel: true,
};

fn macs(ports: &[Port; 2]) -> [[u8; 6]; 2] {
    [0, 1].map(|index: usize| ports[index].client.nic.mac())
}

#[test]
fn a_frame_goes_from_ring_to_ring() {
    let (sim, mut ports) = Port::pair(&properties(), RX);
    let [a, b] = macs(&ports);
    let sent = frame(b, a, 200);
    ports[0].send(&sent, 0, None);
    let [received] = &ports[1].received()[..] else {
        panic!("no frame")
    };
    assert_eq!(received.bytes, sent);
    let [q0, q8, q16, q24] = received.last();
    // RXDID 2, packet type 1, 200 bytes; DD and EOF.
    assert_eq!(q0, 2 | 1 << 16 | 200 << 32);
    assert_eq!((q8, q16, q24), (3, 0, 0));
    // A shorter frame is padded, and goes to all.
    ports[1].send(&frame([0xFF; 6], b, 20), 0, None);
    let received = ports[0].received();
    assert_eq!((received.len(), received[0].bytes.len()), (1, 60));
    let vsi = |port: &Port, base| port.counter(base + 8 * u32::from(port.vsi));
    // Byte counts include the FCS.
    assert_eq!(vsi(&ports[0], 0x30_0000), 204);
    assert_eq!(vsi(&ports[1], 0x3B_0000), 204);
    assert_eq!(vsi(&ports[1], 0x3B_2000), 1);
    assert_eq!(vsi(&ports[1], 0x30_E000), 1);
    assert_eq!(vsi(&ports[0], 0x3B_6000), 1);
    // Counters of the port: bytes out, size class to 255; broadcasts in, size class of 64.
    assert_eq!(ports[0].counter(0x38_0B40), 204);
    assert_eq!(ports[0].counter(0x38_0C00), 1);
    assert_eq!(ports[0].counter(0x38_1380), 1);
    assert_eq!(ports[0].counter(0x38_0900), 1);
    assert_eq!(ports[1].counter(0x38_0A00 + 8), 0);
    assert_eq!(ports[1].counter(0x38_09C0 - 0x40 + 8), 1);
    assert_eq!(sim.findings(), []);
}

#[test]
fn a_packet_is_gathered_and_a_frame_is_scattered() {
    let (sim, mut ports) = Port::pair(&properties(), RX);
    let [a, b] = macs(&ports);
    let sent = frame(b, a, 3000);
    let at = ports[0].fill(0, &sent);
    let after = ports[0].post(&[
        [at, 14 << 34],
        [at + 14, 1000 << 34],
        [at + 1014, LAST | 1986 << 34],
    ]);
    assert_eq!(after, [14 << 34, 1000 << 34, 0xF]);
    sim.run(Ns::from_ms(1));
    let received = ports[1].received();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].bytes, sent);
    let lens: Vec<u64> = received[0]
        .words
        .iter()
        .map(|words| words[0] >> 32)
        .collect();
    assert_eq!(lens, [1024, 1024, 952]);
    let eof: Vec<u64> = received[0].words.iter().map(|words| words[1] & 3).collect();
    assert_eq!(eof, [1, 1, 3]);
    assert_eq!(sim.findings(), []);
}

#[test]
fn checksums_are_filled_in_and_verified() {
    let (sim, mut ports) = Port::pair(&properties(), RX);
    let [a, b] = macs(&ports);
    let packet = tcp(b, a, 100, false);
    ports[0].send(&packet, tcp_command(2), None);
    // Without a request the device leaves the checksum wrong.
    ports[0].send(&packet, 0, None);
    let received = ports[1].received();
    let status: Vec<u64> = received
        .iter()
        .map(|frame| frame.last()[1] & 0xFFFF)
        .collect();
    // DD, EOF, L3L4P; and XSUM_L4E.
    assert_eq!(status, [0b1011, 0b10_1011]);
    // TCP over IPv4.
    assert_eq!(received[0].last()[0] >> 16 & 0x3FF, 26);
    assert_eq!(sim.findings(), []);
}

#[test]
fn a_packet_is_cut_into_segments() {
    let (sim, mut ports) = Port::pair(&properties(), RX);
    let [a, b] = macs(&ports);
    let packet = tcp(b, a, 2100, true);
    let context = [0, 1 | 1 << 4 | 2100 << 30 | 1000 << 50];
    ports[0].send(&packet, tcp_command(3), Some(context));
    let received = ports[1].received();
    assert_eq!(received.len(), 3);
    let mut payload = Vec::new();
    for (index, frame) in (0_u16..).zip(&received) {
        let bytes = &frame.bytes;
        assert_eq!(frame.last()[1] & 0xFFFF, 0b1011, "checksums of {index}");
        let len = if index == 2 { 100 } else { 1000 };
        let number = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        assert_eq!((number(16), number(18)), (40 + len, 0x1234 + index));
        let sequence = u32::from_be_bytes(bytes[38..42].try_into().unwrap());
        assert_eq!(sequence, 1000 + 1000 * u32::from(index));
        // CWR in the first, FIN and PSH in the last.
        let flags = [0x90, 0x10, 0x19][usize::from(index)];
        assert_eq!(bytes[47], flags);
        payload.extend_from_slice(&bytes[54..54 + usize::from(len)]);
    }
    assert_eq!(payload, packet[54..]);
    assert_eq!(sim.findings(), []);
}

#[test]
fn tags_are_inserted_and_taken_out() {
    let mut stripping = properties();
    stripping[INNER_VLAN] = 3;
    for (props, l2tsel) in [(properties(), true), (stripping, true), (stripping, false)] {
        let (sim, mut ports) = Port::pair(&props, RxContext { l2tsel, ..RX });
        let [a, b] = macs(&ports);
        let sent = frame(b, a, 100);
        let command = 1 << 7 | 0x6005 << 48;
        ports[0].send(&sent, command, None);
        let received = ports[1].received();
        let [_, q8, q16, _] = received[0].last();
        if props[INNER_VLAN] == LEAVE_TAGS {
            assert_eq!(received[0].bytes[12..18], [0x81, 0, 0x60, 5, 0x88, 0xB5]);
            assert_eq!((q8 >> 13 & 1, q16 >> 11 & 1), (0, 0));
        } else {
            assert_eq!(received[0].bytes, sent);
            let (first, second) = (q8 >> 16 & 0xFFFF, q16 >> 48);
            let expected = if l2tsel {
                (1, 0, 0x6005, 0)
            } else {
                (0, 1, 0, 0x6005)
            };
            assert_eq!((q8 >> 13 & 1, q16 >> 11 & 1, first, second), expected);
        }
        assert_eq!(sim.findings(), []);
    }
}

#[test]
fn layouts_of_descriptors_and_the_fcs() {
    for rxdid in [1, 22] {
        let context = RxContext {
            rxdid,
            strips_fcs: false,
            ..RX
        };
        let (sim, mut ports) = Port::pair(&properties(), context);
        let [a, b] = macs(&ports);
        let sent = frame(b, a, 100);
        ports[0].send(&sent, 0, None);
        let received = ports[1].received();
        let fcs = crc32fast::hash(&sent).to_le_bytes();
        let [q0, q8, ..] = received[0].last();
        if rxdid == 1 {
            // DD, EOF, CRCP; packet type 1; 104 bytes.
            assert_eq!(q8, 0b1_0011 | 1 << 30 | 104 << 38);
            assert_eq!(received[0].bytes, [sent, fcs.to_vec()].concat());
        } else {
            // CRCP, and no flow.
            assert_eq!(q8, 3 | 1 << 11 | 0xFFFF_FFFF << 32);
            assert_eq!(q0, 22 | 1 << 16 | 104 << 32);
        }
        assert_eq!(sim.findings(), []);
    }
}

#[test]
fn what_finds_no_room_is_counted() {
    let short = RxContext { longest: 500, ..RX };
    let (sim, mut ports) = Port::pair(&properties(), short);
    let [a, b] = macs(&ports);
    let discarded = 0x29_4C04 + 4 * u32::from(ports[1].vsi);
    ports[0].send(&frame(b, a, 501), 0, None);
    assert_eq!(ports[1].client.nic.read32(reg(discarded)), 1, "too long");
    // The device owns 56 of 64 descriptors: the tail's low bits do not count.
    for _ in 0..57 {
        ports[0].send(&frame(b, a, 60), 0, None);
    }
    assert_eq!(
        ports[1].client.nic.read32(reg(discarded)),
        2,
        "no descriptor"
    );
    assert_eq!(ports[1].received().len(), 56);
    ports[1].client.nic.write32(reg(QRX_CTRL), 0);
    assert_eq!(ports[1].client.nic.read32(reg(QRX_CTRL)), 0);
    ports[0].send(&frame(b, a, 60), 0, None);
    assert_eq!(ports[1].received().len(), 0, "the queue is off");
    assert_eq!(sim.stats(1).lan_frames_received, 56);
    assert_eq!(sim.stats(1).frames_filtered, 3);
    assert_eq!(sim.findings(), []);
}

/// Recipe 3: the address field holds a pattern.
#[test]
fn promiscuous_rules_are_patterns() {
    let (sim, mut ports) = Port::pair(&properties(), RX);
    let [a, _] = macs(&ports);
    let stranger = [2, 7, 7, 7, 7, 7];
    let group = [0x33, 0x33, 0, 0, 0, 9];
    for to in [stranger, group] {
        ports[0].send(&frame(to, a, 60), 0, None);
    }
    assert_eq!(ports[1].received().len(), 0);
    let vsi = ports[1].vsi;
    for (pattern, to) in [(2, stranger), (3, group)] {
        let mut rule = mac_rule(vsi, [pattern, 0, 0, 0, 0, 0]);
        rule[4] = 3;
        ports[1].client.tell(0x02a0, params(&ONE), &rule).ok();
        ports[0].send(&frame(to, a, 60), 0, None);
        assert_eq!(ports[1].received().len(), 1, "{to:x?}");
    }
    assert_eq!(sim.findings(), []);
}

/// Linux' `ethtool -t` and `ethtool -K loopback on`: sent frames come in again, nothing leaves and
/// nothing enters.
#[test]
fn a_mac_in_loopback_gives_frames_back() {
    let (sim, mut ports) = Port::pair(&properties(), RX);
    let [a, b] = macs(&ports);
    let loopback = |ports: &mut [Port; 2], on: u8| {
        let on = params(&[(0, &[on])]);
        ports[1].client.direct(0x0620, on).ok();
    };
    loopback(&mut ports, 1);
    let sent = frame([0xFF; 6], b, 64);
    ports[1].send(&sent, 0, None);
    let [back] = &ports[1].received()[..] else {
        panic!("no frame")
    };
    assert_eq!(back.bytes, sent);
    ports[0].send(&frame(b, a, 64), 0, None);
    assert_eq!(ports.each_mut().map(|port| port.received().len()), [0, 0]);
    loopback(&mut ports, 0);
    ports[1].send(&sent, 0, None);
    ports[0].send(&frame(b, a, 64), 0, None);
    assert_eq!(ports.each_mut().map(|port| port.received().len()), [1, 1]);
    // A reset of the function ends it too.
    loopback(&mut ports, 1);
    hw::PFGEN_CTRL.set(&ports[1].client.nic, 1);
    sim.run(Ns::from_ms(3_000));
    let mut again = Port::new(&sim, 1, &properties(), RX);
    ports[0].send(&frame(b, a, 64), 0, None);
    assert_eq!(again.received().len(), 1);
    assert_eq!(sim.findings(), []);
}

/// By the VSI's key and the function's table, as Linux sets them (lan-path 7.4). Without either,
/// the first queue gets all frames.
#[test]
fn flows_go_to_the_queues_of_the_table() {
    const TABLE_OF_FUNCTION: u8 = 2;
    let mut spread = properties();
    spread[78] = TABLE_OF_FUNCTION;
    let (sim, mut ports) = Port::pair(&spread, RX);
    let [a, b] = macs(&ports);
    let packet = tcp(b, a, 100, false);
    let got = |ports: &mut [Port; 2]| {
        ports[0].send(&packet, 0, None);
        let received = ports[1].received();
        received.last().map(|received| received.last()[1] >> 12 & 1)
    };
    assert_eq!(got(&mut ports), Some(0), "no hash");
    let vsi = (ports[1].vsi | 1 << 15).to_le_bytes();
    let client = &mut ports[1].client;
    client.tell(0x0b02, params(&[(0, &vsi)]), &[0x5A; 52]).ok();
    let table = |client: &mut Client, queue: u8| {
        let whose = params(&[(0, &vsi), (2, &[9, 0])]);
        client.tell(0x0b03, whose, &[queue; 2048]).ok();
        let read = client.ask(0x0b05, whose, 2048).ok();
        assert_eq!(read.data, [queue; 2048]);
    };
    table(client, 0);
    assert_eq!(got(&mut ports), Some(1), "a hash");
    table(&mut ports[1].client, 1);
    assert_eq!(got(&mut ports), None, "that queue is off");
    // A frame without a flow goes to the first queue.
    ports[0].send(&frame(b, a, 60), 0, None);
    assert_eq!(ports[1].received().len(), 1);
    assert_eq!(sim.findings(), []);
}

/// The firmware's VSI, without a package: what iPXE has (lan-path 19).
#[test]
fn the_firmwares_vsi_receives() {
    let sim = crate::Builder::default().functions(2).cold().build();
    let legacy = RxContext { rxdid: 1, ..RX };
    let mut ports = [0, 1].map(|pf| Port::as_ipxe(&sim, pf, legacy));
    sim.run(Ns::from_ms(3_000));
    let [a, b] = macs(&ports);
    for to in [[0xFF; 6], b, [2, 7, 7, 7, 7, 7]] {
        ports[0].send(&frame(to, a, 60), 0, None);
        assert_eq!(ports[1].received().len(), 1, "{to:x?}");
    }
    assert_eq!(sim.findings(), []);
}

/// A frame for an address that a rule gives the function reaches it; frames from its own address
/// are pruned.
#[test]
fn addresses_follow_rules() {
    let mut pruning = properties();
    pruning[SW_FLAGS] = 1 << 7;
    let (sim, mut ports) = Port::pair(&pruning, RX);
    let [a, b] = macs(&ports);
    let new = [2, 0, 0, 0, 0, 0x77];
    let rule = mac_rule(ports[1].vsi, new);
    ports[1].client.tell(0x02a0, params(&ONE), &rule).ok();
    ports[0].send(&frame(new, a, 60), 0, None);
    assert_eq!(ports[1].received().len(), 1);
    // A frame whose source is the receiver's own address.
    ports[0].send(&frame(new, b, 60), 0, None);
    assert_eq!(ports[1].received().len(), 0);
    assert_eq!(sim.findings(), []);
}

/// RoCEv2 goes to the engine where the VSI allows it, otherwise to the queue.
#[test]
fn rdma_goes_to_the_engine_if_its_filter_is_on() {
    let (sim, mut ports) = Port::pair(&properties(), RX);
    let [a, b] = macs(&ports);
    let mut packet = frame(b, a, 100);
    packet[12..14].copy_from_slice(&[8, 0]);
    packet[14..34].fill(0);
    (packet[14], packet[17], packet[23]) = (0x45, 86, 17);
    packet[36..38].copy_from_slice(&4791_u16.to_be_bytes());
    ports[0].send(&packet, 0, None);
    assert_eq!(ports[1].received().len(), 1);
    let vsi = ports[1].vsi;
    ports[1].client.open_vsi(vsi, true).ok();
    ports[0].send(&packet, 0, None);
    assert_eq!(ports[1].received().len(), 0);
    assert_eq!(sim.stats(1).frames_received, 1);
    // A fragment goes to the queue in any case.
    packet[20] = 0x20;
    ports[0].send(&packet, 0, None);
    assert_eq!(ports[1].received().len(), 1);
    assert_eq!(sim.findings(), []);
}

#[test]
fn a_frame_longer_than_the_ports_is_not_sent() {
    let (sim, mut ports) = Port::pair(&properties(), RX);
    let [a, b] = macs(&ports);
    let most = 1518_u16.to_le_bytes();
    ports[0].client.direct(0x0603, params(&[(0, &most)])).ok();
    for len in [1514, 1515] {
        ports[0].send(&frame(b, a, len), 0, None);
    }
    assert_eq!(ports[1].received().len(), 1);
    let errors = 0x31_2000 + 4 * u32::from(ports[0].vsi);
    assert_eq!(ports[0].client.nic.read32(reg(errors)), 1);
    assert_eq!(sim.findings(), []);
}

/// A frame raises the causes of both queues.
#[test]
fn queues_interrupt() {
    let (sim, mut ports) = Port::pair(&properties(), RX);
    let [a, b] = macs(&ports);
    let vector = e810_hal::Vector::new(3).unwrap();
    for (port, cause) in ports.iter().zip([0x14_0000, 0x15_0000]) {
        port.client.nic.write32(reg(cause), 1 << 30 | 3);
        port.client
            .nic
            .write32(hw::GLINT_DYN_CTL.at(vector).off(), 0x1B);
    }
    let before = [0, 1].map(|index| sim.stats(index).interrupts);
    ports[0].send(&frame(b, a, 60), 0, None);
    sim.run(Ns::from_ms(1));
    let after = [0, 1].map(|index| sim.stats(index).interrupts);
    assert_eq!(after, before.map(|count| count + 1));
}

/// After a reset of the function no frames move: no queue is left.
#[test]
fn a_reset_ends_the_queues() {
    let (sim, mut ports) = Port::pair(&properties(), RX);
    let [a, b] = macs(&ports);
    ports[1].client.nic.write32(hw::PFGEN_CTRL.off(), 1);
    sim.run(Ns::from_ms(10));
    let writes = sim.stats(1).dma_writes;
    ports[0].send(&frame(b, a, 60), 0, None);
    assert_eq!(ports[1].client.nic.read32(reg(QRX_CTRL)), 0);
    assert_eq!(sim.stats(1).dma_writes, writes);
    // Its doorbell belongs to no queue.
    ports[1].client.nic.write32(reg(QTX_COMM_DBELL), 3);
    assert_eq!(sim.findings(), []);
}

/// A rule of the sending VSI for a group keeps its frames in the card, unless the rule has LAN_EN
/// (control-path 9.6).
#[test]
fn a_group_leaves_by_a_rule_that_lets_it() {
    const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0, 9];
    const LAN_EN: u8 = 1 << 3;
    let (sim, mut ports) = Port::pair(&properties(), RX);
    let [a, _] = macs(&ports);
    let theirs = mac_rule(ports[1].vsi, GROUP);
    ports[1].client.tell(0x02a0, params(&ONE), &theirs).ok();
    let mut rule = mac_rule(ports[0].vsi, GROUP);
    for (flag, arrive) in [(0, 0), (LAN_EN, 1)] {
        rule[8] = rule[8] & !LAN_EN | flag;
        let added = ports[0].client.tell(0x02a0, params(&ONE), &rule).ok();
        ports[0].send(&frame(GROUP, a, 60), 0, None);
        assert_eq!(ports[1].received().len(), arrive);
        let removed = added.data;
        ports[0].client.tell(0x02a2, params(&ONE), &removed).ok();
    }
    // Without a rule the frame leaves too.
    ports[0].send(&frame(GROUP, a, 60), 0, None);
    assert_eq!(ports[1].received().len(), 1);
    assert_eq!(sim.findings(), []);
}

/// LAN_ENA of sw_flags2 (control-path 9.6, lan-path 7.1).
#[test]
fn a_vsi_sends_to_the_port_if_it_may() {
    for (flag, arrive) in [(0, 0), (1 << 4, 1)] {
        let mut props = properties();
        props[SW_FLAGS + 1] = flag;
        let (sim, mut ports) = Port::pair(&props, RX);
        let [a, b] = macs(&ports);
        ports[0].send(&frame(b, a, 60), 0, None);
        assert_eq!(ports[1].received().len(), arrive, "of a LAN queue");
        // The engine's frames belong to the VSI too.
        let vsi = ports[1].vsi;
        ports[1].client.open_vsi(vsi, true).ok();
        let mut packet = frame(b, a, 100);
        packet[12..14].copy_from_slice(&[8, 0]);
        packet[14..34].fill(0);
        (packet[14], packet[17], packet[23]) = (0x45, 86, 17);
        packet[36..38].copy_from_slice(&4791_u16.to_be_bytes());
        ports[0]
            .client
            .nic
            .with(|env| crate::pe::Env::transmit(env, packet));
        ports[0].client.nic.write32(hw::PFPE_CCQPSTATUS.off(), 0);
        sim.run(Ns::from_ms(1));
        assert_eq!(sim.stats(1).frames_received, arrive as u64, "of the engine");
        assert_eq!(sim.findings(), []);
    }
}
