//! The frame with which an end announces the address of a function when it joins a segment.
//!
//! It comes back to the end itself, which so knows that the group works; the others learn where the
//! address is now, and which of them has the same one. They do not pass it on to a function.

use e810_sim::link::Mac;

/// EtherType for local experiments (IEEE Std 802, 9.2.4).
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];
/// What follows it.
const TEXT: &[u8] = b"e810 joins this wire";
/// Bytes of the shortest frame of Ethernet, without FCS.
const LENGTH: usize = 60;

/// The announcement of an address, to all ends.
pub(crate) fn of(mac: Mac) -> Vec<u8> {
    let mut frame = [&[0xff; 6], &mac[..], &ETHER_TYPE, TEXT].concat();
    frame.resize(LENGTH, 0);
    frame
}

/// Whether a frame is an announcement.
pub(crate) fn is(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&ETHER_TYPE)
        && frame
            .get(14..)
            .is_some_and(|content| content.starts_with(TEXT))
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
    }
}
