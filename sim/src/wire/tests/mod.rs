//! Recorded frames, round trips, and malformed bytes.

mod properties;
mod samples;

use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;

/// The headers and path of [`samples::WRITE_V6`].
fn write_v6() -> (Path, Headers) {
    let path = Path {
        src_mac: [2, 0, 0, 0, 0, 1],
        dst_mac: [2, 0, 0, 0, 0, 2],
        vlan: Some(3 << 13 | 10),
        ip: Addresses::V6 {
            src: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
            dst: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
        },
        tos: 0x62,
        ttl: 7,
        flow_label: 0x12345,
        src_port: 0xd123,
        dst_port: 4791,
    };
    let mut headers = Headers::new(Bth::new(Opcode::WRITE_ONLY, 0x12_3456, 0xFF_FFFE));
    headers.bth.solicited = true;
    headers.bth.becn = true;
    headers.bth.ack_request = true;
    headers.reth = Some(Reth {
        addr: 0x1122_3344_5566_7788,
        rkey: 0xcafe_f00d,
        len: 5,
    });
    (path, headers)
}

fn send_v4(payload: &[u8]) -> Vec<u8> {
    let mut frame = Frame::new(
        &Path::default(),
        &Headers::new(Bth::new(Opcode::SEND_ONLY, 3, 9)),
        payload.len(),
    )
    .unwrap();
    frame.payload_mut().copy_from_slice(payload);
    frame.seal()
}

/// Corrects the checksums and the ICRC of an untagged IPv4 frame after a test has changed it.
pub(crate) fn repair(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let sum = !checksum::fold(checksum::add(0, &frame[14..34]));
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    let end = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    if let Some(crc) = icrc::icrc(&frame[14..end - 4], false) {
        frame[end - 4..end].copy_from_slice(&crc);
    }
}

#[test]
fn frames_of_others_are_read() {
    let packet = Packet::parse(&samples::UC_SEND).unwrap();
    assert_eq!(
        (packet.headers.bth.opcode, packet.headers.bth.dest_qp),
        (Opcode(0x24), 211)
    );
    assert_eq!(
        (
            packet.headers.bth.psn,
            packet.payload.len(),
            packet.path.tos
        ),
        (13_571_856, 18, 1)
    );
    assert!(!packet.headers.bth.opcode.is_reliable_connection());

    let packet = Packet::parse(&samples::CNP).unwrap();
    assert_eq!(
        (packet.headers.bth.opcode, packet.payload),
        (Opcode::CNP, &[0; 16][..])
    );
    assert!(packet.headers.bth.becn && !packet.headers.bth.fecn);

    let packet = Packet::parse(&samples::WRITE_V6).unwrap();
    assert_eq!((packet.path, packet.headers), write_v6());
    assert_eq!(packet.payload, b"hello");
}

#[test]
fn a_frame_of_others_is_built_byte_for_byte() {
    let (path, headers) = write_v6();
    let mut frame = Frame::new(&path, &headers, 5).unwrap();
    frame.payload_mut().copy_from_slice(b"hello");
    assert_eq!(frame.seal(), samples::WRITE_V6);
}

#[test]
fn the_icrc_ignores_what_routers_change_and_nothing_else() {
    let good = samples::UC_SEND;
    // TOS, TTL, UDP checksum and the congestion byte of the BTH. The IPv4 checksum follows TOS and
    // TTL.
    for offset in [15, 22, 40, 41, 46] {
        let mut frame = good;
        frame[offset] ^= 0xFF;
        let icrc = frame[74..].to_vec();
        repair(&mut frame);
        assert_eq!(frame[74..], icrc, "byte {offset}");
        assert!(Packet::parse(&frame).is_ok(), "byte {offset}");
    }
    // Any other bit changes it, from the IP identification on (what precedes it is checked before).
    for offset in (18..74).filter(|offset| ![22, 24, 25, 40, 41, 46].contains(offset)) {
        for bit in 0..8 {
            let mut frame = good;
            frame[offset] ^= 1 << bit;
            assert!(Packet::parse(&frame).is_err(), "byte {offset} bit {bit}");
        }
    }
    let mut frame = good;
    frame[77] ^= 1;
    assert!(matches!(
        Packet::parse(&frame),
        Err(ParseError::Icrc { .. })
    ));
}

#[test]
fn short_frames_are_filled_to_sixty_bytes() {
    let frame = send_v4(b"");
    assert_eq!(frame.len(), 60);
    assert_eq!(Packet::parse(&frame).unwrap().payload, b"");
    assert_eq!(send_v4(&[7; 3]).len(), 62);
}

