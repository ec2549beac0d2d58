//! The program's end of a link: who waits for which answer.

use std::collections::HashMap;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use e810::{CqKey, ProgramLimits};
use e810_backends::transport::Files;

use crate::link::{Ended, Link, Message};
use crate::lock;
use crate::messages::{
    Answer, Asked, Command, Function, Operation, Refused, Token, Told, Welcome, decode, encode,
};
use crate::silence::Waits;

/// Commands on their way to the owner, and answers.
pub(crate) struct Conversation {
    /// `None`: nothing comes any more, and a program need not keep a descriptor for that.
    link: Mutex<Option<Arc<dyn Link>>>,
    waiting: Mutex<Waiting>,
}

/// Those who wait for an answer.
struct Waiting {
    last: u64,
    /// `None`: nothing comes any more.
    by_number: Option<HashMap<u64, Caller>>,
}

/// One of them.
pub(crate) struct Caller {
    pub(crate) then: Then,
    /// For the address of a peer.
    is_question: bool,
    answer: Sender<Reply>,
}

/// What the caller gets.
pub(crate) struct Reply {
    pub(crate) answered: Result<Answer, Refused>,
    /// The owner has made something for which there is no room here.
    pub(crate) undo: Option<Command>,
}

/// What an answer means for the program's slots.
#[derive(Clone, Copy)]
pub(crate) enum Then {
    Nothing,
    /// A completion queue with this name is made.
    OpenCq(Token),
    OpenQp,
    SetQkey(u32, u32),
    Hide(u32),
    Reopen,
    EndQp,
    EndCq(CqKey),
}

impl Then {
    pub(crate) fn of(command: &Command) -> Self {
        match command {
            Command::CreateCq(new) => Self::OpenCq(new.token),
            Command::CreateQp(_) => Self::OpenQp,
            Command::ModifyQp(asked) => match asked.attr.qkey {
                Some(qkey) => Self::SetQkey(asked.number, qkey),
                None => Self::Nothing,
            },
            Command::BeginReset(asked) => Self::Hide(asked.number),
            Command::Reopen(_) => Self::Reopen,
            Command::DestroyQp(_) => Self::EndQp,
            _ => Self::Nothing,
        }
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Conversation").field(&self.link).finish()
    }
}

fn gone() -> Refused {
    Refused::gone("the server of the function has ended")
}

impl Conversation {
    pub(crate) fn new(link: Arc<dyn Link>) -> Self {
        Self {
            link: Mutex::new(Some(link)),
            waiting: Mutex::new(Waiting {
                last: 0,
                by_number: Some(HashMap::new()),
            }),
        }
    }

    /// What the owner says first, and the files with which the program reaches the function by
    /// itself.
    pub(crate) fn welcome(
        &self,
        limit: Duration,
    ) -> Result<(ProgramLimits, Option<(Function, Files)>), Refused> {
        let first = self.first(limit)?;
        let (Told::Welcome(Welcome { limits, function }), device) = first else {
            return Err(gone());
        };
        let Some(function) = function else {
            return Ok((limits, None));
        };
        let (Some(device), (Told::Container, Some(container))) = (device, self.first(limit)?)
        else {
            return Err(gone());
        };
        let files = Files {
            device,
            container,
            bar0: function.bar0,
            config: function.config,
        };
        Ok((limits, Some((function, files))))
    }

    /// A message of the owner's before it has welcomed the program, and the file that comes with it.
    fn first(&self, limit: Duration) -> Result<(Told, Option<OwnedFd>), Refused> {
        let link = self.link().ok_or_else(gone)?;
        let message = link.receive(limit).map_err(|Ended| gone())?;
        let message = message.ok_or_else(|| Refused::silent("the server", limit))?;
        match decode(&message.bytes) {
            Ok(Told::Refused(refused)) => Err(refused),
            Ok(told) => Ok((told, message.file)),
            Err(said) => Err(Refused::unintelligible("the server", said)),
        }
    }

    /// The next thing that the owner tells; `None` if there is nothing within `limit`.
    pub(crate) fn hear(&self, limit: Duration) -> Result<Option<Told>, Ended> {
        let message = self.link().ok_or(Ended)?.receive(limit)?;
        // The owner sends nothing else.
        let told = message.map(|message| decode(&message.bytes));
        told.transpose().map_err(|_| Ended)
    }

