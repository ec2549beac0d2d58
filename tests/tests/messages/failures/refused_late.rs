//! Commands that the device refuses after the driver has given them up.

use e810::{Error, Qp, QpAttr, QpInit};
use e810_hal::Ns;
use e810_hal::regs::PFPE_CQPDB;
use e810_sim::pe::CqpErrors;
use e810_sim::{Sim, SimPlatform};
use e810_tests::traffic::{End, Kind, Pair, Setup, Side, Transfer, Watched};

use crate::failures::requests::{A, B, is_open, sim};

const CREATE_QP: u8 = 0x00;
const WORK_SCHED_NODE: u8 = 0x2c;
const MANAGE_STATS: u8 = 0x2d;
/// No command has it.
const NONE: u8 = 0x3f;

/// Longer than the driver waits.
const LATE: u64 = 6_000_000_000;

/// The `nth` command of a function from now on is answered late, and every `opcode` refused.
fn refuse_late(sim: &Sim, function: u8, platform: &Watched<SimPlatform>, nth: u32, opcode: u8) {
    let (world, mut posted) = (sim.clone(), 0);
    platform.before(PFPE_CQPDB.off(), move || {
        posted += 1;
        if posted == nth {
            world.configure_engine(function, |config| {
                config.cqp_delay = (LATE, LATE);
                config.cqp_errors = CqpErrors::Opcode(opcode);
            });
        }
    });
}

/// From now on commands are quick and none is refused. With `ended` the late one has ended before.
fn recover(sim: &Sim, function: u8, platform: &Watched<SimPlatform>, ended: bool) {
    platform.before_nothing();
    sim.configure_engine(function, |config| config.cqp_delay = (500, 5_000));
    if ended {
        sim.run(Ns::from_ms(3_000));
    }
}

fn allow(sim: &Sim, function: u8) {
    sim.configure_engine(function, |config| config.cqp_errors = CqpErrors::None);
}

/// Resets a queue pair up to CREATE_QP, which is refused late.
fn reset_in_vain(sim: &Sim, pair: &mut Pair<Watched<SimPlatform>>, end: End) {
    let side = &mut pair.sides[end.side];
    // To ERROR, DESTROY_QP.
    refuse_late(sim, end.side as u8, &side.platform, 3, CREATE_QP);
    let mut cqs: Vec<_> = side.cqs.iter_mut().collect();
    let error = side.control.reset_qp(&mut side.qps[end.qp], &mut cqs);
    assert!(is_open(&error.unwrap_err()));
}

/// The device has none: there is nothing to destroy, to change or to list in a group.
#[test]
fn a_queue_pair_that_a_reset_did_not_make_again_is_destroyed_or_reset_again() {
    for (ended, again) in [(false, false), (true, false), (false, true), (true, true)] {
        let sim = sim(31);
        let mut pair = Pair::simulated(&sim, Setup::default());
        reset_in_vain(&sim, &mut pair, A);
        recover(&sim, 0, &pair.sides[0].platform, ended);
        let side = &mut pair.sides[0];
        let commands = side.control.commands();
        let changed = side
            .control
            .modify_qp(&mut side.qps[0], &QpAttr::to_error());
        assert!(matches!(changed, Err(Error::Invalid { .. })), "{changed:?}");
        assert_eq!(side.control.commands(), commands);
        if !ended {
            sim.run(Ns::from_ms(3_000));
        }
        allow(&sim, 0);
        if again {
            pair.renew(A);
            pair.renew(B);
            for end in [A, B] {
                pair.connect(end);
            }
        } else {
            let side = &mut pair.sides[0];
            let qp = side.qps.remove(0);
            side.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
            // Leaf, VSI node and root of the scheduler.
            assert_eq!(side.control.commands(), commands + 3);
        }
        pair.finish(&sim);
    }
}

/// The leaf of a queue set is added, and then enabled: by the fourth command of the first queue
/// pair. What became of that is known before a leaf is used, and one leaf's end is not the next's.
#[test]
fn a_leaf_that_is_enabled_late_is_enabled_once() {
    let setup = Setup {
        queue_pairs: 0,
        ..Setup::default()
    };
    for (is_refused, ended) in [(false, false), (false, true), (true, true)] {
        let sim = sim(32);
        let mut pair = Pair::simulated(&sim, setup);
        let side = &mut pair.sides[0];
        let refused = if is_refused { WORK_SCHED_NODE } else { NONE };
        refuse_late(&sim, 0, &side.platform, 4, refused);
        let init = QpInit::rc(&side.cqs[0], &side.cqs[0], setup.caps);
        let made = side.control.create_qp(&side.pd, &init);
        assert!(is_open(&made.unwrap_err()));
        recover(&sim, 0, &side.platform, ended);
        allow(&sim, 0);
        for _ in 0..2 {
            for side in &mut pair.sides {
                side.add_qp();
            }
            for end in [A, B] {
                pair.connect(end);
            }
            pair.transfer(A, &Transfer::new(Kind::Send, 1000));
            for side in &mut pair.sides {
                let qp = side.qps.remove(0);
                side.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
            }
        }
        pair.finish(&sim);
    }
}

