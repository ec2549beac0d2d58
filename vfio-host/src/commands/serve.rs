//! `e810 serve`: owns a function that any number of programs share.

mod draining;
mod notify;
mod store;

use std::any::Any;
use std::cell::RefCell;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Error, Result, bail};
use e810_attach::activation;
use e810_attach::listener::Listener;
use e810_attach::messages::Resource;
use e810_attach::owner::{self, AskedLimits, Odd, Opening, Owner, Ready};
use e810_attach::reception::Reception;
use e810_attach::socket::{self, Peer, Socket};
use e810_attach::threads;
use e810_backends::HostDevice;
use e810_backends::spec::{Bdf, DeviceSpec, PATIENT_ACK_TIMEOUT, SimSpec, VfioApi};
use e810_backends::vfio::wait_until_free;
use e810_node::simulated::simulator;
use e810_sim::{Mode, Sim};
use e810_sim_server::quota::Quota;

use self::draining::Draining;
use crate::cli::ServeArgs;
use crate::cli::device::places;
use crate::stop::{Stop, watched};
use crate::usage::{Usage, refuse};

/// How long the programs of an earlier server may take to give its function up.
const GIVEN_UP: Duration = Duration::from_secs(5);

/// Runs the command until a signal, or until the function is gone.
///
/// # Errors
/// A socket that cannot be made, a bring-up that failed, a function that is gone.
pub fn run(args: &ServeArgs, out: &mut dyn Write) -> Result<()> {
    let opening = Opening::try_from(args.device.clone());
    let mut opening = opening.map_err(|why| Usage(format!("--device {}: {why}", args.device)))?;
    if args.tap.is_some() && opening.tap.is_some() {
        refuse!("--tap: --device names an interface already (tap=NAME)");
    }
    opening.tap = args.tap.clone().or(opening.tap);
    if let DeviceSpec::VfioUser(_) = opening.spec {
        refuse!(
            "--device {}: a function behind vfio-user cannot be shared; use sim, sim:wire=NAME or vfio:BDF",
            args.device
        );
    }
    opening.queue_pairs = args.queue_pairs;
    check_limits("--program-limits", &args.program_limits)?;
    check_limits("--user-limits", &args.user_limits)?;
    // First, before anything else has their numbers.
    let handed_over = activation::handed_over().context("what the unit hands over (LISTEN_FDS)")?;
    let (kept, sockets): (Vec<_>, Vec<_>) = handed_over
        .into_iter()
        .partition(|(name, _)| store::is_kept(name));
    if let (Some(at), false) = (&args.at, sockets.is_empty()) {
        refuse!(
            "--at {}: the unit hands over a socket (LISTEN_FDS), and programs that connect there would wait for nobody; leave --at out",
            at.display()
        );
    }
    let stop = Stop::on_signals()?;
    let of_group = match opening.spec {
        DeviceSpec::Vfio(bdf, VfioApi::Container) => Some(bdf),
        _ => None,
    };
    let taken = store::take_over(&opening.spec, kept);
    if let (Some(bdf), None) = (of_group, &taken) {
        wait_until_free(bdf, GIVEN_UP)?;
    }
    let listener = listener(args, sockets.into_iter().map(|(_, socket)| socket))?;
    let path = listener.path().to_owned();
    let serving = format!("serving {} at {}", args.device, path.display());
    let draining = Draining::new(listener.is_maker().then_some(path), args.drain);
    let (sim, is_up) = (Arc::new(OnceLock::new()), Arc::new(AtomicBool::new(false)));
    let serves = Serves {
        sim: sim.clone(),
        is_up: is_up.clone(),
        listener,
        limits: AskedLimits {
            program: args.program_limits.clone(),
            user: args.user_limits.clone(),
            programs: Some(args.programs),
        },
        guests: draining.guests(),
        // What was taken over is kept already.
        keeps: of_group.filter(|_| taken.is_none()),
    };
    let spec = opening.spec.clone();
    // A signal ends it as the end of its process ends any owner: its programs see a device that is
    // gone.
    let out = RefCell::new(out);
    let watch = || {
        if is_up.swap(false, Ordering::Relaxed) {
            let mut out = out.borrow_mut();
            writeln!(out, "{serving}")?;
            out.flush()?;
        }
        match stop.check() {
            Err(signal) if draining.is_over(&signal) => Err(signal.into()),
            _ => Ok(()),
        }
    };
    let serve = move || match taken {
        Some(taken) => owner::serve_taken(&opening, taken, serves),
        None => owner::serve(&opening, serves),
    };
    let served = watched("e810-serve", serve, &watch);
    draining.remove_socket();
    store::forget(&spec);
    match served {
        Ok(gone) => gone,
        Err(_) if stop.is_asked() => sim.get().map_or(Ok(()), no_findings),
        Err(error) => Err(error),
    }
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
fn no_findings(sim: &Sim) -> Result<()> {
    let findings = sim.findings();
    match findings.first() {
        Some(first) => bail!(
            "the simulator recorded {} findings; the first: {first}",
            findings.len()
        ),
        None => Ok(()),
    }
}

/// The socket for programs: the one that systemd has handed over, unless another one is named.
fn listener(args: &ServeArgs, sockets: impl Iterator<Item = OwnedFd>) -> Result<Listener> {
    let handed_over = activation::listener(sockets.collect());
    if let Some(listener) = handed_over.context("the socket of the unit (LISTEN_FDS)")? {
        return Ok(listener);
    }
    Ok(places(args.at.as_ref()).listen()?)
}

/// What serves a function.
struct Serves {
    /// Its simulator, once there is one.
    sim: Arc<OnceLock<Sim>>,
    /// Set when programs are served.
    is_up: Arc<AtomicBool>,
    listener: Listener,
    limits: AskedLimits,
    guests: draining::Guests,
    /// Whose files the service manager is to keep.
    keeps: Option<Bdf>,
}

impl Ready for Serves {
    fn simulator(&mut self, spec: &SimSpec) -> Result<Sim> {
        let sim = simulated(spec);
        let _ = self.sim.set(sim.clone());
        Ok(sim)
    }

    fn ready<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) -> Result<Box<dyn Any>> {
        match (function.shares(), function.lends()) {
            // Programs would be refused for the same reasons.
            (Some(shares), _) => {
                shares.dismiss(shares.admit()?.program)?;
                if let Some(bdf) = self.keeps {
                    store::keep(bdf, shares);
                }
            }
            (None, Some(_)) => {}
            (None, None) => bail!(
                "programs cannot share a function of this kind: use sim, sim:wire=NAME or vfio:BDF"
            ),
        }
        let quota = Arc::new(Quota::default());
        owner.limit(&self.limits);
        let of_odd = quota.clone();
        owner.set_log(Box::new(move |odd| log_odd(&of_odd, odd)));
        let reception = Arc::new(Reception::new(owner.clone(), function.clone()));
        self.guests.are_at(reception.clone());
        let listener = self.listener;
        let thread = thread::Builder::new().name("e810-accept".to_owned());
        let accepts = thread.spawn(move || {
            loop {
                let come = listener.accept().map_err(Error::from);
                let begun = come.and_then(|socket| begin(&reception, &quota, socket));
                if let Err(error) = begun {
                    quota.line(|more| log::error!("a program cannot be attached: {error:#}{more}"));
                    // What there is too few of may come back.
                    thread::sleep(Duration::from_millis(100));
                }
            }
        });
        accepts.context("a thread for programs")?;
        notify::tell("READY=1");
        self.is_up.store(true, Ordering::Relaxed);
        Ok(Box::new(()))
    }
}

