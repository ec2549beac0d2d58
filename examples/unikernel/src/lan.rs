//! A function's addresses on its LAN port: what answers ARP requests, neighbour solicitations
//! and pings of others, and asks for theirs.

use core::net::{IpAddr, Ipv4Addr};

use e810::{Control, MacAddr};
use e810_connect::{Lookup, Neighbours, Question};
use e810_net::{
    AddressState, Claim, Config, Event, Interface, Ns, Ping, Place, Resolution, link_local,
    multicast_mac,
};
use metal::{Machine, Metal};

use crate::frames::Frames;
use crate::report::Failure;

/// Room for neighbours; there is one, at two addresses.
const NEIGHBOURS: usize = 8;
/// Hop limit of what is sent to a neighbour.
const HOP_LIMIT: u8 = 64;
/// Identifier of this program's pings.
const IDENT: u16 = 0xe810;

/// A LAN port with its addresses.
pub(crate) struct Lan<'m> {
    machine: &'m Machine,
    frames: Frames<'m>,
    interface: Interface<[Place; NEIGHBOURS]>,
    ipv4: Ipv4Addr,
    /// The echo reply that came last.
    reply: Option<Ping>,
}

impl<'m> Lan<'m> {
    /// Opens a function's port, and claims two addresses there: `ipv4`, and the link-local one
    /// of its MAC address.
    pub(crate) fn open(
        machine: &'m Machine,
        control: &mut Control<Metal<'m>>,
        ipv4: Ipv4Addr,
    ) -> Result<Self, Failure> {
        let frames = Frames::open(control)?;
        let now = machine.now();
        let config = Config {
            seed: now.0,
            ..Config::new(control.lan().mac)
        };
        let mut interface = Interface::new(config, now);
        interface.add_ipv4(ipv4, 24, Claim::Probed, now)?;
        // Neighbour solicitations are multicast.
        for mac in interface.groups().filter_map(multicast_mac) {
            frames.join(control, mac)?;
        }
        Ok(Self {
            machine,
            frames,
            interface,
            ipv4,
            reply: None,
        })
    }

    fn now(&self) -> Ns {
        self.machine.now()
    }

    /// Its IPv4 address.
    pub(crate) fn ipv4(&self) -> IpAddr {
        self.ipv4.into()
    }

    /// Its link-local address.
    pub(crate) fn link_local(&self) -> IpAddr {
        link_local(self.interface.mac()).into()
    }

    /// Whether both are found to be nobody else's.
    pub(crate) fn is_ready(&self) -> bool {
        let mut addresses = self.interface.addresses();
        addresses.all(|address| address.state == AddressState::Preferred)
    }

    /// Receives, answers and sends what there is now.
    pub(crate) fn poll(&mut self) -> Result<(), Failure> {
        let now = self.now();
        // What is left over has its turn with the next call.
        let _ = self.interface.poll(now, &mut self.frames);
        while let Some(event) = self.interface.next_event() {
            match event {
                Event::EchoReply {
                    ip,
                    ident,
                    seq,
                    length,
                    ..
                } => {
                    self.reply = Some(Ping {
                        ip,
                        ident,
                        seq,
                        length,
                    });
                }
                Event::AddressDuplicate { .. }
                | Event::AddressContended { .. }
                | Event::NeighbourMoved { .. }
                | Event::EchoFailed { .. } => return Err(Failure::Lan(event)),
                // Also that a neighbour does not answer: it is in the hands of this same
                // thread, which may wait for something of the first function alone.
                _ => {}
            }
        }
        Ok(())
    }

    /// The MAC address of a neighbour, which is asked for it; `None` until it has answered.
    pub(crate) fn resolve(&mut self, ip: IpAddr) -> Result<Option<MacAddr>, Failure> {
        known(ip, self.interface.lookup(ip, self.now()))
    }

    /// As [`Lan::resolve`], for a queue pair that stays connected: the neighbour is asked again
    /// and again, and [`Lan::poll`] fails when it has moved.
    pub(crate) fn watch(&mut self, ip: IpAddr) -> Result<Option<MacAddr>, Failure> {
        let (resolution, _) = self.interface.watch(ip, self.now());
        known(ip, resolution)
    }

    /// Asks for an echo of `length` bytes.
    pub(crate) fn ping(&mut self, ip: IpAddr, seq: u16, length: u16) -> Result<(), Failure> {
        self.reply = None;
        let ping = Ping {
            ip,
            ident: IDENT,
            seq,
            length,
        };
        Ok(self.interface.ping_with(ping, self.now())?)
    }

    /// Whether that echo has come: from there, with that number, as long as it was sent.
    pub(crate) fn replied(&self, ip: IpAddr, seq: u16, length: u16) -> bool {
        let wanted = Ping {
            ip,
            ident: IDENT,
            seq,
            length,
        };
        self.reply == Some(wanted)
    }

    /// Echo requests that it has answered.
    pub(crate) const fn answered(&self) -> u64 {
        self.interface.counters().echo_replies
    }

    /// Gives the port back.
    pub(crate) fn close(self, control: &mut Control<Metal<'m>>) -> Result<(), Failure> {
        self.frames.close(control)
    }
}

/// The connection manager asks it.
impl Neighbours for Lan<'_> {
    fn lookup(&mut self, question: &Question) -> Lookup {
        match self.interface.lookup(question.destination, self.now()) {
            Resolution::Known(mac) => Lookup::Known(mac, HOP_LIMIT),
            Resolution::Pending => Lookup::Pending,
            _ => Lookup::Unreachable,
        }
    }
}

fn known(ip: IpAddr, resolution: Resolution) -> Result<Option<MacAddr>, Failure> {
    match resolution {
        Resolution::Known(mac) => Ok(Some(mac)),
        Resolution::Pending => Ok(None),
        other => Err(Failure::Unresolved(ip, other)),
    }
}