type Simulated = Watched<SimPlatform>;

fn try_counting(side: &mut Side<Simulated>, setup: &Setup) -> Result<Qp<Simulated>, Error> {
    let init = QpInit {
        counters: true,
        ..QpInit::rc(&side.cqs[0], &side.cqs[0], setup.caps)
    };
    side.control.create_qp(&side.pd, &init)
}

fn counting(side: &mut Side<Simulated>, setup: &Setup) -> Qp<Simulated> {
    try_counting(side, setup).unwrap()
}

/// Counters that were given too late are the next queue pair's, or given back at the end.
#[test]
fn counters_that_are_given_late_are_not_lost() {
    let setup = Setup {
        queue_pairs: 0,
        ..Setup::default()
    };
    for is_used in [false, true] {
        let sim = sim(33);
        let mut pair = Pair::simulated(&sim, setup);
        let side = &mut pair.sides[0];
        // Behind the four of the queue set.
        refuse_late(&sim, 0, &side.platform, 5, NONE);
        let made = try_counting(side, &setup);
        assert!(is_open(&made.unwrap_err()));
        recover(&sim, 0, &side.platform, true);
        if is_used {
            let mut made = Vec::new();
            for _ in 0..2 {
                made.push(counting(&mut pair.sides[0], &setup));
            }
            let side = &mut pair.sides[0];
            for qp in made {
                side.control.gather_qp_stats(&qp).unwrap();
                side.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
            }
        }
        pair.finish(&sim);
    }
}

/// However often a program asks: what the device may still write is one page.
#[test]
fn a_reading_of_counters_that_is_not_answered_keeps_one_page() {
    let setup = Setup {
        queue_pairs: 0,
        ..Setup::default()
    };
    let sim = sim(35);
    let mut pair = Pair::simulated(&sim, setup);
    let side = &mut pair.sides[0];
    let counting = counting(side, &setup);
    let held = || sim.memory(0).dma_blocks;
    let before = held();
    sim.configure_engine(0, |config| config.cqp_delay = (LATE, LATE));
    for attempt in 0..4 {
        let error = if attempt % 2 == 0 {
            side.control.gather_stats()
        } else {
            side.control.gather_qp_stats(&counting)
        };
        assert!(is_open(&error.unwrap_err()));
        assert_eq!(held(), before + 1);
        // The late one ends; the next reading is a command of its own.
        sim.run(Ns::from_ms(3_000));
    }
    recover(&sim, 0, &side.platform, true);
    side.control.gather_stats().unwrap();
    assert_eq!(held(), before);
    // One that is open at the end.
    sim.configure_engine(0, |config| config.cqp_delay = (LATE, LATE));
    side.control.gather_stats().unwrap_err();
    recover(&sim, 0, &side.platform, false);
    let destroyed = side.control.destroy_qp(counting);
    destroyed.map_err(|(_, error)| error).unwrap();
    pair.finish(&sim);
}

/// What the device did not take back is given back again.
#[test]
fn counters_whose_return_is_refused_or_late_are_given_back_again() {
    let setup = Setup {
        queue_pairs: 0,
        ..Setup::default()
    };
    for (is_refused, is_used) in [(false, false), (false, true), (true, false), (true, true)] {
        let sim = sim(36);
        let mut pair = Pair::simulated(&sim, setup);
        let side = &mut pair.sides[0];
        let qp = counting(side, &setup);
        if is_refused {
            sim.configure_engine(0, |config| {
                config.cqp_errors = CqpErrors::Opcode(MANAGE_STATS);
            });
        } else {
            // Behind ERROR and DESTROY_QP.
            refuse_late(&sim, 0, &side.platform, 3, NONE);
        }
        side.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
        recover(&sim, 0, &side.platform, true);
        allow(&sim, 0);
        // The late end of the first return is not taken for that of the next with its number.
        for _ in 0..if is_used { 3 } else { 0 } {
            let side = &mut pair.sides[0];
            let qp = counting(side, &setup);
            side.control.gather_qp_stats(&qp).unwrap();
            side.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
        }
        pair.finish(&sim);
    }
}

/// The queue set of a leaf that was never used goes at the end.
#[test]
fn a_leaf_that_nobody_uses_goes_at_the_end() {
    let setup = Setup {
        queue_pairs: 0,
        ..Setup::default()
    };
    for nth in 1..=4 {
        let sim = sim(34);
        let mut pair = Pair::simulated(&sim, setup);
        let side = &mut pair.sides[0];
        refuse_late(&sim, 0, &side.platform, nth, NONE);
        let init = QpInit::rc(&side.cqs[0], &side.cqs[0], setup.caps);
        let made = side.control.create_qp(&side.pd, &init);
        assert!(is_open(&made.unwrap_err()));
        recover(&sim, 0, &side.platform, true);
        pair.finish(&sim);
    }
}
