//! Random calls on one function. The device refuses some of their commands and answers others late,
//! raises events of any code, and is reset from outside. Whatever comes, each request completes
//! once or is counted as dropped, everything can be given back, and the simulator finds no fault.

#![expect(
    clippy::expect_used,
    reason = "helpers of tests fail by panicking, like the tests"
)]

mod books;
mod calls;
mod world;

use e810::Ns;
use e810_sim::pe::CqpErrors;
use e810_sim::{AqCode, AqFault};

use books::Books;
use world::World;

/// Calls of a run.
const CALLS: u32 = 200;

/// As long as a command takes that is answered in time (simulated nanoseconds).
const QUICK: (u64, u64) = (500, 5_000);
/// Longer than the driver waits, which is 5 s.
const LATE: (u64, u64) = (5_100_000_000, 20_000_000_000);

/// What was wrong in a run, and its calls.
#[derive(Debug)]
pub struct Failure {
    /// Each thing that was wrong.
    pub wrong: Vec<String>,
    /// The calls, with what the device was told to do and what came of them.
    pub calls: Vec<String>,
}

/// One run; the same for the same seed.
///
/// # Errors
/// What was wrong.
pub fn run(seed: u64) -> Result<(), Failure> {
    let mut world = World::new(seed);
    let mut calls = Vec::new();
    for _ in 0..CALLS {
        if world.is_broken || world.rng.below(100) == 0 {
            world = world.reset();
            calls.push("reset from outside".to_owned());
        }
        let orders = tell_the_device(&mut world);
        let came = calls::any(&mut world);
        calls.push(format!("{orders}{came}"));
        world.is_well_again();
        world.serve(1);
    }
    world.pause(Ns::from_ms(30_000));
    world.serve(800);
    let wrong = world.end();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure { wrong, calls })
}

/// Perhaps the next command is refused or late, or something happens by itself.
fn tell_the_device(world: &mut World) -> String {
    let rng = &mut world.rng;
    let mut orders = String::new();
    if rng.below(4) == 0 {
        let opcode = rng.below(0x40) as u8;
        let minor = pick(rng, &[0x8002, 0x8006, 0x80FF]);
        world.sim.configure_engine(0, move |config| {
            config.cqp_errors = CqpErrors::Answer {
                opcode,
                major: 0xFFFF,
                minor,
            };
        });
        orders += &format!("[CQP {opcode:#x} refused {minor:#x}] ");
    } else if rng.below(30) == 0 {
        world
            .sim
            .configure_engine(0, |config| config.cqp_delay = LATE);
        orders += "[late] ";
    }
    if world.is_cold && rng.below(4) == 0 {
        let opcode = pick(rng, &ADMIN_COMMANDS);
        let code = pick(rng, &[AqCode::EPERM, AqCode::ENOSPC, AqCode::EINVAL]);
        world.sim.configure_firmware(0, |config| {
            config.fault(opcode, 1, AqFault::Error(code));
        });
        orders += &format!("[AQ {opcode:#x} {code:?}] ");
    }
    orders
}

/// Of VSI, switch, scheduler and LAN queues.
const ADMIN_COMMANDS: [u16; 10] = [
    0x02A0, 0x02A1, 0x02A3, 0x0211, 0x0401, 0x0404, 0x040F, 0x0C30, 0x0C31, 0x0C33,
];

fn pick<T: Copy>(rng: &mut e810_sim::Rng, all: &[T]) -> T {
    let place = rng.below(all.len() as u64) as usize;
    *all.get(place).expect("one of several")
}
