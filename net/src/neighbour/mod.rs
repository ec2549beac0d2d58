//! The neighbour cache: IP addresses of this link and their MAC addresses (RFC 4861 5.1, 7.3).
//!
//! ARP uses it as neighbour discovery does, as in Linux. Only our own questions make entries; a
//! neighbour that asks for us makes one where room is free, and such entries are few and give way.

mod entry;
mod table;
#[cfg(test)]
mod tests;

use core::net::IpAddr;

use entry::Entry;
pub use entry::{Neighbour, NeighbourState};
use table::Table;
pub use table::{Place, Places};

use crate::event::{Event, Events};
use crate::mac::MacAddr;
use crate::random::Random;
use crate::time::{Ns, earliest};

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

/// The cache.
#[derive(Clone, Debug)]
pub(crate) struct Neighbours<P> {
    table: Table<P>,
    /// Nothing is due before; `None`: nothing ever.
    wake: Option<Ns>,
    /// Where the look for what is due goes on.
    cursor: usize,
    pub(crate) times: Times,
    random: Random,
}

impl<P: Places> Neighbours<P> {
    pub(crate) fn new(places: P, random: Random) -> Self {
        Self {
            table: Table::new(places),
            wake: None,
            cursor: 0,
            times: Times {
                reachable: REACHABLE_TIME,
                retrans: RETRANS_TIMER,
            },
            random,
        }
    }

    pub(crate) fn room(&self) -> usize {
        self.table.room()
    }

    /// Most entries at a time that were made by requests of others.
    pub(crate) fn learnt_room(&self) -> usize {
        self.room() / 4
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Neighbour> {
        self.table.iter().map(Entry::shown)
    }

    pub(crate) fn get(&self, ip: IpAddr) -> Option<Neighbour> {
        self.table.get(ip).map(Entry::shown)
    }

    pub(crate) fn state(&self, ip: IpAddr) -> Option<NeighbourState> {
        Some(self.table.get(ip)?.state)
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
        if let Some(entry) = self.table.get_mut(ip) {
            let resolution = entry.lookup(now);
            self.wake = earliest(self.wake, entry.next);
            return resolution;
        }
        match self.make(Entry::incomplete(ip, now), now) {
            true => Resolution::Pending,
            false => Resolution::NoRoom,
        }
    }

    /// As `lookup`, and the entry stays, and stays confirmed, until it is given back. One that
    /// does not answer is asked again at once.
    pub(crate) fn watch(&mut self, ip: IpAddr, now: Ns) -> Resolution {
        let resolution = self.lookup(ip, now);
        let Some(entry) = self.table.get_mut(ip) else {
            return resolution;
        };
        entry.users = entry.users.saturating_add(1);
        match entry.state {
            NeighbourState::Stale | NeighbourState::Delay => entry.probe(now),
            NeighbourState::Failed => entry.ask_again(now),
            _ => {}
        }
        self.wake = earliest(self.wake, entry.next);
        match entry.is_known() {
            true => resolution,
            false => Resolution::Pending,
        }
    }

    /// One user less. With the last one the entry may give way at once, and one that is not known
    /// is gone: nobody waits for its answer.
    pub(crate) fn unwatch(&mut self, ip: IpAddr) {
        let Ok(place) = self.table.place(ip) else {
            return;
        };
        let Some(entry) = self.table.at_mut(place) else {
            return;
        };
        entry.users = entry.users.saturating_sub(1);
        if entry.users == 0 {
            entry.used = None;
            if !entry.is_known() {
                self.table.remove(place);
            }
        }
    }

    /// Makes an entry, in the place of one that is not in use if need be.
    fn make(&mut self, entry: Entry, now: Ns) -> bool {
        if self.table.is_full() {
            let places = self.table.iter().enumerate();
            let ranked = places.filter_map(|(place, old)| Some((old.dispensable(now)?, place)));
            let Some((_, place)) = ranked.min() else {
                return false;
            };
            self.table.remove(place);
        }
        self.wake = earliest(self.wake, entry.next);
        self.table.insert(entry)
    }

    /// A neighbour asked for us, and its question says where it is (RFC 4861 7.2.3; RFC 826).
    /// False: it is not known, and there was no room for it.
    pub(crate) fn learn(&mut self, ip: IpAddr, mac: MacAddr, now: Ns, events: &mut Events) -> bool {
        if let Some(entry) = self.table.get_mut(ip) {
            let is_new = !entry.is_known() || entry.mac != mac && !entry.is_locked(now);
            if is_new {
                entry.set_mac(mac, now, events);
                entry.enter(NeighbourState::Stale, now, self.times, &mut self.random);
                self.wake = earliest(self.wake, entry.next);
            }
            return true;
        }
        let learnt = self.table.iter().filter(|entry| entry.is_learnt).count();
        if learnt >= self.learnt_room() {
            return false;
        }
        let entry = Entry::learnt(ip, mac, now);
        self.wake = earliest(self.wake, entry.next);
        self.table.insert(entry)
    }

    /// A neighbour advertisement or an ARP reply (RFC 4861 7.2.5).
    pub(crate) fn reply(&mut self, reply: &Reply, now: Ns, events: &mut Events) -> Heard {
        let (times, random) = (self.times, &mut self.random);
        let Some(entry) = self.table.get_mut(reply.ip) else {
            return Heard::Unasked;
        };
        let heard = entry.hear(reply, now, times, random, events);
        self.wake = earliest(self.wake, entry.next);
        heard
    }

    /// A protocol above has seen that a neighbour gets what is sent to it (RFC 4861 7.3.1).
    pub(crate) fn confirm(&mut self, ip: IpAddr, now: Ns) {
        let (times, random) = (self.times, &mut self.random);
        let entry = self.table.get_mut(ip).filter(|entry| entry.is_known());
        if let Some(entry) = entry {
            entry.enter(NeighbourState::Reachable, now, times, random);
            self.wake = earliest(self.wake, entry.next);
        }
    }

    /// The next solicitation that is due; entries whose time is over change or go.
    pub(crate) fn due(&mut self, now: Ns, events: &mut Events) -> Option<Solicit> {
        while self.wake.is_some_and(|at| at <= now) {
            let Some(place) = self.next_due(now) else {
                self.wake = self.table.iter().filter_map(|entry| entry.next).min();
                break;
            };
            self.cursor = place;
            let step = self.table.at_mut(place)?.step(now, self.times, events);
            match step {
                entry::Step::Solicit(solicit) => return Some(solicit),
                entry::Step::Changed => {}
                entry::Step::Gone => self.table.remove(place),
            }
        }
        None
    }

    /// The first entry from the cursor on that is due.
    fn next_due(&self, now: Ns) -> Option<usize> {
        let is_due = |place: &usize| {
            let next = self.table.at(*place).and_then(|entry| entry.next);
            next.is_some_and(|at| at <= now)
        };
        let behind = self.cursor..self.table.len();
        behind.chain(0..self.cursor).find(is_due)
    }

    /// When [`due`](Self::due) may next have something to do.
    pub(crate) const fn deadline(&self) -> Option<Ns> {
        self.wake
    }

    /// Forgets a neighbour that cannot be reached as it was: its address is our own now.
    pub(crate) fn forget(&mut self, ip: IpAddr) {
        if let Ok(place) = self.table.place(ip) {
            self.table.remove(place);
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
