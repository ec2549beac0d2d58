//! RSS profiles, and rules that drop sent frames.

use super::client::{Client, params};
use super::lan_port::{ONE, Port, RxContext, frame, properties, tcp};
use super::package::buffer;
use super::switch::mac_rule;
use crate::fw::AqCode;
use e810_hal::Ns;

/// Sections of the RSS block: groups of types, groups of VSIs, matches, words.
const TYPES: u32 = 42;
const VSIS: u32 = 43;
const MATCHES: u32 = 44;
const WORDS: u32 = 46;
/// The packet type of TCP over IPv4.
const TCP4: u16 = 26;

/// A section of a table: count, first index, entries.
fn table(first: u16, entry: &[u8]) -> Vec<u8> {
    [&[1, 0], &first.to_le_bytes()[..], entry].concat()
}

/// A match entry at `place`, for a group of types and a group of VSIs, with any flags; `never`: it
/// matches nothing.
fn a_match(place: u16, types: u8, vsis: u16, profile: u8, never: bool) -> Vec<u8> {
    let [low, high] = vsis.to_le_bytes();
    let flags = if never { 0xfe } else { 0xff };
    let zeros = [flags, 0xff, !types, !low, !high];
    let ones = [flags, 0xff, types, low, high];
    let place = place.to_le_bytes();
    [&[1, 0], &place[..], &zeros, &ones, &[profile]].concat()
}

/// A profile of these protocols and offsets.
fn words(profile: u16, fields: &[(u8, u16)]) -> Vec<u8> {
    let mut all = [[255, 0xff, 1, 0]; 24];
    for (word, (protocol, at)) in all.iter_mut().rev().zip(fields) {
        let [low, high] = at.to_le_bytes();
        *word = [*protocol, low, high, 0];
    }
    table(profile, &all.concat())
}

const ADDRESSES: [(u8, u16); 4] = [(32, 12), (32, 14), (32, 16), (32, 18)];
const PORTS: [(u8, u16); 2] = [(49, 0), (49, 2)];

fn update(client: &mut Client, sections: &[(u32, &[u8])]) -> u16 {
    let change = params(&[(0, &[3]), (2, &[2])]);
    client.direct(0x0008, change).ok();
    let placed: Vec<(u32, usize, &[u8])> = sections
        .iter()
        .zip(1..)
        .map(|((kind, data), at)| (*kind, 512 * at, *data))
        .collect();
    let reply = client.tell(0x0c42, [0; 16], &buffer(&placed));
    client.direct(0x0009, change).ok();
    reply.code
}

/// Two ports of which the second spreads what it receives.
fn spreading() -> [Port; 2] {
    let (_, mut ports) = Port::pair(&properties(), RxContext::default());
    spread(&mut ports[1]);
    ports
}

/// A key and a table.
fn spread(port: &mut Port) {
    let vsi = port.vsi.to_le_bytes();
    let client = &mut port.client;
    let key: Vec<u8> = (1..53_u8).map(|byte| byte.wrapping_mul(37)).collect();
    client.tell(0x0b02, params(&[(0, &vsi)]), &key).ok();
    client.tell(0x0b03, params(&[(0, &vsi)]), &[0; 64]).ok();
}

/// The hash of a TCP packet with these ports; `None` if it has none.
fn hash(ports: &mut [Port; 2], from: u16, to: u16) -> Option<u32> {
    let [a, b] = [0, 1].map(|index: usize| ports[index].client.nic.mac());
    let mut packet = tcp(b, a, 100, false);
    packet[34..36].copy_from_slice(&from.to_be_bytes());
    packet[36..38].copy_from_slice(&to.to_be_bytes());
    ports[0].send(&packet, 0, None);
    let received = ports[1].received();
    let [_, q8, ..] = received[0].last();
    (q8 & 1 << 12 != 0).then_some((q8 >> 32) as u32)
}

