//! Keeps paths of queue pairs directed at their neighbours.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use e810::{Control, MacAddr};
use e810_backends::interrupts::HostPlatform;

use crate::route::Question;
use crate::station::{PendingResolve, Unresolved};

/// After the device has refused to move paths: when to try again.
const AGAIN: Duration = Duration::from_secs(1);

/// Has the function's LAN queues, answers there and finds its neighbours.
pub trait Resolver<P: HostPlatform>: Send {
    /// Announces to routers and switches that the function is in a multicast group.
    fn join(&self, group: IpAddr);

    /// Begins to find out where packets go; the answer is waited for without the resolver.
    fn begin_resolve(&self, question: Question) -> PendingResolve;

    /// The VLAN of packets whose sender has named none.
    fn vlan(&self) -> Option<u16> {
        None
    }

    /// The entry of the GID table that is used if none is named.
    fn usual_gid(&self, _vlan: Option<u16>) -> Option<u8> {
        None
    }

    /// Whether to believe a peer on the link about its Ethernet address. The host's stack is asked
    /// all the same, because packets go where the stack's own packets go.
    fn trusts_peers(&self) -> bool;

    /// Keeps watching the next hops of `added`, destinations that paths go to now, and stops
    /// watching those of `gone`.
    fn follow(&self, added: Vec<IpAddr>, gone: Vec<IpAddr>);

    /// Where packets to a destination go, as far as that is known.
    fn mac_of(&self, destination: IpAddr) -> Option<MacAddr>;

    /// Carries out what its threads have found out, and calls `on_gid_change` for each entry of the
    /// GID table that has changed. Returns whether a neighbour may have moved.
    ///
    /// # Errors
    /// A device that needs a reset, or an interface that is gone.
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

/// A function's resolver, and the paths that follow its neighbours.
///
/// The card's ARP table says which destinations have paths and where these go. The resolver says
/// where they should go. The two are compared when either has changed, so the order of events does
/// not matter.
pub struct NeighbourTracker<P: HostPlatform> {
    resolver: Box<dyn Resolver<P>>,
    /// Destinations whose paths are followed; `None`: all.
    named: Option<BTreeSet<IpAddr>>,
    /// Those of them that paths go to: the resolver watches them.
    followed: BTreeSet<IpAddr>,
    /// [`Control::neighbour_changes`] at the last look at the card's table.
    seen: u64,
    /// A destination was added since then.
    has_new: bool,
    /// When to retry what the device has refused.
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
    /// For a function whose addresses `resolver` finds.
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

    /// Follows all paths, whatever the source of their MAC addresses.
    #[must_use]
    pub fn following_all(mut self) -> Self {
        self.named = None;
        self
    }

    /// Announces to routers and switches that the function is in a multicast group.
    pub fn join(&self, group: IpAddr) {
        self.resolver.join(group);
    }

    /// The entry of the GID table that is used if none is named.
    #[must_use]
    pub fn usual_gid(&self, vlan: Option<u16>) -> Option<u8> {
        self.resolver.usual_gid(vlan)
    }

    /// Finds out now where packets to a destination go; paths to it are followed.
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

    /// The same for any question; the answer can be waited for without the tracker.
    pub fn begin_resolve(&self, question: impl Into<Question>) -> PendingResolve {
        self.resolver.begin_resolve(question.into())
    }

    /// Where packets go to a destination that is on the link and says that it is at `mac`; paths to
    /// it are followed. The host's stack is asked all the same, because packets go where the
    /// stack's own go.
    ///
    /// # Errors
    /// As [`NeighbourTracker::resolve`], from the host's stack.
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

    /// Where packets to a destination go, as far as that is known.
    #[must_use]
    pub fn mac_of(&self, destination: IpAddr) -> Option<MacAddr> {
        self.resolver.mac_of(destination)
    }

    fn follow(&mut self, destination: IpAddr) {
        if let Some(named) = &mut self.named {
            named.insert(destination.to_canonical());
            self.has_new = true;
        }
    }

    /// Moves paths to where their neighbours are now, and updates the GID table after a TAP
    /// interface's addresses.
    ///
    /// # Errors
    /// A device that needs a reset, and a TAP interface that was deleted. Other refusals are
    /// logged: the queue pairs notice by themselves that nothing answers.
    #[inline]
    pub fn progress(&mut self, control: &mut Control<P>) -> Result<()> {
        self.progress_and_tell(control, &mut || {})
    }

    /// The same; also reports each entry of the GID table that has changed.
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

    /// Whether the device refused to move paths the last time.
    #[cfg(test)]
    pub(super) const fn tries_again(&self) -> bool {
        self.again_at.is_some()
    }

    /// Compares where paths go with where they should go, and moves them there.
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
                        log::warn!(
                            "paths to {destination} are not changed yet and are tried again: {error}"
                        );
                    }
                }
            }
        }
        self.seen = control.neighbour_changes();
        Ok(())
    }

    /// Ends the resolver.
    ///
    /// # Errors
    /// As [`Resolver::close`].
    pub fn close(self, control: &mut Control<P>) -> Result<()> {
        self.resolver.close(control)
    }
}

/// Why a function has no resolver.
#[must_use]
pub fn without_station(destination: IpAddr) -> Unresolved {
    Unresolved::NoStation {
        destination,
        why: "another driver has its LAN queues, or they could not be opened",
    }
}
