//! The thread that follows the host's stack: addresses, groups and neighbours of the interface.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use e810::MacAddr;
use e810_hal::Ns;

use super::TapPlan;
use super::gids::Own;
use super::groups;
use super::netlink::Changes;
use super::stack::Stack;
use crate::route::{Neighbour, Question};
use crate::station::Unresolved;

/// Time between two looks for changes.
const IDLE: Duration = Duration::from_millis(100);
/// The same while a neighbour is being resolved.
const ASKING: Duration = Duration::from_millis(20);
/// Time between two looks at what the kernel does not report (groups), or may have failed to
/// report.
const REFRESH: Duration = Duration::from_secs(1);
/// How long a destination that was found is kept without a path.
const UNUSED: Duration = Duration::from_secs(5);
/// Time between two confirmations of a neighbour that paths go to.
const CONFIRM: Duration = Duration::from_secs(5);

type Answer = SyncSender<Result<Neighbour, Unresolved>>;

/// A command to the thread.
pub(super) enum Command {
    /// Find the next hop of a destination.
    Resolve { question: Question, answer: Answer },
    /// Keep watching the next hops of destinations that paths go to now, and stop watching the
    /// others.
    Follow {
        added: Vec<IpAddr>,
        gone: Vec<IpAddr>,
    },
    /// Tell the interface whether the port has a link.
    Carrier(bool),
}

/// The current state of the stack.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct View {
    /// Addresses of the interface and of VLANs on it; `None`: the interface is gone.
    pub(super) addresses: Option<BTreeSet<Own>>,
    /// Bytes of its longest IP packet.
    pub(super) mtu: u32,
    /// Multicast MAC addresses whose frames it wants.
    pub(super) groups: BTreeSet<[u8; 6]>,
    /// Next hops of the destinations that are watched.
    pub(super) paths: BTreeMap<IpAddr, MacAddr>,
}

/// The newest view, stored where the program's thread finds it.
#[derive(Debug, Default)]
pub(super) struct Shared {
    has_changed: AtomicBool,
    view: Mutex<View>,
}

impl Shared {
    /// The view, if it may be newer than the one taken last: one load.
    pub(super) fn take(&self) -> Option<View> {
        let is_new = self.has_changed.load(Ordering::Relaxed)
            && self.has_changed.swap(false, Ordering::Acquire);
        is_new.then(|| self.lock().clone())
    }

