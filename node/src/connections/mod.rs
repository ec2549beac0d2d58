//! The connection manager of a function, which several programs share.
//!
//! Whoever attends the function calls [`Connections::progress`], and hands over what programs ask
//! for ([`Connections::call`]) and are told ([`Connections::next`]). Both are plain data, so the
//! programs may be threads or other processes. A program is known by its number: what it leaves
//! behind is found by it ([`Connections::gone`]).

mod complaints;
mod lookups;

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use e810::{Control, Qpn};
use e810_backends::buffer::{Buffer, Payload};
use e810_backends::interrupts::HostPlatform;
use e810_cm::Machine;
use e810_cm::machine::{
    self, Config, ConnectionId, Counters, Listener, ListenerId, ListenerOverview, Overview, Slot,
    Tables,
};
use e810_connect::{Answer, Call, Gsi, GsiError, Happened, Manager, News, Refused, Told};
use e810_hal::Ns;

use crate::neighbours::NeighbourTracker;
use complaints::Complaints;
use lookups::Lookups;

/// The least number of connections of a function, those in TIMEWAIT too: at 728 bytes each, 3 MB.
const CONNECTIONS: usize = 4096;
/// Listeners of a function.
pub const LISTENERS: usize = 256;
/// Datagrams that may arrive between two looks.
const RECEIVES: u16 = 512;
/// The most that is done at once, so that others get the lock.
const ROUNDS: usize = 64;

/// How many connections a function has that was brought up with so many queue pairs: each can have
/// one.
#[must_use]
pub fn connections_of(queue_pairs: u32) -> usize {
    CONNECTIONS.max(queue_pairs as usize)
}

/// A program's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Program(pub u64);

/// What a program has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Has {
    /// Connections, requests that it has not answered, and questions for queue pairs of datagrams.
    pub connections: usize,
    /// Ports that it takes requests at.
    pub listeners: usize,
}

/// The tables of managers that have ended: their lifetime is the process's, so they are used again.
static TABLES: Mutex<Vec<Machine<'static>>> = Mutex::new(Vec::new());

/// Memory for datagrams that no device has any more. Payload memory is never freed.
static MEMORY: Mutex<Vec<Buffer>> = Mutex::new(Vec::new());

/// A machine for so many connections, on tables that were used before if there are such.
fn machine(config: Config, connections: usize) -> Result<Machine<'static>, machine::Error> {
    let random = random();
    let used = {
        let mut tables = lock(&TABLES);
        let fitting = tables.iter().position(|of| of.capacity() == connections);
        fitting.map(|at| tables.swap_remove(at))
    };
    if let Some(used) = used {
        return Ok(used.renew(config, random));
    }
    let tables = Tables {
        slots: vec![Slot::EMPTY; connections].leak(),
        listeners: vec![Listener::EMPTY; LISTENERS].leak(),
        words: vec![0; Tables::words(connections)].leak(),
    };
    Machine::new(config, tables, random)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that nobody else knows: the system's, as the standard library has them.
fn random() -> [u8; 16] {
    let hasher = RandomState::new();
    let [high, low] = [0_u64, 1].map(|n| u128::from(hasher.hash_one(n)));
    (high << 64 | low).to_be_bytes()
}

/// Whose a connection is.
#[derive(Clone, Copy, Debug)]
struct Owned {
    program: Program,
    /// The queue pair that the program has named for it; 0: none.
    qpn: u32,
}

/// The connection manager of a function.
#[derive(Debug)]
pub struct Connections<P: HostPlatform> {
    platform: P,
    manager: Manager<'static, P>,
    /// Where its datagrams are.
    memory: Buffer,
    lookups: Lookups,
    complaints: Complaints,
    listeners: BTreeMap<ListenerId, Program>,
    owners: BTreeMap<ConnectionId, Owned>,
    /// Connections by the queue pairs at their own ends, and their own numbers.
    named: BTreeMap<(u32, u32), ConnectionId>,
    news: BTreeMap<Program, VecDeque<Told>>,
    has: BTreeMap<Program, Has>,
}

