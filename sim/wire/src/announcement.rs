//! Frames that ends send to each other.
//!
//! With one, an end announces the address of a function when it joins a segment.
//!
//! It comes back to the end itself, which so knows that the group works; the others learn where the
//! address is now, and which of them has the same one. With the other, it tells an end that frames
//! are in a ring from now on. Ends do not pass either on to a function.

use e810_sim::link::Mac;

/// EtherType for local experiments (IEEE Std 802, 9.2.4).
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];
/// What follows it.
const TEXT: &[u8] = b"e810 joins this wire";
/// What follows it in a frame that tells the number of a ring.
const RING: &[u8] = b"e810 has a ring";
/// Bytes of the shortest frame of Ethernet, without FCS.
const LENGTH: usize = 60;

/// The announcement of an address, to all ends.
pub(crate) fn of(mac: Mac) -> Vec<u8> {
    frame_of(mac, TEXT)
}

/// Tells the number of a ring to the end that reads it.
pub(crate) fn of_ring(mac: Mac, number: u64) -> Vec<u8> {
    frame_of(mac, &[RING, &number.to_be_bytes()].concat())
}

fn frame_of(mac: Mac, text: &[u8]) -> Vec<u8> {
    let mut frame = [&[0xff; 6], &mac[..], &ETHER_TYPE, text].concat();
    frame.resize(LENGTH, 0);
    frame
}

fn text(frame: &[u8]) -> Option<&[u8]> {
    frame
        .strip_prefix(&[0xff; 6])?
        .get(6..)?
        .strip_prefix(&ETHER_TYPE)
}

/// Whether a frame is for ends, and for no function.
pub(crate) fn is(frame: &[u8]) -> bool {
    text(frame).is_some_and(|text| text.starts_with(TEXT) || text.starts_with(RING))
}

/// The number of a ring that a frame tells.
pub(crate) fn ring(frame: &[u8]) -> Option<u64> {
    let number = text(frame)?.strip_prefix(RING)?.first_chunk()?;
    Some(u64::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::check;

    #[test]
    fn an_announcement_is_a_frame_and_others_are_not_taken_for_one() {
        let frame = of([2, 0, 0, 0, 0, 7]);
        assert_eq!((frame.len(), check(&frame)), (60, Ok(())));
        assert_eq!(
            frame[..12],
            [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 7]
        );
        assert!(is(&frame));
        assert!(!is(&frame[..33]) && !is(&[]) && !is(&[0; 60]));
        assert_eq!(ring(&frame), None);
        let frame = of_ring([2, 0, 0, 0, 0, 7], 4711);
        assert_eq!((frame.len(), check(&frame)), (60, Ok(())));
        assert!(is(&frame) && ring(&frame) == Some(4711) && ring(&frame[..36]).is_none());
    }
}
