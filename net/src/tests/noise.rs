//! Random and changed frames: nothing panics, and every bound holds.

use core::net::IpAddr;
use std::prelude::v1::*;

use super::frames::{PEER_V4, PEER_V6, put_checksums_right, seeds};
use super::node::Node;
use crate::wire::{Ethernet, Ipv4, Ipv6};
use crate::{ADDRESSES, DropReason, GROUPS, ROUTERS};

/// Frames of the ordinary run; `E810_NET_FRAMES` says another number.
const FRAMES: u64 = 100_000;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit.max(1)
    }
}

/// A frame of a kind that is acted on, changed in some way; mostly with checksums that are right.
fn mutated(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let seed = &seeds[random.below(seeds.len())];
    let mut frame = seed.clone();
    for _ in 0..random.below(6) {
        // Headers more often than what follows them.
        let range = [frame.len(), 24, 64][random.below(3)].min(frame.len());
        let at = random.below(range);
        match random.below(7) {
            0 if at < frame.len() => frame[at] ^= 1 << random.below(8),
            1 if at < frame.len() => frame[at] = random.next() as u8,
            2 if random.below(4) == 0 => frame.truncate(at),
            3 => frame.insert(at, random.next() as u8),
            4 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len());
                frame.truncate(at);
                frame.extend(&other[from..]);
            }
            5 => {
                let room = random.below(1600);
                frame.extend((0..room).map(|n| n as u8));
            }
            _ if at < frame.len() => frame[at] = [0, 0xFF, 0x80, 1][random.below(4)],
            _ => {}
        }
    }
    // What is not even addressed to us is soon dropped.
    if random.below(4) > 0 && frame.len() >= 14 {
        frame[..14].copy_from_slice(&seed[..14]);
    }
    if random.below(8) > 0 {
        put_checksums_right(&mut frame);
    }
    frame
}

/// What holds always.
fn check(node: &Node) {
    let interface = &node.interface;
    assert!(interface.neighbours().count() <= 32);
    assert!(interface.addresses().count() <= ADDRESSES);
    assert!(interface.routers().count() <= ROUTERS);
    assert!(interface.groups().count() <= GROUPS);
    for ip in [IpAddr::V4(PEER_V4), PEER_V6.into()] {
        let watched = interface.neighbours().find(|entry| entry.ip == ip);
        assert!(
            watched.is_some_and(|entry| entry.users == 1),
            "{ip} is watched"
        );
    }
    let mtu = interface.path_mtu(PEER_V4.into());
    assert!((552..=1500).contains(&mtu), "{mtu}");
    assert!((1280..=1500).contains(&interface.path_mtu(PEER_V6.into())));
}

/// A frame that we send is one that a receiver takes.
fn check_sent(frame: &[u8]) {
    let (ethernet, payload) = Ethernet::parse(frame).unwrap();
    assert_eq!(ethernet.source, super::frames::OURS);
    assert!(ethernet.destination.0 != [0; 6]);
    match ethernet.ethertype {
        0x0806 => drop(crate::wire::arp::Arp::parse(payload).unwrap()),
        0x0800 => drop(Ipv4::parse(payload).unwrap()),
        0x86DD => drop(Ipv6::parse(payload).unwrap()),
        other => unreachable!("{other:#x}"),
    }
}

#[test]
fn changed_frames_keep_every_bound() {
    let frames = std::env::var("E810_NET_FRAMES").ok();
    let frames = frames.map_or(FRAMES, |frames| frames.parse().unwrap());
    let seeds = seeds();
    let mut random = Random(0x0E81_0E81_0E81_0E81);
    let mut node = Node::ready();
    let start = |node: &mut Node| {
        for ip in [IpAddr::V4(PEER_V4), PEER_V6.into()] {
            assert!(node.interface.watch(ip, node.now).1.is_some());
        }
    };
    start(&mut node);
    let mut replies = 0;
    let mut drops = [0; DropReason::ALL.len()];
    let mut count = |node: &Node| {
        for (total, reason) in drops.iter_mut().zip(DropReason::ALL) {
            *total += node.dropped(*reason);
        }
    };
    for n in 0..frames {
        if random.below(512) == 0 {
            let ms = [1, 100, 5000, 100_000][random.below(4)];
            node.run(ms);
            let sent = core::mem::take(&mut node.sent);
            sent.iter().for_each(|(_, frame)| check_sent(frame));
        }
        if random.below(16) == 0 {
            let ip = IpAddr::from([10, 9, 0, random.next() as u8]);
            node.interface.lookup(ip, node.now);
            let _ = node.interface.ping(ip, 1, n as u16, node.now);
        }
        let frame = match random.below(32) {
            0 => (0..random.below(200))
                .map(|_| random.next() as u8)
                .collect(),
            _ => mutated(&mut random, &seeds),
        };
        if let Some(reply) = node.give(&frame) {
            assert!(reply.len() <= 1522);
            check_sent(&reply);
            replies += 1;
        }
        if n % 64 == 0 {
            check(&node);
            if random.below(4) == 0 {
                node.events();
            }
        }
        // A conflict while an address was being made may have ended it.
        if n % 100_000 == 99_999 {
            let now = node.now;
            count(&node);
            node = Node::ready();
            node.run(now.0 / 1_000_000);
            start(&mut node);
        }
    }
    check(&node);
    count(&node);
    std::println!("{frames} frames, {replies} replies, dropped:");
    for (total, reason) in drops.iter().zip(DropReason::ALL) {
        std::println!("{total:>9} {}", reason.text());
        // What frames alone do not lead to: buffers and ports of another size.
        let is_of_size = [DropReason::Oversize, DropReason::ReplyTooLong].contains(reason);
        assert!(*total > 0 || is_of_size, "{reason:?} is never reached");
    }
    assert!(
        replies > frames / 100,
        "{replies} replies: the frames lead nowhere"
    );
}
