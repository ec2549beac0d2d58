//! Addresses answered and resolved over LAN ports: `e810-net` on both ends of the wire.

use std::net::{IpAddr, Ipv4Addr};

use e810::{Control, EventSet, LanInit, LanPort};
use e810_hal::Clock;
use e810_net::{
    AddressState, Claim, Config, Event, Full, Interface, Port, Resolution, link_local,
    multicast_mac,
};
use e810_sim::{Sim, SimPlatform};

use crate::cold::world::{assert_as_found, builder, up};

/// A port as the interface uses it.
struct Frames(LanPort<SimPlatform>);

impl Port for Frames {
    fn receive(&mut self, into: &mut [u8]) -> Option<usize> {
        self.0.receive(into)
    }

    fn transmit(&mut self, frame: &[u8]) -> Result<(), Full> {
        self.0.transmit(frame).map_err(|_| Full)
    }
}

struct Station {
    nic: SimPlatform,
    control: Control<SimPlatform>,
    events: EventSet<SimPlatform>,
    port: Frames,
    interface: Interface,
}

impl Station {
    fn new(sim: &Sim, function: u8) -> Self {
        let nic = sim.function(function);
        let (mut control, events) = up(nic.clone(), &mut |_| {}).unwrap().split();
        let port = control.open_lan(&LanInit::default()).unwrap();
        let mac = control.lan().mac;
        let now = nic.now();
        let mut interface = Interface::new(Config::new(mac), now);
        interface
            .add_ipv4(ipv4(function), 24, Claim::Probed, now)
            .unwrap();
        for group in interface.groups().collect::<Vec<_>>() {
            let mac = multicast_mac(group).unwrap();
            let _ = control.join_lan_group(&port, mac);
        }
        Self {
            nic,
            control,
            events,
            port: Frames(port),
            interface,
        }
    }

    fn poll(&mut self) {
        let now = self.nic.now();
        while self.interface.poll(now, &mut self.port) {}
    }

    fn end(mut self) {
        let closed = self.control.close_lan(self.port.0);
        closed.map_err(|(_, error)| error).unwrap();
        let ended = self.control.shutdown(self.events);
        ended.map_err(|failed| failed.error).unwrap();
    }
}

fn ipv4(function: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, 1 + function)
}

/// Lets both work until `done` answers.
fn until<T>(
    stations: &mut [Station; 2],
    what: &str,
    mut done: impl FnMut(&mut [Station; 2]) -> Option<T>,
) -> T {
    for _ in 0..400_000 {
        stations.iter_mut().for_each(Station::poll);
        if let Some(found) = done(stations) {
            return found;
        }
        stations[0].nic.relax();
    }
    panic!("{what}: not within the time");
}

/// Both claim their addresses, find each other, and answer each other's echoes, over IPv4 and over
/// IPv6; nothing is told to either.
#[test]
fn two_stations_find_and_ping_each_other() {
    let sim = builder(2).build();
    let mut stations = [0, 1].map(|function| Station::new(&sim, function));
    let macs = [0, 1].map(|at: usize| stations[at].control.lan().mac);
    for (at, other) in [(0_usize, 1_usize), (1, 0)] {
        for ip in [
            ipv4(other as u8).into(),
            IpAddr::V6(link_local(macs[other])),
        ] {
            until(&mut stations, "an address of each", |stations| {
                let has = |station: &Station| {
                    let mut addresses = station.interface.addresses();
                    addresses.any(|address| {
                        address.ip.is_ipv4() == ip.is_ipv4()
                            && address.state != AddressState::Tentative
                    })
                };
                stations.iter().all(has).then_some(())
            });
            let known = until(&mut stations, "the neighbour", |stations| {
                let station = &mut stations[at];
                let now = station.nic.now();
                match station.interface.lookup(ip, now) {
                    Resolution::Known(mac) => Some(mac),
                    _ => None,
                }
            });
            assert_eq!(known, macs[other], "{ip}");
            let now = stations[at].nic.now();
            stations[at].interface.ping(ip, 7, 1, now).unwrap();
            until(&mut stations, "the echo", |stations| {
                let event = stations[at].interface.next_event()?;
                matches!(event, Event::EchoReply { ip: from, .. } if from == ip).then_some(())
            });
        }
    }
    stations.into_iter().for_each(Station::end);
    assert_as_found(&sim);
}
