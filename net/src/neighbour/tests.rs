//! The state machine in virtual time.

use core::net::{IpAddr, Ipv4Addr};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

struct Bench {
    cache: Neighbours<[Place; 8]>,
    events: Events,
    now: Ns,
}

impl Bench {
    fn new() -> Self {
        Self {
            cache: Neighbours::new([const { Place::EMPTY }; 8], Random::new(MAC, 1)),
            events: Events::new(),
            now: Ns::ZERO,
        }
    }

    /// With A reachable.
    fn reachable() -> Self {
        let mut bench = Self::new();
        bench.cache.lookup(A, bench.now);
        bench.run(1);
        assert_eq!(bench.reply(Some(MAC), true, true), Heard::Taken);
        assert_eq!(bench.state(), Some(NeighbourState::Reachable));
        assert_eq!(bench.events(), [Event::NeighbourKnown { ip: A, mac: MAC }]);
        bench
    }

    fn state(&self) -> Option<NeighbourState> {
        self.cache.state(A)
    }

    fn lookup(&mut self) -> Resolution {
        self.cache.lookup(A, self.now)
    }

    fn reply(&mut self, mac: Option<MacAddr>, is_solicited: bool, overrides: bool) -> Heard {
        let reply = Reply {
            ip: A,
            mac,
            is_solicited,
            overrides,
            is_router: false,
        };
        self.cache.reply(&reply, self.now, &mut self.events)
    }

    /// Lets so many milliseconds pass; the solicitations, and when.
    fn run(&mut self, ms: u64) -> Vec<(u64, Option<MacAddr>)> {
        let end = self.now + Ns::from_ms(ms);
        let mut sent = vec![];
        loop {
            while let Some(solicit) = self.cache.due(self.now, &mut self.events) {
                sent.push((self.now.0 / 1_000_000, solicit.to));
            }
            match self.cache.deadline() {
                Some(at) if at <= end => self.now = at,
                _ => break,
            }
        }
        self.now = end;
        sent
    }

    fn events(&mut self) -> Vec<Event> {
        core::iter::from_fn(|| self.events.pop()).collect()
    }
}

#[test]
fn an_address_that_nobody_has_is_asked_for_three_times() {
    let mut bench = Bench::new();
    assert_eq!(bench.lookup(), Resolution::Pending);
    assert_eq!(bench.run(2999), [(0, None), (1000, None), (2000, None)]);
    assert_eq!(bench.lookup(), Resolution::Pending);
    bench.run(1);
    assert_eq!(bench.lookup(), Resolution::Unreachable);
    assert_eq!(bench.events(), [Event::NeighbourUnreachable(A)]);
    // A program that asks all the time does not make it more than three in six seconds.
    let mut sent = 0;
    for _ in 0..600 {
        sent += bench.run(100).len();
        bench.lookup();
    }
    assert!((28..=32).contains(&sent), "{sent}");
}

#[test]
fn a_lost_solicitation_is_sent_again() {
    for lost in 0..3 {
        let mut bench = Bench::new();
        bench.lookup();
        assert_eq!(bench.run(lost * 1000 + 5).len() as u64, lost + 1);
        bench.reply(Some(MAC), true, true);
        assert_eq!(bench.lookup(), Resolution::Known(MAC));
    }
}

#[test]
fn reachable_stale_delay_probe_and_reachable_again() {
    let mut bench = Bench::reachable();
    // Between half of 30 s and three halves.
    assert!(bench.run(14_999).is_empty());
    assert_eq!(bench.state(), Some(NeighbourState::Reachable));
    assert!(bench.run(30_002).is_empty(), "nobody uses it, nobody asks");
    assert_eq!(bench.state(), Some(NeighbourState::Stale));
    assert_eq!(bench.lookup(), Resolution::Known(MAC));
    assert_eq!(bench.state(), Some(NeighbourState::Delay));
    assert!(bench.run(4999).is_empty());
    // Two probes are lost.
    let probes = bench.run(2500);
    assert_eq!(probes.len(), 3);
    assert!(
        probes.iter().all(|(_, to)| *to == Some(MAC)),
        "to the neighbour alone"
    );
    assert_eq!(bench.lookup(), Resolution::Known(MAC));
    bench.reply(None, true, false);
    assert_eq!(bench.state(), Some(NeighbourState::Reachable));
    assert_eq!(bench.events(), []);
}

#[test]
fn a_hint_from_above_saves_the_probe() {
    let mut bench = Bench::reachable();
    bench.run(46_000);
    bench.lookup();
    bench.cache.confirm(A, bench.now);
    assert_eq!(bench.state(), Some(NeighbourState::Reachable));
    assert!(bench.run(14_000).is_empty());
}

