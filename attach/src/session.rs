//! The owner's end of an attached program: its commands are carried out, and everything that it is
//! told goes over one link, in order. What the program lends the device, or has mapped for it, is
//! unmapped when it is gone.

use std::fs::{self, File};
use std::mem;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use e810::{CqKey, ProgramLimits, QpChange};
use e810_backends::memory::{PAGE, SharedMemory};
use e810_backends::transport::Admitted;
use e810_backends::{HostDevice, Shares};

use crate::doorbells::Doorbells;
use crate::lent::{Lent, LentFiles, Span, Use};
use crate::link::{Ended, Link, Message};
use crate::messages::{
    Answer, Asked, Command, ControlEvent, Function, Lend, Refused, TakeBack, Told, Welcome, decode,
    encode,
};
use crate::owner::{Hears, LentFor, MemoryOf, Owner, ProgramId, SlotsOf};
use crate::socket::Peer;
use crate::threads::spawn;

/// How often the thread looks whether the link still is there.
const TICK: Duration = Duration::from_secs(1);

/// How long the thread looks for doorbells after the last one, before it sleeps.
const AWAKE: Duration = Duration::from_micros(50);

/// Turns with doorbells or work of the device between two looks for messages, which cost more.
const TURNS: u32 = 16;

/// An attached program. Everything that it has created is destroyed when this is dropped.
#[derive(Debug)]
pub struct Session<P: HostDevice> {
    owner: Arc<Owner<P>>,
    platform: P,
    program: ProgramId,
    to_program: Arc<ToProgram>,
    /// The program is in the owner's process and has rings on its platform, so it lends none.
    is_own: bool,
    lent: LentFiles<P>,
    /// The program reaches the function by itself.
    shared: Option<Shared<P>>,
    /// The platform's number of the program's memory.
    memory: Option<u64>,
    has_lent_process: bool,
    doorbells: Option<Doorbells>,
}

/// What a program has that reaches the function by itself, until this is dropped.
#[derive(Debug)]
struct Shared<P: HostDevice> {
    platform: P,
    /// The platform's number.
    program: u64,
    /// First and last I/O address of its memory.
    addresses: (u64, u64),
}

impl<P: HostDevice> Shared<P> {
    /// Whether it may have rings there.
    fn holds(&self, &(start, bytes): &Span) -> bool {
        let (first, last) = self.addresses;
        let end = start.0.checked_add(bytes);
        first <= start.0 && end.is_some_and(|end| end - 1 <= last)
    }
}

impl<P: HostDevice> Drop for Shared<P> {
    fn drop(&mut self) {
        if let Some(shares) = self.platform.shares()
            && let Err(error) = shares.dismiss(self.program)
        {
            log::error!("the addresses of a program that is gone are lost: {error}");
        }
    }
}

/// The link, as what is told of events.
#[derive(Debug)]
struct ToProgram(Arc<dyn Link>);

impl ToProgram {
    fn tell(&self, told: &Told) {
        // The program may be gone, which the session's thread notices.
        let _ = self.0.send(encode(told).into());
    }
}

impl ToProgram {
    /// Lets the program reach the function by itself.
    fn admit<P: HostDevice>(
        &self,
        platform: &P,
        shares: &dyn Shares,
        limits: ProgramLimits,
    ) -> Result<Shared<P>, Refused> {
        let admitted = shares.admit();
        let admitted = admitted.map_err(|error| Refused::not_admitted(&error))?;
        let Admitted {
            name,
            program,
            files,
            addresses,
            page,
        } = admitted;
        let function = Function {
            name,
            bar0: files.bar0,
            config: files.config,
            addresses,
            page,
        };
        let welcome = Told::Welcome(Welcome {
            limits,
            function: Some(function),
        });
        for (told, file) in [(welcome, files.device), (Told::Container, files.container)] {
            // The program may be gone, which the session's thread notices.
            let _ = self.0.send(Message {
                bytes: encode(&told),
                file: Some(file),
            });
        }
        Ok(Shared {
            platform: platform.clone(),
            program,
            addresses,
        })
    }
}

