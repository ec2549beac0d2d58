//! A function's connection manager, with its node: one end of connections by port.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use e810::Qp;
use e810_cm::ip::PortSpace;
use e810_cm::machine::{self, Config, Connect, Listen, Listener, Slot, Tables};
use e810_connect::{
    Call, Connection, Grant, Gsi, Happened, Local, Manager, News, Phase, PrivateData, Service, Told,
};
use e810_hal::Ns;
use metal::interrupts::Lines;
use metal::{Boxed, Metal, random};

use crate::node::Node;
use crate::report::Failure;

/// Connections of a function at once, those in TIMEWAIT too.
const SLOTS: usize = 4;
/// Datagrams that can come before one is looked at.
const RECEIVES: u16 = 16;
/// READs that a peer may do at once.
const READS: u8 = 1;
/// How long a sleep is at least and at most: the neighbours want to be looked at too.
const SLEEP: [Ns; 2] = [Ns::from_ms(1), Ns::from_ms(100)];

/// A node and its connection manager, which is in the pool because it is large.
pub(crate) struct End<'a, 'm> {
    pub(crate) node: &'a mut Node<'m>,
    manager: Boxed<'m, Manager<'static, Metal<'m>>>,
    /// The request that came last.
    request: Option<Told>,
    /// Private data of the answer that came last.
    answer: PrivateData,
}

/// A place for a connection.
type Place<'m> = Option<Connection<Metal<'m>>>;

impl<'a, 'm> End<'a, 'm> {
    /// Makes queue pair 1 and the manager.
    #[inline(never)] // Both are on the stack first.
    pub(crate) fn open(node: &'a mut Node<'m>) -> Result<Self, Failure> {
        let machine = node.metal.machine();
        let random = random::key().ok_or(Failure::NoRandom)?;
        let tables = Tables {
            slots: machine.keep(Slot::EMPTY, SLOTS)?,
            listeners: machine.keep(Listener::EMPTY, 1)?,
            words: machine.keep(0, Tables::words(SLOTS))?,
        };
        let config = Config::new(node.control.query_device().node_guid);
        let connector = machine::Machine::new(config, tables, random)?;
        let memory = node.metal.payload(Gsi::<Metal<'m>>::bytes(RECEIVES))?;
        let gsi = Gsi::open(&mut node.control, memory, 0)?;
        let manager = Boxed::new(machine, Manager::new(connector, gsi))?;
        Ok(Self {
            node,
            manager,
            request: None,
            answer: PrivateData::new(),
        })
    }

    /// Gives both back.
    #[inline(never)] // As above.
    pub(crate) fn close(self) -> Result<(), Failure> {
        let (_, closed) = self.manager.into_inner().close(&mut self.node.control);
        Ok(closed?)
    }

    /// The manager for a call, and the connections.
    fn all(&mut self) -> (Local<'_, 'static, Metal<'m>>, &mut [Place<'m>]) {
        let node = &mut *self.node;
        let local = Local {
            manager: &mut self.manager,
            now: node.metal.machine().now(),
            control: &mut node.control,
            neighbours: &mut node.lan,
        };
        (local, &mut node.connections)
    }

    /// The manager for a call, and the place of the connection that calls.
    fn local(&mut self) -> Result<(Local<'_, 'static, Metal<'m>>, &mut Place<'m>), Failure> {
        let current = self.node.current;
        let (local, places) = self.all();
        let place = places.get_mut(current).ok_or(Failure::NoConnection)?;
        Ok((local, place))
    }

    /// The same for a connection that is there.
    fn connected(
        &mut self,
    ) -> Result<(Local<'_, 'static, Metal<'m>>, &mut Connection<Metal<'m>>), Failure> {
        let (local, place) = self.local()?;
        Ok((local, place.as_mut().ok_or(Failure::NoConnection)?))
    }

    /// Listens on a port, at all addresses.
    pub(crate) fn listen(&mut self, port: u16) -> Result<(), Failure> {
        let listen = Listen {
            space: PortSpace::Tcp,
            port,
            address: Ipv4Addr::UNSPECIFIED.into(),
            only_family: false,
            backlog: 1,
            context: 0,
        };
        self.all().0.call(&Call::Listen(listen))?;
        Ok(())
    }

    /// Takes a queue pair for the next connection. Receives can be posted then.
    pub(crate) fn begin(&mut self, qp: Qp<Metal<'m>>) -> Result<(), Failure> {
        let (mut local, place) = self.local()?;
        let begun = Connection::new(&mut local, qp, READS).map_err(|(_, error)| error)?;
        *place = Some(begun);
        Ok(())
    }

    /// Asks a peer, with private data.
    pub(crate) fn ask(&mut self, peer: SocketAddr, private_data: &[u8]) -> Result<(), Failure> {
        let own = self.node.lan.ipv4();
        let (mut local, connection) = self.connected()?;
        let ask = Connect {
            responder_resources: READS,
            initiator_depth: READS,
            private_data,
            ..Connect::new(own, peer)
        };
        Ok(connection.connect(&mut local, &ask)?)
    }

