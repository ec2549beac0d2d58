//! Servers that die or hang in the middle: one line, exit status 1.

use std::sync::atomic::Ordering;
use std::thread;

use e810_sim::Sim;

use super::middleman::{Fault, start};
use super::processes::{Served, all_verified, pingpong, until};

/// A run whose first function's server fails when `when` says so.
fn run(fault: Fault, when: impl Fn(&Sim, u64) -> bool + Send + Sync + 'static) -> String {
    let served = Served::start();
    let [a, b] = &served.paths;
    let front = served.folder.as_path().join("front");
    let sim = served.sim.clone();
    let broken = start(front.clone(), a, fault, move |answered| {
        when(&sim, answered)
    });
    let user = pingpong(&front, b, "send", 1_000_000_000, 64);
    until("the fault", || broken.load(Ordering::Relaxed).then_some(()));
    let end = user.end();
    let line = end.failure().to_owned();
    assert!(line.contains("front"), "{line}");
    // What the fault left behind is in order again for the next user.
    assert_eq!(served.left(0, 1).findings, [], "{line}");
    all_verified(a, b, "send", 50, 64);
    assert_eq!(served.left(0, 2).findings, []);
    line
}

fn in_bring_up(sim: &Sim, _: u64) -> bool {
    sim.stats(0).commands > 3
}

fn in_traffic(sim: &Sim, _: u64) -> bool {
    sim.stats(0).frames_sent > 500
}

#[test]
fn a_server_that_dies_is_one_line() {
    let says_so = |line: String| {
        assert!(line.contains("the server closed the connection"), "{line}");
    };
    // While its device is probed, in bring-up, in traffic.
    says_so(run(Fault::Close, |_, answered| answered > 100));
    says_so(run(Fault::Close, |_, answered| answered > 1000));
    says_so(run(Fault::Close, in_bring_up));
    says_so(run(Fault::Close, in_traffic));
}

/// At once, in bring-up and in traffic, where doorbells are not answered: the completion that
/// does not come is noticed first, and then why. All three wait at the same time.
#[test]
fn a_server_that_hangs_is_one_line_within_its_limit() {
    let [at_once, starting, sending] = thread::scope(|scope| {
        let hung: [fn(&Sim, u64) -> bool; 3] = [|_, _| true, in_bring_up, in_traffic];
        hung.map(|at| scope.spawn(move || run(Fault::Hang, at)))
            .map(|running| running.join().unwrap())
    });
    for (line, part) in [
        (at_once, "no answer to VERSION within 5s"),
        (starting, "within 5s"),
        (sending, "no answer to REGION_READ within 5s"),
    ] {
        assert!(line.contains(part), "{line}");
    }
}
