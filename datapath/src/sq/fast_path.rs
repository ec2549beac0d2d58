//! The fast path of a post: one request with one SGE, or one piece of inline data, on a
//! connected QP.

use e810_hal::{Barrier, Bus, DmaWord, DmaWords};
use e810_types::WorkQueue;

use super::slow_path::COMMON;
use super::{PLAIN, SendQueue};
use crate::error::{PostError, Refused};
use crate::sizing::inline_quanta;
use crate::slot::SlotMemory;
use crate::status::opcode;
use crate::track::Tag;
use crate::wqe::header::{HDR, header, signals};
use crate::wqe::{fragment, inline};
use crate::wr::{Data, Op, Remote, SendFlags, SendWr, Sge};

/// The operation of a request of one SGE
/// ([`SendList::post_one_sge`](crate::SendList::post_one_sge)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum OneSge {
    /// Sends a message.
    Send,
    /// Writes to the peer's memory.
    Write(Remote),
    /// Reads it.
    Read(Remote),
}

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> SendQueue<P, W, M> {
    /// Posts a list of requests and rings the doorbell once.
    ///
    /// # Errors
    /// [`Refused`] at the first request that cannot be posted: those before it
    /// are posted and the doorbell was rung for them; nothing of it or of those
    /// after it is in the ring.
    #[inline]
    pub fn post_send(&mut self, list: &[SendWr<'_>]) -> Result<(), Refused> {
        // Most lists are of one request, which the fast path takes.
        if let [wr] = list
            && self.producer.is_open(WorkQueue::Send)
            && self.post_fast(wr).is_some()
        {
            self.ring();
            return Ok(());
        }
        self.post_batch(list)
    }

    /// Posts one request and rings the doorbell: what
    /// [`post_send`](Self::post_send) does for a list of one, with a little less
    /// work.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn post_one(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        if !self.producer.is_open(WorkQueue::Send) {
            return self.post_one_in_error(wr);
        }
        if self.post_fast(wr).is_some() {
            self.ring();
            return Ok(());
        }
        self.post_one_not_fast(wr)
    }

    /// Posts a single request of one SGE, with its doorbell, if only its WQE has to be written.
    /// `None`, with nothing changed, for any other request, and for an invalid one. For callers
    /// that have a request in another form: they make a [`SendWr`] of it only where it is needed.
    #[inline(always)]
    pub fn post_one_sge(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        sge: &Sge,
        what: OneSge,
    ) -> Option<()> {
        if !self.producer.is_open(WorkQueue::Send) {
            return None;
        }
        self.post_sge(wr_id, flags, sge, what)?;
        self.ring();
        Some(())
    }

    /// Posts a request that the fast path does not take, and rings the doorbell. A separate
    /// function, so that the fast path does not need its registers.
    #[inline(never)]
    fn post_one_not_fast(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        if self.post_two_quanta(wr).is_some() {
            self.ring();
            return Ok(());
        }
        self.post_one_slow(wr)
    }

    /// Posts a request of the fast path: one SGE on a connected QP, where only the WQE has to be
    /// written. `None`, with nothing changed, for any other request, and for an invalid one.
    #[inline(always)]
    pub(super) fn post_fast(&mut self, wr: &SendWr<'_>) -> Option<()> {
        // Code for each: a key and an address that are not there, or an opcode
        // that is a constant, cost nothing then.
        match &wr.op {
            Op::Send {
                data: Data::Sges([sge]),
                imm: None,
            } => self.post_sge(wr.wr_id, wr.flags, sge, OneSge::Send),
            Op::Write {
                data: Data::Sges([sge]),
                remote,
                imm: None,
            } => self.post_sge(wr.wr_id, wr.flags, sge, OneSge::Write(*remote)),
            Op::Read {
                into: [sge],
                remote,
            } => self.post_sge(wr.wr_id, wr.flags, sge, OneSge::Read(*remote)),
            _ => None,
        }
    }

    /// As [`post_fast`](Self::post_fast), for a request in pieces.
    #[inline(always)]
    pub(super) fn post_sge(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        sge: &Sge,
        what: OneSge,
    ) -> Option<()> {
        let (always, opcode, low, addr) = match what {
            OneSge::Send => (self.always, opcode::SEND, 0, 0),
            OneSge::Write(to) => (self.always, opcode::RDMA_WRITE, to.rkey, to.addr),
            OneSge::Read(from) => (self.always_read, opcode::RDMA_READ, from.rkey, from.addr),
        };
        let wanted = SendFlags::from_bits_retain(flags.bits() | always.bits());
        let word = fragment::only(sge)?;
        if wanted.bits() > PLAIN.bits() || self.producer.needs_slow_path() {
            return None;
        }
        // No other bit is set: see above.
        let common = header(opcode, 0) | signals(wanted);
        let tag = Tag::new(common, fragment::bytes(word), 1);
        let ([q0, q1, q2, q3], valid) = self.producer.claim_one(WorkQueue::Send, wr_id, tag)?;
        q0.set(sge.addr);
        q1.set(word | valid);
        q2.set(addr);
        self.platform.to_device();
        q3.publish(common | u64::from(low) | valid);
        Some(())
    }

    /// Posts inline data on the fast path: one piece on a connected QP, where only the WQE has to
    /// be written. `None`, with nothing changed, for any other request, and for an invalid one.
    #[inline(always)]
    pub(super) fn post_inline_fast(&mut self, wr: &SendWr<'_>) -> Option<()> {
        match wr.op {
            Op::Send {
                data: Data::Inline([bytes]),
                imm: None,
            } => self.post_piece(wr.wr_id, wr.flags, bytes, OneSge::Send),
            Op::Write {
                data: Data::Inline([bytes]),
                remote,
                imm: None,
            } => self.post_piece(wr.wr_id, wr.flags, bytes, OneSge::Write(remote)),
            _ => None,
        }
    }

    /// The same, of a request in pieces.
    #[inline(always)]
    pub(super) fn post_piece(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        bytes: &[u8],
        what: OneSge,
    ) -> Option<()> {
        match what {
            OneSge::Send => match self.send_two_quanta(wr_id, flags, bytes) {
                Some(()) => Some(()),
                None => self.post_inline_bytes(wr_id, flags, bytes, header(opcode::SEND, 0), 0),
            },
            OneSge::Write(to) => {
                let header = header(opcode::RDMA_WRITE, to.rkey);
                self.post_inline_bytes(wr_id, flags, bytes, header, to.addr)
            }
            OneSge::Read(_) => None,
        }
    }

    /// One piece of inline data, with a header that has opcode and key.
    #[inline(always)]
    fn post_inline_bytes(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        bytes: &[u8],
        header: u64,
        addr: u64,
    ) -> Option<()> {
        let wanted = SendFlags::from_bits_retain(flags.bits() | self.always.bits());
        if wanted.bits() > PLAIN.bits() || bytes.len() > self.limits.max_inline as usize {
            return None;
        }
        let quanta = u64::from(inline_quanta(bytes.len() as u32));
        let header = header | signals(wanted);
        let tag = Tag::new(header & COMMON, bytes.len() as u64, quanta);
        let (wqe, valid) = self
            .producer
            .claim_some(WorkQueue::Send, quanta, wr_id, tag)?;
        let (first, rest) = wqe.split_first()?;
        let [_, q1, q2, q3] = first;
        inline::write_one(q1, rest, bytes, valid);
        q2.set(addr);
        self.platform.to_device();
        let fields = HDR::INLINEDATAFLAG::SET + HDR::INLINEDATALEN.val(bytes.len() as u64);
        q3.publish(header | fields.value | valid);
        Some(())
    }

    /// A send of one piece of inline data that takes two quanta. `None`, with
    /// nothing changed, for one that does not, or that the fast path leaves.
    #[inline(always)]
    fn post_two_quanta(&mut self, wr: &SendWr<'_>) -> Option<()> {
        let Op::Send {
            data: Data::Inline([bytes]),
            imm: None,
        } = wr.op
        else {
            return None;
        };
        self.send_two_quanta(wr.wr_id, wr.flags, bytes)
    }

    #[inline(always)]
    fn send_two_quanta(&mut self, wr_id: u64, flags: SendFlags, bytes: &[u8]) -> Option<()> {
        let data = inline::Two::new(bytes)?;
        let wanted = SendFlags::from_bits_retain(flags.bits() | self.always.bits());
        if wanted.bits() > PLAIN.bits() || bytes.len() > self.limits.max_inline as usize {
            return None;
        }
        let common = header(opcode::SEND, 0) | signals(wanted);
        let tag = Tag::new(common, bytes.len() as u64, 2);
        let (wqe, valid) = self.producer.claim_some(WorkQueue::Send, 2, wr_id, tag)?;
        let [[_, q1, q2, q3], rest] = wqe else {
            return None;
        };
        data.write(q1, rest, valid);
        q2.set(0);
        self.platform.to_device();
        let fields = HDR::INLINEDATAFLAG::SET + HDR::INLINEDATALEN.val(bytes.len() as u64);
        q3.publish(common | fields.value | valid);
        Some(())
    }
}