    fn link(&self) -> Option<Arc<dyn Link>> {
        lock(&self.link).clone()
    }

    /// Sends a command that wants no answer, and perhaps a file.
    pub(crate) fn tell(&self, command: Command, file: Option<OwnedFd>) -> Result<(), Refused> {
        self.send(0, command, file)
    }

    fn send(&self, number: u64, command: Command, file: Option<OwnedFd>) -> Result<(), Refused> {
        let bytes = encode(&Asked { number, command });
        let link = self.link().ok_or_else(gone)?;
        let sent = link.send(Message { bytes, file });
        sent.map_err(|Ended| gone())
    }

    /// Asks the owner, and waits for the answer. Whoever hears ends the conversation with an owner
    /// that does not answer.
    pub(crate) fn ask(
        &self,
        command: Command,
        file: Option<OwnedFd>,
        then: Then,
    ) -> Result<Reply, Refused> {
        let (give, take) = channel();
        let number = {
            let mut waiting = lock(&self.waiting);
            waiting.last += 1;
            let number = waiting.last;
            let caller = Caller {
                then,
                is_question: matches!(command, Command::Resolve(_)),
                answer: give,
            };
            let all = waiting.by_number.as_mut().ok_or_else(gone)?;
            all.insert(number, caller);
            number
        };
        if let Err(refused) = self.send(number, command, file) {
            drop(self.take(number));
            return Err(refused);
        }
        take.recv().map_err(|_| gone())
    }

    /// The same for what means nothing to the slots.
    pub(crate) fn ask_plainly<O: Operation>(
        &self,
        operation: O,
        file: Option<OwnedFd>,
    ) -> Result<O::Answer, Refused> {
        let reply = self.ask(operation.command(), file, Then::Nothing)?;
        O::answer(reply.answered?).map_err(Refused::unexpected)
    }

    /// Who waits for this answer.
    pub(crate) fn take(&self, number: u64) -> Option<Caller> {
        lock(&self.waiting).by_number.as_mut()?.remove(&number)
    }

    /// No more answers come: those who wait are told, and the link is closed.
    pub(crate) fn end(&self) {
        lock(&self.waiting).by_number = None;
        *lock(&self.link) = None;
    }

    /// What waits for answers.
    pub(crate) fn waits(&self) -> Waits {
        let waiting = lock(&self.waiting);
        let all = waiting.by_number.iter().flat_map(HashMap::values);
        all.fold(Waits::default(), |waits, caller| Waits {
            commands: waits.commands || !caller.is_question,
            questions: waits.questions || caller.is_question,
        })
    }

    /// Whether no more answers come.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.waiting).by_number.is_none()
    }
}

impl Caller {
    pub(crate) fn tell(self, reply: Reply) {
        // It may be gone.
        let _ = self.answer.send(reply);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::ChannelEnd;
    use crate::messages::{Malformed, VERSION};

    #[test]
    fn a_server_of_another_version_is_told_apart() {
        let welcome = |bytes: Vec<u8>| {
            let [of_owner, of_program] = ChannelEnd::pair();
            of_owner.send(bytes.into()).unwrap();
            let refused = Conversation::new(Arc::new(of_program)).welcome(Duration::ZERO);
            refused.unwrap_err()
        };
        let other = VERSION + 1;
        // Whatever follows the version.
        for bytes in [vec![other], vec![other, 0xFF, 1, 2]] {
            let refused = welcome(bytes);
            assert_eq!(refused.errno, libc::EPROTO);
            for part in [format!("version {other} "), format!("version {VERSION}:")] {
                assert!(refused.why.contains(&part), "{refused}");
            }
        }
        let said = Malformed::Version(other);
        let told = Refused::unintelligible("the program", said);
        let heard = welcome(encode(&Told::Refused(told.clone())));
        assert_eq!(heard, told);
        let silent = Conversation::new(Arc::new(ChannelEnd::pair().into_iter().next().unwrap()));
        assert_eq!(silent.welcome(Duration::ZERO).unwrap_err().errno, libc::EIO);
    }
}
