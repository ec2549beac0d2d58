//! Destinations that a station resolves, and those that it keeps watching.
//!
//! A destination has a place for its next hop in the table of neighbours while it is being asked
//! for, and while paths go there. One that was asked for and has no path keeps its place for
//! [`UNUSED`] at most, and gives way earlier if a new question needs it. One that has not answered
//! has no place.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::mpsc::SyncSender;

use e810::MacAddr;
use e810_net::{NextHop, Ns, Resolution};

use super::Unresolved;
use super::network::StationInterface;
use crate::route::{Neighbour, Route};

pub(super) type Answer = SyncSender<Result<Neighbour, Unresolved>>;

/// How long a destination that was found is kept without a path: as long as a program may take from
/// the answer to its queue pair.
const UNUSED: Ns = Ns::from_secs(5);
/// Time between two checks of these, and of questions that found no place.
const SWEEP_INTERVAL: Ns = Ns::from_ms(100);

/// A destination that has a place, or is to get one.
#[derive(Debug)]
struct Target {
    hop: Option<NextHop>,
    /// Paths go there.
    is_used: bool,
    /// Without paths it is kept until then.
    until: Ns,
}

/// A question.
#[derive(Debug)]
struct Waiting {
    destination: IpAddr,
    /// It was not processed yet.
    is_new: bool,
    until: Ns,
    answer: Answer,
}

/// The route values for packets to a destination.
fn route(interface: &StationInterface, destination: IpAddr) -> Route {
    Route {
        hop_limit: interface.hop_limit(destination),
        ..Route::PLAIN
    }
}

/// The destinations of a station.
#[derive(Debug)]
pub(super) struct Targets {
    all: HashMap<IpAddr, Target>,
    waiting: VecDeque<Waiting>,
    /// How long a question may take.
    limit: Ns,
    sweep_at: Ns,
}

impl Targets {
    pub(super) fn new(limit: Ns) -> Self {
        Self {
            all: HashMap::new(),
            waiting: VecDeque::new(),
            limit,
            sweep_at: Ns::ZERO,
        }
    }

