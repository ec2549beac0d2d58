//! LAN transmit queues: descriptor write-back and invalid queue configurations.

use super::client::{Client, params};
use super::scheduler::{group, lan_queue};
use crate::findings::kind;
use crate::pe::Env;
use e810_hal::{Bus, DmaAlloc, DmaLayout, RawDma, RegOffset};

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
    let words = [1 | 1 << 5, 0x30, 8 | 1 << 5, 0x10];
    let at = |index: usize| ring.iova.0 + 16 * index as u64 + 8;
    client.nic.with(|env| {
        for (index, word) in words.into_iter().enumerate() {
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
    assert_eq!(client.kinds(), [kind::LAN_RING]);
    assert_eq!(client.nic.read32(HEAD), 0);
}

#[test]
fn a_ring_out_of_reach_is_a_fault() {
    let mut client = Client::new();
    queue(&mut client, 0x1234_0000_0000);
    client.nic.write32(DOORBELL, 1);
    assert_eq!(client.kinds(), [kind::DMA_UNMAPPED]);
    assert_eq!(client.nic.read32(HEAD), 0);
}
