//! The send queue: requests into the ring, straight into its cells.
//!
//! ```text
//! body words ─ to_device ─ header (valid bit) ─ ... ─ to_device ─ PFPE_WQEALLOC
//! ```
//! Each request is valid to the device as soon as its header is; the doorbell
//! is rung once a list, after the header of the last posted request, also when
//! a later request of the list was refused, and never when nothing was posted.

use e810_hal::regs::PFPE_WQEALLOC;
use e810_hal::{Barrier, Bus, Cell, Words};
use e810_types::{QpState, QpType, WorkQueue};

use crate::error::{Bound, PostError, Refused, SizeError};
use crate::post::{Poster, Shape};
use crate::sizing::{MAX_INLINE, MAX_SGES, SQ_RESERVE};
use crate::slot::{QpKey, SlotMemory, Slots};
use crate::status::opcode;
use crate::track::Tag;
use crate::wqe::fragment;
use crate::wqe::header::{header, signals};
use crate::wr::{Data, ExtraOps, Op, SendFlags, SendWr, Sge, UdTarget};

mod one;
mod place;
mod read_fence;
mod refuse;
mod write;

use place::CLEAR;
use read_fence::ReadFence;
pub(crate) use refuse::too_long;
use write::Body;

/// Quanta that stay free while the queue runs (data-path 1.1).
const RUN_RESERVE: u64 = SQ_RESERVE as u64 - 1;

/// Address handles that a header can name (data-path 1.4, AHID).
const MAX_HANDLES: u32 = 1 << 25;

/// What a send queue was created with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SendLimits {
    /// Kind of service.
    pub service: QpType,
    /// Most SGEs of a request, at most 13.
    pub max_sge: u32,
    /// Most inline bytes of a request, at most 101.
    pub max_inline: u32,
    /// Address handles of the device: a datagram names one below this.
    pub address_handles: u32,
    /// Every request is signaled.
    pub signal_all: bool,
    /// Local invalidations and fast registrations carry LOCALFENCE, whatever their
    /// flags say.
    pub local_fence: bool,
    /// After so many READs the next carries FENCE, whatever its flags say; 0 for
    /// none. A queue with such a rate posts its READs a little more slowly.
    pub read_fence_rate: u8,
    /// Operations offered beyond those of this generation.
    #[cfg_attr(feature = "defmt", defmt(Debug2Format))]
    pub extra: ExtraOps,
}

/// A send queue. `P` rings the doorbell, `W` is the ring, `M` the slot table.
#[derive(Debug)]
pub struct SendQueue<P, W, M: SlotMemory> {
    platform: P,
    poster: Poster<W, M>,
    limits: SendLimits,
    /// Flags of every request.
    always: SendFlags,
    /// Flags of every READ, where it is posted as a plain request.
    always_read: SendFlags,
    read_fence: ReadFence,
    datagram: bool,
    /// The QP's own Q_Key.
    qkey: u32,
}

/// A Q_Key with this bit set in a request stands for the QP's own, which only a
/// privileged program can have set to one like it.
const OWN_QKEY: u32 = 1 << 31;

/// No flag of a request: set in those of every request of a queue that has none
/// of the plain kind.
const NEVER_PLAIN: SendFlags = SendFlags::from_bits_retain(1 << 7);
/// Flags that a plain request may have: the lowest bits.
const PLAIN: SendFlags = SendFlags::FENCE
    .union(SendFlags::LOCAL_FENCE)
    .union(SendFlags::SIGNALED);

const _: () = assert!(PLAIN.bits() == 7);

const MEMORY: PostError = PostError::Memory {
    queue: WorkQueue::Send,
};