    pub(super) fn put(&self, view: &View) {
        {
            let mut shared = self.lock();
            if *shared == *view {
                return;
            }
            shared.clone_from(view);
        }
        self.has_changed.store(true, Ordering::Release);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, View> {
        // It is complete after a panic: only complete views are stored.
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A destination that paths go to, or that is being asked for.
struct Watched {
    via: Option<IpAddr>,
    /// The last known Ethernet address.
    mac: Option<MacAddr>,
    /// The kernel's refusal, if there was one.
    refused: Option<Refused>,
    confirm_at: Instant,
    is_used: bool,
    /// Without paths it is kept until then.
    until: Instant,
}

/// Why the kernel does not resolve a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refused {
    NoRoute,
    TableFull,
}

struct Waiting {
    what: Own,
    until: Instant,
    answer: Answer,
}

/// The thread's state.
pub(super) struct NetlinkMonitor {
    pub(super) name: String,
    pub(super) stack: Stack,
    pub(super) changes: Changes,
    /// The VLAN of paths that were not resolved here.
    pub(super) vlan: Option<u16>,
    pub(super) mac: MacAddr,
    pub(super) shared: Arc<Shared>,
    /// How long an address may take to be resolved.
    limit: Ns,
    view: View,
    /// By destination, and the VLAN of our address.
    watched: BTreeMap<Own, Watched>,
    waiting: Vec<Waiting>,
    /// It was reported that the interface's MAC address differs from the port's.
    has_warned: bool,
}

impl NetlinkMonitor {
    pub(super) fn new(
        plan: &TapPlan,
        mac: MacAddr,
        stack: Stack,
        changes: Changes,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            name: plan.name.clone(),
            stack,
            changes,
            vlan: plan.vlan,
            mac,
            shared,
            limit: plan.resolve_limit,
            view: View::default(),
            watched: BTreeMap::new(),
            waiting: Vec::new(),
            has_warned: false,
        }
    }

    /// Works until no commands can come any more, and returns the stack.
    pub(super) fn run(mut self, commands: &Receiver<Command>) -> Stack {
        let mut refresh_at = Instant::now();
        loop {
            let pause = if self.waiting.is_empty() {
                IDLE
            } else {
                ASKING
            };
            match commands.recv_timeout(pause) {
                Ok(command) => self.take(command),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.stack,
            }
            let now = Instant::now();
            if self.changes.take() || !self.waiting.is_empty() || now >= refresh_at {
                refresh_at = now + REFRESH;
                self.refresh(now);
            }
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Carrier(is_on) => {
                if let Err(error) = self.stack.set_carrier(is_on) {
                    log::warn!("{}: {error:#}", self.name);
                }
            }
            Command::Resolve { question, answer } => self.ask(&question, answer),
            Command::Follow { added, gone } => {
                let now = Instant::now();
                for destination in gone {
                    self.set_used(destination, false);
                }
                for destination in added {
                    if !self.set_used(destination, true) {
                        self.watch((destination, self.vlan), now).is_used = true;
                    }
                }
                // To show where the new ones go.
                self.follow_neighbours(now);
                self.shared.put(&self.view);
            }
        }
    }

    fn ask(&mut self, question: &Question, answer: Answer) {
        let what = (question.destination, question.vlan);
        let now = Instant::now();
        if let Some(mac) = question.known {
            if !question.destination.is_multicast() {
                // A path that is made now is on this VLAN.
                self.watch(what, now).until = now + UNUSED;
            }
            // The caller may be gone.
            let _ = answer.try_send(Ok(Neighbour {
                via: question.destination,
                mac,
                route: self.stack.route(question.vlan, question.destination),
            }));
            return;
        }
        let until = now + Duration::from_nanos(self.limit.0);
        let watched = self.watch(what, now);
        watched.until = watched.until.max(until + UNUSED);
        // With the current route.
        watched.confirm_at = now;
        self.waiting.push(Waiting {
            what,
            until,
            answer,
        });
    }

    fn watch(&mut self, what: Own, now: Instant) -> &mut Watched {
        let mut others = self.watched.range(all_of(what.0));
        let is_used = others.any(|(_, other)| other.is_used);
        self.watched.entry(what).or_insert(Watched {
            via: None,
            mac: None,
            refused: None,
            confirm_at: now,
            // The program does not say on which of a destination's VLANs its paths are.
            is_used,
            until: now,
        })
    }

    /// Records whether paths go to a destination, on any VLAN; `false` if it was never asked for.
    fn set_used(&mut self, destination: IpAddr, is_used: bool) -> bool {
        let mut is_there = false;
        for (_, watched) in self.watched.range_mut(all_of(destination)) {
            watched.is_used = is_used;
            is_there = true;
        }
        is_there
    }

    /// Looks at everything, and publishes the current state.
    pub(super) fn refresh(&mut self, now: Instant) {
        let addresses = self.stack.addresses();
        match addresses {
            Ok(addresses) => self.view.addresses = addresses,
            Err(error) => log::debug!("{}: addresses: {error}", self.name),
        }
        let interface = self.stack.interface();
        let mac = interface.and_then(|interface| interface.mac);
        self.view.mtu = interface.map_or(self.view.mtu, |interface| interface.mtu);
        if mac.is_some_and(|mac| mac != self.mac) && !self.has_warned {
            self.has_warned = true;
            log::warn!(
                "{}: its Ethernet address is no longer the port's, and the port receives only for {}: set it back with `ip link set dev {} address {}`",
                self.name,
                self.mac,
                self.name,
                self.mac
            );
        }
        match groups::of_interface(self.stack.index()) {
            Ok(groups) => self.view.groups = groups,
            Err(error) => log::debug!("{}: groups: {error}", self.name),
        }
        self.follow_neighbours(now);
        // Before a path is made from an answer: the path is compared with this view.
        self.shared.put(&self.view);
        self.answer(now);
    }

    fn follow_neighbours(&mut self, now: Instant) {
        self.watched
            .retain(|_, watched| watched.is_used || watched.until > now);
        if self.watched.is_empty() {
            self.view.paths.clear();
            return;
        }
        if let Err(error) = self.stack.refresh_neighbours() {
            log::debug!("{}: neighbours: {error}", self.name);
        }
        for ((destination, vlan), watched) in &mut self.watched {
            let interface = self.stack.interface_of(*vlan);
            let is_due = now >= watched.confirm_at;
            if is_due {
                watched.refused = None;
                let hop = match interface {
                    Some(interface) => self.stack.next_hop(interface, *destination),
                    None => Ok(None),
                };
                watched.via = hop.unwrap_or_else(|error| {
                    log::debug!("a route to {destination}: {error}");
                    None
                });
                watched.confirm_at = now + CONFIRM;
            }
            let Some((interface, via)) = interface.zip(watched.via) else {
                watched.refused = Some(Refused::NoRoute);
                // An address or a route may still come.
                watched.confirm_at = now;
                continue;
            };
            let known = self.stack.neighbour(interface, via);
            let has_failed = known.is_none_or(|known| known.has_failed);
            // NTF_USE would turn a neighbour that was set explicitly into one that is resolved.
            let is_set = known.is_some_and(|known| known.is_set);
            if !is_set
                && (is_due || has_failed)
                && let Err(error) = self.stack.use_neighbour(interface, via)
            {
                log::debug!("asking for {via}: {error}");
                let is_full = error.raw_os_error() == Some(libc::ENOBUFS);
                watched.refused = is_full.then_some(Refused::TableFull);
            }
            watched.mac = known.and_then(|known| known.mac).or(watched.mac);
        }
        self.view.paths = paths(&self.watched);
    }

    /// Answers questions whose next hop is known, or will not become known.
    fn answer(&mut self, now: Instant) {
        let (name, limit) = (&self.name, self.limit);
        let (stack, all) = (&mut self.stack, &mut self.watched);
        self.waiting.retain(|waiting| {
            let (destination, vlan) = waiting.what;
            let Some(watched) = all.get_mut(&waiting.what) else {
                return false;
            };
            let known = stack.interface_of(vlan).zip(watched.via);
            let known = known.and_then(|(interface, via)| stack.neighbour(interface, via));
            let answer = match (known.and_then(|known| known.mac), watched.via) {
                (Some(mac), Some(via)) => {
                    watched.until = now + UNUSED;
                    let route = stack.route(vlan, destination);
                    Ok(Neighbour { via, mac, route })
                }
                (_, via) => match (watched.refused, via) {
                    (Some(Refused::NoRoute), _) | (_, None) => Err(Unresolved::NoKernelRoute {
                        destination,
                        interface: match vlan {
                            Some(vlan) => format!("{name} for VLAN {vlan}"),
                            None => name.clone(),
                        },
                    }),
                    (Some(Refused::TableFull), _) => Err(Unresolved::KernelTableFull {
                        destination,
                        family: if destination.is_ipv4() {
                            "ipv4"
                        } else {
                            "ipv6"
                        },
                    }),
                    (None, Some(_)) if now < waiting.until => return true,
                    (None, Some(via)) => Err(Unresolved::NoAnswer {
                        destination,
                        via,
                        limit,
                    }),
                },
            };
            // The caller may be gone.
            let _ = waiting.answer.try_send(answer);
            false
        });
    }
}

/// A destination on all VLANs.
fn all_of(destination: IpAddr) -> RangeInclusive<Own> {
    (destination, None)..=(destination, Some(u16::MAX))
}

/// Where packets to the destinations of paths go. If a destination has two neighbours, on two
/// VLANs, it is left out: a path does not say which one is its own.
fn paths(watched: &BTreeMap<Own, Watched>) -> BTreeMap<IpAddr, MacAddr> {
    let known = |watched: &Watched| watched.mac.filter(|_| watched.is_used);
    let all = watched
        .iter()
        .filter_map(|((destination, _), watched)| Some((*destination, known(watched)?)));
    let mut found = BTreeMap::new();
    let mut differing = BTreeSet::new();
    for (destination, mac) in all {
        if *found.entry(destination).or_insert(mac) != mac {
            differing.insert(destination);
        }
    }
    found.retain(|destination, _| !differing.contains(destination));
    found
}