impl<P: HostPlatform + Payload> Connections<P> {
    /// Makes queue pair 1, whose datagrams `vector` reports.
    ///
    /// # Errors
    /// No memory, or the device's refusal; nothing is left behind.
    pub fn open(platform: &P, control: &mut Control<P>, vector: u16) -> Result<Self> {
        let memory = match lock(&MEMORY).pop() {
            Some(memory) => memory,
            None => platform.payload(Gsi::<P>::bytes(RECEIVES))?,
        };
        let gsi = match Gsi::open(control, memory.bytes(), vector) {
            Ok(gsi) => gsi,
            Err(error) => {
                // Otherwise the device may write there.
                let is_over =
                    matches!(&error, GsiError::Control(error) if !error.leaves_command_open());
                if is_over {
                    lock(&MEMORY).push(memory);
                }
                return Err(error).context("queue pair 1, for connections");
            }
        };
        let function = control.query_device();
        let config = Config::new(function.node_guid);
        match machine(config, connections_of(function.max_qp)) {
            Ok(machine) => Ok(Self {
                platform: platform.clone(),
                manager: Manager::new(machine, gsi),
                memory,
                lookups: Lookups::default(),
                complaints: Complaints::default(),
                listeners: BTreeMap::new(),
                owners: BTreeMap::new(),
                named: BTreeMap::new(),
                news: BTreeMap::new(),
                has: BTreeMap::new(),
            }),
            Err(error) => {
                gsi.close(control)?;
                lock(&MEMORY).push(memory);
                Err(error.into())
            }
        }
    }

    /// Destroys queue pair 1. Peers of connections that were not ended notice by themselves. The
    /// memory of its datagrams, 180 KiB, is kept for another connection manager of the process.
    ///
    /// # Errors
    /// The device's refusal.
    pub fn close(self, control: &mut Control<P>) -> Result<()> {
        let (machine, closed) = self.manager.close(control);
        lock(&TABLES).push(machine);
        closed?;
        lock(&MEMORY).push(self.memory);
        Ok(())
    }

    /// Takes and sends datagrams, and gives programs their news. Afterwards the completion queue of
    /// queue pair 1 is armed. Returns when to call it again at the latest, if no datagram comes;
    /// `None`: never.
    ///
    /// # Errors
    /// Queue pair 1 has failed.
    pub fn progress(
        &mut self,
        control: &mut Control<P>,
        tracker: Option<&NeighbourTracker<P>>,
    ) -> Result<Option<Ns>> {
        let now = self.platform.now();
        let mut is_idle = false;
        for _ in 0..ROUNDS {
            let mut neighbours = self.lookups.with(control, tracker, now);
            let happened = self.manager.progress(control, &mut neighbours, now);
            match happened.context("queue pair 1, for connections")? {
                Happened::Told(told) => self.deliver(told),
                Happened::More => {}
                Happened::Nothing if self.manager.gsi().arm() => {}
                Happened::Nothing => {
                    is_idle = true;
                    break;
                }
            }
        }
        for text in self.complaints.new_ones(self.manager.machine().counters()) {
            log::warn!("{text} (said once)");
        }
        let soon = now + Ns::from_ms(1);
        Ok(match self.manager.deadline() {
            _ if !is_idle => Some(now),
            Some(at) if self.lookups.is_waiting() => Some(at.min(soon)),
            None if self.lookups.is_waiting() => Some(soon),
            deadline => deadline,
        })
    }

    /// Puts news into its program's list. Each connection has few, so the lists have a bound.
    fn deliver(&mut self, told: Told) {
        let program = match &told.news {
            News::Requested(request) => self.listeners.get(&request.listener),
            _ => self.owners.get(&told.id).map(|owned| &owned.program),
        };
        let Some(&program) = program else {
            // Its program is gone.
            let now = self.platform.now();
            let _ = self.manager.machine().release(told.id, now);
            return;
        };
        if matches!(told.news, News::Requested(_)) {
            self.own(told.id, program);
        }
        self.news.entry(program).or_default().push_back(told);
    }

