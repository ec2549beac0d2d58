//! The owner's end of an attached program: its commands are carried out, and everything that it is
//! told goes over one link, in order. What the program lends the device is unmapped when it is
//! gone.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use e810::{CqKey, QpChange};
use e810_backends::HostDevice;
use e810_backends::memory::SharedMemory;
use e810_hal::{Mapping, RegOffset};

use crate::link::{Ended, Link};
use crate::messages::{
    Answer, Asked, Command, ControlEvent, Lend, Refused, Ring, TakeBack, Told, decode, encode,
};
use crate::owner::{Doorbell, Hears, MemoryOf, Owner, ProgramId, SlotsOf};
use crate::threads::spawn;

/// How often the thread looks whether the link still is there.
const TICK: Duration = Duration::from_secs(1);

/// Files that a program may lend at a time: two for each queue pair and completion queue.
const MOST_LENT: usize = 8192;

/// An attached program. Everything that it has created is destroyed when this is dropped.
#[derive(Debug)]
pub struct Session<P: HostDevice> {
    owner: Arc<Owner<P>>,
    platform: P,
    program: ProgramId,
    to_program: Arc<ToProgram>,
    /// By I/O address.
    lent: BTreeMap<u64, Lent>,
    /// The platform's number of the program's memory.
    process: Option<u64>,
}

/// A file of the program that the device reaches.
#[derive(Debug)]
struct Lent {
    mapping: Mapping,
    _memory: SharedMemory,
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
}

impl<P: HostDevice> Session<P> {
    /// A program comes over a link. `memory`: whose addresses it registers at first.
    #[must_use]
    pub fn begin(owner: Arc<Owner<P>>, platform: P, link: Arc<dyn Link>, memory: MemoryOf) -> Self {
        let to_program = Arc::new(ToProgram(link));
        // Before any event.
        to_program.tell(&Told::Welcome(owner.program_limits()));
        Self {
            program: owner.join(to_program.clone(), SlotsOf::Program, memory),
            owner,
            platform,
            to_program,
            lent: BTreeMap::new(),
            process: None,
        }
    }

    /// Carries out its commands until it is gone, or sends what is none.
    pub fn run(mut self) {
        loop {
            let message = match self.to_program.0.receive(TICK) {
                Ok(Some(message)) => message,
                Ok(None) => continue,
                Err(Ended) => return,
            };
            let Ok(asked) = decode(&message.bytes) else {
                return;
            };
            self.carry_out(asked, message.file);
        }
    }

    fn carry_out(&mut self, Asked { number, command }: Asked, file: Option<OwnedFd>) {
        let to_program = self.to_program.clone();
        let reply = move |answered: Result<Answer, Refused>| {
            if number != 0 {
                to_program.tell(&Told::Answer(number, answered));
            }
        };
        match command {
            // The command that waits for others.
            Command::Resolve(_) => {
                let (owner, program) = (self.owner.clone(), self.program);
                let refuse = reply.clone();
                let asked = spawn("e810-resolve", move || reply(owner.call(program, command)));
                if let Err(error) = asked {
                    refuse(Err(Refused::no_thread(&error)));
                }
            }
            Command::Ring(asked) => self.ring(&asked),
            Command::Lend(asked) => reply(self.lend(&asked, file).map(Answer::Lend)),
            Command::TakeBack(asked) => reply(self.take_back(&asked).map(Answer::TakeBack)),
            Command::LendProcess(_) => {
                reply(self.lend_process(file).map(Answer::LendProcess));
            }
            command => reply(self.owner.call(self.program, command)),
        }
    }

    fn ring(&self, asked: &Ring) {
        let doorbell = Doorbell::of(asked.register, asked.value);
        let register = RegOffset::try_new(asked.register);
        // A doorbell of others, or none at all: nothing happens, as on a page without it.
        if let (Some(doorbell), Some(register), Some(lends)) =
            (doorbell, register, self.platform.lends())
            && self.owner.may_ring(self.program, doorbell)
        {
            lends.ring(register, asked.value);
        }
    }

    fn lend(&mut self, asked: &Lend, file: Option<OwnedFd>) -> Result<u64, Refused> {
        let bytes = usize::try_from(asked.bytes).unwrap_or(usize::MAX);
        let no_room = || Refused::no_memory();
        let (Some(file), Some(lends)) = (file, self.platform.lends()) else {
            return Err(Refused::unexpected("no file, or nobody who takes it"));
        };
        if self.lent.len() >= MOST_LENT {
            return Err(no_room());
        }
        let memory = SharedMemory::of_file(file, bytes).map_err(|_| no_room())?;
        // SAFETY: it is kept until it is unmapped.
        let (mapping, iova) = lends
            .lend(unsafe { memory.bytes() })
            .map_err(|error| Refused::from(e810::Error::Dma(error)))?;
        let lent = Lent {
            mapping,
            _memory: memory,
        };
        self.lent.insert(iova.0, lent);
        Ok(iova.0)
    }

    fn take_back(&mut self, asked: &TakeBack) -> Result<(), Refused> {
        let lent = self.lent.remove(&asked.iova);
        let lent = lent.ok_or_else(|| Refused::no_such("lent file at", 0))?;
        self.platform.dma_unmap(lent.mapping);
        Ok(())
    }

    fn lend_process(&mut self, file: Option<OwnedFd>) -> Result<(), Refused> {
        let (Some(file), Some(lends), None) = (file, self.platform.lends(), self.process) else {
            return Err(Refused::unexpected(
                "no file, a second one, or nobody who takes it",
            ));
        };
        let process = lends.attach_program(File::from(file));
        self.process = Some(process);
        self.owner
            .set_memory(self.program, MemoryOf::Program(process));
        Ok(())
    }
}

impl<P: HostDevice> Drop for Session<P> {
    fn drop(&mut self) {
        // First of all: nothing is written to a process that is gone, whatever is in flight.
        if let (Some(process), Some(lends)) = (self.process, self.platform.lends()) {
            lends.detach_program(process);
        }
        self.owner.leave(self.program);
        // The device has none of its objects any more, or will find nothing where they had their
        // rings.
        while let Some((_, lent)) = self.lent.pop_first() {
            self.platform.dma_unmap(lent.mapping);
        }
    }
}
