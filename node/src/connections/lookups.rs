//! Neighbours of connections: asked for without a wait, and remembered for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound::{Excluded, Unbounded};

use e810::{Control, MacAddr};
use e810_backends::interrupts::HostPlatform;
use e810_cm::machine::Connect;
use e810_connect::{Lookup, Neighbours, Question};
use e810_hal::Ns;

use super::Program;
use crate::neighbours::NeighbourTracker;
use crate::route::{self, HOP_LIMIT};
use crate::station::PendingResolve;

/// How long an answer is believed, unless the tracker has a newer one.
const KNOWN: Ns = Ns::from_secs(30);
/// How long it is believed that nobody answers.
const UNREACHABLE: Ns = Ns::from_ms(1_000);
/// Answers that are kept. With each question beyond, another one gives way, round and round.
const ANSWERS: usize = 4096;
/// Questions under way. Strangers cause some, whose addresses may be invented.
const ASKED: usize = 256;
/// Questions that are known to be a program's. When it has asked for more, all count as strangers'.
const WANTED: usize = 1024;
/// Those of one program, or of all strangers.
const SHARE: usize = 64;
/// A program that has asked fewer may ask beyond [`ASKED`], up to twice as many of all programs, so
/// that those who ask for many hold up nobody else.
const FEW: usize = 4;

/// What is known of ways to peers.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    asked: BTreeMap<Question, (PendingResolve, Option<Program>)>,
    /// How many of them are whose; `None`: strangers'.
    counts: BTreeMap<Option<Program>, usize>,
    /// Programs that have asked for a connection there.
    wanted: BTreeSet<(Question, Program)>,
    /// How many of these are of each program.
    of_program: BTreeMap<Program, usize>,
    answered: BTreeMap<Question, (Lookup, Ns)>,
    /// The answer that gave way last.
    gone: Option<Question>,
    /// There was no room for a question.
    is_full: bool,
    /// Our own addresses: what goes there comes back.
    own: Vec<IpAddr>,
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
        self.is_full = false;
        self.take_answers(now);
        View {
            lookups: self,
            tracker,
            now,
        }
    }

    /// Whether an answer is awaited, or room for a question.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_full || !self.asked.is_empty()
    }

    /// Takes all answers: whoever asked may have gone.
    fn take_answers(&mut self, now: Ns) {
        let (answered, counts) = (&mut self.answered, &mut self.counts);
        self.asked.retain(|question, (pending, whose)| {
            let Some(answer) = pending.try_take() else {
                return true;
            };
            let known = match answer {
                Ok(neighbour) => {
                    let known = Lookup::Known(neighbour.mac, neighbour.route.hop_limit);
                    (known, now + KNOWN)
                }
                Err(error) => {
                    log::debug!("{error}");
                    (Lookup::Unreachable, now + UNREACHABLE)
                }
            };
            answered.insert(*question, known);
            if let Some(count) = counts.get_mut(whose) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(whose);
                }
            }
            false
        });
    }

    /// The program is gone.
    pub(super) fn forget(&mut self, program: Program) {
        if self.of_program.remove(&program).is_some() {
            self.wanted.retain(|(_, whose)| *whose != program);
        }
    }

    /// The program for which this is asked: of several, one that has asked least. `None`: a stranger.
    fn asker(&self, question: &Question) -> Option<Program> {
        let (first, last) = (Program(0), Program(u64::MAX));
        let all = self.wanted.range((*question, first)..=(*question, last));
        let all = all.map(|(_, whose)| *whose);
        all.min_by_key(|whose| self.counts.get(&Some(*whose)).copied())
    }

    /// Makes room for one more answer; `false` while as many as can be are being asked for.
    fn make_room(&mut self, whose: Option<Program>) -> bool {
        let its = self.counts.get(&whose).copied().unwrap_or_default();
        let most = match whose {
            Some(_) if its < FEW => 2 * ASKED,
            _ => ASKED,
        };
        if self.asked.len() >= most || its >= SHARE {
            return false;
        }
        if self.answered.len() + self.asked.len() >= ANSWERS {
            let from = self.gone.map_or(Unbounded, Excluded);
            let next = self.answered.range((from, Unbounded)).next();
            let next = next.or_else(|| self.answered.iter().next());
            self.gone = next.map(|(question, _)| *question);
            if let Some(question) = &self.gone {
                self.answered.remove(question);
            }
        }
        true
    }
}

/// The same, with who can be asked.
pub(super) struct View<'a, P: HostPlatform> {
    lookups: &'a mut Lookups,
    tracker: Option<&'a NeighbourTracker<P>>,
    now: Ns,
}

