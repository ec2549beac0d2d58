//! What programs say of an address, on the wire: as Linux' verbs layer and irdma have it.

use std::sync::{Arc, Mutex};

use e810_sim::Sim;
use e810_sim::wire::Packet;
use e810_verbs::abi::query::PortAttr;
use e810_verbs::abi::state::{AhAttr, Gid};
use e810_verbs::query::port::query_port;
use e810_verbs::testing::simulators;

use crate::harness::connection::{INCOMING, MEMORY};
use crate::harness::objects::{RC, UD, address};
use crate::harness::{ALONE, CLASSES, Cq, Ctx, Mr, Pd, Qp, WIRED, memory, until};

const KEY: u32 = 5;

/// Tag, type of service or traffic class, TTL or hop limit.
pub(crate) type Header = (Option<u16>, u8, u8);

/// The simulator of a function with an Ethernet address.
pub(crate) fn simulator(mac: [u8; 6]) -> Sim {
    let mut all = simulators().into_iter();
    let found = all.find(|sim| sim.function(0).mac() == mac);
    found.unwrap()
}

/// The headers of RoCE packets that it sends from now on.
pub(crate) fn watch(sim: &Sim) -> Arc<Mutex<Vec<Header>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = seen.clone();
    sim.set_capture(Some(Box::new(move |frame| {
        if let Ok(Packet { path, .. }) = Packet::parse(frame.bytes)
            && frame.from == Some(0)
        {
            into.lock().unwrap().push((path.vlan, path.tos, path.ttl));
        }
    })));
    seen
}

/// A function, and what messages need there.
pub(crate) struct End {
    pub(crate) ctx: Ctx,
    pub(crate) pd: Pd,
    pub(crate) cq: Cq,
    pub(crate) mr: Mr,
}

impl End {
    pub(crate) fn new(device: usize) -> Self {
        let ctx = Ctx::open(device);
        let pd = ctx.pd();
        Self {
            ctx,
            pd,
            cq: ctx.cq(64, 0, None),
            mr: pd.mr(memory(MEMORY)),
        }
    }

    pub(crate) fn qp(&self, kind: i32) -> Qp {
        self.pd.qp(kind, self.cq, self.cq)
    }

    pub(crate) fn end(self) {
        assert_eq!((self.cq.destroy(), self.mr.dereg()), (0, 0));
        assert_eq!((self.pd.free(), self.ctx.close()), (0, 0));
    }
}

/// An address with a service level, a traffic class and a hop limit.
pub(crate) fn marked(dgid: Gid, index: u8, (sl, traffic_class, hop_limit): (u8, u8, u8)) -> AhAttr {
    let mut attr = address(dgid, index);
    attr.sl = sl;
    attr.grh.traffic_class = traffic_class;
    attr.grh.hop_limit = hop_limit;
    attr
}

/// Sends one message over a connection with an address like that, and asks for the address.
fn connection([a, b]: &[End; 2], index: u8, what: (u8, u8, u8)) {
    let [qa, qb] = [a.qp(RC), b.qp(RC)];
    for (qp, peer, gid) in [
        (qa, qb, b.ctx.gid(index.into())),
        (qb, qa, a.ctx.gid(index.into())),
    ] {
        qp.init();
        assert_eq!(qp.to_rtr_at(peer.number(), marked(gid, index, what)), 0);
        assert_eq!(qp.to_rts(), 0);
    }
    assert_eq!(qb.recv(1, b.mr.sge(INCOMING, 64)), 0);
    assert_eq!(qa.send_of(2, a.mr.sge(0, 8), 2), 0);
    assert_eq!(a.cq.wait(1)[0].status, 0);
    assert_eq!(b.cq.wait(1)[0].status, 0);
    let given = qa.query().unwrap().ah_attr;
    let given = (given.sl, given.grh.traffic_class, given.grh.hop_limit);
    assert_eq!(given, what, "as it was given");
    assert_eq!([qa.destroy(), qb.destroy()], [0; 2]);
}

/// Sends one datagram to an address like that.
fn datagram([a, b]: &[End; 2], dgid: Gid, index: u8, what: (u8, u8, u8)) {
    let [qa, qb] = [a.qp(UD), b.qp(UD)];
    for qp in [qa, qb] {
        qp.datagrams(KEY);
    }
    let ah = a.pd.try_ah(marked(dgid, index, what)).unwrap();
    assert_eq!(qb.recv(1, b.mr.sge(INCOMING, 64)), 0);
    assert_eq!(qa.datagram(2, a.mr.sge(0, 8), ah, (qb.number(), KEY)), 0);
    assert_eq!(a.cq.wait(1)[0].status, 0);
    assert_eq!((ah.destroy(), qa.destroy()), (0, 0));
    assert_eq!(qb.destroy(), 0);
}

/// A router's advertisement to all nodes (RFC 4861 4.2).
fn router_that_says(hop_limit: u8) -> Vec<u8> {
    let mut addresses = [0; 32];
    addresses[..2].copy_from_slice(&[0xFE, 0x80]);
    addresses[15] = 0xFE;
    addresses[16..18].copy_from_slice(&[0xFF, 0x02]);
    addresses[31] = 1;
    let mut message = [0; 16];
    message[0] = 134;
    message[4] = hop_limit;
    // The pseudo header's last words are the length and the protocol.
    let (words, _) = addresses.as_chunks::<2>();
    let (rest, _) = message.as_chunks::<2>();
    let words = words.iter().chain(rest);
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let sum = sum + 16 + 58;
    let sum = !((sum & 0xFFFF) + (sum >> 16)) as u16;
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let ethernet = [0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 4, 0xFE, 0x86, 0xDD];
    let header = [0x60, 0, 0, 0, 0, 16, 58, 255];
    [&ethernet[..], &header, &addresses, &message].concat()
}

