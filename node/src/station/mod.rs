//! A function as a station on its link: it answers for its addresses, and resolves others.
//!
//! The RDMA engine answers no ARP request, no neighbour solicitation and no ping, and resolves
//! nothing. A thread does this, with the function's LAN port and an `e810_net::Interface`:
//!
//! * `network`, the function's addresses and gateways;
//! * `targets`, destinations that are being resolved, and those of paths;
//! * `worker`, the thread.
//!
//! The thread looks at the port every few milliseconds and waits for no interrupt, because
//! interrupts are the program's. Messages between queue pairs never pass through it.

mod error;
mod network;
mod pending;
mod targets;
#[cfg(test)]
mod tests;
pub(crate) mod worker;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use e810::{Control, LanPort, MacAddr, PortState};
use e810_backends::interrupts::HostPlatform;
use e810_hal::Ns;
use e810_net::{Ping, multicast_mac};

pub use error::Unresolved;
pub use network::Network;
pub use network::RESOLVE_LIMIT;
pub use pending::PendingResolve;
use targets::Targets;
pub use worker::StationEvent;
use worker::{Command, Shared, Worker};

use crate::neighbours::Resolver;
use crate::route::{Neighbour, Question};

/// Commands that may wait for the thread.
const COMMANDS: usize = 32;
/// Echoes that may wait for the program; more are lost.
const EVENTS: usize = 64;
/// All IPv4 hosts: routers send their queries for the groups of a host there (RFC 3376 4.1.12).
const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);

/// How often a station looks at its port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// Rarely enough that measurements on the same machine do not notice.
    Calm,
    /// Often enough that an echo's time is that of the link.
    Quick,
}

/// A station; its thread ends when this is dropped.
#[derive(Debug)]
pub struct Station<P: HostPlatform> {
    /// Dropped before the thread is joined: that ends the thread.
    commands: Option<SyncSender<Command>>,
    events: Receiver<StationEvent>,
    shared: Arc<Shared>,
    /// How long an address may take to be resolved.
    resolve_limit: Ns,
    /// Where packets to peers go, as last reported by the thread.
    macs: BTreeMap<IpAddr, MacAddr>,
    had_link: bool,
    thread: Option<JoinHandle<Option<LanPort<P>>>>,
}

impl<P: HostPlatform> Station<P> {
    /// Opens the function's LAN port and begins to answer.
    ///
    /// # Errors
    /// The LAN port cannot be opened, or there is no thread. Nothing is left behind.
    pub fn start(
        platform: P,
        control: &mut Control<P>,
        network: &Network,
        pace: Pace,
    ) -> Result<Self> {
        let lan = control.lan();
        let port = control.open_lan(&crate::lan_init(lan.mtu));
        let port = port.context("opening the LAN queues")?;
        let now = platform.now();
        let (interface, refused) = network.interface(lan.mac, lan.mtu, now);
        for (own, error) in refused {
            log::warn!("own address {own}: {error}; this function does not answer for it");
        }
        for group in interface.groups().chain([ALL_HOSTS.into()]) {
            let Some(mac) = multicast_mac(group) else {
                continue;
            };
            if let Err(error) = control.join_lan_group(&port, mac) {
                log::warn!("frames to {group} do not arrive: {error}");
            }
        }
        let (commands, from_program) = sync_channel(COMMANDS);
        let (to_program, events) = sync_channel(EVENTS);
        let is_quick = pace == Pace::Quick;
        let shared = Arc::new(Shared::default());
        let ends = (from_program, to_program, Arc::clone(&shared));
        let targets = Targets::new(network.resolve_limit);
        let worker =
            move |port| Worker::new(platform, port, interface, targets, ends, is_quick).run();
        // Through a channel, so that the port can be closed if there is no thread.
        let (give, take) = sync_channel(1);
        let thread = thread::Builder::new().name("station".to_owned());
        let thread = thread.spawn(move || take.recv().ok().map(worker));
        match thread {
            Ok(thread) => {
                // The thread holds the other end, and there is room for one.
                let _ = give.send(port);
                Ok(Self {
                    commands: Some(commands),
                    events,
                    shared,
                    resolve_limit: network.resolve_limit,
                    macs: BTreeMap::new(),
                    // A link that is up is announced at the beginning.
                    had_link: true,
                    thread: Some(thread),
                })
            }
            Err(error) => {
                let closed = control.close_lan(port);
                closed.map_err(|(_, error)| error)?;
                Err(anyhow!(error).context("a thread for the LAN queues"))
            }
        }
    }

