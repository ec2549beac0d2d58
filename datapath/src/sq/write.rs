//! Send WQEs, written into the ring (data-path 1.7).

use e810_hal::{Barrier, Bus, Cell, Words};
use e810_types::WorkQueue;

use super::{MEMORY, PLAIN, SendQueue, refuse, too_long};
use crate::error::PostError;
use crate::post::Claim;
use crate::sizing::{MAX_MESSAGE, inline_quanta};
use crate::slot::SlotMemory;
use crate::status::opcode;
use crate::track::Tag;
use crate::wqe::header::{HDR, header, report_rtt, signals};
use crate::wqe::{fragment, inline, memory};
use crate::wr::{Data, ExtraOps, Op, Remote, SendFlags, SendWr, Sge};

/// Bits of a header.
const OPCODE: u64 = HDR::OPCODE.mask << HDR::OPCODE.shift;
/// Those of a plain one that its tracker has too.
const COMMON: u64 = OPCODE | signals(SendFlags::all());

/// What a WQE has beside its data.
#[derive(Clone, Copy)]
pub(super) struct Body {
    /// The header with nothing but its opcode.
    opcode: u64,
    /// Header bits 31:0: key or address handle.
    low: u32,
    q2: u64,
    imm: Option<u32>,
}

impl Body {
    #[inline(always)]
    pub(super) fn new(opcode: u8, low: u32, q2: u64, imm: Option<u32>) -> Self {
        Self {
            opcode: header(opcode, 0),
            low,
            q2,
            imm,
        }
    }

    #[inline(always)]
    pub(super) fn remote(opcode: u8, remote: Remote, imm: Option<u32>) -> Self {
        Self::new(opcode, remote.rkey, remote.addr, imm)
    }

    /// What header and tracker have in common.
    #[inline(always)]
    fn common(&self, wanted: SendFlags) -> u64 {
        self.opcode | signals(wanted)
    }

    #[inline(always)]
    fn header(&self, wanted: SendFlags, claim: Claim) -> u64 {
        self.common(wanted) | u64::from(self.low) | report_rtt(wanted) | claim.valid
    }
}

impl<P: Bus + Barrier, W: Words, M: SlotMemory> SendQueue<P, W, M> {
    #[inline(always)]
    pub(super) fn post_sges(
        &mut self,
        wr_id: u64,
        sges: &[Sge],
        body: Body,
        wanted: SendFlags,
    ) -> Result<(), PostError> {
        if sges.len() > self.limits.max_sge as usize {
            return Err(refuse::too_many(sges.len(), self.limits.max_sge));
        }
        let mut bytes = 0;
        for sge in sges {
            bytes += u64::from(sge.length);
        }
        if bytes > u64::from(MAX_MESSAGE) {
            return Err(too_long(sges, bytes));
        }
        // Immediate data takes the place of the first fragment.
        let fragments = sges.len() + usize::from(body.imm.is_some());
        let quanta = fragments as u64 / 2 + 1;
        let tag = Tag::new(body.common(wanted), bytes, quanta);
        let claim = self.place(quanta, wr_id, tag)?;
        let header = body.header(wanted, claim) | fragment::count_field(fragments);
        let wqe = self.poster.quanta(claim.index).ok_or(MEMORY)?;
        let (first, rest) = wqe.split_first().ok_or(MEMORY)?;
        let [q0, q1, q2, q3] = first;
        let header = match body.imm {
            None => {
                fragment::write_first(q0, q1, sges.first(), claim.valid);
                if quanta > 1 {
                    let others = sges.get(1..).unwrap_or_default();
                    fragment::write_rest(rest.as_flattened(), others, fragments, claim.valid);
                }
                header
            }
            Some(imm) => {
                // q1 keeps what it holds (data-path 1.6).
                q0.set(imm.into());
                fragment::write_rest(rest.as_flattened(), sges, fragments, claim.valid);
                header | HDR::IMMDATAFLAG::SET.value
            }
        };
        q2.set(body.q2);
        self.platform.to_device();
        q3.publish(header);
        Ok(())
    }

