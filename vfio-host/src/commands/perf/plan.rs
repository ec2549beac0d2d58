//! Makes a plan of the options of `e810 perf`.

use anyhow::Result;

use crate::cli::{PerfArgs, TestArg};
use crate::handshake::Program;
use crate::measure::op::Op;
use crate::measure::perf::{DEPTH, MAX_POST_LIST, Plan, Test};
use crate::usage::refuse;

/// Default bytes of a message.
pub(crate) const SIZE: u32 = 64;
/// Default messages of each size.
pub(crate) const ITERATIONS: u64 = 1000;
/// Messages of a run that ends by time: more than it can send, and small enough for the payload.
const MOST_IN_A_DURATION: u64 = 1 << 40;
/// Depth of a queue pair for latency, where few messages are outstanding.
const LATENCY_DEPTH: u32 = 16;
/// Maximum payload memory of a side, so that a typing error does not take all memory of the
/// machine.
const MOST_MEMORY: u64 = 1 << 30;

/// Refuses what that program cannot do.
fn refuse_for_rc_pingpong(args: &PerfArgs) -> Result<()> {
    if args.op != Op::Send || args.test != TestArg::Lat || args.all || args.duration.is_some() {
        refuse!(
            "--with ibv_rc_pingpong: its messages are SENDs of one size, one at a time, and counted; leave out --op, --test, --all and --duration"
        );
    }
    if args.check {
        refuse!(
            "--with ibv_rc_pingpong --check: it sends back what it received; e810 pingpong verifies that"
        );
    }
    Ok(())
}

/// The plan for `args`.
///
/// # Errors
/// [`Usage`](crate::usage::Usage).
pub(super) fn plan(args: &PerfArgs) -> Result<Plan> {
    let test = match args.test {
        TestArg::Lat => Test::Latency,
        TestArg::Bw => Test::Bandwidth,
    };
    if test == Test::Latency && (args.qps > 1 || args.post_list > 1 || args.depth.is_some()) {
        refuse!(
            "--test lat sends one message at a time: leave out --qps, --post-list and --depth, or use --test bw"
        );
    }
    let program = args.pair.rendezvous.with;
    if program == Program::IbvRcPingpong {
        refuse_for_rc_pingpong(args)?;
    }
    let (size, iterations) = program.size_and_iterations().unwrap_or((SIZE, ITERATIONS));
    let depth = match test {
        Test::Latency => LATENCY_DEPTH,
        Test::Bandwidth => args.depth.unwrap_or(DEPTH),
    };
    if args.post_list > depth {
        refuse!(
            "--post-list {}: the list does not fit a queue of depth {depth}; give a larger --depth",
            args.post_list
        );
    }
    if args.plot.is_some() && args.pair.virtual_time {
        refuse!("--plot: virtual time measures nothing; leave out --virtual");
    }
    if args.plot.is_some() && args.pair.rendezvous.listen.is_some() {
        refuse!("--plot: the side that connects measures; give --plot there");
    }
    if args.inline > 0 && args.op == Op::Read {
        refuse!("--op read --inline: a READ sends no data; leave it out, or use --op write");
    }
    if args.report_gbits && test == Test::Latency {
        refuse!("--report-gbits: it applies to bandwidth only; use --test bw");
    }
    if args.histogram && test == Test::Bandwidth {
        refuse!("--histogram: it applies to latency only; use --test lat");
    }
    let plan = Plan {
        op: args.op,
        test,
        sizes: match args.all {
            true => (1..=23).map(|power| 1 << power).collect(),
            false => vec![args.size.unwrap_or(size)],
        },
        qps: args.qps as usize,
        depth,
        inline: args.inline,
        post_list: args.post_list,
        iterations: match args.duration {
            Some(_) => MOST_IN_A_DURATION,
            None => args.iters.unwrap_or(iterations),
        },
        duration: args.duration,
        seed: args.pair.seed,
        check: args.check,
        wait_mode: args.pair.wait_mode()?,
        tuning: args.pair.tuning.values(),
    };
    plan.check_queues()?;
    let memory = plan.places() as u64 * u64::from(plan.largest()) * 2;
    if memory > MOST_MEMORY {
        refuse!(
            "--check: it would take {} MiB of memory on each side, for {} places of {} bytes; give a smaller --size, --depth or --qps",
            memory >> 20,
            plan.places(),
            plan.largest()
        );
    }
    Ok(plan)
}

const _: () = assert!(MAX_POST_LIST <= DEPTH);
