//! Properties of every packet and of every byte string.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(miri) { 10 } else { 1000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn any_addresses() -> impl Strategy<Value = Addresses> {
    prop_oneof![
        any::<(u32, u32)>().prop_map(|(src, dst)| Addresses::V4 {
            src: Ipv4Addr::from(src),
            dst: Ipv4Addr::from(dst)
        }),
        any::<(u128, u128)>().prop_map(|(src, dst)| Addresses::V6 {
            src: Ipv6Addr::from(src),
            dst: Ipv6Addr::from(dst)
        }),
    ]
}

fn any_path() -> impl Strategy<Value = Path> {
    let macs = any::<([u8; 6], [u8; 6])>();
    (
        macs,
        any::<Option<u16>>(),
        any_addresses(),
        any::<(u8, u8, u16)>(),
        0_u32..1 << 20,
    )
        .prop_map(
            |((src_mac, dst_mac), vlan, ip, (tos, ttl, src_port), label)| Path {
                src_mac,
                dst_mac,
                vlan,
                ip,
                tos,
                ttl,
                // IPv4 carries none.
                flow_label: if matches!(ip, Addresses::V6 { .. }) {
                    label
                } else {
                    0
                },
                src_port,
                dst_port: ROCE_UDP_PORT,
            },
        )
}

fn any_headers() -> impl Strategy<Value = Headers> {
    let opcode = any::<u8>()
        .prop_map(Opcode)
        .prop_filter("atomic", |opcode| opcode.atomic_bytes() == 0);
    let flags = any::<[bool; 5]>();
    let numbers = (
        0_u8..16,
        any::<u16>(),
        0_u32..1 << 24,
        0_u32..1 << 24,
        0_u32..1 << 24,
    );
    (opcode, flags, numbers, any::<(u64, u32, u32, u8)>()).prop_map(
        |(
            opcode,
            [solicited, migration, fecn, becn, ack_request],
            numbers,
            (addr, one, two, syndrome),
        )| {
            let (version, pkey, dest_qp, psn, msn) = numbers;
            Headers {
                bth: Bth {
                    opcode,
                    solicited,
                    migration,
                    version,
                    pkey,
                    fecn,
                    becn,
                    dest_qp,
                    ack_request,
                    psn,
                },
                deth: opcode.has_deth().then_some(Deth {
                    qkey: one,
                    src_qp: msn,
                }),
                reth: opcode.has_reth().then_some(Reth {
                    addr,
                    rkey: one,
                    len: two,
                }),
                aeth: opcode.has_aeth().then_some(Aeth {
                    syndrome: Syndrome::decode(syndrome),
                    msn,
                }),
                immediate: opcode.has_immediate().then_some(one),
                invalidate: opcode.has_ieth().then_some(two),
            }
        },
    )
}

/// Computes the ICRC again, bit by bit and over the whole frame.
fn slow_icrc(frame: &[u8], ip: usize, ipv6: bool) -> u32 {
    let (masked, udp): (&[usize], usize) = if ipv6 {
        (&[1, 2, 3, 7, 46, 47], 40)
    } else {
        (&[1, 8, 10, 11, 26, 27], 20)
    };
    let mut bytes = vec![0xFF; 8];
    bytes.extend(
        frame[ip..]
            .iter()
            .enumerate()
            .map(|(index, &byte)| match index {
                0 if ipv6 => byte | 0x0F,
                _ if masked.contains(&index) || index == udp + 8 + 4 => 0xFF,
                _ => byte,
            }),
    );
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 != 0 { 0xEDB8_8320 } else { 0 };
        }
    }
    !crc
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_built_is_parsed(
        path in any_path(),
        headers in any_headers(),
        payload in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut frame = Frame::new(&path, &headers, payload.len()).unwrap();
        frame.payload_mut().copy_from_slice(&payload);
        let bytes = frame.seal();
        let packet = Packet::parse(&bytes).unwrap();
        prop_assert_eq!(packet, Packet { path, headers, payload: &payload });

        let ipv6 = matches!(path.ip, Addresses::V6 { .. });
        let ip = if path.vlan.is_some() { 18 } else { 14 };
        let length = |at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        let end = if ipv6 { ip + 40 + length(ip + 4) } else { ip + length(ip + 2) };
        prop_assert_eq!((end - ip) % 4, 0);
        prop_assert_eq!(&bytes[end - 4..end], &slow_icrc(&bytes[..end - 4], ip, ipv6).to_le_bytes());
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Packet::parse(&bytes).is_err());
    }

    #[test]
    fn a_damaged_frame_is_parsed_or_refused(
        ipv6: bool,
        bytes in prop::collection::vec((0_usize..106, any::<u8>()), 0..5),
        cut in 0_usize..=106,
        fix: bool,
    ) {
        let mut frame: Vec<u8> = if ipv6 { samples::WRITE_V6.into() } else { samples::UC_SEND.into() };
        for (at, byte) in bytes {
            if let Some(slot) = frame.get_mut(at) {
                *slot = byte;
            }
        }
        if fix && !ipv6 {
            // The length stays that of the sample, so that the parser gets past the checks.
            frame[16..18].copy_from_slice(&[0, 64]);
            repair(&mut frame);
        }
        frame.truncate(cut);
        let _ = Packet::parse(&frame);
    }

    #[test]
    fn any_transport_bytes_are_parsed_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 12..80), code in 0_u8..0x20) {
        // Correct up to the BTH, and random bytes after it.
        bytes[0] = code;
        let udp_len = (8 + bytes.len() + 4) as u16;
        let mut frame = samples::UC_SEND[..42].to_vec();
        frame[16..18].copy_from_slice(&(20 + udp_len).to_be_bytes());
        frame[38..40].copy_from_slice(&udp_len.to_be_bytes());
        frame.extend(bytes);
        frame.extend([0; 4]);
        repair(&mut frame);
        match Packet::parse(&frame) {
            Ok(packet) => prop_assert!(packet.headers.match_opcode()),
            Err(error) => {
                let known = matches!(error, ParseError::Truncated(_) | ParseError::Pad(_) | ParseError::Unpadded(_));
                prop_assert!(known, "{error}");
            }
        }
    }
}
