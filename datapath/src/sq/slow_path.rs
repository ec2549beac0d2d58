//! The slow path of a post: any request, written into the ring (data-path 1.7).

use e810_hal::{Barrier, Bus, DmaWord, DmaWords};

use super::{MEMORY, SendQueue, errors, too_long};
use crate::error::PostError;
use crate::producer::Claim;
use crate::sizing::{MAX_MESSAGE, inline_quanta};
use crate::slot::SlotMemory;
use crate::status::opcode;
use crate::track::Tag;
use crate::wqe::header::{HDR, header, report_rtt, signals};
use crate::wqe::{fragment, inline, memory};
use crate::wr::{Data, ExtraOps, Op, Remote, SendFlags, SendWr, Sge, UdTarget};

/// Bits of a header.
const OPCODE: u64 = HDR::OPCODE.mask << HDR::OPCODE.shift;

/// A Q_Key with this bit set in a request stands for the QP's own, which only a
/// privileged program can have set to one like it.
const OWN_QKEY: u32 = 1 << 31;

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

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> SendQueue<P, W, M> {
    /// Posts any request.
    #[inline(never)]
    pub(super) fn post_slow(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        if self.datagram && wr.op.is_connected() {
            return Err(errors::op(&wr.op, self.limits.qp_type));
        }
        let flags = wr.flags.union(self.always);
        let solicited = flags.contains(SendFlags::SOLICITED);
        let (data, body) = match wr.op {
            Op::Send { data, imm } => {
                let opcode = either(solicited, opcode::SEND_SOLICITED, opcode::SEND);
                (data, Body::new(opcode, 0, 0, imm))
            }
            Op::SendInv { data, rkey } => {
                let opcode = either(solicited, opcode::SEND_SOLICITED_INV, opcode::SEND_INV);
                (data, Body::new(opcode, rkey, 0, None))
            }
            Op::Write { data, remote, imm } => {
                let opcode = either(solicited, opcode::RDMA_WRITE_SOLICITED, opcode::RDMA_WRITE);
                (data, Body::remote(opcode, remote, imm))
            }
            Op::Read { into, remote } => {
                let body = Body::remote(opcode::RDMA_READ, remote, None);
                return self.post_read(wr.wr_id, into, body, flags);
            }
            Op::UdSend { data, imm, to } => {
                let opcode = either(solicited, opcode::SEND_SOLICITED, opcode::SEND);
                (
                    data,
                    Body::new(opcode, to.ah, self.datagram_to(&wr.op, to)?, imm),
                )
            }
            Op::ReadInv { into, remote } => {
                self.offered(&wr.op, ExtraOps::READ_INV)?;
                let body = Body::remote(opcode::READ_LOCAL_INV, remote, None);
                return self.post_read(wr.wr_id, into, body, flags);
            }
            Op::LocalInv { .. } | Op::BindMw(_) | Op::FastRegister(_) | Op::Nop | Op::Atomic(_) => {
                return self.post_memory(wr, flags);
            }
        };
        match data {
            Data::Sges(sges) => self.post_sges(wr.wr_id, sges, body, flags),
            Data::Inline(pieces) => self.post_inline(wr.wr_id, pieces, body, flags),
        }
    }

    /// q2 of a datagram: [55:32] destination QP, [31:0] Q_Key.
    pub(super) fn datagram_to(&self, op: &Op<'_>, to: UdTarget) -> Result<u64, PostError> {
        if !self.datagram {
            return Err(errors::op(op, self.limits.qp_type));
        }
        if to.ah >= self.limits.address_handles {
            return Err(PostError::NoSuchAh {
                ah: to.ah,
                limit: self.limits.address_handles,
            });
        }
        errors::field("destination QP", to.qpn, (1 << 24) - 1)?;
        let qkey = if to.qkey & OWN_QKEY == 0 {
            to.qkey
        } else {
            self.producer.qkey()
        };
        Ok(u64::from(to.qpn) << 32 | u64::from(qkey))
    }

    pub(super) fn offered(&self, op: &Op<'_>, extra: ExtraOps) -> Result<(), PostError> {
        if self.limits.extra.contains(extra) {
            return Ok(());
        }
        Err(PostError::NotOffered { op: op.name() })
    }

    /// Fragments and bytes of SGEs that a request may have.
    #[inline(always)]
    pub(super) fn sges_fit(
        &self,
        sges: &[Sge],
        imm: Option<u32>,
    ) -> Result<(usize, u64), PostError> {
        if sges.len() > self.limits.max_sge as usize {
            return Err(errors::too_many(sges.len(), self.limits.max_sge));
        }
        let mut bytes = 0;
        for sge in sges {
            bytes += u64::from(sge.length);
        }
        if bytes > u64::from(MAX_MESSAGE) {
            return Err(too_long(sges, bytes));
        }
        // Immediate data takes the place of the first fragment.
        Ok((sges.len() + usize::from(imm.is_some()), bytes))
    }

    #[inline(always)]
    pub(super) fn post_sges(
        &mut self,
        wr_id: u64,
        sges: &[Sge],
        body: Body,
        wanted: SendFlags,
    ) -> Result<(), PostError> {
        let (fragments, bytes) = self.sges_fit(sges, body.imm)?;
        let quanta = fragments as u64 / 2 + 1;
        let tag = Tag::new(body.common(wanted), bytes, quanta);
        let claim = self.place(quanta, wr_id, tag)?;
        let header = body.header(wanted, claim) | fragment::count_field(fragments);
        let wqe = self.producer.quanta(claim.index).ok_or(MEMORY)?;
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

    /// Bytes of pieces that a request may have in itself.
    #[inline(always)]
    pub(super) fn inline_fits(&self, pieces: &[&[u8]]) -> Result<u32, PostError> {
        if pieces.len() > self.limits.max_sge as usize {
            return Err(errors::too_many(pieces.len(), self.limits.max_sge));
        }
        let mut bytes = 0usize;
        for piece in pieces {
            bytes = bytes.saturating_add(piece.len());
        }
        if bytes > self.limits.max_inline as usize {
            return Err(errors::inline(bytes, self.limits.max_inline));
        }
        Ok(bytes as u32)
    }

    #[inline(always)]
    fn post_inline(
        &mut self,
        wr_id: u64,
        pieces: &[&[u8]],
        body: Body,
        wanted: SendFlags,
    ) -> Result<(), PostError> {
        let bytes = self.inline_fits(pieces)?;
        let quanta = inline_quanta(bytes);
        let tag = Tag::new(body.common(wanted), bytes.into(), quanta.into());
        let claim = self.place(quanta.into(), wr_id, tag)?;
        let fields = HDR::INLINEDATAFLAG::SET + HDR::INLINEDATALEN.val(bytes.into());
        let header = body.header(wanted, claim) | fields.value;
        let wqe = self.producer.quanta(claim.index).ok_or(MEMORY)?;
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

    /// The words of an operation without data, but for its flags and its valid bit.
    #[inline(always)]
    pub(super) fn memory_words(&self, op: &Op<'_>) -> Result<[u64; 4], PostError> {
        Ok(match op {
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
        })
    }

    /// Operations without data.
    #[inline(never)]
    fn post_memory(&mut self, wr: &SendWr<'_>, wanted: SendFlags) -> Result<(), PostError> {
        let op = &wr.op;
        let [w0, w1, w2, header] = self.memory_words(op)?;
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
        let [q0, q1, q2, q3] = self.producer.quantum(claim.index).ok_or(MEMORY)?;
        q0.set(w0);
        q1.set(w1);
        q2.set(w2);
        self.platform.to_device();
        q3.publish(header | signals | claim.valid);
        Ok(())
    }
}

#[inline(always)]
const fn either(solicited: bool, with: u8, without: u8) -> u8 {
    if solicited { with } else { without }
}