    /// Ends the thread and closes the port.
    ///
    /// # Errors
    /// The device's refusal.
    pub fn close(mut self, control: &mut Control<P>) -> Result<()> {
        let Some(port) = self.stop() else {
            return Err(anyhow!("the thread of the LAN queues has ended before"));
        };
        let closed = control.close_lan(port);
        closed
            .map_err(|(_, error)| error)
            .context("closing the LAN queues")
    }

    fn stop(&mut self) -> Option<LanPort<P>> {
        self.commands = None;
        // A panic was reported by the thread.
        self.thread.take()?.join().ok()?
    }

    /// Where packets to `destination` go; `idle` is called during the resolution, and may end it.
    ///
    /// # Errors
    /// [`Unresolved`], or the error of `idle`.
    pub fn resolve(&self, destination: IpAddr, idle: &dyn Fn() -> Result<()>) -> Result<Neighbour> {
        self.begin_resolve(destination.into()).wait(idle)
    }

    /// Sends an echo request; its outcome is an event.
    pub fn ping(&self, ping: Ping) {
        self.command(Command::Ping(ping));
    }

    /// If the thread has ended, the missing answer shows it.
    fn command(&self, command: Command) {
        if let Some(commands) = &self.commands {
            let _ = commands.send(command);
        }
    }

    /// The oldest event that was not taken yet; waits for one.
    pub fn wait_event(&self, limit: Duration) -> Option<StationEvent> {
        self.events.recv_timeout(limit).ok()
    }
}

impl<P: HostPlatform> Resolver<P> for Station<P> {
    fn join(&self, group: IpAddr) {
        self.command(Command::Join(group));
    }

    fn begin_resolve(&self, question: Question) -> PendingResolve {
        let Question {
            destination, known, ..
        } = question;
        let (answer, answered) = sync_channel(1);
        match known {
            Some(mac) => {
                let route = self.shared.route(destination);
                let via = destination;
                // There is room for one.
                let _ = answer.send(Ok(Neighbour { via, mac, route }));
            }
            None => self.command(Command::Resolve {
                destination,
                answer,
            }),
        }
        PendingResolve::new(destination, answered, self.resolve_limit)
    }

    fn trusts_peers(&self) -> bool {
        true
    }

    fn follow(&self, added: Vec<IpAddr>, gone: Vec<IpAddr>) {
        self.command(Command::Follow { added, gone });
    }

    fn mac_of(&self, destination: IpAddr) -> Option<MacAddr> {
        self.macs.get(&destination).copied()
    }

    fn progress(&mut self, control: &mut Control<P>, _: &mut dyn FnMut()) -> Result<bool> {
        let has_link = control.query_port(1)?.state == PortState::Active;
        if has_link && !self.had_link {
            // Others may have forgotten the function's addresses.
            self.command(Command::LinkUp);
        }
        self.had_link = has_link;
        let macs = self.shared.take();
        Ok(macs.map(|macs| self.macs = macs).is_some())
    }

    fn close(self: Box<Self>, control: &mut Control<P>) -> Result<()> {
        Self::close(*self, control)
    }
}

impl<P: HostPlatform> Drop for Station<P> {
    fn drop(&mut self) {
        if let Some(port) = self.stop() {
            // The device may still write to its memory: it stays allocated.
            drop(port);
        }
    }
}
