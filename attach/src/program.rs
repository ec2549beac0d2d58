//! The program's end: it has the queues, and asks the owner for everything else.
//!
//! One thread hears what the owner tells, in its order, and brings the program's slots up to date.
//! So an answer never reaches its caller before what changed ahead of it.

use std::collections::HashMap;
use std::fmt;
use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use e810::{Channel, CqKey, Platform, ProgramLimits, ProgramQueues, Qpn};
use e810_backends::Function;
use e810_backends::vfio::ProgramVfio;

use crate::conversation::{Conversation, Reply, Then};
use crate::link::{Ended, Link};
use crate::lock;
use crate::messages::{
    Answer, Command, ControlEvent, DestroyCq, DestroyQp, DeviceEvent, EventSink, Forgotten, Kind,
    Lend, LendProcess, Listeners, Operation, Refused, Token, Told,
};
use crate::platform::{AttachedPlatform, WhyNone};
use crate::regions::Regions;
use crate::silence::Silence;

/// How long an owner may take to welcome a program.
const WELCOME: Duration = Duration::from_secs(10);
/// How often the thread looks for what no message tells.
const TICK: Duration = Duration::from_millis(50);
/// Limit for those who are told of an event of a completion queue that is to be destroyed.
const TOLD: Duration = Duration::from_secs(1);

/// A program of an owner elsewhere.
pub struct Program<P: Platform> {
    conversation: Arc<Conversation>,
    queues: Mutex<ProgramQueues<P>>,
    /// Where the completion queues of all contexts report their events.
    channel: Channel<P>,
    /// By number. Held during no command.
    cqs: Mutex<HashMap<u32, CqKey>>,
    listeners: Listeners,
    /// Of a program that maps its memory itself.
    regions: Option<Regions<P>>,
    /// Why it has no memory for rings.
    why: WhyNone,
    /// What is done when the owner is gone.
    at_end: fn(&P),
    platform: P,
}

/// A program of an owner elsewhere, by how it reaches the function.
#[derive(Debug)]
pub enum Attached {
    /// The owner simulates the function.
    Simulated(Program<AttachedPlatform>),
    /// By itself.
    Function(Program<SharedFunction>),
}

/// The function of an owner in another process.
pub type SharedFunction = Function<ProgramVfio>;

impl<P: Platform> fmt::Debug for Program<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Program")
    }
}

impl<P: Platform> Program<P> {
    /// A program at the other end of the owner's link, which has rings on a platform of its own. A
    /// thread of the program has to [`hear`](Self::hear).
    ///
    /// # Errors
    /// No memory; the owner is gone, or does not welcome it.
    pub fn new(link: Arc<dyn Link>, platform: P) -> Result<Self, Refused> {
        let conversation = Arc::new(Conversation::new(link));
        let (limits, _) = conversation.welcome(WELCOME)?;
        Self::with(conversation, platform, limits)
    }

    fn with(
        conversation: Arc<Conversation>,
        platform: P,
        limits: ProgramLimits,
    ) -> Result<Self, Refused> {
        let queues = ProgramQueues::new(platform.clone(), limits);
        let mut queues = queues.map_err(Refused::no_tables)?;
        let channel = queues.create_channel()?;
        Ok(Self {
            conversation,
            queues: Mutex::new(queues),
            channel,
            cqs: Mutex::default(),
            listeners: Listeners::default(),
            regions: None,
            why: WhyNone::default(),
            at_end: |_| {},
            platform,
        })
    }

    /// Whether the program maps the memory that it registers for the device itself. Otherwise it
    /// lends it to the owner.
    pub(crate) const fn maps_its_memory(&self) -> bool {
        self.regions.is_some()
    }

    /// Makes what the device has written visible to reads.
    pub(crate) fn sync_from_device(&self) {
        self.platform.from_device();
    }

    /// Lends the owner a file; answers its address for the device.
    ///
    /// # Errors
    /// The owner's refusal; the owner is gone.
    pub(crate) fn lend(&self, lend: Lend, file: OwnedFd) -> Result<u64, Refused> {
        self.conversation.ask_plainly(lend, Some(file))
    }

    /// What an error of memory for rings means ([`rings`](Self::rings)).
    pub fn why_no_memory(&self) -> impl Fn(e810::Error) -> Refused + Send + Sync + use<P> {
        let why = self.why.clone();
        move |error| why.of(error)
    }

    /// Makes rings of what the program creates.
    #[must_use]
    pub fn rings(&self) -> e810::Rings<P> {
        lock(&self.queues).rings()
    }

    /// Reports the program's events to `sink`, too, until that is dropped.
    pub fn listen(&self, sink: &Arc<dyn EventSink>) {
        self.listeners.add(sink);
    }

