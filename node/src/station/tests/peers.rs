//! Paths to many peers, and to peers that move: in every order of events, and thousands of them.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use e810::hmc::Capacity;
use e810::{Ah, Error, Object, Pd};
use e810_hal::errno::ENOBUFS;
use e810_net::Port as _;
use e810_sim::PortLink;

use super::super::targets::tests::{arp_answer, mac_of};
use super::*;

/// A function with a station, and the one at the other end of its link.
struct Peers {
    sim: Sim,
    own: Up,
    other: Up,
    neighbours: NeighbourTracker<SimPlatform>,
    pd: Pd,
    sgid: u8,
}

/// For a program whose paths are all followed; with the LAN port at the other end.
fn peers(sim: Sim, capacity: Capacity, network: &Network) -> (Peers, Frames<SimPlatform>) {
    let mut own = up_for(&sim, 0, capacity);
    let mut other = up(&sim, 1);
    for (control, _) in [&mut own, &mut other] {
        control.wait_link(Ns::from_ms(5_000)).unwrap();
    }
    let port = Frames(other.0.open_lan(&crate::lan_init(1500)).unwrap());
    let control = &mut own.0;
    let station = Station::start(sim.function(0), control, network, Pace::Calm).unwrap();
    let neighbours = NeighbourTracker::new(station).following_all();
    let sgid = network.addresses[0].ip;
    let sgid = control.add_gid(GidEntry::untagged(sgid)).unwrap();
    let pd = control.alloc_pd().unwrap();
    let peers = Peers {
        sim,
        own,
        other,
        neighbours,
        pd,
        sgid,
    };
    (peers, port)
}

impl Peers {
    fn path(&mut self, destination: IpAddr, mac: MacAddr) -> Result<Ah, Error> {
        let path = Path::new(self.sgid, destination, mac);
        self.own.0.create_ah(&self.pd, &path)
    }

    fn destroy(&mut self, ah: Ah) {
        let destroyed = self.own.0.destroy_ah(ah);
        destroyed.map_err(|(_, error)| error).unwrap();
    }

    /// Where paths to a destination go.
    fn goes(&self, destination: IpAddr) -> Vec<MacAddr> {
        let paths = self.own.0.neighbours();
        paths
            .filter(|(ip, _)| *ip == destination)
            .map(|(_, mac)| mac)
            .collect()
    }

    fn progress(&mut self) {
        self.neighbours.progress(&mut self.own.0).unwrap();
    }

    fn end(self, port: Frames<SimPlatform>) {
        let Self {
            sim,
            mut own,
            mut other,
            neighbours,
            pd,
            ..
        } = self;
        own.0.dealloc_pd(pd).map_err(|(_, error)| error).unwrap();
        neighbours.close(&mut own.0).unwrap();
        let closed = other.0.close_lan(port.0);
        closed.map_err(|(_, error)| error).unwrap();
        [own, other].into_iter().for_each(end);
        assert_eq!(sim.findings(), []);
    }
}

/// Does `turn` until `is_done`; the limit guards against a hang.
fn until(what: &str, mut turn: impl FnMut(), mut is_done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < Duration::from_secs(300), "{what}: never");
        turn();
        thread::sleep(Duration::from_millis(1));
    }
}