    /// The oldest news of a program.
    pub fn next(&mut self, program: Program) -> Option<Told> {
        self.news.get_mut(&program)?.pop_front()
    }

    /// Carries out a call of a program. What it leads to is sent by the next
    /// [`progress`](Self::progress).
    ///
    /// # Errors
    /// [`Refused`]; a connection or a listener of another program is refused like one that does
    /// not exist.
    pub fn call(
        &mut self,
        control: &Control<P>,
        tracker: Option<&NeighbourTracker<P>>,
        program: Program,
        call: &Call<'_>,
    ) -> Result<Answer, Refused> {
        if let Some(id) = call.connection()
            && self.owners.get(&id).map(|owned| owned.program) != Some(program)
        {
            return Err(machine::Error::NoSuch(id).into());
        }
        if let Call::Unlisten(listener) = call {
            if self.listeners.get(listener) != Some(&program) {
                return Ok(Answer::Done);
            }
            self.listeners.remove(listener);
            self.less(program, |has| has.listeners -= 1);
        }
        let now = self.platform.now();
        let mut neighbours = self.lookups.with(control, tracker, now);
        if let Call::Connect(connect) = call {
            // No program connects in the name of another host.
            if !neighbours.is_own(connect.source) {
                return Err(machine::Error::Source(connect.source).into());
            }
            neighbours.wants(program, connect);
        }
        let answer = self.manager.call(control, &mut neighbours, now, call);
        // Also one that the machine has forgotten.
        if let Call::Release(id) = call {
            self.forget(*id, program);
        }
        let answer = answer?;
        match answer {
            Answer::Listener(listener, _) => {
                self.listeners.insert(listener, program);
                self.has.entry(program).or_default().listeners += 1;
            }
            Answer::Connection(id) => self.own(id, program),
            _ => {}
        }
        let id = match answer {
            Answer::Connection(id) => Some(id),
            _ => call.connection(),
        };
        if let (Some(id), Some(qpn)) = (id, call.queue_pair()) {
            self.name(id, qpn);
        }
        Ok(answer)
    }

    /// What a program has. Waits for nothing.
    #[must_use]
    pub fn has(&self, program: Program) -> Has {
        self.has.get(&program).copied().unwrap_or_default()
    }

    fn own(&mut self, id: ConnectionId, program: Program) {
        let owned = Owned { program, qpn: 0 };
        if self.owners.insert(id, owned).is_none() {
            self.has.entry(program).or_default().connections += 1;
        }
    }

    /// A connection has this queue pair at its own end.
    fn name(&mut self, id: ConnectionId, qpn: u32) {
        if let Some(owned) = self.owners.get_mut(&id) {
            self.named.remove(&(owned.qpn, id.number()));
            owned.qpn = qpn;
            if qpn != 0 {
                self.named.insert((qpn, id.number()), id);
            }
        }
    }

    /// A program has got a new queue pair with this number. Connections of others that name it are
    /// of one that is destroyed, or was never there: they end, and their peers and their programs are
    /// told. Otherwise peers would refuse to connect the new one.
    pub fn made(&mut self, program: Program, qpn: u32) {
        let all = self.named.range((qpn, 0)..=(qpn, u32::MAX));
        let all: Vec<_> = all.map(|(_, id)| *id).collect();
        for id in all {
            let owner = self.owners.get(&id).map(|owned| owned.program);
            if let Some(owner) = owner.filter(|owner| *owner != program) {
                self.end_for(id, owner);
            }
        }
    }

    /// Ends a connection that its program has not given up, and tells it, where it waits for that.
    fn end_for(&mut self, id: ConnectionId, owner: Program) {
        use machine::State;
        let machine = self.manager.machine();
        let (state, context) = (machine.state(id), machine.context(id));
        let _ = machine.release(id, self.platform.now());
        self.disown(id, owner);
        let told: &[News] = match state {
            None | Some(State::Idle) => &[],
            Some(State::TimeWait) => &[News::Over],
            Some(State::Established | State::DreqSent | State::DreqReceived) => {
                &[News::Disconnected, News::Over]
            }
            Some(_) => &[News::Unreachable],
        };
        let news = self.news.entry(owner).or_default();
        news.extend(told.iter().cloned().map(|news| Told {
            id,
            context: context.unwrap_or_default(),
            news,
        }));
    }

