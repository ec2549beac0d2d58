//! One neighbour and its state machine (RFC 4861 7.3.2).

use core::net::IpAddr;

use super::{
    DELAY_FIRST_PROBE_TIME, FAILED_TIME, Heard, IN_USE, LOCK_TIME, MAX_BACKOFF,
    MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT, Reply, Resolution, STALE_TIME, Solicit, Times,
    moved,
};
use crate::event::{Event, Events};
use crate::mac::MacAddr;
use crate::random::Random;
use crate::time::Ns;

/// The state of a neighbour (RFC 4861 7.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeighbourState {
    /// Asked for, and not answered yet.
    Incomplete,
    /// Heard within the reachable time.
    Reachable,
    /// Not confirmed for some time, and not used.
    Stale,
    /// Used while stale, and soon asked.
    Delay,
    /// Asked whether it is still there.
    Probe,
    /// It does not answer (RFC 4861 has no entry then; Linux calls it FAILED).
    Failed,
}

/// A neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbour {
    /// Its address.
    pub ip: IpAddr,
    /// Where it is, if that is known.
    pub mac: Option<MacAddr>,
    /// Its state.
    pub state: NeighbourState,
    /// It has said that it is a router.
    pub is_router: bool,
    /// How many use it: see [`Interface::watch`](crate::Interface::watch).
    pub users: u16,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) ip: IpAddr,
    /// Means nothing while the neighbour is not known.
    pub(super) mac: MacAddr,
    pub(super) state: NeighbourState,
    pub(super) is_router: bool,
    /// Made by a request of the neighbour, and never looked up.
    pub(super) is_learnt: bool,
    pub(super) users: u16,
    /// When something is due.
    pub(super) next: Option<Ns>,
    /// Solicitations in this state.
    solicits: u8,
    /// Failures in a row.
    failures: u8,
    /// Looked up last; `None` when those that watched it have gone.
    pub(super) used: Option<Ns>,
    /// When the MAC address was set.
    set: Option<Ns>,
}

pub(super) enum Step {
    Solicit(Solicit),
    Changed,
    Gone,
}

impl Entry {
    pub(super) const fn incomplete(ip: IpAddr, now: Ns) -> Self {
        Self {
            ip,
            mac: MacAddr::ZERO,
            state: NeighbourState::Incomplete,
            is_router: false,
            is_learnt: false,
            users: 0,
            next: Some(now),
            solicits: 0,
            failures: 0,
            used: Some(now),
            set: None,
        }
    }

    pub(super) fn learnt(ip: IpAddr, mac: MacAddr, now: Ns) -> Self {
        Self {
            mac,
            state: NeighbourState::Stale,
            is_learnt: true,
            next: Some(now + STALE_TIME),
            set: Some(now),
            ..Self::incomplete(ip, now)
        }
    }

    pub(super) fn shown(&self) -> Neighbour {
        Neighbour {
            ip: self.ip,
            mac: self.is_known().then_some(self.mac),
            state: self.state,
            is_router: self.is_router,
            users: self.users,
        }
    }

    pub(super) const fn is_known(&self) -> bool {
        !matches!(
            self.state,
            NeighbourState::Incomplete | NeighbourState::Failed
        )
    }

    pub(super) fn is_locked(&self, now: Ns) -> bool {
        self.set.is_some_and(|set| now - set < LOCK_TIME)
    }

    pub(super) fn lookup(&mut self, now: Ns) -> Resolution {
        self.used = Some(now);
        self.is_learnt = false;
        match self.state {
            NeighbourState::Incomplete => Resolution::Pending,
            NeighbourState::Failed => Resolution::Unreachable,
            NeighbourState::Stale => {
                self.state = NeighbourState::Delay;
                self.next = Some(now + DELAY_FIRST_PROBE_TIME);
                Resolution::Known(self.mac)
            }
            _ => Resolution::Known(self.mac),
        }
    }

    /// How soon the entry may give way to another: the least goes first; `None` never.
    pub(super) fn dispensable(&self, now: Ns) -> Option<(u8, Option<Ns>)> {
        let rank = match self.state {
            _ if self.users > 0 => return None,
            NeighbourState::Failed => 0,
            _ if self.is_learnt => 1,
            _ if self.used.is_none_or(|used| now - used >= IN_USE) => 2,
            _ => return None,
        };
        Some((rank, self.used))
    }

    pub(super) fn set_mac(&mut self, mac: MacAddr, now: Ns, events: &mut Events) {
        let from = self.is_known().then_some(self.mac);
        // Entries that nobody has looked up are of no interest to anybody.
        if !self.is_learnt
            && let Some(event) = moved(self.ip, from, mac)
        {
            events.push(event);
        }
        self.mac = mac;
        self.set = Some(now);
        self.failures = 0;
    }