#[test]
fn a_neighbour_that_is_gone_is_unreachable_and_then_forgotten() {
    let mut bench = Bench::reachable();
    bench.run(46_000);
    bench.lookup();
    assert_eq!(bench.run(8000).len(), 3);
    assert_eq!(bench.state(), Some(NeighbourState::Failed));
    assert_eq!(bench.events(), [Event::NeighbourUnreachable(A)]);
    bench.run(3001);
    assert_eq!(bench.state(), None);
}

#[test]
fn an_entry_that_nobody_uses_goes() {
    let mut bench = Bench::reachable();
    bench.run(45_000 + 60_000 + 1);
    assert_eq!(bench.state(), None);
    assert_eq!(bench.events(), []);
    assert_eq!(bench.cache.deadline(), None);
}

#[test]
fn a_watched_neighbour_is_asked_until_it_is_back() {
    let mut bench = Bench::reachable();
    assert_eq!(bench.cache.watch(A, bench.now), Resolution::Known(MAC));
    // It is gone for an hour.
    let asked = bench.run(3_600_000);
    assert_eq!(bench.events(), [Event::NeighbourUnreachable(A)], "once");
    // Three in each 51 s at the end.
    assert!((200..240).contains(&asked.len()), "{}", asked.len());
    assert_eq!(bench.reply(Some(OTHER), false, true), Heard::Taken);
    assert_eq!(
        bench.events(),
        [Event::NeighbourKnown { ip: A, mac: OTHER }]
    );
    assert_eq!(
        bench.run(0),
        [(bench.now.0 / 1_000_000, Some(OTHER))],
        "is that true?"
    );
    bench.reply(Some(OTHER), true, true);
    assert_eq!(bench.state(), Some(NeighbourState::Reachable));
    bench.cache.unwatch(A);
    bench.run(200_000);
    assert_eq!(bench.state(), None);
}

#[test]
fn places_are_given_back() {
    let mut bench = Bench::new();
    let ip = |n: u32| IpAddr::from(n.to_be_bytes());
    // One that answers and one that does not, and who watched them goes: more than there is room
    // for, within the time that a lookup keeps an entry.
    for n in 0..3000 {
        let [there, silent] = [ip(0x0A00_0000 + n), ip(0x0B00_0000 + n)];
        for ip in [there, silent] {
            assert_eq!(bench.cache.watch(ip, bench.now), Resolution::Pending, "{n}");
        }
        bench.run(1);
        let reply = Reply {
            ip: there,
            mac: Some(MAC),
            is_solicited: true,
            overrides: true,
            is_router: false,
        };
        bench.cache.reply(&reply, bench.now, &mut bench.events);
        assert_eq!(bench.cache.lookup(there, bench.now), Resolution::Known(MAC));
        for ip in [there, silent] {
            bench.cache.unwatch(ip);
        }
        assert_eq!(bench.cache.state(silent), None, "nobody waits for it");
        bench.events();
    }
    // What is watched is full at the bound, and nothing else is taken for it.
    for n in 0..8 {
        assert_eq!(bench.cache.watch(ip(n), bench.now), Resolution::Pending);
    }
    assert_eq!(bench.cache.watch(ip(8), bench.now), Resolution::NoRoom);
    bench.cache.unwatch(ip(3));
    assert_eq!(bench.cache.watch(ip(8), bench.now), Resolution::Pending);
}

#[test]
fn who_asks_again_does_not_wait_for_the_next_attempt() {
    let mut bench = Bench::new();
    bench.cache.watch(A, bench.now);
    bench.run(3_600_000);
    assert_eq!(bench.state(), Some(NeighbourState::Failed));
    assert_eq!(bench.lookup(), Resolution::Unreachable);
    assert_eq!(bench.cache.watch(A, bench.now), Resolution::Pending);
    assert_eq!(bench.run(0).len(), 1);
}

/// RFC 4861 appendix C, the part about advertisements.
#[test]
fn advertisements_change_states_as_the_rfc_says() {
    use NeighbourState::{Reachable, Stale};
    let cases = [
        // MAC, solicited, override: state, MAC afterwards.
        (Some(MAC), true, false, Reachable, MAC),
        (Some(MAC), true, true, Reachable, MAC),
        (Some(MAC), false, true, Reachable, MAC),
        (Some(MAC), false, false, Reachable, MAC),
        (Some(OTHER), true, false, Stale, MAC),
        (Some(OTHER), true, true, Reachable, OTHER),
        (Some(OTHER), false, false, Stale, MAC),
        (Some(OTHER), false, true, Stale, OTHER),
        (None, true, true, Reachable, MAC),
        (None, false, true, Reachable, MAC),
    ];
    for (mac, is_solicited, overrides, state, after) in cases {
        let mut bench = Bench::reachable();
        bench.run(1001);
        bench.reply(mac, is_solicited, overrides);
        assert_eq!(
            bench.state(),
            Some(state),
            "{mac:?} {is_solicited} {overrides}"
        );
        assert_eq!(bench.lookup(), Resolution::Known(after));
        let moved = Event::NeighbourMoved {
            ip: A,
            from: MAC,
            to: OTHER,
        };
        let moved = (after == OTHER).then_some(moved);
        assert_eq!(bench.events(), Vec::from_iter(moved));
    }
    // INCOMPLETE: with a MAC address only.
    for (is_solicited, state) in [(true, Reachable), (false, Stale)] {
        let mut bench = Bench::new();
        bench.lookup();
        assert_eq!(bench.reply(None, is_solicited, true), Heard::Unasked);
        assert_eq!(bench.lookup(), Resolution::Pending);
        bench.reply(Some(MAC), is_solicited, false);
        assert_eq!(bench.state(), Some(state));
    }
}