impl<P: Bus + Barrier, W: Words, M: SlotMemory> SendQueue<P, W, M> {
    /// The send queue of an opened QP, on `ring`: zeroed memory of at least the
    /// quanta that the QP was opened with.
    ///
    /// # Errors
    /// [`SizeError`]: limits beyond the device, a ring smaller than the QP's,
    /// or one below 512 quanta; `QP` when the QP does not exist.
    pub fn new(
        platform: P,
        ring: W,
        slots: Slots<M>,
        qp: QpKey,
        limits: SendLimits,
    ) -> Result<Self, SizeError> {
        for (field, value, limit) in [
            ("max_send_sge", limits.max_sge, MAX_SGES),
            ("max_inline_data", limits.max_inline, MAX_INLINE),
            ("address handles", limits.address_handles, MAX_HANDLES),
        ] {
            if value > limit {
                return Err(SizeError {
                    field,
                    value: value.into(),
                    bound: Bound::AtMost(limit.into()),
                });
            }
        }
        // Below that, the reserve leaves no room.
        let least = u64::from(SQ_RESERVE).next_power_of_two();
        let shape = Shape {
            least,
            reserve: RUN_RESERVE,
            run: CLEAR,
        };
        let poster = Poster::new(ring, &slots, qp, WorkQueue::Send, shape)?;
        let mut always = SendFlags::empty();
        always.set(SendFlags::SIGNALED, limits.signal_all);
        if limits.service.is_datagram() || limits.max_sge == 0 {
            always = always.union(NEVER_PLAIN);
        }
        // A READ that may have to be fenced takes the way that counts it; no other
        // request has work with that.
        let always_read = match limits.read_fence_rate {
            0 => always,
            _ => always.union(NEVER_PLAIN),
        };
        Ok(Self {
            platform,
            poster,
            limits,
            always,
            always_read,
            read_fence: ReadFence::new(limits.read_fence_rate),
            datagram: limits.service.is_datagram(),
            qkey: 0,
        })
    }

