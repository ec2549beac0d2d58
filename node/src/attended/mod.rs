//! A function that is up and attended, for programs that connect: a thread handles its events,
//! finds its neighbours and keeps its connections.
//!
//! * [`Attended`]: the function, and its control path for a program's queue pairs and memory;
//! * [`Listener`] and [`Connection`]: to wait for in a thread, or as futures, which need no
//!   executor but the one that polls them;
//! * `worker`, the thread.

mod connection;
mod datagrams;
mod listener;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow, bail};
use e810::{
    Ah, Control, Cq, EventSet, LinkPolicy, Mr, Notify, Pd, Qp, QpAttr, QpControl, Remaining, Wc,
};
use e810_backends::HostDevice;
use e810_backends::spec::AddressedSpec;
use e810_cm::ip::PortSpace;
use e810_cm::machine::{Connect, ConnectionId, Counters, Overview};
use e810_connect::{Answer, Call, Refused, Service};
use e810_hal::Ns;

pub use connection::{Connection, Ended};
pub use datagrams::Resolved;
pub use e810_connect::{Grant, News, NotConnected, Phase, PrivateData, Requested, Told};
pub use listener::Listener;
use worker::Worker;

use crate::address::addresses_of;
use crate::connections::{Connections, Program};
use crate::neighbours::NeighbourTracker;
use crate::start::{Sizes, Start};
use crate::station::{Network, Pace, Station};

/// The only program.
const PROGRAM: Program = Program(0);

/// What the thread and the program share.
struct State<P: HostDevice> {
    control: Control<P>,
    tracker: Option<NeighbourTracker<P>>,
    connections: Connections<P>,
    /// News that a connection was not told yet; of requests, by the context of their listener.
    told: BTreeMap<ConnectionId, VecDeque<Told>>,
    requests: BTreeMap<u64, VecDeque<Told>>,
    listeners: u64,
    wakers: Vec<Waker>,
    /// The program ends it.
    is_ending: bool,
    /// Why the thread has ended.
    gone: Option<String>,
}

impl<P: HostDevice> State<P> {
    /// Takes a request back that no program has taken; whatever is told of it next, its peer has
    /// given up.
    fn withdrawn(&mut self, id: ConnectionId) -> bool {
        self.requests.values_mut().any(|requests| {
            let at = requests.iter().position(|request| request.id == id);
            at.and_then(|at| requests.remove(at)).is_some()
        })
    }

    /// Lets the connection manager work, and sorts what it says. Returns when to do it again.
    fn progress(&mut self) -> Result<Option<Ns>> {
        let tracker = self.tracker.as_ref();
        let at = self.connections.progress(&mut self.control, tracker)?;
        while let Some(told) = self.connections.next(PROGRAM) {
            match told.news {
                News::Requested(_) => match self.requests.get_mut(&told.context) {
                    Some(requests) => requests.push_back(told),
                    None => self.release(told.id),
                },
                _ if self.withdrawn(told.id) => self.release(told.id),
                _ => self.told.entry(told.id).or_default().push_back(told),
            }
        }
        Ok(at)
    }

    /// Forgets a connection that nobody wants.
    fn release(&mut self, id: ConnectionId) {
        // One that the manager has forgotten needs nothing.
        let _ = self.call(&Call::Release(id));
        self.told.remove(&id);
    }

    fn next(&mut self, id: ConnectionId) -> Option<Told> {
        self.told.get_mut(&id)?.pop_front()
    }
}

impl<P: HostDevice> Service<P> for State<P> {
    fn call(&mut self, call: &Call<'_>) -> Result<Answer, Refused> {
        let tracker = self.tracker.as_ref();
        let answer = self
            .connections
            .call(&self.control, tracker, PROGRAM, call)?;
        // Datagrams go at once. If that fails, the thread finds out, too, and says so.
        let _ = self.progress();
        Ok(answer)
    }

    fn modify(&mut self, qp: &mut QpControl<P>, attr: &QpAttr) -> e810::Result<()> {
        self.control.modify_qp(qp, attr)
    }
}

struct Shared<P: HostDevice> {
    platform: P,
    network: Network,
    state: Mutex<State<P>>,
    /// Something has happened.
    changed: Condvar,
}

