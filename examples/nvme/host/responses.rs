//! What is posted on the queue pair of a queue: commands, and receives for responses.

use e810::{Data, Mr, Op, Platform, Qp, QpCaps, RecvWr, SendFlags, SendWr, Sge, SharedBytes};
use e810::{Wc, WcFlags, WcOpcode};

use super::{DEPTH, Happened, Wrong};
use crate::nvme::capsule::{Command, RESPONSE};

/// Where responses arrive.
#[derive(Clone, Copy, Debug)]
pub struct Responses {
    bytes: SharedBytes,
    /// The first one.
    place: Sge,
}

impl Responses {
    /// Bytes of a queue's place.
    pub const BYTES: usize = DEPTH as usize * RESPONSE;
    /// Room of the queue pair. Commands are copied into it, so that it may repeat them.
    pub const CAPS: QpCaps = QpCaps {
        max_send_wr: DEPTH as u32,
        max_recv_wr: DEPTH as u32,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline: size_of::<Command>() as u32,
    };
    /// Room of its completion queue.
    pub const COMPLETIONS: u32 = 2 * DEPTH as u32;

    /// `bytes` are those of the region, and have room for several queues; this one has the
    /// `number`-th place.
    ///
    /// # Errors
    /// [`Wrong::Range`].
    pub fn new<P: Platform>(
        bytes: SharedBytes,
        region: &Mr<P>,
        number: usize,
    ) -> Result<Self, Wrong> {
        let at = number * Self::BYTES;
        let bytes = bytes.window(at, Self::BYTES)?;
        let addr = region.address() + at as u64;
        Ok(Self { bytes, place: Sge { addr, length: RESPONSE as u32, lkey: region.lkey() } })
    }

    /// Posts all receives: before the connection is asked for.
    ///
    /// # Errors
    /// [`Wrong::Post`].
    pub fn post_all<P: Platform>(&self, qp: &mut Qp<P>) -> Result<(), Wrong> {
        (0..u64::from(DEPTH)).try_for_each(|index| self.post(qp, index))
    }

    fn post<P: Platform>(&self, qp: &mut Qp<P>, index: u64) -> Result<(), Wrong> {
        let addr = self.place.addr + index * RESPONSE as u64;
        let sges = [Sge { addr, ..self.place }];
        Ok(qp.post_recv(&[RecvWr { wr_id: index, sges: &sges }])?)
    }

    /// Sends a command.
    ///
    /// # Errors
    /// [`Wrong::Post`].
    pub fn send<P: Platform>(
        &self,
        qp: &mut Qp<P>,
        id: u16,
        command: &Command,
    ) -> Result<(), Wrong> {
        let op = Op::Send { data: Data::Inline(&[command]), imm: None };
        Ok(qp.post_send(&[SendWr { wr_id: id.into(), op, flags: SendFlags::SIGNALED }])?)
    }

    /// What a completion says. The receive of a response is posted again.
    ///
    /// # Errors
    /// [`Wrong`]: a request has failed.
    pub fn happened<P: Platform>(&self, qp: &mut Qp<P>, wc: &Wc) -> Result<Happened, Wrong> {
        if !wc.status.is_success() {
            return Err(Wrong::Completion(wc.status));
        }
        if wc.opcode != WcOpcode::Recv {
            return Ok(Happened::Sent(wc.wr_id as u16));
        }
        let mut bytes = [0; RESPONSE];
        self.bytes.read(wc.wr_id as usize * RESPONSE, &mut bytes)?;
        self.post(qp, wc.wr_id)?;
        let invalidated = wc.flags.contains(WcFlags::WITH_INV).then_some(wc.imm);
        Ok(Happened::Response { bytes, length: wc.byte_len, invalidated })
    }
}
