//! Frames from the network: whatever comes in, there is at most one reply, which is a frame, and
//! tables and deadlines keep their bounds.

#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use e810_net::wire::{Checksum, Ethernet};
use e810_net::{ADDRESSES, Claim, Config, GROUPS, Interface, MacAddr, Ns, Place, ROUTERS};
use libfuzzer_sys::fuzz_target;

const MAC: MacAddr = MacAddr([2, 0xE8, 0x10, 0, 0, 1]);
const OWN_V4: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const OWN_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1);

// Each frame: a byte of what is done before and how it is changed, two of length, the frame.
fuzz_target!(|data: &[u8]| {
    let mut now = Ns::ZERO;
    let mut interface: Interface<[Place; 8]> = Interface::new(Config::new(MAC), now);
    interface
        .add_ipv4(OWN_V4, 24, Claim::Unannounced, now)
        .expect("a valid address");
    interface
        .add_ipv6(OWN_V6, 64, now)
        .expect("a valid address");
    now = Ns::from_secs(5);
    due(&mut interface, now);
    let peer = IpAddr::from([10, 9, 0, 2]);
    interface.watch(peer, now);
    let mut rest = data;
    while let Some(([mode, high, low], after)) = rest.split_first_chunk::<3>() {
        let length = usize::from(u16::from_be_bytes([high & 7, *low])).min(after.len());
        let (frame, next) = after.split_at(length);
        rest = next;
        let mut frame = frame.to_vec();
        match mode & 3 {
            0 => {}
            1 => now = now + Ns::from_ms(1 << (mode >> 4)),
            2 => drop(interface.lookup([10, 9, 0, mode >> 4].into(), now)),
            _ => drop(interface.ping([10, 9, 0, mode >> 4].into(), 1, 1, now)),
        }
        // Addressed to us, with checksums that are right: what the fuzzer would not find.
        if mode & 4 != 0 && frame.len() >= 6 && frame[0] & 1 == 0 {
            frame[..6].copy_from_slice(&MAC.0);
        }
        if mode & 8 != 0 {
            correct(&mut frame);
        }
        let mut out = [0; 1522];
        if let Some(length) = interface.handle(now, &frame, &mut out) {
            check(&out[..length]);
        }
        due(&mut interface, now);
        assert!(interface.neighbours().count() <= 8);
        assert!(interface.addresses().count() <= ADDRESSES);
        assert!(interface.groups().count() <= GROUPS);
        assert!(interface.routers().count() <= ROUTERS);
        assert!(interface.neighbours().any(|entry| entry.ip == peer));
    }
});

/// Sends what is due, which has an end.
fn due(interface: &mut Interface<[Place; 8]>, now: Ns) {
    let mut out = [0; 1522];
    for _ in 0..1000 {
        let Some(length) = interface.next_frame(now, &mut out) else {
            assert!(interface.next_deadline().is_none_or(|at| at > now));
            return;
        };
        check(&out[..length]);
    }
    panic!("frames without end");
}

fn check(frame: &[u8]) {
    let (header, _) = Ethernet::parse(frame).expect("a frame");
    assert_eq!(header.source, MAC);
}

/// Puts checksums right, as far as the headers lead to them.
fn correct(frame: &mut [u8]) {
    match frame.get(12..14) {
        Some([0x08, 0x00]) if frame.len() >= 38 => {
            let header = usize::from(frame[14] & 0xF) * 4;
            let end = frame.len();
            let length = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
            let packet = &mut frame[14..end.min(14 + length).max(34)];
            if header < 20 || header + 4 > packet.len() {
                return;
            }
            let (header, message) = packet.split_at_mut(header);
            put(header, 10, Checksum::new());
            put(message, 2, Checksum::new());
        }
        Some([0x86, 0xDD]) if frame.len() >= 58 => {
            let (head, message) = frame.split_at_mut(54);
            let length = usize::from(u16::from_be_bytes([head[18], head[19]]));
            let end = message.len().min(length);
            let skip = match head[20] {
                0 => usize::from(message[1]) * 8 + 8,
                _ => 0,
            };
            let source: [u8; 16] = head[22..38].try_into().expect("16 bytes");
            let to: [u8; 16] = head[38..54].try_into().expect("16 bytes");
            if let Some(message) = message.get_mut(skip..end)
                && message.len() >= 4
            {
                let length = message.len();
                let sum = Checksum::new().pseudo_header(source.into(), to.into(), 58, length);
                put(message, 2, sum);
            }
        }
        _ => {}
    }
}

fn put(bytes: &mut [u8], at: usize, sum: Checksum) {
    bytes[at..at + 2].fill(0);
    let sum = sum.bytes(bytes).finish();
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}
