//! Commands about multicast groups that the device refuses.

use std::net::IpAddr;

use e810::Error;
use e810::hmc::Capacity;
use e810_hal::Ns;
use e810_sim::pe::CqpErrors;
use e810_sim::{Sim, SimPlatform};
use e810_tests::traffic::verbs::datagrams::setup;
use e810_tests::traffic::{End, Pair, Setup, Watched};

use crate::failures::requests::{is_open, sim};

/// A member that is valid (control-path 4.14).
const VALID: u64 = 1 << 31;
const CREATE: u8 = 0x26;
const MODIFY: u8 = 0x27;
const DESTROY: u8 = 0x28;
const DESTROY_QP: u8 = 0x02;

/// Longer than the driver waits.
const LATE: u64 = 6_000_000_000;

fn group() -> IpAddr {
    "239.8.10.2".parse().unwrap()
}

fn refuse(sim: &Sim, opcode: u8) {
    sim.configure_engine(1, |config| config.cqp_errors = CqpErrors::Opcode(opcode));
}

fn allow(sim: &Sim) {
    sim.configure_engine(1, |config| config.cqp_errors = CqpErrors::None);
}

struct Joined {
    sim: Sim,
    pair: Pair<Watched<SimPlatform>>,
}

impl Joined {
    /// The first `members` queue pairs of side 1 are in the group.
    fn new(members: usize) -> Self {
        let sim = sim(11);
        let pair = Pair::simulated(&sim, setup());
        let mut joined = Self { sim, pair };
        for qp in 0..members {
            joined.attach(qp).unwrap();
        }
        joined
    }

    fn attach(&mut self, qp: usize) -> Result<(), Error> {
        let side = &mut self.pair.sides[1];
        side.control.attach_mcast(&side.qps[qp], side.gid, group())
    }

    fn detach(&mut self, qp: usize) -> Result<(), Error> {
        let side = &mut self.pair.sides[1];
        side.control.detach_mcast(&side.qps[qp], side.gid, group())
    }

    fn commands(&self) -> u64 {
        self.pair.sides[1].control.commands()
    }

    fn number(&self, qp: usize) -> u32 {
        self.pair.sides[1].qps[qp].number().get()
    }

    /// Members in the page that the device reads: the first group's.
    fn listed(&self) -> Vec<u32> {
        let blocks = self.pair.sides[1].platform.blocks();
        // The lists are made when the first queue pair joins a group.
        let lists = blocks.iter().rfind(|block| block.align == 4096).unwrap();
        (0..8)
            .map(|n| lists.get(4096 / 8 + n))
            .filter(|word| word & VALID != 0)
            .map(|word| word as u32 & 0x3_FFFF)
            .collect()
    }

    /// The next command on a group is not answered in time, and refused after all.
    fn refuse_late(&mut self, opcode: u8, call: impl Fn(&mut Self) -> Result<(), Error>) {
        refuse(&self.sim, opcode);
        let delay = |sim: &Sim, ns| sim.configure_engine(1, |config| config.cqp_delay = ns);
        delay(&self.sim, (LATE, LATE));
        assert!(is_open(&call(self).unwrap_err()));
        delay(&self.sim, (500, 5_000));
        self.sim.run(Ns::from_ms(3_000));
    }

    fn end(self) {
        self.pair.finish(&self.sim);
    }
}

#[test]
fn a_join_that_is_refused_changes_no_list() {
    let mut joined = Joined::new(1);
    let first = joined.number(0);
    refuse(&joined.sim, MODIFY);
    joined.attach(1).unwrap_err();
    allow(&joined.sim);
    assert_eq!(joined.listed(), [first]);
    joined.attach(1).unwrap();
    assert_eq!(joined.listed(), [first, joined.number(1)]);
    for qp in 0..2 {
        joined.detach(qp).unwrap();
    }
    joined.end();
}

/// The queue pair that comes back under the number is told to the device.
#[test]
fn a_refused_leave_does_not_make_the_next_of_that_number_a_member() {
    let mut joined = Joined::new(2);
    let (first, second) = (joined.number(0), joined.number(1));
    refuse(&joined.sim, MODIFY);
    let side = &mut joined.pair.sides[1];
    let mut cqs: Vec<_> = side.cqs.iter_mut().collect();
    side.control.reset_qp(&mut side.qps[0], &mut cqs).unwrap();
    allow(&joined.sim);
    assert_eq!(joined.listed(), [second]);
    assert_eq!(joined.number(0), first);
    let commands = joined.commands();
    joined.attach(0).unwrap();
    assert_eq!(joined.commands(), commands + 1);
    assert_eq!(joined.listed(), [second, first]);
    for qp in 0..2 {
        joined.detach(qp).unwrap();
    }
    joined.end();
}

/// What the device was not made to forget is told again with the next chance.
#[test]
fn a_refused_leave_is_reported_again() {
    for (members, opcode) in [(2, MODIFY), (1, DESTROY)] {
        let mut joined = Joined::new(members);
        refuse(&joined.sim, opcode);
        joined.detach(0).unwrap_err();
        allow(&joined.sim);
        let commands = joined.commands();
        joined.detach(0).unwrap();
        assert_eq!(joined.commands(), commands + 1);
        if members == 2 {
            joined.detach(1).unwrap();
        }
        assert!(joined.listed().is_empty());
        // Gone is gone.
        joined.detach(0).unwrap_err();
        assert_eq!(joined.commands(), commands + members as u64);
        joined.end();
    }
}

