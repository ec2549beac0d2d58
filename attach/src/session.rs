//! The owner's end of an attached program: its commands are carried out, and everything that it is
//! told goes over one link, in order.

use std::sync::Arc;
use std::time::Duration;

use e810::{CqKey, QpChange};
use e810_backends::interrupts::HostPlatform;

use crate::link::{Ended, Link};
use crate::messages::{Answer, Asked, Command, ControlEvent, Refused, Told, decode, encode};
use crate::owner::{Hears, Owner, ProgramId, SlotsOf};
use crate::threads::spawn;

/// How often the thread looks whether the link still is there.
const TICK: Duration = Duration::from_secs(1);

/// An attached program. Everything that it has created is destroyed when this is dropped.
#[derive(Debug)]
pub struct Session<P: HostPlatform> {
    owner: Arc<Owner<P>>,
    program: ProgramId,
    to_program: Arc<ToProgram>,
}

/// The link, as what is told of events.
#[derive(Debug)]
struct ToProgram(Arc<dyn Link>);

impl ToProgram {
    fn tell(&self, told: &Told) {
        // The program may be gone, which the session's thread notices.
        let _ = self.0.send(encode(told));
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

impl<P: HostPlatform> Session<P> {
    /// A program comes over a link.
    #[must_use]
    pub fn begin(owner: Arc<Owner<P>>, link: Arc<dyn Link>) -> Self {
        let to_program = Arc::new(ToProgram(link));
        Self {
            program: owner.join(to_program.clone(), SlotsOf::Program),
            owner,
            to_program,
        }
    }

    /// Carries out its commands until it is gone, or sends what is none.
    pub fn run(&self) {
        loop {
            let message = match self.to_program.0.receive(TICK) {
                Ok(Some(message)) => message,
                Ok(None) => continue,
                Err(Ended) => return,
            };
            let Ok(asked) = decode(&message) else {
                return;
            };
            self.carry_out(asked);
        }
    }

    fn carry_out(&self, Asked { number, command }: Asked) {
        let to_program = self.to_program.clone();
        let reply = move |answered: Result<Answer, Refused>| {
            if number != 0 {
                to_program.tell(&Told::Answer(number, answered));
            }
        };
        // The command that waits for others.
        if matches!(command, Command::Resolve(_)) {
            let (owner, program) = (self.owner.clone(), self.program);
            let refuse = reply.clone();
            let asked = spawn("e810-resolve", move || reply(owner.call(program, command)));
            if let Err(error) = asked {
                refuse(Err(Refused::no_thread(&error)));
            }
            return;
        }
        reply(self.owner.call(self.program, command));
    }
}

impl<P: HostPlatform> Drop for Session<P> {
    fn drop(&mut self) {
        self.owner.leave(self.program);
    }
}
