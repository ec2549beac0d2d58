//! The peer of a command in another process: connects to it, exchanges queue pairs, and watches it
//! during the messages.

use crate::handshake::RemoteQp;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use anyhow::Result;
use e810::{MacAddr, Mtu, Path};
use e810_backends::interrupts::HostPlatform;
use serde_json::{Map, Value};

use super::addressing::{destination_mac, settle};
use super::lifecycle::{self, close};
use super::workload::RunContext;
use crate::cli::PairArgs;
use crate::handshake::{HandshakeError, Link, Offer, Program, Rendezvous, Role, WIRE};
use crate::measure::endpoint::Endpoint;
use crate::measure::meeting::OwnEnd;
use crate::measure::pingpong::Watch;
use crate::stop::{Interrupted, Stop};
use e810_node::neighbours::without_station;

/// How often the connection is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Connects to the other process with `meet`, does `job` with it and shuts `side` down. If that
/// fails, the peer gets the error.
///
/// # Errors
/// No peer, or the error of `job` or of the shutdown.
pub(crate) fn run_with_peer<S, O>(
    mut side: S,
    rendezvous: Rendezvous,
    context: RunContext<'_>,
    stop: &Stop,
    shut_down: impl Fn(S) -> Result<()>,
    meet: impl FnOnce(&mut S, Rendezvous, Watch<'_>) -> Result<Link>,
    job: impl FnOnce(Role, &mut S, &mut Link) -> Result<O>,
) -> Result<O> {
    let role = rendezvous.role;
    let watch = || {
        (context.watch)()?;
        stop.check()?;
        Ok(())
    };
    let link = meet(&mut side, rendezvous, &watch);
    let outcome = link.and_then(|mut link| {
        link.hear(stop.view());
        let outcome = job(role, &mut side, &mut link);
        if let Err(error) = &outcome {
            match (error.downcast_ref::<Interrupted>(), error.downcast_ref()) {
                // The reason is the signal, not the step that it interrupted.
                (Some(interrupted), _) | (_, Some(HandshakeError::Asked(interrupted))) => {
                    link.interrupted(*interrupted);
                }
                _ => link.give_up(&format_args!("{error:#}")),
            }
        }
        outcome
    });
    close([(side, "shutting down")], shut_down, outcome, context)
}

/// Connects to the other process, by TCP or by the connection manager. `watch` is called meanwhile,
/// and its error ends that.
///
/// # Errors
/// No peer, or the error of `watch`.
pub(crate) fn meet<P: HostPlatform>(
    args: &PairArgs,
    endpoint: &mut Endpoint<P>,
    rendezvous: Rendezvous,
    watch: Watch<'_>,
) -> Result<Link> {
    if !rendezvous.is_by_cm() {
        return rendezvous.establish(watch);
    }
    let own = settle(args, endpoint, &args.address.ip)?;
    if endpoint.neighbours().is_none() {
        return Err(without_station(rendezvous.at().ip()).into());
    }
    lifecycle::wait_link(endpoint.control())?;
    let own = OwnEnd {
        ip: own.gid.ip(),
        vlan: args.address.vlan,
    };
    endpoint.meet(&rendezvous, own, watch)
}

/// Gives the function of this process its addresses, exchanges parameters with the other process,
/// waits for the link, and returns the path to the peer and its queue pairs. `idle` is called while
/// the peer's address is resolved.
pub(crate) fn exchange_params<P: HostPlatform>(
    args: &PairArgs,
    endpoint: &mut Endpoint<P>,
    link: &mut Link,
    terms: Map<String, Value>,
    idle: &dyn Fn() -> Result<()>,
) -> Result<(Path, Mtu, Vec<RemoteQp>)> {
    let address = &args.address;
    let own = settle(args, endpoint, &address.ip)?;
    let lan = endpoint.control().lan();
    let mtu = match (link.program(), address.path_mtu) {
        // The program does not send its path MTU; this is its default.
        (Program::IbvRcPingpong, None) => address.mtu(lan.mtu)?.min(Mtu::Mtu1024),
        _ => address.mtu(lan.mtu)?,
    };
    let mut terms = terms;
    let (v4, family) = (own.gid.ip().is_ipv4(), "addresses of");
    terms.insert(family.to_owned(), if v4 { "IPv4" } else { "IPv6" }.into());
    terms.insert("--vlan".to_owned(), address.vlan.into());
    if let Some(wire) = args
        .device()?
        .simulated()
        .and_then(|spec| spec.wire.as_ref())
    {
        terms.insert(WIRE.to_owned(), wire.to_string().into());
    }
    let qps = endpoint.describe(own.index)?;
    let peer = link.exchange_params(&Offer::new(terms, lan.mac, own.gid, mtu, qps))?;
    lifecycle::wait_link(endpoint.control())?;
    let mac = match args.peer_mac {
        Some(mac) => MacAddr(mac),
        None => destination_mac(args, 0, endpoint, peer.gid.ip(), peer.mac, idle)?,
    };
    Ok((address.path(own, peer.gid, mac), peer.mtu, peer.endpoints))
}

/// Watches the functions and the peer during the messages.
pub(crate) struct PeerWatch<'a> {
    context: RunContext<'a>,
    program: Program,
    link: RefCell<&'a mut Link>,
    next: Cell<Instant>,
    has_message: Cell<bool>,
    stopped: RefCell<Option<Vec<u64>>>,
}

impl<'a> PeerWatch<'a> {
    pub(crate) fn new(context: RunContext<'a>, link: &'a mut Link) -> Self {
        Self {
            context,
            program: link.program(),
            link: RefCell::new(link),
            next: Cell::new(Instant::now()),
            has_message: Cell::new(false),
            stopped: RefCell::new(None),
        }
    }

    /// Fails if a device or the peer has failed.
    pub(crate) fn watch(&self) -> Result<()> {
        (self.context.watch)()?;
        let now = Instant::now();
        if now >= self.next.get() {
            self.next.set(now + POLL_INTERVAL);
            let link = &mut *self.link.borrow_mut();
            self.has_message.set(link.try_receive()?);
            if let Some(posted) = link.stopped()? {
                self.stopped.replace(Some(posted));
                // Its next message may have arrived already.
                self.has_message.set(link.try_receive()?);
            }
        }
        Ok(())
    }

    /// The number of messages that the peer has posted on each queue pair, if it has said that no
    /// more come.
    pub(crate) fn stopped(&self) -> Option<Vec<u64>> {
        self.stopped.borrow().clone()
    }

    /// Whether the peer has said that it is done with the current step. A peer that never says so
    /// counts as done.
    pub(crate) fn peer_is_through(&self) -> bool {
        self.has_message.get() || self.program == Program::IbvRcPingpong
    }
}
