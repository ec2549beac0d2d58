//! The thread of a station: it owns the LAN port and the interface, and does what is due.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::time::Duration;

use e810::{LanPort, MacAddr, Platform};
use e810_net::{Event, Full, NextHop, Ns, Ping, PingError, PingFailure, Port, Resolution};

use super::Unresolved;
use super::network::{NEIGHBOURS, StationInterface};

/// How long an address may take to be resolved. A neighbour is asked three times in three
/// seconds, and three times more from the sixth second on: a switch port that has just
/// come up may forward nothing at first.
pub(crate) const RESOLVE_LIMIT: e810_hal::Ns = e810_hal::Ns::from_ms(10_000);

/// Time between two looks at the port where nothing is outstanding.
const IDLE: Duration = Duration::from_millis(10);
/// The same where something is, and for a while after a frame came.
const BUSY: Duration = Duration::from_millis(1);
/// How long a frame keeps the thread busy.
const BUSY_FOR: Ns = Ns::from_ms(50);
/// Time between two looks where more frames wait than one look takes, and for echoes, whose time
/// is measured. A flood gets a share of a processor only; the card drops what it has no room
/// for, and counts it.
const QUICK: Duration = Duration::from_micros(100);
/// Times that a look goes on when there is more: each takes 32 frames at most.
const POLLS: usize = 4;
/// Commands between two looks, at most.
const COMMANDS: usize = 16;

/// What a station is asked to do.
#[derive(Debug)]
pub(super) enum Command {
    /// Find the next hop of a destination, and stay with it.
    Watch {
        destination: IpAddr,
        answer: SyncSender<Result<Neighbour, Unresolved>>,
    },
    /// Be in a multicast group, for routers and switches.
    Join(IpAddr),
    /// Ask for an echo.
    Ping(Ping),
}

/// Where packets to a destination go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbour {
    /// The next hop: the destination, or a gateway.
    pub via: IpAddr,
    /// Its Ethernet address.
    pub mac: MacAddr,
}

/// What has happened to a station.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StationEvent {
    /// A neighbour is there.
    Neighbour { ip: IpAddr, mac: MacAddr },
    /// An echo has come back.
    Echo {
        seq: u16,
        length: u16,
        round_trip: Ns,
    },
    /// An echo does not come back.
    NoEcho { seq: u16, why: Option<PingFailure> },
}

/// Where a station's events go.
pub(super) struct EventSender {
    pub(super) events: SyncSender<StationEvent>,
    pub(super) has_events: Arc<AtomicBool>,
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

/// A destination that is being resolved.
pub(super) struct Waiting {
    pub(super) destination: IpAddr,
    pub(super) hop: Option<NextHop>,
    pub(super) until: Ns,
    pub(super) answer: SyncSender<Result<Neighbour, Unresolved>>,
}

/// What the thread has.
pub(super) struct Worker<P: Platform> {
    platform: P,
    port: Frames<P>,
    interface: Box<StationInterface>,
    commands: Receiver<Command>,
    events: EventSender,
    /// Looks are always quick: echoes are measured at the other end.
    is_quick: bool,
    waiting: Vec<Waiting>,
    /// Echoes that are under way.
    echoes: usize,
    /// Frames received, and until when they keep the thread busy.
    received: u64,
    busy_until: Ns,
    /// Events that the interface has lost.
    events_lost: u64,
    /// The program has not heard of every neighbour.
    has_lost: bool,
}

impl<P: Platform> Worker<P> {
    pub(super) const fn new(
        platform: P,
        port: LanPort<P>,
        interface: Box<StationInterface>,
        commands: Receiver<Command>,
        events: EventSender,
        is_quick: bool,
    ) -> Self {
        Self {
            platform,
            port: Frames(port),
            interface,
            commands,
            events,
            is_quick,
            waiting: Vec::new(),
            echoes: 0,
            received: 0,
            busy_until: Ns::ZERO,
            events_lost: 0,
            has_lost: false,
        }
    }

    /// Works until nobody can ask for anything any more, and gives the port back.
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
        Ns(self.platform.now().0)
    }

