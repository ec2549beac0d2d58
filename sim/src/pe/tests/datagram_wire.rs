//! Every form of datagram as packets, and as a capture for `tests/pcap/run`.

use std::fmt::Write as _;
use std::path::PathBuf;

use e810_hal::Ns;

use super::engine_pair::{ALL_RIGHTS, PD, VA};
use super::qp::{TestQp, mac};
use super::test_driver::{GOOD, TestDriver};
use crate::pcap::Writer;
use crate::pe::Config;
use crate::wire::{Addresses, Deth, Opcode, Packet};

/// Folder that gets `datagrams.pcap` and `datagrams.expect`; without it nothing is written.
const FOLDER: &str = "E810_PCAP_FOLDER";
const QKEY: u32 = 0x1111_2222;
const VLAN: u16 = 5 << 13 | 0xABC;
/// The Ethernet addresses of 239.1.2.3 and ff0e::1:2:3.
const GROUP_V4: u64 = 0x0100_5e01_0203;
const GROUP_V6: u64 = 0x3333_0002_0003;
/// Destination queue pair of a multicast packet.
const MULTICAST_QP: u32 = 0xFF_FFFF;

/// Destination of a datagram, from an address handle.
#[derive(Clone, Copy)]
struct To {
    group: bool,
    ipv6: bool,
    vlan: bool,
}

impl To {
    fn all() -> impl Iterator<Item = Self> {
        (0..8).map(|n| Self {
            group: n & 1 != 0,
            ipv6: n & 2 != 0,
            vlan: n & 4 != 0,
        })
    }

    fn mac(self) -> u64 {
        match (self.group, self.ipv6) {
            (false, _) => mac(1),
            (true, false) => GROUP_V4,
            (true, true) => GROUP_V6,
        }
    }

    fn addresses(self) -> Addresses {
        let last = |group| if group { 0x0001_0002_0003 } else { 2 };
        match self.ipv6 {
            false => Addresses::V4 {
                src: [10, 0, 0, 1].into(),
                dst: if self.group {
                    [239, 1, 2, 3]
                } else {
                    [10, 0, 0, 2]
                }
                .into(),
            },
            true => Addresses::V6 {
                src: (0xfe80_u128 << 112 | 1).into(),
                dst: (if self.group { 0xff0e_u128 } else { 0xfe80 } << 112 | last(self.group))
                    .into(),
            },
        }
    }

    /// CREATE_ADDR_HANDLE of handle `index`, through ARP entry `arp` (control-path 4.14).
    fn handle(self, index: u64, arp: u64) -> [u64; 8] {
        let [dst, src] = match self.addresses() {
            Addresses::V4 { src, dst } => [dst, src].map(|ip| u128::from(ip.to_bits())),
            Addresses::V6 { src, dst } => [dst, src].map(|ip| ip.to_bits()),
        };
        let half = |address: u128, high: bool| (address >> if high { 64 } else { 0 }) as u64;
        [
            mac(0) << 16,
            // PD, traffic class, tag.
            PD << 48 | 0x88 << 32 | u64::from(VLAN),
            // ARP entry, hop limit, flow label.
            arp << 48 | 64 << 32 | 0xA_BCDE,
            u64::from(!self.ipv6) << 59 | u64::from(self.vlan) << 60 | index,
            half(dst, false),
            half(dst, true),
            half(src, false),
            half(src, true),
        ]
    }
}

