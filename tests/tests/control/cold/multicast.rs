//! Groups whose packets have one Ethernet address: one rule, as long as one of
//! them has a member.

use std::net::IpAddr;

use e810::{Control, Data, GidEntry, Op, Path, Qpn, SendFlags, SendWr};
use e810_hal::Ns;
use e810_sim::{AqCode, AqFault, Sim, SimPlatform};
use e810_tests::traffic::verbs::datagrams::{QKEY, receive, setup};
use e810_tests::traffic::{End, Pair, Watched};

use crate::cold::world::builder;

const B: End = End { side: 1, qp: 0 };

type Cold = Pair<Watched<SimPlatform>>;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn admin_commands<P: e810::Platform>(control: &Control<P>) -> u64 {
    control.lan_side().unwrap().counters().commands
}

fn pair() -> (Sim, Cold) {
    let sim = builder(2).build();
    let pair = Pair::cold(&sim, setup());
    (sim, pair)
}

fn attach(pair: &mut Cold, gid: u8, group: &str) -> Result<(), e810::Error> {
    let side = &mut pair.sides[1];
    side.control.attach_mcast(&side.qps[0], gid, ip(group))
}

fn detach(pair: &mut Cold, gid: u8, group: &str) {
    let side = &mut pair.sides[1];
    side.control
        .detach_mcast(&side.qps[0], gid, ip(group))
        .unwrap();
}

/// Whether B gets what A sends to a group.
fn arrives(pair: &mut Cold, from: u8, group: &str) -> bool {
    let side = &mut pair.sides[0];
    let path = Path::to_group(from, ip(group));
    let ah = side.control.create_ah(&side.pd, &path).unwrap();
    let op = Op::UdSend {
        data: Data::Inline(&[b"to all"]),
        imm: None,
        to: ah.target(Qpn::MULTICAST, QKEY),
    };
    let request = SendWr {
        wr_id: 7,
        op,
        flags: SendFlags::SIGNALED,
    };
    receive(pair, B, 9, 64);
    pair.sides[0].post_send(0, &[request]).unwrap();
    pair.during(Ns::from_ms(5));
    let number = pair.number(B);
    let got = pair.sides[1].take_of(number).len();
    let number = pair.number(End { side: 0, qp: 0 });
    let _ = pair.sides[0].take_of(number);
    pair.sides[0].control.destroy_ah(ah).unwrap();
    got == 1
}

/// 224.1.1.1 and 225.1.1.1 are 01:00:5E:01:01:01.
#[test]
fn two_groups_with_one_mac() {
    let (sim, mut pair) = pair();
    let gids = [pair.sides[0].gid, pair.sides[1].gid];
    let before = admin_commands(&pair.sides[1].control);
    attach(&mut pair, gids[1], "224.1.1.1").unwrap();
    attach(&mut pair, gids[1], "225.1.1.1").unwrap();
    assert_eq!(admin_commands(&pair.sides[1].control), before + 1);
    assert!(arrives(&mut pair, gids[0], "225.1.1.1"));
    // The rule stays for the other group, whichever of them was first.
    detach(&mut pair, gids[1], "224.1.1.1");
    assert!(arrives(&mut pair, gids[0], "225.1.1.1"));
    assert_eq!(admin_commands(&pair.sides[1].control), before + 1);
    attach(&mut pair, gids[1], "224.1.1.1").unwrap();
    detach(&mut pair, gids[1], "225.1.1.1");
    assert!(arrives(&mut pair, gids[0], "224.1.1.1"));
    detach(&mut pair, gids[1], "224.1.1.1");
    assert_eq!(admin_commands(&pair.sides[1].control), before + 2);
    pair.finish(&sim);
}