    /// A send of one piece of inline data that takes two quanta. `None`, with
    /// nothing changed, for one that does not, or that is not plain.
    #[inline(always)]
    pub(super) fn post_two_quanta(&mut self, wr: &SendWr<'_>) -> Option<()> {
        let Op::Send {
            data: Data::Inline([bytes]),
            imm: None,
        } = wr.op
        else {
            return None;
        };
        let data = inline::Two::new(bytes)?;
        let wanted = SendFlags::from_bits_retain(wr.flags.bits() | self.always.bits());
        if wanted.bits() > PLAIN.bits() || bytes.len() > self.limits.max_inline as usize {
            return None;
        }
        let common = header(opcode::SEND, 0) | signals(wanted);
        let tag = Tag::new(common, bytes.len() as u64, 2);
        let (wqe, valid) = self.poster.claim_some(WorkQueue::Send, 2, wr.wr_id, tag)?;
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

    /// One piece of inline data, with a header that has opcode and key.
    #[inline(always)]
    pub(super) fn post_bytes(
        &mut self,
        wr: &SendWr<'_>,
        bytes: &[u8],
        header: u64,
        addr: u64,
    ) -> Option<()> {
        let wanted = SendFlags::from_bits_retain(wr.flags.bits() | self.always.bits());
        if wanted.bits() > PLAIN.bits() || bytes.len() > self.limits.max_inline as usize {
            return None;
        }
        let quanta = u64::from(inline_quanta(bytes.len() as u32));
        let header = header | signals(wanted);
        let tag = Tag::new(header & COMMON, bytes.len() as u64, quanta);
        let (wqe, valid) = self
            .poster
            .claim_some(WorkQueue::Send, quanta, wr.wr_id, tag)?;
        let (first, rest) = wqe.split_first()?;
        let [_, q1, q2, q3] = first;
        inline::write_one(q1, rest, bytes, valid);
        q2.set(addr);
        self.platform.to_device();
        let fields = HDR::INLINEDATAFLAG::SET + HDR::INLINEDATALEN.val(bytes.len() as u64);
        q3.publish(header | fields.value | valid);
        Some(())
    }

    #[inline(always)]
    pub(super) fn post_inline(
        &mut self,
        wr_id: u64,
        pieces: &[&[u8]],
        body: Body,
        wanted: SendFlags,
    ) -> Result<(), PostError> {
        if pieces.len() > self.limits.max_sge as usize {
            return Err(refuse::too_many(pieces.len(), self.limits.max_sge));
        }
        let mut bytes = 0usize;
        for piece in pieces {
            bytes = bytes.saturating_add(piece.len());
        }
        if bytes > self.limits.max_inline as usize {
            return Err(refuse::inline(bytes, self.limits.max_inline));
        }
        let quanta = inline_quanta(bytes as u32);
        let tag = Tag::new(body.common(wanted), bytes as u64, quanta.into());
        let claim = self.place(quanta.into(), wr_id, tag)?;
        let fields = HDR::INLINEDATAFLAG::SET + HDR::INLINEDATALEN.val(bytes as u64);
        let header = body.header(wanted, claim) | fields.value;
        let wqe = self.poster.quanta(claim.index).ok_or(MEMORY)?;
        let wqe = wqe.get(..quanta as usize).ok_or(MEMORY)?;
        let (first, rest) = wqe.split_first().ok_or(MEMORY)?;
        let [q0, q1, q2, q3] = first;
        inline::write(q1, rest, pieces, claim.valid);
        q2.set(body.q2);
        let header = match body.imm {
            // q0 keeps what it holds (data-path 1.7).
            None => header,
            Some(imm) => {
                q0.set(imm.into());
                header | HDR::IMMDATAFLAG::SET.value
            }
        };
        self.platform.to_device();
        q3.publish(header);
        Ok(())
    }

    /// Operations without data.
    #[inline(never)]
    pub(super) fn post_memory(
        &mut self,
        wr: &SendWr<'_>,
        wanted: SendFlags,
    ) -> Result<(), PostError> {
        let op = &wr.op;
        let [w0, w1, w2, header] = match op {
            Op::LocalInv { stag } => memory::local_inv(*stag),
            Op::BindMw(bind) => {
                self.offered(op, ExtraOps::BIND_MW)?;
                memory::bind_mw(bind)
            }
            Op::FastRegister(reg) => {
                self.offered(op, ExtraOps::FAST_REGISTER)?;
                memory::fast_register(reg)?
            }
            Op::Atomic(_) => return Err(PostError::NotOffered { op: op.name() }),
            _ => memory::nop(),
        };
        let fenced =
            self.limits.local_fence && matches!(op, Op::LocalInv { .. } | Op::FastRegister(_));
        let fence = if fenced {
            SendFlags::LOCAL_FENCE
        } else {
            SendFlags::empty()
        };
        let signals = signals(wanted.union(fence));
        let tag = Tag::new(header & OPCODE | signals, 0, 1);
        let claim = self.place(1, wr.wr_id, tag)?;
        let [q0, q1, q2, q3] = self.poster.quantum(claim.index).ok_or(MEMORY)?;
        q0.set(w0);
        q1.set(w1);
        q2.set(w2);
        self.platform.to_device();
        q3.publish(header | signals | claim.valid);
        Ok(())
    }
}