    fn take(&mut self, command: Command) {
        let now = self.now();
        match command {
            Command::Watch {
                destination,
                answer,
            } => self.waiting.push(Waiting {
                destination,
                hop: None,
                until: now.plus(Ns(RESOLVE_LIMIT.0)),
                answer,
            }),
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

    /// One look at port and clock; how long the next one has time.
    fn poll(&mut self) -> Duration {
        let now = self.now();
        let mut more = true;
        for _ in 0..POLLS {
            more = more && self.interface.poll(now, &mut self.port);
            while let Some(event) = self.interface.next_event() {
                self.on_event(event);
            }
        }
        self.resend_neighbours();
        self.resolve(now);
        let received = self.interface.counters().received;
        if received != self.received {
            self.received = received;
            self.busy_until = now.plus(BUSY_FOR);
        }
        if more || self.is_quick || self.echoes > 0 {
            return QUICK;
        }
        if !self.waiting.is_empty() || now < self.busy_until {
            return BUSY;
        }
        let due = self.interface.next_deadline();
        due.map_or(IDLE, |due| {
            Duration::from_nanos(due.since(now).0).clamp(BUSY, IDLE)
        })
    }

    /// Answers those whose next hop is known, or will not be.
    fn resolve(&mut self, now: Ns) {
        let interface = &mut self.interface;
        let mut found = Vec::new();
        self.waiting.retain_mut(|waiting| {
            let Some(answer) = try_resolve(waiting, interface, now) else {
                return true;
            };
            found.extend(answer.as_ref().ok().copied());
            // Who asked may have gone, or has an address of it already.
            let _ = waiting.answer.try_send(answer);
            false
        });
        for Neighbour { via, mac } in found {
            self.send(StationEvent::Neighbour { ip: via, mac });
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::NeighbourKnown { ip, mac } => self.send(StationEvent::Neighbour {
                ip,
                mac: MacAddr(mac.0),
            }),
            Event::NeighbourMoved { ip, from, to } => {
                log::info!("{ip} has moved from {from} to {to}");
                self.send(StationEvent::Neighbour {
                    ip,
                    mac: MacAddr(to.0),
                });
            }
            Event::NeighbourUnreachable(ip) => log::info!("{ip} does not answer"),
            Event::AddressDuplicate { ip, by } => log::warn!(
                "own address {ip}: {by} has it; nothing is answered for it here: give this function another --ip"
            ),
            Event::AddressContended { ip, by } => log::warn!(
                "own address {ip}: {by} uses it too, and packets for it go to one of the two: give one of them another address"
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

    /// Sends an event to the program, if there is room. Where neighbours are is sent again later.
    fn send(&mut self, event: StationEvent) {
        let sent = self.events.events.try_send(event);
        self.events.has_events.store(true, Ordering::Release);
        if let (Err(TrySendError::Full(_)), StationEvent::Neighbour { .. }) = (sent, event) {
            self.has_lost = true;
        }
    }

    /// Where all watched neighbours are, after something was lost.
    fn resend_neighbours(&mut self) {
        let lost = self.interface.events_lost();
        self.has_lost |= lost != self.events_lost;
        self.events_lost = lost;
        if !std::mem::take(&mut self.has_lost) {
            return;
        }
        let watched = self.interface.neighbours();
        let watched = watched.filter(|neighbour| neighbour.users > 0);
        let known: Vec<_> = watched
            .filter_map(|neighbour| Some((neighbour.ip, neighbour.mac?)))
            .collect();
        for (ip, mac) in known {
            let mac = MacAddr(mac.0);
            self.send(StationEvent::Neighbour { ip, mac });
        }
    }
}

/// The next hop of a destination, or why there is none; `None` while that is not known.
pub(super) fn try_resolve(
    waiting: &mut Waiting,
    interface: &mut StationInterface,
    now: Ns,
) -> Option<Result<Neighbour, Unresolved>> {
    let destination = waiting.destination;
    let resolution = match waiting.hop {
        Some(_) => interface.lookup(destination, now),
        None => {
            let (resolution, hop) = interface.watch(destination, now);
            waiting.hop = hop;
            resolution
        }
    };
    let via = waiting.hop.map(|hop| hop.via);
    match resolution {
        Resolution::Known(mac) => Some(Ok(Neighbour {
            via: via.unwrap_or(destination),
            mac: MacAddr(mac.0),
        })),
        Resolution::NoRoute => Some(Err(Unresolved::NoRoute { destination })),
        Resolution::NoRoom => Some(Err(Unresolved::NoRoom {
            destination,
            neighbours: NEIGHBOURS,
        })),
        Resolution::Pending | Resolution::Unreachable if now < waiting.until => None,
        Resolution::Pending | Resolution::Unreachable => Some(Err(match via {
            Some(via) => Unresolved::NoAnswer {
                destination,
                via,
                limit: RESOLVE_LIMIT,
            },
            None => Unresolved::NoSource {
                destination,
                limit: RESOLVE_LIMIT,
            },
        })),
    }
}
