//! A function's LAN queues as a TAP interface of the host, whose own network stack answers and
//! resolves there.
//!
//! * `device`, the interface's file;
//! * `forwarder`, the thread that has the LAN port and the file: it passes frames both ways;
//! * `netlink`, `messages` and `groups`, questions to the kernel and its answers; `stack`, the same
//!   for one interface;
//! * `netlink_monitor`, the thread that follows the stack;
//! * `gids`, the GID table, which follows the addresses.
//!
//! The thread that has [`Control`] carries out what these threads find out, in `Tap::progress`.

mod device;
mod forwarder;
mod gids;
mod groups;
mod messages;
mod netlink;
mod netlink_monitor;
mod stack;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use e810::{Control, LanPort, LanPortKey, LanSide, MacAddr, PortState};
use e810_backends::interrupts::HostPlatform;
use e810_hal::Ns;

use crate::address::OwnAddress;
use crate::neighbours::{NeighbourTracker, Resolver};
use crate::route::Question;
use crate::station::PendingResolve;
pub use device::TapError;
pub use forwarder::TapCounts;
use forwarder::{Forwarder, ForwardingCounts};
use gids::FollowedGids;
pub use gids::GidChange;
use netlink::Changes;
use netlink_monitor::{Command, NetlinkMonitor, Shared, View};
use stack::Stack;

/// Commands that may wait for the monitor.
const COMMANDS: usize = 32;
/// Time between two looks at the link, and at remaining work.
const REFRESH: Ns = Ns::from_ms(10);

/// The settings of a TAP interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapPlan {
    /// Its name.
    pub name: String,
    /// Addresses to add to it.
    pub addresses: Vec<OwnAddress>,
    /// The VLAN of paths that name none.
    pub vlan: Option<u16>,
    /// How long an address may take to be resolved.
    pub resolve_limit: Ns,
}

/// A change, for the command that shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapChange {
    /// The port's link, and so the interface's carrier.
    Link {
        /// Whether there is one.
        is_up: bool,
        /// Its speed; 0: not known.
        mbps: u32,
    },
    /// An entry of the GID table.
    Gid(GidChange),
}

impl TapChange {
    /// Logs it, for what changes while messages go on.
    pub fn log(self) {
        log::info!("{self:?}");
    }
}

/// A TAP interface that has a function's LAN queues; its threads end when this is dropped.
#[derive(Debug)]
pub struct Tap<P: HostPlatform> {
    platform: P,
    name: String,
    vlan: Option<u16>,
    /// Dropped before the monitor is joined: that ends the monitor.
    commands: Option<SyncSender<Command>>,
    shared: Arc<Shared>,
    monitor: Option<JoinHandle<Stack>>,
    stop: Arc<AtomicBool>,
    forwarder: Option<JoinHandle<Option<LanPort<P>>>>,
    counts: Arc<ForwardingCounts>,
    port: LanPortKey,
    resolve_limit: Ns,
    view: View,
    /// The last MTU taken from the interface.
    mtu: u16,
    gids: FollowedGids,
    /// Groups that the port is in, and groups that it cannot join.
    groups: BTreeSet<[u8; 6]>,
    refused_groups: BTreeSet<[u8; 6]>,
    has_link: Option<bool>,
    refresh_at: Ns,
    /// A GID has to be removed, and is in use.
    is_left: bool,
}

impl<P: HostPlatform> Tap<P> {
    /// Opens the function's LAN queues, and creates or attaches the interface. The changes that
    /// this causes are added to `changes`.
    ///
    /// # Errors
    /// The interface cannot be had, with what to do; the LAN queues cannot be opened. Nothing is
    /// left behind.
    pub fn start(
        platform: P,
        control: &mut Control<P>,
        plan: &TapPlan,
        changes: &mut Vec<TapChange>,
    ) -> Result<Self> {
        let device = device::open(&plan.name)?;
        let lan = control.lan();
        let mut stack = Stack::of(&plan.name)?;
        let set_up = stack.set_up(lan.mac, lan.mtu, &plan.addresses);
        set_up.with_context(|| format!("TAP interface {}", plan.name))?;
        let changed = Changes::open().context("hearing of changes of the host's network stack")?;
        let shared = Arc::new(Shared::default());
        let monitor = NetlinkMonitor::new(plan, lan.mac, stack, changed, Arc::clone(&shared));
        // The interface's MTU may be raised later.
        let most = control.lan_side().map_or(lan.mtu, LanSide::max_mtu);
        let port = control.open_lan(&crate::lan_init(most));
        let port = port.context("opening the LAN queues")?;
        let mut tap = Self {
            platform,
            name: plan.name.clone(),
            vlan: plan.vlan,
            commands: None,
            shared,
            monitor: None,
            stop: Arc::new(AtomicBool::new(false)),
            forwarder: None,
            counts: Arc::new(ForwardingCounts::default()),
            port: port.key(),
            resolve_limit: plan.resolve_limit,
            view: View::default(),
            mtu: lan.mtu,
            gids: FollowedGids::default(),
            groups: BTreeSet::new(),
            refused_groups: BTreeSet::new(),
            has_link: None,
            refresh_at: Ns(0),
            is_left: false,
        };
        let forwarder =
            Forwarder::new(port, device, Arc::clone(&tap.counts), Arc::clone(&tap.stop));
        let running = forwarder.and_then(|forwarder| tap.run(forwarder, monitor));
        let begun = match running {
            Ok(begun) => begun,
            Err((port, error)) => {
                let closed = control.close_lan(port);
                closed.map_err(|(_, error)| error)?;
                return Err(error);
            }
        };
        let begun = begun.and_then(|()| tap.progress(control, &mut |change| changes.push(change)));
        if let Err(error) = begun {
            // The first error says more than one that the cleanup may add.
            let _ = tap.close(control);
            return Err(error);
        }
        Ok(tap)
    }