impl Hears for ToProgram {
    fn event(&self, event: ControlEvent) {
        self.tell(&Told::Event(event));
    }

    fn qp_changed(&self, change: QpChange) {
        self.tell(&Told::Qp(change));
    }

    fn cq_event(&self, cq: CqKey) {
        self.tell(&Told::CqEvent(cq));
    }

    fn cq_failed(&self, cq: CqKey) {
        self.tell(&Told::CqFailed(cq));
    }

    fn connection(&self, told: e810_connect::Told) {
        self.tell(&Told::Connection(Box::new(told)));
    }
}

impl<P: HostDevice> Session<P> {
    /// A program comes over a link. `memory`: whose addresses it registers at first.
    ///
    /// # Errors
    /// Why it cannot be attached.
    pub fn begin(
        owner: Arc<Owner<P>>,
        platform: P,
        link: Arc<dyn Link>,
        memory: MemoryOf,
    ) -> Result<Self, Refused> {
        let to_program = Arc::new(ToProgram(link));
        let is_own = memory == MemoryOf::Owner;
        // Before any event.
        let limits = owner.program_limits();
        let shared = match platform.shares().filter(|_| !is_own) {
            Some(shares) => Some(to_program.admit(&platform, shares, limits)?),
            None => {
                to_program.tell(&Told::Welcome(Welcome {
                    limits,
                    function: None,
                }));
                None
            }
        };
        let lends = platform.lends().filter(|_| !is_own && shared.is_none());
        let lent = lends.map(|lends| lends.attach_program());
        // One that reaches the function maps memory itself.
        let number = shared.as_ref().map(|shared| shared.program).or(lent);
        let memory = number.map_or(memory, MemoryOf::Program);
        Ok(Self {
            program: owner.join(to_program.clone(), SlotsOf::Program, memory),
            owner,
            platform,
            to_program,
            is_own,
            shared,
            lent: LentFiles::default(),
            memory: lent,
            has_lent_process: false,
            doorbells: None,
        })
    }

    /// The program is this process, and has its limits.
    #[must_use]
    pub fn of(self, peer: Peer) -> Self {
        let link = self.to_program.0.clone();
        self.owner.introduce(self.program, peer, link);
        self
    }

    /// Carries out its commands and has its doorbells rung until it is gone, or sends what is no
    /// message.
    pub fn run(mut self) {
        let mut busy = Instant::now();
        let mut turns = 0;
        loop {
            if self.ring() {
                busy = Instant::now();
                turns += 1;
                if turns % TURNS != 0 {
                    continue;
                }
            }
            // A program that has just rung often rings again.
            let limit = match busy.elapsed() < AWAKE {
                true => Duration::ZERO,
                false if self.is_rung_before_sleep() => continue,
                false => TICK,
            };
            let received = self.to_program.0.receive(limit);
            if let Some(doorbells) = &self.doorbells {
                doorbells.end_sleep();
            }
            let message = match received {
                Ok(Some(message)) => message,
                Ok(None) if limit.is_zero() => {
                    // The program may need this processor.
                    thread::yield_now();
                    continue;
                }
                Ok(None) => continue,
                Err(Ended) if self.to_program.0.is_cut_off() => {
                    return self
                        .owner
                        .is_odd(self.program, "no reader", &Refused::deaf());
                }
                Err(Ended) => return,
            };
            let asked = match decode(&message.bytes) {
                Ok(asked) => asked,
                Err(said) => {
                    let why = Refused::unintelligible("the program", said);
                    return self.owner.is_odd(self.program, "no message", &why);
                }
            };
            self.carry_out(asked, message.file);
        }
    }