fn all_are(seen: &Mutex<Vec<Header>>, expected: Header, what: &str) {
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    assert!(!seen.is_empty(), "{what}");
    assert!(
        seen.iter().all(|header| *header == expected),
        "{what}: {seen:x?}, not {expected:x?}"
    );
}

/// Nobody else sends from these functions. The traffic class says which priority packets have
/// (`rt_tos2priority`), not the service level; a port with several classes puts it into a tag, on
/// no VLAN. Packets to a station go as far as the route says, those to a group as far as the
/// program says.
#[test]
fn packets_have_the_priority_of_their_traffic_class_and_the_hop_limit_of_their_route() {
    let ends = CLASSES.map(End::new);
    let sim = simulator([2, 0, 0, 0, 4, 1]);
    let seen = watch(&sim);
    let tag = |priority: u16| Some(priority << 13);
    for (index, what, priority) in [
        (1, (0, 0, 1), 0),
        (1, (5, 0, 64), 0),
        (1, (0, 8, 0), 2),
        (2, (7, 16, 255), 6),
        (2, (0, 24, 1), 4),
        (1, (0, 0xB8, 64), 4),
    ] {
        let expected = (tag(priority), what.1, 64);
        connection(&ends, index, what);
        all_are(&seen, expected, "connection");
        let there = ends[1].ctx.gid(index.into());
        datagram(&ends, there, index, what);
        all_are(&seen, expected, "datagram");
    }
    let mut group = Gid { raw: [0; 16] };
    group.raw[10..].copy_from_slice(&[0xFF, 0xFF, 239, 8, 4, 1]);
    datagram(&ends, group, 1, (0, 8, 3));
    all_are(&seen, (tag(2), 8, 3), "datagram to a group");
    // A router says how far IPv6 packets go.
    for (limit, expected) in [(17, 17), (64, 64)] {
        assert_eq!(sim.receive_frames([&router_that_says(limit)[..]]), 1);
        let there = ends[1].ctx.gid(2);
        until("the router's hop limit", || {
            datagram(&ends, there, 2, (0, 0, 1));
            let sent = seen.lock().unwrap().pop().unwrap();
            seen.lock().unwrap().clear();
            sent == (tag(0), 0, expected)
        });
        connection(&ends, 2, (0, 0, 1));
        all_are(&seen, (tag(0), 0, expected), "connection over IPv6");
        connection(&ends, 1, (0, 0, 1));
        all_are(&seen, (tag(0), 0, 64), "connection over IPv4");
        // One that was made from the start of a link-local address is known without asking.
        datagram(&ends, ends[1].ctx.gid(0), 0, (0, 0, 1));
        all_are(&seen, (tag(0), 0, expected), "datagram on the link");
    }
    sim.set_capture(None);
    let [a, b] = ends;
    a.end();
    b.end();
}

/// `active_mtu` is the largest path MTU that fits the network, and no path has a larger one.
#[test]
fn the_port_has_the_mtu_of_its_network() {
    for (device, mtu) in [(CLASSES[0], 3), (ALONE, 5)] {
        let end = End::new(device);
        // SAFETY: numbers.
        let mut port: PortAttr = unsafe { std::mem::zeroed() };
        // SAFETY: an open context, and a place for the answer.
        assert_eq!(unsafe { query_port(end.ctx.0, 1, &raw mut port) }, 0);
        assert_eq!((port.active_mtu, port.max_mtu), (mtu, 5));
        end.end();
    }
}

/// Numbers of queue pairs and PSNs have 24 bits; others are left out, as by irdma and libirdma.
#[test]
fn what_has_no_place_in_a_number_is_left_out() {
    let ends = WIRED.map(End::new);
    let [a, b] = &ends;
    let [qa, qb] = [a.qp(UD), b.qp(UD)];
    for qp in [qa, qb] {
        qp.datagrams(KEY);
    }
    let ah = a.pd.try_ah(address(b.ctx.gid(1), 1)).unwrap();
    assert_eq!(qb.recv(1, b.mr.sge(INCOMING, 64)), 0);
    let number = qb.number() | 0xA500_0000;
    assert_eq!(qa.datagram(2, a.mr.sge(0, 8), ah, (number, KEY)), 0);
    assert_eq!(a.cq.wait(1)[0].status, 0);
    assert_eq!(b.cq.wait(1)[0].wr_id, 1);
    assert_eq!((ah.destroy(), qa.destroy()), (0, 0));
    assert_eq!(qb.destroy(), 0);
    let qp = a.qp(RC);
    qp.init();
    assert_eq!(qp.to_rtr(0xFF00_0005, b.ctx.gid(1), 1), 0);
    assert_eq!(qp.query().unwrap().dest_qp_num, 5);
    assert_eq!(qp.destroy(), 0);
    let [a, b] = ends;
    a.end();
    b.end();
}