#[test]
fn a_hash_is_made_of_what_the_profile_names() {
    let mut ports = spreading();
    let all = hash(&mut ports, 1000, 2000);
    assert_ne!(hash(&mut ports, 1001, 2000), all);
    assert_ne!(hash(&mut ports, 1000, 2001), all);
    // What Linux does for `sd`, `s` of addresses and `f` of ports, and what no profile is for.
    let vsi = ports[1].vsi;
    let types = table(TCP4, &[5]);
    let vsis = table(vsi, &0x2001_u16.to_le_bytes());
    let first = a_match(9, 5, 0x2001, 7, false);
    let all_words = [&ADDRESSES[..], &PORTS].concat();
    let set: &[(u32, &[u8])] = &[
        (WORDS, &words(7, &all_words)),
        (MATCHES, &first),
        (TYPES, &types),
        (VSIS, &vsis),
    ];
    assert_eq!(update(&mut ports[1].client, set), 0);
    assert_eq!(hash(&mut ports, 1000, 2000), all);
    let addresses = words(8, &ADDRESSES);
    let other = a_match(3, 5, 0x2001, 8, false);
    let set: &[(u32, &[u8])] = &[(WORDS, &addresses), (MATCHES, &other)];
    assert_eq!(update(&mut ports[1].client, set), 0);
    let of_addresses = hash(&mut ports, 1000, 2000);
    assert_ne!(of_addresses, all, "the first match counts");
    assert_ne!(of_addresses, None);
    assert_eq!(hash(&mut ports, 1001, 2001), of_addresses);
    let one_port = words(8, &PORTS[1..]);
    assert_eq!(update(&mut ports[1].client, &[(WORDS, &one_port)]), 0);
    let of_port = hash(&mut ports, 1000, 2000);
    assert_eq!(hash(&mut ports, 1001, 2000), of_port);
    assert_ne!(hash(&mut ports, 1001, 2001), of_port);
    // Removed, one after another.
    let never = a_match(3, 5, 0x2001, 8, true);
    assert_eq!(update(&mut ports[1].client, &[(MATCHES, &never)]), 0);
    assert_eq!(hash(&mut ports, 1000, 2000), all);
    let never = a_match(9, 5, 0x2001, 7, true);
    assert_eq!(update(&mut ports[1].client, &[(MATCHES, &never)]), 0);
    assert_eq!(hash(&mut ports, 1000, 2000), None);
}

/// The settings of an earlier driver do not apply to the next one `[inf hash_reset]`.
#[test]
fn profiles_go_with_the_function() {
    let mut ports = spreading();
    let vsi = ports[1].vsi;
    let set: &[(u32, &[u8])] = &[
        (WORDS, &words(7, &ADDRESSES)),
        (MATCHES, &a_match(9, 5, 0x2001, 7, false)),
        (TYPES, &table(TCP4, &[5])),
        (VSIS, &table(vsi, &0x2001_u16.to_le_bytes())),
    ];
    assert_eq!(update(&mut ports[1].client, set), 0);
    assert!(hash(&mut ports, 1, 2).is_some());
    let sim = ports[0].client.sim.clone();
    ports[1].client.nic.function_level_reset();
    ports[1] = Port::new(&sim, 1, &properties(), RxContext::default());
    sim.run(Ns::from_ms(3_000));
    spread(&mut ports[1]);
    assert_eq!(ports[1].vsi, vsi);
    assert_eq!(hash(&mut ports, 1, 2), None);
    // Its entry in the match table is gone too.
    let set: &[(u32, &[u8])] = &[(VSIS, &table(vsi, &0x2001_u16.to_le_bytes()))];
    assert_eq!(update(&mut ports[1].client, set), 0);
    assert_eq!(hash(&mut ports, 1, 2), None);
}

/// The Ethernet address, half of an IP address, an index beyond the table.
#[test]
fn a_hash_of_what_is_not_modelled_is_refused() {
    let mut ports = spreading();
    let vsi = ports[1].vsi;
    let types = table(TCP4, &[5]);
    let vsis = table(vsi, &1_u16.to_le_bytes());
    let matches = a_match(0, 5, 1, 7, false);
    for fields in [&[(1, 0)][..], &ADDRESSES[..1]] {
        let set: &[(u32, &[u8])] = &[
            (WORDS, &words(7, fields)),
            (MATCHES, &matches),
            (TYPES, &types),
            (VSIS, &vsis),
        ];
        let code = update(&mut ports[1].client, set);
        assert_eq!(code, u16::from(AqCode::EINVAL.0), "{fields:?}");
    }
    assert!(hash(&mut ports, 1, 2).is_some(), "nothing of it is done");
    // A profile for packets that have no hash here, like Linux' for tunnels.
    let tunnel = a_match(0, 9, 1, 7, false);
    let set: &[(u32, &[u8])] = &[(WORDS, &words(7, &[(43, 4)])), (MATCHES, &tunnel)];
    assert_eq!(update(&mut ports[1].client, set), 0);
    for (kind, data) in [
        (TYPES, table(8192, &[1])),
        (VSIS, table(1024, &[1, 0])),
        (MATCHES, a_match(512, 1, 1, 1, false)),
        (WORDS, words(128, &ADDRESSES)),
    ] {
        let code = update(&mut ports[1].client, &[(kind, &data)]);
        assert_eq!(code, u16::from(AqCode::EINVAL.0), "{kind}");
    }
}