/// A simulated function for programs. A turn of many queue pairs took longer than the time that
/// programs ask for. READs that are sent again are answered again, which made the turns longer still,
/// until connections of other programs failed too.
fn simulated(spec: &SimSpec) -> Sim {
    let builder = simulator(spec, 1, Mode::Real, 1, false);
    let patient = builder.engine(|_, config| {
        config
            .transport
            .ack_timeout
            .get_or_insert(PATIENT_ACK_TIMEOUT);
    });
    patient.build()
}

/// A process, as lines of the log call it.
fn named(Peer { pid, uid, .. }: Peer) -> String {
    format!("{} of user {uid}", socket::named(pid))
}

fn log_odd(quota: &Quota, Odd { peer, command, why }: Odd<'_>) {
    quota.line(|more| log::warn!("{}: {command}: {why}{more}", named(peer)));
}

/// Begins to serve a program.
fn begin<D: HostDevice>(
    reception: &Arc<Reception<D>>,
    quota: &Arc<Quota>,
    socket: Socket,
) -> Result<()> {
    let peer = socket.peer()?;
    let (reception, quota) = (reception.clone(), quota.clone());
    threads::spawn("e810-program", move || {
        log::info!("{} has connected", named(peer));
        match reception.receive(Arc::new(socket), peer) {
            Ok(()) => log::info!("process {} has left", peer.pid),
            Err(why) => quota.line(|more| log::warn!("{}: {why}{more}", named(peer))),
        }
    })
    .context("a thread for a program")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_a_served_function_wait_as_long_as_those_on_a_wire() {
        for name in ["rate=1G", "wire=serves-and-waits"] {
            let sim = simulated(&name.parse().unwrap());
            let mut waits = None;
            sim.configure_engine(0, |config| waits = config.transport.ack_timeout);
            assert_eq!(waits, Some(PATIENT_ACK_TIMEOUT), "{name}");
        }
    }
}
