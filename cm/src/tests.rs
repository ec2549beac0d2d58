//! Messages there and back, with any value in any field.

use proptest::prelude::*;

use crate::message::Message;
use crate::{Mad, NoMessage, Req};

const ATTRIBUTES: std::ops::RangeInclusive<u16> = 0x10..=0x1A;

/// Any bytes after a right header.
fn any_mad() -> impl Strategy<Value = Mad> {
    (
        ATTRIBUTES,
        any::<u64>(),
        prop::collection::vec(any::<u8>(), 236),
    )
        .prop_map(|(attribute, tid, rest)| {
            let mut mad = [0; 256];
            mad[..4].copy_from_slice(&[1, 7, 2, 3]);
            mad[8..16].copy_from_slice(&tid.to_be_bytes());
            mad[16..18].copy_from_slice(&attribute.to_be_bytes());
            mad[20..].copy_from_slice(&rest);
            mad
        })
}

proptest! {
    /// What is decoded is encoded to the same bits, except for those that no field has; and those
    /// bytes are decoded to the same message.
    #[test]
    fn messages_come_back(mad in any_mad()) {
        let (header, message) = Message::decode(&mad).unwrap();
        let again = message.encode(header);
        prop_assert_eq!(Message::decode(&again), Ok((header, message)));
        for (at, (byte, was)) in again.iter().zip(mad).enumerate() {
            prop_assert_eq!(byte & !was, 0, "byte {} has a bit that was not there", at);
        }
    }
}

#[test]
fn what_is_no_message_is_refused() {
    let mad = Req::default().encode(crate::Header::default());
    assert_eq!(Message::decode(&mad[..255]), Err(NoMessage::Length(255)));
    for at in 0..4 {
        let mut wrong = mad;
        wrong[at] ^= 4;
        assert_eq!(Message::decode(&wrong), Err(NoMessage::Header));
    }
    for attribute in [0, 1, 0x0F, 0x1B, 0x110] {
        let mut wrong = mad;
        wrong[16..18].copy_from_slice(&u16::to_be_bytes(attribute));
        assert_eq!(
            Message::decode(&wrong),
            Err(NoMessage::Attribute(attribute))
        );
    }
}
