//! Answers of the firmware: copied, written down, and read as the driver reads them.

use std::sync::atomic::AtomicU64;

use e810_adminq::descriptor::Descriptor;
use e810_adminq::op::{Command, Data};
use e810_adminq::{AdminQ, Answer, Opcode};
use e810_hal::Platform;

use crate::record::{Record, from_hex, hex};

/// An answer, copied out of the queue's memory.
pub(crate) struct Copied {
    /// Error code; 0 for none.
    pub(crate) code: u16,
    descriptor: Descriptor,
    /// Its buffer, as far as it was used.
    pub(crate) data: Vec<u8>,
}

/// Sends a command.
///
/// # Errors
/// There is no answer.
pub(crate) fn exchange<P: Platform, C: Command>(
    adminq: &mut AdminQ<P>,
    command: &C,
) -> e810_adminq::Result<Copied> {
    let answer = adminq.exchange(command.opcode(), command.params(), command.data())?;
    let mut data = vec![0; answer.len()];
    answer.fill(0, "the reply", &mut data)?;
    Ok(Copied {
        code: answer.descriptor().retval,
        descriptor: *answer.descriptor(),
        data,
    })
}

impl Copied {
    /// The answer that a line of a report has, by the texts of its reply and its data.
    pub(crate) fn of_record(code: u16, reply: &str, data: &str) -> Option<Self> {
        let mut params = [0; 16];
        for (to, from) in params.iter_mut().zip(from_hex(reply)?) {
            *to = from;
        }
        Some(Self {
            code,
            descriptor: Descriptor::command(Opcode(0), params),
            data: from_hex(data)?,
        })
    }

    /// The answer as a line of a report.
    pub(crate) fn record<C: Command>(&self, name: &str, command: &C) -> Record {
        // Bytes 8 to 15 are the address of the buffer where there is one.
        let has_buffer = !matches!(command.data(), Data::None);
        let without_address = |params: &[u8; 16]| match has_buffer {
            true => hex(&params[..8]),
            false => hex(params),
        };
        Record::AdminQ {
            name: name.to_owned(),
            opcode: command.opcode().0,
            params: without_address(&command.params()),
            code: self.code,
            reply: without_address(&self.descriptor.params),
            data: hex(&self.data),
        }
    }

    /// The reply as the driver decodes it; `None` for a refusal or a reply that the driver
    /// would not take.
    pub(crate) fn decode<C: Command>(&self, command: &C) -> Option<C::Reply> {
        if self.code != 0 {
            return None;
        }
        let words = self.data.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word.iter_mut()
                .zip(chunk)
                .for_each(|(to, from)| *to = *from);
            // As the device writes memory: little-endian, whatever this machine is.
            AtomicU64::new(u64::from_ne_bytes(word))
        });
        let words: Vec<AtomicU64> = words.collect();
        let answer = Answer::new(self.descriptor, &words, self.data.len());
        command.decode(&answer).ok()
    }
}
