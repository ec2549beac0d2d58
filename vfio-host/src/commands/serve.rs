//! `e810 serve`: owns functions that any number of programs share.

mod draining;
mod notify;
mod serving;
mod store;

use std::cell::RefCell;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Error, Result, anyhow, bail};
use e810_attach::activation;
use e810_attach::listener::Listener;
use e810_attach::messages::Resource;
use e810_attach::owner::{AskedLimits, Opening};
use e810_attach::places::{FUNCTIONS, of_function};
use e810_backends::spec::DeviceSpec;
use e810_backends::vfio::wait_until_free;

use self::draining::Draining;
use self::serving::{Function, Serves, Simulated, lock};
use crate::cli::ServeArgs;
use crate::cli::capture::Recording;
use crate::cli::device::places;
use crate::commands::sim::{SWITCH_LINK, state};
use crate::monitor::SERVE;
use crate::output::ending::Steps;
use crate::output::lasting::Lasting;
use crate::pci_functions::workload;
use crate::stop::{Stop, watched};
use crate::usage::{Usage, refuse};

/// How long the programs of an earlier server may take to give its function up.
const GIVEN_UP: Duration = Duration::from_secs(5);

/// Runs the command until a signal, or until its functions are gone.
///
/// # Errors
/// A socket that cannot be made, a bring-up that failed, a function that is gone.
pub fn run(args: &ServeArgs, out: &mut dyn Write) -> Result<()> {
    let openings = openings(args)?;
    check_limits("--program-limits", &args.program_limits)?;
    check_limits("--user-limits", &args.user_limits)?;
    // First, before anything else has their numbers.
    let handed_over = activation::handed_over().context("what the unit hands over (LISTEN_FDS)")?;
    let (mut kept, sockets): (Vec<_>, Vec<_>) = handed_over
        .into_iter()
        .partition(|(name, _)| store::is_kept(name));
    if let (Some(at), false) = (&args.at, sockets.is_empty()) {
        refuse!(
            "--at {}: the unit hands over a socket (LISTEN_FDS), and programs that connect there would wait for nobody; leave --at out",
            at.display()
        );
    }
    let sims: Arc<Mutex<Vec<Simulated>>> = Arc::default();
    let (tell_links, links) = channel();
    let ports = Arc::clone(&sims);
    let stop = Stop::on_signals_and(&[SWITCH_LINK], move |_| {
        for simulated in lock(&ports).iter_mut() {
            // The command may be over.
            let _ = tell_links.send(simulated.cables.switch());
        }
    })?;
    let mut taken = Vec::new();
    for opening in &openings {
        taken.push(store::take_over(&opening.spec, &mut kept));
    }
    store::give_back_rest(kept);
    for (opening, taken) in openings.iter().zip(&taken) {
        if let (Some(bdf), None) = (Function::of_group(opening), taken) {
            wait_until_free(bdf, GIVEN_UP)?;
        }
    }
    let sockets = sockets.into_iter().map(|(_, socket)| socket);
    let listeners = listeners(args, sockets.collect(), openings.len())?;
    let serving = args.device.iter().zip(&listeners);
    let serving =
        serving.map(|(device, at)| format!("serving {device} at {}", at.path().display()));
    let serving: Vec<String> = serving.collect();
    let made = listeners.iter().filter_map(|one| one.made().cloned());
    let made = made.collect();
    let draining = Draining::new(made, args.drain);
    let specs: Vec<_> = openings
        .iter()
        .map(|opening| opening.spec.clone())
        .collect();
    let monitored = workload::registry(args.monitor.as_deref(), SERVE)?;
    let is_up = Arc::new(AtomicBool::new(false));
    let serves = Serves {
        sims: Arc::clone(&sims),
        coming_up: Arc::new(AtomicUsize::new(openings.len())),
        is_up: is_up.clone(),
        limits: AskedLimits {
            program: args.program_limits.clone(),
            user: args.user_limits.clone(),
            programs: Some(args.programs),
        },
        guests: draining.guests(),
        registry: monitored.as_ref().map(|(registry, _)| registry.clone()),
    };
    let functions = openings.into_iter().zip(taken).zip(listeners);
    let functions = functions.enumerate();
    let functions = functions.map(|(index, ((opening, taken), listener))| Function {
        capture: args.capture.of_function(index),
        opening,
        taken,
        listener,
    });
    let functions: Vec<Function> = functions.collect();
    // A signal ends it as the end of its process ends any owner: its programs see a device that is
    // gone.
    let out = RefCell::new(Lasting::new(out));
    let watch = || {
        if is_up.swap(false, Ordering::Relaxed) {
            let mut lasting = out.borrow_mut();
            let out = lasting.out();
            for line in &serving {
                writeln!(out, "{line}")?;
            }
            out.flush()?;
        }
        let switched = links.try_iter().last();
        if let Some(is_up) = switched {
            // Programs keep their function when nobody reads this.
            let said = format!("links {}", state(is_up));
            out.borrow_mut().say(|out| Ok(writeln!(out, "{said}")?));
        }
        match stop.check() {
            Err(signal) if draining.is_over(&signal) => Err(signal.into()),
            _ => Ok(()),
        }
    };
    let served = watched("e810-serve", move || serve_all(functions, &serves), &watch);
    draining.remove_sockets();
    specs.iter().for_each(store::forget);
    let mut steps = Steps::default();
    steps.note(match served {
        Ok(gone) => gone,
        Err(_) if stop.is_asked() => no_findings(&lock(&sims)),
        Err(error) => Err(error),
    });
    for simulated in lock(&sims).iter_mut() {
        let recording = simulated.recording.take();
        steps.note(recording.map(Recording::finish).transpose());
    }
    steps.end()
}

