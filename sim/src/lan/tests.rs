//! Random input: neither a driver's posts nor bytes from the wire ever end the simulator.

use super::headers::{is_roce, parse};
use super::segment::{IpKind, L4Kind, Offload, frames};
use proptest::option;
use proptest::prelude::*;

fn ip_kinds() -> impl Strategy<Value = IpKind> {
    prop_oneof![
        Just(IpKind::None),
        Just(IpKind::V6),
        Just(IpKind::V4),
        Just(IpKind::V4Checksum)
    ]
}

fn l4_kinds() -> impl Strategy<Value = L4Kind> {
    prop_oneof![
        Just(L4Kind::None),
        Just(L4Kind::Tcp),
        Just(L4Kind::Sctp),
        Just(L4Kind::Udp)
    ]
}

/// A frame that begins like one with tags, IPv4 or IPv6, so that parsers get far.
fn frames_like() -> impl Strategy<Value = Vec<u8>> {
    let kinds = prop_oneof![
        Just(vec![8, 0, 0x45]),
        Just(vec![0x86, 0xDD, 0x60]),
        Just(vec![0x81, 0, 0, 5, 8, 0, 0x4F]),
        Just(vec![8, 6]),
        Just(vec![]),
    ];
    let rest = prop::collection::vec(any::<u8>(), 0..200);
    (kinds, rest).prop_map(|(kind, rest)| [vec![2; 12], kind, rest].concat())
}

proptest! {
    #[test]
    fn any_frame_is_parsed(frame in frames_like(), cut in 0..220_usize) {
        let cut = frame.get(..cut).unwrap_or(&frame);
        let parsed = parse(cut);
        prop_assert!(parsed.ptype < 154);
        let _ = is_roce(cut);
    }

    /// Each byte of the payload is in exactly one frame, and no frame is too long.
    #[test]
    fn any_offload_makes_frames_or_is_refused(
        packet in prop::collection::vec(any::<u8>(), 0..3000),
        (ip, l4) in (ip_kinds(), l4_kinds()),
        (mac_len, ip_len, l4_len) in (0..40_usize, 0..80_usize, 0..64_usize),
        inner_tag in option::of(any::<u16>()),
        outer_tag in option::of(any::<(u16, u16)>()),
        mss in option::of(any::<u16>()),
        right_length in any::<bool>(),
    ) {
        let headers = mac_len + ip_len + l4_len;
        let payload = packet.len().saturating_sub(headers) + usize::from(!right_length);
        let offload = Offload {
            ip,
            l4,
            mac_len,
            ip_len,
            l4_len,
            inner_tag,
            outer_tag,
            segments: mss.map(|mss| (payload as u32, mss)),
        };
        if let Ok(made) = frames(&packet, &offload) {
            let tags = 4 * (usize::from(inner_tag.is_some()) + usize::from(outer_tag.is_some()));
            let most = mss.map_or(packet.len(), |mss| packet.len().min(headers + usize::from(mss)));
            prop_assert!(made.iter().all(|frame| frame.len() <= (most + tags).max(60)));
            if let Some(mss) = mss {
                prop_assert_eq!(made.len(), payload.div_ceil(mss.into()).max(1));
            } else {
                prop_assert_eq!(made.len(), 1);
            }
        }
    }
}
