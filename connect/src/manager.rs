//! The connection manager of a function: the state machine on queue pair 1.

use core::net::IpAddr;

use e810::{Control, MacAddr, Path, Platform};
use e810_cm::machine::{Destination, Machine, Origin};
use e810_cm::{GID, Mad, ip};
use e810_hal::Ns;
use heapless::Vec;

use crate::gsi::{Gsi, GsiError};
use crate::service::{Refused, Told};

/// What is known of the way to a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// The Ethernet address of the next hop, and the hop limit of the way.
    Known(MacAddr, u8),
    /// It is being asked for: look again later.
    Pending,
    /// There is no way, or nobody answers.
    Unreachable,
}

/// A way that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Question {
    /// From this address of our own,
    pub own: IpAddr,
    /// on this VLAN,
    pub vlan: Option<u16>,
    /// to this one.
    pub destination: IpAddr,
}

/// Who finds neighbours. A look does not wait.
pub trait Neighbours {
    /// What is known of the way.
    fn lookup(&mut self, question: &Question) -> Lookup;
}

/// What [`Manager::progress`] tells.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is nothing to box it in, and few exist at a time"
)]
pub enum Happened {
    /// Of a connection.
    Told(Told),
    /// More datagrams may be there: call it again before anything is waited for.
    More,
    /// Nothing.
    Nothing,
}

/// Datagrams that one call of [`Manager::progress`] takes, and requests whose senders it looks for.
const ROUND: usize = 32;

/// The connection manager of a function.
#[derive(Debug)]
pub struct Manager<'t, P: Platform> {
    pub(crate) machine: Machine<'t>,
    gsi: Gsi<P>,
    /// The request of whose sender is looked for next.
    next: usize,
    /// Datagrams that were not sent: as if they were lost.
    not_sent: u64,
}

impl<'t, P: Platform> Manager<'t, P> {
    /// A manager on queue pair 1. The machine's GUID is the function's
    /// ([`DeviceAttr::node_guid`](e810::DeviceAttr)).
    #[must_use]
    pub const fn new(machine: Machine<'t>, gsi: Gsi<P>) -> Self {
        Self {
            machine,
            gsi,
            next: 0,
            not_sent: 0,
        }
    }

    /// Ends it: destroys queue pair 1, and gives the machine back, whose tables can be of use again
    /// ([`Machine::renew`]). Peers of connections that were not ended are not told: they
    /// notice when they send.
    ///
    /// # Errors
    /// As [`Gsi::close`], beside the machine.
    pub fn close(self, control: &mut Control<P>) -> (Machine<'t>, Result<(), GsiError>) {
        (self.machine, self.gsi.close(control))
    }

