//! The owner of a function: brings it up, handles its events and carries out the commands of
//! programs. The thread that gives a command carries it out itself.
//!
//! * `bring_up`, a function for programs that do not say in advance what they need;
//! * `objects`, what a program has created, by number; `remains`, what the dead have left of it;
//! * `connections`, the connection manager of all programs;
//! * `ledger`, what each program has and does, and the `limits` of that; `memory`, how much of its
//!   memory the device reaches;
//! * `serve`, the work of the function's own thread;
//! * `resolve`, where packets to an address go.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use e810::{Channel, Control, CqKey, ProgramLimits, QpChange};
use e810_backends::interrupts::HostPlatform;
use e810_connect::Told;
use e810_hal::RegOffset;
use e810_hal::regs::{DB_CQ_ARM, DB_WQE_ALLOC, PFPE_CQARM, PFPE_WQEALLOC};
use e810_node::connections::Connections;

use crate::fair::{Fair, FairGuard};
use crate::link::Link;
use crate::lock;
pub use crate::messages::Held;
use crate::messages::{Answer, Command, ControlEvent, DeviceEvent, Refused};
use crate::socket::Peer;

mod bring_up;
mod commands;
mod connections;
mod ledger;
mod limits;
mod memory;
mod names;
mod objects;
mod remains;
mod resolve;
mod room;
mod serve;

pub use bring_up::{
    Opening, QUEUE_ENTRIES, QUEUE_PAIRS, Ready, SIMULATED_MTU, WAIT, serve, serve_taken,
};
use ledger::Ledger;
pub use ledger::{Attached, is_privileged};
pub use limits::{AskedLimits, Limits, Most};
pub(crate) use memory::LentFor;
use names::Names;
use objects::Objects;
use remains::{Left, Remains};
use resolve::Resolver;
use room::Room;
pub(crate) use room::Taken;
pub use serve::{Seen, Watch};

/// A program of an owner. No number is given twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProgramId(u64);

impl ProgramId {
    /// Its number, from 1.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// A program that is told what happens. It neither waits nor gives commands meanwhile.
pub trait Hears: fmt::Debug + Send + Sync {
    /// Something has happened to one of its objects, or to the device. The object cannot be
    /// destroyed during the call.
    fn event(&self, event: ControlEvent);

    /// Something about a queue pair with queues of the program's own has changed.
    fn qp_changed(&self, change: QpChange);

    /// The device has an event of a completion queue that the program polls with slots of its own.
    fn cq_event(&self, cq: CqKey);

    /// Such a completion queue has failed.
    fn cq_failed(&self, cq: CqKey);

    /// Something has happened to a connection of its own, or a peer asks for one.
    fn connection(&self, told: Told);
}

/// Where a program has the slots of its queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotsOf {
    /// With the owner's, in the owner's process: [`Owner::rings`].
    Owner,
    /// In a table of its own ([`e810::ProgramQueues`]).
    Program,
}

/// Whose addresses a program registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryOf {
    /// The owner's process.
    Owner,
    /// Those of another process, by the platform's number.
    Program(u64),
    /// None.
    Nobody,
}

/// The object whose doorbell is rung, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doorbell {
    /// A queue pair has new requests to send.
    Qp(u32),
    /// A completion queue is to tell of the next completion.
    Cq(u32),
}

impl Doorbell {
    /// What a write to a register rings; `None` for registers that are no doorbells of a
    /// program.
    #[must_use]
    pub fn of(register: u32, value: u32) -> Option<Self> {
        let qp = [PFPE_WQEALLOC.off(), DB_WQE_ALLOC.off()];
        let cq = [PFPE_CQARM.off(), DB_CQ_ARM.off()];
        let is = |registers: [RegOffset; 2]| registers.iter().any(|one| one.get() == register);
        if is(qp) {
            // Pushes are not used here, so nothing else is in it.
            return Some(Self::Qp(value));
        }
        is(cq).then_some(Self::Cq(value))
    }

    /// The register that is written for it, and what.
    #[must_use]
    pub const fn register(self) -> (RegOffset, u32) {
        match self {
            Self::Qp(number) => (PFPE_WQEALLOC.off(), number),
            Self::Cq(number) => (PFPE_CQARM.off(), number),
        }
    }
}

