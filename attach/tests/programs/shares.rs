//! What each program gets of what they share: objects, turns, and what others see of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use e810::{AccessFlags, Wc};
use e810_attach::asker::programs;
use e810_attach::link::{ChannelEnd, Link};
use e810_attach::messages::{
    AllocPd, DeallocPd, Hello, Limit, MOST, Memory, Operation as _, Page, QueryGids, Refused,
    RegMr, Resource, Share, Told, VERSION, Whose, decode, encode,
};
use e810_attach::owner::{AskedLimits, MemoryOf, Owner, SlotsOf};
use e810_attach::reception::Reception;
use e810_backends::HostDevice;

use crate::program::{BYTES, Client, peer};
use crate::{Scenario, with_function};

/// Users that are neither root nor, most likely, this one.
const USER: u32 = 54_321;
const OTHER: u32 = 54_322;
const MOST_BYTES: u64 = 1 << 20;
const LIMIT: Duration = Duration::from_secs(60);

fn reception<D: HostDevice>(owner: &Arc<Owner<D>>, function: &D) -> Arc<Reception<D>> {
    Arc::new(Reception::new(owner.clone(), function.clone()))
}

#[track_caller]
pub(crate) fn limit<T>(refused: Result<T, Refused>) -> (Resource, Whose, u64) {
    let Err(refused) = refused else {
        panic!("it has more than its share");
    };
    assert_eq!(refused.errno, libc::ENOMEM, "{refused}");
    let Some(Limit::OfServer(Share {
        resource,
        whose,
        most,
    })) = refused.limit
    else {
        panic!("{refused:?}");
    };
    // It says what to do.
    for part in [resource.key(), &most.to_string(), "e810 serve --"] {
        assert!(refused.why.contains(part), "{refused}");
    }
    (resource, whose, most)
}

#[derive(Clone, Copy)]
struct Limited;

impl Scenario for Limited {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let reception = reception(owner, function);
        let come = |uid| Client::received(&reception, uid);
        owner.limit(&AskedLimits {
            program: vec![
                (Resource::Qps, 2),
                (Resource::Mrs, 2),
                (Resource::Bytes, MOST_BYTES),
                (Resource::Pds, 3),
            ],
            user: vec![(Resource::Pds, 4), (Resource::Programs, 2)],
            programs: Some(4),
        });
        let a = come(USER).unwrap();
        // A program's.
        let (pd, mut cq) = (a.pd(), a.cq(8));
        let first = a.qp(pd, &cq);
        let _second = a.qp(pd, &cq);
        let third = a.ask_qp(pd, &cq);
        assert_eq!(limit(third), (Resource::Qps, Whose::Program, 2));
        a.destroy_qp(first);
        // Its number comes back when its completion queue has been polled.
        let fourth = a.ask_qp(pd, &cq);
        assert_eq!(limit(fourth), (Resource::Qps, Whose::Program, 2));
        assert_eq!(cq.ring.poll(&mut [Wc::default()]), 0);
        let _third = a.qp(pd, &cq);
        let region = a.region(pd);
        let large = RegMr {
            pd,
            memory: Memory {
                address: region.start.as_ptr().addr(),
                length: MOST_BYTES as usize - BYTES,
            },
            iova: 0,
            access: AccessFlags::LOCAL_WRITE,
        };
        // Its rings count, too.
        let bytes = (Resource::Bytes, Whose::Program, MOST_BYTES);
        assert_eq!(limit(a.ask(large)), bytes);
        let _second = a.region(pd);
        let third = a.ask_region(pd);
        assert_eq!(limit(third), (Resource::Mrs, Whose::Program, 2));
        // A user's.
        let b = come(USER).unwrap();
        a.pd();
        b.pd();
        let number = b.pd();
        assert_eq!(
            limit(b.ask(AllocPd {})),
            (Resource::Pds, Whose::User(USER), 4)
        );
        b.ask(DeallocPd { number }).unwrap();
        b.pd();
        let third = come(USER).map(|_| ());
        assert_eq!(limit(third), (Resource::Programs, Whose::User(USER), 2));
        // Others have theirs, and root has no limits as a user.
        let other = come(OTHER).unwrap();
        other.pd();
        let root = come(0).unwrap();
        for _ in 0..3 {
            root.pd();
        }
        let fourth = limit(root.ask(AllocPd {}));
        assert_eq!(fourth, (Resource::Pds, Whose::Program, 3));
        let fifth = come(OTHER).map(|_| ());
        assert_eq!(limit(fifth), (Resource::Programs, Whose::All, 4));
        // What the dead had comes back.
        a.die();
        b.pd();
        let fourth = limit(b.ask(AllocPd {}));
        assert_eq!(fourth, (Resource::Pds, Whose::Program, 3));
        let again = come(USER).unwrap();
        again.pd();
        assert_eq!(
            limit(again.ask(AllocPd {})),
            (Resource::Pds, Whose::User(USER), 4)
        );
        for client in [b, again, other, root] {
            client.die();
        }
        assert_eq!(reception.programs(), 0);
        assert!(owner.attached().is_empty());
        // Nobody comes any more.
        reception.close();
        let late = come(USER).map(|_| ()).unwrap_err();
        assert!(late.why.contains("takes no new programs"), "{late}");
    }
}