impl<P: HostDevice> Shared<P> {
    fn lock(&self) -> MutexGuard<'_, State<P>> {
        // The driver's state is consistent between its calls, and a panic in one is reported.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `step` has a result, for `limit` at most: `None` after that, and when the
    /// function is gone.
    fn wait<R>(
        &self,
        limit: Duration,
        mut step: impl FnMut(&mut State<P>) -> Option<R>,
    ) -> Option<R> {
        // A limit that no clock reaches is none.
        let end = Instant::now().checked_add(limit);
        let mut state = self.lock();
        loop {
            if let Some(result) = step(&mut state) {
                return Some(result);
            }
            let left = end.map_or(limit, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() || state.gone.is_some() {
                return None;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The same for a task; `None` only when the function is gone.
    fn poll<R>(
        &self,
        waker: &Waker,
        mut step: impl FnMut(&mut State<P>) -> Option<R>,
    ) -> Poll<Option<R>> {
        let mut state = self.lock();
        match step(&mut state) {
            Some(result) => Poll::Ready(Some(result)),
            None if state.gone.is_some() => Poll::Ready(None),
            None => {
                if !state.wakers.iter().any(|other| other.will_wake(waker)) {
                    state.wakers.push(waker.clone());
                }
                Poll::Pending
            }
        }
    }

    /// Why a wait has ended without a result.
    fn why_not(&self, label: &str, limit: Duration) -> Error {
        match &self.lock().gone {
            Some(why) => anyhow!("{label}: {why}"),
            None => anyhow!("{label}: nothing within {limit:?}"),
        }
    }
}

/// A function that a thread attends.
pub struct Attended<P: HostDevice> {
    shared: Arc<Shared<P>>,
    thread: Option<Worker<P>>,
}

impl<P: HostDevice> fmt::Debug for Attended<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attended")
            .field("network", &self.shared.network)
            .finish_non_exhaustive()
    }
}

impl<P: HostDevice> Attended<P> {
    /// Brings a function up with the addresses, gateways and MTU of a specification, and attends it
    /// from now on. `wait=` changes nothing here: a peer that does not answer is given up after 10 s.
    ///
    /// # Errors
    /// As [`start`](Self::start); addresses that no function can have; a TAP interface, which
    /// attended functions do not use yet.
    pub fn open(platform: P, spec: &AddressedSpec) -> Result<Self> {
        Self::open_for(platform, spec, Sizes::default())
    }

    /// The same, for the numbers of objects in `sizes`.
    ///
    /// # Errors
    /// As there.
    pub fn open_for(platform: P, spec: &AddressedSpec, sizes: Sizes) -> Result<Self> {
        if let Some(tap) = &spec.tap {
            bail!("tap={tap}: a TAP interface is not possible here; name addresses instead");
        }
        let addresses = addresses_of(spec).map_err(Error::msg)?;
        let start = Start::usual(&platform, spec.mtu.unwrap_or(crate::start::MTU))?;
        let network = Network {
            addresses,
            gateways: spec.gateways.clone(),
            ..Network::default()
        };
        Self::start(platform, &start, sizes, network)
    }

    /// Brings a function up with the addresses of `network`, and attends it from now on.
    ///
    /// # Errors
    /// The stage that failed. Nothing is left behind.
    pub fn start(platform: P, start: &Start, sizes: Sizes, network: Network) -> Result<Self> {
        let (work, thread) = worker::start()?;
        let link = LinkPolicy::Wait(crate::start::LINK);
        let up = start.bring_up_for(platform.clone(), sizes, link, &mut |_| {})?;
        let (mut control, events) = up.split();
        match Self::set_up(&platform, &mut control, &network) {
            Ok((tracker, connections)) => {
                let state = State {
                    control,
                    tracker: Some(tracker),
                    connections,
                    told: BTreeMap::new(),
                    requests: BTreeMap::new(),
                    listeners: 0,
                    wakers: Vec::new(),
                    is_ending: false,
                    gone: None,
                };
                let shared = Arc::new(Shared {
                    platform,
                    network,
                    state: Mutex::new(state),
                    changed: Condvar::new(),
                });
                // It waits for this, so there is room and a receiver.
                let _ = work.send((Arc::clone(&shared), events));
                let thread = Some(thread);
                Ok(Self { shared, thread })
            }
            Err(error) => {
                if let Err(failed) = control.shutdown(events) {
                    log::warn!("the function is not shut down: {}", failed.error);
                }
                Err(error)
            }
        }
    }

    fn set_up(
        platform: &P,
        control: &mut Control<P>,
        network: &Network,
    ) -> Result<(NeighbourTracker<P>, Connections<P>)> {
        for own in &network.addresses {
            let gid = e810::GidEntry {
                vlan: network.vlan,
                ..e810::GidEntry::untagged(own.ip)
            };
            let added = control.add_gid(gid);
            added.with_context(|| format!("address {own}"))?;
        }
        let station = Station::start(platform.clone(), control, network, Pace::Calm)?;
        let tracker = NeighbourTracker::new(station).following_all();
        match Connections::open(platform, control, 0) {
            Ok(connections) => Ok((tracker, connections)),
            Err(error) => {
                tracker.close(control)?;
                Err(error)
            }
        }
    }

    /// The function's control path, for queue pairs, completion queues and memory. The thread waits
    /// meanwhile, so do not wait in it.
    pub fn control<R>(&self, act: impl FnOnce(&mut Control<P>) -> R) -> R {
        act(&mut self.shared.lock().control)
    }

    /// Its connections, to be shown.
    #[must_use]
    pub fn connections(&self) -> Vec<Overview> {
        let all = self.shared.lock().connections.overview();
        all.into_iter().map(|(_, each)| each).collect()
    }

    /// What its connection manager has counted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.lock().connections.counters()
    }

    /// Its platform, for memory that the device can reach.
    #[must_use]
    pub fn platform(&self) -> &P {
        &self.shared.platform
    }

    /// A request for a connection to a peer, from the own address that has it in its network, or
    /// from one of its family.
    ///
    /// # Errors
    /// The function has no address of that family.
    pub fn ask(&self, peer: SocketAddr) -> Result<Connect<'static>> {
        let network = &self.shared.network;
        let mut family = network.addresses.iter();
        let mut family: Vec<_> = family
            .by_ref()
            .filter(|own| own.ip.is_ipv4() == peer.is_ipv4())
            .collect();
        // The networks that were named come first.
        family.sort_by_key(|own| own.length.is_none() || !own.has_on_link(peer.ip()));
        let own = family.first().with_context(|| {
            format!("{peer}: the function has no address of that family; give it one")
        })?;
        Ok(Connect {
            vlan: network.vlan,
            ..Connect::new(own.ip, peer)
        })
    }