/// A rule of `kind` that drops an Ethertype.
fn drop_rule(kind: u8, vsi: u16, ethertype: [u8; 2]) -> [u8; 32] {
    let mut rule = mac_rule(vsi, [0; 6]);
    (rule[0], rule[4]) = (kind, 0);
    rule[8..12].copy_from_slice(&(1_u32 << 17 | 1 << 18).to_le_bytes());
    rule[28..30].copy_from_slice(&ethertype);
    rule
}

/// Linux prevents its network stack from sending LLDP frames and pause frames.
#[test]
fn what_a_rule_drops_is_not_sent() {
    const UPLINK: [u64; 2] = [0, 1 | 1 << 8];
    let mut props = properties();
    // ALLOW_DEST_OVRD.
    props[6] = 1;
    let (_, mut ports) = Port::pair(&props, RxContext::default());
    let [a, b] = [0, 1].map(|index: usize| ports[index].client.nic.mac());
    let vsi = ports[0].vsi;
    // The Ethertype that `frame` has.
    let rule = drop_rule(1, vsi, [0x88, 0xb5]);
    let index = ports[0].client.tell(0x02a0, params(&ONE), &rule).ok();
    ports[0].send(&frame(b, a, 100), 0, None);
    assert_eq!(ports[1].received(), []);
    let mut other = frame(b, a, 100);
    other[13] = 0xb6;
    ports[0].send(&other, 0, None);
    assert_eq!(ports[1].received().len(), 1, "another type");
    ports[0].send(&frame(b, a, 100), 0, Some(UPLINK));
    assert_eq!(ports[1].received().len(), 1, "past the switch");
    ports[1].send(&frame(a, b, 100), 0, None);
    assert_eq!(ports[0].received().len(), 1, "another function's");
    let mut remove = [0; 16];
    remove[0] = 1;
    remove[12..14].copy_from_slice(&index.data16(12).to_le_bytes());
    ports[0].client.tell(0x02a2, params(&ONE), &remove).ok();
    ports[0].send(&frame(b, a, 100), 0, None);
    assert_eq!(ports[1].received().len(), 1);
}

#[test]
fn a_drop_that_is_not_carried_out_is_refused() {
    let mut client = Client::new();
    let vsi = client.add_vsi();
    for kind in [0, 1] {
        for engines in [[0x08, 0], [0x86, 0xdd], [0x81, 0]] {
            let rule = drop_rule(kind, vsi, engines);
            let reply = client.tell(0x02a0, params(&ONE), &rule);
            reply.refused(AqCode::EINVAL);
        }
        let mut by_address = drop_rule(kind, vsi, [0x88, 0xcc]);
        by_address[4] = 1;
        let reply = client.tell(0x02a0, params(&ONE), &by_address);
        reply.refused(AqCode::EINVAL);
    }
}

/// A profile in use is changed to an unmodelled one, packets get such a profile, and a section
/// claims more entries than it has.
#[test]
fn a_later_change_to_what_is_not_done_is_refused() {
    let mut ports = spreading();
    let vsi = ports[1].vsi;
    let set: &[(u32, &[u8])] = &[
        (WORDS, &words(7, &ADDRESSES)),
        (WORDS, &words(8, &[(43, 4)])),
        (MATCHES, &a_match(9, 5, 0x2001, 7, false)),
        (MATCHES, &a_match(10, 9, 0x2001, 8, false)),
        (TYPES, &table(TCP4, &[5])),
        (VSIS, &table(vsi, &0x2001_u16.to_le_bytes())),
    ];
    assert_eq!(update(&mut ports[1].client, set), 0);
    let before = hash(&mut ports, 1, 2);
    assert!(before.is_some());
    for (kind, section) in [
        (WORDS, words(7, &[(1, 0)])),
        (TYPES, table(TCP4, &[9])),
        (TYPES, vec![0, 0x20, 0, 0]),
        (VSIS, vec![2, 0, 0, 0, 1, 0]),
        (WORDS, vec![1, 0, 7, 0]),
        (MATCHES, vec![5, 0, 1, 0, 1, 2, 3]),
    ] {
        let code = update(&mut ports[1].client, &[(kind, &section)]);
        assert_eq!(code, u16::from(AqCode::EINVAL.0), "{kind} {section:?}");
        assert_eq!(hash(&mut ports, 1, 2), before);
    }
}
