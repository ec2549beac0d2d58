//! The thread of a station: it owns the LAN port and the interface, and does their periodic work.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use e810::{LanPort, MacAddr, Platform};
use e810_net::{Event, Full, Ns, Ping, PingError, PingFailure, Port};

use super::network::StationInterface;
use super::targets::{Answer, Targets};
use crate::route::Route;

/// Time between two looks at the port when nothing is outstanding.
const IDLE: Duration = Duration::from_millis(10);
/// The same when something is, and for a while after a frame was received.
const BUSY: Duration = Duration::from_millis(1);
/// How long a frame keeps the thread busy.
const BUSY_FOR: Ns = Ns::from_ms(50);
/// Time between two looks when more frames wait than one look takes, and for echoes, whose time is
/// measured. A flood gets only a share of a processor; the card drops frames that find no room, and
/// counts them.
const QUICK: Duration = Duration::from_micros(100);
/// How often a look continues while there are more frames: each time takes 32 frames at most.
const POLLS: usize = 4;
/// The most commands between two looks.
const COMMANDS: usize = 16;

/// A command to a station.
#[derive(Debug)]
pub(super) enum Command {
    /// Find the next hop of a destination.
    Resolve { destination: IpAddr, answer: Answer },
    /// Keep watching the next hops of destinations that paths go to now, and stop watching the
    /// others.
    Follow {
        added: Vec<IpAddr>,
        gone: Vec<IpAddr>,
    },
    /// The link has come up.
    LinkUp,
    /// Join a multicast group, as far as routers and switches are concerned.
    Join(IpAddr),
    /// Send an echo request.
    Ping(Ping),
}

/// An event of a station.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StationEvent {
    /// An echo has come back.
    Echo {
        /// Its sequence number.
        seq: u16,
        /// Bytes of its data.
        length: u16,
        /// From the request to the reply.
        round_trip: Ns,
    },
    /// An echo does not come back.
    NoEcho {
        /// Its sequence number.
        seq: u16,
        /// Why, as far as that is known.
        why: Option<PingFailure>,
    },
}

/// Results of the thread, for the program's thread.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The hop limit last announced by an IPv6 router; 0: none was.
    hop_limit: AtomicU8,
    has_changed: AtomicBool,
    /// Where packets to the destinations of paths go.
    macs: Mutex<BTreeMap<IpAddr, MacAddr>>,
}

impl Shared {
    /// The route values for packets to a destination.
    pub(super) fn route(&self, destination: IpAddr) -> Route {
        let mut route = Route::PLAIN;
        let said = self.hop_limit.load(Ordering::Relaxed);
        if destination.is_ipv6() && said != 0 {
            route.hop_limit = said;
        }
        route
    }

    /// The current addresses, if they may differ from those taken last: one load.
    pub(super) fn take(&self) -> Option<BTreeMap<IpAddr, MacAddr>> {
        let is_new = self.has_changed.load(Ordering::Relaxed)
            && self.has_changed.swap(false, Ordering::Acquire);
        is_new.then(|| self.lock().clone())
    }