/// A path, one made during the move, and one made after it with the old answer: all go to where the
/// neighbour is.
#[test]
fn paths_follow_a_neighbour_in_every_order_of_events() {
    let (peers, port) = peers(sim(), Capacity::DEFAULT, &network(0));
    let (peers, port) = (RefCell::new(peers), RefCell::new(port));
    let there = peers.borrow().other.0.lan().mac;
    let nic = peers.borrow().sim.function(1);
    let now = || Ns(nic.now().0);
    let interface = RefCell::new(claim(there, now()));
    let poll = || {
        interface.borrow_mut().poll(now(), &mut *port.borrow_mut());
    };
    let idle = || {
        poll();
        Ok(())
    };
    let find = || {
        let mut peers = peers.borrow_mut();
        peers.neighbours.resolve(ip(OWN[1]), &idle).unwrap()
    };
    let begin = Instant::now();
    assert_eq!(find(), there);
    let first = peers.borrow_mut().path(ip(OWN[1]), there).unwrap();
    peers.borrow_mut().progress();
    // An announcement that nobody has asked for is not believed in the first second.
    until("a second", poll, || {
        begin.elapsed() > Duration::from_millis(1500)
    });
    interface.replace(claim(MOVED, now()));
    // Somebody asks for it before the program has processed the move.
    until("the move", poll, || find() == MOVED);
    until("the first path", poll, || {
        peers.borrow_mut().progress();
        peers.borrow().goes(ip(OWN[1])) == [MOVED]
    });
    // A path whose address was found before the move was processed, and that is made after it.
    let late = peers.borrow_mut().path(ip(OWN[1]), there).unwrap();
    until("the late path", poll, || {
        peers.borrow_mut().progress();
        peers.borrow().goes(ip(OWN[1])) == [MOVED; 2]
    });
    // The last path goes, and a new one comes that was not resolved here: it is followed, too.
    for ah in [first, late] {
        peers.borrow_mut().destroy(ah);
    }
    peers.borrow_mut().progress();
    let again = peers.borrow_mut().path(ip(OWN[1]), there).unwrap();
    until("the path after that", poll, || {
        peers.borrow_mut().progress();
        peers.borrow().goes(ip(OWN[1])) == [MOVED]
    });
    let mut peers = peers.into_inner();
    peers.destroy(again);
    peers.end(port.into_inner());
}

/// Answers for every IPv4 address except those that end with 255, and sends the frames that it is
/// given, until the channel is closed.
fn answer_for_all(mut port: Frames<SimPlatform>, send: &Receiver<Vec<u8>>) -> Frames<SimPlatform> {
    let mut frame = [0; 2048];
    loop {
        match send.try_recv() {
            Ok(frame) => {
                // A frame that finds no room is sent again.
                let _ = port.transmit(&frame);
            }
            Err(TryRecvError::Disconnected) => return port,
            Err(TryRecvError::Empty) => {}
        }
        let Some(length) = port.receive(&mut frame) else {
            thread::sleep(Duration::from_micros(200));
            continue;
        };
        if let Some(([.., last], reply)) = arp_answer(&frame[..length])
            && last != 255
        {
            while port.transmit(&reply).is_err() {
                thread::sleep(Duration::from_micros(200));
            }
        }
    }
}

/// An announcement that an IPv4 address is at an Ethernet address.
fn announcement(ip: [u8; 4], mac: MacAddr) -> Vec<u8> {
    let header = [&[0xFF; 6], &mac.0[..], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]].concat();
    let mut frame = [&header[..], &mac.0, &ip, &[0xFF; 6], &ip].concat();
    frame.resize(60, 0);
    frame
}

/// Destinations that are resolved at a time.
const AT_ONCE: usize = 200;

impl Peers {
    /// Finds them all, and makes a path to each.
    fn reach(&mut self, destinations: &[[u8; 4]]) -> Vec<Ah> {
        let mut made = Vec::new();
        for some in destinations.chunks(AT_ONCE) {
            let pending: Vec<_> = some
                .iter()
                .map(|ip| self.neighbours.begin_resolve(IpAddr::from(*ip)))
                .collect();
            for (ip, pending) in some.iter().zip(pending) {
                let found = pending.wait(&|| Ok(())).unwrap();
                assert_eq!((found.via, found.mac), ((*ip).into(), mac_of(*ip)));
                made.push(self.path((*ip).into(), found.mac).unwrap());
            }
            self.progress();
        }
        made
    }
}

