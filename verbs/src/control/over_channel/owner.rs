//! The owner's end: commands are carried out, and everything is told in one stream.

use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};

use e810::{CqKey, QpChange};

use super::{Asked, Told, lock, spawn};
use crate::control::{Answer, Command, ControlPlane, Refused, bytes};
use crate::events::{ControlEvent, EventSink};

/// The stream to the program.
#[derive(Debug)]
pub(in crate::control) struct ToProgram(Mutex<Sender<Vec<u8>>>);

impl ToProgram {
    pub(super) fn new(stream: Sender<Vec<u8>>) -> Self {
        Self(Mutex::new(stream))
    }

    /// As what hears of events.
    pub(super) fn events(self: &Arc<Self>) -> Arc<dyn EventSink> {
        self.clone()
    }

    fn tell(&self, told: &Told) {
        // The program may be gone.
        let _ = lock(&self.0).send(bytes::encode(told));
    }

    pub(in crate::control) fn qp_changed(&self, change: QpChange) {
        self.tell(&Told::Qp(change));
    }

    pub(in crate::control) fn cq_event(&self, cq: CqKey) {
        self.tell(&Told::CqEvent(cq));
    }

    pub(in crate::control) fn cq_failed(&self, cq: CqKey) {
        self.tell(&Told::CqFailed(cq));
    }
}

impl EventSink for ToProgram {
    fn notify(&self, event: ControlEvent) {
        self.tell(&Told::Event(event));
    }
}

/// Carries out commands until the program is gone.
pub(super) fn carry_out(
    owner: &Arc<dyn ControlPlane>,
    to_program: &Arc<ToProgram>,
    commands: &Receiver<Vec<u8>>,
) {
    for message in commands {
        let Asked { number, command } = match bytes::decode(&message) {
            Ok(asked) => asked,
            // Without a number there is nobody to answer: the program's end of the channel is
            // broken.
            Err(_) => return,
        };
        let reply = {
            let to_program = to_program.clone();
            move |answered: Result<Answer, Refused>| {
                if number != 0 {
                    to_program.tell(&Told::Answer(number, answered));
                }
            }
        };
        // The command that waits for others.
        if matches!(command, Command::Resolve(_)) {
            let owner = owner.clone();
            let refuse = reply.clone();
            let asked = spawn("e810-resolve", move || reply(owner.call(command)));
            if let Err(error) = asked {
                refuse(Err(Refused::unexpected(error)));
            }
            continue;
        }
        reply(owner.call(command));
    }
}
