use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use e810::{Control, EventSet, GidEntry, LanInit, LinkPolicy, MacAddr, Path};
use e810_hal::Clock as _;
use e810_net::{Claim, Config, Interface, Ns, Ping};
use e810_sim::pe::CqpErrors;
use e810_sim::{Mode, Profile, Sim, SimPlatform};

mod peers;

use super::worker::Frames;
use super::*;
use crate::neighbours::NeighbourTracker;
use crate::simulated;
use crate::start::Sizes;

const OWN: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
/// The neighbour's later address.
const MOVED: MacAddr = MacAddr([2, 0xAB, 0, 0, 0, 7]);

type Up = (Control<SimPlatform>, EventSet<SimPlatform>);

fn sim() -> Sim {
    let builder = Sim::builder().functions(2).mode(Mode::Real);
    builder.profile(Profile::small()).cold().build()
}

fn up(sim: &Sim, function: u8) -> Up {
    up_for(sim, function, e810::hmc::Capacity::DEFAULT)
}

fn up_for(sim: &Sim, function: u8, capacity: e810::hmc::Capacity) -> Up {
    let nic = sim.function(function);
    let start = simulated::start(&nic, 1500);
    let sizes = Sizes {
        capacity,
        ..Sizes::default()
    };
    let policy = LinkPolicy::GoOn;
    let device = start.bring_up_for(nic, sizes, policy, &mut |_| {}).unwrap();
    device.split()
}

fn network(function: usize) -> Network {
    Network {
        addresses: vec![format!("{}/24", OWN[function]).parse().unwrap()],
        ..Network::default()
    }
}

fn end((control, events): Up) {
    let ended = control.shutdown(events);
    ended.map_err(|failed| failed.error).unwrap();
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn two_stations_resolve_and_answer_each_other() {
    let sim = sim();
    let mut both = [0, 1].map(|function| up(&sim, function));
    for (control, _) in &mut both {
        control.wait_link(Ns::from_ms(5_000)).unwrap();
    }
    let stations = [0, 1].map(|function: usize| {
        let nic = sim.function(function as u8);
        let control = &mut both[function].0;
        Station::start(nic, control, &network(function), Pace::Quick).unwrap()
    });
    let there = both[1].0.lan().mac;
    let neighbour = stations[0].resolve(ip(OWN[1]), &|| Ok(())).unwrap();
    assert_eq!((neighbour.via, neighbour.mac), (ip(OWN[1]), there));
    let link_local = e810_net::link_local(there).into();
    for (seq, to) in [(1, ip(OWN[1])), (2, link_local)] {
        stations[0].ping(Ping {
            ip: to,
            ident: 7,
            seq,
            length: 100,
        });
        let found =
            |event| matches!(event, StationEvent::Echo { seq: of, length: 100, .. } if of == seq);
        heard(&stations[0], found);
    }
    let error = stations[0].resolve(ip("203.0.113.1"), &|| Ok(()));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("--gateway"), "{error}");
    let stopped = stations[0].resolve(ip("192.0.2.99"), &|| Err(anyhow!("enough")));
    assert_eq!(stopped.unwrap_err().to_string(), "enough");
    for (station, (control, _)) in stations.into_iter().zip(&mut both) {
        station.close(control).unwrap();
    }
    both.into_iter().for_each(end);
    assert_eq!(sim.findings(), []);
}

fn heard(station: &Station<SimPlatform>, mut is_it: impl FnMut(StationEvent) -> bool) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(300) {
        if station
            .wait_event(Duration::from_millis(20))
            .is_some_and(&mut is_it)
        {
            return;
        }
    }
    panic!("not heard within the time");
}

/// The interface of a station with the second address, on a port of the test.
fn claim(mac: MacAddr, now: Ns) -> Interface {
    let mut interface = Interface::new(Config::new(mac), now);
    let address = OWN[1].parse().unwrap();
    let added = interface.add_ipv4(address, 24, Claim::Announced, now);
    added.unwrap();
    interface
}

