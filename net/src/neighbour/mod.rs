//! The neighbour cache: IP addresses of this link and their MAC addresses (RFC 4861 5.1, 7.3).
//!
//! ARP uses it as neighbour discovery does, as in Linux. Only our own questions make entries; a
//! neighbour that asks for us makes one where room is free, and such entries are few and give way.

mod entry;
#[cfg(test)]
mod tests;

use core::net::IpAddr;

use heapless::Vec;

use entry::Entry;
pub use entry::{Neighbour, NeighbourState};

use crate::event::{Event, Events};
use crate::mac::MacAddr;
use crate::random::Random;
use crate::take::swap_take;
use crate::time::Ns;

/// Solicitations to the group before an address is unreachable (RFC 4861 10).
pub(crate) const MAX_MULTICAST_SOLICIT: u8 = 3;
/// Solicitations to a neighbour that was known (RFC 4861 10).
pub(crate) const MAX_UNICAST_SOLICIT: u8 = 3;
/// Time for which a reply is good, unless a router says another (RFC 4861 10); the time used is
/// a random part between half of it and three halves (RFC 4861 6.3.2).
pub(crate) const REACHABLE_TIME: Ns = Ns::from_secs(30);
/// Time between solicitations, unless a router says another (RFC 4861 10). For ARP: at most one
/// request a second (RFC 1122 2.3.2.1).
pub(crate) const RETRANS_TIMER: Ns = Ns::from_secs(1);
/// Time from the first use of a stale entry to a solicitation (RFC 4861 10).
pub(crate) const DELAY_FIRST_PROBE_TIME: Ns = Ns::from_secs(5);
/// An entry that nobody uses is stale for this long (Linux' `gc_stale_time`).
pub(crate) const STALE_TIME: Ns = Ns::from_secs(60);
/// Time for which an address stays unreachable before it is asked for again; twice as long after
/// each further failure, up to 48 s (RFC 7048 3 backs off to 60 s).
pub(crate) const FAILED_TIME: Ns = Ns::from_secs(3);
const MAX_BACKOFF: u8 = 4;
/// A MAC address that was just set is not replaced by what nobody asked for (Linux' `locktime`).
pub(crate) const LOCK_TIME: Ns = Ns::from_secs(1);
/// An entry that was looked up within this time is in use.
pub(crate) const IN_USE: Ns = REACHABLE_TIME;

/// What is known of how to reach an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolution {
    /// Frames go to this MAC address.
    Known(MacAddr),
    /// The neighbour is being asked: the same question again, later.
    Pending,
    /// The neighbour does not answer. It is asked again after some seconds.
    Unreachable,
    /// No route leads there, or no own address can be the source.
    NoRoute,
    /// All entries of the neighbour cache are in use.
    NoRoom,
}

/// A solicitation that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Solicit {
    pub(crate) ip: IpAddr,
    /// To whom: a neighbour that was known, or everyone.
    pub(crate) to: Option<MacAddr>,
}

/// What a neighbour says of itself, or what its frame shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reply {
    pub(crate) ip: IpAddr,
    pub(crate) mac: Option<MacAddr>,
    pub(crate) is_solicited: bool,
    pub(crate) overrides: bool,
    pub(crate) is_router: bool,
}

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    /// The entry is up to date.
    Taken,
    /// There is no entry for it, and none was made.
    Unasked,
    /// A router is none any longer (RFC 4861 7.2.5).
    NoRouter,
}

/// Times that routers may set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) reachable: Ns,
    pub(crate) retrans: Ns,
}

/// The cache, with room for `N` neighbours.
#[derive(Clone, Debug)]
pub(crate) struct Neighbours<const N: usize> {
    entries: Vec<Entry, N>,
    pub(crate) times: Times,
    random: Random,
}

impl<const N: usize> Neighbours<N> {
    /// Most entries at a time that were made by requests of others.
    pub(crate) const LEARNT: usize = N / 4;

    pub(crate) const fn new(random: Random) -> Self {
        Self {
            entries: Vec::new(),
            times: Times {
                reachable: REACHABLE_TIME,
                retrans: RETRANS_TIMER,
            },
            random,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Neighbour> {
        self.entries.iter().map(Entry::shown)
    }

    fn find(&mut self, ip: IpAddr) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.ip == ip)
    }

    pub(crate) fn state(&self, ip: IpAddr) -> Option<NeighbourState> {
        let entry = self.entries.iter().find(|entry| entry.ip == ip)?;
        Some(entry.state)
    }

    /// Whether a solicitation for it is unanswered.
    pub(crate) fn is_asked(&self, ip: IpAddr) -> bool {
        matches!(
            self.state(ip),
            Some(NeighbourState::Incomplete | NeighbourState::Probe)
        )
    }

    /// The MAC address of a neighbour, which is asked if it is not known.
    pub(crate) fn lookup(&mut self, ip: IpAddr, now: Ns) -> Resolution {
        if let Some(entry) = self.find(ip) {
            return entry.lookup(now);
        }
        match self.make(Entry::incomplete(ip, now), now) {
            true => Resolution::Pending,
            false => Resolution::NoRoom,
        }
    }

    /// As `lookup`, and the entry stays, and stays confirmed, until it is given back.
    pub(crate) fn watch(&mut self, ip: IpAddr, now: Ns) -> Resolution {
        let resolution = self.lookup(ip, now);
        if let Some(entry) = self.find(ip) {
            entry.users = entry.users.saturating_add(1);
            if matches!(entry.state, NeighbourState::Stale | NeighbourState::Delay) {
                entry.probe(now);
            }
        }
        resolution
    }