    /// Somebody waits for an answer.
    pub(super) fn is_asked(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn ask(&mut self, destination: IpAddr, answer: Answer, now: Ns) {
        self.waiting.push_back(Waiting {
            destination,
            is_new: true,
            until: now + Ns(self.limit.0),
            answer,
        });
    }

    /// Updates the destinations that paths go to: those added, and those gone.
    pub(super) fn follow(
        &mut self,
        added: &[IpAddr],
        gone: &[IpAddr],
        interface: &mut StationInterface,
        now: Ns,
    ) {
        for destination in gone {
            let Some(target) = self.all.get_mut(destination) else {
                continue;
            };
            target.is_used = false;
            target.until = now;
            let mut waiting = self.waiting.iter();
            if !waiting.any(|waiting| waiting.destination == *destination) {
                self.forget(*destination, interface);
            }
        }
        for destination in added {
            self.place(*destination, interface, now);
            if let Some(target) = self.all.get_mut(destination) {
                target.is_used = true;
            }
        }
    }

    fn forget(&mut self, destination: IpAddr, interface: &mut StationInterface) {
        if let Some(hop) = self.all.remove(&destination).and_then(|target| target.hop) {
            interface.unwatch(hop);
        }
    }

    /// Watches the next hop of a destination, unless it is watched already.
    fn place(
        &mut self,
        destination: IpAddr,
        interface: &mut StationInterface,
        now: Ns,
    ) -> Resolution {
        let target = self.all.get(&destination);
        if target.is_some_and(|target| target.hop.is_some()) {
            return interface.lookup(destination, now);
        }
        let (mut resolution, mut hop) = interface.watch(destination, now);
        while resolution == Resolution::NoRoom
            && let Some(unused) = self.unused()
        {
            self.forget(unused, interface);
            (resolution, hop) = interface.watch(destination, now);
        }
        let target = self.all.entry(destination).or_insert(Target {
            hop: None,
            is_used: false,
            until: now,
        });
        target.hop = hop;
        resolution
    }

    /// The destination found first of those that have a place and no path.
    fn unused(&self) -> Option<IpAddr> {
        let unused = self.all.iter().filter(|(destination, target)| {
            let mut waiting = self.waiting.iter();
            target.hop.is_some()
                && !target.is_used
                && !waiting.any(|waiting| waiting.destination == **destination)
        });
        let first = unused.min_by_key(|(_, target)| target.until);
        first.map(|(destination, _)| *destination)
    }

    /// Answers questions whose next hop is known, or will not become known, and frees places.
    pub(super) fn progress(&mut self, interface: &mut StationInterface, now: Ns) {
        // The others stay in the list meanwhile, so that their places are not given away.
        for _ in 0..self.waiting.len() {
            let Some(mut waiting) = self.waiting.pop_front() else {
                break;
            };
            match self.try_resolve(&mut waiting, interface, now) {
                None => self.waiting.push_back(waiting),
                // The caller may be gone.
                Some(answer) => drop(waiting.answer.try_send(answer)),
            }
        }
        if now < self.sweep_at {
            return;
        }
        self.sweep_at = now + SWEEP_INTERVAL;
        let asked: Vec<_> = self.waiting.iter().map(|of| of.destination).collect();
        let over = self.all.iter().filter(|(destination, target)| {
            !target.is_used && target.until <= now && !asked.contains(destination)
        });
        for destination in over.map(|(ip, _)| *ip).collect::<Vec<_>>() {
            self.forget(destination, interface);
        }
        let unplaced = self.all.iter().filter(|(_, target)| target.hop.is_none());
        for destination in unplaced.map(|(ip, _)| *ip).collect::<Vec<_>>() {
            self.place(destination, interface, now);
        }
    }

    /// The answer to a question; `None` while it is not known.
    fn try_resolve(
        &mut self,
        waiting: &mut Waiting,
        interface: &mut StationInterface,
        now: Ns,
    ) -> Option<Result<Neighbour, Unresolved>> {
        let destination = waiting.destination;
        if std::mem::take(&mut waiting.is_new)
            && let (_, Some(hop)) = interface.watch(destination, now)
        {
            // If it has not answered earlier questions, it is asked at once.
            self.place(destination, interface, now);
            interface.unwatch(hop);
        }
        let resolution = self.place(destination, interface, now);
        let target = self.all.get_mut(&destination)?;
        let via = target.hop.map(|hop| hop.via);
        let answer = match resolution {
            Resolution::Known(mac) => Ok(Neighbour {
                via: via.unwrap_or(destination),
                mac,
                route: route(interface, destination),
            }),
            Resolution::NoRoute => Err(Unresolved::NoRoute { destination }),
            Resolution::NoRoom => Err(Unresolved::NoRoom {
                destination,
                neighbours: interface.neighbour_room(),
            }),
            Resolution::Pending | Resolution::Unreachable if now < waiting.until => return None,
            Resolution::Pending | Resolution::Unreachable => Err(match via {
                Some(via) => Unresolved::NoAnswer {
                    destination,
                    via,
                    limit: self.limit,
                },
                None => Unresolved::NoSource {
                    destination,
                    limit: self.limit,
                },
            }),
        };
        match answer {
            Ok(_) => target.until = now + UNUSED,
            Err(_) if target.is_used => {}
            Err(_) => {
                let mut others = self.waiting.iter();
                if !others.any(|other| other.destination == destination) {
                    self.forget(destination, interface);
                }
            }
        }
        Some(answer)
    }

    /// Where packets to the destinations of paths go, as far as it is known.
    pub(super) fn macs(&self, interface: &StationInterface) -> BTreeMap<IpAddr, MacAddr> {
        let used = self.all.iter().filter(|(_, target)| target.is_used);
        let known = used.filter_map(|(destination, target)| {
            let mac = interface.neighbour(target.hop?.via)?.mac?;
            Some((*destination, mac))
        });
        known.collect()
    }

    /// Places that are taken, for tests.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

#[cfg(test)]
pub(in crate::station) mod tests;