    /// The same, with paths that follow its neighbours. Changes are logged.
    ///
    /// # Errors
    /// As [`Tap::start`].
    pub fn tracker(
        platform: P,
        control: &mut Control<P>,
        plan: &TapPlan,
    ) -> Result<NeighbourTracker<P>> {
        let mut changes = Vec::new();
        let tap = Self::start(platform, control, plan, &mut changes)?;
        changes.into_iter().for_each(TapChange::log);
        Ok(NeighbourTracker::new(tap))
    }

    /// Starts both threads.
    ///
    /// # Errors
    /// The port comes back if no thread has it. After the second error, the inner one, it is closed
    /// with the rest.
    fn run<T: device::TapFrames>(
        &mut self,
        forwarder: Forwarder<P, T>,
        mut monitor: NetlinkMonitor,
    ) -> Result<Result<()>, (LanPort<P>, anyhow::Error)> {
        // Before any decision depends on it.
        monitor.refresh(Instant::now());
        let thread = |name: &str| thread::Builder::new().name(name.to_owned());
        // Through a channel, so that the port can be closed if there is no thread.
        let (give, take) = sync_channel::<Forwarder<P, T>>(1);
        let worker = thread("tap").spawn(move || take.recv().ok().map(Forwarder::run));
        match worker.context("a thread for the LAN queues") {
            Ok(worker) => self.forwarder = Some(worker),
            Err(error) => return Err((forwarder.into_port(), error)),
        }
        // The thread holds the other end, and there is room for one.
        let _ = give.send(forwarder);
        let (commands, from_program) = sync_channel(COMMANDS);
        let monitor = thread("tap-stack").spawn(move || monitor.run(&from_program));
        let monitor = monitor.context("a thread for the host's network stack");
        Ok(monitor.map(|monitor| {
            self.monitor = Some(monitor);
            self.commands = Some(commands);
        }))
    }

    /// The interface.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Frames so far.
    pub fn counts(&self) -> TapCounts {
        self.counts.read()
    }

    /// Carries out what the other threads have found out: GIDs, groups, the carrier. Returns
    /// whether the neighbours of paths may have changed ([`Tap::mac_of`]). If nothing has changed,
    /// this costs a look at the clock and a load.
    ///
    /// # Errors
    /// A device that needs a reset; the interface was deleted.
    pub fn progress(
        &mut self,
        control: &mut Control<P>,
        on_change: &mut dyn FnMut(TapChange),
    ) -> Result<bool> {
        let now = self.platform.now();
        let is_due = now >= self.refresh_at;
        if is_due {
            self.refresh_at = now + REFRESH;
            self.follow_link(control, on_change)?;
        }
        match self.shared.take() {
            Some(view) => self.view = view,
            None if is_due && self.is_left => {}
            None => return Ok(false),
        }
        let Some(addresses) = &self.view.addresses else {
            bail!(
                "TAP interface {}: it was deleted, or has left this network namespace; start again, and leave it there",
                self.name
            );
        };
        let mut changed = Vec::new();
        self.is_left = self.gids.follow(control, addresses, &mut changed);
        self.follow_mtu(control);
        for change in changed {
            on_change(TapChange::Gid(change));
        }
        self.follow_groups(control)?;
        Ok(true)
    }

    fn follow_link(
        &mut self,
        control: &Control<P>,
        on_change: &mut dyn FnMut(TapChange),
    ) -> Result<()> {
        let port = control.query_port(1)?;
        let is_up = port.state == PortState::Active;
        if self.has_link != Some(is_up) {
            self.has_link = Some(is_up);
            self.command(Command::Carrier(is_up));
            let mbps = if is_up { port.mbps } else { 0 };
            on_change(TapChange::Link { is_up, mbps });
        }
        Ok(())
    }