/// Four thousand peers at a time, then as many as the card's ARP table has room for, until it is
/// full; a peer among them that moves; and three thousand that come and go beside them.
#[test]
fn thousands_of_peers_are_found_and_followed() {
    const PEERS: usize = 4000;
    const ENTRIES: usize = 4095;
    let ip = |n: usize| [10, 64, (n / 250) as u8, (n % 250 + 1) as u8];
    let network = Network {
        addresses: vec!["10.0.0.1/8".parse().unwrap()],
        neighbours: ENTRIES + 1,
        ..Network::default()
    };
    let capacity = Capacity {
        arps: ENTRIES as u32 + 1,
        ahs: ENTRIES as u32 + 2,
        ..Capacity::DEFAULT
    };
    let sim = Sim::builder().functions(2).mode(Mode::Real);
    let sim = sim.profile(Profile::card()).cold().build();
    let (mut peers, port) = peers(sim, capacity, &network);
    let (give, take) = channel();
    let answering = thread::spawn(move || answer_for_all(port, &take));

    let all: Vec<_> = (0..PEERS).map(ip).collect();
    let mut made = peers.reach(&all);
    // They come and go; those that do not answer take no place from those that do.
    for round in 0..15 {
        let come: Vec<_> = (0..AT_ONCE)
            .map(|n| ip(PEERS + 95 + round * AT_ONCE + n))
            .collect();
        let silent = [10, 65, round as u8, 255];
        let question = peers.neighbours.begin_resolve(IpAddr::from(silent));
        // With the 15 that do not answer there are 4095.
        for some in come.chunks(80) {
            for ah in peers.reach(some) {
                peers.destroy(ah);
            }
            peers.progress();
        }
        drop(question);
    }
    // The last of the 4,000 moves.
    let moved = all[PEERS - 1];
    let peers = RefCell::new(peers);
    until(
        "the move",
        || {
            // For a second after an answer the station accepts no other address for an IP.
            give.send(announcement(moved, MOVED)).unwrap();
            peers.borrow_mut().progress();
        },
        || peers.borrow().goes(moved.into()) == [MOVED],
    );
    let mut peers = peers.into_inner();
    assert_eq!(peers.goes(all[0].into()), [mac_of(all[0])]);

    // The card's table is full at its limit, and has room again when a path goes.
    for n in PEERS..ENTRIES {
        made.push(peers.path(ip(n).into(), mac_of(ip(n))).unwrap());
    }
    let more = ip(ENTRIES);
    let full = peers.path(more.into(), mac_of(more)).unwrap_err();
    let exhausted = Error::Exhausted {
        object: Object::Arp,
        limit: ENTRIES as u32,
    };
    assert_eq!((full, full.errno()), (exhausted, ENOBUFS));
    peers.destroy(made.pop().unwrap());
    made.push(peers.path(more.into(), mac_of(more)).unwrap());
    for ah in made {
        peers.destroy(ah);
    }
    peers.progress();
    assert_eq!(peers.own.0.neighbours().count(), 0);
    drop(give);
    peers.end(answering.join().unwrap());
}

/// A cable that was moved from another switch: the function announces its addresses again.
#[test]
fn a_link_that_is_back_is_announced_to() {
    let (mut peers, mut port) = peers(sim(), Capacity::DEFAULT, &network(0));
    let mut frame = [0; 2048];
    let own: [u8; 4] = [192, 0, 2, 1];
    let is_announcement =
        |frame: &[u8]| frame[12..14] == [8, 6] && frame[28..32] == own && frame[38..42] == own;
    let mut heard = |port: &mut Frames<SimPlatform>| {
        let length = port.receive(&mut frame);
        length.is_some_and(|length| is_announcement(&frame[..length]))
    };
    // The announcements of the start are over.
    let mut count = 0;
    let begin = Instant::now();
    while count < 2 || begin.elapsed() < Duration::from_secs(3) {
        assert!(begin.elapsed() < Duration::from_secs(300), "{count} heard");
        count += usize::from(heard(&mut port));
        peers.progress();
    }
    for link in [PortLink::Down, PortLink::Up] {
        peers.sim.configure_firmware(0, |config| config.link = link);
        let state = match link {
            PortLink::Down => PortState::Down,
            _ => PortState::Active,
        };
        let begin = Instant::now();
        while peers.own.0.query_port(1).unwrap().state != state {
            assert!(
                begin.elapsed() < Duration::from_secs(300),
                "never {state:?}"
            );
            peers.own.0.progress().unwrap();
            peers.progress();
        }
        peers.progress();
    }
    let begin = Instant::now();
    while !heard(&mut port) {
        assert!(begin.elapsed() < Duration::from_secs(300), "not announced");
        thread::sleep(Duration::from_millis(1));
    }
    peers.end(port);
}