    fn carry_out(&mut self, Asked { number, command }: Asked, file: Option<OwnedFd>) {
        let to_program = self.to_program.clone();
        let (owner, program, name) = (self.owner.clone(), self.program, command.name());
        let reply = move |answered: Result<Answer, Refused>| {
            if let Err(why) = &answered {
                owner.is_odd(program, name, why);
            }
            if number != 0 {
                to_program.tell(&Told::Answer(number, answered));
            }
        };
        match command {
            // The command that waits for others.
            Command::Resolve(_) => {
                let (owner, program) = (self.owner.clone(), self.program);
                let refuse = reply.clone();
                if let Err(why) = owner.begin_question(program) {
                    return refuse(Err(why));
                }
                let asked = spawn("e810-resolve", move || {
                    let answered = owner.call(program, command);
                    owner.end_question(program);
                    reply(answered);
                });
                if let Err(error) = asked {
                    self.owner.end_question(program);
                    refuse(Err(Refused::by_system("a thread", &error)));
                }
            }
            Command::Wake(_) => {}
            Command::LendDoorbells(_) => {
                reply(self.lend_doorbells(file).map(Answer::LendDoorbells));
            }
            Command::Lend(asked) => reply(self.lend(&asked, file).map(Answer::Lend)),
            Command::TakeBack(asked) => reply(self.take_back(&asked).map(Answer::TakeBack)),
            Command::LendProcess(_) => {
                reply(self.lend_process(file).map(Answer::LendProcess));
            }
            command => reply(self.call(command)),
        }
    }

    /// Has the owner carry a command out. Rings lie in files that the program has lent: the device
    /// must not read or write anything else for it.
    fn call(&mut self, command: Command) -> Result<Answer, Refused> {
        let used = Use::by(&command)?;
        if !used.spans().iter().all(|span| self.is_own_memory(span)) {
            return Err(Refused::not_lent());
        }
        let answered = self.owner.call(self.program, command);
        self.lent.note(used, &answered);
        answered
    }

    fn is_own_memory(&self, span: &Span) -> bool {
        match &self.shared {
            _ if self.is_own => true,
            Some(shared) => shared.holds(span),
            None => self.lent.holds(span),
        }
    }

    /// Rings what the program has rung, and does the device's work; returns whether there was
    /// something.
    fn ring(&self) -> bool {
        let (Some(doorbells), Some(lends)) = (&self.doorbells, self.platform.lends()) else {
            return false;
        };
        let mut rung = 0;
        let any = doorbells.take(|doorbell| {
            rung += 1;
            // One of others, or of nobody: nothing happens.
            if self.owner.may_ring(self.program, doorbell) {
                let (register, value) = doorbell.register();
                lends.ring(register, value);
            }
        });
        if any {
            self.owner.rung(self.program, rung);
        }
        lends.attend() || any
    }

    /// From now on the program wakes this thread. Whether something was rung before.
    fn is_rung_before_sleep(&self) -> bool {
        let Some(doorbells) = &self.doorbells else {
            return false;
        };
        doorbells.begin_sleep();
        let is_rung = self.ring();
        if is_rung {
            doorbells.end_sleep();
        }
        is_rung
    }

    fn lend_doorbells(&mut self, file: Option<OwnedFd>) -> Result<(), Refused> {
        let limits = self.owner.program_limits();
        let bytes = Doorbells::bytes(&limits).next_multiple_of(PAGE);
        let memory = file.and_then(|file| SharedMemory::of_file(file, bytes).ok());
        let doorbells = memory.and_then(|memory| Doorbells::new(memory.without_file(), &limits));
        match (doorbells, &self.doorbells) {
            (Some(doorbells), None) => self.doorbells = Some(doorbells),
            _ => {
                return Err(Refused::unexpected(
                    "no file, a second one, or one of another size",
                ));
            }
        }
        Ok(())
    }