    /// Whether a peer has asked.
    pub(crate) const fn is_asked(&self) -> bool {
        self.request.is_some()
    }

    /// Who has asked.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        match &self.request.as_ref()?.news {
            News::Requested(request) => Some(request.source),
            _ => None,
        }
    }

    /// What a peer has said when it answered, with zeros behind it.
    pub(crate) fn answer(&self) -> &[u8] {
        &self.answer
    }

    /// Accepts who has asked.
    pub(crate) fn accept(&mut self) -> Result<(), Failure> {
        let request = self.request.take().ok_or(Failure::NoConnection)?;
        let (mut local, connection) = self.connected()?;
        Ok(connection.accept(&mut local, &request, &Grant::default())?)
    }

    /// A message has come: so the peer is ready.
    pub(crate) fn arrived(&mut self) -> Result<(), Failure> {
        let (mut local, connection) = self.connected()?;
        connection.arrived(&mut local);
        Ok(())
    }

    /// Ends the connection.
    pub(crate) fn disconnect(&mut self) -> Result<(), Failure> {
        let (mut local, connection) = self.connected()?;
        Ok(connection.disconnect(&mut local)?)
    }

    /// Forgets the connection. Its queue pair is in ERROR.
    pub(crate) fn forget(&mut self) -> Result<Qp<Metal<'m>>, Failure> {
        let (mut local, place) = self.local()?;
        let connection = place.take().ok_or(Failure::NoConnection)?;
        Ok(connection.end(&mut local))
    }

    /// Forgets the connection. Its queue pair is as good as new.
    pub(crate) fn finish(&mut self) -> Result<Qp<Metal<'m>>, Failure> {
        let mut qp = self.forget()?;
        let node = &mut *self.node;
        node.control.reset_qp(&mut qp, &mut [&mut node.cq])?;
        Ok(qp)
    }

    /// Where the connection stands.
    pub(crate) fn phase(&self) -> Result<Phase, Failure> {
        let place = self.node.connections.get(self.node.current);
        let connection = place.and_then(Option::as_ref);
        Ok(connection.ok_or(Failure::NoConnection)?.phase())
    }

    /// Whether the connection has come as far as `wanted`.
    ///
    /// # Errors
    /// It has ended in another way.
    pub(crate) fn is(&self, wanted: Phase) -> Result<bool, Failure> {
        match self.phase()? {
            phase if phase == wanted => Ok(true),
            phase @ (Phase::Refused(_) | Phase::Unreachable | Phase::Over) => {
                Err(Failure::Phase(phase, wanted))
            }
            _ => Ok(false),
        }
    }

    /// Has the manager work, and the connections hear of what has happened. Whether there may be
    /// more.
    fn turn(&mut self) -> Result<bool, Failure> {
        let (mut local, places) = self.all();
        let Local {
            manager,
            control,
            neighbours,
            now,
        } = &mut local;
        let told = match manager.progress(control, *neighbours, *now)? {
            Happened::Told(told) => told,
            Happened::More => return Ok(true),
            Happened::Nothing => return Ok(false),
        };
        // A connection hears only of itself.
        for connection in places.iter_mut().flatten() {
            connection.hear(&mut local, &told)?;
        }
        match told.news {
            News::Requested(_) => self.request = Some(told),
            News::Accepted { private_data, .. } | News::Rejected { private_data, .. } => {
                self.answer = private_data;
            }
            _ => {}
        }
        Ok(true)
    }

    /// How long it may sleep.
    fn idle(&self, now: Ns) -> Ns {
        let [least, most] = SLEEP;
        let next = self.manager.deadline();
        next.map_or(most, |next| next - now).clamp(least, most)
    }
}

/// Lets ends work, and stops the processor in between, until `done` has something. What `done` looks
/// at wakes the processor if it is news of the manager, or if `done` has asked for an interrupt.
pub(crate) fn until<'a, 'm, const N: usize, T>(
    ends: &mut [End<'a, 'm>; N],
    (what, limit): (&'static str, Ns),
    mut done: impl FnMut(&mut [End<'a, 'm>; N]) -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let mut fired: Option<Lines> = None;
    let mut end = None;
    loop {
        let mut is_more = false;
        for end in ends.iter_mut() {
            end.node.progress(fired)?;
            is_more |= end.turn()?;
        }
        if let Some(done) = done(ends)? {
            return Ok(done);
        }
        for end in ends.iter_mut() {
            is_more |= end.manager.gsi().arm();
        }
        let Some(first) = ends.first() else {
            return Err(Failure::NoConnection);
        };
        let machine = first.node.metal.machine();
        let now = machine.now();
        if now > *end.get_or_insert(now + limit) {
            return Err(Failure::Silence(what));
        }
        let lines = |lines: Lines, end: &End<'_, '_>| lines.and(end.node.metal.lines());
        fired = match is_more {
            true => None,
            false => {
                let lines = ends.iter().fold(Lines::range(0, 0), lines);
                let idle = ends.iter().map(|end| end.idle(now)).min();
                Some(machine.sleep(lines, idle.unwrap_or_default()))
            }
        };
    }
}