    /// The state machine, for calls about connections and listeners.
    pub const fn machine(&mut self) -> &mut Machine<'t> {
        &mut self.machine
    }

    /// Queue pair 1.
    pub const fn gsi(&mut self) -> &mut Gsi<P> {
        &mut self.gsi
    }

    /// Datagrams that could not be sent.
    #[must_use]
    pub const fn not_sent(&self) -> u64 {
        self.not_sent
    }

    /// When [`progress`](Self::progress) has something to do, without a datagram; `None` if never.
    #[must_use]
    pub fn deadline(&self) -> Option<Ns> {
        let [machine, gsi] = [self.machine.deadline(), self.gsi.deadline()];
        machine.into_iter().chain(gsi).min()
    }

    /// Takes datagrams, repeats what was not answered, sends, and tells one event at most.
    ///
    /// # Errors
    /// Queue pair 1 takes no receives any more.
    pub fn progress(
        &mut self,
        control: &mut Control<P>,
        neighbours: &mut dyn Neighbours,
        now: Ns,
    ) -> Result<Happened, GsiError> {
        let mut taken = 0;
        while taken < ROUND
            && let Some(received) = self.gsi.receive(control)?
        {
            let bytes = received.mad.get(..received.len).unwrap_or_default();
            self.machine.receive(bytes, &received.origin, now);
            taken = taken.saturating_add(1);
        }
        let more = self.machine.poll(now) || taken == ROUND;
        self.look_for_senders(neighbours, now);
        self.send(control, neighbours, now);
        self.gsi.tidy(control, now);
        Ok(match self.told() {
            Some(told) => Happened::Told(told),
            None if more => Happened::More,
            None => Happened::Nothing,
        })
    }

    /// Looks for the senders of some requests, round and round.
    fn look_for_senders(&mut self, neighbours: &mut dyn Neighbours, now: Ns) {
        for _ in 0..ROUND.min(self.machine.unreached_len()) {
            let Some((id, origin)) = self.machine.unreached(self.next) else {
                self.next = 0;
                continue;
            };
            let [own, destination] = [origin.local, origin.remote].map(ip::address);
            let question = Question {
                own,
                vlan: origin.vlan,
                destination,
            };
            // One that is gone from the list leaves its place to another.
            let _ = match neighbours.lookup(&question) {
                Lookup::Known(..) => self.machine.reached(id, now),
                Lookup::Unreachable => self.machine.ignore(id),
                Lookup::Pending => {
                    self.next = self.next.wrapping_add(1);
                    Ok(())
                }
            };
        }
    }

    fn send(&mut self, control: &mut Control<P>, neighbours: &mut dyn Neighbours, now: Ns) {
        let mut mad: Mad = [0; 256];
        let mut held: Vec<Destination, ROUND> = Vec::new();
        for _ in 0..ROUND {
            if !self.gsi.has_room() {
                break;
            }
            let Some(to) = self.machine.transmit(now, &mut mad) else {
                break;
            };
            let sent = match self.path(control, neighbours, &to) {
                Ok(path) => match self.gsi.send(control, &path, &mad, now) {
                    // Soon others are sent, and it can be.
                    Err(GsiError::Busy) if to.connection.is_some() => {
                        let _ = held.push(to);
                        continue;
                    }
                    sent => sent.is_ok(),
                },
                Err(NoPath::Pending) => {
                    // There is room for a round.
                    let _ = held.push(to);
                    continue;
                }
                Err(NoPath::Unreachable) => {
                    if let Some(id) = to.connection {
                        self.machine.unreachable(id);
                    }
                    false
                }
            };
            if !sent {
                self.not_sent = self.not_sent.wrapping_add(1);
            }
        }
        // Only now, or the same ones would come again and again in this round.
        for to in &held {
            self.machine.again(to);
        }
    }

    /// The way of a datagram.
    fn path(
        &self,
        control: &Control<P>,
        neighbours: &mut dyn Neighbours,
        to: &Destination,
    ) -> Result<Path, NoPath> {
        let Origin { mac, .. } = to.origin;
        match to.connection {
            // Back where it came from: nobody is asked on behalf of a stranger.
            None => path_by(control, &to.origin, mac, 64),
            Some(_) => path_of(control, neighbours, &to.origin, to.via),
        }
    }
}

/// Why there is no path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoPath {
    /// The neighbour is being asked for.
    Pending,
    /// There is no way, nobody answers, or our address is gone.
    Unreachable,
}

impl From<NoPath> for Refused {
    fn from(why: NoPath) -> Self {
        match why {
            NoPath::Pending => Self::PathPending,
            NoPath::Unreachable => Self::NoPath,
        }
    }
}

/// The path by the neighbour of an address.
pub(crate) fn path_of<P: Platform>(
    control: &Control<P>,
    neighbours: &mut dyn Neighbours,
    origin: &Origin,
    via: [u8; GID],
) -> Result<Path, NoPath> {
    let [own, destination] = [origin.local, via].map(ip::address);
    let question = Question {
        own,
        vlan: origin.vlan,
        destination,
    };
    match neighbours.lookup(&question) {
        Lookup::Known(mac, hop_limit) => path_by(control, origin, mac, hop_limit),
        Lookup::Pending => Err(NoPath::Pending),
        Lookup::Unreachable => Err(NoPath::Unreachable),
    }
}

/// The path by a neighbour from the address that a datagram came to.
fn path_by<P: Platform>(
    control: &Control<P>,
    origin: &Origin,
    mac: MacAddr,
    hop_limit: u8,
) -> Result<Path, NoPath> {
    let index = control.find_gid(ip::address(origin.local), origin.vlan);
    Ok(Path {
        hop_limit,
        traffic_class: origin.traffic_class,
        flow_label: origin.flow_label,
        priority: Path::priority_of(origin.traffic_class),
        ..Path::new(
            index.ok_or(NoPath::Unreachable)?,
            ip::address(origin.remote),
            mac,
        )
    })
}
