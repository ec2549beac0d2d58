//! The ping-pong of one function, the other being another process's.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use e810::{MacAddr, Platform};
use serde_json::{Map, Value, json};

use super::{Carrier, bring_up, close};
use crate::backend::{Function, Transport};
use crate::buffer::Payload;
use crate::cli::{PingpongArgs, ServiceArg};
use crate::commands::remote;
use crate::exchange::{Done, Hello, Link, Meeting, Peer, Role};
use crate::pingpong::{Outcome, Plan, Side, Watch, apart, datagram};
use crate::progress::Progress;
use crate::spec::DeviceSpec;
use crate::start::Start;

const SERVED: Carrier = Carrier {
    name: "vfio-user",
    text: "vfio-user, one function that another process serves, and one of another e810",
    around: "",
    label: "over vfio-user",
};

const KERNEL: Carrier = Carrier {
    name: "vfio",
    text: "VFIO, one function bound to vfio-pci, and one of another e810",
    around: "",
    label: "over VFIO",
};

/// How often the peer is listened to while messages go on.
const LOOK: Duration = Duration::from_millis(10);

/// Runs the side that `meeting` says.
pub(super) fn run(
    args: &PingpongArgs,
    plan: &Plan,
    meeting: Meeting,
) -> Result<(Outcome, Carrier)> {
    if args.faults.is_some() {
        bail!(
            "--faults: the wire of {} is not in this process; give them to the `e810 sim` that serves it",
            args.device
        );
    }
    Ok(match &args.device {
        DeviceSpec::Sim => bail!(
            "--device sim: a function of this process shares no wire with another process; serve functions with `e810 sim` and give each process one, as vfio-user:PATH"
        ),
        DeviceSpec::VfioUser(path) => {
            let function = remote::open_user(path, args.backend)?;
            (alone(args, plan, meeting, &function)?, SERVED)
        }
        DeviceSpec::Vfio(bdf, way) => {
            remote::warn_of_memlock(1);
            let function = remote::open_vfio(*bdf, *way, args.backend)?;
            (alone(args, plan, meeting, &function)?, KERNEL)
        }
    })
}

fn alone<T: Transport>(
    args: &PingpongArgs,
    plan: &Plan,
    meeting: Meeting,
    function: &Function<T>,
) -> Result<Outcome> {
    args.capture.refuse(&args.device)?;
    if meeting.role == Role::Answer {
        // Not with the report: a program that reads that has no use for it.
        eprintln!("listening on {}", meeting.at());
    }
    let start = remote::start(function, &args.start)?;
    let watch = remote::watch([function]);
    let is_lost = || remote::is_lost(&[function]);
    let platform = function.clone();
    let result = with(args, plan, meeting, platform, &start, &watch, &is_lost);
    remote::explain(result, &[function])
}

/// Brings the function up, meets the peer, exchanges messages, and shuts down.
fn with<P: Platform + Payload>(
    args: &PingpongArgs,
    plan: &Plan,
    meeting: Meeting,
    platform: P,
    start: &Start,
    watch: Watch<'_>,
    is_lost: &dyn Fn() -> bool,
) -> Result<Outcome> {
    let mut side = bring_up(platform, start, args)?;
    let role = meeting.role;
    let outcome = meeting.meet().map_err(Into::into).and_then(|mut link| {
        let outcome = exchange(args, plan, role, &mut side, &mut link, watch);
        if let Err(error) = &outcome {
            link.give_up(&format_args!("{error:#}"));
        }
        outcome
    });
    close([(side, "shutting down")], outcome, is_lost)
}

/// What both processes must have been asked for.
fn terms(args: &PingpongArgs, plan: &Plan) -> Map<String, Value> {
    let terms = [
        ("command", json!("pingpong")),
        ("--transport", json!(args.transport.name())),
        ("--op", json!(plan.op.name())),
        ("--size", json!(plan.size)),
        ("--iters", json!(plan.iterations)),
        ("--seed", json!(plan.seed)),
    ];
    let owned = |(name, value): (&str, Value)| (name.to_owned(), value);
    terms.into_iter().map(owned).collect()
}

fn exchange<P: Platform>(
    args: &PingpongArgs,
    plan: &Plan,
    role: Role,
    side: &mut Side<P>,
    link: &mut Link,
    watch: Watch<'_>,
) -> Result<Outcome> {
    let own = side.settle(&args.address, &args.address.ip)?;
    let lan = side.lan();
    let mtu = args.address.mtu(lan.mtu)?;
    let hello = Hello::new(terms(args, plan), lan.mac, own.gid, mtu, [side.endpoint()]);
    let Peer {
        mac,
        gid,
        mtu,
        endpoints,
    } = link.greet(&hello)?;
    let there = endpoints.first().context("no queue pair")?;
    let mac = args.peer_mac.map_or(mac, MacAddr);
    side.connect(there, args.address.path(own, gid, mac), mtu)?;
    match args.transport {
        ServiceArg::Rc => apart::prepare(side)?,
        ServiceArg::Ud => datagram::prepare(side)?,
    }
    link.ready()?;
    let link = RefCell::new(link);
    let next = Cell::new(Instant::now());
    // Whether the peer is done; asked at most every `LOOK`.
    let is_done = Cell::new(false);
    let watch = || {
        watch()?;
        let now = Instant::now();
        if now >= next.get() {
            next.set(now + LOOK);
            is_done.set(link.borrow_mut().look()?);
        }
        Ok(())
    };
    let mut progress = Progress::new(plan.iterations);
    let progress = &mut progress;
    let outcome = match (args.transport, role) {
        (ServiceArg::Rc, Role::Ask) => apart::ask(side, there, plan, progress, &watch),
        (ServiceArg::Rc, Role::Answer) => apart::answer(side, there, plan, progress, &watch),
        (ServiceArg::Ud, Role::Ask) => datagram::ask(side, plan, progress, &mut || watch()),
        (ServiceArg::Ud, Role::Answer) => {
            let mut responder = datagram::Responder::new(plan);
            // Its last answer may be lost: only the peer knows when all is over.
            while !is_done.get() {
                if responder.turn(side)? == 0 {
                    watch()?;
                    side.relax();
                }
            }
            responder.outcome()
        }
    }?;
    let mut link = link.borrow_mut();
    link.done(Done {
        verified: outcome.verified,
        errors: outcome.errors,
    })?;
    let theirs = link.finish()?;
    if theirs.errors > 0 {
        bail!(
            "the peer found {} of {} messages different from what was sent",
            theirs.errors,
            plan.iterations
        );
    }
    Ok(outcome)
}