    pub(crate) fn unwatch(&mut self, ip: IpAddr) {
        if let Some(entry) = self.find(ip) {
            entry.users = entry.users.saturating_sub(1);
        }
    }

    /// Makes an entry, in the place of one that is not in use if need be.
    fn make(&mut self, entry: Entry, now: Ns) -> bool {
        if self.entries.is_full() {
            let places = self.entries.iter().enumerate();
            let ranked = places.filter_map(|(place, old)| Some((old.dispensable(now)?, place)));
            let Some((_, place)) = ranked.min() else {
                return false;
            };
            swap_take(&mut self.entries, place);
        }
        self.entries.push(entry).is_ok()
    }

    /// A neighbour asked for us, and its question says where it is (RFC 4861 7.2.3; RFC 826).
    /// False: it is not known, and there was no room for it.
    pub(crate) fn learn(&mut self, ip: IpAddr, mac: MacAddr, now: Ns, events: &mut Events) -> bool {
        let random = &mut self.random;
        let found = self.entries.iter_mut().find(|entry| entry.ip == ip);
        if let Some(entry) = found {
            let is_new = !entry.is_known() || entry.mac != mac && !entry.is_locked(now);
            if is_new {
                entry.set_mac(mac, now, events);
                entry.enter(NeighbourState::Stale, now, self.times, random);
            }
            return true;
        }
        let learnt = self.entries.iter().filter(|entry| entry.is_learnt).count();
        learnt < Self::LEARNT && self.entries.push(Entry::learnt(ip, mac, now)).is_ok()
    }

    /// A neighbour advertisement or an ARP reply (RFC 4861 7.2.5).
    pub(crate) fn reply(&mut self, reply: &Reply, now: Ns, events: &mut Events) -> Heard {
        let random = &mut self.random;
        let found = self.entries.iter_mut().find(|entry| entry.ip == reply.ip);
        let Some(entry) = found else {
            return Heard::Unasked;
        };
        let fresh = match reply.is_solicited {
            true => NeighbourState::Reachable,
            false => NeighbourState::Stale,
        };
        if !entry.is_known() {
            // Without the option there is nothing to be known.
            let Some(mac) = reply.mac else {
                return Heard::Unasked;
            };
            entry.set_mac(mac, now, events);
            entry.is_router = reply.is_router;
            entry.enter(fresh, now, self.times, random);
            return Heard::Taken;
        }
        let other = reply.mac.filter(|mac| *mac != entry.mac);
        let is_asked = entry.state == NeighbourState::Probe && reply.is_solicited;
        match other {
            Some(_) if !reply.overrides => {
                if entry.state == NeighbourState::Reachable {
                    entry.enter(NeighbourState::Stale, now, self.times, random);
                }
                return Heard::Taken;
            }
            Some(_) if entry.is_locked(now) && !is_asked => return Heard::Taken,
            Some(mac) => {
                entry.set_mac(mac, now, events);
                entry.enter(fresh, now, self.times, random);
            }
            None if reply.is_solicited => entry.enter(fresh, now, self.times, random),
            None => {}
        }
        let was_router = core::mem::replace(&mut entry.is_router, reply.is_router);
        match was_router && !reply.is_router {
            true => Heard::NoRouter,
            false => Heard::Taken,
        }
    }

    /// A protocol above has seen that a neighbour gets what is sent to it (RFC 4861 7.3.1).
    pub(crate) fn confirm(&mut self, ip: IpAddr, now: Ns) {
        let (times, random) = (self.times, &mut self.random);
        let found = self.entries.iter_mut().find(|entry| entry.ip == ip);
        if let Some(entry) = found.filter(|entry| entry.is_known()) {
            entry.enter(NeighbourState::Reachable, now, times, random);
        }
    }

    /// The next solicitation that is due; entries whose time is over change or go.
    pub(crate) fn due(&mut self, now: Ns, events: &mut Events) -> Option<Solicit> {
        loop {
            let is_due = |entry: &Entry| entry.next.is_some_and(|at| at <= now);
            let place = self.entries.iter().position(is_due)?;
            let step = self.entries.get_mut(place)?.step(now, self.times, events);
            match step {
                entry::Step::Solicit(solicit) => return Some(solicit),
                entry::Step::Changed => {}
                entry::Step::Gone => {
                    swap_take(&mut self.entries, place);
                }
            }
        }
    }

    pub(crate) fn deadline(&self) -> Option<Ns> {
        self.entries.iter().filter_map(|entry| entry.next).min()
    }

    /// Forgets a neighbour that cannot be reached as it was: its address is our own now.
    pub(crate) fn forget(&mut self, ip: IpAddr) {
        let place = self.entries.iter().position(|entry| entry.ip == ip);
        if let Some(place) = place {
            swap_take(&mut self.entries, place);
        }
    }
}

/// Tells of a neighbour's new MAC address.
fn moved(ip: IpAddr, from: Option<MacAddr>, to: MacAddr) -> Option<Event> {
    match from {
        None => Some(Event::NeighbourKnown { ip, mac: to }),
        Some(from) => (from != to).then_some(Event::NeighbourMoved { ip, from, to }),
    }
}
