//! Every field of a RoCEv2 context, bit by bit, against control-path 5.2: a value
//! that is one bit alone must set the table's bit and no other, and one more
//! than the field has must be refused.

use core::net::{Ipv4Addr, Ipv6Addr};

use e810_cqp::op::{IpPair, QueueMemory};
use e810_cqp::qpc::{
    CongestionControl, Privileges, RoceContext, RqContext, SqContext, StatsInstance, Timely,
};
use e810_hal::Iova;
use e810_types::MacAddr;

/// A context of nothing but zeros.
fn base() -> RoceContext {
    let memory = QueueMemory::Contiguous(Iova(0));
    let sq = SqContext {
        memory,
        quanta: 4,
        cq: 0,
    };
    let rq = RqContext {
        memory,
        quanta: 4,
        wqe_shift: 0,
        cq: 0,
    };
    let mut c = RoceContext::new(sq, rq, MacAddr([0; 6]), 0);
    destination(&mut c, 0);
    (c.peer.source_port, c.peer.destination_port) = (0, 0);
    (c.path_mtu, c.pkey, c.window, c.ack_credits) = (0, 0, 0, 0);
    (c.retries, c.rnr_retries, c.rto_min, c.ord, c.ird) = (0, 0, 0, 0, 0);
    c.privileges = Privileges::default();
    c
}

fn destination(c: &mut RoceContext, bits: u128) {
    c.peer.addresses = IpPair::V6 {
        source: Ipv6Addr::UNSPECIFIED,
        destination: Ipv6Addr::from(bits),
    };
}

fn source(c: &mut RoceContext, bits: u128) {
    c.peer.addresses = IpPair::V6 {
        source: Ipv6Addr::from(bits),
        destination: Ipv6Addr::UNSPECIFIED,
    };
}

/// Gives a field a value.
type Set = fn(&mut RoceContext, u64);

/// Name, byte offset of the word, lowest bit, bits, and what has the value.
#[rustfmt::skip]
const FIELDS: &[(&str, usize, u32, u32, Set)] = &[
    ("ISQP1", 0, 6, 1, |c, _| c.gsi = true),
    ("RQWQESIZE", 0, 8, 2, |c, v| c.rq.wqe_shift = v as u8),
    ("SQADDR", 8, 0, 64, |c, v| c.sq.memory = QueueMemory::Contiguous(Iova(v))),
    ("SQADDR pble", 8, 0, 28, |c, v| c.sq.memory = QueueMemory::Pbles(v as u32)),
    ("RQADDR", 16, 0, 64, |c, v| c.rq.memory = QueueMemory::Contiguous(Iova(v))),
    ("RQADDR pble", 16, 0, 28, |c, v| c.rq.memory = QueueMemory::Pbles(v as u32)),
    ("TTL", 24, 0, 8, |c, v| c.peer.hop_limit = v as u8),
    ("TOS", 24, 24, 8, |c, v| c.peer.traffic_class = v as u8),
    ("SRCPORTNUM", 24, 32, 16, |c, v| c.peer.source_port = v as u16),
    ("DESTPORTNUM", 24, 48, 16, |c, v| c.peer.destination_port = v as u16),
    ("DESTIPADDR2:3", 32, 0, 64, |c, v| destination(c, u128::from(v))),
    ("DESTIPADDR0:1", 40, 0, 64, |c, v| destination(c, u128::from(v) << 64)),
    ("SNDMSS", 48, 16, 14, |c, v| c.path_mtu = v as u16),
    ("ARPIDX", 48, 48, 16, |c, v| c.peer.arp_index = v as u16),
    ("FLOWLABEL", 56, 0, 20, |c, v| c.peer.flow_label = v as u32),
    ("ACKCREDITS", 56, 20, 5, |c, v| c.ack_credits = v as u8),
    ("PKEY", 56, 32, 16, |c, v| c.pkey = v as u16),
    ("PDIDX", 56, 48, 16, |c, v| c.pd = v as u32),
    ("PDIDXHI", 0, 20, 2, |c, v| c.pd = (v as u32) << 16),
    ("DESTQP", 64, 0, 24, |c, v| c.peer.qp = v as u32),
    ("QKEY", 64, 32, 32, |c, v| c.qkey = v as u32),
    ("PSNNXT", 80, 0, 24, |c, v| c.psn_next = v as u32),
    ("LSN", 80, 32, 24, |c, v| c.lsn = v as u32),
    ("EPSN", 88, 0, 24, |c, v| c.psn_expected = v as u32),
    ("PSNMAX", 96, 0, 24, |c, v| c.psn_max = v as u32),
    ("PSNUNA", 96, 32, 24, |c, v| c.psn_unacked = v as u32),
    ("CWNDROCE", 112, 32, 24, |c, v| c.window = v as u32),
    ("REXMIT_THRESH", 128, 48, 6, |c, v| c.retries = v as u8),
    ("RNRNAK_THRESH", 128, 54, 3, |c, v| c.rnr_retries = v as u8),
    ("RTOMIN", 128, 57, 7, |c, v| c.rto_min = v as u8),
    ("TXCQNUM", 136, 0, 25, |c, v| c.sq.cq = v as u32),
    ("RXCQNUM", 136, 32, 25, |c, v| c.rq.cq = v as u32),
    ("STAT_INDEX", 144, 0, 7, |c, v| c.stats = StatsInstance { index: v as u8, used: false }),
    ("ORDSIZE", 160, 0, 8, |c, v| c.ord = v as u32),
    ("UDPRIVCQENABLE", 160, 19, 1, |c, _| c.privileges.ud_private_cq = true),
    ("WRRDRSPOK", 160, 20, 1, |c, _| c.privileges.remote_write = true),
    ("RDOK", 160, 21, 1, |c, _| c.privileges.remote_read = true),
    ("DCQCNENABLE", 160, 22, 1, |c, _| { c.congestion.dcqcn = true; c.peer.traffic_class = 1 }),
    ("BINDEN", 160, 23, 1, |c, _| c.privileges.bind = true),
    ("FASTREGEN", 160, 24, 1, |c, _| c.privileges.fast_register = true),
    ("PRIVEN", 160, 25, 1, |c, _| c.privileges.privileged = true),
    ("USESTATSINSTANCE", 160, 26, 1, |c, _| c.stats.used = true),
    ("TIMELYENABLE", 160, 27, 1, |c, _| {
        c.congestion = CongestionControl { timely: Some(Timely::default()), ..CongestionControl::default() };
    }),
    ("FW_CC_ENABLE", 160, 28, 1, |c, _| c.congestion.firmware = true),
    ("RCVNOICRC", 160, 31, 1, |c, _| c.ignore_icrc = true),
    ("QPCOMPCTX", 168, 0, 64, |c, v| c.completion_context = v),
    ("QSHANDLE", 176, 16, 10, |c, v| c.qs_handle = v as u16),
    ("LOCAL_IPADDR2:3", 184, 0, 64, |c, v| source(c, u128::from(v))),
    ("LOCAL_IPADDR0:1", 192, 0, 64, |c, v| source(c, u128::from(v) << 64)),
    ("REMENDPOINTIDX", 208, 0, 17, |c, v| c.peer.endpoint_index = v as u32),
];