/// A command that was refused, or a message that is none.
#[derive(Clone, Copy, Debug)]
pub struct Odd<'a> {
    pub peer: Peer,
    /// The command's name.
    pub command: &'a str,
    pub why: &'a Refused,
}

/// Hears of the odd commands of attached programs. It does not wait.
pub type Log = Box<dyn Fn(Odd<'_>) + Send + Sync>;

/// Whose turn it is when the owner's own thread needs the control path.
const OWN: u64 = 0;

/// The control path of a function, and the programs that use it.
pub struct Owner<P: HostPlatform> {
    platform: P,
    state: Fair<State<P>>,
    /// Kept here, so that who asks takes no turn.
    program_limits: ProgramLimits,
    ledger: Ledger,
    room: Room,
    /// Told of what programs do wrong.
    log: OnceLock<Log>,
    watch: OnceLock<Watch<P>>,
    /// Where the completion queues report their events that are polled with the owner's slots.
    channel: Channel<P>,
    /// What events call the objects. Never held during a wait, because event handlers take it.
    names: Mutex<Names>,
    programs: Mutex<BTreeMap<ProgramId, Arc<dyn Hears>>>,
    resolver: Mutex<Resolver<P>>,
    /// Why no command is possible any more.
    gone: OnceLock<String>,
}

/// The control path and what was created with it.
struct State<P: HostPlatform> {
    control: Control<P>,
    objects: BTreeMap<ProgramId, Objects<P>>,
    /// None before the first call.
    connections: Option<Connections<P>>,
    /// What programs have left behind that the device would not give up.
    remains: Remains<Left<P>>,
    /// Commands since the events' remaining work was last done.
    since_progress: u32,
}

/// What a program has left.
fn held<P: HostPlatform>(left: Option<&Left<P>>) -> Held {
    left.map_or_else(Held::default, |left| left.objects.held())
}

/// Objects of a dead program that are destroyed before another program's command is carried out.
const TOGETHER: usize = 32;

/// After this many commands, the work that events have left is done first. The device's queue has
/// 63 places for commands, and commands that recover a failed queue pair keep theirs until then.
/// The function's own thread may not get to that work while programs give one command after
/// another.
const BETWEEN_PROGRESS: u32 = 8;

impl<P: HostPlatform> State<P> {
    /// Before a command.
    fn progress_in_turn(&mut self) {
        self.since_progress += 1;
        if self.since_progress >= BETWEEN_PROGRESS {
            self.since_progress = 0;
            // If the device is gone, the command fails, too.
            let _ = self.control.progress();
        }
    }
}

impl<P: HostPlatform> fmt::Debug for Owner<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner")
    }
}

impl<P: HostPlatform> Owner<P> {
    fn new(platform: P, control: Control<P>, channel: Channel<P>, resolver: Resolver<P>) -> Self {
        Self {
            platform,
            program_limits: control.program_limits(),
            state: Fair::new(State {
                control,
                objects: BTreeMap::new(),
                connections: None,
                remains: Remains::default(),
                since_progress: 0,
            }),
            ledger: Ledger::default(),
            room: Room::of_process(),
            log: OnceLock::new(),
            watch: OnceLock::new(),
            channel,
            names: Mutex::default(),
            programs: Mutex::default(),
            resolver: Mutex::new(resolver),
            gone: OnceLock::new(),
        }
    }

