//! Completions in a thread of their own, which sleeps on its channel's descriptor.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use e810::polling::{CqPoller, PollMode, Processed};
use e810::{Platform, SendFlags, Wc};
use e810_backends::channel::HostChannel;
use e810_sim::{Mode, Sim};
use e810_tests::traffic::{Pair, Setup};

/// Far above what a thread or a message takes.
const LIMIT: Duration = Duration::from_secs(300);

/// What the worker says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Said {
    /// A completion, and which it is.
    Completed(u64),
    /// Nothing is there, an event was asked for, and it waits for that.
    Sleeps,
}

/// Takes `count` completions of `poller`, whose queue is on `channel`. Nobody waits
/// for it but who reads `say`, for whom it waits in turn: it may block wherever it
/// likes.
fn work<P: Platform>(
    platform: &P,
    channel: &HostChannel<P>,
    poller: &mut CqPoller<P>,
    count: u64,
    say: &SyncSender<Said>,
) {
    let mut taken = 0;
    while taken < count {
        let processed = poller.process(platform.now(), &mut |wc: &Wc| {
            assert_eq!(wc.wr_id, 1);
            say.send(Said::Completed(taken)).unwrap();
            taken += 1;
        });
        if processed == Processed::Sleep && taken < count {
            say.send(Said::Sleeps).unwrap();
            let event = channel.next(LIMIT).unwrap();
            assert_eq!(event.cq(), poller.cq().key());
            channel.channel().acknowledge(event, 1).unwrap();
        }
    }
}

/// Hears the worker until it sleeps having taken the completion before number
/// `next`, or, for `last`, until it has taken that. How often it went to sleep.
fn hear(said: &Receiver<Said>, next: &mut u64, until: u64, last: bool) -> u32 {
    let mut sleeps = 0;
    loop {
        match said.recv_timeout(LIMIT).unwrap() {
            Said::Completed(number) => {
                assert_eq!(number, *next);
                *next += 1;
                if last && *next == until {
                    return sleeps;
                }
            }
            Said::Sleeps => {
                sleeps += 1;
                if *next == until {
                    return sleeps;
                }
            }
        }
    }
}

/// The third context beside polling directly and after events in a handler: the
/// handler only wakes the worker, and completions are used in user context.
#[test]
fn a_worker_sleeps_and_takes_every_completion() {
    const ROUNDS: u64 = 60;
    let size = |round: u64| 1 + round * 7 % 40;
    let count = (0..ROUNDS).map(size).sum();

    let sim = Sim::builder()
        .functions(2)
        .seed(70)
        .mode(Mode::Real)
        .build();
    let setup = Setup {
        separate_cqs: true,
        channel: true,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    let side = &mut pair.sides[1];
    let events = Arc::new(Mutex::new(side.lend_events()));
    sim.set_interrupt_hook(1, {
        let events = Arc::clone(&events);
        Some(Box::new(move |vector| {
            let mut events = events.lock().unwrap_or_else(PoisonError::into_inner);
            for part in events.iter_mut().filter(|part| part.vector() == vector) {
                while part.on_vector(&mut |_| {}).more {}
            }
        }))
    });
    let channel = HostChannel::new(side.channel.clone().unwrap()).unwrap();
    let platform = side.platform.clone();
    let mut poller = CqPoller::new(side.cqs.pop().unwrap(), PollMode::worker());
    let before = sim.stats(1);
    std::thread::scope(|scope| {
        let (say, said) = sync_channel(1);
        let worker = scope.spawn(|| {
            let say = say;
            work(&platform, &channel, &mut poller, count, &say);
        });
        let mut next = 0;
        assert_eq!(hear(&said, &mut next, 0, false), 1, "it is empty");
        for round in 0..ROUNDS {
            // It sleeps, so that only an event brings it to these.
            for _ in 0..size(round) {
                pair.message(SendFlags::empty());
            }
            let until = next + size(round);
            hear(&said, &mut next, until, round + 1 == ROUNDS);
            let cq = &mut pair.sides[0].cqs[0];
            while cq.poll(&mut [Wc::default(); 16]) > 0 {}
        }
        worker.join().unwrap();
    });
    assert_eq!(poller.process_direct(1, &mut |_| {}), 0);
    let after = sim.stats(1);
    let reported = after.ceqes - before.ceqes;
    assert!(reported >= ROUNDS, "{reported}: it was woken each time");
    assert!(reported <= after.arms - before.arms);
    sim.set_interrupt_hook(1, None);
    // A thread may be in it still.
    while Arc::strong_count(&events) > 1 {
        std::thread::yield_now();
    }
    // What came of a last request is nobody's.
    while let Some(event) = channel.try_next().unwrap() {
        channel.channel().acknowledge(event, 1).unwrap();
    }
    drop(channel);
    let side = &mut pair.sides[1];
    std::mem::swap(&mut side.events, &mut *events.lock().unwrap());
    drop(events);
    side.cqs.push(poller.into_cq());
    pair.finish(&sim);
}
