//! Queue pairs: made, destroyed.

use e810_cqp::hmc::Object as HmcObject;
use e810_cqp::op::{
    CreateQp, DestroyQp, FlushWqes, ModifyQp, QpState as HwState, QpType, QueueMemory,
};
use e810_cqp::qpc::{QpContext, RoceContext, RqContext, SqContext};
use e810_datapath::sizing::{RqSize, SqSize};
use e810_datapath::slot::{QpKey, QpShape};
use e810_datapath::state::{QpState, Service};
use e810_datapath::{ExtraOps, RecvQueue, SendLimits, SendQueue};
use e810_hal::{Cell, DmaBuf, DmaLayout, Iova, Platform, Words};

use super::{Control, PAIR_BYTES, PAIR_SHADOW, run};
use crate::attr::{QpCaps, QpInit};
use crate::cold::LanReady;
use crate::error::{Error, Object, Result};
use crate::memory::Pd;
use crate::pair::Qp;

/// Alignment of a work queue's memory (control-path 5.1).
const RING_ALIGN: usize = 256;

impl<P: Platform> Control<P> {
    /// Makes a reliable-connection queue pair in RESET.
    ///
    /// # Errors
    /// Sizes beyond the device, no number or memory left, or the device's
    /// refusal. Nothing is left behind, unless the device did not answer.
    pub fn create_qp(&mut self, pd: &Pd, init: &QpInit<'_, P>) -> Result<Qp<P>> {
        self.own(pd.owner, Object::Pd, pd.id)?;
        for cq in [init.send_cq, init.recv_cq] {
            self.own(cq.owner, Object::Cq, cq.key.id())?;
        }
        let sizes = Sizes::of(&init.caps)?;
        self.reap();
        let id = self.qps.take().ok_or(Error::Exhausted {
            object: Object::Qp,
            limit: self.qps.capacity(),
        })?;
        let made = self.create_qp_as(id, pd, init, sizes);
        match &made {
            Ok(_) => {
                self.pd_users.join(pd.id);
                self.cq_users.join(init.send_cq.key.id());
                self.cq_users.join(init.recv_cq.key.id());
            }
            Err(error) => self.qps.give_unless_open(id, error),
        }
        made
    }

    fn create_qp_as(
        &mut self,
        id: u32,
        pd: &Pd,
        init: &QpInit<'_, P>,
        sizes: Sizes,
    ) -> Result<Qp<P>> {
        self.hmc.hmc.ensure(&mut self.cqp, HmcObject::Qp, id)?;
        // No path yet, so no priority: every queue pair has the class of
        // priority 0, which is 0 without DCB.
        let class = self.lan_side.0.as_ref().map_or(0, LanReady::default_class);
        let lan = &mut self.lan_side;
        let qs_handle = self.scheduler.join(&mut self.cqp, lan, class)?;
        let made = self.create_qp_in(id, pd, init, sizes, (class, qs_handle));
        if made.is_err() {
            // The first error says more than one that undoing may add.
            let _ = self
                .scheduler
                .leave(&mut self.cqp, &mut self.lan_side, class);
        }
        made
    }

    fn create_qp_in(
        &mut self,
        id: u32,
        pd: &Pd,
        init: &QpInit<'_, P>,
        sizes: Sizes,
        (class, qs_handle): (u8, u16),
    ) -> Result<Qp<P>> {
        let (sq, rq) = self.allocate_rings(sizes)?;
        let shape = QpShape {
            sq_quanta: sizes.sq.quanta,
            rq_quanta: sizes.rq.quanta(),
            service: Service::Rc,
            send_cq: init.send_cq.key,
            recv_cq: init.recv_cq.key,
        };
        let key = match self.registry.open_qp(id, &shape) {
            Ok(key) => key,
            Err(error) => {
                sq.release();
                rq.release();
                return Err(e810_datapath::Error::from(error).into());
            }
        };
        let context = self.first_context(key, init, sizes, &sq, &rq, qs_handle);
        let created = self.write_context(id, &context).and_then(|address| {
            let command = CreateQp::new(id, QpType::RoceRc, address, self.shadow_of(id));
            Ok(self.cqp.execute(&command)?)
        });
        if let Err(error) = created {
            // From here on no CQE and no event finds it. The QP was opened just
            // now, so neither can refuse.
            let _ = self.registry.hide_qp(key);
            if !error.leaves_command_open() {
                let _ = self.registry.retire(key);
                self.reap();
                sq.release();
                rq.release();
            }
            return Err(error);
        }
        let limits = SendLimits {
            service: Service::Rc,
            max_sge: init.caps.max_send_sge,
            max_inline: init.caps.max_inline,
            signal_all: false,
            extra: ExtraOps::empty(),
        };
        let wrong = e810_datapath::Error::from;
        let send =
            SendQueue::new(self.platform.clone(), sq, self.slots(), key, limits).map_err(wrong)?;
        let recv = RecvQueue::new(
            self.platform.clone(),
            rq,
            self.slots(),
            key,
            sizes.rq,
            init.caps.max_recv_sge,
        )
        .map_err(wrong)?;
        Ok(Qp {
            owner: self.tag(),
            key,
            pd: pd.id,
            context,
            caps: QpCaps {
                max_send_wr: sizes.sq.max_wr,
                max_recv_wr: sizes.rq.max_wr,
                ..init.caps
            },
            arp: None,
            class,
            slots: self.slots(),
            send,
            recv,
        })
    }