    /// Takes requests for connections to a port, 0 for any that is free, of one own address, or of
    /// all of a family for an unspecified one. `backlog` of them may wait to be taken.
    ///
    /// # Errors
    /// Somebody listens there already, or there are too many listeners.
    pub fn listen(&self, address: IpAddr, port: u16, backlog: u32) -> Result<Listener<P>> {
        Listener::new(
            Arc::clone(&self.shared),
            PortSpace::Tcp,
            address,
            port,
            backlog,
        )
    }

    /// Takes completions; if there are none, waits for some, for `limit` at most. Returns how many
    /// there are: 0 after that.
    ///
    /// # Errors
    /// The function is gone.
    pub fn completions(&self, cq: &mut Cq<P>, wcs: &mut [Wc], limit: Duration) -> Result<usize> {
        let mut look = |_: &mut State<P>| {
            // After it was armed, for what has come between.
            let mut count = cq.poll(wcs);
            if count == 0 && cq.arm(Notify::Any) {
                count = cq.poll(wcs);
            }
            (count > 0).then_some(count)
        };
        let count = self.shared.wait(limit, &mut look);
        match (count, &self.shared.lock().gone) {
            (None, Some(why)) => Err(anyhow!("{why}")),
            (count, _) => Ok(count.unwrap_or(0)),
        }
    }

    /// Ends the thread and the connection manager, destroys `objects`, and shuts the function down.
    /// Peers of connections that were not ended are not told: they notice when they send.
    ///
    /// # Errors
    /// Listeners and connections that still exist; the device's refusal.
    pub fn close_with<Q, A, C, M, D>(mut self, objects: Remaining<Q, A, C, M, D>) -> Result<()>
    where
        Q: IntoIterator<Item = Qp<P>>,
        A: IntoIterator<Item = Ah>,
        C: IntoIterator<Item = Cq<P>>,
        M: IntoIterator<Item = Mr<P>>,
        D: IntoIterator<Item = Pd>,
    {
        let events = self.stop().context("the thread of the function")?;
        let shared = Arc::clone(&self.shared);
        drop(self);
        let shared = Arc::into_inner(shared)
            .context("a listener or a connection of the function still exists: drop it before")?;
        let state = shared.state.into_inner();
        let State {
            mut control,
            tracker,
            connections,
            ..
        } = state.unwrap_or_else(PoisonError::into_inner);
        let ended = connections.close(&mut control);
        let closed = tracker.map_or(Ok(()), |tracker| tracker.close(&mut control));
        let down = control.shutdown_with(events, objects);
        down.context("shutting down")?;
        ended.and(closed)
    }

    fn stop(&mut self) -> Option<EventSet<P>> {
        self.shared.lock().is_ending = true;
        self.shared.changed.notify_all();
        // A panic was reported by the thread.
        self.thread.take()?.join().ok().flatten()
    }
}

impl<P: HostDevice> Drop for Attended<P> {
    fn drop(&mut self) {
        // Not closed: the device keeps its memory.
        let _ = self.stop();
    }
}
