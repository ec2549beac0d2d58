//! The peer of a command in another process: connected with, given our queue pairs,
//! and polled while messages go on.

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
use crate::stop::{Interrupted, Stop};

/// How often its connection is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Connects with the other process, does `job` with it and shuts `side` down. The peer
/// gets the error if that fails.
///
/// # Errors
/// No peer, or what `job` or the end said.
pub(crate) fn run_with_peer<S, O>(
    mut side: S,
    rendezvous: Rendezvous,
    context: RunContext<'_>,
    stop: &Stop,
    shut_down: impl Fn(S) -> Result<()>,
    job: impl FnOnce(Role, &mut S, &mut Link) -> Result<O>,
) -> Result<O> {
    let role = rendezvous.role;
    let watch = || {
        (context.watch)()?;
        stop.check()?;
        Ok(())
    };
    let link = rendezvous.establish(&watch);
    let outcome = link.and_then(|mut link| {
        link.hear(stop.view());
        let outcome = job(role, &mut side, &mut link);
        if let Err(error) = &outcome {
            match (error.downcast_ref::<Interrupted>(), error.downcast_ref()) {
                // What was going on is not why.
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

/// Names the function of this process, tells the other process, waits for the link, and gives
/// the path to it and its queue pairs. `idle` is called while its address is resolved.
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
        // It does not say which it takes; this is its own default.
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

/// Watches the functions and the peer while messages go on.
pub(crate) struct PeerWatch<'a> {
    context: RunContext<'a>,
    program: Program,
    link: RefCell<&'a mut Link>,
    next: Cell<Instant>,
    has_message: Cell<bool>,
    stopped: RefCell<Option<Vec<u64>>>,
}

impl<'a> PeerWatch<'a> {
    /// Begins to watch.
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

    /// Fails when a device or the peer has.
    pub(crate) fn watch(&self) -> Result<()> {
        (self.context.watch)()?;
        let now = Instant::now();
        if now >= self.next.get() {
            self.next.set(now + POLL_INTERVAL);
            let link = &mut *self.link.borrow_mut();
            self.has_message.set(link.try_receive()?);
            if let Some(posted) = link.stopped()? {
                self.stopped.replace(Some(posted));
                // What it says after that may be there already.
                self.has_message.set(link.try_receive()?);
            }
        }
        Ok(())
    }

    /// What the peer has posted on each queue pair, if it has said that there will
    /// be no more.
    pub(crate) fn stopped(&self) -> Option<Vec<u64>> {
        self.stopped.borrow().clone()
    }

    /// Whether the peer has sent that it is done with the current step; one that never says so
    /// counts as done.
    pub(crate) fn peer_is_through(&self) -> bool {
        self.has_message.get() || self.program == Program::IbvRcPingpong
    }
}
