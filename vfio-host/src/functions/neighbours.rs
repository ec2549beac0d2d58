//! Paths of queue pairs, and the neighbours that they go to.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use e810::{Control, MacAddr, PortState};
use e810_backends::interrupts::HostPlatform;
use e810_hal::Ns;

use super::route::Question;
use super::station::{PendingResolve, Station, Unresolved};
use super::tap::{Tap, TapChange, TapPlan};
use crate::cli::own_address::OwnAddress;
use crate::output::units;

/// When it is tried again to move paths, after the device has refused to.
const AGAIN: Duration = Duration::from_secs(1);

/// Who has the function's LAN queues, answers there and resolves.
#[derive(Debug)]
enum Resolver<P: HostPlatform> {
    Station(Station<P>),
    Tap(Box<Tap<P>>),
}

/// Who resolves for a function, and the paths that follow its neighbours.
///
/// Which destinations have paths, and where these go, is what the card's ARP table has, and where
/// they should go is what the resolver knows. The two are compared when either has changed: so the
/// order of events is of no account.
#[derive(Debug)]
pub struct NeighbourTracker<P: HostPlatform> {
    resolver: Resolver<P>,
    /// Destinations whose paths are followed; `None`: all.
    named: Option<BTreeSet<IpAddr>>,
    /// Those of them that paths go to: the resolver stays with them.
    followed: BTreeSet<IpAddr>,
    /// Where packets to them go, as a station has said last.
    macs: BTreeMap<IpAddr, MacAddr>,
    /// [`Control::neighbour_changes`] when the card's table was looked at last.
    seen: u64,
    /// A destination was named since then.
    has_new: bool,
    /// When to try what the device has refused.
    again_at: Option<Instant>,
    had_link: bool,
}

impl<P: HostPlatform> NeighbourTracker<P> {
    const fn new(resolver: Resolver<P>) -> Self {
        Self {
            resolver,
            named: Some(BTreeSet::new()),
            followed: BTreeSet::new(),
            macs: BTreeMap::new(),
            seen: 0,
            has_new: false,
            again_at: None,
            // What has come up is announced as it begins.
            had_link: true,
        }
    }

    /// Of a function that answers by itself.
    pub const fn of_station(station: Station<P>) -> Self {
        Self::new(Resolver::Station(station))
    }

    /// Of one that the host's stack answers for.
    pub(crate) fn of_tap(tap: Tap<P>) -> Self {
        Self::new(Resolver::Tap(Box::new(tap)))
    }

    /// All paths are followed, wherever their MAC addresses came from.
    #[must_use]
    pub fn following_all(mut self) -> Self {
        self.named = None;
        self
    }

    /// Of one that the host's stack is to answer for, through a TAP interface of this name, which
    /// gets these addresses: the GID table has those of the interface.
    ///
    /// # Errors
    /// There is no such interface to be had, or its LAN queues cannot be opened.
    pub fn start_tap(
        platform: P,
        control: &mut Control<P>,
        name: &str,
        addresses: Vec<OwnAddress>,
        resolve_limit: Ns,
    ) -> Result<Self> {
        let plan = TapPlan {
            name: name.to_owned(),
            addresses,
            vlan: None,
            resolve_limit,
        };
        let mut changes = Vec::new();
        let tap = Tap::start(platform, control, &plan, &mut changes)?;
        changes.into_iter().for_each(log_change);
        Ok(Self::of_tap(tap))
    }

    /// The TAP interface, if there is one.
    pub(crate) const fn tap(&self) -> Option<&Tap<P>> {
        match &self.resolver {
            Resolver::Station(_) => None,
            Resolver::Tap(tap) => Some(tap),
        }
    }

    /// Says to routers and switches that the function is in a multicast group.
    pub fn join(&self, group: IpAddr) {
        match &self.resolver {
            Resolver::Station(station) => station.join(group),
            Resolver::Tap(tap) => log::warn!(
                "{group}: the host's stack does not report this group for {}; where switches look at such reports, join it there too (`ip address add {group}/32 dev {} autojoin`)",
                tap.name(),
                tap.name()
            ),
        }
    }

    /// Where packets to a destination go, found out now; paths to there are followed.
    ///
    /// # Errors
    /// As [`PendingResolve::wait`].
    pub fn resolve(
        &mut self,
        destination: IpAddr,
        idle: &dyn Fn() -> Result<()>,
    ) -> Result<MacAddr> {
        let question = Question {
            vlan: self.tap().and_then(Tap::vlan),
            ..destination.into()
        };
        let neighbour = self.begin_resolve(question).wait(idle)?;
        self.follow(destination);
        Ok(neighbour.mac)
    }

    /// The same of any question, whose answer can be waited for without this.
    pub fn begin_resolve(&self, question: impl Into<Question>) -> PendingResolve {
        match &self.resolver {
            Resolver::Station(station) => station.begin_resolve(question),
            Resolver::Tap(tap) => tap.begin_resolve(question),
        }
    }