    /// A program comes.
    pub fn join(&self, hears: Arc<dyn Hears>, slots: SlotsOf, memory: MemoryOf) -> ProgramId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = ProgramId(NEXT.fetch_add(1, Ordering::Relaxed));
        lock(&self.programs).insert(id, hears);
        self.ledger.join(id);
        let objects = Objects::new(id, slots, memory);
        self.state.lock(id.0).objects.insert(id, objects);
        id
    }

    /// The program is another process, over this link. From now on it has limits, and is seen.
    pub fn introduce(&self, program: ProgramId, peer: Peer, link: Arc<dyn Link>) {
        self.ledger.introduce(program, peer, link);
    }

    /// From now on programs of other processes have the usual limits, or those that are asked for.
    pub fn limit(&self, asked: &AskedLimits) {
        let attr = self.state.lock(OWN).control.query_device();
        self.ledger.set_limits(Limits::shares(&attr, asked));
    }

    #[must_use]
    pub fn limits(&self) -> Limits {
        self.ledger.limits()
    }

    /// The programs of other processes, and what each has and does. Waits for no command.
    #[must_use]
    pub fn attached(&self) -> Vec<Attached> {
        self.ledger.attached()
    }

    /// From now on, `log` hears of what such programs do wrong.
    pub fn set_log(&self, log: Log) {
        // The first one stays.
        let _ = self.log.set(log);
    }

    /// A program's command was refused, or is none.
    pub(crate) fn is_odd(&self, program: ProgramId, command: &str, why: &Refused) {
        let peer = self.ledger.refused(program);
        if let (Some(peer), Some(log)) = (peer, self.log.get()) {
            log(Odd { peer, command, why });
        }
    }

    /// The control path, when it is the program's turn.
    fn turn(&self, program: ProgramId) -> FairGuard<'_, State<P>> {
        self.state.lock(program.0)
    }

    /// A program lends a file.
    ///
    /// # Errors
    /// It lends as much as it may.
    pub(crate) fn lend(
        &self,
        program: ProgramId,
        lent_for: LentFor,
        bytes: u64,
    ) -> Result<(), Refused> {
        let mut state = self.turn(program);
        if let Some(objects) = state.objects.get_mut(&program) {
            let more = objects.more_by_file(lent_for, bytes);
            self.ledger.check(program, &more)?;
            objects.reached().lend(lent_for, bytes);
            self.ledger.set_held(program, objects.held(), 0);
        }
        Ok(())
    }

    /// Room for a file that a program lends, which is mapped then.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn room(&self) -> Result<Taken, Refused> {
        self.room.take()
    }

    /// It lends that file no more.
    pub(crate) fn take_back(&self, program: ProgramId, lent_for: LentFor, bytes: u64) {
        let mut state = self.turn(program);
        if let Some(objects) = state.objects.get_mut(&program) {
            objects.reached().take_back(lent_for, bytes);
            self.ledger.set_held(program, objects.held(), 0);
        }
    }

    /// A program asks for the address of a peer: a command that others do not wait for.
    ///
    /// # Errors
    /// It has asked as much as it may.
    pub(crate) fn begin_question(&self, program: ProgramId) -> Result<(), Refused> {
        self.ledger.begin_question(program)
    }

    /// That question is answered.
    pub(crate) fn end_question(&self, program: ProgramId) {
        self.ledger.end_question(program);
    }

    /// Doorbells were rung for a program.
    pub(crate) fn rung(&self, program: ProgramId, doorbells: u64) {
        self.ledger.rung(program, doorbells);
    }

    /// Whether a program may ring this doorbell: it is that of an object of its own.
    #[must_use]
    pub fn may_ring(&self, program: ProgramId, doorbell: Doorbell) -> bool {
        let names = lock(&self.names);
        match doorbell {
            Doorbell::Qp(number) => names.qps.get(&number).map(|name| name.program),
            Doorbell::Cq(number) => names.cqs.get(&number).map(|name| name.program),
        }
        .is_some_and(|of| of == program)
    }

    /// A program is gone: everything that it created is destroyed, and it hears nothing any more.
    /// What the device does not give up now is tried again later. `memory` is dropped with the last
    /// object that may use it.
    pub fn leave(&self, program: ProgramId, memory: Box<dyn Any + Send>) {
        lock(&self.programs).remove(&program);
        let left = {
            let mut state = self.turn(program);
            let mut objects = state.objects.remove(&program);
            if let Some(objects) = &mut objects {
                self.end_connections(&mut state, program, objects);
            }
            lock(&self.names).forget(program);
            objects
        };
        let left = left.map(|objects| Left {
            objects,
            _memory: memory,
        });
        let left = left.and_then(|left| self.destroy(program.0, left));
        // What it had counts for its user until it is destroyed.
        self.ledger.leave(program, held(left.as_ref()));
        if let Some(left) = left {
            self.turn(program).remains.put(left);
        }
    }

    /// Destroys what a program has left, while others give commands in between; what the device
    /// does not give up is returned.
    fn destroy(&self, who: u64, mut left: Left<P>) -> Option<Left<P>> {
        for some in left.objects.all().chunks(TOGETHER) {
            let mut state = self.state.lock(who);
            // Nothing is taken away from a device that is gone.
            if self.gone.get().is_some() {
                break;
            }
            for object in some {
                left.objects.destroy(&mut state.control, *object);
            }
        }
        (!left.objects.is_empty()).then_some(left)
    }

    /// Tries again, now and then, to destroy what the dead have left.
    fn clear_away(&self, now: Instant) {
        let Some(remains) = self.state.lock(OWN).remains.take(now) else {
            return;
        };
        let mut refused = Vec::new();
        for one in remains {
            let program = one.objects.program();
            let left = self.destroy(OWN, one);
            self.ledger.set_held(program, held(left.as_ref()), 0);
            refused.extend(left);
        }
        self.state.lock(OWN).remains.put_back(refused, now);
    }

    /// The programs, and what each has.
    #[must_use]
    pub fn programs(&self) -> Vec<(ProgramId, Held)> {
        let state = self.state.lock(OWN);
        let all = state.objects.iter();
        all.map(|(id, objects)| (*id, objects.held())).collect()
    }

    /// Whether commands are possible: takes no lock.
    ///
    /// # Errors
    /// The function is gone.
    pub fn check(&self) -> Result<(), Refused> {
        match self.gone.get() {
            Some(why) => Err(Refused::gone(why)),
            None => Ok(()),
        }
    }

    /// Carries a command out; it may take as long as the device does (bounded by the driver), and
    /// [`Command::Resolve`] as long as a neighbour may take to answer.
    ///
    /// # Errors
    /// Why not.
    pub fn call(&self, program: ProgramId, command: Command) -> Result<Answer, Refused> {
        self.check()?;
        let _under_way = self.ledger.begin(program, command.name());
        if let Command::Resolve(asked) = command {
            return self.resolve(program, asked).map(Answer::Resolve);
        }
        let mut state = self.turn(program);
        let passed = state.passed();
        state.progress_in_turn();
        if let Command::Connecting(asked) = &command {
            let answered = self.connecting(&mut state, program, asked);
            return answered.map(Answer::Connecting);
        }
        let State {
            control, objects, ..
        } = &mut *state;
        let Some(objects) = objects.get_mut(&program) else {
            return Err(Refused::gone("the program has left"));
        };
        self.ledger.check(program, &objects.more_by(&command))?;
        let answer = objects.execute(control, &self.channel, command, &self.names);
        self.ledger.set_held(program, objects.held(), passed);
        self.tell_changes(&mut state);
        if let Ok(Answer::CreateQp((granted, _))) = &answer {
            self.qp_made(&mut state, program, granted.number().get());
        }
        answer
    }

    /// Makes rings of what programs create that have their slots with the owner's.
    #[must_use]
    pub fn rings(&self) -> e810::Rings<P> {
        self.state.lock(OWN).control.rings()
    }

    /// How much room a program with slots of its own may need.
    #[must_use]
    pub const fn program_limits(&self) -> ProgramLimits {
        self.program_limits
    }

    /// Tells programs what has changed about their queue pairs. The lock keeps the order.
    fn tell_changes(&self, state: &mut State<P>) {
        while let Some(change) = state.control.take_qp_change() {
            let name = lock(&self.names).qps.get(&change.qp.id()).copied();
            if let Some(name) = name {
                self.tell(name.program, |program| program.qp_changed(change));
            }
        }
    }

    fn tell(&self, program: ProgramId, tell: impl FnOnce(&dyn Hears)) {
        let programs = lock(&self.programs);
        if let Some(program) = programs.get(&program) {
            tell(&**program);
        }
    }

    /// Tells all programs.
    fn tell_all(&self, event: DeviceEvent) {
        for program in lock(&self.programs).values() {
            program.event(ControlEvent::Device(event));
        }
    }
}
