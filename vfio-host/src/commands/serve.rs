//! `e810 serve`: owns a function that any number of programs share.

use std::any::Any;
use std::io::Write;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Error, Result, bail};
use e810_attach::owner::{self, Opening, Owner, Ready};
use e810_attach::reception::receive;
use e810_attach::socket::{Listener, Peer, Socket};
use e810_attach::threads;
use e810_backends::HostDevice;
use e810_backends::host::{Host, process};
use e810_backends::spec::{DeviceSpec, SimSpec, VfioApi};
use e810_backends::vfio::wait_until_free;
use e810_node::simulated::simulator;
use e810_sim::{Mode, Sim};

use crate::cli::ServeArgs;
use crate::cli::device::places;
use crate::stop::{Stop, watched};
use crate::usage::Usage;

/// How long the programs of an earlier server may take to give its function up.
const GIVEN_UP: Duration = Duration::from_secs(5);

/// Runs the command until a signal, or until the function is gone.
///
/// # Errors
/// A socket that cannot be made, a bring-up that failed, a function that is gone.
pub fn run(args: &ServeArgs, out: &mut dyn Write) -> Result<()> {
    let opening = Opening::try_from(args.device.clone());
    let opening = opening.map_err(|why| Usage(format!("--device {}: {why}", args.device)))?;
    let stop = Stop::on_signals()?;
    if let DeviceSpec::Vfio(bdf, VfioApi::Container) = opening.spec {
        wait_until_free(bdf, GIVEN_UP)?;
    }
    let listener = places(args.at.as_ref()).listen();
    let listener = listener.context("no socket for programs; --at PATH names one")?;
    let path = listener.path().to_owned();
    writeln!(out, "serving {} at {}", args.device, path.display())?;
    out.flush()?;
    let sim = Arc::new(OnceLock::new());
    let serves = Serves(listener, sim.clone());
    // A signal ends it as the end of its process ends any owner: its programs see a device that is
    // gone.
    let watch = || Ok(stop.check()?);
    let served = watched("e810-serve", move || owner::serve(&opening, serves), &watch);
    // Nobody finds a socket without an owner.
    let _ = std::fs::remove_file(path);
    match served {
        Ok(gone) => gone,
        Err(_) if stop.is_asked() => sim.get().map_or(Ok(()), no_findings),
        Err(error) => Err(error),
    }
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

/// What serves a function: where programs come, and its simulator once there is one.
struct Serves(Listener, Arc<OnceLock<Sim>>);

impl Ready for Serves {
    fn simulator(&mut self, spec: &SimSpec) -> Result<Sim> {
        let sim = simulator(spec, 1, Mode::Real, 1, false).build();
        let _ = self.1.set(sim.clone());
        Ok(sim)
    }

    fn ready<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) -> Result<Box<dyn Any>> {
        match (function.shares(), function.lends()) {
            // Programs would be refused for the same reasons.
            (Some(shares), _) => shares.dismiss(shares.admit()?.program)?,
            (None, Some(_)) => {}
            (None, None) => bail!("programs cannot share a function of this kind"),
        }
        let (owner, function) = (owner.clone(), function.clone());
        let thread = thread::Builder::new().name("e810-accept".to_owned());
        let accepts = thread.spawn(move || {
            loop {
                let come = self.0.accept().map_err(Error::from);
                let begun = come.and_then(|socket| begin(&owner, &function, socket));
                if let Err(error) = begun {
                    log::error!("a program cannot be attached: {error:#}");
                    // What there is too few of may come back.
                    thread::sleep(Duration::from_millis(100));
                }
            }
        });
        accepts.context("a thread for programs")?;
        Ok(Box::new(()))
    }
}

/// Begins to serve a program.
fn begin<D: HostDevice>(owner: &Arc<Owner<D>>, function: &D, socket: Socket) -> Result<()> {
    let Peer { pid, uid, .. } = socket.peer()?;
    let name = process::name(&Host::default(), &pid.to_string()).unwrap_or_default();
    let (owner, function) = (owner.clone(), function.clone());
    threads::spawn("e810-program", move || {
        log::info!("process {pid} ({name}) of user {uid} has connected");
        match receive(&owner, function, Arc::new(socket)) {
            Ok(()) => log::info!("process {pid} ({name}) has left"),
            Err(refused) => log::warn!("process {pid} ({name}) of user {uid}: {refused}"),
        }
    })
    .context("a thread for a program")
}