    fn put(&self, macs: BTreeMap<IpAddr, MacAddr>) {
        {
            let mut shared = self.lock();
            if *shared == macs {
                return;
            }
            *shared = macs;
        }
        self.has_changed.store(true, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, MacAddr>> {
        // It is complete after a panic: only complete maps are stored.
        self.macs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The port as an interface uses it.
pub(crate) struct Frames<P: Platform>(pub(crate) LanPort<P>);

impl<P: Platform> Port for Frames<P> {
    fn receive(&mut self, into: &mut [u8]) -> Option<usize> {
        self.0.receive(into)
    }

    fn transmit(&mut self, frame: &[u8]) -> Result<(), Full> {
        self.0.transmit(frame).map_err(|_| Full)
    }
}

/// The thread's state.
pub(super) struct Worker<P: Platform> {
    platform: P,
    port: Frames<P>,
    interface: Box<StationInterface>,
    commands: Receiver<Command>,
    events: SyncSender<StationEvent>,
    shared: Arc<Shared>,
    /// Looks are always quick: an echo is measured at the other end.
    is_quick: bool,
    targets: Targets,
    /// Echoes that are under way.
    echoes: usize,
    /// Frames received, and the time until which they keep the thread busy.
    received: u64,
    busy_until: Ns,
    /// Events that the interface lost.
    events_lost: u64,
    /// A next hop of a path has changed.
    has_moved: bool,
}

impl<P: Platform> Worker<P> {
    pub(super) fn new(
        platform: P,
        port: LanPort<P>,
        interface: Box<StationInterface>,
        targets: Targets,
        (commands, events, shared): (Receiver<Command>, SyncSender<StationEvent>, Arc<Shared>),
        is_quick: bool,
    ) -> Self {
        Self {
            platform,
            port: Frames(port),
            interface,
            commands,
            events,
            shared,
            is_quick,
            targets,
            echoes: 0,
            received: 0,
            busy_until: Ns::ZERO,
            events_lost: 0,
            has_moved: false,
        }
    }

    /// Works until no commands can come any more, and returns the port.
    pub(super) fn run(mut self) -> LanPort<P> {
        let mut pause = Duration::ZERO;
        loop {
            match self.commands.recv_timeout(pause) {
                Ok(command) => self.take(command),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.port.0,
            }
            for _ in 1..COMMANDS {
                let Ok(command) = self.commands.try_recv() else {
                    break;
                };
                self.take(command);
            }
            pause = self.poll();
        }
    }

    fn now(&self) -> Ns {
        self.platform.now()
    }

    fn take(&mut self, command: Command) {
        let now = self.now();
        match command {
            Command::Resolve {
                destination,
                answer,
            } => self.targets.ask(destination, answer, now),
            Command::Follow { added, gone } => {
                let interface = &mut self.interface;
                self.targets.follow(&added, &gone, interface, now);
                self.has_moved = true;
            }
            Command::LinkUp => self.interface.link_up(now),
            Command::Join(group) => {
                if let Err(error) = self.interface.join(group, now) {
                    log::warn!("multicast group {group}: {error}; routers do not hear of it");
                }
            }
            Command::Ping(ping) => match self.interface.ping_with(ping, now) {
                Ok(()) => self.echoes += 1,
                Err(PingError::Full) => self.send(StationEvent::NoEcho {
                    seq: ping.seq,
                    why: None,
                }),
                Err(_) => self.send(StationEvent::NoEcho {
                    seq: ping.seq,
                    why: Some(PingFailure::NoRoute),
                }),
            },
        }
    }

    /// One look at port and clock; returns when the next one is due.
    fn poll(&mut self) -> Duration {
        let now = self.now();
        let mut more = true;
        for _ in 0..POLLS {
            more = more && self.interface.poll(now, &mut self.port);
            while let Some(event) = self.interface.next_event() {
                self.on_event(event);
            }
        }
        let hop_limit = self.interface.hop_limit(Ipv6Addr::UNSPECIFIED.into());
        self.shared.hop_limit.store(hop_limit, Ordering::Relaxed);
        let lost = self.interface.events_lost();
        self.has_moved |= lost != self.events_lost;
        self.events_lost = lost;
        self.targets.progress(&mut self.interface, now);
        if std::mem::take(&mut self.has_moved) {
            self.shared.put(self.targets.macs(&self.interface));
        }
        let received = self.interface.counters().received;
        if received != self.received {
            self.received = received;
            self.busy_until = now + BUSY_FOR;
        }
        if more || self.is_quick || self.echoes > 0 {
            return QUICK;
        }
        if self.targets.is_asked() || now < self.busy_until {
            return BUSY;
        }
        let due = self.interface.next_deadline();
        due.map_or(IDLE, |due| {
            Duration::from_nanos((due - now).0).clamp(BUSY, IDLE)
        })
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::NeighbourKnown { .. } => self.has_moved = true,
            Event::NeighbourMoved { ip, from, to } => {
                log::info!("{ip} has moved from {from} to {to}");
                self.has_moved = true;
            }
            Event::NeighbourUnreachable(ip) => log::info!("{ip} does not answer"),
            Event::AddressDuplicate { ip, by } => log::warn!(
                "own address {ip}: {by} has it already, so this function does not answer for it: give it another --ip"
            ),
            Event::AddressContended { ip, by } => log::warn!(
                "own address {ip}: {by} uses it too, and packets for it reach only one of the two: give one of them another address"
            ),
            Event::EchoReply {
                seq,
                length,
                round_trip,
                ..
            } => {
                self.echoes = self.echoes.saturating_sub(1);
                self.send(StationEvent::Echo {
                    seq,
                    length,
                    round_trip,
                });
            }
            Event::EchoFailed { seq, why, .. } => {
                self.echoes = self.echoes.saturating_sub(1);
                self.send(StationEvent::NoEcho {
                    seq,
                    why: Some(why),
                });
            }
            event => log::debug!("{event:?}"),
        }
    }

    /// Sends an event to the program, if there is room.
    fn send(&self, event: StationEvent) {
        let _ = self.events.try_send(event);
    }
}
