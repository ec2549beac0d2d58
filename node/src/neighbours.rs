//! Paths of queue pairs, and the neighbours that they go to.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use e810::{Control, MacAddr};
use e810_backends::interrupts::HostPlatform;

use crate::route::Question;
use crate::station::{PendingResolve, Unresolved};

/// When it is tried again to move paths, after the device has refused to.
const AGAIN: Duration = Duration::from_secs(1);

/// Who has the function's LAN queues, answers there and finds its neighbours.
pub trait Resolver<P: HostPlatform>: Send {
    /// Says to routers and switches that the function is in a multicast group.
    fn join(&self, group: IpAddr);

    /// Where packets go, to be waited for without this.
    fn begin_resolve(&self, question: Question) -> PendingResolve;

    /// VLAN of packets whose sender has named none.
    fn vlan(&self) -> Option<u16> {
        None
    }

    /// The entry of the GID table that is used where none is asked for.
    fn usual_gid(&self, _vlan: Option<u16>) -> Option<u8> {
        None
    }

    /// Whether a peer on the link is where it says it is. A host's stack is asked all the same:
    /// packets go where its own go.
    fn trusts_peers(&self) -> bool;

    /// Stays with the next hops of destinations that paths go to now, and no longer with those of
    /// others.
    fn follow(&self, added: Vec<IpAddr>, gone: Vec<IpAddr>);

    /// Where packets to a destination go, as far as that is known.
    fn mac_of(&self, destination: IpAddr) -> Option<MacAddr>;

    /// Does what its threads have found out, and calls `on_gid_change` for each entry of the GID
    /// table that has changed. Whether a neighbour may be elsewhere now.
    ///
    /// # Errors
    /// A device that only a reset helps, or an interface that is gone.
    fn progress(
        &mut self,
        control: &mut Control<P>,
        on_gid_change: &mut dyn FnMut(),
    ) -> Result<bool>;

    /// Ends the threads and closes the LAN queues.
    ///
    /// # Errors
    /// The device's refusal.
    fn close(self: Box<Self>, control: &mut Control<P>) -> Result<()>;
}

/// Who resolves for a function, and the paths that follow its neighbours.
///
/// Which destinations have paths, and where these go, is what the card's ARP table has, and where
/// they should go is what the resolver knows. The two are compared when either has changed: so the
/// order of events is of no account.
pub struct NeighbourTracker<P: HostPlatform> {
    resolver: Box<dyn Resolver<P>>,
    /// Destinations whose paths are followed; `None`: all.
    named: Option<BTreeSet<IpAddr>>,
    /// Those of them that paths go to: the resolver stays with them.
    followed: BTreeSet<IpAddr>,
    /// [`Control::neighbour_changes`] when the card's table was looked at last.
    seen: u64,
    /// A destination was named since then.
    has_new: bool,
    /// When to try what the device has refused.
    again_at: Option<Instant>,
}

impl<P: HostPlatform> fmt::Debug for NeighbourTracker<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NeighbourTracker")
            .field("named", &self.named)
            .field("followed", &self.followed)
            .finish_non_exhaustive()
    }
}

impl<P: HostPlatform> NeighbourTracker<P> {
    /// Of a function that this one resolves for.
    pub fn new(resolver: impl Resolver<P> + 'static) -> Self {
        Self {
            resolver: Box::new(resolver),
            named: Some(BTreeSet::new()),
            followed: BTreeSet::new(),
            seen: 0,
            has_new: false,
            again_at: None,
        }
    }

    /// All paths are followed, wherever their MAC addresses came from.
    #[must_use]
    pub fn following_all(mut self) -> Self {
        self.named = None;
        self
    }

    /// Says to routers and switches that the function is in a multicast group.
    pub fn join(&self, group: IpAddr) {
        self.resolver.join(group);
    }

    /// The entry of the GID table that is used where none is asked for.
    #[must_use]
    pub fn usual_gid(&self, vlan: Option<u16>) -> Option<u8> {
        self.resolver.usual_gid(vlan)
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
            vlan: self.resolver.vlan(),
            ..destination.into()
        };
        let neighbour = self.begin_resolve(question).wait(idle)?;
        self.follow(destination);
        Ok(neighbour.mac)
    }

    /// The same of any question, whose answer can be waited for without this.
    pub fn begin_resolve(&self, question: impl Into<Question>) -> PendingResolve {
        self.resolver.begin_resolve(question.into())
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
        if !self.resolver.trusts_peers() {
            return self.resolve(destination, idle);
        }
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
        let has_moved = self.resolver.progress(control, on_gid_change)?;
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
            self.resolver.follow(added, gone);
        }
        let was_refused = self.again_at.take().is_some();
        for (destination, from) in paths {
            let known = self.resolver.mac_of(destination);
            let Some(to) = known.filter(|to| *to != from) else {
                continue;
            };
            match control.move_neighbour(destination, from, to) {
                Ok(paths) => log::info!("{paths} paths to {destination} go to {to} now"),
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

    /// Ends it.
    ///
    /// # Errors
    /// As [`Resolver::close`].
    pub fn close(self, control: &mut Control<P>) -> Result<()> {
        self.resolver.close(control)
    }
}

/// Why nobody resolves for a function.
#[must_use]
pub fn without_station(destination: IpAddr) -> Unresolved {
    Unresolved::NoStation {
        destination,
        why: "its LAN queues are not ours, or could not be opened",
    }
}