    fn lend(&mut self, asked: &Lend, file: Option<OwnedFd>) -> Result<u64, Refused> {
        let bytes = usize::try_from(asked.bytes).unwrap_or(usize::MAX);
        let (Some(file), Some(lends)) = (file, self.platform.lends()) else {
            return Err(Refused::unexpected("no file, or nobody who takes it"));
        };
        let lent_for = lent_for(asked.address);
        let room = self.owner.room()?;
        self.owner.lend(self.program, lent_for, asked.bytes)?;
        let lend = || {
            let memory = SharedMemory::of_file(file, bytes).map_err(|_| Refused::no_memory())?;
            let memory = memory.without_file();
            // SAFETY: it is kept until it is unmapped.
            let lent = lends.lend(unsafe { memory.bytes() });
            let (mapping, iova) = lent.map_err(|error| Refused::from(e810::Error::Dma(error)))?;
            Ok((memory, mapping, iova))
        };
        let (memory, mapping, iova) = lend().inspect_err(|_: &Refused| {
            self.owner.take_back(self.program, lent_for, asked.bytes);
        })?;
        if let (Some(program), Some(address)) = (self.memory, asked.address) {
            // SAFETY: as above; it is taken back first.
            lends.lend_at(program, address, unsafe { memory.bytes() });
        }
        let lent = Lent {
            platform: self.platform.clone(),
            mapping,
            bytes: asked.bytes,
            address: asked.address,
            _memory: memory,
            _room: room,
            parts: 0,
        };
        self.lent.insert(iova, lent);
        Ok(iova.0)
    }

    fn take_back(&mut self, asked: &TakeBack) -> Result<(), Refused> {
        let lent = self.lent.remove(asked.iova)?;
        let taken = self.platform.lends().zip(self.memory).zip(lent.address);
        if let Some(((lends, program), address)) = taken {
            lends.take_back_at(program, address);
        }
        let lent_for = lent_for(lent.address);
        self.owner.take_back(self.program, lent_for, lent.bytes);
        Ok(())
    }

    fn lend_process(&mut self, file: Option<OwnedFd>) -> Result<(), Refused> {
        let lends = self.platform.lends().zip(self.memory);
        let (Some(file), Some((lends, program)), false) = (file, lends, self.has_lent_process)
        else {
            return Err(Refused::unexpected(
                "no file, a second one, or nobody who takes it",
            ));
        };
        if !is_process_memory(&file) {
            return Err(Refused::unexpected("a file that is no memory of a process"));
        }
        lends.lend_process(program, File::from(file));
        self.has_lent_process = true;
        Ok(())
    }
}

/// A program that registers memory in a file says where it has the file.
const fn lent_for(address: Option<u64>) -> LentFor {
    match address {
        Some(_) => LentFor::Regions,
        None => LentFor::Rings,
    }
}

/// Whether it is `/proc/PID/mem`. The device writes to it what the program says, with the rights of
/// this process: there are files of the kernel that give more to who writes to them. Anybody may
/// mount one of those at a name that ends like this, so the name counts only where nothing is
/// mounted on it (a kernel before 5.8 does not say that, and lends no process).
fn is_process_memory(file: &OwnedFd) -> bool {
    // SAFETY: numbers.
    let mut system: libc::statfs = unsafe { mem::zeroed() };
    // SAFETY: room for what is asked.
    let asked = unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut system) };
    let name = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    asked == 0
        && system.f_type == libc::PROC_SUPER_MAGIC
        && name.is_ok_and(|name| name.file_name().is_some_and(|name| name == "mem"))
        && is_mount_root(file) == Some(false)
}

/// Whether it is what is mounted somewhere, not something below that; `None` if the kernel does not
/// say.
fn is_mount_root(file: &OwnedFd) -> Option<bool> {
    const MOUNT_ROOT: u64 = libc::STATX_ATTR_MOUNT_ROOT as u64;
    // SAFETY: numbers.
    let mut status: libc::statx = unsafe { mem::zeroed() };
    // SAFETY: the name is empty, and there is room for what is asked.
    let asked = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            0,
            &raw mut status,
        )
    };
    let is_known = asked == 0 && status.stx_attributes_mask & MOUNT_ROOT != 0;
    is_known.then_some(status.stx_attributes & MOUNT_ROOT != 0)
}

impl<P: HostDevice> Drop for Session<P> {
    fn drop(&mut self) {
        // First of all: nothing is written to a process that is gone, whatever is in flight.
        if let (Some(program), Some(lends)) = (self.memory, self.platform.lends()) {
            lends.detach_program(program);
        }
        // The device loses the program's memory with the last object that may use it.
        let memory = (mem::take(&mut self.lent), self.shared.take());
        self.owner.leave(self.program, Box::new(memory));
    }
}