    /// Where packets to a destination go that is on the link, at `mac`, as its own side says; paths
    /// to there are followed. The host's stack is asked all the same: packets go where its own go.
    ///
    /// # Errors
    /// As [`NeighbourTracker::resolve`], of the host's stack.
    pub fn follow_on_link(
        &mut self,
        destination: IpAddr,
        mac: MacAddr,
        idle: &dyn Fn() -> Result<()>,
    ) -> Result<MacAddr> {
        let Resolver::Station(_) = &self.resolver else {
            return self.resolve(destination, idle);
        };
        self.follow(destination);
        Ok(mac)
    }

    fn follow(&mut self, destination: IpAddr) {
        if let Some(named) = &mut self.named {
            named.insert(destination.to_canonical());
            self.has_new = true;
        }
    }

    /// Has paths go to where their neighbours are now, and the GID table follow a TAP interface's
    /// addresses.
    ///
    /// # Errors
    /// A device that only a reset helps. Other refusals are logged: the queue pairs
    /// notice by themselves that nothing answers. A TAP interface that was deleted.
    #[inline]
    pub fn progress(&mut self, control: &mut Control<P>) -> Result<()> {
        self.progress_and_tell(control, &mut || {})
    }

    /// The same, and says of each entry of the GID table that has changed.
    ///
    /// # Errors
    /// As [`NeighbourTracker::progress`].
    #[inline]
    pub fn progress_and_tell(
        &mut self,
        control: &mut Control<P>,
        on_gid_change: &mut dyn FnMut(),
    ) -> Result<()> {
        let has_moved = match &mut self.resolver {
            Resolver::Station(station) => {
                let has_link = control.query_port(1)?.state == PortState::Active;
                if has_link && !self.had_link {
                    station.link_up();
                }
                self.had_link = has_link;
                let macs = station.take_macs();
                macs.map(|macs| self.macs = macs).is_some()
            }
            Resolver::Tap(tap) => tap.progress(control, &mut |change| {
                if let TapChange::Gid(_) = change {
                    on_gid_change();
                }
                log_change(change);
            })?,
        };
        let is_due = self.again_at.is_some_and(|at| Instant::now() >= at);
        if has_moved || is_due || self.has_new || self.seen != control.neighbour_changes() {
            self.compare(control)?;
        }
        Ok(())
    }

    /// Whether the device has refused to move paths the last time.
    #[cfg(test)]
    pub(super) const fn tries_again(&self) -> bool {
        self.again_at.is_some()
    }

    /// Compares where paths go with where they should go, and has them go there.
    fn compare(&mut self, control: &mut Control<P>) -> Result<()> {
        self.has_new = false;
        let named = self.named.as_ref();
        let is_followed =
            |ip: &IpAddr| !ip.is_multicast() && named.is_none_or(|named| named.contains(ip));
        let paths: Vec<_> = control.neighbours().collect();
        let paths = paths.into_iter().filter(|(ip, _)| is_followed(ip));
        let paths: Vec<(IpAddr, MacAddr)> = paths.collect();
        let used: BTreeSet<IpAddr> = paths.iter().map(|(ip, _)| *ip).collect();
        let added: Vec<_> = used.difference(&self.followed).copied().collect();
        let gone: Vec<_> = self.followed.difference(&used).copied().collect();
        self.followed = used;
        if !added.is_empty() || !gone.is_empty() {
            match &self.resolver {
                Resolver::Station(station) => station.follow(added, gone),
                Resolver::Tap(tap) => tap.follow(added, gone),
            }
        }
        let was_refused = self.again_at.take().is_some();
        for (destination, from) in paths {
            let known = match &self.resolver {
                Resolver::Station(_) => self.macs.get(&destination).copied(),
                Resolver::Tap(tap) => tap.mac_of(destination),
            };
            let Some(to) = known.filter(|to| *to != from) else {
                continue;
            };
            match control.move_neighbour(destination, from, to) {
                Ok(paths) => log::info!(
                    "{paths} paths to {destination} go to {} now",
                    units::mac(to)
                ),
                Err(error) if error.needs_reset() => return Err(error.into()),
                Err(error) => {
                    self.again_at = Some(Instant::now() + AGAIN);
                    if !was_refused {
                        log::warn!("paths to {destination} stay, and are tried again: {error}");
                    }
                }
            }
        }
        self.seen = control.neighbour_changes();
        Ok(())
    }

    /// As [`Station::close`], and what the TAP interface says.
    pub fn close(self, control: &mut Control<P>) -> Result<()> {
        match self.resolver {
            Resolver::Station(station) => station.close(control),
            Resolver::Tap(tap) => tap.close(control).map(drop),
        }
    }
}

/// What changes while messages go on, for the log.
pub(crate) fn log_change(change: TapChange) {
    log::info!("{change:?}");
}

/// Why nobody resolves for a function.
pub(crate) fn without_station(destination: IpAddr) -> Unresolved {
    Unresolved::NoStation {
        destination,
        why: "its LAN queues are not ours, or could not be opened",
    }
}