/// Sends everything to `to`; returns the payloads in order.
fn send_all(
    driver: &mut TestDriver,
    qp: &mut TestQp,
    stag: u64,
    to: To,
    handle: u64,
) -> Vec<Vec<u8>> {
    let qpn = if to.group { MULTICAST_QP } else { 3 };
    let target = u64::from(qpn) << 32 | u64::from(QKEY);
    let mut sent = Vec::new();
    // SEND and SEND with a solicited event.
    for opcode in [3_u64, 5] {
        let header = opcode << 32 | handle;
        for bytes in [0_u64, 1, 2, 3, 500, 1024] {
            let fragment = bytes << 32 | if bytes == 0 { 0 } else { stag };
            qp.put(driver, [VA, fragment, target, header], true);
            sent.push((0..bytes).map(|n| n as u8).collect());
        }
        for bytes in [0, 5, 8] {
            // IMMDATA, INLINEDATA and its length: up to eight bytes are in the second word.
            let header = header | 1 << 47 | 1 << 57 | bytes << 48;
            let data = 0x0807_0605_0403_0201_u64;
            qp.put(driver, [0x0a0b_0c0d, data, target, header], false);
            sent.push(data.to_le_bytes()[..bytes as usize].to_vec());
        }
        qp.doorbell(driver);
    }
    sent
}

#[test]
fn every_datagram_is_a_packet_as_it_should_be() {
    let mut driver = TestDriver::ready(Config::default());
    let (stag, memory) = driver.register(9, PD, VA, 1024, ALL_RIGHTS);
    let data: Vec<u8> = (0..1024).map(|n| n as u8).collect();
    driver.env.poke(memory, &data);
    let mut qp = TestQp::create_ud(&mut driver, 3, PD, 1);
    let word = driver.env.word(qp.context + 64);
    let qkey = u64::from(QKEY);
    driver.env.set_word(qp.context + 64, word | qkey << 32);
    qp.connect(&mut driver);
    let mut all = Vec::new();
    for (index, to) in (0_u64..).zip(To::all()) {
        let arp = 4 + index % 4;
        driver.good(0x0f, [0, 0, to.mac(), 3 << 42 | arp, 0, 0, 0, 0]);
        assert_eq!(driver.command(0x1c, to.handle(index, arp)), GOOD);
        let sent = send_all(&mut driver, &mut qp, stag.into(), to, index);
        let frames = std::mem::take(&mut driver.env.frames);
        assert_eq!(frames.len(), sent.len());
        for (n, (frame, payload)) in frames.iter().zip(sent).enumerate() {
            let packet = Packet::parse(frame).unwrap();
            let (bth, immediate) = (packet.headers.bth, n % 9 > 5);
            let opcode = if immediate {
                Opcode::UD_SEND_ONLY_IMM
            } else {
                Opcode::UD_SEND_ONLY
            };
            assert_eq!((bth.opcode, bth.solicited), (opcode, n > 8));
            assert_eq!(bth.dest_qp, if to.group { MULTICAST_QP } else { 3 });
            let deth = Deth {
                qkey: QKEY,
                src_qp: 3,
            };
            assert_eq!(packet.headers.deth, Some(deth));
            assert_eq!(
                packet.headers.immediate,
                immediate.then_some(0x0a0b_0c0d),
                "{n}"
            );
            assert_eq!(packet.path.vlan, to.vlan.then_some(VLAN));
            assert_eq!(packet.path.ip, to.addresses());
            assert_eq!(frame[..6], to.mac().to_be_bytes()[2..]);
            assert_eq!((packet.path.tos, packet.path.ttl), (0x88, 64));
            assert_eq!(packet.payload, payload);
        }
        all.extend(frames);
    }
    assert_eq!((driver.aeqe(0), driver.env.findings), (None, vec![]));
    if let Some(folder) = std::env::var_os(FOLDER) {
        let folder = PathBuf::from(folder);
        let mut file = Writer::new(Vec::new()).unwrap();
        for (n, frame) in (0..).zip(&all) {
            file.frame(Ns::from_us(n), frame).unwrap();
        }
        std::fs::write(folder.join("datagrams.pcap"), file.into_inner()).unwrap();
        let mut expected = format!("frames {}\n", all.len());
        for opcode in [Opcode::UD_SEND_ONLY, Opcode::UD_SEND_ONLY_IMM] {
            writeln!(expected, "opcode {:#04x}", opcode.0).unwrap();
        }
        std::fs::write(folder.join("datagrams.expect"), expected).unwrap();
    }
}
