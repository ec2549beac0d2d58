//! LAN transmit queues: descriptor write-back and invalid queue configurations.

use super::client::{Client, params};
use super::scheduler::{group, lan_queue};
use crate::findings::kind;
use crate::pe::Env;
use e810_hal::{Bus, DmaAlloc, DmaLayout, RawDma, RegOffset};
use proptest::prelude::*;

const QUEUE: u16 = 3;
/// Descriptors of the ring.
const LENGTH: u32 = 8;
/// QTX_COMM_DBELL and QTX_COMM_HEAD of the queue.
const DOORBELL: RegOffset = RegOffset::new(0x2C_0000 + 4 * QUEUE as u32);
const HEAD: RegOffset = RegOffset::new(0xE_0000 + 4 * QUEUE as u32);

/// A queue over `base` with [`LENGTH`] descriptors.
fn queue(client: &mut Client, base: u64) {
    let vsi = client.add_vsi();
    let parent = group(client);
    let mut queue = lan_queue(parent, QUEUE, vsi);
    // The context begins at 16: base / 128 from bit 0, length from bit 135.
    queue[16..24].copy_from_slice(&(base >> 7).to_le_bytes());
    let length = LENGTH << 7;
    queue[16 + 16..16 + 18].copy_from_slice(&(length as u16).to_le_bytes());
    client.tell(0x0c30, params(&[(0, &[1])]), &queue).ok();
}

fn ring(client: &Client) -> RawDma {
    let layout = DmaLayout::new(16 * LENGTH as usize, 128);
    client.nic.dma_alloc(layout).unwrap()
}

#[test]
fn only_data_descriptors_ask_for_a_report() {
    let mut client = Client::new();
    let ring = ring(&client);
    queue(&mut client, ring.iova.0);
    // Bit 5 is RS of data (type 0), TSYN of a context (1), part of the profile of a filter (8).
    let frame = 60 << 34;
    let words = [1 | 1 << 5, 0x30 | frame, 8 | 1 << 5, 0x10 | frame];
    let at = |index: usize| ring.iova.0 + 16 * index as u64 + 8;
    client.nic.with(|env| {
        for (index, word) in words.into_iter().enumerate() {
            // The packet is the ring itself; its contents do not matter.
            env.store(at(index) - 8, ring.iova.0).unwrap();
            env.store(at(index), word).unwrap();
        }
    });
    client.nic.write32(DOORBELL, words.len() as u32);
    let after = client
        .nic
        .with(|env| [0, 1, 2, 3].map(|index| env.load(at(index)).unwrap()));
    assert_eq!(after, [words[0], 0xf, words[2], words[3]]);
    assert_eq!(client.nic.read32(HEAD), words.len() as u32);
    assert_eq!(client.kinds(), [""; 0]);
}

#[test]
fn a_tail_outside_the_ring_is_a_fault() {
    let mut client = Client::new();
    let ring = ring(&client);
    queue(&mut client, ring.iova.0);
    client.nic.write32(DOORBELL, LENGTH);
    assert_eq!(client.kinds(), [kind::LAN_RING.name]);
    assert_eq!(client.nic.read32(HEAD), 0);
}

#[test]
fn a_ring_out_of_reach_is_a_fault() {
    let mut client = Client::new();
    queue(&mut client, 0x1234_0000_0000);
    client.nic.write32(DOORBELL, 1);
    assert_eq!(client.kinds(), [kind::DMA_UNMAPPED.name]);
    assert_eq!(client.nic.read32(HEAD), 0);
}

/// Packets that the device cannot send as requested, and their requests.
#[test]
fn impossible_packets_are_faults() {
    const EOP: u64 = 0x10;
    const CONTEXT: u64 = 1;
    const TSO: u64 = 1 << 4;
    let len = |bytes: u64| bytes << 34;
    // TCP over IPv4, headers of 14, 20 and 20 bytes.
    let tcp = 3 << 9 | 1 << 12 | 7 << 16 | 5 << 23 | 5 << 30;
    let tso = |bytes: u64, mss: u64| CONTEXT | TSO | bytes << 30 | mss << 50;
    for (words, text) in [
        (
            vec![EOP | len(16)],
            "a packet of 16 bytes; the shortest has 17",
        ),
        (vec![7], "a descriptor of type 7"),
        (
            [vec![len(10); 6], vec![len(10), len(10), EOP | len(10)]].concat(),
            "a packet of 9 descriptors; 8 at most",
        ),
        (
            vec![tso(46, 63), EOP | tcp | len(100)],
            "an MSS of 63; 64 to 9668 are possible",
        ),
        (
            vec![tso(46, 100), EOP | len(100)],
            "segments of a packet that is neither TCP nor UDP over IP",
        ),
        (
            vec![tso(47, 100), EOP | tcp | len(100)],
            "47 bytes to segment, 46 behind the headers",
        ),
        (
            vec![EOP | tcp | len(40)],
            "headers of 54 bytes, a packet of 40",
        ),
    ] {
        let mut client = Client::new();
        let layout = DmaLayout::new(4096, 4096);
        let packet = client.nic.dma_alloc(layout).unwrap();
        let ring = client.nic.dma_alloc(DmaLayout::new(16 * 16, 128)).unwrap();
        let vsi = client.add_vsi();
        let parent = group(&mut client);
        let mut queue = lan_queue(parent, QUEUE, vsi);
        queue[16..24].copy_from_slice(&(ring.iova.0 >> 7).to_le_bytes());
        queue[32..34].copy_from_slice(&(16_u16 << 7).to_le_bytes());
        client.tell(0x0c30, params(&[(0, &[1])]), &queue).ok();
        client.nic.with(|env| {
            for (index, word) in (0..).zip(&words) {
                let at = ring.iova.0 + 16 * index;
                env.write_entry(at, &[packet.iova.0, *word], 1).unwrap();
            }
        });
        client.nic.write32(DOORBELL, words.len() as u32);
        let findings = client.sim.findings();
        let texts: Vec<&str> = findings
            .iter()
            .map(|finding| finding.text.as_str())
            .collect();
        assert_eq!(texts, [format!("LAN transmit queue 3: {text}")]);
        assert_eq!(client.kinds(), [kind::LAN_PACKET.name]);
    }
}

