//! Random cards that could be.

use e810_card::record::runs;
use e810_card::{Document, Record};
use e810_sim::Rng;

use super::{answers, change_capability, change_data, change_words};

/// What a driver may say of such a card.
pub(crate) const REASONS: &[&str] = &[
    "interface MTU is 9000, allowed is",
    "the firmware offers no RDMA on this function",
    "there is no module or cable in it",
    "objects are wanted, the device has",
    "segments of 2 MiB, the device has",
    "the table or the tree is full",
];

/// Another card than `base`: other limits, numbers, versions, counters.
pub(crate) fn card(base: &Document, rng: &mut Rng) -> Document {
    let mut card = base.clone();
    versions(&mut card, rng);
    capabilities(&mut card, rng);
    scheduler(&mut card, rng);
    engine(&mut card, rng);
    counters(&mut card, rng);
    if rng.below(12) == 0 {
        // No module: the bit of media in the state of the link.
        change_data(&mut card, 0x0607, |data| data[2] &= !(1 << 6));
    }
    card
}

fn versions(card: &mut Document, rng: &mut Rng) {
    for (_, reply, _) in answers(card, 0x0001) {
        let mut bytes = e810_card::record::from_hex(reply).unwrap();
        // Build and version of the firmware, patch of the interface.
        for at in [0, 1, 2, 4, 5, 8, 9, 10, 11, 15] {
            bytes[at] = rng.next_u64() as u8;
        }
        *reply = e810_card::record::hex(&bytes);
    }
    let version = match rng.below(8) {
        // Of the same minor version, from NVM; and one that is too old.
        0..=1 => Some([1, 3, rng.below(50) as u8, 0]),
        2 => Some([1, 2, 0, 0]),
        _ => None,
    };
    if let Some(version) = version {
        change_data(card, 0x0C43, |data| {
            let mut entry = vec![0; 40];
            entry[..4].copy_from_slice(&version);
            entry[4..8].copy_from_slice(b"Some");
            // In NVM, active, active at boot.
            entry[36..39].copy_from_slice(&[1, 1, 1]);
            *data = [&[1, 0, 0, 0][..], &entry].concat();
        });
    }
}

fn capabilities(card: &mut Document, rng: &mut Rng) {
    // Vectors, VSIs, LAN queues, MTU.
    change_capability(card, 0x0043, 1 + rng.below(64) as u32);
    change_capability(card, 0x0017, 9 + rng.below(760) as u32);
    change_capability(card, 0x0042, 1 + rng.below(512) as u32);
    let mtu = match rng.below(8) {
        0 => 1500 + rng.below(8000) as u32,
        _ => 9702,
    };
    change_capability(card, 0x0047, mtu);
    match rng.below(16) {
        0 => change_capability(card, 0x0051, 0),
        1 => change_capability(card, 0x0005, 0xFF),
        _ => {}
    }
}

/// Nodes have other numbers, layers other limits.
fn scheduler(card: &mut Document, rng: &mut Rng) {
    let by = rng.below(1 << 20) as u32;
    change_data(card, 0x0400, |data| {
        for branch in data.chunks_exact_mut(8 + 9 * 24) {
            let (elements, _) = branch[8..].as_chunks_mut::<24>();
            for element in elements {
                for at in [0, 4] {
                    let teid = u32::from_le_bytes(element[at..at + 4].try_into().unwrap());
                    if teid != 0 && teid != u32::MAX {
                        element[at..at + 4].copy_from_slice(&(teid + by).to_le_bytes());
                    }
                }
            }
        }
    });
    let shift = rng.below(4) as u32;
    change_data(card, 0x0412, |data| {
        for layer in data.chunks_exact_mut(32).skip(1) {
            for at in [4, 10] {
                let limit = u16::from_le_bytes([layer[at], layer[at + 1]]) >> shift;
                layer[at..at + 2].copy_from_slice(&limit.max(1).to_le_bytes());
            }
        }
    });
}

/// Limits of the engine, up to eight times more or less.
fn engine(card: &mut Document, rng: &mut Rng) {
    let shifts: Vec<u32> = (0..25).map(|_| rng.below(7) as u32).collect();
    let segments = 8 << rng.below(9);
    change_words(card, "QUERY_FPM_VAL", |offset, word| match offset {
        0 => word & !(0x1FFF << 32) | segments << 32,
        120 => word,
        _ => {
            let shift = shifts.get(offset / 8).copied().unwrap_or(3);
            let count = (word & 0xFFFF_FFFF) << shift >> 3;
            word & !0xFFFF_FFFF | count.min(0xFFFF_FFFF)
        }
    });
    let firmware = rng.below(1 << 20);
    change_words(card, "QUERY_RDMA_FEATURES", |offset, word| match offset {
        0 => word & !0xFFFF_FFFF | firmware,
        _ => word,
    });
}

/// What counters happened to have.
fn counters(card: &mut Document, rng: &mut Rng) {
    for record in &mut card.records {
        if let Record::Register { name, values, .. } = record
            && name.starts_with("GLPES_")
        {
            let count: u32 = values.iter().map(|run| run.count).sum();
            *values = runs((0..count).map(|_| Some(rng.below(1 << 20) as u32)));
        }
    }
}
