//! Programs that are killed at any point, beside two that live long.

use std::env;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{PATIENCE, until};
use crate::pair::Pair;
use crate::server::{Has, Process, Server, World};
use crate::victim::{CHILDREN, Doing, Draw, GRANTED, LEFT, begun, forget};

/// The variable with the number of kills.
pub(crate) const KILLS: &str = "E810_KILLS";
/// Kills of `cargo test`.
const FEW: usize = 60;
/// Programs that live at a time, and are killed.
const AT_A_TIME: usize = 4;
/// How often a victim has begun to do something when it is killed, at the most.
const MOST: [(Doing, usize); 5] = [
    (Doing::Opens, 2),
    (Doing::Commands, 60),
    (Doing::Lends, 40),
    (Doing::Forks, 8),
    (Doing::Posts, 100),
];

/// Waits until the victim has begun to do something so often, and a moment longer.
fn aim(world: &World, number: usize, draw: &mut Draw, victim: &mut Process) {
    let (doing, most) = MOST[draw.below(MOST.len())];
    let times = 1 + draw.below(most) as u64;
    let limit = Instant::now() + PATIENCE;
    while begun(world.words, number, doing) < times {
        assert!(!victim.has_ended(), "{}", victim.complaints());
        assert!(Instant::now() < limit, "{doing:?}: not in time");
        thread::sleep(Duration::from_micros(20));
    }
    let longest = [0, 100, 2000][draw.below(3)];
    if longest > 0 {
        thread::sleep(Duration::from_micros(draw.below(longest) as u64));
    }
}

/// Kills programs until there were so many.
fn kill(world: &World, number: usize, seed: u64, left: &AtomicUsize) {
    let take = || {
        left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
            left.checked_sub(1)
        })
    };
    while let Ok(point) = take() {
        let mut draw = Draw(seed + point as u64);
        forget(world.words, number);
        // The number is in its lowest bits.
        let mut victim = world.part("victim", (seed + point as u64) << 4 | number as u64);
        aim(world, number, &mut draw, &mut victim);
        victim.kill();
    }
}

fn kill_all(world: &World, seed: u64, kills: usize) {
    let left = AtomicUsize::new(kills);
    thread::scope(|scope| {
        for number in 0..AT_A_TIME {
            let left = &left;
            scope.spawn(move || kill(world, number, seed, left));
        }
    });
}

/// Waits until the server has again what it had.
fn all_is_given_back(world: &World, server: &Server, before: Has) {
    until("the children of the dead", || {
        world.words.get(CHILDREN) == 0
    });
    let limit = Instant::now() + PATIENCE;
    loop {
        let has = server.has();
        if has == before {
            return;
        }
        assert!(Instant::now() < limit, "{has:?} is not {before:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// How many objects of the first kinds a program can still make.
fn left(world: &World, kinds: u64) -> [u64; 3] {
    world.part("counts", kinds).done();
    [0, 1, 2].map(|kind| world.words.get(LEFT + kind))
}

#[test]
fn programs_that_are_killed_at_any_point_leave_nothing_and_disturb_nobody() {
    let kills = env::var(KILLS).map_or(FEW, |kills| kills.parse().unwrap());
    let world = World::new();
    let server = world.server();
    let mut pair = Pair::start(&world);
    let before = server.has();
    let kinds = if kills > FEW { 3 } else { 1 };
    let left_before = left(&world, kinds);
    all_is_given_back(&world, &server, before);
    let (mut done, part) = (0, 200);
    while done < kills {
        let now = part.min(kills - done);
        kill_all(&world, 1000 + done as u64, now);
        all_is_given_back(&world, &server, before);
        pair.go_on(&world);
        done += now;
        if kills > FEW {
            println!("{done} killed");
        }
    }
    assert_eq!(world.words.get(GRANTED), 0, "what children were granted");
    assert_eq!(left(&world, kinds), left_before);
    all_is_given_back(&world, &server, before);
    pair.end(&world);
    server.stop();
}