#[test]
fn each_bit_is_where_the_table_has_it() {
    assert_eq!(base().encode().unwrap(), [0; 32]);
    for (name, offset, low, bits, set) in FIELDS {
        for bit in 0..*bits {
            let mut c = base();
            set(&mut c, 1 << bit);
            let mut words = c.encode().unwrap();
            if *name == "DCQCNENABLE" {
                // A TOS of 1 keeps its ECN bits: they are not this field's.
                words[3] = 0;
            }
            let mut expected = [0; 32];
            expected[offset / 8] = 1 << (low + bit);
            assert_eq!(words, expected, "{name} bit {bit}");
        }
        if (2..64).contains(bits) {
            let mut c = base();
            set(&mut c, 1 << bits);
            // A type that ends with its field has no such value: it is as before.
            // What is above PDIDX is PDIDXHI.
            if c != base() && *name != "PDIDX" {
                assert!(c.encode().is_err(), "{name}");
            }
        }
    }
}

/// SQSIZE and RQSIZE are codes.
#[test]
fn ring_sizes_are_codes() {
    for log in 2..=17 {
        let mut c = base();
        c.sq.quanta = 1 << log;
        c.rq.quanta = 1 << (19 - log);
        let mut expected = [0; 32];
        expected[3] = (log - 2) << 12 | (17 - log) << 8;
        assert_eq!(c.encode().unwrap(), expected);
    }
    let mut c = base();
    c.sq.quanta = 1 << 18;
    assert!(c.encode().is_err(), "code 16 has five bits");
    let codes = [
        (0, 0),
        (2, 0),
        (3, 1),
        (8, 1),
        (9, 2),
        (32, 2),
        (33, 3),
        (64, 3),
        (65, 4),
        (127, 4),
    ];
    for (ird, code) in codes {
        let mut c = base();
        c.ird = ird;
        assert_eq!(c.encode().unwrap()[20], code << 16, "IRD {ird}");
    }
}

/// A value and the flag that says it is there.
#[test]
fn optional_fields_set_their_flag() {
    let words = |change: fn(&mut RoceContext)| {
        let mut c = base();
        change(&mut c);
        c.encode().unwrap()
    };
    let w = words(|c| c.peer.vlan = Some(0xA123));
    assert_eq!((w[0], w[6]), (1 << 5, 0xA123 << 32));
    let w = words(|c| c.error_rq_index = Some(0x5ABC));
    assert_eq!((w[0], w[16]), (1 << 19, 0x5ABC << 32));
    let w = words(|c| c.push_page = Some(0x2A5));
    assert_eq!(w[0], 1 << 47 | 0x2A5 << 32);
    let w = words(|c| {
        c.congestion.timely = Some(Timely {
            high: 0xABC,
            low: 0xDE,
        });
    });
    assert_eq!((w[20], w[25]), (1 << 27, 0xABC << 52 | 0xDE << 32));
    let w = words(|c| c.congestion.dctcp = true);
    assert_eq!(
        (w[0], w[3]),
        (1 << 25, 2 << 24),
        "and the TOS can be marked"
    );
    let w = words(|c| c.mac = MacAddr([1, 2, 3, 4, 5, 6]));
    assert_eq!(w[19], 0x0102_0304_0506 << 16);
    let w = words(|c| {
        c.peer.addresses = IpPair::V4 {
            source: Ipv4Addr::new(1, 2, 3, 4),
            destination: Ipv4Addr::new(5, 6, 7, 8),
        };
    });
    assert_eq!((w[0], w[4], w[5]), (1 << 3, 0x0506_0708, 0));
    assert_eq!((w[23], w[24]), (0x0102_0304, 0));
}