    /// Applies the interface's MTU to paths, from now on.
    fn follow_mtu(&mut self, control: &mut Control<P>) {
        let mtu = u16::try_from(self.view.mtu).unwrap_or(u16::MAX);
        if mtu == self.mtu {
            return;
        }
        self.mtu = mtu;
        match control.set_mtu(mtu) {
            Ok(()) => log::info!("{}: MTU {mtu}", self.name),
            Err(error) => log::warn!("{}: MTU {mtu}: {error}; the one before stays", self.name),
        }
    }

    fn follow_groups(&mut self, control: &mut Control<P>) -> Result<()> {
        let wanted = &self.view.groups;
        for group in self.groups.difference(wanted) {
            match control.leave_lan_group(self.port, MacAddr(*group)) {
                Err(error) if error.needs_reset() => return Err(error.into()),
                left => log::debug!("group {} left: {left:?}", MacAddr(*group)),
            }
        }
        self.groups.retain(|group| wanted.contains(group));
        self.refused_groups.retain(|group| wanted.contains(group));
        for group in wanted.difference(&self.groups.clone()) {
            match control.join_lan_group(self.port, MacAddr(*group)) {
                Ok(()) => {
                    self.groups.insert(*group);
                    self.refused_groups.remove(group);
                }
                Err(error) if error.needs_reset() => return Err(error.into()),
                Err(error) if self.refused_groups.insert(*group) => {
                    log::warn!("frames to {} do not arrive: {error}", MacAddr(*group));
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// If the thread has ended, the missing answer shows it.
    fn command(&self, command: Command) {
        if let Some(commands) = &self.commands {
            let _ = commands.send(command);
        }
    }

    /// Ends the threads and closes the port. An interface that was created is deleted; one that
    /// existed before stays without carrier.
    ///
    /// # Errors
    /// The device's refusal.
    pub fn close(mut self, control: &mut Control<P>) -> Result<TapCounts> {
        let Some(port) = self.stop() else {
            return Err(anyhow!("the thread of the LAN queues has ended before"));
        };
        let received = port.rx_counts();
        let counts = TapCounts {
            unusable: [
                received.damaged,
                received.too_long,
                received.malformed,
                received.tag_lost,
            ]
            .into_iter()
            .sum(),
            ..self.counts()
        };
        log::info!("{}: {counts:?}", self.name);
        let closed = control.close_lan(port);
        closed
            .map_err(|(_, error)| error)
            .context("closing the LAN queues")?;
        Ok(counts)
    }

    fn stop(&mut self) -> Option<LanPort<P>> {
        self.commands = None;
        // A panic was reported by the thread. The addresses that were added go with the stack.
        drop(self.monitor.take().map(JoinHandle::join));
        self.stop.store(true, Ordering::Relaxed);
        self.forwarder.take()?.join().ok()?
    }
}

impl<P: HostPlatform> Resolver<P> for Tap<P> {
    fn join(&self, group: IpAddr) {
        log::warn!(
            "{group}: the host's stack does not report this group for {0}; where switches look at such reports, join it there too (`ip address add {group}/32 dev {0} autojoin`)",
            self.name
        );
    }

    fn begin_resolve(&self, question: Question) -> PendingResolve {
        let (answer, answered) = sync_channel(1);
        self.command(Command::Resolve { question, answer });
        PendingResolve::new(question.destination, answered, self.resolve_limit)
    }

    fn vlan(&self) -> Option<u16> {
        self.vlan
    }

    fn usual_gid(&self, vlan: Option<u16>) -> Option<u8> {
        self.gids.usual(vlan)
    }

    fn trusts_peers(&self) -> bool {
        false
    }

    fn follow(&self, added: Vec<IpAddr>, gone: Vec<IpAddr>) {
        self.command(Command::Follow { added, gone });
    }

    fn mac_of(&self, destination: IpAddr) -> Option<MacAddr> {
        self.view.paths.get(&destination).copied()
    }

    fn progress(
        &mut self,
        control: &mut Control<P>,
        on_gid_change: &mut dyn FnMut(),
    ) -> Result<bool> {
        Self::progress(self, control, &mut |change| {
            if let TapChange::Gid(_) = change {
                on_gid_change();
            }
            change.log();
        })
    }

    fn close(self: Box<Self>, control: &mut Control<P>) -> Result<()> {
        Self::close(*self, control).map(drop)
    }
}

impl<P: HostPlatform> Drop for Tap<P> {
    fn drop(&mut self) {
        if let Some(port) = self.stop() {
            // The device may still write to its memory: it stays allocated.
            drop(port);
        }
    }
}
