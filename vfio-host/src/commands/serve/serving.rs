//! Serves one function of the command's.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Error, Result, bail};
use e810_attach::listener::Listener;
use e810_attach::owner::{self, AskedLimits, Odd, Opening, Owner, Ready, Seen};
use e810_attach::reception::Reception;
use e810_attach::socket::{self, Peer, Socket};
use e810_attach::threads;
use e810_backends::HostDevice;
use e810_backends::spec::{Bdf, DeviceSpec, PATIENT_ACK_TIMEOUT, SimSpec, VfioApi};
use e810_backends::vfio::Vfio;
use e810_hal::Ns;
use e810_node::simulated::simulator;
use e810_sim::{Mode, Sim};
use e810_sim_server::cables::Cables;
use e810_sim_server::quota::Quota;

use super::draining::Guests;
use super::{notify, store};
use crate::cli::capture::{CaptureArgs, Recording};
use crate::monitor::{ConnectionsSnapshot, MonitorRegistry, SnapshotPublisher, collect_snapshot};

/// What simulates a function.
pub(super) struct Simulated {
    pub(super) sim: Sim,
    pub(super) cables: Cables,
    pub(super) recording: Option<Recording>,
}

/// A function, and where its programs find it.
pub(super) struct Function {
    pub(super) capture: CaptureArgs,
    pub(super) opening: Opening,
    /// What an earlier server has left of it.
    pub(super) taken: Option<Vfio>,
    pub(super) listener: Listener,
}

impl Function {
    /// The place of a card's function, if it has a group's files.
    pub(super) const fn of_group(opening: &Opening) -> Option<Bdf> {
        match opening.spec {
            DeviceSpec::Vfio(bdf, VfioApi::Container) => Some(bdf),
            _ => None,
        }
    }
}

/// What functions are served with.
#[derive(Clone)]
pub(super) struct Serves {
    /// Their simulators, once there are any.
    pub(super) sims: Arc<Mutex<Vec<Simulated>>>,
    /// How many are not up yet.
    pub(super) coming_up: Arc<AtomicUsize>,
    /// Set when all programs are served.
    pub(super) is_up: Arc<AtomicBool>,
    pub(super) limits: AskedLimits,
    pub(super) guests: Guests,
    /// Through which the functions are monitored.
    pub(super) registry: Option<MonitorRegistry>,
}

impl Serves {
    /// Through which a function is monitored.
    pub(super) fn publisher(
        &self,
        number: usize,
        function: &Function,
    ) -> Option<SnapshotPublisher> {
        let (name, device) = (
            format!("function {number}"),
            function.opening.spec.to_string(),
        );
        let registry = self.registry.as_ref();
        registry.map(|registry| registry.register(&name, &device))
    }

    /// Serves a function on this thread until it is gone, and returns why.
    pub(super) fn serve(
        self,
        function: Function,
        publisher: Option<SnapshotPublisher>,
    ) -> Result<Error> {
        let Function {
            capture,
            opening,
            taken,
            listener,
        } = function;
        let ready = Serving {
            serves: self,
            publisher,
            listener,
            capture,
            // What was taken over is kept already.
            keeps: Function::of_group(&opening).filter(|_| taken.is_none()),
        };
        match taken {
            Some(taken) => owner::serve_taken(&opening, taken, ready),
            None => owner::serve(&opening, ready),
        }
    }
}

/// What serves one function.
struct Serving {
    serves: Serves,
    listener: Listener,
    publisher: Option<SnapshotPublisher>,
    capture: CaptureArgs,
    /// Whose files the service manager is to keep.
    keeps: Option<Bdf>,
}

impl Ready for Serving {
    fn simulator(&mut self, spec: &SimSpec) -> Result<Sim> {
        let sim = simulated(spec);
        lock(&self.serves.sims).push(Simulated {
            recording: self.capture.record(&sim)?,
            cables: Cables::new(sim.clone()),
            sim: sim.clone(),
        });
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
        let Serves {
            coming_up,
            is_up,
            limits,
            guests,
            ..
        } = self.serves;
        let quota = Arc::new(Quota::default());
        owner.limit(&limits);
        let of_odd = quota.clone();
        owner.set_log(Box::new(move |odd| log_odd(&of_odd, odd)));
        if let Some(publisher) = self.publisher {
            let platform = function.clone();
            owner.set_watch(Box::new(move |seen| {
                publish(&publisher, platform.now(), seen);
            }));
        }
        let reception = Arc::new(Reception::new(owner.clone(), function.clone()));
        guests.are_also_at(reception.clone());
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
        if coming_up.fetch_sub(1, Ordering::Relaxed) == 1 {
            notify::tell("READY=1");
            is_up.store(true, Ordering::Relaxed);
        }
        Ok(Box::new(()))
    }
}

/// Publishes what a function does, if somebody wants it. Its completion queues are the programs'.
fn publish<D: HostDevice>(publisher: &SnapshotPublisher, now: Ns, seen: Seen<'_, D>) {
    if publisher.is_wanted() {
        let connections = seen.connections;
        let connections = connections.map(|all| ConnectionsSnapshot::of(all, now));
        let Seen {
            control,
            events,
            interrupts,
            ..
        } = seen;
        publisher.publish(collect_snapshot(
            publisher,
            now,
            control,
            events,
            interrupts,
            None,
            connections,
        ));
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in it panics half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