    fn allocate_rings(&self, sizes: Sizes) -> Result<(DmaBuf<P>, DmaBuf<P>)> {
        let ring = |bytes: u32| {
            let layout = DmaLayout::new(bytes as usize, RING_ALIGN);
            DmaBuf::new(self.platform.clone(), layout)
        };
        let sq = ring(sizes.sq.bytes())?;
        match ring(sizes.rq.bytes()) {
            Ok(rq) => Ok((sq, rq)),
            Err(error) => {
                sq.release();
                Err(error.into())
            }
        }
    }

    fn first_context(
        &self,
        key: QpKey,
        init: &QpInit<'_, P>,
        sizes: Sizes,
        sq: &DmaBuf<P>,
        rq: &DmaBuf<P>,
        qs_handle: u16,
    ) -> RoceContext {
        let sq = SqContext {
            memory: QueueMemory::Contiguous(sq.iova()),
            quanta: sizes.sq.quanta,
            cq: init.send_cq.key.id(),
        };
        let rq = RqContext {
            memory: QueueMemory::Contiguous(rq.iova()),
            quanta: sizes.rq.quanta(),
            wqe_shift: sizes.rq.shift,
            cq: init.recv_cq.key.id(),
        };
        let mut context = RoceContext::new(sq, rq, self.lan.mac, qs_handle);
        context.completion_context = key.bits();
        context
    }

    /// Destroys a queue pair and frees its memory. What was not polled yet
    /// never appears.
    ///
    /// # Errors
    /// [`Error::Foreign`], or the device's refusal; the queue pair is
    /// returned.
    pub fn destroy_qp(&mut self, mut qp: Qp<P>) -> Result<(), (Qp<P>, Error)> {
        match self.quiesce_qp(&mut qp) {
            Ok(()) => {}
            Err(error) => return Err((qp, error)),
        }
        // From here on no CQE and no event finds it.
        let _ = self.registry.hide_qp(qp.key);
        let id = qp.key.id();
        let command = DestroyQp {
            remove_hash_entry: true,
            ..DestroyQp::new(id, QpType::RoceRc, self.context_of(id), self.shadow_of(id))
        };
        if let Err(error) = self.cqp.execute(&command) {
            return Err((qp, error.into()));
        }
        let _ = self.registry.retire(qp.key);
        self.pd_users.leave(qp.pd);
        self.cq_users.leave(qp.context.sq.cq);
        self.cq_users.leave(qp.context.rq.cq);
        qp.send.into_ring().release();
        qp.recv.into_ring().release();
        // The device no longer uses either; an error here leaves a table entry.
        let mut leftover = self
            .scheduler
            .leave(&mut self.cqp, &mut self.lan_side, qp.class);
        if let Some(index) = qp.arp {
            leftover = leftover.and(self.neighbours.leave(&mut self.cqp, index));
        }
        if let Err(error) = leftover {
            e810_hal::log_warn!("queue pair {} left a table entry behind: {}", id, error);
        }
        self.reap();
        Ok(())
    }

    /// Stops the device's side before DESTROY_QP: to error, then flush
    /// (control-path 5.5, last row).
    fn quiesce_qp(&mut self, qp: &mut Qp<P>) -> Result<()> {
        let id = qp.key.id();
        self.own(qp.owner, Object::Qp, id)?;
        // What an event has marked meanwhile has not been told to the device.
        // Another queue pair's failure is no reason to keep this one; a device
        // that is gone fails the commands below too.
        let _ = self.service();
        let attended = self.forget_failing(qp.key)?;
        if attended || qp.state() == QpState::Err {
            return Ok(());
        }
        let stop = self.to_error(id);
        run(&mut self.cqp, &stop)?;
        self.last_flush(&Self::general_flush(id))
    }

    /// The flush before DESTROY_QP. What the device cannot flush, for example
    /// into a CQ that overflowed, ends with the queue pair.
    pub(super) fn last_flush(&mut self, command: &FlushWqes) -> Result<()> {
        match run(&mut self.cqp, command) {
            Err(error) if error.leaves_command_open() => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn to_error(&self, id: u32) -> ModifyQp {
        ModifyQp::new(
            id,
            QpType::RoceRc,
            self.context_of(id),
            self.shadow_of(id),
            HwState::Error,
        )
    }

    pub(super) fn context_of(&self, id: u32) -> Iova {
        let offset = u64::from(id) * PAIR_BYTES as u64;
        // The pool exists, so its addresses do not wrap.
        Iova(self.pool.iova().0.wrapping_add(offset))
    }

    pub(super) fn shadow_of(&self, id: u32) -> Iova {
        Iova(self.context_of(id).0.wrapping_add(PAIR_SHADOW))
    }

    /// Writes the whole context, as before every QP command (control-path 5.5).
    pub(super) fn write_context(&self, id: u32, context: &RoceContext) -> Result<Iova> {
        let words: QpContext = context.encode()?;
        let place = self.pool.block::<{ PAIR_BYTES / 8 }>(id as usize);
        for (cell, word) in place.into_iter().flatten().zip(words) {
            cell.set(word);
        }
        // Before the command that makes the device read it.
        self.platform.to_device();
        Ok(self.context_of(id))
    }
}

/// Sizes of both queues.
#[derive(Clone, Copy)]
struct Sizes {
    sq: SqSize,
    rq: RqSize,
}

impl Sizes {
    fn of(caps: &QpCaps) -> Result<Self> {
        let wrong = e810_datapath::Error::from;
        Ok(Self {
            sq: SqSize::new(caps.max_send_wr, caps.max_send_sge, caps.max_inline).map_err(wrong)?,
            rq: RqSize::new(caps.max_recv_wr, caps.max_recv_sge).map_err(wrong)?,
        })
    }
}
