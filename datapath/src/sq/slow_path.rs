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

/// Header bits that the tracker of a request has too.
pub(super) const COMMON: u64 = HDR::OPCODE.mask << HDR::OPCODE.shift | signals(SendFlags::all());

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
    pub(super) imm: Option<u32>,
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

/// What a request puts into the ring.
pub(super) enum Content<'a> {
    /// Its data by reference.
    Sges(&'a [Sge], Body),
    /// Where a READ puts what it reads.
    Read(&'a [Sge], Body),
    /// Its data.
    Inline(&'a [&'a [u8]], Body),
    /// The words of an operation without data, but for flags of the request and the valid bit.
    Words([u64; 4]),
}

impl<P: Bus + Barrier, W: DmaWords, M: SlotMemory> SendQueue<P, W, M> {
    /// Posts any request.
    #[inline(never)]
    pub(super) fn post_slow(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        let wanted = wr.flags.union(self.always);
        match self.content(&wr.op, wanted)? {
            Content::Sges(sges, body) => self.post_sges(wr.wr_id, sges, body, wanted),
            Content::Read(into, body) => self.post_read(wr.wr_id, into, body, wanted),
            Content::Inline(pieces, body) => self.post_inline(wr.wr_id, pieces, body, wanted),
            Content::Words(words) => self.post_words(wr.wr_id, words, wanted),
        }
    }

    /// What a request puts into the ring, if the queue takes such requests.
    #[inline(always)]
    pub(super) fn content<'a>(
        &self,
        op: &Op<'a>,
        wanted: SendFlags,
    ) -> Result<Content<'a>, PostError> {
        if self.datagram && op.is_connected() {
            return Err(errors::op(op, self.limits.qp_type));
        }
        let solicited = wanted.contains(SendFlags::SOLICITED);
        let (data, body) = match *op {
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
            Op::UdSend { data, imm, to } => {
                let opcode = either(solicited, opcode::SEND_SOLICITED, opcode::SEND);
                (
                    data,
                    Body::new(opcode, to.ah, self.datagram_to(op, to)?, imm),
                )
            }
            Op::Read { into, remote } => {
                let body = Body::remote(opcode::RDMA_READ, remote, None);
                return Ok(Content::Read(into, body));
            }
            Op::ReadInv { into, remote } => {
                self.offered(op, ExtraOps::READ_INV)?;
                let body = Body::remote(opcode::READ_LOCAL_INV, remote, None);
                return Ok(Content::Read(into, body));
            }
            Op::LocalInv { stag } => {
                return Ok(Content::Words(self.local_fence(memory::local_inv(stag))));
            }
            Op::BindMw(bind) => {
                self.offered(op, ExtraOps::BIND_MW)?;
                return Ok(Content::Words(memory::bind_mw(bind)));
            }
            Op::FastRegister(reg) => {
                self.offered(op, ExtraOps::FAST_REGISTER)?;
                return Ok(Content::Words(
                    self.local_fence(memory::fast_register(reg)?),
                ));
            }
            Op::Nop => return Ok(Content::Words(memory::nop())),
            Op::Atomic(_) => return Err(PostError::NotOffered { op: op.name() }),
        };
        Ok(match data {
            Data::Sges(sges) => Content::Sges(sges, body),
            Data::Inline(pieces) => Content::Inline(pieces, body),
        })
    }

    /// The words of an operation that waits for those before it, if the queue is made so.
    const fn local_fence(&self, [w0, w1, w2, header]: [u64; 4]) -> [u64; 4] {
        match self.limits.local_fence {
            true => [w0, w1, w2, header | signals(SendFlags::LOCAL_FENCE)],
            false => [w0, w1, w2, header],
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

    /// Posts an operation without data.
    #[inline(never)]
    fn post_words(
        &mut self,
        wr_id: u64,
        [w0, w1, w2, header]: [u64; 4],
        wanted: SendFlags,
    ) -> Result<(), PostError> {
        let header = header | signals(wanted);
        let claim = self.place(1, wr_id, Tag::new(header & COMMON, 0, 1))?;
        let [q0, q1, q2, q3] = self.producer.quantum(claim.index).ok_or(MEMORY)?;
        q0.set(w0);
        q1.set(w1);
        q2.set(w2);
        self.platform.to_device();
        q3.publish(header | claim.valid);
        Ok(())
    }
}

#[inline(always)]
const fn either(solicited: bool, with: u8, without: u8) -> u8 {
    if solicited { with } else { without }
}
