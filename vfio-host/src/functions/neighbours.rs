//! Paths of queue pairs, and the neighbours that they go to.

use std::mem;
use std::net::IpAddr;

use anyhow::Result;
use e810::{Control, MacAddr};
use e810_backends::interrupts::HostPlatform;

use super::station::{Neighbour, PendingResolve, Station, StationEvent, Unresolved};
use super::tap::{Tap, TapChange, TapPlan};
use crate::cli::own_address::OwnAddress;
use crate::output::units;

/// A path that is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Followed {
    destination: IpAddr,
    /// Its next hop.
    via: IpAddr,
    /// Where the queue pairs' packets go.
    mac: MacAddr,
}

/// Who has the function's LAN queues, answers there and resolves.
#[derive(Debug)]
enum Resolver<P: HostPlatform> {
    Station(Station<P>),
    Tap(Box<Tap<P>>),
}

/// Who resolves for a function, and the paths that follow its neighbours.
#[derive(Debug)]
pub struct NeighbourTracker<P: HostPlatform> {
    resolver: Resolver<P>,
    followed: Vec<Followed>,
    /// One was added since its neighbour was looked at.
    has_new: bool,
}

impl<P: HostPlatform> NeighbourTracker<P> {
    /// Of a function that answers by itself.
    pub const fn of_station(station: Station<P>) -> Self {
        Self {
            resolver: Resolver::Station(station),
            followed: Vec::new(),
            has_new: false,
        }
    }

    /// Of one that the host's stack answers for.
    pub(crate) fn of_tap(tap: Tap<P>) -> Self {
        Self {
            resolver: Resolver::Tap(Box::new(tap)),
            followed: Vec::new(),
            has_new: false,
        }
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
    ) -> Result<Self> {
        let plan = TapPlan {
            name: name.to_owned(),
            addresses,
            vlan: None,
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
        let neighbour = self.begin_resolve(destination).wait(idle)?;
        self.follow_found(destination, neighbour);
        Ok(neighbour.mac)
    }

    /// The same, whose answer can be waited for without this: then
    /// [`NeighbourTracker::follow_found`] is called with it.
    pub fn begin_resolve(&self, destination: IpAddr) -> PendingResolve {
        match &self.resolver {
            Resolver::Station(station) => station.begin_resolve(destination),
            Resolver::Tap(tap) => tap.begin_resolve(destination),
        }
    }

    /// Paths to a destination follow its neighbour, which was found.
    pub fn follow_found(&mut self, destination: IpAddr, neighbour: Neighbour) {
        self.follow(Followed {
            destination,
            via: neighbour.via,
            mac: neighbour.mac,
        });
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
        let Resolver::Station(station) = &self.resolver else {
            return self.resolve(destination, idle);
        };
        station.watch(destination);
        self.follow(Followed {
            destination,
            via: destination,
            mac,
        });
        Ok(mac)
    }

    fn follow(&mut self, path: Followed) {
        self.followed
            .retain(|known| known.destination != path.destination);
        self.followed.push(path);
        self.has_new = true;
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
        match &mut self.resolver {
            Resolver::Station(station) => {
                if !station.has_events() {
                    return Ok(());
                }
                while let Some(event) = station.next_event() {
                    if let StationEvent::Neighbour { ip, mac } = event {
                        let paths = self.followed.iter_mut().filter(|path| path.via == ip);
                        for path in paths {
                            path.go_to(control, mac)?;
                        }
                    }
                }
            }
            Resolver::Tap(tap) => {
                let has_changed = tap.progress(control, &mut |change| {
                    if let TapChange::Gid(_) = change {
                        on_gid_change();
                    }
                    log_change(change);
                })?;
                if !has_changed && !mem::take(&mut self.has_new) {
                    return Ok(());
                }
                for path in &mut self.followed {
                    if let Some(mac) = tap.mac_of(path.destination) {
                        path.go_to(control, mac)?;
                    }
                }
            }
        }
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

impl Followed {
    fn go_to<P: HostPlatform>(
        &mut self,
        control: &mut Control<P>,
        mac: MacAddr,
    ) -> Result<(), e810::Error> {
        if self.mac == mac {
            return Ok(());
        }
        match control.move_neighbour(self.destination, self.mac, mac) {
            Ok(paths) => {
                log::info!(
                    "{paths} paths to {} go to {} now",
                    self.destination,
                    units::mac(mac)
                );
                self.mac = mac;
            }
            Err(error) if error.needs_reset() => return Err(error),
            Err(error) => log::warn!("paths to {} stay: {error}", self.destination),
        }
        Ok(())
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
