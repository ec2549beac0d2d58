//! Commands that the device refuses after the driver has given them up.

use e810::{Error, QpAttr};
use e810_hal::Ns;
use e810_hal::regs::PFPE_CQPDB;
use e810_sim::pe::CqpErrors;
use e810_sim::{Sim, SimPlatform};
use e810_tests::traffic::{End, Pair, Setup, Watched};

use crate::failures::requests::{A, B, is_open, sim};

const CREATE_QP: u8 = 0x00;

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
