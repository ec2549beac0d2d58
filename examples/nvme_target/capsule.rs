//! A capsule: a command of 64 bytes, which data may follow, and the response of 16 bytes.

/// A command.
pub(crate) type Command = [u8; 64];

/// A field of `N` bytes; zeros if `bytes` ends before it does.
pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

/// Functions that read a number: all of NVMe's are little-endian.
macro_rules! numbers {
    ($($name:ident: $Type:ty,)+) => {$(
        pub(crate) fn $name(bytes: &[u8], at: usize) -> $Type {
            <$Type>::from_le_bytes(field(bytes, at))
        }
    )+};
}
numbers! { byte: u8, word: u16, double: u32, quad: u64, }

/// Writes a field, or as much of it as has room.
pub(crate) fn put(page: &mut [u8], at: usize, bytes: &[u8]) {
    let room = page.get_mut(at..).into_iter().flatten();
    room.zip(bytes).for_each(|(into, &byte)| *into = byte);
}

/// What a command fails with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refused {
    /// Status code in the bits 7:0, its type in 10:8, "do not retry" in 14.
    pub(crate) status: u16,
    pub(crate) result: u64,
}

impl Refused {
    pub(crate) const OPCODE: Self = Self::for_good(0x001);
    pub(crate) const FIELD: Self = Self::for_good(0x002);
    pub(crate) const NAMESPACE: Self = Self::for_good(0x00b);
    pub(crate) const SEQUENCE: Self = Self::for_good(0x00c);
    /// The descriptor has another length than the command's data.
    pub(crate) const SGL_LENGTH: Self = Self::for_good(0x00f);
    pub(crate) const SGL_TYPE: Self = Self::for_good(0x011);
    pub(crate) const SGL_OFFSET: Self = Self::for_good(0x016);
    pub(crate) const KEEP_ALIVE: Self = Self::for_good(0x01a);
    pub(crate) const RANGE: Self = Self::for_good(0x080);
    pub(crate) const EVENTS: Self = Self::for_good(0x105);
    pub(crate) const LOG_PAGE: Self = Self::for_good(0x109);
    pub(crate) const CONNECT_FORMAT: Self = Self::for_good(0x180);
    /// All controllers are taken. The host may try again.
    pub(crate) const CONNECT_BUSY: Self = Self { status: 0x181, result: 0 };

    const fn for_good(code: u16) -> Self {
        Self { status: code | 1 << 14, result: 0 }
    }

    /// Connect has a wrong field at this byte of the command.
    pub(crate) const fn connect_command(at: u64) -> Self {
        Self { result: at, ..Self::for_good(0x182) }
    }

    /// Connect has a wrong field at this byte of its data.
    pub(crate) const fn connect_data(at: u64) -> Self {
        Self::connect_command(at | 1 << 16)
    }
}

/// A response. [`Queue::seal`](crate::target::Queue::seal) makes its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Response {
    /// The command's id, as the host chose it.
    pub(crate) command: u16,
    pub(crate) outcome: Result<u64, Refused>,
    /// The SEND may invalidate this key of the host. Linux does that itself after a plain SEND.
    pub(crate) invalidate: Option<u32>,
}

impl Response {
    pub(crate) fn bytes(&self, head: u16) -> [u8; 16] {
        let done = |result| Refused { status: 0, result };
        let Refused { status, result } = self.outcome.map_or_else(|refused| refused, done);
        let mut bytes = [0; 16];
        put(&mut bytes, 0, &result.to_le_bytes());
        put(&mut bytes, 8, &head.to_le_bytes());
        put(&mut bytes, 12, &self.command.to_le_bytes());
        // Bit 0 is the phase tag of queues in memory.
        put(&mut bytes, 14, &(status << 1).to_le_bytes());
        bytes
    }
}

/// Memory of the host, for an RDMA READ or an RDMA WRITE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Remote {
    pub(crate) address: u64,
    pub(crate) length: u32,
    pub(crate) key: u32,
}

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
    Fetch { host: Remote, into: u64, then: Response },
    /// Copy from the capsule to this byte of the namespace; SEND.
    Store { data: &'a [u8], into: u64, then: Response },
    /// RDMA WRITE to the host, and SEND behind it on the same queue pair.
    Give { from: Source, host: Remote, then: Response },
    /// RDMA READ from the host, to the bytes behind the command. After its completion,
    /// [`Target::connect`](crate::target::Target::connect) says what to do.
    Join { host: Remote },
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
    Host(Remote),
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
        // The SGL descriptor.
        let (address, length, key) = (quad(command, 24), double(command, 32), double(command, 35));
        match (byte(command, 39), length & 0xff_ffff) {
            // A data block, by its offset behind the command.
            (0x01, _) => {
                let from = usize::try_from(address).unwrap_or(usize::MAX);
                match behind.get(from..).and_then(|data| data.get(..length as usize)) {
                    Some([]) => {}
                    Some(data) => call.data = Data::Capsule(data),
                    None => return Err(call.answer(Err(Refused::SGL_OFFSET))),
                }
            }
            // A keyed data block: 24 bits of length, then the key. Linux says "no data" so, too.
            (0x40 | 0x4f, 0) => {}
            (kind @ (0x40 | 0x4f), length) => {
                call.data = Data::Host(Remote { address, length, key });
                // F: the key is to be invalidated.
                call.then.invalidate = (kind == 0x4f).then_some(key);
            }
            _ => return Err(call.answer(Err(Refused::SGL_TYPE))),
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