/// The group that was not destroyed is joined again, as one that is there.
#[test]
fn a_group_that_stayed_is_joined_again() {
    let mut joined = Joined::new(1);
    refuse(&joined.sim, DESTROY);
    joined.detach(0).unwrap_err();
    allow(&joined.sim);
    joined.attach(0).unwrap();
    assert_eq!(joined.listed(), [joined.number(0)]);
    joined.detach(0).unwrap();
    joined.end();
}

/// The end of another queue pair is a chance, too.
#[test]
fn a_refused_leave_is_reported_again_when_a_queue_pair_goes() {
    let mut joined = Joined::new(1);
    refuse(&joined.sim, DESTROY);
    joined.detach(0).unwrap_err();
    allow(&joined.sim);
    joined.pair.renew(End { side: 1, qp: 1 });
    joined.detach(0).unwrap_err();
    joined.attach(1).unwrap();
    joined.detach(1).unwrap();
    joined.end();
}

/// A queue pair that is given back is what it was.
#[test]
fn a_destruction_that_is_refused_leaves_the_groups_as_they_were() {
    for members in [1, 2] {
        let mut joined = Joined::new(members);
        let numbers: Vec<_> = (0..members).map(|qp| joined.number(qp)).collect();
        refuse(&joined.sim, DESTROY_QP);
        let side = &mut joined.pair.sides[1];
        let qp = side.qps.remove(0);
        let (qp, _) = side.control.destroy_qp(qp).unwrap_err();
        side.qps.insert(0, qp);
        allow(&joined.sim);
        let mut listed = joined.listed();
        listed.sort_unstable();
        assert_eq!(listed, numbers);
        for qp in 0..members {
            joined.detach(qp).unwrap();
        }
        joined.end();
    }
}

/// The device has no such group, and is not told to change it.
#[test]
fn a_group_that_was_refused_late_and_again_is_joined_or_left() {
    for is_left in [false, true] {
        let mut joined = Joined::new(0);
        joined.refuse_late(CREATE, |joined| joined.attach(0));
        joined.attach(1).unwrap_err();
        allow(&joined.sim);
        if is_left {
            joined.detach(0).unwrap();
        } else {
            joined.attach(1).unwrap();
            assert_eq!(joined.listed(), [joined.number(0), joined.number(1)]);
            joined.detach(1).unwrap();
            joined.detach(0).unwrap();
        }
        joined.detach(0).unwrap_err();
        joined.attach(0).unwrap();
        joined.detach(0).unwrap();
        joined.end();
    }
}

/// Nothing of it is left in the device, and no memory.
#[test]
fn a_group_that_was_not_destroyed_is_tried_again_at_the_end() {
    for is_late in [false, true] {
        let mut joined = Joined::new(1);
        if is_late {
            joined.refuse_late(DESTROY, |joined| joined.detach(0));
        } else {
            refuse(&joined.sim, DESTROY);
            joined.detach(0).unwrap_err();
        }
        let side = &mut joined.pair.sides[1];
        while let Some(qp) = side.qps.pop() {
            side.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
        }
        allow(&joined.sim);
        joined.end();
    }
}

/// All groups there are have no members, and could not be destroyed: another takes the place of one.
#[test]
fn groups_that_were_not_destroyed_make_room_for_another() {
    let sim = sim(12);
    let setup = Setup {
        capacity: Some(Capacity {
            mcast_groups: 2,
            ..Capacity::DEFAULT
        }),
        ..setup()
    };
    let mut pair = Pair::simulated(&sim, setup);
    let side = &mut pair.sides[1];
    let groups = (0..=u8::MAX).map(|n| IpAddr::from([239, 8, 11, n]));
    let mut joined: Vec<IpAddr> = Vec::new();
    for group in groups {
        match side.control.attach_mcast(&side.qps[0], side.gid, group) {
            Ok(()) => joined.push(group),
            Err(error) => {
                assert!(matches!(error, Error::Exhausted { .. }), "{error}");
                break;
            }
        }
    }
    refuse(&sim, DESTROY);
    for group in &joined {
        let left = side.control.detach_mcast(&side.qps[0], side.gid, *group);
        left.unwrap_err();
    }
    allow(&sim);
    side.control
        .attach_mcast(&side.qps[0], side.gid, group())
        .unwrap();
    side.control
        .detach_mcast(&side.qps[0], side.gid, group())
        .unwrap();
    pair.finish(&sim);
}

/// A device that answers nothing is waited for once, not once a group.
#[test]
fn a_silent_device_is_waited_for_once_when_groups_are_left() {
    let mut joined = Joined::new(1);
    let side = &mut joined.pair.sides[1];
    for n in 0..10 {
        let group = IpAddr::from([239, 8, 11, n]);
        side.control
            .attach_mcast(&side.qps[0], side.gid, group)
            .unwrap();
    }
    joined
        .sim
        .configure_engine(1, |config| config.cqp_delay = (60 * LATE, 60 * LATE));
    let before = joined.pair.now();
    let side = &mut joined.pair.sides[1];
    let qp = side.qps.remove(0);
    let (qp, error) = side.control.destroy_qp(qp).unwrap_err();
    assert!(is_open(&error));
    let waited = joined.pair.now() - before;
    assert!(waited < Ns::from_ms(16_000), "{waited:?}");
    joined
        .sim
        .configure_engine(1, |config| config.cqp_delay = (500, 5_000));
    joined.sim.run(Ns::from_ms(400_000));
    let side = &mut joined.pair.sides[1];
    side.control.destroy_qp(qp).map_err(|(_, e)| e).unwrap();
    joined.end();
}