impl<P: HostPlatform> View<'_, P> {
    pub(super) fn is_own(&self, address: IpAddr) -> bool {
        self.lookups.own.contains(&address)
    }

    /// A program asks for a connection.
    pub(super) fn wants(&mut self, program: Program, connect: &Connect<'_>) {
        let question = Question {
            own: connect.source,
            vlan: connect.vlan,
            destination: connect.destination,
        };
        let Lookups {
            wanted, of_program, ..
        } = &mut *self.lookups;
        let its = of_program.entry(program).or_default();
        // Most are of connections that are over.
        if *its >= WANTED {
            wanted.retain(|(_, whose)| *whose != program);
            *its = 0;
        }
        *its += usize::from(wanted.insert((question, program)));
    }
}

impl<P: HostPlatform> Neighbours for View<'_, P> {
    fn lookup(&mut self, question: &Question) -> Lookup {
        let (lookups, destination) = (&mut *self.lookups, question.destination);
        let answered = lookups.answered.get(question);
        if let Some((lookup, _)) = answered.filter(|(_, until)| self.now < *until) {
            // The neighbour may have moved meanwhile.
            let newer = self.tracker.and_then(|tracker| tracker.mac_of(destination));
            return match (*lookup, newer) {
                (Lookup::Known(_, hop_limit), Some(mac)) => Lookup::Known(mac, hop_limit),
                (lookup, _) => lookup,
            };
        }
        if lookups.asked.contains_key(question) {
            return Lookup::Pending;
        }
        let known = route::known_mac(&lookups.own, lookups.mac, destination);
        let Some(tracker) = self.tracker else {
            return known.map_or(Lookup::Unreachable, |mac| Lookup::Known(mac, HOP_LIMIT));
        };
        // The function knows its own addresses.
        if let Some(mac) = known.filter(|_| lookups.own.contains(&destination)) {
            return Lookup::Known(mac, HOP_LIMIT);
        }
        let whose = lookups.asker(question);
        if !lookups.make_room(whose) {
            lookups.is_full = true;
            return Lookup::Pending;
        }
        let pending = tracker.begin_resolve(route::Question {
            destination,
            vlan: question.vlan,
            known,
        });
        lookups.asked.insert(*question, (pending, whose));
        *lookups.counts.entry(whose).or_default() += 1;
        lookups.take_answers(self.now);
        match lookups.answered.get(question) {
            Some((lookup, until)) if self.now < *until => *lookup,
            _ => Lookup::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{SyncSender, sync_channel};
    use std::sync::{Arc, Mutex};

    use anyhow::Result;
    use e810_sim::SimPlatform;

    use super::*;
    use crate::neighbours::Resolver;
    use crate::route::{Neighbour, Route};
    use crate::station::Unresolved;

    type Answers = Arc<Mutex<Vec<(IpAddr, SyncSender<Result<Neighbour, Unresolved>>)>>>;

    /// Keeps the questions.
    struct Asked(Answers);

    impl Resolver<SimPlatform> for Asked {
        fn join(&self, _: IpAddr) {}

        fn begin_resolve(&self, question: route::Question) -> PendingResolve {
            let (answer, answered) = sync_channel(1);
            let destination = question.destination;
            self.0.lock().unwrap().push((destination, answer));
            PendingResolve::new(destination, answered, Ns::from_secs(1))
        }

        fn trusts_peers(&self) -> bool {
            false
        }

        fn follow(&self, _: Vec<IpAddr>, _: Vec<IpAddr>) {}

        fn mac_of(&self, _: IpAddr) -> Option<MacAddr> {
            None
        }

        fn progress(&mut self, _: &mut Control<SimPlatform>, _: &mut dyn FnMut()) -> Result<bool> {
            Ok(false)
        }

        fn close(self: Box<Self>, _: &mut Control<SimPlatform>) -> Result<()> {
            Ok(())
        }
    }

    fn question(number: u32) -> Question {
        Question {
            own: [192, 0, 2, 1].into(),
            vlan: None,
            destination: IpAddr::from((0x0A00_0000 + number).to_be_bytes()),
        }
    }

    #[test]
    fn questions_whose_askers_have_gone_leave_room_for_others() {
        let answers = Answers::default();
        let tracker = NeighbourTracker::new(Asked(Arc::clone(&answers)));
        let mut lookups = Lookups::default();
        let mut now = Ns::from_secs(1);
        let mut look = |number, now| {
            lookups.take_answers(now);
            let mut view = View {
                lookups: &mut lookups,
                tracker: Some(&tracker),
                now,
            };
            view.lookup(&question(number))
        };
        let mac = MacAddr([2, 0, 0, 0, 0, 9]);
        for round in 0..20 {
            let numbers = (0..1000).map(|n| round * 1000 + n);
            for number in numbers {
                assert_eq!(look(number, now), Lookup::Pending);
            }
            let asked: Vec<_> = std::mem::take(&mut *answers.lock().unwrap());
            assert_eq!(asked.len(), SHARE);
            // Nobody looks at these again; the answers come all the same, or never.
            for (n, (via, answer)) in asked.into_iter().enumerate() {
                let neighbour = Neighbour {
                    via,
                    mac,
                    route: Route::PLAIN,
                };
                match n % 3 {
                    0 => answer.send(Ok(neighbour)).unwrap(),
                    1 => {
                        let destination = via;
                        answer
                            .send(Err(Unresolved::NoRoute { destination }))
                            .unwrap();
                    }
                    _ => {}
                }
            }
            assert_eq!(look(round * 1000, now), Lookup::Known(mac, HOP_LIMIT));
            assert_eq!(look(round * 1000 + 1, now), Lookup::Unreachable);
            assert_eq!(look(round * 1000 + 2, now), Lookup::Unreachable);
            now = now + Ns::from_secs(1);
        }
        assert!(lookups.answered.len() <= ANSWERS && lookups.asked.is_empty());
    }

    /// Nobody is asked for the function's own addresses, and a program that asks for many holds up no
    /// other one.
    #[test]
    fn programs_have_shares_of_the_questions() {
        let answers = Answers::default();
        let tracker = NeighbourTracker::new(Asked(Arc::clone(&answers)));
        let mut lookups = Lookups {
            own: vec![[192, 0, 2, 1].into()],
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            ..Lookups::default()
        };
        let mut view = View {
            lookups: &mut lookups,
            tracker: Some(&tracker),
            now: Ns::from_secs(1),
        };
        assert!(view.is_own([192, 0, 2, 1].into()) && !view.is_own([192, 0, 2, 2].into()));
        let mut ask = |program, number| {
            let Question {
                own, destination, ..
            } = question(number);
            let to = std::net::SocketAddr::from((destination, 7471));
            view.wants(Program(program), &Connect::new(own, to));
            assert_eq!(view.lookup(&question(number)), Lookup::Pending);
            let asked = answers.lock().unwrap();
            asked.iter().any(|(asked, _)| *asked == destination)
        };
        for number in 0..1000 {
            let is_asked = ask(1, number);
            assert_eq!(is_asked, number < SHARE as u32, "{number}");
        }
        // Others of its kind take all places but a few of each.
        for program in 2..10 {
            for number in 0..100 {
                ask(program, 1000 * program as u32 + number);
            }
        }
        let asked = answers.lock().unwrap().len();
        assert!((ASKED..2 * ASKED).contains(&asked), "{asked}");
        assert!(ask(99, 1 << 20), "nobody is asked for the peer");
        // Also where one of the others asks for the same peer.
        assert!(!ask(1, 1 << 21));
        assert!(ask(98, 1 << 21), "nobody is asked for the peer");
        let own = Question {
            destination: [192, 0, 2, 1].into(),
            ..question(0)
        };
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        assert_eq!(view.lookup(&own), Lookup::Known(mac, HOP_LIMIT));
    }

    /// Senders of requests may have invented their addresses, and a gateway answers for all of them.
    #[test]
    fn strangers_leave_room_for_a_program_that_asks() {
        let answers = Answers::default();
        let tracker = NeighbourTracker::new(Asked(Arc::clone(&answers)));
        let mut lookups = Lookups::default();
        let mut look = |number, now| {
            lookups.take_answers(now);
            let mut view = View {
                lookups: &mut lookups,
                tracker: Some(&tracker),
                now,
            };
            view.lookup(&question(number))
        };
        // 200 a second, for 25 s.
        for number in 0..5000 {
            let now = Ns::from_ms(1_000 + 5 * u64::from(number));
            look(number, now);
            for (via, answer) in std::mem::take(&mut *answers.lock().unwrap()) {
                let neighbour = Neighbour {
                    via,
                    mac: MacAddr([2, 0, 0, 0, 0, 9]),
                    route: Route::PLAIN,
                };
                answer.send(Ok(neighbour)).unwrap();
            }
        }
        // The program's peer.
        look(1 << 20, Ns::from_secs(26));
        let asked = answers.lock().unwrap().len();
        assert_eq!(asked, 1, "nobody is asked for the peer");
    }
}