    /// Posts a list of requests and rings the doorbell once.
    ///
    /// # Errors
    /// [`Refused`] at the first request that cannot be posted: those before it
    /// are posted and the doorbell was rung for them; nothing of it or of those
    /// after it is in the ring.
    #[inline]
    pub fn post_send(&mut self, list: &[SendWr<'_>]) -> Result<(), Refused> {
        // Most lists are of one, and plain.
        if let [wr] = list
            && self.poster.is_open(WorkQueue::Send)
            && self.post_plain(wr).is_some()
        {
            self.ring();
            return Ok(());
        }
        self.post_list(list)
    }

    /// Posts any list of requests.
    #[inline(never)]
    fn post_list(&mut self, list: &[SendWr<'_>]) -> Result<(), Refused> {
        if !self.poster.is_open(WorkQueue::Send) {
            return self.post_late(list);
        }
        self.post_open(list)
    }

    /// Posts a list in a state in which the device does nothing with it: in ERR
    /// and SQE it is taken, and completed by software.
    #[cold]
    #[inline(never)]
    fn post_late(&mut self, list: &[SendWr<'_>]) -> Result<(), Refused> {
        match self.poster.state() {
            QpState::Err | QpState::Sqe => {
                let before = self.poster.head();
                let result = self.post_open(list);
                self.poster.tell_since(before);
                result
            }
            state => refuse::state(list, state),
        }
    }

    /// Posts a list whatever the state.
    #[inline(never)]
    fn post_open(&mut self, list: &[SendWr<'_>]) -> Result<(), Refused> {
        let mut posted = 0usize;
        let mut result = Ok(());
        for wr in list {
            if self.post_plain(wr).is_none()
                && self.post_short(wr).is_none()
                && let Err(error) = self.post(wr)
            {
                result = Err(Refused { posted, error });
                break;
            }
            posted = posted.wrapping_add(1);
        }
        if posted > 0 {
            self.ring();
        }
        result
    }

    /// Tells the device: orders the headers before the doorbell.
    #[inline(always)]
    fn ring(&self) {
        self.platform.to_device();
        PFPE_WQEALLOC.set(&self.platform, self.poster.qp_id());
    }

    /// The QP's own Q_Key, after MODIFY_QP: what datagrams carry whose request
    /// names one with the highest bit set (the rule of IB; the device does not
    /// apply it, data-path 7.2).
    pub fn set_qkey(&mut self, qkey: u32) {
        self.qkey = qkey;
    }

    /// Begins anew, after the QP was destroyed and created again under the same
    /// number ([`Registry::reopen`](crate::Registry::reopen)): empty, from
    /// quantum 0 on.
    ///
    /// # Errors
    /// As [`new`](Self::new), with the queue unchanged.
    pub fn restart(&mut self, slots: &Slots<M>, qp: QpKey) -> Result<(), SizeError> {
        self.poster.restart(slots, qp)?;
        self.qkey = 0;
        self.read_fence = ReadFence::new(self.limits.read_fence_rate);
        Ok(())
    }

    /// Quanta free for requests and their padding.
    #[must_use]
    pub fn free_quanta(&mut self) -> u32 {
        self.poster.refresh() as u32
    }

    /// The QP's id.
    #[must_use]
    pub fn qp_id(&self) -> u32 {
        self.poster.qp_id()
    }

    /// Gives the ring back, once the QP is destroyed.
    pub fn into_ring(self) -> W {
        self.poster.into_ring()
    }

    /// Posts a plain request: one SGE on a connected QP, where nothing but the
    /// WQE is to be written. `None`, with nothing changed, for any other, and for
    /// one that is not in order.
    #[inline(always)]
    fn post_plain(&mut self, wr: &SendWr<'_>) -> Option<()> {
        // Code for each: a key and an address that are not there, or an opcode
        // that is a constant, cost nothing then.
        match &wr.op {
            Op::Send {
                data: Data::Sges([sge]),
                imm: None,
            } => self.post_sge(wr, sge, self.always, opcode::SEND, 0, 0),
            Op::Write {
                data: Data::Sges([sge]),
                remote,
                imm: None,
            } => {
                let (low, addr) = (remote.rkey, remote.addr);
                self.post_sge(wr, sge, self.always, opcode::RDMA_WRITE, low, addr)
            }
            Op::Read {
                into: [sge],
                remote,
            } => {
                let (low, addr) = (remote.rkey, remote.addr);
                self.post_sge(wr, sge, self.always_read, opcode::RDMA_READ, low, addr)
            }
            _ => None,
        }
    }

    #[inline(always)]
    fn post_sge(
        &mut self,
        wr: &SendWr<'_>,
        sge: &Sge,
        always: SendFlags,
        opcode: u8,
        low: u32,
        addr: u64,
    ) -> Option<()> {
        let wanted = SendFlags::from_bits_retain(wr.flags.bits() | always.bits());
        let word = fragment::only(sge)?;
        if wanted.bits() > PLAIN.bits() || self.poster.is_special() {
            return None;
        }
        // No other bit is set: see above.
        let common = header(opcode, 0) | signals(wanted);
        let tag = Tag::new(common, fragment::bytes(word), 1);
        let ([q0, q1, q2, q3], valid) = self.poster.claim_one(WorkQueue::Send, wr.wr_id, tag)?;
        q0.set(sge.addr);
        q1.set(word | valid);
        q2.set(addr);
        self.platform.to_device();
        q3.publish(common | u64::from(low) | valid);
        Some(())
    }

    /// Posts a plain request of inline data: one piece on a connected QP, where
    /// nothing but the WQE is to be written. `None`, with nothing changed, for
    /// any other, and for one that is not in order.
    #[inline(always)]
    fn post_short(&mut self, wr: &SendWr<'_>) -> Option<()> {
        match &wr.op {
            Op::Send {
                data: Data::Inline([bytes]),
                imm: None,
            } => self.post_bytes(wr, bytes, header(opcode::SEND, 0), 0),
            Op::Write {
                data: Data::Inline([bytes]),
                remote,
                imm: None,
            } => {
                let header = header(opcode::RDMA_WRITE, remote.rkey);
                self.post_bytes(wr, bytes, header, remote.addr)
            }
            _ => None,
        }
    }

    /// Posts any request.
    #[inline(never)]
    fn post(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        if self.datagram && wr.op.is_connected() {
            return Err(refuse::op(&wr.op, self.limits.service));
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
    fn datagram_to(&self, op: &Op<'_>, to: UdTarget) -> Result<u64, PostError> {
        if !self.datagram {
            return Err(refuse::op(op, self.limits.service));
        }
        if to.ah >= self.limits.address_handles {
            return Err(PostError::NoSuchAh {
                ah: to.ah,
                limit: self.limits.address_handles,
            });
        }
        refuse::field("destination QP", to.qpn, (1 << 24) - 1)?;
        let qkey = if to.qkey & OWN_QKEY == 0 {
            to.qkey
        } else {
            self.qkey
        };
        Ok(u64::from(to.qpn) << 32 | u64::from(qkey))
    }

    fn offered(&self, op: &Op<'_>, extra: ExtraOps) -> Result<(), PostError> {
        if self.limits.extra.contains(extra) {
            return Ok(());
        }
        Err(PostError::NotOffered { op: op.name() })
    }
}

#[inline(always)]
const fn either(solicited: bool, with: u8, without: u8) -> u8 {
    if solicited { with } else { without }
}