    fn less(&mut self, program: Program, less: impl FnOnce(&mut Has)) {
        if let Entry::Occupied(mut has) = self.has.entry(program) {
            less(has.get_mut());
            if *has.get() == Has::default() {
                has.remove();
            }
        }
    }

    fn disown(&mut self, id: ConnectionId, program: Program) {
        if let Some(owned) = self.owners.remove(&id) {
            self.named.remove(&(owned.qpn, id.number()));
            self.less(program, |has| has.connections -= 1);
        }
    }

    fn forget(&mut self, id: ConnectionId, program: Program) {
        self.disown(id, program);
        if let Some(news) = self.news.get_mut(&program) {
            news.retain(|told| told.id != id);
        }
    }

    /// Ends all that a program has: its listeners take no more requests, and peers of its
    /// connections are told. `stop` is called with each of its queue pairs that have a peer, before
    /// that is told: it is to go to ERROR. The numbers are what the program has said: see whether
    /// these queue pairs are its own.
    pub fn gone(&mut self, program: Program, stop: &mut dyn FnMut(Qpn)) {
        let now = self.platform.now();
        let machine = self.manager.machine();
        self.listeners.retain(|listener, owner| {
            let is_its = *owner == program;
            if is_its {
                machine.unlisten(*listener);
            }
            !is_its
        });
        let named = &mut self.named;
        self.owners.retain(|id, owned| {
            let is_its = owned.program == program;
            if is_its {
                named.remove(&(owned.qpn, id.number()));
                let own = machine.queue_pairs(*id).and_then(|[own, _]| Qpn::new(own));
                // A request that was not answered has none yet.
                own.filter(|qpn| qpn.get() > 1).map(&mut *stop);
                // One that has ended already is gone.
                let _ = machine.release(*id, now);
            }
            !is_its
        });
        self.news.remove(&program);
        self.has.remove(&program);
        self.lookups.forget(program);
    }

    /// Where a connection stands; `None` when there is none of this name.
    pub fn state(&mut self, id: ConnectionId) -> Option<machine::State> {
        self.manager.machine().state(id)
    }

    /// The connections of all programs, and to whom each belongs; `None` for one in TIMEWAIT whose
    /// program has given it up.
    pub fn overview(&mut self) -> Vec<(Option<Program>, Overview)> {
        let owners = &self.owners;
        let all = self.manager.machine().connections();
        all.map(|each| (owners.get(&each.id).map(|owned| owned.program), each))
            .collect()
    }

    /// The listeners of all programs.
    pub fn listeners(&mut self) -> Vec<ListenerOverview> {
        self.manager.machine().listeners().collect()
    }

    /// The port of the peer's program, as [`Machine::peer_port`].
    pub fn peer_port(&mut self, id: ConnectionId) -> Option<u16> {
        self.manager.machine().peer_port(id)
    }

    /// Whether datagrams are on their way to the wire.
    pub fn is_sending(&mut self) -> bool {
        self.manager.gsi().is_sending()
    }

    /// Datagrams that could not be sent.
    #[must_use]
    pub const fn not_sent(&self) -> u64 {
        self.manager.not_sent()
    }

    /// What was counted since the function was started.
    pub fn counters(&mut self) -> Counters {
        *self.manager.machine().counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables are never freed: those of a function that is opened again are used again, and no other
    /// function gets too small ones.
    #[test]
    fn tables_are_used_again_by_functions_of_their_size() {
        let sizes = [4096, 5000].map(connections_of);
        let places = || {
            let made = sizes.map(|size| machine(Config::new(1), size).unwrap());
            assert_eq!([&made[0], &made[1]].map(Machine::capacity), sizes);
            lock(&TABLES).extend(made);
            lock(&TABLES).len()
        };
        let first = places();
        assert_eq!(places(), first);
    }
}
