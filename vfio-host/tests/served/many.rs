//! Many programs with many queue pairs at a time.

use std::env;
use std::fs;

use crate::harness::objects::{RC, flag};
use crate::harness::{Ctx, memory, until};
use crate::server::{Has, Server, World};
use crate::words::Words;

/// The variables with the number of programs, and of queue pairs of each.
const PROGRAMS: &str = "E810_PROGRAMS";
const QUEUE_PAIRS: &str = "E810_QUEUE_PAIRS";
/// The same of `cargo test`.
const FEW: usize = 6;
const FEW_QUEUE_PAIRS: usize = 32;
/// How often all programs come and go: twice until each number of a queue pair has been used, for which
/// there is memory from then on, and then again.
const ROUNDS: usize = 4;
const USED: usize = 2;
/// Growth of the server that is none: what allocators and thread stacks vary by.
const SOME: usize = 4 << 20;

/// Programs that have what they want.
const READY: usize = 0;
/// Not 0: they can give it back.
const GO_ON: usize = 1;

fn of_env(name: &str, few: usize) -> usize {
    env::var(name).map_or(few, |text| text.parse().unwrap())
}

/// Connects pairs of its queue pairs, sends over each, and has them until it is told to go on.
pub(crate) fn has_many() {
    let words = Words::of_test();
    let ctx = Ctx::open(0);
    let count = of_env(QUEUE_PAIRS, FEW_QUEUE_PAIRS);
    let (pd, gid) = (ctx.pd(), ctx.gid(1));
    let mr = pd.mr(memory(4096));
    let cqs = [0, 1].map(|word| ctx.cq(1024, word, None));
    let qps: Vec<_> = (0..count).map(|_| pd.qp(RC, cqs[0], cqs[1])).collect();
    for (number, pair) in qps.chunks_exact(2).enumerate() {
        let (a, b) = (pair[0], pair[1]);
        a.connect(b.number(), gid, 1);
        b.connect(a.number(), gid, 1);
        assert_eq!(b.recv(number as u64, mr.sge(2048, 64)), 0);
        assert_eq!(a.send_of(number as u64, mr.sge(0, 16), flag::SIGNALED), 0);
        for cq in cqs {
            let done = cq.wait(1);
            assert_eq!((done[0].status, done[0].wr_id), (0, number as u64));
        }
    }
    words.add(READY, 1);
    until("the word to go on", || words.get(GO_ON) != 0);
    for qp in qps {
        assert_eq!(qp.destroy(), 0);
    }
    for cq in cqs {
        assert_eq!(cq.destroy(), 0);
    }
    assert_eq!([mr.dereg(), pd.free(), ctx.close()], [0; 3]);
}

/// Bytes of memory that the server has.
fn memory_of(server: &Server) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/statm", server.0.pid())).unwrap();
    let pages: usize = status.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

fn settled(server: &Server, before: Has) -> usize {
    until("the server to have what it had", || server.has() == before);
    memory_of(server)
}

#[test]
fn many_programs_have_many_queue_pairs_and_the_servers_memory_does_not_grow() {
    let programs = of_env(PROGRAMS, FEW);
    let all = programs * of_env(QUEUE_PAIRS, FEW_QUEUE_PAIRS);
    let world = World::new();
    // The function has some for itself.
    let queue_pairs = (all + 16).next_power_of_two().max(1024);
    let mut server = world.server_with(&["--queue-pairs", &queue_pairs.to_string()]);
    let before = server.has();
    let mut most = None;
    for round in 0..ROUNDS {
        for word in [READY, GO_ON] {
            world.words.set(word, 0);
        }
        let running = Vec::from_iter((0..programs).map(|seed| world.part("many", seed as u64)));
        until("all programs", || {
            assert!(!server.0.has_ended(), "{}", server.0.complaints());
            world.words.get(READY) == programs as u64
        });
        let busy = memory_of(&server);
        world.words.set(GO_ON, 1);
        for program in running {
            program.done();
        }
        let idle = settled(&server, before);
        println!(
            "round {round}: {programs} programs, {all} queue pairs: the server has {} MiB, then {} MiB",
            busy >> 20,
            idle >> 20
        );
        match most {
            Some(most) if round >= USED => {
                assert!(idle <= most + SOME, "{idle} bytes, {most} before");
            }
            _ => most = Some(idle),
        }
    }
    server.stop();
}
