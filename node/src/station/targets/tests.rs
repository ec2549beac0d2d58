//! Destinations in virtual time, on the test's link: which of them have places, and for how long.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, sync_channel};

use e810_net::{Full, Port};

use super::super::Network;
use super::*;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const LIMIT: Ns = Ns::from_secs(3);
/// Places for neighbours.
const ROOM: usize = 64;

/// Answers each ARP request, except for an address whose last byte is odd.
#[derive(Default)]
pub(in crate::station) struct Answering {
    replies: VecDeque<Vec<u8>>,
    /// Requests for addresses that do not answer.
    pub(in crate::station) unanswered: usize,
}

/// The Ethernet address at which an IPv4 address answers.
pub(in crate::station) fn mac_of(ip: [u8; 4]) -> MacAddr {
    let [a, b, c, d] = ip;
    MacAddr([2, 9, a, b, c, d])
}

/// The answer to a frame, if that is an ARP request that does not ask for the sender's own address.
pub(in crate::station) fn arp_answer(frame: &[u8]) -> Option<([u8; 4], Vec<u8>)> {
    let request = frame.get(..42)?;
    let target: [u8; 4] = request[38..42].try_into().ok()?;
    let is_question = request[12..14] == [8, 6] && request[20..22] == [0, 1];
    if !is_question || request[28..32] == target || request[28..32] == [0; 4] {
        return None;
    }
    let mac = mac_of(target).0;
    let asker = &request[22..32];
    let header = [&asker[..6], &mac, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]].concat();
    let mut reply = [&header[..], &mac, &target, asker].concat();
    reply.resize(60, 0);
    Some((target, reply))
}

impl Port for Answering {
    fn receive(&mut self, into: &mut [u8]) -> Option<usize> {
        let frame = self.replies.pop_front()?;
        into[..frame.len()].copy_from_slice(&frame);
        Some(frame.len())
    }

    fn transmit(&mut self, frame: &[u8]) -> Result<(), Full> {
        match arp_answer(frame) {
            Some(([.., last], _)) if last % 2 == 1 => self.unanswered += 1,
            Some((_, reply)) => self.replies.push_back(reply),
            None => {}
        }
        Ok(())
    }
}

struct Bench {
    targets: Targets,
    interface: Box<StationInterface>,
    port: Answering,
    now: Ns,
}

type Answered = Receiver<Result<Neighbour, Unresolved>>;

impl Bench {
    fn new(network: &Network) -> Self {
        let (interface, refused) = network.interface(MAC, 1500, Ns::ZERO);
        assert_eq!(refused, []);
        Self {
            targets: Targets::new(network.resolve_limit),
            interface,
            port: Answering::default(),
            now: Ns::ZERO,
        }
    }

    fn ask(&mut self, destination: IpAddr) -> Answered {
        let (answer, answered) = sync_channel(1);
        self.targets.ask(destination, answer, self.now);
        answered
    }

    fn follow(&mut self, added: &[IpAddr], gone: &[IpAddr]) {
        let interface = &mut self.interface;
        self.targets.follow(added, gone, interface, self.now);
    }

    /// One turn of the thread; then some time passes.
    fn turn(&mut self, time: Ns) {
        while self.interface.poll(self.now, &mut self.port) {}
        self.targets.progress(&mut self.interface, self.now);
        self.now = self.now + time;
    }

    fn turns(&mut self, number: usize) {
        for _ in 0..number {
            self.turn(Ns::from_ms(1));
        }
    }

    fn pass(&mut self, time: Ns) {
        let end = self.now + time;
        while self.now < end {
            self.turn(Ns::from_ms(50));
        }
        self.turns(3);
    }
}

