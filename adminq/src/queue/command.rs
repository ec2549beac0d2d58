//! Sends a command and reads its reply.

use e810_hal::{Ns, Platform, WaitError, log_debug, log_error, log_info, log_warn, poll_until};

#[cfg(doc)]
use super::Counters;
use super::memory::Buffer;
use super::registers::Queue;
use super::{AdminQ, too_long};
use crate::answer::Answer;
use crate::descriptor::Descriptor;
use crate::error::{Error, Result};
use crate::limits::{
    ATQ_ENTRIES, BUFFER_BYTES, BUSY_LIMIT, BUSY_PAUSE, BUSY_TRIES, COMMAND_LIMIT, FIRST_POLL_DELAY,
    POLL_INTERVAL, START_LIMIT,
};
use crate::op::{Command, Data, Version};
use crate::opcode::{Opcode, WhenBusy};

impl<P: Platform> AdminQ<P> {
    /// Sends a command, waits for its reply and decodes it.
    ///
    /// # Errors
    /// [`Error::Refused`]; everything of [`AdminQ::exchange`]; what the decoder
    /// found wrong with the reply.
    pub fn execute<C: Command>(&mut self, command: &C) -> Result<C::Reply> {
        match self.accepted(command.opcode(), command.params(), command.data()) {
            Ok(answer) => command.decode(&answer),
            Err(error) => Err(error),
        }
    }

