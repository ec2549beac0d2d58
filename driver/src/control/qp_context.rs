//! Filling the contexts of queue pairs and writing them for the device.

use e810_cqp::op::{HwQpType, QueueMemory};
use e810_cqp::qpc::{QpContext, RoceContext, RqContext, SqContext, StatsInstance};
use e810_datapath::slot::QpKey;
use e810_hal::{DmaWord, DmaWords, Iova, Platform};
use e810_types::QpType;

use super::{Control, PAIR_BYTES, PAIR_SHADOW};
use crate::addr::Mtu;
use crate::attr::QpInit;
use crate::error::Result;
use crate::qp::Made;
use crate::rings::{QpPlace, Sizes};

impl<P: Platform> Control<P> {
    /// The context that a queue pair begins with.
    pub(super) fn first_context(
        &self,
        (sq, rq): (SqContext, RqContext),
        qs_handle: u16,
        key: QpKey,
        pd: u32,
        made: &Made,
    ) -> RoceContext {
        let mut context = RoceContext::new(sq, rq, self.lan.mac, qs_handle);
        context.completion_context = key.bits();
        // For datagrams, and for connections until they set another: the greatest MTU that fits
        // the interface (data-path 8.10).
        let mtu = Mtu::fitting(self.lan.mtu).unwrap_or(Mtu::Mtu256);
        context.path_mtu = mtu.bytes() as u16;
        // A connection gets its rights on the way to INIT; datagrams have none.
        if made.qp_type.is_datagram() {
            context.pd = pd;
        }
        let tuning = made.tuning;
        context.window = tuning.window;
        context.ack_credits = tuning.ack_credits;
        context.rto_min = tuning.rto_min;
        context.ird = tuning.max_dest_rd_atomic.into();
        context.ord = tuning.max_rd_atomic.into();
        context.congestion = tuning.congestion;
        context.privileges.privileged = made.fast_register;
        context.privileges.fast_register = made.fast_register;
        context.privileges.bind = self.quirks.memory_windows;
        if let Some(index) = made.counters {
            context.stats = StatsInstance { index, used: true };
        }
        context
    }

    pub(super) fn context_of(&self, id: u32) -> Iova {
        let offset = u64::from(id) * PAIR_BYTES as u64;
        // The pool exists, so its addresses do not wrap.
        Iova(self.pool.iova().0.wrapping_add(offset))
    }

    pub(super) fn shadow_of(&self, id: u32) -> Iova {
        Iova(self.context_of(id).0.wrapping_add(PAIR_SHADOW))
    }

    /// Zeroes the shadow area, before a queue pair is made: the device wrote the tail of an
    /// earlier life there, and existing drivers zero it.
    pub(super) fn clear_shadow(&self, id: u32) {
        let place = self.pool.block::<{ PAIR_BYTES / 8 }>(id as usize);
        let cells = place.into_iter().flatten();
        for cell in cells.skip((PAIR_SHADOW / 8) as usize) {
            cell.set(0);
        }
    }

    /// Writes the whole context for the next command (control-path 5.5). No earlier command that
    /// reads it is open.
    pub(super) fn write_context(&self, id: u32, context: &RoceContext) -> Result<()> {
        let words: QpContext = context.encode()?;
        let place = self.pool.block::<{ PAIR_BYTES / 8 }>(id as usize);
        for (cell, word) in place.into_iter().flatten().zip(words) {
            cell.set(word);
        }
        // Before the command that makes the device read it.
        self.platform.to_device();
        Ok(())
    }
}

/// QPTYPE of a service (control-path 5.3).
pub(super) const fn hardware_type(qp_type: QpType) -> HwQpType {
    if qp_type.is_datagram() {
        HwQpType::RoceUd
    } else {
        HwQpType::RoceRc
    }
}

/// The two queues as a context has them.
pub(super) fn queue_contexts(
    init: &QpInit<'_>,
    sizes: Sizes,
    place: QpPlace,
) -> (SqContext, RqContext) {
    let sq = SqContext {
        memory: QueueMemory::Contiguous(place.sq),
        quanta: sizes.sq.quanta,
        cq: init.send_cq.key.id(),
    };
    let rq = RqContext {
        memory: QueueMemory::Contiguous(place.rq),
        quanta: sizes.rq.quanta(),
        wqe_shift: sizes.rq.shift,
        cq: init.recv_cq.key.id(),
    };
    (sq, rq)
}