fn small() -> Network {
    Network {
        addresses: vec!["10.0.0.1/8".parse().unwrap()],
        gateways: vec![ip("10.255.0.254")],
        neighbours: ROOM,
        resolve_limit: LIMIT,
        ..Network::default()
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The n-th address that answers, and the n-th that does not.
fn there(n: u32) -> IpAddr {
    IpAddr::from((0x0A01_0000 + 2 * n).to_be_bytes())
}

fn silent(n: u32) -> IpAddr {
    IpAddr::from((0x0A02_0001 + 2 * n).to_be_bytes())
}

fn watched(bench: &Bench) -> usize {
    let neighbours = bench.interface.neighbours();
    neighbours.filter(|neighbour| neighbour.users > 0).count()
}

#[test]
fn questions_without_an_answer_leave_room() {
    let mut bench = Bench::new(&small());
    for round in 0..3000 / ROOM as u32 {
        let asked = (0..ROOM as u32).map(|n| silent(round * 64 + n));
        let asked: Vec<_> = asked.map(|ip| (ip, bench.ask(ip))).collect();
        bench.turn(Ns::from_ms(1));
        assert_eq!(watched(&bench), ROOM);
        bench.pass(LIMIT);
        for (destination, answered) in asked {
            let no_answer = Unresolved::NoAnswer {
                destination,
                via: destination,
                limit: LIMIT,
            };
            assert_eq!(answered.try_recv().unwrap(), Err(no_answer), "{round}");
        }
        assert_eq!((bench.targets.len(), watched(&bench)), (0, 0));
    }
    let before = bench.port.unanswered;
    bench.pass(Ns::from_secs(100));
    assert_eq!(
        bench.port.unanswered, before,
        "nobody asks for them any more"
    );
    let answered = bench.ask(there(1));
    bench.turns(3);
    assert!(answered.try_recv().unwrap().is_ok());
}

#[test]
fn destinations_come_and_go_without_end() {
    let mut bench = Bench::new(&small());
    for n in 0..3000 {
        let answered = bench.ask(there(n));
        bench.turns(3);
        let found = answered.try_recv().unwrap().unwrap();
        assert_eq!(found.via, there(n));
        // Every other one has a path, for a while.
        if n % 2 == 0 {
            bench.follow(&[there(n)], &[]);
            assert_eq!(bench.targets.macs(&bench.interface).len(), 1);
            bench.follow(&[], &[there(n)]);
        }
        assert!(bench.targets.len() <= ROOM, "{n}");
    }
    bench.pass(Ns::from_secs(6));
    assert_eq!((bench.targets.len(), watched(&bench)), (0, 0));
}

#[test]
fn paths_fill_the_table_and_it_says_so() {
    let mut bench = Bench::new(&small());
    let all: Vec<_> = (0..ROOM as u32).map(there).collect();
    bench.follow(&all, &[]);
    bench.turns(5);
    assert_eq!(bench.targets.macs(&bench.interface).len(), ROOM);
    let answered = bench.ask(there(1000));
    bench.turn(Ns::from_ms(1));
    let refused = answered.try_recv().unwrap().unwrap_err();
    let destination = there(1000);
    let no_room = Unresolved::NoRoom {
        destination,
        neighbours: ROOM,
    };
    assert_eq!(refused, no_room);
    assert!(
        refused
            .to_string()
            .contains("the table of neighbours is full")
    );
    // A known one is still found, and after a place was freed the other one, too.
    let answered = [bench.ask(there(7)), {
        bench.follow(&[], &[there(8)]);
        bench.ask(destination)
    }];
    bench.turns(3);
    for answered in answered {
        assert!(answered.try_recv().unwrap().is_ok());
    }
    // A day later it is the same.
    bench.now = bench.now + Ns::from_secs(86_400);
    bench.turns(20);
    assert_eq!(bench.targets.macs(&bench.interface).len(), ROOM - 1);
}

#[test]
fn many_destinations_behind_a_gateway_have_one_place() {
    let mut bench = Bench::new(&small());
    let far: Vec<IpAddr> = (0..1000_u32)
        .map(|n| (0xC633_0000 + n).to_be_bytes().into())
        .collect();
    bench.follow(&far, &[]);
    bench.turns(3);
    assert_eq!(watched(&bench), 1);
    let macs = bench.targets.macs(&bench.interface);
    let gateway = mac_of([10, 255, 0, 254]);
    assert_eq!(macs.len(), 1000);
    assert!(macs.values().all(|mac| *mac == gateway));
    bench.follow(&[], &far);
    assert_eq!((bench.targets.len(), watched(&bench)), (0, 0));
}

#[test]
fn a_peer_that_is_back_is_found_at_once() {
    let mut bench = Bench::new(&small());
    // Paths go there, and it has not answered for an hour.
    bench.follow(&[silent(1)], &[]);
    bench.pass(Ns::from_secs(3600));
    let before = bench.port.unanswered;
    let answered = bench.ask(silent(1));
    bench.turns(3);
    assert_eq!(bench.port.unanswered, before + 1, "asked again");
    bench.pass(LIMIT);
    assert!(answered.try_recv().unwrap().is_err());
    // The paths go on.
    assert_eq!(watched(&bench), 1);
}

/// The end of a question takes no place from another one about the same destination.
#[test]
fn a_later_question_keeps_the_place_of_an_earlier_one() {
    // Not a multiple of the second after which it is asked again.
    let limit = Ns::from_ms(2_500);
    let mut bench = Bench::new(&Network {
        resolve_limit: limit,
        ..small()
    });
    let first = bench.ask(silent(1));
    bench.pass(Ns::from_secs(2));
    let second = bench.ask(silent(1));
    let mut before = 0;
    while first.try_recv().is_err() {
        before = bench.port.unanswered;
        bench.turns(1);
    }
    bench.turns(3);
    assert_eq!(bench.port.unanswered, before, "asked anew");
    bench.pass(limit);
    assert!(second.try_recv().unwrap().is_err());
    assert_eq!((bench.targets.len(), watched(&bench)), (0, 0));
}

/// The outcomes of a question as time goes on.
#[test]
fn a_question_has_an_end() {
    let network = Network {
        addresses: vec!["10.0.0.1/8".parse().unwrap()],
        gateways: vec![ip("10.0.0.253")],
        ..small()
    };
    let mut bench = Bench::new(&network);
    let limit = network.resolve_limit;
    let no_answer = |destination: &str, via: &str| {
        Err(Unresolved::NoAnswer {
            destination: ip(destination),
            via: ip(via),
            limit,
        })
    };
    // The link-local address cannot be used yet.
    let early = bench.ask(ip("fe80::1"));
    let answered = ["10.0.0.9", "203.0.113.1", "2001:db8::1"].map(|to| bench.ask(ip(to)));
    bench.turn(Ns::from_ms(1));
    // At once.
    let destination = ip("2001:db8::1");
    let no_route = Err(Unresolved::NoRoute { destination });
    assert_eq!(answered[2].try_recv().unwrap(), no_route);
    assert!(answered[0].try_recv().is_err(), "it is being found out");
    bench.pass(LIMIT);
    assert_eq!(
        answered[0].try_recv().unwrap(),
        no_answer("10.0.0.9", "10.0.0.9")
    );
    assert_eq!(
        answered[1].try_recv().unwrap(),
        no_answer("203.0.113.1", "10.0.0.253")
    );
    assert!(early.try_recv().unwrap().is_err());
    assert_eq!(bench.targets.len(), 0);
}