    pub(super) fn enter(
        &mut self,
        state: NeighbourState,
        now: Ns,
        times: Times,
        random: &mut Random,
    ) {
        self.solicits = 0;
        self.state = state;
        match state {
            NeighbourState::Reachable => {
                let half = Ns(times.reachable.0 / 2);
                let most = times.reachable + half;
                self.failures = 0;
                self.next = Some(now + random.between(half, most));
            }
            // Queue pairs send without a lookup that would ask for a confirmation.
            NeighbourState::Stale if self.users > 0 => self.probe(now),
            _ => self.next = Some(now + STALE_TIME),
        }
    }

    /// Asks the neighbour whether it is still there.
    pub(super) fn probe(&mut self, now: Ns) {
        self.state = NeighbourState::Probe;
        self.solicits = 0;
        self.next = Some(now);
    }

    /// Asks a neighbour anew that has not answered.
    pub(super) fn ask_again(&mut self, now: Ns) {
        self.state = NeighbourState::Incomplete;
        self.solicits = 0;
        self.next = Some(now);
    }

    /// What a neighbour says of itself (RFC 4861 7.2.5).
    pub(super) fn hear(
        &mut self,
        reply: &Reply,
        now: Ns,
        times: Times,
        random: &mut Random,
        events: &mut Events,
    ) -> Heard {
        let fresh = match reply.is_solicited {
            true => NeighbourState::Reachable,
            false => NeighbourState::Stale,
        };
        if !self.is_known() {
            // Without the option there is nothing to be known.
            let Some(mac) = reply.mac else {
                return Heard::Unasked;
            };
            self.set_mac(mac, now, events);
            self.is_router = reply.is_router;
            self.enter(fresh, now, times, random);
            return Heard::Taken;
        }
        let other = reply.mac.filter(|mac| *mac != self.mac);
        let is_asked = self.state == NeighbourState::Probe && reply.is_solicited;
        match other {
            Some(_) if !reply.overrides => {
                if self.state == NeighbourState::Reachable {
                    self.enter(NeighbourState::Stale, now, times, random);
                }
                return Heard::Taken;
            }
            Some(_) if self.is_locked(now) && !is_asked => return Heard::Taken,
            Some(mac) => {
                self.set_mac(mac, now, events);
                self.enter(fresh, now, times, random);
            }
            None if reply.is_solicited => self.enter(fresh, now, times, random),
            None => {}
        }
        let was_router = core::mem::replace(&mut self.is_router, reply.is_router);
        match was_router && !reply.is_router {
            true => Heard::NoRouter,
            false => Heard::Taken,
        }
    }

    /// Does what is due.
    pub(super) fn step(&mut self, now: Ns, times: Times, events: &mut Events) -> Step {
        match self.state {
            NeighbourState::Incomplete => {
                self.solicit(None, MAX_MULTICAST_SOLICIT, now, times, events)
            }
            NeighbourState::Probe => {
                self.solicit(Some(self.mac), MAX_UNICAST_SOLICIT, now, times, events)
            }
            NeighbourState::Delay => {
                self.probe(now);
                Step::Changed
            }
            NeighbourState::Reachable if self.users > 0 => {
                self.probe(now);
                Step::Changed
            }
            NeighbourState::Reachable => {
                self.state = NeighbourState::Stale;
                self.next = Some(now + STALE_TIME);
                Step::Changed
            }
            // Watched, and not heard of since: it is asked again.
            NeighbourState::Failed if self.users > 0 => {
                self.ask_again(now);
                Step::Changed
            }
            NeighbourState::Stale if self.users > 0 => {
                self.probe(now);
                Step::Changed
            }
            NeighbourState::Stale | NeighbourState::Failed => Step::Gone,
        }
    }

    fn solicit(
        &mut self,
        to: Option<MacAddr>,
        most: u8,
        now: Ns,
        times: Times,
        events: &mut Events,
    ) -> Step {
        if self.solicits < most {
            self.solicits += 1;
            self.next = Some(now + times.retrans);
            return Step::Solicit(Solicit { ip: self.ip, to });
        }
        // One event a failure, not one for each attempt after it.
        if self.failures == 0 {
            events.push(Event::NeighbourUnreachable(self.ip));
        }
        self.state = NeighbourState::Failed;
        let backoff = self.failures.min(MAX_BACKOFF);
        self.failures = self.failures.saturating_add(1);
        self.next = Some(now + Ns(FAILED_TIME.0 << backoff));
        Step::Changed
    }
}