    /// Whether the owner is gone, or its function: no command is carried out any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.conversation.is_over()
    }

    /// Hears what the owner tells until it is gone, or answers nothing for a minute.
    pub fn hear(&self) {
        self.hear_while(|| true);
    }

    /// Hears what the owner tells until it is gone, or no longer `wanted`. One that answers nothing
    /// for a minute counts as gone.
    pub(crate) fn hear_while(&self, wanted: impl Fn() -> bool) {
        let mut silence = Silence::default();
        while wanted() {
            let heard = self.conversation.hear(TICK);
            let has_heard = !matches!(heard, Ok(None));
            let waits = self.conversation.waits();
            if let Some(silent) = silence.too_long(has_heard, waits, TICK) {
                log::error!(
                    "the server of the function has answered nothing for {} s (is it stopped?): the function counts as gone",
                    silent.as_secs()
                );
                break;
            }
            match heard {
                Ok(Some(told)) => {
                    let is_end = matches!(
                        told,
                        Told::Event(ControlEvent::Device(DeviceEvent::DeviceFatal))
                    );
                    if is_end {
                        break;
                    }
                    self.take_note(told);
                }
                Ok(None) => {}
                // The same as a function that is gone.
                Err(Ended) => break,
            }
            lock(&self.queues).progress();
            self.tell_completions();
            self.tell_forgotten();
        }
        // First, so that whoever hears of it can open the device again.
        (self.at_end)(&self.platform);
        self.conversation.end();
        let gone = ControlEvent::Device(DeviceEvent::DeviceFatal);
        self.listeners.notify(gone);
    }

    fn take_note(&self, told: Told) {
        match told {
            // It was welcomed before.
            Told::Welcome(_) | Told::Refused(_) | Told::Container | Told::Programs(_) => {}
            Told::Answer(number, answered) => self.answer(number, answered),
            Told::Event(event) => self.listeners.notify(event),
            Told::Qp(change) => lock(&self.queues).apply(&change),
            Told::CqEvent(cq) => {
                lock(&self.queues).cq_event(cq);
            }
            Told::CqFailed(cq) => lock(&self.queues).cq_failed(cq),
            Told::Connection(told) => self.listeners.connection(&told),
        }
    }

    /// An answer has come: what it means for the slots comes first.
    fn answer(&self, number: u64, answered: Result<Answer, Refused>) {
        let Some(caller) = self.conversation.take(number) else {
            return;
        };
        let reply = match self.carry_on(caller.then, &answered) {
            Ok(()) => Reply {
                answered,
                undo: None,
            },
            Err(refused) => Reply {
                undo: answered.ok().and_then(|answer| undo_of(&answer)),
                answered: Err(refused),
            },
        };
        caller.tell(reply);
    }

    fn carry_on(&self, then: Then, answered: &Result<Answer, Refused>) -> Result<(), Refused> {
        let mut queues = lock(&self.queues);
        match (then, answered) {
            (Then::OpenCq(token), Ok(Answer::CreateCq(granted))) => {
                queues.open_cq(granted, Some(&self.channel), token.0)?;
                lock(&self.cqs).insert(granted.number(), granted.key());
            }
            (Then::OpenQp, Ok(Answer::CreateQp((granted, _)))) => queues.open_qp(granted)?,
            (Then::SetQkey(number, qkey), Ok(_)) => queues.set_qkey(qpn(number)?, qkey)?,
            (Then::Hide(number), Ok(_)) => drop(queues.hide_qp(qpn(number)?)?),
            (Then::Reopen, Ok(Answer::Reopen(reopened))) => queues.reopen_qp(reopened)?,
            (Then::EndQp, Ok(Answer::DestroyQp(destroyed))) => {
                queues.end_qp(destroyed);
            }
            (Then::EndCq(_), Ok(Answer::DestroyCq(destroyed))) => queues.end_cq(destroyed),
            (Then::EndCq(cq), Err(_)) => queues.keep_cq(cq),
            _ => {}
        }
        Ok(())
    }

    /// Reports the completion queues that have something to poll.
    fn tell_completions(&self) {
        while let Ok(Some(event)) = self.channel.try_next() {
            self.listeners
                .notify(ControlEvent::Completion(Token(event.user_context())));
            // The event was taken just now; the queue's destruction waits for this.
            let _ = self.channel.acknowledge(event, 1);
        }
    }

    /// Tells the owner which queue pairs are forgotten here.
    fn tell_forgotten(&self) {
        let mut queues = lock(&self.queues);
        while let Some(number) = queues.reap() {
            let number = number.get();
            // Without an owner nobody needs it.
            let _ = self.conversation.tell(Forgotten { number }.command(), None);
        }
    }

    /// Has the owner destroy what it has just made, before its memory is freed.
    fn undo(&self, command: Command, why: Refused) -> Refused {
        let number = match &command {
            Command::DestroyQp(asked) => Some(asked.number),
            _ => None,
        };
        match self.conversation.ask(command, None, Then::Nothing) {
            Ok(Reply {
                answered: Ok(_), ..
            }) => {
                if let Some(number) = number {
                    // It was never known here.
                    let _ = self.conversation.tell(Forgotten { number }.command(), None);
                }
                why
            }
            _ => Refused {
                kind: Kind::MayUseMemory,
                ..why
            },
        }
    }

    /// Has the owner carry out a command.
    ///
    /// # Errors
    /// Its refusal; no room for the object here; the owner is gone.
    pub fn call(&self, command: Command) -> Result<Answer, Refused> {
        match &self.regions {
            Some(regions) => regions.call(command, |command| self.give(command)),
            None => self.give(command),
        }
    }

    fn give(&self, command: Command) -> Result<Answer, Refused> {
        if command.makes_something() {
            self.tell_forgotten();
        }
        let then = match &command {
            Command::DestroyCq(asked) => self.quiesce(asked.number)?,
            command => Then::of(command),
        };
        let Reply { answered, undo } = self.conversation.ask(command, None, then)?;
        match (answered, undo) {
            (Err(why), Some(command)) => Err(self.undo(command, why)),
            (answered, _) => answered,
        }
    }

    /// Before a completion queue is destroyed: no more of its events are told, and those who are
    /// being told have heard.
    fn quiesce(&self, number: u32) -> Result<Then, Refused> {
        let key = lock(&self.cqs).get(&number).copied();
        let key = key.ok_or_else(|| Refused::no_such("completion queue", number))?;
        let limit = Instant::now() + TOLD;
        loop {
            let mut queues = lock(&self.queues);
            let events = queues.begin_end_cq(key)?;
            if events == 0 {
                return Ok(Then::EndCq(key));
            }
            if Instant::now() > limit {
                queues.keep_cq(key);
                return Err(e810::Error::Unacknowledged { cq: number, events }.into());
            }
            drop(queues);
            thread::yield_now();
        }
    }
}