/// The functions that are named, each with what it is opened for.
fn openings(args: &ServeArgs) -> Result<Vec<Opening>> {
    if args.device.len() > FUNCTIONS {
        refuse!(
            "--device: {} functions, and a server has at most {FUNCTIONS}",
            args.device.len()
        );
    }
    if let (Some(name), [_, _, ..]) = (&args.tap, &*args.device) {
        refuse!("--tap {name}: there are several functions; give tap=NAME in --device");
    }
    let mut openings: Vec<Opening> = Vec::new();
    for device in &args.device {
        let opening = Opening::try_from(device.clone());
        let mut opening = opening.map_err(|why| Usage(format!("--device {device}: {why}")))?;
        if args.tap.is_some() && opening.tap.is_some() {
            refuse!("--tap: --device names an interface already (tap=NAME)");
        }
        opening.tap = args.tap.clone().or(opening.tap);
        if let DeviceSpec::VfioUser(_) = opening.spec {
            refuse!(
                "--device {device}: a function behind vfio-user cannot be shared; use sim, sim:wire=NAME or vfio:BDF"
            );
        }
        let same = |one: &Opening| {
            let bdf = |opening: &Opening| match opening.spec {
                DeviceSpec::Vfio(bdf, _) => Some(bdf),
                _ => None,
            };
            bdf(one).is_some_and(|place| bdf(&opening) == Some(place))
        };
        if let DeviceSpec::Vfio(..) = opening.spec {
            args.capture.refuse(device)?;
        }
        if openings.iter().any(same) {
            refuse!("--device {device} is given twice; leave one out");
        }
        opening.queue_pairs = args.queue_pairs;
        openings.push(opening);
    }
    Ok(openings)
}

/// Serves functions until all are gone, each in a thread of its own.
///
/// # Errors
/// One has not come up, or the last one is gone.
fn serve_all(functions: Vec<Function>, serves: &Serves) -> Result<()> {
    let (tell, told) = channel();
    for (number, function) in functions.into_iter().enumerate() {
        let (serves, tell) = (serves.clone(), tell.clone());
        // Here, so that they are monitored in their order.
        let publisher = serves.publisher(number, &function);
        let serve = move || {
            let spec = function.opening.spec.clone();
            // The command may be over.
            let _ = tell.send((spec, serves.serve(function, publisher)));
        };
        let thread = thread::Builder::new().name("e810-function".to_owned());
        thread.spawn(serve).context("a thread for a function")?;
    }
    drop(tell);
    until_gone(&told)
}

/// Waits until no function is left.
///
/// # Errors
/// One has not come up, or the last one is gone.
fn until_gone(told: &Receiver<(DeviceSpec, Result<Error>)>) -> Result<()> {
    let mut last = anyhow!("a function's thread has ended; please report it");
    while let Ok((spec, served)) = told.recv() {
        last = served.with_context(|| format!("--device {spec}"))?;
        last = last.context(format!("--device {spec} is gone"));
        log::error!("{last:#}; other functions are still served");
    }
    Err(last)
}

/// Checks that no limit is given twice.
///
/// # Errors
/// [`Usage`], which names it.
fn check_limits(option: &str, limits: &[(Resource, u64)]) -> Result<()> {
    let mut seen = Vec::new();
    for (resource, _) in limits {
        if seen.contains(resource) {
            refuse!(
                "{option}: `{}` is given twice; leave one out",
                resource.key()
            );
        }
        seen.push(*resource);
    }
    Ok(())
}

/// What programs and this process have done wrong is an error, as with `e810 sim`.
fn no_findings(sims: &[Simulated]) -> Result<()> {
    let findings = sims.iter().flat_map(|one| one.sim.findings());
    let findings: Vec<_> = findings.collect();
    match findings.first() {
        Some(first) => bail!(
            "the simulator recorded {} findings; the first: {first}",
            findings.len()
        ),
        None => Ok(()),
    }
}

/// The sockets for the programs of so many functions: those that systemd has handed over, unless
/// another place is named.
fn listeners(args: &ServeArgs, sockets: Vec<OwnedFd>, functions: usize) -> Result<Vec<Listener>> {
    if sockets.is_empty() {
        let first = places(args.at.as_ref()).listen()?;
        let further = (1..functions).map(|index| of_function(first.path(), index));
        let further: Vec<_> = further.map(|path| Listener::bind(&path)).collect();
        let mut all = vec![first];
        for listener in further {
            all.push(listener?);
        }
        return Ok(all);
    }
    if sockets.len() != functions {
        bail!(
            "the unit hands over {} sockets for {functions} functions (LISTEN_FDS): give e810.socket a ListenSequentialPacket= for each",
            sockets.len()
        );
    }
    let all = sockets.into_iter().map(activation::listener);
    let all: std::io::Result<_> = all.collect();
    all.context("the sockets of the unit (LISTEN_FDS)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_function_that_is_gone_takes_no_other_along() {
        let (tell, told) = channel();
        let spec = |name: &str| -> DeviceSpec { name.parse().unwrap() };
        tell.send((spec("sim:rate=1G"), Ok(anyhow!("unplugged"))))
            .unwrap();
        let waits = thread::spawn(move || until_gone(&told));
        tell.send((spec("sim:rate=2G"), Ok(anyhow!("reset"))))
            .unwrap();
        drop(tell);
        let why = format!("{:#}", waits.join().unwrap().unwrap_err());
        assert!(why.contains("rate=2G is gone: reset"), "{why}");
        // All end if one does not come up.
        let (tell, told) = channel();
        tell.send((spec("sim"), Err(anyhow!("no memory")))).unwrap();
        let why = format!("{:#}", until_gone(&told).unwrap_err());
        assert_eq!(why, "--device sim: no memory");
        drop(tell);
    }
}