/// At first the device refuses to move them, and the neighbour sends nothing more afterwards.
#[test]
fn paths_follow_a_neighbour_that_moves() {
    let sim = sim();
    let [mut own, mut other] = [0, 1].map(|function| up(&sim, function));
    for (control, _) in [&mut own, &mut other] {
        control.wait_link(Ns::from_ms(5_000)).unwrap();
    }
    let (nic, there) = (sim.function(1), other.0.lan().mac);
    let mut port = Frames(other.0.open_lan(&LanInit::default()).unwrap());
    let control = &mut own.0;
    let station = Station::start(sim.function(0), control, &network(0), Pace::Calm).unwrap();
    let mut neighbours = NeighbourTracker::new(station);
    let sgid = control.add_gid(GidEntry::untagged(ip(OWN[0]))).unwrap();
    let pd = control.alloc_pd().unwrap();
    let path = Path::new(sgid, ip(OWN[1]), there);
    let ah = control.create_ah(&pd, &path).unwrap();
    let found = neighbours.follow_on_link(ip(OWN[1]), there, &|| Ok(()));
    assert_eq!(found.unwrap(), there);

    const MANAGE_ARP: u8 = 0x0f;
    let refuse = |which| sim.configure_engine(0, |config| config.cqp_errors = which);
    refuse(CqpErrors::Opcode(MANAGE_ARP));
    let now = || Ns(nic.now().0);
    let mut interface = claim(there, now());
    let start = Instant::now();
    let (mut moved, mut was_refused) = (0, false);
    while moved == 0 {
        assert!(
            start.elapsed() < Duration::from_secs(300),
            "it did not follow"
        );
        if !was_refused {
            interface.poll(now(), &mut port);
        }
        // It announces another address after it was known for longer than a second: before that, an
        // announcement that nobody has asked for is not believed.
        if start.elapsed() > Duration::from_secs(2) && interface.mac().0 == there.0 {
            interface = claim(MOVED, now());
        }
        neighbours.progress(control).unwrap();
        if neighbours.tries_again() && !was_refused {
            was_refused = true;
            assert!(control.neighbours().any(|path| path == (ip(OWN[1]), there)));
            refuse(CqpErrors::None);
        }
        // It is moved back here only if it has moved.
        moved = control.move_neighbour(ip(OWN[1]), MOVED, there).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!((moved, interface.mac().0), (1, MOVED.0));
    assert!(was_refused);
    control.destroy_ah(ah).map_err(|(_, error)| error).unwrap();
    control.dealloc_pd(pd).map_err(|(_, error)| error).unwrap();
    neighbours.close(control).unwrap();
    let closed = other.0.close_lan(port.0);
    closed.map_err(|(_, error)| error).unwrap();
    [own, other].into_iter().for_each(end);
    assert_eq!(sim.findings(), []);
}

/// A flood delays neither the thread's commands nor its end.
#[test]
fn a_flood_does_not_keep_a_station_from_its_end() {
    let sim = sim();
    let [mut own, mut other] = [0, 1].map(|function| up(&sim, function));
    for (control, _) in [&mut own, &mut other] {
        control.wait_link(Ns::from_ms(5_000)).unwrap();
    }
    let mut port = other.0.open_lan(&LanInit::default()).unwrap();
    let control = &mut own.0;
    let station = Station::start(sim.function(0), control, &network(0), Pace::Calm).unwrap();
    let is_over = AtomicBool::new(false);
    let order = Ordering::Relaxed;
    thread::scope(|scope| {
        scope.spawn(|| {
            let frame = [0xFF; 60];
            while !is_over.load(order) {
                // Frames that find no room do not matter.
                let _ = port.transmit(&frame);
            }
        });
        thread::sleep(Duration::from_millis(100));
        // While the flood goes on, which ends after these. Our own address needs no neighbour.
        let neighbour = station.resolve(ip(OWN[0]), &|| Ok(())).unwrap();
        assert_eq!(neighbour.via, ip(OWN[0]));
        station.close(control).unwrap();
        is_over.store(true, order);
    });
    let closed = other.0.close_lan(port);
    closed.map_err(|(_, error)| error).unwrap();
    [own, other].into_iter().for_each(end);
}
