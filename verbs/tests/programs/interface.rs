//! What packets of a function with a TAP interface have from the host's stack, and what its port
//! has.

use std::fs;

use e810_verbs::abi::query::PortAttr;
use e810_verbs::abi::state::Gid;
use e810_verbs::query::port::query_port;

use crate::harness::connection::MEMORY;
use crate::harness::gid;
use crate::harness::namespace::{ip, is_inside, try_ip};
use crate::harness::objects::UD;
use crate::harness::until;
use crate::paths::{End, Header, marked, simulator, watch};

const KEY: u32 = 5;
const PEER: &str = "lladdr 02:00:00:00:06:09 nud permanent dev e810v1";

fn parsed(ip: &str) -> Gid {
    gid(ip.parse::<std::net::IpAddr>().unwrap())
}

/// The index of an own address.
fn index(end: &End, own: &str) -> u8 {
    let mut found = None;
    until("the GID", || {
        found = (0..32).find(|index| end.ctx.gid(*index) == parsed(own));
        found.is_some()
    });
    found.unwrap() as u8
}

/// The port's MTU, as a number of verbs.
fn active_mtu(end: &End) -> i32 {
    // SAFETY: numbers.
    let mut port: PortAttr = unsafe { std::mem::zeroed() };
    // SAFETY: an open context, and a place for the answer.
    assert_eq!(unsafe { query_port(end.ctx.0, 1, &raw mut port) }, 0);
    port.active_mtu
}

#[test]
fn routes_and_links_of_the_host_say_what_packets_have() {
    let this = "interface::routes_and_links_of_the_host_say_what_packets_have";
    let device =
        "sim:classes=4,mac=02:00:00:00:06:01@tap=e810v1,mtu=1500,10.8.6.1/24,fd00:8:6::1/64";
    if !is_inside(this, device) {
        return;
    }
    let end = End::new(0);
    let sim = simulator([2, 0, 0, 0, 6, 1]);
    let seen = watch(&sim);
    let qp = end.qp(UD);
    qp.datagrams(KEY);
    // Headers of a datagram to an address, of a program that gives 1 as hop limit.
    let sent = |own: u8, to: &str, class: u8| -> Header {
        let ah = end.pd.try_ah(marked(parsed(to), own, (0, class, 1)));
        let ah = ah.unwrap_or_else(|error| panic!("{to}: {error}"));
        assert_eq!(qp.datagram(2, end.mr.sge(MEMORY - 8, 8), ah, (9, KEY)), 0);
        assert_eq!(end.cq.wait(1)[0].status, 0);
        assert_eq!(ah.destroy(), 0);
        let mut seen = std::mem::take(&mut *seen.lock().unwrap());
        assert_eq!(seen.len(), 1);
        seen.remove(0)
    };
    let limit = |own: u8, to: &str| sent(own, to, 0).2;
    let [v4, v6] = ["10.8.6.1", "fd00:8:6::1"].map(|own| index(&end, own));
    for peer in ["10.8.6.9", "fd00:8:6::9"] {
        ip(&format!("neigh add {peer} {PEER}"));
    }
    ip("route add 10.8.7.0/24 via 10.8.6.9 dev e810v1");
    ip("route add fd00:8:7::/64 via fd00:8:6::9 dev e810v1");
    let on_link = "fe80::ff:fe00:609";
    let routed = [(v4, "10.8.7.1"), (v6, "fd00:8:7::1")];
    let near = [(v4, "10.8.6.9"), (v6, "fd00:8:6::9"), (0, on_link)];
    for (own, to) in near.into_iter().chain(routed) {
        assert_eq!(limit(own, to), 64, "{to}");
    }
    // Where the route says nothing, that of the namespace or the interface.
    fs::write("/proc/sys/net/ipv4/ip_default_ttl", "33").unwrap();
    fs::write("/proc/sys/net/ipv6/conf/e810v1/hop_limit", "21").unwrap();
    for ((own, to), expected) in near.into_iter().zip([33, 21, 21]) {
        assert_eq!(limit(own, to), expected, "{to}");
    }
    ip("route change 10.8.7.0/24 via 10.8.6.9 dev e810v1 hoplimit 9");
    ip("route change fd00:8:7::/64 via fd00:8:6::9 dev e810v1 hoplimit 255");
    for ((own, to), expected) in routed.into_iter().zip([9, 255]) {
        assert_eq!(limit(own, to), expected, "{to}");
    }
    // To a group as far as the program says.
    assert_eq!(limit(v4, "239.8.6.1"), 1);

    // `active_mtu` is the largest path MTU that fits the interface.
    assert_eq!(active_mtu(&end), 3);
    for (mtu, active) in [(9000, 5), (1300, 3), (600, 2), (1500, 3)] {
        ip(&format!("link set e810v1 mtu {mtu}"));
        until("the port's MTU", || active_mtu(&end) == active);
    }

    // Priorities: by Linux' table, and on a VLAN by its egress map.
    for (class, priority) in [(0, 0), (8, 2), (16, 6), (24, 4)] {
        assert_eq!(sent(v4, "10.8.6.9", class).0, Some(priority << 13));
    }
    match try_ip("link add link e810v1 name e810v1.5 type vlan id 5 egress 2:3 6:7") {
        true => vlan(&end, &sent),
        false => println!("NOT RUN: this kernel makes no VLAN interface (8021q)"),
    }
    sim.set_capture(None);
    assert_eq!(qp.destroy(), 0);
    end.end();
}

fn vlan(end: &End, sent: &dyn Fn(u8, &str, u8) -> Header) {
    ip("addr add 10.8.8.1/24 dev e810v1.5");
    ip("link set e810v1.5 up");
    ip("neigh add 10.8.8.9 lladdr 02:00:00:00:06:09 nud permanent dev e810v1.5");
    let own = index(end, "10.8.8.1");
    let tags = |of: [u16; 4]| {
        for (class, priority) in [0, 8, 16, 24].into_iter().zip(of) {
            let expected = Some(priority << 13 | 5);
            for to in ["10.8.8.9", "239.8.6.1"] {
                assert_eq!(sent(own, to, class).0, expected, "{class} {to}");
            }
        }
    };
    // What is not in the map has priority 0.
    tags([0, 3, 7, 0]);
    ip("link set e810v1.5 type vlan egress 0:1 4:5");
    tags([1, 3, 7, 5]);
}
