//! Validation of received datagrams: whether the bytes can be a frame of the simulated wire.
//!
//! Only the frame structure is checked; the receiving engine makes its own checks.

/// Bytes of the longest frame: the card's 9728 without the frame check.
pub const LONGEST: usize = 9724;

/// Bytes of the Ethernet header, and of a VLAN tag in it.
const ETHERNET: usize = 14;
const TAG: usize = 4;

/// Why a datagram is not a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reject {
    /// No Ethernet header, an invalid source address, or not the IP header that its type announces.
    NoFrame,
    /// Longer than [`LONGEST`].
    TooLong,
    /// The IP packet in it is longer than the datagram.
    Truncated,
}

/// Checks a datagram.
///
/// # Errors
/// [`Reject`].
pub fn check(bytes: &[u8]) -> Result<(), Reject> {
    if bytes.len() > LONGEST {
        return Err(Reject::TooLong);
    }
    let header = bytes.first_chunk::<ETHERNET>().ok_or(Reject::NoFrame)?;
    let [_, _, _, _, _, _, source @ .., high, low] = header;
    if source[0] & 1 != 0 || *source == [0; 6] {
        return Err(Reject::NoFrame);
    }
    let mut ether_type = u16::from_be_bytes([*high, *low]);
    let mut packet = bytes.get(ETHERNET..).unwrap_or_default();
    if ether_type == 0x8100 {
        let [_, _, high, low] = packet.first_chunk::<TAG>().ok_or(Reject::NoFrame)?;
        ether_type = u16::from_be_bytes([*high, *low]);
        packet = packet.get(TAG..).unwrap_or_default();
    }
    let word = |at: usize| {
        let bytes = packet.get(at..).and_then(|rest| rest.first_chunk::<2>());
        bytes.map(|bytes| usize::from(u16::from_be_bytes(*bytes)))
    };
    let version = packet.first().map(|byte| byte >> 4);
    let (header, length, is_version) = match ether_type {
        0x0800 => (20, word(2), version == Some(4)),
        // The length there is that of what follows the header.
        0x86dd => (40, word(4).map(|length| length + 40), version == Some(6)),
        // None that an engine sends, and nothing to check.
        _ => return Ok(()),
    };
    if packet.len() < header {
        return Err(Reject::Truncated);
    }
    match length.filter(|length| is_version && *length >= header) {
        None => Err(Reject::NoFrame),
        Some(length) if length > packet.len() => Err(Reject::Truncated),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with `bytes` bytes behind the Ethernet header, all of them the
    /// IP packet.
    fn frame(ether_type: u16, bytes: u16) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        frame.extend(ether_type.to_be_bytes());
        let mut packet = vec![0; bytes.into()];
        if ether_type == 0x0800 {
            packet[0] = 0x45;
            packet[2..4].copy_from_slice(&bytes.to_be_bytes());
        } else {
            packet[0] = 0x60;
            packet[4..6].copy_from_slice(&(bytes - 40).to_be_bytes());
        }
        frame.extend(packet);
        frame
    }

    #[test]
    fn frames_pass() {
        for frame in [frame(0x0800, 60), frame(0x86dd, 80), frame(0x0806, 46)] {
            assert_eq!(check(&frame), Ok(()));
            let mut padded = frame.clone();
            padded.extend([0; 6]);
            assert_eq!(check(&padded), Ok(()));
            let mut tagged = frame;
            tagged.splice(12..12, [0x81, 0, 0, 7]);
            assert_eq!(check(&tagged), Ok(()));
        }
        assert_eq!(check(&frame(0x0800, LONGEST as u16 - 14)), Ok(()));
    }

    #[test]
    fn what_is_cut_is_noticed_at_every_byte() {
        for whole in [frame(0x0800, 60), frame(0x86dd, 80)] {
            for length in 0..whole.len() {
                let reject = if length < ETHERNET {
                    Reject::NoFrame
                } else {
                    Reject::Truncated
                };
                assert_eq!(check(&whole[..length]), Err(reject), "{length}");
            }
        }
        assert_eq!(check(&frame(0x8100, 43)[..17]), Err(Reject::NoFrame));
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        assert_eq!(check(&vec![2; LONGEST + 1]), Err(Reject::TooLong));
        let changed = |at: usize, value: u8| {
            let mut frame = frame(0x0800, 60);
            frame[at] = value;
            check(&frame)
        };
        assert_eq!(changed(6, 3), Err(Reject::NoFrame), "from a group");
        assert_eq!(changed(14, 0x65), Err(Reject::NoFrame), "version");
        assert_eq!(changed(17, 19), Err(Reject::NoFrame), "length");
        let mut nobody = frame(0x0800, 60);
        nobody[6..12].fill(0);
        assert_eq!(check(&nobody), Err(Reject::NoFrame));
    }
}