    /// As [`AdminQ::execute`], for a command whose refusal existing drivers ignore: a refusal is
    /// logged, counted ([`Counters::tolerated`]) and returned as `None`.
    ///
    /// # Errors
    /// Those of [`AdminQ::execute`], except [`Error::Refused`].
    pub fn attempt<C: Command>(&mut self, command: &C) -> Result<Option<C::Reply>> {
        match self.execute(command) {
            Err(error @ Error::Refused { .. }) => {
                log_debug!("gone on without it: {}", error);
                self.tolerated();
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// Returns `done`; a refusal is not a failure, but is logged.
    pub(crate) fn warn_of_refusal<R>(&mut self, done: Result<R>) -> Result<Option<R>> {
        match done {
            Err(error @ Error::Refused { .. }) => {
                log_warn!("gone on without it: {}", error);
                self.tolerated();
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    const fn tolerated(&mut self) {
        self.counters.tolerated = self.counters.tolerated.wrapping_add(1);
    }

    /// [`AdminQ::exchange`], with a refusal as an error. Separate from [`AdminQ::execute`], of
    /// which there is a copy for each command.
    #[inline(never)]
    fn accepted(&mut self, op: Opcode, params: [u8; 16], data: Data<'_>) -> Result<Answer<'_>> {
        let answered = self.exchange(op, params, data);
        if let Ok(answer) = &answered
            && let Err(error) = refused(answer)
        {
            return Err(error);
        }
        answered
    }

    /// Sends a command and returns its reply, even a refusal. While the firmware is busy the
    /// command is sent again, as its [`WhenBusy`] says.
    ///
    /// # Errors
    /// [`Error::TooLong`]; [`Error::Wait`] after 5 s or when the device is
    /// gone; [`Error::CriticalFirmware`]; [`Error::BadHead`];
    /// [`Error::LongReply`]; [`Error::Unanswered`] while an earlier command is
    /// open.
    pub fn exchange(&mut self, op: Opcode, params: [u8; 16], data: Data<'_>) -> Result<Answer<'_>> {
        let mut tries = 1u32;
        let mut sent = self.send(op, params, data);
        while matches!(&sent, Ok(reply) if reply.code().is_busy()) && self.tries_again(op, tries) {
            self.platform.delay(BUSY_PAUSE);
            tries = tries.saturating_add(1);
            sent = self.send(op, params, data);
        }
        if let Ok(reply) = &sent
            && !reply.code().is_busy()
            && op.when_busy() == WhenBusy::Waits
        {
            self.busy_since = None;
        }
        sent.map(|reply| {
            let len = match data {
                Data::None => 0,
                // Bounded by what was sent: see `take`.
                Data::Receive(_) | Data::Send(_) => reply.datalen.into(),
            };
            let cells = self.memory.buffer(Buffer::Command);
            Answer::new(reply, cells, len)
        })
    }

    /// Whether a command that was refused because the firmware is busy is sent again.
    fn tries_again(&mut self, op: Opcode, tries: u32) -> bool {
        match op.when_busy() {
            WhenBusy::Returned => false,
            WhenBusy::Tries => tries < BUSY_TRIES,
            WhenBusy::Waits => {
                let now = self.platform.now();
                let waited = |since: Ns| now.0.saturating_sub(since.0);
                // One that long ago was another occasion.
                let this_time = |since: &Ns| waited(*since) < BUSY_LIMIT.0.saturating_mul(2);
                let since = self.busy_since.filter(this_time).unwrap_or_else(|| {
                    log_info!("{}: the firmware is busy, perhaps with a package (erratum E03); waiting for it", op);
                    now
                });
                self.busy_since = Some(since);
                waited(since) < BUSY_LIMIT.0
            }
        }
    }

    /// One exchange.
    fn send(&mut self, op: Opcode, params: [u8; 16], data: Data<'_>) -> Result<Descriptor> {
        self.close()?;
        let mut descriptor = Descriptor::command(op, params);
        let (bytes, room) = match data {
            Data::None => (&[][..], 0),
            Data::Receive(room) => (&[][..], usize::from(room)),
            Data::Send(bytes) => (bytes, bytes.len()),
        };
        if room > BUFFER_BYTES {
            return Err(too_long(op, room));
        }
        if room > 0 {
            self.memory.fill_command(bytes, room);
            let address = self.memory.address(Buffer::Command);
            descriptor = descriptor.with_buffer(address, room as u16, !bytes.is_empty());
        }
        let index = self.next;
        let next = index.wrapping_add(1);
        self.next = if next < ATQ_ENTRIES { next } else { 0 };
        self.memory.write_atq(index, &descriptor);
        // Descriptor and buffer must be in memory before the index is in the register.
        self.platform.to_device();
        Queue::Atq.set_tail(&self.platform, self.next);
        self.counters.commands = self.counters.commands.wrapping_add(1);
        self.open = Some(op);
        self.wait(op)?;
        self.open = None;
        let reply = self.take(index, room)?;
        log_debug!("{}: {}", op, reply.code());
        if reply.failed() {
            self.counters.refused = self.counters.refused.wrapping_add(1);
        }
        Ok(reply)
    }

    /// Waits until the firmware's index is ours. The last index that was read is known to be ours
    /// from before this command, so it is not read again first.
    fn wait(&self, op: Opcode) -> Result<()> {
        let platform = &self.platform;
        platform.delay(FIRST_POLL_DELAY);
        let has_started = self.version != Version::default();
        let limit = if has_started {
            COMMAND_LIMIT
        } else {
            START_LIMIT
        };
        let waited = poll_until(platform, op.name(), limit, POLL_INTERVAL, || {
            let head = Queue::Atq.head(platform, ATQ_ENTRIES)?;
            Ok((head == self.next).then_some(()))
        });
        match waited {
            Err(Error::Wait(WaitError::Timeout { .. })) => {
                let lens = [Queue::Atq.len(platform)?, Queue::Arq.len(platform)?];
                if lens.into_iter().any(Queue::critical) {
                    log_error!("critical firmware error while waiting for {}", op);
                    return Err(Error::CriticalFirmware { op });
                }
                waited
            }
            other => other,
        }
    }

    /// Reads the reply out.
    fn take(&self, index: u16, room: usize) -> Result<Descriptor> {
        // The head register first, then the entry that it covers.
        self.platform.from_device();
        let reply = self.memory.read_atq(index);
        if room > 0 && usize::from(reply.datalen) > room {
            return Err(Error::LongReply {
                op: reply.opcode,
                len: reply.datalen.into(),
                room,
            });
        }
        Ok(reply)
    }

    /// Checks whether a command that timed out has been answered since; only then may its entry
    /// and the buffer be used again.
    fn close(&mut self) -> Result<()> {
        let Some(op) = self.open else {
            return Ok(());
        };
        if Queue::Atq.head(&self.platform, ATQ_ENTRIES)? != self.next {
            return Err(Error::Unanswered { op });
        }
        log_warn!("{} was answered late; the reply is dropped", op);
        self.open = None;
        Ok(())
    }
}

/// A refusal as an error.
pub(crate) fn refused(answer: &Answer<'_>) -> Result<()> {
    let descriptor = answer.descriptor();
    if !descriptor.failed() {
        return Ok(());
    }
    Err(Error::Refused {
        op: descriptor.opcode,
        code: descriptor.code(),
        internal: (descriptor.retval >> 8) as u8,
    })
}