#[test]
fn one_group_on_two_vlans() {
    let (sim, mut pair) = pair();
    let mut gids = Vec::new();
    for side in &mut pair.sides {
        let last = side.gid.wrapping_add(1);
        let tagged = GidEntry {
            vlan: Some(5),
            ..GidEntry::untagged(ip(&format!("198.51.100.{last}")))
        };
        gids.push(side.control.add_gid(tagged).unwrap());
    }
    let plain = [pair.sides[0].gid, pair.sides[1].gid];
    let before = admin_commands(&pair.sides[1].control);
    attach(&mut pair, plain[1], "239.1.1.1").unwrap();
    attach(&mut pair, gids[1], "239.1.1.1").unwrap();
    assert_eq!(admin_commands(&pair.sides[1].control), before + 1);
    detach(&mut pair, plain[1], "239.1.1.1");
    assert!(arrives(&mut pair, gids[0], "239.1.1.1"));
    detach(&mut pair, gids[1], "239.1.1.1");
    assert_eq!(admin_commands(&pair.sides[1].control), before + 2);
    pair.finish(&sim);
}

/// A rule that the firmware did not remove still lets packets in: it serves the
/// next group that has its address, and goes with that one.
#[test]
fn a_rule_that_stayed_serves_the_next_group() {
    let (sim, mut pair) = pair();
    let gids = [pair.sides[0].gid, pair.sides[1].gid];
    attach(&mut pair, gids[1], "224.1.1.1").unwrap();
    sim.configure_firmware(1, |config| {
        config.fault(0x02A2, 1, AqFault::Error(AqCode::EPERM));
    });
    detach(&mut pair, gids[1], "224.1.1.1");
    attach(&mut pair, gids[1], "225.1.1.1").unwrap();
    assert!(arrives(&mut pair, gids[0], "225.1.1.1"));
    detach(&mut pair, gids[1], "225.1.1.1");
    pair.finish(&sim);
}

/// One that nobody took over is removed at the end.
#[test]
fn a_rule_that_stayed_goes_at_the_end() {
    let (sim, mut pair) = pair();
    let gid = pair.sides[1].gid;
    attach(&mut pair, gid, "224.1.1.1").unwrap();
    sim.configure_firmware(1, |config| {
        config.fault(0x02A2, 1, AqFault::Error(AqCode::EPERM));
    });
    detach(&mut pair, gid, "224.1.1.1");
    assert!(
        sim.refused_commands(1)
            .contains(&(0x02A2, AqCode::EPERM, 1))
    );
    // A VSI with a rule left cannot be freed: 0x0213 would be refused.
    pair.finish(&sim);
}

/// "There already" is what a join wants.
#[test]
fn a_rule_that_is_there_is_none_of_ours() {
    let (sim, mut pair) = pair();
    let gid = pair.sides[1].gid;
    sim.configure_firmware(1, |config| {
        config.fault(0x02A0, 1, AqFault::Error(AqCode::EEXIST));
    });
    let before = admin_commands(&pair.sides[1].control);
    attach(&mut pair, gid, "224.1.1.1").unwrap();
    detach(&mut pair, gid, "224.1.1.1");
    assert_eq!(admin_commands(&pair.sides[1].control), before + 1);
    pair.finish(&sim);
}

/// What is not "there already" ends the join, and nothing is left of it.
#[test]
fn a_rule_that_is_refused_ends_the_join() {
    let (sim, mut pair) = pair();
    let gids = [pair.sides[0].gid, pair.sides[1].gid];
    sim.configure_firmware(1, |config| {
        config.fault(0x02A0, 1, AqFault::Error(AqCode::ENOSPC));
    });
    let commands = pair.sides[1].control.commands();
    attach(&mut pair, gids[1], "224.1.1.1").unwrap_err();
    assert_eq!(pair.sides[1].control.commands(), commands);
    attach(&mut pair, gids[1], "224.1.1.1").unwrap();
    assert!(arrives(&mut pair, gids[0], "224.1.1.1"));
    detach(&mut pair, gids[1], "224.1.1.1");
    pair.finish(&sim);
}
