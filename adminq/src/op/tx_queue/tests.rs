use e810_hal::Iova;
use e810_hal::bus::{PfId, TxQueueId, VsiId};

use super::*;
use crate::op::testing::decode;

fn context() -> TxQueueContext {
    TxQueueContext {
        ring: Iova(0x1234_5600),
        entries: 64,
        queue: TxQueueId::new(5).unwrap(),
        lport: 1,
        traffic_class: 0,
        pf: PfId::new(2).unwrap(),
        vsi: VsiId::new(11).unwrap(),
    }
}

/// By hand from the table of lan-path 3.3, with Linux' values.
///
/// Bits 0..56: 0x12345600 / 128 = 0x2468AC. Bits 57..59: port 1 is 0x02 in byte 7.
/// Bits 65..67: function 2 is bit 66, 0x04 in byte 8. Bits 78..79: 2 is bit 79,
/// 0x80 in byte 9. Bits 80..89: VSI 11 is 0x0B in byte 10. Bit 90, tsyn_ena, is 0x04
/// in byte 11. Bits 135..147: 64 is bit 141, 0x20 in byte 17. Bit 152, tso_ena, is
/// 0x01 in byte 19; bits 153..163: 5 is bits 153 and 155, 0x0A there. Bit 164,
/// legacy_int, is 0x10 in byte 20.
const GOLDEN: [u8; 22] = [
    0xAC, 0x68, 0x24, 0, 0, 0, 0, 0x02, 0x04, 0x80, 0x0B, 0x04, 0, 0, 0, 0, 0, 0x20, 0, 0x0B, 0x10,
    0,
];

#[test]
fn a_context_byte_for_byte() {
    assert_eq!(context().encode().unwrap(), GOLDEN);
}

/// Every field at its greatest value, read back as numbers of the table's bits.
#[test]
fn the_greatest_values_keep_to_their_bits() {
    let full = TxQueueContext {
        ring: Iova(!127),
        entries: 8160,
        queue: TxQueueId::new(2047).unwrap(),
        lport: 7,
        traffic_class: 7,
        pf: PfId::new(7).unwrap(),
        vsi: VsiId::new(767).unwrap(),
    };
    let bytes = full.encode().unwrap();
    let bits = |hi: usize, lo: usize| {
        (lo..=hi).rev().fold(0u64, |value, bit| {
            value << 1 | u64::from(bytes[bit / 8] >> (bit % 8) & 1)
        })
    };
    assert_eq!(bits(56, 0), u64::MAX >> 7);
    assert_eq!((bits(59, 57), bits(64, 60), bits(67, 65)), (7, 7, 7));
    assert_eq!((bits(77, 68), bits(79, 78), bits(89, 80)), (0, 2, 767));
    assert_eq!((bits(90, 90), bits(134, 91)), (1, 0));
    assert_eq!((bits(147, 135), bits(151, 148)), (8160, 0));
    assert_eq!(
        (bits(152, 152), bits(163, 153), bits(164, 164)),
        (1, 2047, 1)
    );
    assert_eq!(bits(175, 165), 0);
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |change: fn(&mut TxQueueContext)| {
        let mut context = context();
        change(&mut context);
        AddTxQueue::new(1, &context).is_err()
    };
    assert!(!refused(|_| ()));
    assert!(refused(|context| context.ring = Iova(0x1234_5640)));
    assert!(refused(|context| context.entries = 32));
    assert!(refused(|context| context.entries = 65));
    assert!(refused(|context| context.entries = 8192));
    assert!(refused(|context| context.lport = 8));
    assert!(refused(|context| context.traffic_class = 8));
    assert!(refused(
        |context| context.queue = TxQueueId::new(2048).unwrap()
    ));
}

#[test]
fn a_queue_byte_for_byte() {
    let command = AddTxQueue::new(0x0403_0201, &context()).unwrap();
    let mut expected = [0; 56];
    // Parent, one queue; queue 5; context; type 0, sections 7, weights 4.
    expected[..5].copy_from_slice(&[1, 2, 3, 4, 1]);
    expected[8] = 5;
    expected[16..38].copy_from_slice(&GOLDEN);
    expected[41] = 7;
    expected[46] = 4;
    expected[50] = 4;
    assert_eq!(command.data(), Data::Send(&expected));
    assert_eq!(command.params()[..2], [1, 0]);
    let mut reply = expected;
    reply[12..16].copy_from_slice(&[8, 7, 6, 5]);
    assert_eq!(decode(&command, [0; 16], &reply), Ok(0x0506_0708));
    assert!(decode(&command, [0; 16], &reply[..15]).is_err());
}