/// More bytes than any packet can have: 17 descriptors of 16 KiB.
#[test]
fn a_packet_without_an_end_is_a_fault() {
    let mut client = Client::new();
    let layout = DmaLayout::new(1 << 14, 4096);
    let packet = client.nic.dma_alloc(layout).unwrap();
    let ring = client.nic.dma_alloc(DmaLayout::new(16 * 32, 128)).unwrap();
    let vsi = client.add_vsi();
    let parent = group(&mut client);
    let mut queue = lan_queue(parent, QUEUE, vsi);
    queue[16..24].copy_from_slice(&(ring.iova.0 >> 7).to_le_bytes());
    queue[32..34].copy_from_slice(&(32_u16 << 7).to_le_bytes());
    client.tell(0x0c30, params(&[(0, &[1])]), &queue).ok();
    client.nic.with(|env| {
        for index in 0..17 {
            let at = ring.iova.0 + 16 * index;
            let words = [packet.iova.0, 0x3FFF << 34];
            env.write_entry(at, &words, 1).unwrap();
        }
    });
    client.nic.write32(DOORBELL, 17);
    let findings = client.sim.findings();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(
        findings[0]
            .text
            .contains("a packet of more than 263168 bytes")
    );
}

/// A tail of a receive queue outside its ring.
#[test]
fn a_receive_tail_outside_the_ring_is_a_fault() {
    let client = Client::new();
    // QRX_CONTEXT 2 and 3 have qlen from bit 89: 64 descriptors.
    client.nic.write32(RegOffset::new(0x28_4000), 64 << 25);
    client.nic.write32(RegOffset::new(0x28_6000), 64 >> 7);
    client.nic.write32(RegOffset::new(0x12_0000), 1);
    client.nic.write32(RegOffset::new(0x29_0000), 64);
    assert_eq!(client.kinds(), [kind::LAN_RING.name]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Random descriptors with random doorbells: they cause findings and frames, but never end the
    /// simulator.
    #[test]
    fn any_descriptors_are_executed(
        words in prop::collection::vec((any::<u64>(), 0..16_u64, any::<bool>()), LENGTH as usize),
        doorbells in prop::collection::vec(0..2 * LENGTH, 1..20),
    ) {
        let mut client = Client::new();
        let ring = ring(&client);
        queue(&mut client, ring.iova.0);
        client.nic.with(|env| {
            for (index, (word, kind, near)) in (0..).zip(&words) {
                let at = ring.iova.0 + 16 * index;
                // Half of the addresses are mapped memory.
                let address = if *near { ring.iova.0 } else { *word };
                let word = word & !0xF | kind;
                env.write_entry(at, &[address, word], 1).unwrap();
            }
        });
        for doorbell in doorbells {
            client.nic.write32(DOORBELL, doorbell);
            prop_assert!(client.nic.read32(HEAD) < LENGTH);
        }
    }
}

/// The port, a VSI of the switch, a VSI by number: with ALLOW_DEST_OVRD only (lan-path 4.2).
#[test]
fn a_vsi_names_destinations_if_it_may() {
    const CONTEXT: u64 = 1;
    const DATA: u64 = 0x30 | 60 << 34;
    for (allowed, destination, found) in [
        (false, 0, 0),
        (false, 1, 1),
        (false, 3, 1),
        (true, 1, 0),
        (true, 3, 0),
    ] {
        let mut client = Client::new();
        let ring = ring(&client);
        queue(&mut client, ring.iova.0);
        let vsi = client.sim.function(0).with(|env| {
            for (index, word) in [CONTEXT | destination << 8, DATA].into_iter().enumerate() {
                let at = ring.iova.0 + 16 * index as u64;
                env.write_entry(at, &[ring.iova.0, word], 1).unwrap();
            }
            env.state.lan_queues.vsi_of(QUEUE).unwrap()
        });
        let mut props = [0; 128];
        (props[0], props[6]) = (1 << 1, allowed.into());
        let number = (vsi | 0x8000).to_le_bytes();
        client.tell(0x0211, params(&[(0, &number)]), &props).ok();
        client.nic.write32(DOORBELL, 2);
        assert_eq!(client.kinds(), vec![kind::LAN_PACKET.name; found]);
    }
}