#[test]
fn a_program_and_a_user_get_no_more_than_their_shares() {
    with_function(Limited);
}

/// Threads of the program that floods.
const FLOOD: usize = 4;
const COMMANDS: usize = 2000;

#[derive(Clone, Copy)]
struct Floods;

impl Scenario for Floods {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let reception = reception(owner, function);
        let polite = Client::received(&reception, USER).unwrap();
        let flood = Client::received(&reception, OTHER).unwrap();
        // In the owner's process, so that no socket slows it down.
        let loud = owner.join(Arc::new(Deaf), SlotsOf::Owner, MemoryOf::Owner);
        let is_over = AtomicBool::new(false);
        let flooded = thread::scope(|scope| {
            let floods: Vec<_> = (0..FLOOD)
                .map(|_| {
                    scope.spawn(|| {
                        let mut count = 0_usize;
                        while !is_over.load(Ordering::Relaxed) {
                            let command = QueryGids {}.command();
                            owner.call(loud, command).unwrap();
                            count += 1;
                        }
                        count
                    })
                })
                .collect();
            let other = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    flood.ask(QueryGids {}).unwrap();
                }
            });
            for _ in 0..COMMANDS {
                polite.ask(QueryGids {}).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
            other.join().unwrap();
            let counts = floods.into_iter().map(|flood| flood.join().unwrap());
            counts.sum::<usize>()
        });
        assert!(flooded > 0);
        for program in owner.attached() {
            // Both others, and the owner's own thread: each once.
            let passed = program.counts.passed;
            assert!(passed <= 3, "waited for {passed} commands of others");
            if program.peer.uid == USER {
                assert!(program.counts.commands >= COMMANDS as u64);
            }
        }
        owner.leave(loud, Box::new(()));
        polite.die();
        flood.die();
    }
}

#[derive(Debug)]
struct Deaf;

impl e810_attach::owner::Hears for Deaf {
    fn event(&self, _: e810_attach::messages::ControlEvent) {}
    fn qp_changed(&self, _: e810::QpChange) {}
    fn cq_event(&self, _: e810::CqKey) {}
    fn cq_failed(&self, _: e810::CqKey) {}
    fn connection(&self, _: e810_connect::Told) {}
}

#[test]
fn a_flood_of_commands_delays_others_by_a_turn() {
    with_function(Floods);
}

#[derive(Clone, Copy)]
struct Asks;

/// What the reception says to one who sends this.
fn said<D: HostDevice>(
    reception: &Arc<Reception<D>>,
    uid: u32,
    messages: &[Vec<u8>],
) -> Vec<Vec<u8>> {
    let [of_owner, of_asker] = ChannelEnd::pair();
    for message in messages {
        of_asker.send(message.clone().into()).unwrap();
    }
    thread::scope(|scope| {
        let served = scope.spawn(|| reception.receive(Arc::new(of_owner), peer(uid)));
        let mut said = Vec::new();
        while said.len() < messages.len() {
            let message = of_asker.receive(LIMIT).unwrap();
            said.push(message.expect("an answer").bytes);
        }
        drop(of_asker);
        let _ = served.join().unwrap();
        said
    })
}

fn page<D: HostDevice>(reception: &Arc<Reception<D>>, uid: u32, after: u64) -> Page {
    let said = said(reception, uid, &[encode(&Hello::Programs { after })]);
    match decode(&said[0]).unwrap() {
        Told::Programs(page) => *page,
        told => panic!("{told:?}"),
    }
}