#[test]
fn each_thing_wrong_has_its_error() {
    let good = send_v4(&[1; 40]);
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = good.clone();
        change(&mut frame);
        Packet::parse(&frame).unwrap_err()
    };
    assert_eq!(changed(&|f| f[12] = 0x86), ParseError::EtherType(0x8600));
    assert_eq!(changed(&|f| f[14] = 0x46), ParseError::IpVersion(0x46));
    assert_eq!(changed(&|f| f[24] ^= 1), ParseError::IpChecksum);
    assert_eq!(
        changed(&|f| (f[20] = 0x20, repair(f)).1),
        ParseError::Fragment
    );
    assert_eq!(
        changed(&|f| (f[23] = 6, repair(f)).1),
        ParseError::NotUdp(6)
    );
    assert_eq!(changed(&|f| (f[17] -= 4, repair(f)).1), ParseError::Length);
    assert_eq!(changed(&|f| f.truncate(60)), ParseError::Length);
    assert_eq!(
        changed(&|f| (f[37] = 0, repair(f)).1),
        ParseError::Port(0x1200)
    );
    assert_eq!(
        changed(&|f| f[60] ^= 1).to_string().split(' ').next(),
        Some("ICRC")
    );
    for (len, header) in [(5, "Ethernet header"), (20, "IPv4 header")] {
        assert_eq!(changed(&|f| f.truncate(len)), ParseError::Truncated(header));
    }
    // An empty payload with three bytes of pad.
    let mut frame = send_v4(b"");
    frame[43] |= 3 << 4;
    repair(&mut frame);
    assert_eq!(Packet::parse(&frame), Err(ParseError::Pad(3)));
    // A write header where only a BTH fits.
    let mut frame = send_v4(b"");
    frame[42] = Opcode::WRITE_ONLY.0;
    repair(&mut frame);
    assert_eq!(Packet::parse(&frame), Err(ParseError::Truncated("RETH")));
    frame[42] = Opcode::FETCH_ADD.0;
    repair(&mut frame);
    assert_eq!(
        Packet::parse(&frame),
        Err(ParseError::Truncated("atomic header"))
    );

    let mut frame = samples::WRITE_V6;
    frame[64] ^= 1;
    assert_eq!(Packet::parse(&frame), Err(ParseError::UdpChecksum));
    // No checksum is accepted: some senders do not compute it.
    frame[64..66].fill(0);
    assert!(Packet::parse(&frame).is_ok());
    frame[18] = 0x46;
    assert_eq!(Packet::parse(&frame), Err(ParseError::IpVersion(0x46)));
}

#[test]
fn a_udp_checksum_of_zero_is_sent_as_ones() {
    if cfg!(miri) {
        return;
    }
    // One packet in 65536 has this checksum.
    let (path, mut headers) = write_v6();
    let ones = (0..1 << 20).find(|number| {
        headers.bth.psn = *number;
        let frame = Frame::new(&path, &headers, 0).unwrap().seal();
        assert_ne!(frame[64..66], [0, 0]);
        frame[64..66] == [0xFF, 0xFF] && Packet::parse(&frame).is_ok()
    });
    assert!(ones.is_some());
}

#[test]
fn the_builder_refuses_headers_that_the_opcode_does_not_have() {
    let path = Path {
        ip: Addresses::V4 {
            src: Ipv4Addr::LOCALHOST,
            dst: Ipv4Addr::LOCALHOST,
        },
        ..Path::default()
    };
    for code in 0..=0xFF {
        let opcode = Opcode(code);
        let bare = Headers::new(Bth::new(opcode, 1, 1));
        let needs = opcode.has_deth()
            || opcode.has_reth()
            || opcode.has_aeth()
            || opcode.has_immediate()
            || opcode.has_ieth()
            || matches!(opcode, Opcode::COMPARE_SWAP | Opcode::FETCH_ADD);
        assert_eq!(Frame::new(&path, &bare, 0).is_err(), needs, "{opcode:?}");
    }
    let bare = Headers::new(Bth::new(Opcode::SEND_ONLY, 1, 1));
    let too_long = Frame::new(&path, &bare, MAX_PAYLOAD + 1).unwrap_err();
    assert_eq!(too_long, BuildError::Payload(4097));
    let extra = Headers {
        immediate: Some(1),
        ..bare
    };
    assert_eq!(
        Frame::new(&path, &extra, 0).unwrap_err(),
        BuildError::Headers(Opcode::SEND_ONLY)
    );
}

#[test]
fn syndromes() {
    for byte in 0..=u8::MAX {
        assert_eq!(Syndrome::decode(byte).encode(), byte);
    }
    assert_eq!(Syndrome::decode(0x1F), Syndrome::Ack(31));
    assert_eq!(Syndrome::decode(0x2C), Syndrome::RnrNak(12));
    assert_eq!(Syndrome::decode(0x60), Syndrome::Nak(Nak::Sequence));
    assert_eq!(Syndrome::decode(0x63), Syndrome::Nak(Nak::RemoteOperation));
}

#[test]
fn opcodes_have_the_values_of_the_architecture() {
    assert_eq!(Opcode(0x09).name(), Some("WRITE_LAST_IMM"));
    assert_eq!(Opcode(0x11).rc(), Some((Verb::Acknowledge, Place::Only)));
    assert_eq!(Opcode(0x15).rc(), None);
    assert!(Opcode(0x15).is_reliable_connection());
    assert_eq!(format!("{:?}", Opcode(0x15)), "0x15 unknown");
}

#[test]
fn a_pad_count_that_is_not_the_payloads_is_refused() {
    // A pad count of 0 and one byte less on the wire; all lengths agree.
    let mut frame = send_v4(&[0x77; 40]);
    frame.remove(60);
    let shorter = |frame: &mut [u8], at: usize| {
        let length = u16::from_be_bytes([frame[at], frame[at + 1]]) - 1;
        frame[at..at + 2].copy_from_slice(&length.to_be_bytes());
    };
    shorter(&mut frame, 16);
    shorter(&mut frame, 38);
    repair(&mut frame);
    assert_eq!(Packet::parse(&frame), Err(ParseError::Unpadded(39)));
}