#[test]
fn a_router_that_is_none_any_longer_is_recognised() {
    let mut bench = Bench::reachable();
    let reply = |is_router| Reply {
        ip: A,
        mac: Some(MAC),
        is_solicited: true,
        overrides: true,
        is_router,
    };
    let mut hear = |is_router| {
        bench
            .cache
            .reply(&reply(is_router), bench.now, &mut bench.events)
    };
    assert_eq!(hear(true), Heard::Taken);
    assert_eq!(hear(true), Heard::Taken);
    assert_eq!(hear(false), Heard::NoRouter);
    assert_eq!(hear(false), Heard::Taken);
}

#[test]
fn requests_teach_only_where_room_is_free() {
    let mut bench = Bench::new();
    let ip = |n: u8| IpAddr::from([10, 0, 0, n]);
    let mut learn = |n: u8| {
        let (cache, events) = (&mut bench.cache, &mut bench.events);
        cache.learn(ip(n), MAC, bench.now, events)
    };
    assert_eq!([learn(1), learn(2), learn(3)], [true, true, false]);
    assert!(learn(1), "known already");
    for n in 10..18 {
        assert_eq!(bench.cache.lookup(ip(n), bench.now), Resolution::Pending);
    }
    assert_eq!(bench.cache.lookup(ip(18), bench.now), Resolution::NoRoom);
    assert_eq!(bench.cache.state(ip(1)), None, "it gave way");
    let (cache, events) = (&mut bench.cache, &mut bench.events);
    assert!(
        !cache.learn(ip(1), MAC, bench.now, events),
        "no room is free"
    );
    // What was asked for is learnt from a question as well.
    assert!(cache.learn(ip(10), MAC, bench.now, events));
    assert_eq!(cache.lookup(ip(10), bench.now), Resolution::Known(MAC));
}

proptest! {
    /// Whatever happens in whatever order: a watched neighbour stays, learnt entries are few, and
    /// nothing is due when all that is due was done.
    #[test]
    fn any_history(
        steps in proptest::collection::vec((0u8..8, 0u8..16, 0u8..3, any::<[bool; 3]>(), 0u64..20_000), 1..300),
    ) {
        let mut bench = Bench::new();
        let mut watched: Vec<IpAddr> = vec![];
        for (step, ip, mac, flags, ms) in steps {
            let ip = IpAddr::from([10, 0, 0, ip]);
            let mac = MacAddr([2, 0, 0, 0, 0, mac]);
            let now = bench.now;
            match step {
                0 | 1 => drop(bench.cache.lookup(ip, now)),
                2 if watched.len() < 6 => {
                    if bench.cache.watch(ip, now) != Resolution::NoRoom {
                        watched.push(ip);
                    }
                }
                2 | 3 => {
                    if let Some(ip) = watched.pop() {
                        bench.cache.unwatch(ip);
                    }
                }
                4 => drop(bench.cache.learn(ip, mac, now, &mut bench.events)),
                5 | 6 => {
                    let [is_solicited, overrides, is_router] = flags;
                    let mac = Some(mac).filter(|_| step == 5);
                    let reply = Reply { ip, mac, is_solicited, overrides, is_router };
                    bench.cache.reply(&reply, now, &mut bench.events);
                }
                _ => {
                    let sent = bench.run(ms);
                    // Twice three solicitations in a good second, for each entry.
                    prop_assert!(sent.len() <= 8 * 6 * (1 + ms as usize / 1000));
                    bench.events();
                }
            }
            bench.run(0);
            prop_assert!(bench.cache.deadline().is_none_or(|at| at > bench.now));
            prop_assert!(bench.cache.table.len() <= 8);
            let learnt = bench.cache.table.iter().filter(|entry| entry.is_learnt);
            prop_assert!(learnt.count() <= bench.cache.learnt_room());
            for ip in &watched {
                let users = watched.iter().filter(|other| *other == ip).count();
                let entry = bench.cache.iter().find(|entry| entry.ip == *ip);
                prop_assert_eq!(entry.map(|entry| usize::from(entry.users)), Some(users));
            }
        }
    }
}