/// What destroys the object that an answer tells of.
fn undo_of(answer: &Answer) -> Option<Command> {
    match answer {
        Answer::CreateCq(granted) => Some(
            DestroyCq {
                number: granted.number(),
            }
            .command(),
        ),
        Answer::CreateQp((granted, _)) => Some(
            DestroyQp {
                number: granted.number().get(),
            }
            .command(),
        ),
        _ => None,
    }
}

fn qpn(number: u32) -> Result<Qpn, Refused> {
    Qpn::new(number).ok_or_else(|| Refused::no_such("queue pair", number))
}

impl Attached {
    /// A program in another process than its owner, reached over `link`. One whose owner simulates
    /// the function [lends](Program::lend_process) its memory before it registers any.
    ///
    /// # Errors
    /// As [`Program::new`]; the function cannot be reached.
    pub fn over(link: Arc<dyn Link>) -> Result<Self, Refused> {
        let conversation = Arc::new(Conversation::new(link));
        let (limits, function) = conversation.welcome(WELCOME)?;
        let Some((function, files)) = function else {
            let why = WhyNone::default();
            let platform = AttachedPlatform::new(conversation.clone(), &limits, why.clone())?;
            let program = Program::with(conversation, platform, limits)?;
            return Ok(Self::Simulated(Program { why, ..program }));
        };
        let reached = ProgramVfio::new(function.name, files, function.addresses, function.page);
        let platform = reached.and_then(Function::of_program);
        let platform = platform.map_err(|error| Refused::gone(&error))?;
        let regions = Regions::new(platform.clone());
        let program = Program::with(conversation, platform, limits)?;
        Ok(Self::Function(Program {
            regions: Some(regions),
            at_end: |platform: &SharedFunction| {
                if let Err(error) = platform.transport().abandon() {
                    log::error!("a function whose owner is gone stays open: {error}");
                }
            },
            ..program
        }))
    }
}

impl Program<AttachedPlatform> {
    /// Lets the owner's device reach the memory that this process registers. Waits for no answer: an
    /// owner that cannot reach it refuses each region.
    ///
    /// # Errors
    /// The process may not open its own memory, as one that is not dumpable; the owner is gone.
    pub fn lend_process(&self) -> Result<(), Refused> {
        let memory = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/proc/self/mem");
        let memory = memory.map_err(|error| Refused::no_process_memory(&error))?;
        self.conversation
            .tell(LendProcess {}.command(), Some(memory.into()))
    }
}
