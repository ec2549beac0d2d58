//! Neighbours of connections: asked for without a wait, and remembered for a while.

use std::collections::BTreeMap;

use e810::{Control, MacAddr};
use e810_backends::interrupts::HostPlatform;
use e810_connect::{Lookup, Neighbours, Question};
use e810_hal::Ns;

use crate::neighbours::NeighbourTracker;
use crate::route::{self, HOP_LIMIT};
use crate::station::PendingResolve;

/// How long an answer is believed, unless the tracker has a newer one.
const KNOWN: Ns = Ns::from_secs(30);
/// How long it is believed that nobody answers.
const UNREACHABLE: Ns = Ns::from_ms(1_000);
/// Answers and questions that are kept.
const MOST: usize = 4096;
/// Questions under way. Strangers cause some, whose addresses may be invented.
const ASKED: usize = 256;

#[derive(Debug)]
enum Entry {
    Asked(PendingResolve),
    Answered { lookup: Lookup, until: Ns },
}

/// What is known of ways to peers.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    entries: BTreeMap<Question, Entry>,
    /// How many of the entries are asked.
    asked: usize,
    /// Our own addresses: what goes there comes back.
    own: Vec<std::net::IpAddr>,
    mac: MacAddr,
}

impl Lookups {
    /// With the function's own addresses as they are now, and a resolver.
    pub(super) fn with<'a, P: HostPlatform>(
        &'a mut self,
        control: &Control<P>,
        tracker: Option<&'a NeighbourTracker<P>>,
        now: Ns,
    ) -> View<'a, P> {
        let gids = (0..e810::GIDS as u8).filter_map(|index| control.query_gid(index));
        self.own.clear();
        self.own.extend(gids.map(|own| own.gid.ip()));
        self.mac = control.lan().mac;
        View {
            lookups: self,
            tracker,
            now,
        }
    }

    /// Whether an answer is awaited.
    pub(super) const fn is_waiting(&self) -> bool {
        self.asked > 0
    }

    fn forget_old(&mut self, now: Ns) {
        self.entries
            .retain(|_, entry| !matches!(entry, Entry::Answered { until, .. } if *until <= now));
    }

    fn remember(&mut self, question: Question, lookup: Lookup, now: Ns) -> Lookup {
        let until = now
            + match lookup {
                Lookup::Known(..) => KNOWN,
                _ => UNREACHABLE,
            };
        self.entries
            .insert(question, Entry::Answered { lookup, until });
        lookup
    }
}

/// The same, with who can be asked.
pub(super) struct View<'a, P: HostPlatform> {
    lookups: &'a mut Lookups,
    tracker: Option<&'a NeighbourTracker<P>>,
    now: Ns,
}

impl<P: HostPlatform> View<'_, P> {
    fn ask(&mut self, question: &Question) -> Lookup {
        let destination = question.destination;
        let known = route::known_mac(&self.lookups.own, self.lookups.mac, destination);
        let Some(tracker) = self.tracker else {
            return known.map_or(Lookup::Unreachable, |mac| Lookup::Known(mac, HOP_LIMIT));
        };
        if self.lookups.entries.len() >= MOST {
            self.lookups.forget_old(self.now);
        }
        if self.lookups.asked >= ASKED || self.lookups.entries.len() >= MOST {
            return Lookup::Pending;
        }
        let pending = tracker.begin_resolve(route::Question {
            destination,
            vlan: question.vlan,
            known,
        });
        self.lookups.asked += 1;
        self.lookups
            .entries
            .insert(*question, Entry::Asked(pending));
        self.look(question)
    }

    /// Takes the answer to a question, if there is one.
    fn look(&mut self, question: &Question) -> Lookup {
        let answer = match self.lookups.entries.get(question) {
            Some(Entry::Asked(pending)) => pending.try_take(),
            _ => return Lookup::Pending,
        };
        let Some(answer) = answer else {
            return Lookup::Pending;
        };
        self.lookups.asked = self.lookups.asked.saturating_sub(1);
        let lookup = match answer {
            Ok(neighbour) => Lookup::Known(neighbour.mac, neighbour.route.hop_limit),
            Err(error) => {
                log::debug!("{error}");
                Lookup::Unreachable
            }
        };
        self.lookups.remember(*question, lookup, self.now)
    }
}

impl<P: HostPlatform> Neighbours for View<'_, P> {
    fn lookup(&mut self, question: &Question) -> Lookup {
        match self.lookups.entries.get(question) {
            Some(Entry::Answered { lookup, until }) if self.now < *until => {
                // The neighbour may have moved meanwhile.
                let newer = self
                    .tracker
                    .and_then(|tracker| tracker.mac_of(question.destination));
                match (*lookup, newer) {
                    (Lookup::Known(_, hop_limit), Some(mac)) => Lookup::Known(mac, hop_limit),
                    (lookup, _) => lookup,
                }
            }
            Some(Entry::Asked(_)) => self.look(question),
            _ => self.ask(question),
        }
    }
}
