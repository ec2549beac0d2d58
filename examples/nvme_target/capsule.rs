//! What to do for a capsule.

use e810_examples::nvme::bytes::word;
use e810_examples::nvme::capsule::{Command, HostMemory, Refused, Response, Sgl};

/// Where bytes for the host are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// In the namespace, from this byte on.
    Namespace(u64),
    /// In [`Target::page`](crate::target::Target::page), from its first byte on.
    Page,
}

/// What to do for a command. `then` is the response that follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step<'a> {
    /// SEND.
    Respond(Response),
    /// RDMA READ from the host to this byte of the namespace; SEND after its completion.
    Fetch { host: HostMemory, into: u64, then: Response },
    /// Copy from the capsule to this byte of the namespace; SEND.
    Store { data: &'a [u8], into: u64, then: Response },
    /// RDMA WRITE to the host, and SEND behind it on the same queue pair.
    Give { from: Source, host: HostMemory, then: Response },
    /// RDMA READ from the host, to the bytes behind the command. After its completion,
    /// [`Target::connect`](crate::target::Target::connect) says what to do.
    Join { host: HostMemory },
    /// Nothing.
    Keep,
    /// Disconnect: this is no capsule.
    Close,
}

/// What a command's execution leads to.
pub(crate) type Outcome<'a> = Result<Step<'a>, Refused>;

/// Where a command has its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Data<'a> {
    None,
    Capsule(&'a [u8]),
    Host(HostMemory),
}

/// A command, its data, and the response if it succeeds.
pub(crate) struct Call<'a> {
    pub(crate) command: &'a Command,
    pub(crate) data: Data<'a>,
    then: Response,
}

impl<'a> Call<'a> {
    /// The call that a capsule is, or else what to do for it.
    pub(crate) fn of(capsule: &'a [u8]) -> Result<Self, Step<'a>> {
        let Some((command, behind)) = capsule.split_first_chunk() else {
            return Err(Step::Close);
        };
        let then = Response { command: word(command, 2), outcome: Ok(0), invalidate: None };
        let mut call = Self { command, data: Data::None, then };
        match Sgl::of(command) {
            Some(Sgl::Capsule { offset, length }) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX);
                match behind.get(from..).and_then(|data| data.get(..length as usize)) {
                    Some([]) => {}
                    Some(data) => call.data = Data::Capsule(data),
                    None => return Err(call.answer(Err(Refused::SGL_OFFSET))),
                }
            }
            // Linux says "no data" so, too.
            Some(Sgl::Keyed { memory: HostMemory { length: 0, .. }, .. }) => {}
            Some(Sgl::Keyed { memory, invalidate }) => {
                call.data = Data::Host(memory);
                call.then.invalidate = invalidate.then_some(memory.key);
            }
            None => return Err(call.answer(Err(Refused::SGL_TYPE))),
        }
        Ok(call)
    }

    pub(crate) fn answer(&self, outcome: Result<u64, Refused>) -> Step<'a> {
        Step::Respond(Response { outcome, ..self.then })
    }

    /// The host gets `length` bytes.
    pub(crate) fn give(&self, from: Source, length: u32) -> Outcome<'a> {
        let then = self.then;
        match self.data {
            Data::Host(host) if host.length == length => Ok(Step::Give { from, host, then }),
            Data::Capsule(_) => Err(Refused::FIELD),
            _ => Err(Refused::SGL_LENGTH),
        }
    }

    /// The namespace gets `length` bytes.
    pub(crate) fn take(&self, into: u64, length: u32) -> Outcome<'a> {
        let (then, size) = (self.then, length as usize);
        match self.data {
            Data::Host(host) if host.length == length => Ok(Step::Fetch { host, into, then }),
            Data::Capsule(data) if data.len() == size => Ok(Step::Store { data, into, then }),
            _ => Err(Refused::SGL_LENGTH),
        }
    }
}