impl Scenario for Asks {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let reception = reception(owner, function);
        let come = |uid| Client::received(&reception, uid).unwrap();
        let (a, b) = (come(USER), come(OTHER));
        let pd = a.pd();
        let _region = a.region(pd);
        b.pd();
        a.ask(DeallocPd { number: 1 << 20 }).unwrap_err();
        // Who asks is no program.
        let seen = page(&reception, USER, 0);
        assert_eq!(reception.programs(), 2);
        assert_eq!((seen.programs, seen.total.pds, seen.total.mrs), (2, 2, 1));
        assert!(!seen.is_closing && !seen.has_more);
        let [row] = &seen.rows[..] else {
            panic!("a user sees the own programs: {seen:?}");
        };
        assert_eq!((row.uid, row.pid), (USER, std::process::id()));
        assert_eq!((row.held.pds, row.held.bytes), (1, BYTES as u64));
        assert_eq!((row.counts.refused, row.unread), (1, 0));
        assert!(row.counts.commands >= 3 && !row.name.is_empty());
        let all = page(&reception, 0, 0).rows;
        assert_eq!(all.len(), 2, "root sees all");
        // Which of the two has joined first is open.
        assert_eq!(page(&reception, 0, all[0].id).rows, all[1..]);
        assert_eq!(page(&reception, USER, u64::MAX).rows, []);
        // More than a message holds.
        let more: Vec<_> = (0..30).map(|_| come(USER)).collect();
        assert!(page(&reception, 0, 0).has_more);
        let [of_owner, of_asker] = ChannelEnd::pair();
        let census = thread::scope(|scope| {
            let of_owner = Arc::new(of_owner);
            scope.spawn(|| reception.receive(of_owner, peer(0)));
            let census = programs(&of_asker);
            drop(of_asker);
            census
        });
        let census = census.unwrap();
        assert_eq!((census.programs, census.rows.len()), (32, 32));
        assert_eq!(census.total.pds, 2);
        // What is no question ends it, and is told as such, in the owner's version.
        let hello = encode(&Hello::Programs { after: 7 });
        let mut other = hello.clone();
        other[0] += 1;
        let mut longer = hello.clone();
        longer.push(0);
        for (bytes, part) in [
            (vec![0xFF; MOST], "version 255"),
            (other, "version"),
            (longer, "not a message"),
            (hello[..1].to_vec(), "not a message"),
            (vec![VERSION, 9], "not a message"),
        ] {
            let said = said(&reception, USER, &[bytes]);
            assert_eq!(said[0][0], VERSION);
            let Told::Refused(refused) = decode(&said[0]).unwrap() else {
                panic!("{said:?}");
            };
            assert!(refused.why.contains(part), "{refused}");
        }
        for client in more.into_iter().chain([a, b]) {
            client.die();
        }
        let limit = Instant::now() + LIMIT;
        while reception.programs() > 0 {
            assert!(Instant::now() < limit, "places do not come back");
            thread::yield_now();
        }
    }
}

#[test]
fn who_asks_about_programs_is_none() {
    with_function(Asks);
}

/// The device gives up no region.
#[derive(Clone, Copy)]
struct Keeps;

impl Scenario for Keeps {
    fn configure(self, sim: &e810_sim::Sim) {
        const DEALLOC_STAG: u8 = 0x0d;
        sim.configure_engine(0, |config| {
            config.cqp_errors = e810_sim::pe::CqpErrors::Opcode(DEALLOC_STAG);
        });
    }

    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let reception = reception(owner, function);
        owner.limit(&AskedLimits {
            user: vec![(Resource::Mrs, 1)],
            ..AskedLimits::default()
        });
        let first = Client::received(&reception, USER).unwrap();
        let pd = first.pd();
        let _region = first.region(pd);
        let refused = first.ask_region(pd).map(drop);
        assert_eq!(limit(refused), (Resource::Mrs, Whose::User(USER), 1));
        first.die();
        // The device still has the region of the first one.
        let second = Client::received(&reception, USER).unwrap();
        let pd = second.pd();
        let refused = second.ask_region(pd).map(drop);
        assert_eq!(limit(refused), (Resource::Mrs, Whose::User(USER), 1));
    }
}

#[test]
fn what_the_device_does_not_give_up_counts_as_the_users() {
    with_function(Keeps);
}

/// As many programs as a user may have come together, as the ranks of a job do: all have connected
/// before the first of them says so.
#[derive(Clone, Copy)]
struct ComeTogether;

impl Scenario for ComeTogether {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let reception = reception(owner, function);
        owner.limit(&AskedLimits::default());
        let most = owner.limits().user.of(Resource::Programs);
        let refused = thread::scope(|scope| {
            let ends: Vec<_> = (0..most)
                .map(|_| {
                    let [of_owner, of_program] = ChannelEnd::pair();
                    let reception = &reception;
                    scope.spawn(move || {
                        let _ = reception.receive(Arc::new(of_owner), peer(USER));
                    });
                    of_program
                })
                .collect();
            // Each has a place as a visitor, or was refused one.
            let refused =
                ends.iter()
                    .filter_map(|end| match end.receive(Duration::from_millis(20)) {
                        Ok(Some(message)) => Some(decode::<Told>(&message.bytes).unwrap()),
                        _ => None,
                    });
            let refused: Vec<_> = refused.collect();
            for end in &ends {
                // One that was refused is gone.
                let _ = end.send(encode(&Hello::Attach).into());
            }
            drop(ends);
            refused
        });
        assert!(
            refused.is_empty(),
            "{} of {most} programs of a user, who may have as many: {:?}",
            refused.len(),
            refused[0]
        );
    }
}

#[test]
fn a_user_may_start_all_programs_together() {
    with_function(ComeTogether);
}
